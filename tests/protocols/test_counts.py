"""Roles that several seats play: names of seats and nodes, and what a name means."""

import pytest

from arena.protocols import Protocol, SourceError, parse_document
from arena.protocols.loader import compile_document

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
