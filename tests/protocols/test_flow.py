"""Walks through graphs whose supersteps were enumerated by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import ConfigError, Edge, Expression, Node, Protocol, Role, Scope, load_protocol, parse_document
from arena.protocols.flow import Flow, Routes
from arena.protocols.loader import compile_document


def compiled(edges: str, nodes: str = "abc") -> Protocol:
    roles = "".join(f"  {name}: {{sees: [question]}}\n" for name in nodes)
    lines = "".join(f"  {name}: {{speak: {name}}}\n" for name in nodes)
    text = f"name: x\nfields: [question]\nroles:\n{roles}nodes:\n{lines}edges:\n{edges}"
    return compile_document(parse_document(text))


def walk(protocol: Protocol) -> list[str]:
    flow, steps = protocol.flow(), []
    while flow.ready:
        assert flow.superstep == len(steps)
        steps.append("".join(node.name for node in flow.ready))
        flow.advance()
    return steps


@pytest.mark.parametrize(
    ("edges", "steps"),
    [
        pytest.param("  - start -> a -> b -> c -> end\n", ["a", "b", "c"], id="chain"),
        pytest.param("  - start -> c & a -> b -> end\n", ["ac", "b"], id="fan-out in file order, join"),
        pytest.param("  - start -> a -> b & c -> end\n", ["a", "bc"], id="fan-out later"),
        pytest.param(
            "  - start -> a -> b -> end\n  - a & b -> c -> end\n", ["a", "b", "c"], id="join over two supersteps"
        ),
        pytest.param(
            "  - start -> a -> b -> c -> end\n  - {from: b, to: a, times: 2}\n",
            ["a", "b", "a", "b", "a", "b", "c"],
            id="loop",
        ),
        pytest.param(
            "  - start -> a -> b -> c -> end\n  - {from: b, to: a, times: 2, when: round < 2}\n",
            ["a", "b", "a", "b", "c"],
            id="loop that stops early",
        ),
        pytest.param(
            "  - start -> a -> b -> c -> end\n  - {from: a, to: a, times: 1}\n  - {from: b, to: a, times: 1}\n",
            ["a", "a", "b", "a", "b", "c"],
            id="times counts over the whole episode",
        ),
        pytest.param(
            "  - start -> a\n  - {from: a, to: b, when: round == 1, times: 9}\n  - {from: a, to: c, when: true}\n"
            "  - a -> end\n  - b -> a\n  - c -> end\n",
            ["a", "b", "a", "c"],
            id="first guard that holds",
        ),
        pytest.param(
            "  - start -> a & b -> c\n  - {from: c, to: a & b, times: 1, when: visits <= 3}\n  - c -> end\n",
            ["ab", "c", "ab", "c"],
            id="join again in each round",
        ),
    ],
)
def test_walks(edges: str, steps: list[str]) -> None:
    assert walk(compiled(edges)) == steps


@pytest.mark.parametrize("rounds", range(1, 6))
def test_library_walks(rounds: int) -> None:
    set_rounds = {"rounds": rounds}
    assert walk(load_protocol("debate", set_rounds)) == ["procon"] * rounds + ["verdict"]
    assert walk(load_protocol("evidence-debate", set_rounds)) == ["one", "two"] * rounds + ["verdict"]
    assert walk(load_protocol("consultancy", set_rounds)) == ["advice"] * rounds + ["verdict"]
    assert walk(load_protocol("evidence-consultancy", {"turns": rounds})) == ["one"] * rounds + ["verdict"]


def test_visits_count_what_is_done() -> None:
    flow = load_protocol("evidence-debate").flow()
    seen = []
    while flow.ready:
        seen.append((flow.ready[0].name, flow.visits[flow.ready[0].name]))
        flow.advance()
    assert seen == [("one", 0), ("two", 0), ("one", 1), ("two", 1), ("verdict", 0)]
    assert flow.visits == {"one": 2, "two": 2, "verdict": 1}


def test_walks_of_one_protocol_do_not_meet() -> None:
    protocol = compiled("  - start -> a -> b -> c -> end\n")
    first, second = protocol.flow(), protocol.flow()
    first.advance()
    first.advance()
    assert second.superstep == 0
    assert second.visits == {"a": 0, "b": 0, "c": 0}
    second.advance()
    assert [node.name for node in second.ready] == ["b"]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_every_walk_ends_after_its_bounds(ab: int, bb: int, ca: int) -> None:
    protocol = compiled(
        f"  - start -> a -> b -> c -> end\n  - {{from: a, to: a, times: {ab}}}\n"
        f"  - {{from: b, to: b, times: {bb}}}\n  - {{from: c, to: a, times: {ca}}}\n"
    )
    # Each edge is taken exactly `times` times: visits follow from the flow into each node.
    assert sorted("".join(walk(protocol))) == sorted("a" * (1 + ca + ab) + "b" * (1 + ca + bb) + "c" * (1 + ca))


def nodes(*names: str) -> dict[str, Node]:
    """Nodes by name; what stands before the last dot is the scope."""
    scopes = {scope: Scope(scope, {}, ()) for name in names for scope in [name.rpartition(".")[0]]}
    made = [
        Node(name, "speak", Role("r", ()), order, scope=scopes[name.rpartition(".")[0]])
        for order, name in enumerate(names)
    ]
    return {node.name: node for node in made}


def edge(sources: str, targets: str = "", when: str | None = None, **rest: object) -> Edge:
    condition = None if when is None else Expression(when)
    return Edge(frozenset(sources.split()), frozenset(targets.split()), when=condition, **rest)  # type: ignore[arg-type]


def steps(flow: Flow, values: dict[str, object] | None = None, most: int = 30) -> list[str]:
    found = []
    while flow.ready and len(found) < most:
        found.append(" ".join(node.name for node in flow.ready))
        flow.advance(values or {})
    return found


def test_conditions_know_what_was_said() -> None:
    made = nodes("a", "b", "c")
    routes = Routes(
        made,
        [
            edge("start", "a"),
            edge("a", "b", "a.choice == 'yes' and round == 1 and visits == 1"),
            edge("a", "c"),
            edge("b c", "end"),
        ],
    )
    assert steps(Flow(routes), {"a.choice": "yes", "other": 1}) == ["a", "b"]
    assert steps(Flow(routes), {"a.choice": None}) == ["a", "c"]
    with pytest.raises(ConfigError, match=r"needs 'a.choice'"):
        steps(Flow(routes), {})


def test_a_condition_that_is_none_does_not_hold() -> None:
    routes = Routes(
        nodes("a", "b", "c"),
        [edge("start", "a"), edge("a", "b", "1 / a.score"), edge("a", "c"), edge("b", "end"), edge("c", "end")],
    )
    assert steps(Flow(routes), {"a.score": 2}) == ["a", "b"]
    assert steps(Flow(routes), {"a.score": 0}) == ["a", "c"]
    assert steps(Flow(routes), {"a.score": None}) == ["a", "c"]


def test_edges_of_one_line_share_their_count() -> None:
    # a | b -> c, twice in all; a and b in turn lead there.
    routes = Routes(
        nodes("a", "b", "c"),
        [
            edge("start", "a"),
            edge("a", "c", times=2, origin=1),
            edge("b", "c", times=2, origin=1),
            edge("a", "b"),
            edge("c", "b"),
            edge("b", "end"),
        ],
    )
    assert steps(Flow(routes)) == ["a", "c", "b", "c", "b"]


def test_edges_of_one_line_that_are_taken_at_once_count_once() -> None:
    routes = Routes(
        nodes("a", "b", "c"),
        [
            edge("start", "a b"),
            edge("a", "c", times=1, origin=7),
            edge("b", "c", times=1, origin=7),
            edge("c", "a b", times=1),
            edge("c", "end"),
            edge("a", "end"),
            edge("b", "end"),
        ],
    )
    assert steps(Flow(routes)) == ["a b", "c", "a b"]


def test_a_join_fires_once_for_all_its_sources() -> None:
    # b was there first; then both act in one superstep, and the join still fires once.
    routes = Routes(
        nodes("a", "b", "c", "d"),
        [
            edge("start", "b"),
            edge("b", "a b", times=1),
            edge("a b", "c", times=1, origin=1),
            edge("a b", "d"),
            edge("c", "end"),
            edge("d", "end"),
        ],
    )
    assert steps(Flow(routes)) == ["b", "a b", "c"]


@pytest.mark.parametrize(("choice", "stop"), [("yes", "consensus"), ("no", "")])
def test_the_edge_that_ends_the_episode_says_why(choice: str, stop: str) -> None:
    routes = Routes(
        nodes("a", "b"),
        [edge("start", "a"), edge("a", "end", "a.choice == 'yes'", stop="consensus"), edge("a", "b"), edge("b", "end")],
    )
    flow = Flow(routes)
    steps(flow, {"a.choice": choice})
    assert flow.stop == stop


def test_an_edge_to_the_end_does_not_end_what_goes_on_beside_it() -> None:
    routes = Routes(
        nodes("a", "b", "c"),
        [edge("start", "a b"), edge("a", "end"), edge("b", "c"), edge("c", "end")],
    )
    flow = Flow(routes)
    assert steps(flow) == ["a b", "c"]
    assert flow.stop == ""


def test_an_early_stop_ends_what_goes_on_beside_it() -> None:
    routes = Routes(
        nodes("a", "b", "c"),
        [
            edge("start", "a b"),
            edge("a", "end", "a.choice == 'yes'", stop="early"),
            edge("a", "end"),
            edge("b", "c"),
            edge("c", "end"),
        ],
    )
    flow = Flow(routes)
    assert steps(flow, {"a.choice": "yes"}) == ["a b"]
    assert (flow.stop, flow.superstep) == ("early", 1)
    flow = Flow(routes)
    assert steps(flow, {"a.choice": "no"}) == ["a b", "c"]
    assert flow.stop == ""


def test_of_two_early_stops_that_of_the_first_node_counts() -> None:
    ends = [edge("b", "end", stop="second"), edge("a", "end", stop="first")]
    flow = Flow(Routes(nodes("a", "b"), [edge("start", "a b"), *ends]))
    flow.advance()
    assert flow.stop == "first"


def nested(*outer: Edge) -> Flow:
    """s.a -> s.b, which goes back to s.a once; `outer` leads around it."""
    inner = [edge("s.a", "s.b"), edge("s.b", "s.a", times=1, origin=1), edge("s.b", exits="s")]
    return Flow(Routes(nodes("x", "s.a", "s.b", "y"), [*inner, *outer, edge("x", "s.a", enters=("s",))]))


def test_a_scope_finishes_like_a_node() -> None:
    flow = nested(edge("start", "x"), edge("s", "y"), edge("y", "end"))
    assert steps(flow) == ["x", "s.a", "s.b", "s.a", "s.b", "y"]


def test_a_scope_that_is_entered_again_begins_anew() -> None:
    flow = nested(edge("start", "x"), edge("s", "s.a", "round < 3", enters=("s",)), edge("s", "end"))
    seen = []
    while flow.ready:
        seen.append((flow.ready[0].name, flow.entered, flow.rounds(flow.ready[0].name)))
        flow.advance()
    once = [("s.a", 0), ("s.b", 0), ("s.a", 1), ("s.b", 1)]
    assert [(name, rounds) for name, _, rounds in seen] == [("x", 0), *once, *once, *once]
    assert [place for place, (_, entered, _) in enumerate(seen) if entered] == [1, 5, 9]
    assert flow.visits == {"x": 1, "s.a": 6, "s.b": 6, "y": 0}


def test_counts_in_conditions_are_those_of_the_scope() -> None:
    inner = [
        edge("start", "s.a", enters=("s",)),
        edge("s.a", "s.a", "visits < 2 and round < 5"),
        edge("s.a", exits="s"),
    ]
    outer = [edge("s", "s.a", "visits < 4", enters=("s",)), edge("s", "end")]
    flow = Flow(Routes(nodes("s.a"), [*inner, *outer]))
    assert flow.entered == ("s",)
    assert steps(flow) == ["s.a"] * 4


def test_a_join_waits_for_scopes() -> None:
    inner = [edge("p.a", "p.a", times=2, origin=1), edge("p.a", exits="p"), edge("q.a", exits="q")]
    outer = [edge("start", "p.a q.a x", enters=("p", "q")), edge("p q x", "y"), edge("y", "end")]
    flow = Flow(Routes(nodes("p.a", "q.a", "x", "y"), [*inner, *outer]))
    assert steps(flow) == ["p.a q.a x", "p.a", "p.a", "y"]


def test_a_scope_has_finished_when_nothing_in_it_acts_any_more() -> None:
    inner = [edge("s.a", exits="s"), edge("s.b", "s.c"), edge("s.c", exits="s")]
    outer = [edge("start", "s.a s.b", enters=("s",)), edge("s", "y"), edge("y", "end")]
    assert steps(Flow(Routes(nodes("s.a", "s.b", "s.c", "y"), [*inner, *outer]))) == ["s.a s.b", "s.c", "y"]


def test_an_early_stop_in_a_scope_ends_that_scope_alone() -> None:
    # s.b and what s.t nests would go on; x beside the scope does.
    inner = [
        edge("s.a", exits="s", stop="early"),
        edge("s.b", "s.c"),
        edge("s.c", exits="s"),
        edge("s.t.a", "s.t.a", times=3),
        edge("s.t.a", exits="s.t"),
        edge("s.t", "s.c"),
    ]
    outer = [edge("start", "s.a s.b s.t.a x", enters=("s", "s.t")), edge("s", "y"), edge("y", "end"), edge("x", "z")]
    flow = Flow(Routes(nodes("x", "s.a", "s.b", "s.c", "s.t.a", "y", "z"), [*inner, *outer, edge("z", "end")]))
    assert steps(flow) == ["x s.a s.b s.t.a", "y z"]
    assert flow.stop == ""


def test_a_scope_that_is_left_at_the_moment_of_an_early_stop_leads_nowhere_inside() -> None:
    inner = [edge("s.a", exits="s", stop="early"), edge("s.t.a", exits="s.t"), edge("s.t", "s.c")]
    outer = [edge("start", "s.a s.t.a", enters=("s", "s.t")), edge("s", "y"), edge("y", "end")]
    more = [edge("s.c", exits="s")]
    assert steps(Flow(Routes(nodes("s.a", "s.t.a", "s.c", "y"), [*inner, *outer, *more]))) == ["s.a s.t.a", "y"]


def test_what_a_stopped_scope_nests_cannot_finish_after_it() -> None:
    # At the moment of the early stop, one branch of s.t has come to its end and another would go on.
    inner = [
        edge("s.a", exits="s", stop="early"),
        edge("s.t.a", exits="s.t"),
        edge("s.t.b", "s.t.c"),
        edge("s.t.c", exits="s.t"),
        edge("s.t", "s.d"),
        edge("s.d", exits="s"),
    ]
    outer = [edge("start", "s.a s.t.a s.t.b", enters=("s", "s.t")), edge("s", "y"), edge("y", "end")]
    flow = Flow(Routes(nodes("s.a", "s.t.a", "s.t.b", "s.t.c", "s.d", "y"), [*inner, *outer]))
    assert steps(flow) == ["s.a s.t.a s.t.b", "y"]


def test_a_plain_edge_to_the_end_of_a_scope_does_not_keep_others_from_going_on() -> None:
    for ends in ([edge("s.a", exits="s"), edge("s.a", "s.b")], [edge("s.a", "s.b"), edge("s.a", exits="s")]):
        outer = [edge("start", "s.a", enters=("s",)), edge("s.b", exits="s"), edge("s", "y"), edge("y", "end")]
        assert steps(Flow(Routes(nodes("s.a", "s.b", "y"), [*ends, *outer]))) == ["s.a", "s.b", "y"]


def test_the_last_of_an_inner_scope_may_end_the_outer_ones() -> None:
    inner = [edge("start", "s.t.a", enters=("s", "s.t")), edge("s.t.a", exits="s.t"), edge("s.t", exits="s")]
    outer = [edge("s", "s.t.a", times=1, enters=("s", "s.t")), edge("s", "y"), edge("y", "end")]
    flow = Flow(Routes(nodes("s.t.a", "y"), [*inner, *outer]))
    assert steps(flow) == ["s.t.a", "s.t.a", "y"]


def test_a_half_finished_join_is_forgotten_with_its_scope() -> None:
    # s.a comes first in each round; the join of s.a and s.b must not take the s.a of the round before.
    inner = [
        edge("s.a", exits="s", when="s.a.quick"),
        edge("s.a", "s.b"),
        edge("s.a s.b", "s.c"),
        edge("s.b", "s.b", times=1),
    ]
    outer = [edge("start", "s.a", enters=("s",)), edge("s", "s.b", times=1, enters=("s",)), edge("s", "end")]
    flow = Flow(Routes(nodes("s.a", "s.b", "s.c"), [*inner, *outer]))
    assert steps(flow, {"s.a.quick": True}) == ["s.a", "s.b", "s.b"]
