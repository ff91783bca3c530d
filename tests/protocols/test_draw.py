import re
import xml.etree.ElementTree as ET
from itertools import combinations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import library, load_protocol, parse_document
from arena.protocols.draw import to_mermaid, to_svg, to_text
from arena.protocols.draw.layout import FACT, LABEL, LINE, lay_out
from arena.protocols.draw.lettering import text_width, wrap_text
from arena.protocols.draw.picture import Arrow, Box, Picture, picture_of
from arena.protocols.draw.shapes import outline
from arena.protocols.expressions import Expression
from arena.protocols.graph import SPOKEN, BestOf, Budget, Edge, Node, Protocol, Role, Scope
from arena.protocols.loader import compile_document
from arena.protocols.outputs import OutputRule
from arena.protocols.quotes import QuoteRule
from arena.protocols.templates import Template

KINDS = ("speak", "critique", "revise", "human", "judge", "tool", "verify", "vote", "select", "compute")
HOSTILE = """\
name: odd
summary: <script>alert(1)</script> & "quotes"
params: {mode: a}
fields: [question, answers]
roles: {r: {sees: [question]}, s: {sees: [question]}, judge: {sees: [question, answers]}}
nodes:
  one: {speak: r}
  two-three: {speak: s, to: self}
  v: {judge: judge}
edges:
  - start -> one & two-three -> v -> end
  - {from: v, to: two-three, times: "1 if mode == \\"a\\" else 2", when: "round < 9 and two_three.text != '<b>'"}
  - two-three -> end
"""


def node(name, kind="speak", **changes):
    role = changes.pop("role", None) or Role(changes.get("group", name), ())
    changes = {"group": name, **changes}
    return Node(name, kind, role, 0, **changes)


def edge(sources, targets, **changes):
    sources, targets = (frozenset(names.split()) for names in (sources, targets))
    return Edge(sources, targets, **changes)


def protocol(nodes, edges, root=None, scopes=()):
    """A protocol put together by hand; only what pictures show is filled in."""
    root = root or Scope("", {}, ())
    return Protocol(
        name="made",
        version=1,
        summary="",
        paper="",
        params={},
        required_fields=(),
        optional_fields=(),
        roles={one.role.name: one.role for one in nodes},
        nodes={one.name: one for one in nodes},
        edges=tuple(edges),
        message=Template("{{ text }}"),
        rewards=(),
        budget=Budget(),
        scope=root,
        scopes={scope.name: scope for scope in (root, *scopes)},
        fingerprint="0" * 16,
        digraph=nx.MultiDiGraph(),
        rebuild=lambda: None,
    )


def drawings(made):
    return to_text(made), to_mermaid(made), to_svg(made)


def words_of(svg):
    return " ".join(element.text or "" for element in ET.fromstring(svg).iter() if element.tag.endswith("text"))


# -- what is shown


@pytest.mark.parametrize("name", list(library()))
def test_pictures_of_the_library_show_every_node_and_bound(name):
    made = load_protocol(name)
    text, mermaid, svg = drawings(made)
    for shown in made.nodes.values():
        for picture in (text, mermaid, words_of(svg)):
            assert shown.group.rpartition(".")[2] in picture
    for one in made.edges:
        if one.times and one.bound != str(one.times):
            for picture in (text, mermaid, words_of(svg)):
                assert f"({one.bound})" in picture


def test_text_picture_of_a_debate():
    assert to_text(load_protocol("debate", {"rounds": 3, "words": 5})) == (
        "debate: two debaters argue for opposite answers at the same time, then a judge decides\n"
        "\n"
        "                          start\n"
        "                            │\n"
        "┌──────────────────────────┐  ┌─────────────────────────┐\n"
        "│ pro (speak)              │  │ con (speak)             │\n"
        "│ proponent speaks, seat 0 │  │ opponent speaks, seat 1 │\n"
        "│ quotes passage           │  │ quotes passage          │  ↺ pro & con, up to 2 times (rounds - 1)\n"
        "│ at most 5 words          │  │ at most 5 words         │\n"
        "└──────────────────────────┘  └─────────────────────────┘\n"
        "                        (at once)\n"
        "                            │\n"
        "                   ┌─────────────────┐\n"
        "                   │ verdict (judge) │\n"
        "                   │ judge decides   │\n"
        "                   │ reads all turns │\n"
        "                   └─────────────────┘\n"
        "                            │\n"
        "                           end\n"
    )


def test_mermaid_picture_of_a_loop_with_a_condition():
    made = protocol(
        [node("draft"), node("fix-it", "revise", about=("draft",)), node("say", "compute")],
        [
            edge("start", "draft"),
            edge("draft", "fix-it"),
            edge("fix-it", "draft", times=2, bound="n", when=Expression("draft.ok"), stop=""),
            edge("fix-it", "say"),
            edge("say", "end", stop="done"),
        ],
    )
    assert to_mermaid(made) == (
        "flowchart TD\n"
        '    n_start(("start"))\n'
        '    n_draft["draft (speak)<br/>draft speaks"]\n'
        '    n_fix__it(["fix-it (revise)<br/>fix-it revises draft"])\n'
        '    n_say[/"say (compute)<br/>"/]\n'
        '    n_end(("end"))\n'
        "    n_start --> n_draft\n"
        "    n_draft --> n_fix__it\n"
        '    n_fix__it -. "up to 2 times (n)<br/>when draft.ok" .-> n_draft\n'
        "    n_fix__it --> n_say\n"
        '    n_say -- "stop: done" --> n_end\n'
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_named_in_all_forms(kind):
    made = protocol([node("it", kind)], [edge("start", "it"), edge("it", "end")])
    text, mermaid, svg = drawings(made)
    assert f"it ({kind})" in text
    assert f"it ({kind})" in mermaid
    assert kind.upper() in words_of(svg).split()


def test_every_kind_has_an_outline_of_its_own():
    outlines = {outline(kind, 0, 0, 100, 50) for kind in KINDS}
    assert len(outlines) == len(KINDS)


def test_what_a_turn_must_be_and_who_reads_it_stands_in_the_box():
    judge = Role("judge", (), is_judge=True)
    speaker = node(
        "speak",
        role=Role("r", (), argues=1),
        quote=QuoteRule("passage", once=True),
        max_words=1,
        max_thinking=20,
        refuses=True,
        output=OutputRule("choice", choices_field="answers", optional=True),
        retries=2,
        claims=True,
        draws={"rule": "rules"},
        best_of=BestOf(4, judge, Expression("p")),
        audience=("judge",),
    )
    text = to_text(protocol([speaker], [edge("start", "speak"), edge("speak", "end")]))
    for fact in (
        "r speaks, seat 1",
        "quotes passage, each once",
        "draws rule from rules",
        "chooses from answers or not, 2 retries",
        "argues what it chose",
        "best of 4 by judge: most p",
        "read by judge",
    ):
        assert f"│ {fact} " in text
    assert "at most 1 word, 20 thinking tokens, else" in text


def test_secret_turns_say_that_nobody_reads_them():
    made = protocol(
        [node("a", audience=()), node("b", audience=(), ephemeral=True)],
        [edge("start", "a"), edge("a", "b"), edge("b", "end")],
    )
    text = to_text(made)
    assert "read by nobody else" in text
    assert "read by nobody, and forgotten" in text


def counted(count):
    seats = [Role(f"agent-{k}", (), group="agent", number=k) for k in range(1, count + 1)]
    nodes = [node(f"answer-{role.number}", role=role, group="answer") for role in seats]
    names = " ".join(one.name for one in nodes)
    nodes.append(node("pick", "vote", about=tuple(names.split())))
    return nodes, names


def test_nodes_of_a_counted_role_are_one_box():
    nodes, names = counted(5)
    made = protocol(nodes, [edge("start", names), edge(names, "pick"), edge("pick", "end")])
    assert list(picture_of(made).boxes) == ["start", "answer", "pick", "end"]
    text, mermaid, svg = drawings(made)
    assert "answer ×5 (speak)" in text
    assert "answer x5 (speak)" in mermaid
    assert "answer ×5" in words_of(svg)
    assert "plurality of choice of answer" in text


def test_an_edge_for_some_nodes_of_a_group_says_which():
    nodes, names = counted(3)
    made = protocol(
        nodes,
        [
            edge("start", names),
            edge(names, "pick"),
            edge("pick", "answer-2", times=1),
            edge("answer-2", "end"),
            edge("pick", "end"),
        ],
    )
    assert "↺ answer, only answer-2, up to 1 time" in to_text(made)


def nested():
    root = Scope("", {}, ())
    sub = Scope("sub", {}, (), parent=root)
    nodes = [
        node("ask"),
        node("sub.pro", scope=sub),
        node("sub.judge", "judge", scope=sub),
        node("sum", "compute"),
    ]
    edges = [
        edge("start", "ask"),
        edge("ask", "sub.pro", enters=("sub",)),
        edge("sub.pro", "sub.judge"),
        Edge(frozenset({"sub.judge"}), frozenset(), exits="sub", when=Expression("sub.judge.p > 0.5")),
        edge("sub.judge", "sub.pro", times=3),
        edge("sub", "sum"),
        edge("sub", "sub.pro", times=2, when=Expression("sub.judge.choice == none"), enters=("sub",)),
        edge("sum", "end"),
    ]
    return protocol(nodes, edges, root, [sub])


def test_a_nested_protocol_is_a_frame_around_its_own_picture():
    picture = picture_of(nested())
    assert list(picture.boxes) == ["start", "ask", "sub", "sum", "end"]
    inner = picture.boxes["sub"].inner
    assert list(inner.boxes) == ["start", "sub.pro", "sub.judge", "end"]
    assert [(arrow.sources, arrow.targets) for arrow in inner.arrows] == [
        (("start",), ("sub.pro",)),
        (("sub.pro",), ("sub.judge",)),
        (("sub.judge",), ("end",)),
        (("sub.judge",), ("sub.pro",)),
    ]


def test_a_condition_stands_inside_or_outside_of_the_frame_where_it_is_asked():
    picture = picture_of(nested())
    again = next(arrow for arrow in picture.arrows if arrow.sources == arrow.targets == ("sub",))
    assert again.label == ("up to 2 times", "when sub.judge.choice == none")
    leaves = next(arrow for arrow in picture.boxes["sub"].inner.arrows if arrow.targets == ("end",))
    assert leaves.label == ("when sub.judge.p > 0.5",)


def test_nested_protocols_are_subgraphs_and_boxes_in_boxes():
    text, mermaid, svg = drawings(nested())
    assert '    subgraph n_sub["sub"]\n' in mermaid
    assert '        n_sub___start(("start"))\n' in mermaid
    assert "        n_sub___pro --> n_sub___judge\n" in mermaid
    assert re.search(r"│ sub \(use\) +│", text)
    assert re.search(r"│ .*│ pro \(speak\) .*│", text)
    assert "USE" in words_of(svg)


def test_frames_that_counted_roles_play_are_drawn_once():
    root = Scope("", {}, ())
    works = [Scope(f"work-{k}", {}, (), parent=root, group="work", number=k, count=3) for k in (1, 2, 3)]
    nodes = [node(f"{work.name}.step", scope=work) for work in works]
    names = tuple(one.name for one in nodes)
    edges = [edge("start", " ".join(names), enters=tuple(work.name for work in works))]
    edges += [Edge(frozenset({f"{work.name}.step"}), frozenset(), exits=work.name) for work in works]
    edges.append(edge("work-1 work-2 work-3", "end"))
    picture = picture_of(protocol(nodes, edges, root, works))
    assert (picture.boxes["work"].count, list(picture.boxes)) == (3, ["start", "work", "end"])
    assert picture.arrows == (Arrow(("start",), ("work",)), Arrow(("work",), ("end",)))
    assert len(picture.boxes["work"].inner.arrows) == 2


def test_one_of_several_sources_is_told_from_all_of_them():
    nodes = [node("a"), node("b"), node("c")]
    start, end = edge("start", "a b"), edge("c", "end")
    every = protocol(nodes, [start, edge("a b", "c"), end])
    either = protocol(nodes, [start, edge("a", "c", origin=7), edge("b", "c", origin=7), end])
    assert [arrow.any for arrow in picture_of(every).arrows if arrow.targets == ("c",)] == [False]
    assert [arrow.any for arrow in picture_of(either).arrows if arrow.targets == ("c",)] == [True]
    assert "any" in words_of(to_svg(either)).split()
    assert "any" not in words_of(to_svg(every)).split()
    assert "all must have finished" in to_svg(every)


def test_a_node_stands_below_all_that_leads_to_it():
    # As in Kuhn poker: the payoff may follow the second move or the third.
    made = protocol(
        [node("one"), node("two"), node("three"), node("pay", "compute")],
        [
            edge("start", "one"),
            edge("one", "two"),
            edge("two", "three", when=Expression("two.ok")),
            edge("two", "pay"),
            edge("three", "pay"),
            edge("pay", "end"),
        ],
    )
    assert picture_of(made).rows == [["start"], ["one"], ["two"], ["three"], ["pay"], ["end"]]


def test_a_loop_does_not_move_what_it_returns_to():
    made = protocol(
        [node("act"), node("look", "tool"), node("answer")],
        [
            edge("start", "act"),
            edge("act", "look", times=5),
            edge("look", "act"),
            edge("act", "answer"),
            edge("answer", "end"),
        ],
    )
    assert picture_of(made).rows == [["start"], ["act"], ["look", "answer"], ["end"]]


def test_hostile_names_and_conditions_stay_text():
    made = compile_document(parse_document(HOSTILE))
    text, mermaid, svg = drawings(made)
    tree = ET.fromstring(svg)
    assert not [element for element in tree.iter() if element.tag.endswith("script")]
    assert "two_three.text != '<b>'" in words_of(svg)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", svg)
    assert "script" not in mermaid
    for line in mermaid.splitlines():
        assert line.count('"') in (0, 2)
    assert "n_two__three" in mermaid
    assert "read by nobody else" in text


def test_control_characters_in_a_condition_are_not_drawn():
    when = Expression("a.choice == 'x\x1b[2J\u202e'")
    made = protocol([node("a")], [edge("start", "a"), edge("a", "end", when=when), edge("a", "a", times=1)])
    for picture in drawings(made):
        assert all(character.isprintable() for line in picture.split("\n") for character in line)


# -- where it stands


@st.composite
def pictures(draw):
    """Random graphs: every node can be reached; some edges join, fork, go back or carry long labels."""
    count = draw(st.integers(1, 9))
    keys = [f"n{number}" for number in range(count)]
    boxes = {"start": Box("start", "start", "start")}
    for key in keys:
        facts = tuple(draw(st.lists(st.sampled_from(["a fact", "some longer fact " * 3, "x" * 90]), max_size=3)))
        boxes[key] = Box(key, key, draw(st.sampled_from(KINDS)), facts, draw(st.sampled_from([1, 1, 3])))
    boxes["end"] = Box("end", "end", "end")
    arrows = [Arrow((draw(st.sampled_from(["start", *keys[:number]])),), (key,)) for number, key in enumerate(keys)]
    some = st.lists(st.sampled_from(keys), min_size=1, max_size=3, unique=True).map(lambda k: tuple(sorted(k)))
    label = st.sampled_from([(), ("up to 3 times",), ("when " + "a.very_long_name == b " * 4, "stop: agreed")])
    for _ in range(draw(st.integers(0, 6))):
        guard = draw(label)
        arrows.append(Arrow(draw(some), draw(some | st.just(("end",))), guard, bool(guard)))
    arrows.append(Arrow((keys[-1],), ("end",)))
    return Picture("", boxes, tuple(arrow for one in dict.fromkeys(arrows) for arrow in ordered(boxes, arrows, one)))


def ordered(boxes, arrows, arrow):
    """An arrow in parts that go only down or only up."""
    row = Picture("", boxes, tuple(dict.fromkeys(arrows))).row
    last = max(row[key] for key in arrow.sources)
    parts = [tuple(k for k in arrow.targets if (row[k] > last) is below) for below in (True, False)]
    return [Arrow(arrow.sources, part, arrow.label, arrow.guarded) for part in parts if part]


def frames(drawing):
    return [(box.x, box.y, box.x + box.width, box.y + box.height) for box in drawing.boxes]


def label_frames(drawing):
    for label in drawing.labels:
        if label.lines:
            width = max(text_width(line, LABEL) for line in label.lines)
            left = label.x if label.beside else label.x - width / 2
            yield (left, label.y, left + width, label.y + LINE * len(label.lines))


def overlap(one, other):
    return min(one[2], other[2]) - max(one[0], other[0]) > 0.5 and min(one[3], other[3]) - max(one[1], other[1]) > 0.5


@given(pictures())
@settings(max_examples=150, deadline=None)
def test_boxes_and_labels_never_overlap_and_stay_inside(picture):
    drawing = lay_out(picture)
    boxes, labels = frames(drawing), list(label_frames(drawing))
    for one, other in combinations(boxes, 2):
        assert not overlap(one, other)
    for label in labels:
        assert not any(overlap(label, box) for box in boxes)
    for one, other in combinations(labels, 2):
        assert not overlap(one, other)
    for left, top, right, bottom in (*boxes, *labels):
        assert left >= -0.5
        assert top >= -0.5
        assert right <= drawing.width + 0.5
        assert bottom <= drawing.height + 0.5


@given(pictures())
@settings(max_examples=30, deadline=None)
def test_text_fits_into_its_box(picture):
    for placed in lay_out(picture).boxes:
        assert all(text_width(line, FACT) <= placed.width - 30 for line in placed.lines)


def test_the_same_protocol_gives_the_same_picture():
    assert drawings(nested()) == drawings(nested())


def test_a_straight_chain_is_drawn_straight():
    made = protocol([node("a"), node("b")], [edge("start", "a"), edge("a", "b"), edge("b", "end")])
    assert all("C" not in line.path for line in lay_out(picture_of(made)).lines)


def test_wrapped_text_keeps_its_words_and_its_width():
    lines = wrap_text("one two three four", 10, 60, most=9)
    assert " ".join(lines) == "one two three four"
    assert all(text_width(line, 10) <= 60 for line in lines)


def test_what_does_not_fit_ends_in_an_ellipsis():
    lines = wrap_text("word " * 50, 10, 80, most=2)
    assert len(lines) == 2
    assert lines[-1].endswith("…")
    assert all(text_width(line, 10) <= 80 for line in lines)


def test_spoken_kinds_are_among_those_that_are_drawn():
    assert set(SPOKEN) < set(KINDS)


def test_seats_in_turn_are_one_box_without_arrows_between_them():
    chat = to_text(load_protocol("chateval"))
    assert "one after the other" in chat
    assert "only" not in chat
    assert chat.count("↺ talk, up to 1 time (rounds - 1)") == 1
    assert "up to" not in to_text(load_protocol("chateval", {"rounds": 1}))


def test_a_node_of_one_seat_names_it_and_guarded_arrows_come_first():
    text = """\
name: x
fields: [question]
roles: {reviewer: {count: 2, sees: [question]}}
nodes: {a: {speak: reviewer-1}, b: {critique: reviewer-2, of: a}, c: {speak: reviewer-1}}
edges: [start -> a -> b -> end, {from: b, to: c, when: b.words > 3}, c -> end]
"""
    drawn = to_text(compile_document(parse_document(text, "g")))
    assert "reviewer-1 speaks" in drawn
    assert "reviewer-2 comments on a" in drawn
    assert drawn.index("when b.words > 3") < drawn.index("→ end")
