"""Expressions that have no value for what was said: nothing ends, nobody is paid by accident."""

from __future__ import annotations

import pytest

from arena.agents import from_list
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Task
from arena.rewards import pay

GAME = """
name: game
fields: [question]
roles:
  a: {sees: [question]}
  b: {sees: [question]}
nodes:
  x: {speak: a, output: {json: {type: object, properties: {k: {type: number}}, required: [k]}}}
  y: {speak: b}
  sums: {compute: {half: x.k / 2, inverse: 1 / x.k}, say: "{{ half }} {{ inverse }}"}
edges:
  - start -> x
  - {from: x, to: y, when: CONDITION, times: 1}
  - x -> sums
  - y -> sums
  - sums -> end
rewards: {roles: [a], value: exp(x.k)}
"""


def played(condition: str, said: str):
    protocol = compile_document(parse_document(GAME.replace("CONDITION", f'"{condition}"')))
    task = Task("t", {"question": "?"}, None)
    lineup = {"a": from_list([said]), "b": from_list(["hm"])}
    episodes = Engine(protocol, {}, seed=0).play([Plan("e", task, lineup)])
    assert episodes[0].error is None
    return episodes[0], pay(protocol, None, episodes, {"t": task})[0].rewards  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("condition", "said", "taken"),
    [
        ("x.k + 1 > 0", '{"k": 2}', True),
        ("x.k + 1 > 0", "what?", False),
        ("abs(x.k) > 1", "what?", False),
        ("min(x.k, 1) > 0", "what?", False),
        ("1 / (x.words - 1) > 0", "what?", False),
        ("1 / x.k", '{"k": 0}', False),
        ("log(x.k) < 9", '{"k": 0}', False),
        ("x.k + 1 == none", "what?", True),
    ],
)
def test_a_condition_without_a_value_does_not_hold(condition: str, said: str, taken: bool) -> None:
    episode, _ = played(condition, said)
    assert [turn.node for turn in episode.turns] == ["x", *(["y"] if taken else []), "sums"]


def test_a_computation_without_a_value_gives_none() -> None:
    episode, _ = played("x.ok", "what?")
    assert episode.turns[-1].fields == {"half": None, "inverse": None}
    episode, _ = played("x.ok", '{"k": 0}')
    assert episode.turns[-1].fields == {"half": 0.0, "inverse": None}


def test_a_reward_without_a_value_is_not_paid() -> None:
    assert played("x.ok", '{"k": 0}')[1] == [1.0, None, None]
    assert played("x.ok", '{"k": 800}')[1] == [None] * 3
    assert played("x.ok", "what?")[1] == [None] * 2
