import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import ConfigError, Registry, Spec, UnknownNameError, expand_words, parse_spec


def test_specs_are_read_from_text_and_mappings() -> None:
    assert parse_spec("hf:model=a/b,temperature=.8,greedy=no,n=3") == Spec(
        "hf", {"model": "a/b", "temperature": 0.8, "greedy": "no", "n": 3}
    )
    assert parse_spec({"kind": "hf", "n": 3}) == Spec("hf", {"n": 3})
    assert str(Spec("hf", {"n": 3})) == "hf:n=3"
    assert parse_spec("fixed:text=12:30,day=2020-01-01,many=1_000,rate=3e-3,none=null").args == {
        "text": "12:30",
        "day": "2020-01-01",
        "many": "1_000",
        "rate": 0.003,
        "none": None,
    }
    assert parse_spec("""fixed:text='Yes, it is.',name="5",more=don't""").args == {
        "text": "Yes, it is.",
        "name": "5",
        "more": "don't",
    }
    for bad in ("", ":", "hf:", "hf:x", "hf:=1", "hf:a=1,", "hf:a=1,a=2", "hf:text=Yes, it is.", {"n": 3}):
        with pytest.raises(ConfigError):
            parse_spec(bad)


def test_lists_and_mappings_in_specs_stand_in_brackets_that_close_at_the_end_of_the_value() -> None:
    assert parse_spec(
        "panel:judges=[exact, 'llm:model=a,path=b', {kind: x}] ,rule=mean,weights={a: 1, b: [2]}"
    ).args == {
        "judges": ["exact", "llm:model=a,path=b", {"kind": "x"}],
        "rule": "mean",
        "weights": {"a": 1, "b": [2]},
    }
    for text in ("[hello", "{a} b", "a [b]", "]["):
        assert parse_spec(f"fixed:text={text},n=1").args == {"text": text, "n": 1}
    assert parse_spec("fixed:text='[a, b]',more=\"{}\"").args == {"text": "[a, b]", "more": "{}"}
    with pytest.raises(ConfigError, match=r"no list or mapping .* for a text write it in quotes"):
        parse_spec("fixed:text={a: b: c}")


def test_registries_build_with_arguments_and_context() -> None:
    things: Registry[tuple[int, str]] = Registry("thing")

    @things.register("pair", summary="two values")
    def pair(*, size: int, name: str = "x") -> tuple[int, str]:
        return size, name

    things.lazy("counter", "collections:Counter", "counts")
    assert things.names() == {"counter": "counts", "pair": "two values"}
    assert things.build("pair:size=3", name="context", other=1) == (3, "context")
    assert things.build({"kind": "pair", "size": 3, "name": "spec"}, name="context") == (3, "spec")
    with pytest.raises(UnknownNameError, match="pair"):
        things.build("pare")
    with pytest.raises(ConfigError, match="Did you mean 'size'"):
        things.build("pair:sise=3")
    with pytest.raises(ConfigError, match="needs 'size'"):
        things.build("pair")


def test_a_spec_is_checked_without_building_and_without_importing_what_is_heavy() -> None:
    things: Registry[tuple[int, str]] = Registry("thing")

    @things.register("pair", summary="two values")
    def pair(*, size: int, name: str) -> tuple[int, str]:
        raise AssertionError("built")

    things.lazy("far", "no.such.module:thing", "cannot be imported", heavy=True, needs=("path",))
    things.check("pair:size=3", ["name"])
    things.check("far:path=x,whatever=1")
    with pytest.raises(UnknownNameError, match="Did you mean 'pair'"):
        things.check("pare")
    with pytest.raises(ConfigError, match="Did you mean 'size'"):
        things.check("pair:sise=3", ["name"])
    with pytest.raises(ConfigError, match="needs 'name'"):
        things.check("pair:size=3")
    with pytest.raises(ConfigError, match="needs 'path'"):
        things.check("far")


@pytest.mark.parametrize(
    ("spec", "identity"),
    [
        ("talker:size=1,text='a, b',spend=5", "talker:size=1,text='a, b'"),
        ("talker:spend=5", "talker"),
        ("talker: spend=5,size=1", "talker:size=1"),
        ("talker:size=1", "talker:size=1"),
        ("talker", "talker"),
        ("stranger:spend=5", "stranger:spend=5"),
        ({"kind": "talker", "spend": 5, "size": 1}, {"kind": "talker", "size": 1}),
    ],
)
def test_an_identity_leaves_out_what_does_not_decide_results(spec: object, identity: object) -> None:
    things: Registry[int] = Registry("thing")

    @things.register("talker", summary="talks", aside=("spend",))
    def talker(*, size: int = 0, text: str = "", spend: int = 0) -> int:
        return size

    assert things.identity(spec) == identity  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "inner",
    [
        "[talker, 'talker:size=1,spend={}']",
        "{{'talker:size=1,spend={}': 2}}",
        "[{{judge: 'talker:size=1,spend={}', weight: 2}}]",
        "[{{kind: talker, spend: {}}}]",
        "[\"group:members=['talker:size=1,spend={}']\"]",
    ],
)
def test_an_identity_leaves_it_out_of_specs_inside_as_well(inner: str) -> None:
    things: Registry[int] = Registry("thing")
    things.lazy("talker", "no.such:thing", "talks", aside=("spend",))
    things.lazy("group", "no.such:thing", "holds talkers", nests=("members",))
    less, more, other = (f"group:members={inner.format(given)},rule=mean" for given in ("5", "6", "5,loud=true"))
    assert things.identity(less) == things.identity(more)
    assert things.identity(less) != things.identity(less.replace("mean", "median"))
    assert things.identity(less) != things.identity(other)


def test_words_expand_as_in_a_shell() -> None:
    assert expand_words("claims d{0..2} {ann,bob}{+,-}{1..2} claims") == [
        *("claims", "d0", "d1", "d2"),
        *("ann+1", "ann+2", "ann-1", "ann-2", "bob+1", "bob+2", "bob-1", "bob-2"),
    ]
    for bad in ("{0..x}", "{one}", "{0..999999}", "{0..999}{0..999}"):
        with pytest.raises(ConfigError):
            expand_words(bad)


@settings(max_examples=100, deadline=None)
@given(st.text("ab{},.0129 ", max_size=20))
def test_any_text_expands_or_is_a_config_error(text: str) -> None:
    try:
        words = expand_words(text)
    except ConfigError:
        return
    assert len(set(words)) == len(words)
