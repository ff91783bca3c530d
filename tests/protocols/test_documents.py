import contextlib
import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from arena.protocols import ConfigError, SourceError, parse_document, read_document, validate_model
from arena.protocols.documents import read_scalar, read_value


def faults(text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        parse_document(text, "f.yaml")
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("3e-3", 3e-3),
        (".5", 0.5),
        ("-7", -7),
        ("012", 12),
        ("0x1f", 31),
        ("0o17", 15),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("2024-01-01", "2024-01-01"),
        (".inf", float("inf")),
    ],
)
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    found = parse_document(f"a: {text}").data["a"]
    assert found == value
    assert type(found) is type(value)
    assert read_scalar(text) == value
    assert read_value(f" {text} ") == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'5'", "5"),
        ('"true"', "true"),
        ("' a '", " a "),
        ("'it''s'", "it's"),
        ("'a' and 'b'", "'a' and 'b'"),
        ("'", "'"),
        ("", None),
        ("a: b # c", "a: b # c"),
        ("[1, 2", "[1, 2"),
        ("{{ answer }}", "{{ answer }}"),
    ],
)
def test_quotes_keep_a_value_text_and_brackets_are_text_unless_asked_for(text: str, value: Any) -> None:
    assert read_value(text) == value


def test_nested_values_are_read_where_they_are_asked_for() -> None:
    assert read_value("[0, 1e5, no]", nested=True) == [0, 1e5, "no"]
    assert read_value("{kind: exact}", nested=True) == {"kind": "exact"}
    assert read_value("'{{ answer }}'", nested=True) == "{{ answer }}"
    for bad in ("[1, 2", "{{ answer }}", "[a] b"):
        with pytest.raises(ConfigError, match="write it in quotes"):
            read_value(bad, nested=True)
    with pytest.raises(ConfigError, match="too long"):
        read_value("9" * 400)


def test_a_changed_value_has_no_place_in_the_file() -> None:
    document = parse_document("a: {b: 1}\nc: 2\n", "f.yaml")
    document.change(("a", "b"), 5)
    document.change(("d", "e", "f"), 6)
    assert document.data == {"a": {"b": 5}, "c": 2, "d": {"e": {"f": 6}}}
    assert document.has(("d", "e"))
    places = {path: document.position(path) for path in (("a",), ("a", "b"), ("a", "b", "x"), ("c",), ("d",))}
    assert list(places.values()) == [(1, 4), (0, 0), (0, 0), (2, 4), (0, 0)]
    with pytest.raises(SourceError, match=r"f\.yaml:0:0: c\.x: 'c' is not a mapping, so 'c\.x' cannot be set"):
        document.change(("c", "x"), 1)


def test_keys_stay_as_written() -> None:
    assert parse_document("on: 1\nyes: 2\n1: 3\nnull: 4").data == {"on": 1, "yes": 2, "1": 3, "null": 4}


def test_quoted_scalars_are_text() -> None:
    assert parse_document("a: 'true'\nb: \"3\"\nc: ''\nd:").data == {"a": "true", "b": "3", "c": "", "d": None}


def test_places_of_keys_values_and_characters_inside_texts() -> None:
    document = parse_document(
        "a:\n  b: [1, 'two words', plain text]\nblock: |\n  first\n   second\nfold: >-\n  x\n  y\n"
    )
    assert document.position(("a", "b", 1)) == (2, 10)
    assert document.position(("a", "b", 1), offset=4) == (2, 15)
    assert document.position(("a", "b", 2), offset=6) == (2, 29)
    assert document.position(("a", "b"), key=True) == (2, 3)
    assert document.position(("block",), offset=len("first\n sec")) == (5, 7)
    assert document.position(("fold",), offset=2) == (6, 7)
    assert document.position(("a", "missing", 3)) == (2, 3)
    assert str(document.fault(("a", "b", 1), "bad")) == "<text>:2:10: a.b[1]: bad"


def test_all_duplicate_keys_are_reported() -> None:
    assert faults("a: 1\nb: {c: 1, c: 2}\na: 3\n") == [
        "f.yaml:2:11: b: key 'c' is written twice (first in line 2)",
        "f.yaml:3:1: key 'a' is written twice (first in line 1)",
    ]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n" for old, new in zip("abcd", "bcde", strict=True)
)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (BOMB, "expands to more than 10,000 values"),
        ("a: &x [1, *x]", "f.yaml:1:11: a[1]: '*x' contains itself"),
        ("a: &x {b: *x}", "'*x' contains itself"),
        ("a: *x", "'*x' has no anchor"),
        ("k: &k word\n*k : 1", "cannot be a key"),
        ("[" * 5000, "nest"),
        ("{a: " * 5000, "nested deeper than 100 levels"),
        ("- " * 5000, "nested deeper than 100 levels"),
        ("a: !!python/object/apply:os.system [ls]", "f.yaml:1:4: a: tag"),
        ("a: !x 1", "tag '!x' is not supported"),
        ("a: 1\n---\nb: 2", "f.yaml:2:1: a second document"),
        ("[1, 2]: x", "f.yaml:1:1: a key must be a word"),
        ("x: {{ name }}", "quote '{{ ... }}'"),
        ("a: b: c", "f.yaml:1:5: not valid YAML"),
        ("a:\n\tb: 1", "Indent with spaces"),
        ("<<: {a: 1}", "merge keys"),
        ("a: " + "9" * 5000, "a number of 5000 characters is too long"),
        ("a: \x07", "f.yaml:1:4: character U+0007"),
        ("a: 'x", "not valid YAML"),
    ],
)
def test_hostile_and_broken_text(text: str, fault: str) -> None:
    assert any(fault in line for line in faults(text)), faults(text)


def test_deep_aliases_are_bounded() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [[[[[[[[[[*a{n - 1}]]]]]]]]]]\n" for n in range(1, 30))
    assert "nests deeper than 100 levels" in faults(text)[0]


def test_aliases_repeat_values_without_sharing_them() -> None:
    data = parse_document("a: &x {k: [1]}\nb: *x").data
    assert data["b"] == {"k": [1]}
    assert data["a"]["k"] is not data["b"]["k"]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9")
    (tmp_path / "big.yaml").write_bytes(b"#" * 1_000_001)
    for name, what in [
        ("none.yaml", "there is no such file"),
        ("latin.yaml", "2:4: not UTF-8"),
        ("big.yaml", "larger than 1,000,000 bytes"),
        ("/dev/zero", "larger than 1,000,000 bytes"),  # a device has no size, and no end
        (".", "cannot be read"),
        ("a\0b", "cannot be read"),
    ]:
        with pytest.raises(SourceError, match=what):
            read_document(tmp_path / name)
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbfa: 1")
    assert read_document(tmp_path / "bom.yaml").data == {"a": 1}


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="ab:-[]{}&*!|>'\"#% \n\t?,~0123.", max_size=60)))
def test_any_text_is_a_document_or_a_source_error(text: str) -> None:
    with contextlib.suppress(SourceError):
        parse_document(text)


PLAIN = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.text(alphabet="abc yes: #'\"é", max_size=8)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abcé", min_size=1), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=150, deadline=None)
@given(PLAIN)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert parse_document(json.dumps(value, ensure_ascii=False)).data == value


class _Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    rate: float
    kind: Literal["fixed", "adaptive"] = "fixed"


class _Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid")
    steps: int
    names: tuple[str, ...] = ()
    inner: _Inner | None = None
    table: dict[str, list[_Inner]] = {}
    either: int | str | None = None


def test_models_are_checked_strictly_with_places_and_suggestions() -> None:
    text = (
        "step: 3\n"
        "names: [a, 5]\n"
        "inner: {rate: fast, kind: adaptiv}\n"
        "table:\n"
        "  x:\n"
        "    - {rate: 1, kynd: fixed}\n"
        "either: [1]\n"
    )
    with pytest.raises(SourceError) as caught:
        validate_model(parse_document(text, "r.yaml"), _Recipe)
    assert str(caught.value).splitlines() == [
        "r.yaml:1:1: 'steps' is missing",
        "r.yaml:1:1: step: 'step' is not a key here. Did you mean 'steps'?",
        "r.yaml:2:12: names[1]: 5 is not a text",
        "r.yaml:3:15: inner.rate: 'fast' is not a number",
        "r.yaml:3:27: inner.kind: 'adaptiv' is not one of 'fixed', 'adaptive'",
        "r.yaml:6:17: table.x[0].kynd: 'kynd' is not a key here. Did you mean 'kind'?",
        "r.yaml:7:9: either: [1] is not a whole number or a text",
    ]
    with pytest.raises(SourceError, match=r"'3' is not a whole number"):
        validate_model(parse_document("steps: '3'"), _Recipe)
    with pytest.raises(SourceError, match=r"true is not a whole number"):
        validate_model(parse_document("steps: true"), _Recipe)
    with pytest.raises(SourceError, match=r"not a mapping"):
        validate_model(parse_document("- 1"), _Recipe)
    made = validate_model(parse_document("steps: 3\nnames: [a]\ninner: {rate: 3e-3}"), _Recipe)
    assert made == _Recipe(steps=3, names=("a",), inner=_Inner(rate=0.003))
