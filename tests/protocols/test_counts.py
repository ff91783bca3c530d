"""Roles that several seats play: names of seats and nodes, and what a name means."""

import pytest

from arena.agents.scripted import from_list
from arena.agents.types import Ask
from arena.engine import Engine, Plan
from arena.protocols import Protocol, SourceError, parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Task
from arena.transcripts import Recorder

TEXT = """\
name: crowd
params: {seats: 3}
fields: [question, answers]
roles:
  debater: {count: seats, argues: 0, sees: [question, answers], opening: "{{ number }} of {{ count }}: {{ answer }}"}
  box: {tools: [calculator]}
  judge: {count: 2, sees: [answers]}
nodes:
  draft: {speak: debater, output: {call: [calculator]}, to: [debater]}
  own: {revise: debater, of: draft}
  read: {critique: debater, of: [own, extra]}
  extra: {speak: debater-2}
  run: {tool: box, of: draft, to: [debater]}
  verdict: {judge: judge, reads: [own, read-1]}
  mean: {vote: verdict, rule: mean}
edges:
  - start -> draft -> run -> own -> extra -> read -> verdict -> mean -> end
  - {from: own, to: draft, times: 1, when: agreement(draft.tool) < 1 and draft_2.ok}
"""


def compiled(*changes: tuple[str, str], **params: object) -> Protocol:
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return compile_document(parse_document(text, "g"), params)


def faults(*changes: tuple[str, str]) -> list[str]:
    with pytest.raises(SourceError) as caught:
        compiled(*changes)
    return [f"{fault.where}: {fault.what}" for fault in caught.value.faults]


def test_seats_and_nodes_are_numbered() -> None:
    protocol = compiled()
    assert protocol.seats == ("debater-1", "debater-2", "debater-3")
    role = protocol.roles["debater-2"]
    assert (role.group, role.number, role.count, role.argues) == ("debater", 2, 3, 1)
    assert protocol.groups["draft"] == ("draft-1", "draft-2", "draft-3")
    assert [protocol.nodes[name].role.name for name in protocol.groups["draft"]] == list(protocol.seats)
    assert protocol.judging_seats == ("judge-1", "judge-2")


def test_edges_mean_all_nodes_of_a_group() -> None:
    protocol = compiled()
    assert protocol.edges[0].targets == {"draft-1", "draft-2", "draft-3"}
    assert protocol.edges[1].sources == {"draft-1", "draft-2", "draft-3"}


def test_number_i_is_about_number_i_of_the_same_role() -> None:
    protocol = compiled()
    assert protocol.nodes["own-2"].about == ("draft-2",)
    assert not protocol.nodes["own-2"].about_many


def test_a_list_means_all_of_its_groups() -> None:
    protocol = compiled()
    assert protocol.nodes["read-3"].about == ("own-3", "extra")
    assert protocol.nodes["read-3"].about_many
    assert protocol.nodes["mean"].about == ("verdict-1", "verdict-2")
    assert protocol.nodes["verdict-1"].reads == ("own-1", "own-2", "own-3", "read-1")


def test_a_program_is_as_many_nodes_as_what_it_is_about() -> None:
    protocol = compiled()
    assert protocol.groups["run"] == ("run-1", "run-2", "run-3")
    assert [protocol.nodes[name].role.seat for name in protocol.groups["run"]] == ["box"] * 3
    assert protocol.nodes["run-3"].about == ("draft-3",)
    assert protocol.nodes["run-3"].audience == protocol.seats


def test_one_seat_may_be_named_where_a_role_may() -> None:
    protocol = compiled(
        ("to: [debater]}\n  own", "to: [debater-1]}\n  own"), ("of: draft, to: [debater]", "of: draft, to: [debater-1]")
    )
    assert protocol.nodes["draft-3"].audience == ("debater-1",)
    assert protocol.nodes["extra"].role.name == "debater-2"


def test_one_seat_is_still_a_group() -> None:
    # extra is by debater-2, who is not there then
    protocol = compiled(("  extra: {speak: debater-2}", "  extra: {speak: debater-1}"), ("and draft_2.ok", ""), seats=1)
    assert protocol.groups["draft"] == ("draft-1",)
    assert protocol.nodes["draft-1"].group == "draft"


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("draft_2.ok", "draft_4.ok", "edges[1].when: 'draft_4' is not a node of this protocol. Did you mean 'draft'?"),
        (
            "and draft_2.ok",
            "and draft.ok",
            "edges[1].when: 'draft.ok' is the values of several nodes: write agreement(draft.ok), count(draft.ok, "
            "...), any(...), all(...), mean(...), or name one of them",
        ),
        (
            "speak: debater-2",
            "speak: debater-4",
            "nodes.extra.speak: 'debater-4' is not a role of this protocol. Did you mean 'debater'?",
        ),
        (
            "extra: {speak: debater-2}",
            'extra: {speak: debater-2, prompt: "{{ own.text }}"}',
            "nodes.extra.prompt: 'own' are several nodes: write {% for each in own %}{{ each.text }}{% endfor %}",
        ),
        (
            "extra: {speak: debater-2}",
            'extra: {speak: debater-2, prompt: "{% for x in own_1 %}{{ x.text }}{% endfor %}"}',
            "nodes.extra.prompt: 'own_1' is one node, not a list: name a field of it, as own_1.text",
        ),
        (
            "of: [own, extra]",
            'of: [own, extra], prompt: "{{ of.text }}"',
            "nodes.read.prompt: 'of' are several nodes: write {% for each in of %}{{ each.text }}{% endfor %}",
        ),
        (
            "of: draft}",
            'of: draft, prompt: "{% for x in of %}{{ x.text }}{% endfor %}"}',
            "nodes.own.prompt: 'of' is one node, not a list: name a field of it, as of.text",
        ),
        ("of: draft}", 'of: draft, prompt: "{{ number }} {{ draft_1.text }}"}', None),
        (
            "judge: {count: 2, sees: [answers]}",
            'judge: {count: 2, sees: [answers], opening: "{{ number }}"}',
            "roles.judge.opening: 'opening' does nothing here: a judge argues nothing and brings its own instructions",
        ),
    ],
)
def test_faults(old: str, new: str, fault: str | None) -> None:
    if fault is None:
        compiled((old, new))
    else:
        found = faults((old, new))
        assert fault in found, "\n".join(found)


# -- one after the other

IN_TURN = """\
name: panel
params: {seats: 3, rounds: 2}
lists: {personas: [a critic, a scientist, a lawyer]}
fields: [question]
roles:
  referee: {count: seats, sees: [question], opening: "You are {{ personas[number - 1] }}."}
  clerk: {sees: [question]}
nodes:
  talk: {speak: referee, in_turn: true, prompt: "Round {{ round }}."}
  close: {speak: clerk}
edges:
  - start -> talk -> close -> end
  - {from: talk, to: talk, times: rounds - 1}
"""


def panel(*changes: tuple[str, str], **params: object) -> Protocol:
    text = IN_TURN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return compile_document(parse_document(text, "g"), params)


def test_seats_in_turn_are_a_chain_that_edges_enter_at_the_first_and_leave_at_the_last() -> None:
    arrows = [(min(edge.sources), min(edge.targets), edge.times) for edge in panel().edges]
    assert arrows == [
        ("start", "talk-1", None),
        ("talk-3", "close", None),
        ("close", "end", None),
        ("talk-3", "talk-1", 1),
        ("talk-1", "talk-2", None),
        ("talk-2", "talk-3", None),
    ]


def test_each_seat_in_turn_hears_those_before_it() -> None:
    protocol = panel()
    asks: list[Ask] = []
    lineup = {seat: Recorder(from_list([f"{seat} a", f"{seat} b"]), asks) for seat in protocol.speakers}
    (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", Task("t", {"question": "?"}), lineup)])
    assert [turn.node for turn in episode.turns] == [*("talk-1", "talk-2", "talk-3") * 2, "close"]
    assert [turn.superstep for turn in episode.turns] == list(range(7))
    told = [[message.text for message in ask.new if message.kind != "opening"] for ask in asks]
    assert told[1] == ["referee-1: referee-1 a", "Round 1."]
    assert told[2] == ["referee-1: referee-1 a", "referee-2: referee-2 a", "Round 1."]
    assert told[3] == ["referee-2: referee-2 a", "referee-3: referee-3 a", "Round 2."]
    assert [ask.new[0].text for ask in asks[:3]] == ["You are a critic.", "You are a scientist.", "You are a lawyer."]


def test_one_seat_in_turn_is_that_seat() -> None:
    assert [(min(edge.sources), min(edge.targets)) for edge in panel(seats=1).edges][:2] == [
        ("start", "talk-1"),
        ("talk-1", "close"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        (
            "{speak: clerk}",
            "{speak: clerk, in_turn: true}",
            "nodes.close.in_turn: 'in_turn' is for several seats, of a role with 'count'; here only one acts: "
            "remove it",
        ),
        (
            "from: talk, to: talk",
            "from: talk-1, to: talk",
            "edges[1].from: an edge names all of 'talk', not 'talk-1' alone: write 'talk'; where its seats shall act "
            "one after the other, give the node 'in_turn: true'",
        ),
        (
            "personas: [",
            "clerk: [a], personas: [",
            "lists.clerk: no node draws from list 'clerk', and no template shows it: remove it",
        ),
        (
            "close: {speak: clerk}",
            "personas: {speak: clerk}",
            "nodes.personas: 'personas' is already the name of a list: rename the node",
        ),
    ],
)
def test_faults_of_seats_in_turn(old: str, new: str, fault: str) -> None:
    changes = [(old, new)] + ([("-> close", "-> personas")] if "personas: {" in new else [])
    with pytest.raises(SourceError) as caught:
        panel(*changes)
    found = [f"{fault.where}: {fault.what}" for fault in caught.value.faults]
    assert fault in found, "\n".join(found)
