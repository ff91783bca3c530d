"""Edges as files write them: any-joins, what params decide, who would meet whom, and joins that never fire."""

import pytest

from arena.protocols import Protocol, SourceError, parse_document
from arena.protocols.compiler.walk import explore
from arena.protocols.graph import Edge
from arena.protocols.loader import compile_document


def text(edges: str, nodes: str = "abcd", more: str = "") -> str:
    roles = "".join(f"  {name}: {{sees: [question]}}\n" for name in nodes)
    lines = "".join(f"  {name}: {{speak: {name}}}\n" for name in nodes)
    params = "params: {deep: true, rounds: 2}\n" if "deep" in edges else ""
    return f"name: x\n{params}fields: [question]\nroles:\n{roles}nodes:\n{lines}{more}edges:\n{edges}"


def compiled(edges: str, nodes: str = "abcd", more: str = "", **params: object) -> Protocol:
    return compile_document(parse_document(text(edges, nodes, more), "g"), params)


def faults(edges: str, nodes: str = "abcd", more: str = "") -> list[str]:
    with pytest.raises(SourceError) as caught:
        compiled(edges, nodes, more)
    return [f"{fault.where}: {fault.what}" for fault in caught.value.faults]


def arrows(protocol: Protocol) -> list[str]:
    return [
        f"{'&'.join(sorted(edge.sources))}->{'&'.join(sorted(edge.targets))}"
        + (f" {edge.times}" if edge.times is not None else "")
        + (f" [{edge.when.source}]" if edge.when else "")
        for edge in protocol.edges
    ]


def test_any_of_several_is_an_edge_from_each_with_one_count() -> None:
    protocol = compiled(
        "  - start -> a\n  - {from: a, to: b, when: a.ok}\n  - a -> c\n"
        "  - {from: b | c, to: a, times: 2}\n  - b | c -> d -> end\n"
    )
    assert arrows(protocol) == ["start->a", "a->b [a.ok]", "a->c", "b->a 2", "c->a 2", "b->d", "c->d", "d->end"]
    assert [edge.origin for edge in protocol.edges] == [1, 2, 3, 4, 4, 5, 5, 6]


def test_all_binds_stronger_than_any() -> None:
    protocol = compiled("  - start -> a & b & c\n  - a & b | c -> d -> end\n")
    assert arrows(protocol)[1:3] == ["a&b->d", "c->d"]


@pytest.mark.parametrize(
    ("deep", "arrow"),
    [(True, ["start->a", "a->b", "b->end"]), (False, ["start->a", "a->c", "c->end"])],
)
def test_params_decide_conditions_that_speak_of_nothing_else(deep: bool, arrow: list[str]) -> None:
    edges = "  - start -> a\n  - {from: a, to: b, when: deep and rounds > 1}\n  - a -> c\n  - b | c -> end\n"
    protocol = compiled(edges, "abc", deep=deep)
    assert arrows(protocol) == arrow
    assert list(protocol.nodes) == ["a", arrow[1][-1]]
    assert set(protocol.scope.absent) == {"b", "c"} - set(protocol.nodes)


def test_what_params_rule_out_reads_as_what_has_not_run() -> None:
    edges = (
        "  - start -> a\n  - {from: a, to: b, when: deep and rounds > 1}\n  - a -> c\n  - b | c -> d\n"
        "  - {from: d, to: end, when: b.words == 0 and b.text == none, stop: quiet}\n  - d -> end\n"
    )
    more = '  e: {speak: d, prompt: "{{ b.text }}{{ b.choice }}"}\n'
    protocol = compiled(edges, deep=False)
    assert protocol.edges[3].when is not None
    assert protocol.edges[3].when({}) is True
    assert faults(edges, more=more.replace("  e:", "  e-:"))  # a node that is not sound is still reported
    assert protocol.scope.absent["b"]["text"] == ""


def test_the_other_way_out_may_be_missing_where_params_decide() -> None:
    edges = "  - start -> a\n  - {from: a, to: b, when: deep}\n  - {from: a, to: c, when: not deep}\n  - b | c -> end\n"
    both = edges.replace("deep", "deep and rounds > 0")
    assert arrows(compiled(both, "abc"))[1] == "a->b"
    one = "  - start -> a\n  - {from: a, to: b, when: deep and rounds > 9}\n  - b -> end\n"
    assert "edges: 'end' is never reached with these params: their conditions leave no way to it" in faults(one, "ab")


@pytest.mark.parametrize(
    ("edges", "fault"),
    [
        (
            "  - start -> a -> b | c -> d -> end\n",
            "edges[0]: '|' joins what must have finished; what acts next is joined by '&'",
        ),
        (
            "  - start -> a & b -> c\n  - {from: c, to: d, stop: early}\n  - c -> end\n  - d -> end\n",
            "edges[1].stop: 'stop' does nothing here: only an edge to 'end' stops the episode",
        ),
        (
            "  - {from: start, to: a, when: a.ok}\n  - a -> b & c & d -> end\n",
            "edges[0]: an edge from 'start' may have a condition over params, and no bound",
        ),
        (
            "  - {from: start, to: a, times: 1}\n  - a -> b & c & d -> end\n",
            "edges[0]: an edge from 'start' may have a condition over params, and no bound",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a, to: c, when: d.ok}\n",
            "edges[1].when: 'd.ok' is always none here: its node can only run later",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a, to: c, when: d.k}\n",
            "edges[1].when: 'd' gives no 'k'. Did you mean 'ok'?",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a, to: c, when: e.ok}\n",
            "edges[1].when: 'e' is not a node of this protocol. There is: a, b, c, d.",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a, to: c, when: a.ok.x}\n",
            "edges[1].when: 'a.ok.x' has no parts: a field of a node is one value in expressions",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a, to: c, when: a.text + 1}\n",
            "edges[1].when: 'a.text + 1' has no value: 'a text' is not a number",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: a | a, to: c, when: a.ok}\n",
            "edges[1].from: two of what is joined by '|' are the same",
        ),
        (
            "  - start -> a -> b -> c -> d -> end\n  - {from: b, to: end, stop: early}\n",
            "edges[0]: this is never taken: an edge with 'stop' and no condition leads from there too",
        ),
        # sources that exclude each other
        (
            "  - start -> a\n  - {from: a, to: b, when: a.ok}\n  - a -> c\n  - b & c -> d -> end\n  - b | c -> end\n",
            "edges[3]: 'b & c' is never complete: not all of them run on any way",
        ),
    ],
)
def test_faults(edges: str, fault: str) -> None:
    found = faults(edges)
    assert fault in found, "\n".join(found)


def test_one_seat_cannot_speak_twice_at_once() -> None:
    more = "  e: {speak: a}\n"
    assert faults("  - start -> a & e -> b -> c -> d -> end\n", more=more) == [
        "nodes.e: 'a' and 'e' may act at the same time, and 'a' speaks at both: one after the other, or by two roles"
    ]
    # On branches of different length they meet later.
    apart = "  - start -> a & b\n  - a -> c -> end\n  - b -> d -> e -> end\n"
    compiled(apart, more=more)
    meeting = (
        "  - start -> b & c\n  - b -> a -> end\n  - c -> e -> end\n  - {from: a, to: d, when: a.ok}\n  - d -> end\n"
    )
    assert "'a' and 'e' may act at the same time" in faults(meeting, more=more)[0]


def edge(sources: str, targets: str, *, times: int | None = None, enters: str = "", exits: str = "") -> Edge:
    return Edge(
        frozenset(sources.split()), frozenset(targets.split()), times, enters=tuple(enters.split()), exits=exits
    )


def test_all_ways_through_a_graph() -> None:
    walk = explore([edge("start", "a"), edge("a", "b c", times=1), edge("a", "d"), edge("b c", "d"), edge("d", "end")])
    assert walk.together == {frozenset("a"), frozenset("bc"), frozenset("d")}
    assert walk.complete


def test_a_scope_finishes_when_nothing_of_it_acts_any_more() -> None:
    edges = [
        edge("start", "s.a x", enters="s"),
        edge("s.a", "s.a", times=2),
        edge("s.a", "", exits="s"),
        edge("s x", "y"),
        edge("y", "end"),
    ]
    walk = explore(edges)
    assert frozenset({"y"}) in walk.together
    assert frozenset({"s.a", "y"}) not in walk.together
    assert frozenset({"s", "x"}) in walk.fired


def test_a_walk_through_a_large_graph_has_an_end() -> None:
    many = " ".join(f"n{i}" for i in range(40))
    edges = [
        edge("start", many),
        *(edge(f"n{i}", f"n{i}", times=2) for i in range(40)),
        *(edge(f"n{i}", "end") for i in range(40)),
    ]
    assert not explore(edges).complete
