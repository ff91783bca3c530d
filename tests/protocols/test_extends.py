"""Protocols that change another: what is merged, and where a fault of either file is shown."""

import pickle
from pathlib import Path

import pytest

from arena.protocols import Protocol, SourceError, load_protocol, parse_document
from arena.protocols.loader import compile_document

BASE = """\
name: base
params: {words: 50}
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers], opening: "{{ answer }}"}
  judge: {sees: [question, answers]}
nodes:
  case: {speak: pro, prompt: "{{ question }}", limit: {words: words}}
  verdict: {judge: judge}
edges:
  - start -> case -> verdict -> end
"""


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def child(folder: Path, text: str, name: str = "child") -> Protocol:
    path = folder / f"{name}.yaml"
    path.write_text(f"extends: base.yaml\nname: {name}\n{text}")
    return load_protocol(path)


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(SourceError) as caught:
        child(folder, text)
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_mappings_are_merged_by_key_and_other_values_replaced(base: Path) -> None:
    protocol = child(
        base,
        "params: {words: 9, more: 1}\n"
        "roles:\n  con: {argues: 1, sees: [answers]}\n"
        "nodes:\n  case: {limit: {tokens: more}}\n  reply: {speak: con}\n"
        "edges: [start -> case & reply -> verdict -> end]\n",
    )
    assert protocol.params == {"words": 9, "more": 1}
    assert list(protocol.nodes) == ["case", "verdict", "reply"]
    assert (protocol.nodes["case"].max_words, protocol.nodes["case"].max_tokens) == (9, 1)
    assert protocol.seats == ("pro", "con")


def test_a_key_without_value_is_taken_away(base: Path) -> None:
    protocol = child(base, "params: {words: }\nnodes:\n  case: {limit: }\nroles:\n  pro: {opening: }\n")
    assert protocol.params == {}
    assert protocol.nodes["case"].max_words is None
    assert protocol.roles["pro"].opening is None


def test_a_kind_is_changed_by_taking_the_old_one_away(base: Path) -> None:
    protocol = child(base, "nodes:\n  case: {speak: , human: pro}\n")
    assert protocol.nodes["case"].kind == "human"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        # inherited values stand in the parent
        (
            "roles:\n  pro: {sees: [answers]}\n",
            "base.yaml:8:34: nodes.case.prompt: role 'pro' does not see field 'question': add it to roles.pro.sees or "
            "do not show it here (inherited by child.yaml)",
        ),
        (
            "params: {words: 0}\n",
            "base.yaml:8:63: nodes.case.limit.words: 'words' is 0; it must be from 1 to 1,000,000 "
            "(inherited by child.yaml)",
        ),
        # and the way out is in the child
        (
            "nodes:\n  case: {speak: b}\nroles:\n  b: {sees: [question]}\n",
            "base.yaml:5:3: roles.pro: role 'pro' has no node: take it away with roles: {pro: } in child.yaml, or "
            "write a node with 'speak: pro'",
        ),
        (
            "params: {words: 40}\nnodes:\n  case: {limit: }\n",
            "child.yaml:3:10: params.words: param 'words' is used nowhere: take it away with params: {words: }",
        ),
        # own values in the child
        (
            'nodes:\n  case: {prompt: "{{ qestion }}"}\n',
            "child.yaml:4:22: nodes.case.prompt: 'qestion' is neither a field that role 'pro' sees nor a param. "
            "Did you mean 'question'?",
        ),
        (
            "nodes:\n  case: {pompt: x}\n",
            "child.yaml:4:10: nodes.case.pompt: 'pompt' is not a key here. Did you mean 'prompt'?",
        ),
        (
            "nodes:\n  case: {cue: }\n",
            "child.yaml:4:10: nodes.case.cue: there is no 'nodes.case.cue' in what is extended that could be taken "
            "away",
        ),
        (
            "edges: [start -> cse -> end]\n",
            "child.yaml:3:18: edges[0]: 'cse' is not a node of this protocol. Did you mean 'case'?",
        ),
    ],
)
def test_faults_are_shown_in_the_file_that_has_them(base: Path, text: str, fault: str) -> None:
    found = faults(base, text)
    assert fault in found, "\n".join(found)


def test_a_child_has_a_name_of_its_own(base: Path) -> None:
    (base / "child.yaml").write_text("extends: base.yaml\n")
    with pytest.raises(SourceError, match="a protocol that extends another needs a 'name' of its own"):
        load_protocol(base / "child.yaml")


@pytest.mark.parametrize(
    ("extends", "what"),
    [
        ("bse.yaml", "1:10: extends: there is no file"),
        ("debat", "1:10: extends: there is no protocol 'debat'. Did you mean 'debate'"),
        ("../..", "1:10: extends: there is no file"),
        ("/dev/zero", "1:10: extends: there is no file"),
        ('"a\\0b.yaml"', "1:10: extends: there is no file"),
        ("child.yaml", "1:10: extends: the protocols extend each other: "),
        ("[a]", "1:10: extends: ['a'] is not a text"),
    ],
)
def test_what_cannot_be_extended(base: Path, extends: str, what: str) -> None:
    (base / "child.yaml").write_text(f"extends: {extends}\nname: child\n")
    with pytest.raises(SourceError) as caught:
        load_protocol(base / "child.yaml")
    assert what in str(caught.value)


def test_circles_name_their_chain_and_chains_have_an_end(base: Path) -> None:
    for here, there in (("a", "b"), ("b", "c"), ("c", "a")):
        (base / f"{here}.yaml").write_text(f"extends: {there}.yaml\nname: {here}\n")
    with pytest.raises(SourceError) as caught:
        load_protocol(base / "a.yaml")
    walk = " -> ".join(f"{base}/{name}.yaml" for name in "abca")
    assert str(caught.value) == f"{base}/c.yaml:1:10: extends: the protocols extend each other: {walk}"
    for number in range(8):
        (base / f"v{number + 1}.yaml").write_text(
            f"extends: {'base' if not number else f'v{number}'}.yaml\nname: v{number}\n"
        )
    assert load_protocol(base / "v8.yaml").name == "v7"
    (base / "v9.yaml").write_text("extends: v8.yaml\nname: v9\n")
    with pytest.raises(SourceError, match="the chain of 'extends' is longer than 8 files"):
        load_protocol(base / "v9.yaml")


def test_library_protocols_are_extended_by_name() -> None:
    protocol = compile_document(parse_document("extends: debate\nname: short\nparams: {words: 5}\n"))
    assert (protocol.name, protocol.nodes["pro"].max_words) == ("short", 5)


def test_a_pickled_protocol_does_not_change_with_its_files(base: Path) -> None:
    protocol = child(base, "params: {words: 7}\n")
    stored = pickle.dumps(protocol)
    for path in base.iterdir():
        path.unlink()
    again = pickle.loads(stored)
    assert (again.fingerprint, again.nodes["case"].max_words) == (protocol.fingerprint, 7)
    assert pickle.loads(pickle.dumps(again)).fingerprint == protocol.fingerprint


def test_the_fingerprint_is_that_of_the_merged_file(base: Path) -> None:
    written = compile_document(parse_document(BASE.replace("name: base", "name: child").replace("50", "7")))
    assert child(base, "params: {words: 7}\n").fingerprint == written.fingerprint
