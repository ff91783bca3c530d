"""What ``use`` unfolds to, and what is refused."""

import pickle
from pathlib import Path
from typing import Any

import pytest

from arena.agents.scripted import fixed
from arena.engine import Engine, Plan
from arena.protocols import Protocol, SourceError, load_protocol
from arena.protocols.records import Task

INNER = """\
name: inner
params: {rounds: 1}
fields: [question, "hint?"]
roles:
  asker: {sees: [question, hint], opening: "{{ question }}"}
  tester: {check: "exact:field=question", sees: [question]}
nodes:
  ask: {speak: asker, prompt: "{{ hint }}"}
  check: {verify: tester, of: ask}
edges:
  - start -> ask -> check -> end
  - {from: check, to: ask, when: not check.passed, times: rounds}
"""

OUTER = """\
name: outer
params: {rounds: 3}
fields: [question, hint, secret]
roles:
  asker: {sees: [question, hint]}
  other: {sees: [secret]}
nodes:
  first: {speak: other}
  sub: {use: inner.yaml, with: {rounds: rounds + 1}}
  last: {speak: other, prompt: "{{ sub.ask.text }}"}
edges:
  - start -> first -> sub -> last -> end
  - {from: sub, to: sub, times: 1, when: sub.check.score < 0.5 and sub.visits < 2}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "inner.yaml").write_text(INNER)
    return tmp_path


def load(folder: Path, *changes: tuple[str, str], text: str = OUTER, params: dict[str, Any] | None = None) -> Protocol:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "outer.yaml").write_text(text)
    return load_protocol(folder / "outer.yaml", params)


def faults(folder: Path, *changes: tuple[str, str], text: str = OUTER) -> list[str]:
    with pytest.raises(SourceError) as caught:
        load(folder, *changes, text=text)
    return [line.replace(f"{folder}/", "") for line in str(caught.value).splitlines()]


def edges(protocol: Protocol) -> list[str]:
    found = []
    for edge in protocol.edges:
        marks = [f"enters {scope}" for scope in edge.enters] + ([f"exits {edge.exits}"] if edge.exits else [])
        marks += [f"times {edge.times}"] if edge.times is not None else []
        marks += [f"when {edge.when.source}"] if edge.when else []
        arrow = f"{' & '.join(sorted(edge.sources))} -> {' & '.join(sorted(edge.targets))}"
        found.append(", ".join([arrow.strip(), *marks]))
    return found


def test_a_use_becomes_the_nodes_roles_and_edges_of_the_other_file(folder: Path) -> None:
    protocol = load(folder)
    assert list(protocol.nodes) == ["first", "sub.ask", "sub.check", "last"]
    assert [node.order for node in protocol.nodes.values()] == [0, 1, 2, 3]
    assert {name: role.seat for name, role in protocol.roles.items()} == {
        "asker": "asker",
        "other": "other",
        "sub.asker": "asker",
        "sub.tester": "sub.tester",
    }
    assert protocol.speakers == ("other", "asker")
    assert edges(protocol) == [
        "start -> first",
        "first -> sub.ask, enters sub",
        "sub -> last",
        "last -> end",
        "sub -> sub.ask, enters sub, times 1, when sub.check.score < 0.5 and sub.visits < 2",
        "sub.ask -> sub.check",
        "sub.check ->, exits sub",
        "sub.check -> sub.ask, times 4, when not check.passed",
    ]
    assert len({edge.origin for edge in protocol.edges}) == len(protocol.edges)
    assert protocol.scopes["sub"].params == {"rounds": 4}
    assert protocol.nodes["sub.check"].about == ("sub.ask",)
    when = protocol.edges[-1].when
    assert when is not None
    assert when.names == {"sub.check.passed"}


def test_it_is_rebuilt_from_kept_texts(folder: Path) -> None:
    protocol = load(folder)
    stored = pickle.dumps(protocol)
    (folder / "inner.yaml").unlink()
    assert pickle.loads(stored).fingerprint == protocol.fingerprint


def test_the_fingerprint_follows_the_other_file(folder: Path) -> None:
    before = load(folder).fingerprint
    (folder / "inner.yaml").write_text(INNER + "# a comment\n")
    assert load(folder).fingerprint == before
    (folder / "inner.yaml").write_text(INNER.replace('prompt: "{{ hint }}"', 'prompt: "Well: {{ hint }}"'))
    assert load(folder).fingerprint != before


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("inner.yaml", "iner.yaml", "outer.yaml:9:14: nodes.sub.use: there is no file 'iner.yaml'"),
        (
            "inner.yaml",
            "debat",
            "outer.yaml:9:14: nodes.sub.use: there is no protocol 'debat'. Did you mean 'debate'? For a file, write "
            "a path with its ending",
        ),
        (
            "{rounds: rounds + 1}",
            "{rond: 1}",
            "outer.yaml:9:33: nodes.sub.with.rond: 'rond' is not a param of 'inner.yaml'. Did you mean 'rounds'?",
        ),
        (
            "{rounds: rounds + 1}",
            "{rounds: 1.5}",
            "outer.yaml:9:41: nodes.sub.with.rounds: param 'rounds' is a whole number (default 1), not 1.5",
        ),
        (
            "{rounds: rounds + 1}",
            "{rounds: ronds}",
            "outer.yaml:9:41: nodes.sub.with.rounds: 'ronds' is not a name here. Did you mean 'rounds'?",
        ),
        (
            "  asker: {sees: [question, hint]}",
            "  asker: {sees: [question]}",
            "outer.yaml:9:14: nodes.sub.use: role 'asker' of 'inner.yaml' sees 'hint', but 'asker', which plays it, "
            "does not: add it to roles.asker.sees, or give the field in 'fields'",
        ),
        (
            "  asker: {sees: [question, hint]}\n",
            "",
            "outer.yaml:8:3: nodes.sub: nobody plays role 'asker' of 'inner.yaml': write roles: {asker: ROLE}",
        ),
        (
            "inner.yaml,",
            "inner.yaml, roles: {askr: other},",
            "outer.yaml:9:34: nodes.sub.roles.askr: 'askr' is not a role of 'inner.yaml'. Did you mean 'asker'?",
        ),
        (
            "inner.yaml,",
            "inner.yaml, roles: {asker: othr},",
            "outer.yaml:9:41: nodes.sub.roles.asker: 'othr' is not a role of this protocol. Did you mean 'other'?",
        ),
        (
            "inner.yaml,",
            "inner.yaml, roles: {tester: other},",
            "outer.yaml:9:34: nodes.sub.roles.tester: role 'tester' of 'inner.yaml' is a program and plays itself: "
            "remove it",
        ),
        (
            "inner.yaml,",
            "inner.yaml, fields: {hnt: x},",
            "outer.yaml:9:35: nodes.sub.fields.hnt: 'hnt' is not a field of 'inner.yaml'. Did you mean 'hint'?",
        ),
        (
            "inner.yaml,",
            "inner.yaml, fields: {hint: '{{ secret }}'},",
            "outer.yaml:9:45: nodes.sub.fields.hint: 'hint' shows 'secret' to role 'asker', which does not see it: "
            "add it to roles.asker.sees",
        ),
        (
            "inner.yaml,",
            "inner.yaml, fields: {hint: '{{ last.text }}'},",
            "outer.yaml:9:45: nodes.sub.fields.hint: 'last.text' shows nothing here: its node can only run later",
        ),
        (
            "inner.yaml,",
            "inner.yaml, fields: {hint: '{{ answer }}'},",
            "outer.yaml:9:45: nodes.sub.fields.hint: 'answer' belongs to one role, but 'hint' is made once for all: "
            "use fields, params and nodes",
        ),
        (
            "inner.yaml,",
            "inner.yaml, fields: {hint: '{{ number }}'},",
            "outer.yaml:9:45: nodes.sub.fields.hint: 'number' is for a nested protocol that a counted role plays",
        ),
        (
            "inner.yaml,",
            "inner.yaml, prompt: x,",
            "outer.yaml:9:26: nodes.sub.prompt: 'prompt' does nothing here: it has no meaning at 'use'",
        ),
        (
            "inner.yaml,",
            "inner.yaml, to: self,",
            "outer.yaml:9:30: nodes.sub.to: a nested protocol is no speaker: write everyone, nobody or a list of roles",
        ),
        (
            "fields: [question, hint, secret]",
            "fields: [hint, secret]",
            "outer.yaml:9:3: nodes.sub: 'inner.yaml' needs the field 'question', which is none here: write fields: "
            "{question: ...}",
        ),
        (
            "fields: [question,",
            'fields: ["question?",',
            "outer.yaml:9:3: nodes.sub: 'inner.yaml' needs 'question', which a task may lack here ('question?'): "
            "write fields: {question: ...}",
        ),
        (
            "{{ sub.ask.text }}",
            "{{ sub.sk.text }}",
            "outer.yaml:10:36: nodes.last.prompt: 'sub' is a nested protocol: name a node of it. Did you mean 'ask'?",
        ),
        (
            "{{ sub.ask.text }}",
            "{{ sub.ask.txt }}",
            "outer.yaml:10:36: nodes.last.prompt: 'sub.ask' gives no 'txt'. Did you mean 'text'?",
        ),
        (
            "sub.check.score",
            "sub.check.scre",
            "outer.yaml:13:42: edges[1].when: 'sub.check' gives no 'scre'. Did you mean 'score'?",
        ),
    ],
)
def test_what_is_wrong_with_a_use(folder: Path, old: str, new: str, fault: str) -> None:
    found = [line.replace(f"{folder}/", "") for line in faults(folder, (old, new))]
    assert fault in found, "\n".join(found)


def test_a_fault_of_the_other_file_is_shown_there_with_its_user(folder: Path) -> None:
    (folder / "inner.yaml").write_text(INNER.replace("{{ hint }}", "{{ hnt }}"))
    assert faults(folder) == [
        "inner.yaml:8:35: nodes.ask.prompt: 'hnt' is neither a field that role 'asker' sees nor a param. Did you mean "
        "'hint'? (used by nodes.sub, outer.yaml:9)"
    ]
    (folder / "inner.yaml").write_text(INNER.replace("speak: asker", "spek: asker"))
    assert faults(folder) == [
        "inner.yaml:8:9: nodes.ask.spek: 'spek' is not a key here. Did you mean 'speak'? (used by nodes.sub)"
    ]


def test_a_field_may_be_made_from_what_its_readers_see(folder: Path) -> None:
    protocol = load(folder, ("inner.yaml,", "inner.yaml, fields: {hint: '{{ first.text }} {{ rounds }}'},"))
    scope = protocol.scopes["sub"]
    assert scope.binds("hint")
    assert not scope.binds("question")
    private = ("first: {speak: other}", "first: {speak: other, to: self}")
    assert faults(folder, private, ("inner.yaml,", "inner.yaml, fields: {hint: '{{ first.text }}'},")) == [
        "outer.yaml:9:45: nodes.sub.fields.hint: role 'asker' may not be shown 'first.text': 'asker' does not read "
        "its turns"
    ]


def test_recursion_ends_where_its_condition_is_false(folder: Path) -> None:
    text = """\
name: tree
params: {depth: 2}
fields: [question]
roles: {speaker: {sees: [question]}}
nodes:
  claim: {speak: speaker}
  deeper: {use: outer.yaml, with: {depth: depth - 1}, fields: {question: "{{ claim.text }}"}}
  sum: {speak: speaker, prompt: "{% if depth %}{{ deeper.sum.text }}{% endif %}"}
edges:
  - start -> claim
  - {from: claim, to: deeper, when: depth > 0}
  - claim | deeper -> sum -> end
"""
    protocol = load(folder, text=text)
    assert list(protocol.nodes) == [
        *("claim", "deeper.claim", "deeper.deeper.claim", "deeper.deeper.sum", "deeper.sum", "sum")
    ]
    assert list(load(folder, text=text, params={"depth": 0}).nodes) == ["claim", "sum"]
    assert protocol.scopes["deeper.deeper"].absent == {"deeper": {}}
    endless = faults(folder, ("when: depth > 0", "when: depth > -99"), text=text)
    assert endless == [
        "outer.yaml:7:17: nodes.deeper.use: protocols are nested deeper than 8 levels: let a condition over params end "
        "the recursion (used by nodes.deeper, outer.yaml:7)"
    ]


def test_a_protocol_does_not_unfold_without_bounds(folder: Path) -> None:
    text = """\
name: wide
params: {depth: 7}
fields: [question]
roles: {speaker: {sees: [question]}}
nodes:
  claim: {speak: speaker}
  a: &deeper {use: outer.yaml, with: {depth: depth - 1}}
  b: *deeper
  c: *deeper
edges:
  - start -> claim
  - {from: claim, to: end, when: depth == 0}
  - claim -> a -> b -> c -> end
"""
    assert "the protocol unfolds to more than 500 nodes" in faults(folder, text=text)[0]


# -- played by counted roles


COUNTED = """\
name: outer
params: {workers: 2}
fields: [question, hint]
roles:
  boss: {sees: [question]}
  worker: {count: workers, sees: [question, hint]}
nodes:
  plan: {speak: boss, output: {json: {type: object, properties: {parts: {type: array}}}}}
  work:
    use: inner.yaml
    roles: {asker: worker}
    fields: {question: "{{ plan.parts[number - 1] }} of {{ count }}"}
    to: [boss]
  report: {speak: boss, prompt: "{% for w in work %}{{ w.ask.text }}{% endfor %}"}
edges:
  - start -> plan -> work -> report -> end
  - {from: work, to: end, when: all(work.check.passed)}
rewards:
  - {roles: [worker], value: 1 if work.check.passed else 0, pay: next}
"""


def test_a_counted_role_plays_once_for_each_of_its_seats(folder: Path) -> None:
    protocol = load(folder, text=COUNTED)
    assert list(protocol.nodes) == ["plan", "work-1.ask", "work-1.check", "work-2.ask", "work-2.check", "report"]
    assert [protocol.nodes[name].role.seat for name in ("work-1.ask", "work-2.ask")] == ["worker-1", "worker-2"]
    assert edges(protocol)[:4] == [
        "start -> plan",
        "plan -> work-1.ask & work-2.ask, enters work-1, enters work-2",
        "work-1 & work-2 -> report",
        "report -> end",
    ]
    assert protocol.groups["work.ask"] == ("work-1.ask", "work-2.ask")
    scope = protocol.scopes["work-2"]
    assert (scope.group, scope.number, scope.count) == ("work", 2, 2)
    assert protocol.nodes["work-1.ask"].audience == ("worker-1", "work-1.tester", "boss")


def test_a_reward_means_the_own_number_of_what_is_counted(folder: Path) -> None:
    (reward,) = load(folder, text=COUNTED).rewards
    assert {seat: set(value.names) for seat, value in reward.values.items()} == {
        "worker-1": {"work_1.check.passed"},
        "worker-2": {"work_2.check.passed"},
    }


def test_one_value_of_several_scopes_is_refused_in_conditions(folder: Path) -> None:
    found = faults(folder, ("all(work.check.passed)", "work.check.passed"), text=COUNTED)
    assert found[0].startswith("outer.yaml:17:33: edges[1].when: 'work.check.passed' is the values of several nodes: ")
    one = load(folder, ("all(work.check.passed)", "work_2.check.passed"), text=COUNTED)
    assert one.edges[4].when is not None
    assert one.edges[4].when.names == {"work_2.check.passed"}


MINI = """\
name: mini
params: {summary: true, mode: plain}
fields: [question]
roles:
  worker: {sees: [question]}
  summarizer: {sees: [question], opening: "{{ mode }}"}
nodes:
  say: {speak: worker}
  sum: {speak: summarizer}
edges:
  - start -> say
  - {from: say, to: sum, when: summary}
  - say | sum -> end
"""

CROWD = """\
name: crowd
fields: [question]
roles:
  worker: {count: 2, sees: [question]}
  boss: {sees: [question]}
nodes:
  part: {use: mini.yaml, with: {summary: false}}
  close: {speak: boss, prompt: "{% for each in part %}{{ each.say.text }}{% endfor %}"}
edges: [start -> part -> close -> end]
"""


def crowd(folder: Path, *changes: tuple[str, str]) -> list[str]:
    (folder / "mini.yaml").write_text(MINI)
    return faults(folder, *changes, text=CROWD)


def test_roles_that_only_left_out_nodes_need_are_played_by_nobody(folder: Path) -> None:
    (folder / "mini.yaml").write_text(MINI)
    assert load(folder, text=CROWD).speakers == ("worker-1", "worker-2", "boss")
    assert crowd(folder, ("summary: false", "summary: true")) == [
        "outer.yaml:7:3: nodes.part: nobody plays role 'summarizer' of 'mini.yaml': write roles: {summarizer: ROLE}"
    ]


@pytest.mark.parametrize(
    ("shown", "what"),
    [
        ("p in part %}{{ p }}", "'part' are several nested protocols: write {% for each in part %}{{ each.say.text }}"),
        (
            "p in part.say %}{{ p }}",
            "'part' are several nested protocols: write {% for each in part %}{{ each.say.text }}",
        ),
        ("p in part %}{{ p.nonsense }}", "'part' is a nested protocol: name a node of it. There is: say, sum."),
        ("p in part %}{{ p.text }}", "'part' is a nested protocol: name a node of it. There is: say, sum."),
        ("p in part %}{{ p.say.txt }}", "'part.say' gives no 'txt'. Did you mean 'text'?"),
    ],
)
def test_a_counted_use_is_shown_node_by_node(folder: Path, shown: str, what: str) -> None:
    (fault,) = crowd(folder, ("each in part %}{{ each.say.text }}", shown))
    assert fault.startswith("outer.yaml:8:")
    assert f"nodes.close.prompt: {what}" in fault


def test_a_role_that_plays_in_two_uses_at_once_is_one_fault_at_the_use(folder: Path) -> None:
    (folder / "mini.yaml").write_text(MINI)
    text = CROWD.replace("{count: 2, sees: [question]}", "{sees: [question]}").replace(
        "  close: ", "  more: {use: mini.yaml, roles: {summarizer: boss}}\n  close: "
    )
    changes = (
        ("each in part %}{{ each.say.text }}{% endfor %}", "!"),
        ("{% for ", ""),
        ("-> part ->", "-> part & more ->"),
    )
    assert faults(folder, *changes, text=text) == [
        "outer.yaml:8:3: nodes.more: 'part' and 'more' may act at the same time, and 'worker' speaks at both: one "
        "after the other, or by two roles"
    ]


def test_a_text_for_a_param_stands_in_quotes(folder: Path) -> None:
    (fault,) = crowd(folder, ("summary: false", "summary: false, mode: loud"))
    assert fault.endswith("""'loud' is not a name here. A text stands in quotes: "'loud'\"""")


PANEL = """\
name: panel
fields: [question]
roles: {referee: {count: 2, sees: [question]}}
nodes: {talk: {speak: referee, in_turn: true}}
edges: [start -> talk -> end, {from: talk, to: talk, times: 1}]
"""


def test_seats_in_turn_begin_and_end_a_nested_protocol_one_by_one(folder: Path) -> None:
    (folder / "panel.yaml").write_text(PANEL)
    text = PANEL.replace("{talk: {speak: referee, in_turn: true}}", "{sub: {use: panel.yaml}}").replace("talk", "sub")
    protocol = load(folder, text=text)
    assert edges(protocol) == [
        "start -> sub.talk-1, enters sub",
        "sub -> end",
        "sub -> sub.talk-1, enters sub, times 1",
        "sub.talk-2 ->, exits sub",
        "sub.talk-2 -> sub.talk-1, times 1",
        "sub.talk-1 -> sub.talk-2",
    ]
    lineup = {seat: fixed(seat) for seat in protocol.speakers}
    (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", Task("t", {"question": "?"}), lineup)])
    assert [turn.role for turn in episode.turns] == ["referee-1", "referee-2"] * 4
