"""Walks through graphs whose supersteps were enumerated by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.protocols import Protocol, load_protocol, parse_document
from arena.protocols.loader import compile_document


def compiled(edges: str, nodes: str = "abc") -> Protocol:
    lines = "".join(f"  {name}: {{speak: r}}\n" for name in nodes)
    text = f"name: x\nfields: [question]\nroles: {{r: {{sees: [question]}}}}\nnodes:\n{lines}edges:\n{edges}"
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
    assert walk(load_protocol("debate-sequential", set_rounds)) == ["pro", "con"] * rounds + ["verdict"]
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
    protocol = load_protocol("debate-sequential")
    first, second = protocol.flow(), protocol.flow()
    first.advance()
    first.advance()
    assert second.superstep == 0
    assert second.visits == {"pro": 0, "con": 0, "verdict": 0}
    second.advance()
    assert [node.name for node in second.ready] == ["con"]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))
def test_every_walk_ends_after_its_bounds(ab: int, bb: int, ca: int) -> None:
    protocol = compiled(
        f"  - start -> a -> b -> c -> end\n  - {{from: a, to: a, times: {ab}}}\n"
        f"  - {{from: b, to: b, times: {bb}}}\n  - {{from: c, to: a, times: {ca}}}\n"
    )
    # Each edge is taken exactly `times` times: visits follow from the flow into each node.
    assert sorted("".join(walk(protocol))) == sorted("a" * (1 + ca + ab) + "b" * (1 + ca + bb) + "c" * (1 + ca))
