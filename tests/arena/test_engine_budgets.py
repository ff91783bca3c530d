"""Budgets of episodes and of runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from arena.agents import Act, Ask, ScriptedAgent
from arena.engine import Engine, Plan
from arena.protocols import Budget, Protocol
from arena.protocols.records import Sampling, Task, TokenSpan, TurnStatus
from arena.records_json import to_json

LOOP = """
name: loop
roles: {a: {sees: [question]}, b: {sees: [question]}}
nodes: {one: {speak: a}, two: {speak: b}}
edges:
  - start -> one & two
  - {from: one & two, to: one & two, times: 9}
  - one & two -> end
budget: {BUDGET}
"""
TASK = Task("t", {"question": "?"})


@pytest.mark.parametrize(
    ("budget", "turns", "stop"),
    [
        ("turns: 20", 20, "end"),
        ("turns: 6", 6, "turns budget"),
        ("turns: 7", 6, "turns budget"),
        ("turns: 1", 0, "turns budget"),
    ],
)
def test_no_superstep_begins_that_would_make_too_many_turns(play, budget: str, turns: int, stop: str) -> None:
    played = play(LOOP.replace("BUDGET", budget), {"a": lambda ask: "x", "b": lambda ask: "y"})
    assert (len(played.turns), played.episode.stop, played.episode.error) == (turns, stop, None)


def drawn(count: int) -> Act:
    return Act("x", tokens=TokenSpan((), (1,) * count, (-1.0,) * count, "p@v0", Sampling()))


def test_sampled_tokens_are_counted_hidden_thinking_included(play) -> None:
    thought = Act("y", visible_tokens=1, thinking="hm", thinking_tokens=2)
    text = LOOP.replace("BUDGET", "tokens: 14")
    played = play(text, {"a": lambda ask: drawn(4), "b": lambda ask: thought})
    assert (len(played.turns), played.episode.stop) == (4, "tokens budget")
    played = play(text.replace("14", "15"), {"a": lambda ask: drawn(4), "b": lambda ask: thought})
    assert len(played.turns) == 6


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_episode_ends_when_its_time_is_over(play) -> None:
    clock = Clock()

    def slow(ask: Ask) -> str:
        clock.now += 2
        return "x"

    played = play(LOOP.replace("BUDGET", "seconds: 7"), {"a": slow, "b": lambda ask: "y"}, clock=clock)
    assert (len(played.turns), played.episode.stop) == (8, "seconds budget")


RETRIED = """
name: retried
roles: {a: {sees: [question]}}
nodes: {say: {speak: a, output: {choice: [yes, no]}, retries: 9}}
edges: [start -> say -> end]
budget: {turns: 3}
"""


def test_attempts_count_and_the_last_one_that_fits_stays(play) -> None:
    played = play(RETRIED, {"a": lambda ask: "perhaps"})
    assert [(turn.attempt, turn.kept) for turn in played.turns] == [(0, False), (1, False), (2, True)]
    assert played.episode.stop == "end"


def test_candidates_count(play) -> None:
    text = RETRIED.replace("output: {choice: [yes, no]}, retries: 9", "best_of: {n: 4, value: words}")
    played = play(text, {"a": lambda ask: "x"})
    assert (len(played.turns), played.episode.stop) == (0, "turns budget")


# Of a run


TALK = """
name: talk
roles: {a: {sees: [question]}}
nodes: {one: {speak: a}, two: {speak: a}, three: {speak: a}}
edges: [start -> one -> two -> three -> end]
"""


@pytest.fixture
def talk(compiled: Callable[..., Protocol]) -> Protocol:
    return compiled(TALK)


def plans(count: int) -> list[Plan]:
    agent = ScriptedAgent("a", lambda ask: f"{ask.seed}", encoder=None)
    return [Plan(f"e{i}", TASK, {"a": agent}) for i in range(count)]


def test_a_run_stops_when_its_turns_are_spent_and_drops_what_is_in_flight(talk: Protocol) -> None:
    engine = Engine(talk, {}, seed=0, concurrency=1, budget=Budget(turns=7))
    played = engine.play(plans(5))
    assert [episode.key for episode in played] == ["e0", "e1"]
    assert engine.stopped == "turns budget"
    side_by_side = Engine(talk, {}, seed=0, concurrency=5, budget=Budget(turns=7))
    assert side_by_side.play(plans(5)) == []
    assert side_by_side.stopped == "turns budget"


def test_a_budget_that_is_just_enough_stops_nothing(talk: Protocol) -> None:
    engine = Engine(talk, {}, seed=0, budget=Budget(turns=15))
    assert len(engine.play(plans(5))) == 5
    assert engine.stopped == ""


def test_what_was_dropped_is_the_same_when_it_is_played_later(talk: Protocol) -> None:
    expected = [to_json(episode) for episode in Engine(talk, {}, seed=0).play(plans(5))]
    first = Engine(talk, {}, seed=0, concurrency=2, budget=Budget(turns=9)).play(plans(5))
    done = {episode.key for episode in first}
    rest = Engine(talk, {}, seed=0).play([plan for plan in plans(5) if plan.key not in done])
    assert [to_json(episode) for episode in [*first, *rest]] == expected


def test_a_run_stops_when_its_tokens_or_its_time_are_spent(talk: Protocol) -> None:
    agent = ScriptedAgent("a", lambda ask: drawn(10))
    engine = Engine(talk, {}, seed=0, concurrency=1, budget=Budget(tokens=60))
    assert len(engine.play([Plan(f"e{i}", TASK, {"a": agent}) for i in range(5)])) == 2
    assert engine.stopped == "tokens budget"

    clock = Clock()

    def slow(ask: Ask) -> str:
        clock.now += 1
        return "x"

    engine = Engine(talk, {}, seed=0, concurrency=1, budget=Budget(seconds=3), clock=clock)
    assert len(engine.play([Plan(f"e{i}", TASK, {"a": ScriptedAgent("a", slow)}) for i in range(5)])) == 1
    assert engine.stopped == "seconds budget"


def test_an_agent_that_gives_up_stops_the_run_and_its_episode_is_left_for_later(talk: Protocol) -> None:
    agent = ScriptedAgent(
        "a", lambda ask: Act("", TurnStatus.CANCELLED, error="max_cost") if ask.episode == "e2" else "x"
    )
    engine = Engine(talk, {}, seed=0, concurrency=1)
    played = engine.play([Plan(f"e{i}", TASK, {"a": agent}) for i in range(5)])
    assert [episode.key for episode in played] == ["e0", "e1"]
    assert engine.stopped == "cancelled: max_cost"
