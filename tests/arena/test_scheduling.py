"""Schedules: who meets whom, what a schedule may know, and that a killed tournament would go on the same."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.decisions import Sprt
from arena.protocols.errors import ConfigError, UnknownNameError
from arena.scheduling import SCHEDULES, Pairing, Result, Schedule, State
from arena.scheduling.early_stop import EarlyStop, pair_scores
from arena.testing import check_schedule

NAMES = tuple("abcdefgh")
TASKS = ("t0", "t1")

Plays = Callable[[Pairing], tuple[float, ...]]


def earlier_wins(pairing: Pairing) -> tuple[float, ...]:
    """Who stands earlier in the alphabet wins both games."""
    return (1.0, 1.0) if pairing.first < pairing.second else (0.0, 0.0)


def build(spec: str | dict[str, object], names: Sequence[str] = NAMES) -> Schedule:
    return SCHEDULES.build(spec, names=tuple(names))


def rounds_of(
    schedule: Schedule, names: Sequence[str] = NAMES, plays: Plays = earlier_wins, tasks: Sequence[str] = TASKS
) -> list[list[Pairing]]:
    """The rounds of a tournament in which pairings end as ``plays`` says."""
    played: list[tuple[Result, ...]] = []
    found: list[list[Pairing]] = []
    while pairings := list(schedule.next_round(State(tuple(names), tuple(tasks), tuple(played)))):
        found.append(pairings)
        played.append(tuple(Result(pairing, plays(pairing), 2, tokens=10) for pairing in pairings))
        assert len(found) < 1000, "the schedule does not end"
    return found


def pairs(pairings: Sequence[Pairing]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((pairing.first, pairing.second) for pairing in pairings))


def test_a_round_robin_is_every_pair_on_every_task_at_once() -> None:
    (only,) = rounds_of(build("round_robin"))
    assert len(only) == math.comb(8, 2) * 2
    assert set(pairs(only)) == set(itertools.combinations(NAMES, 2))


def test_a_cross_table_has_the_diagonal_too() -> None:
    (only,) = rounds_of(build("cross_table"), "abc")
    assert set(pairs(only)) == set(itertools.combinations_with_replacement("abc", 2))


def test_in_a_gauntlet_newcomers_meet_the_pool_and_nobody_else() -> None:
    (only,) = rounds_of(build({"kind": "gauntlet", "new": ["g", "h"]}))
    assert set(pairs(only)) == {(old, new) for old in "abcdef" for new in "gh"}
    with pytest.raises(UnknownNameError, match=r"'x' of schedule 'gauntlet' is not one of the agents"):
        build({"kind": "gauntlet", "new": ["x"]})
    with pytest.raises(ConfigError, match="needs newcomers and a pool"):
        build({"kind": "gauntlet", "new": list(NAMES)})


def test_swiss_rounds_with_a_clear_order_leave_one_agent_unbeaten() -> None:
    """2^k agents without upsets have a single unbeaten one after k rounds, as in a knockout."""
    rounds = rounds_of(build({"kind": "swiss", "rounds": 3}))
    assert [len(pairs(each)) for each in rounds] == [4, 4, 4]
    beaten = {second for each in rounds for _, second in pairs(each)}
    assert set(NAMES) - beaten == {"a"}


@given(count=st.integers(2, 13), rounds=st.integers(1, 5), seed=st.integers(0, 5))
def test_nobody_plays_twice_in_a_swiss_round_or_meets_an_opponent_again(count: int, rounds: int, seed: int) -> None:
    names = [f"n{number}" for number in range(count)]
    rounds = min(rounds, count - 1)
    met: set[frozenset[str]] = set()
    scores = {name: hash((seed, number)) % 7 for number, name in enumerate(names)}

    def plays(pairing: Pairing) -> tuple[float, ...]:
        return (
            (0.5,)
            if scores[pairing.first] == scores[pairing.second]
            else (float(scores[pairing.first] > scores[pairing.second]),)
        )

    schedule = build({"kind": "swiss", "rounds": rounds}, names)
    for each in rounds_of(schedule, names, plays):
        seated = [name for pair in pairs(each) for name in pair]
        assert len(seated) == len(set(seated))
        new = {frozenset(pair) for pair in pairs(each)}
        assert not new & met
        met |= new


def test_in_a_swiss_system_of_an_odd_number_everybody_sits_out_about_as_often() -> None:
    rounds = rounds_of(build({"kind": "swiss", "rounds": 7}, NAMES[:7]), NAMES[:7])
    assert len({frozenset(pair) for each in rounds for pair in pairs(each)}) == sum(len(pairs(each)) for each in rounds)
    played = Counter(name for each in rounds for pair in pairs(each) for name in pair)
    assert max(played.values()) - min(played.values()) <= 2


def test_more_swiss_rounds_than_opponents_are_refused() -> None:
    with pytest.raises(ConfigError, match="'rounds' of schedule 'swiss' is 8, but 8 agents have met after 7"):
        build({"kind": "swiss", "rounds": 8})


def test_an_agent_that_comes_after_the_last_swiss_round_meets_as_many_opponents_as_the_others() -> None:
    schedule = build({"kind": "swiss", "rounds": 3})
    played = tuple(tuple(Result(pairing, earlier_wins(pairing), 2) for pairing in each) for each in rounds_of(schedule))
    more = list(played)
    for _ in range(3):
        chosen = schedule.next_round(State((*NAMES, "z"), TASKS, tuple(more), since=3))
        assert [pair.count("z") for pair in pairs(chosen)] == [1]
        more.append(tuple(Result(pairing, earlier_wins(pairing), 2) for pairing in chosen))
    assert not schedule.next_round(State((*NAMES, "z"), TASKS, tuple(more), since=3))


@given(st.permutations(NAMES))
def test_a_ladder_without_upsets_ends_sorted(order: list[str]) -> None:
    """Odd-even transposition sorts n places in n steps (Knuth 1998, 5.3.4)."""
    schedule = build("ladder", order)
    rounds = rounds_of(schedule, order)
    ladder = list(order)
    for step in range(2 * len(ladder)):
        for place in range(step % 2, len(ladder) - 1, 2):
            if ladder[place] > ladder[place + 1]:
                ladder[place], ladder[place + 1] = ladder[place + 1], ladder[place]
    met = {frozenset(pair) for each in rounds for pair in pairs(each)}
    assert ladder == sorted(order)
    assert all(frozenset(pair) in met for pair in itertools.pairwise(ladder))
    assert sum(len(pairs(each)) for each in rounds) == len(met)


def test_a_ladder_stops_after_its_rounds_and_begins_anew_for_who_is_added() -> None:
    schedule = build({"kind": "ladder", "rounds": 2})
    played = tuple(tuple(Result(pairing, earlier_wins(pairing), 2) for pairing in each) for each in rounds_of(schedule))
    assert len(played) == 2
    (late, *more) = pairs(schedule.next_round(State((*NAMES, "z"), TASKS, played, since=2)))
    assert (late, more) == (("h", "z"), [])


def test_the_adaptive_schedule_plays_its_share_and_no_pairing_twice() -> None:
    tasks = [f"t{number}" for number in range(6)]
    rounds = rounds_of(build({"kind": "adaptive", "share": 0.25}), tasks=tasks)
    played = [pairing for each in rounds for pairing in each]
    assert len(played) == len(set(played)) == math.comb(8, 2) * 6 // 4
    assert [len(each) for each in rounds[:-1]] == [8] * (len(rounds) - 1)
    # Who always wins and who always loses is known soon; neighbours take longer.
    apart = Counter(abs(NAMES.index(p.first) - NAMES.index(p.second)) for p in played)
    assert apart[1] / 7 > apart[5] / 3


@pytest.mark.parametrize(
    "spec",
    ["round_robin", "cross_table", {"kind": "gauntlet", "new": ["h"]}, "swiss", "ladder", "adaptive"],
    ids=str,
)
def test_a_schedule_is_a_function_of_what_was_played(spec: str | dict[str, object]) -> None:
    """Built anew for each round, as in a tournament that is killed after each of them, it asks for the same games."""
    whole = rounds_of(build(spec))
    played: list[tuple[Result, ...]] = []
    for expected in whole:
        state = State(NAMES, TASKS, tuple(played))
        assert list(build(spec).next_round(state)) == expected
        played.append(tuple(Result(pairing, earlier_wins(pairing), 2, tokens=10) for pairing in expected))


@pytest.mark.parametrize("spec", ["round_robin", "cross_table", {"kind": "gauntlet", "new": ["h"]}], ids=str)
def test_who_is_added_to_a_static_schedule_plays_what_is_missing(spec: str | dict[str, object]) -> None:
    schedule = build(spec)
    (first,) = rounds_of(schedule)
    played = (tuple(Result(pairing, earlier_wins(pairing), 2) for pairing in first),)
    added = schedule.next_round(State((*NAMES, "z"), TASKS, played, since=1))
    assert added
    assert all("z" in pair for pair in pairs(added))


def test_pairs_stop_when_their_test_is_decided_and_the_others_go_on() -> None:
    def plays(pairing: Pairing) -> tuple[float, ...]:
        return (0.0, 0.0) if pairing.second == "b" else (float(pairing.task in ("t0", "t2", "t4")),) * 2

    def decided(scores: Sequence[float]) -> bool:
        return Sprt(0.0, 200.0).replay(scores).decision is not None

    tasks = [f"t{number}" for number in range(12)]
    rounds = rounds_of(EarlyStop(build("round_robin", "abc"), 3, decided), "abc", plays, tasks)
    games = Counter((p.first, p.second) for each in rounds for p in each)
    assert games["a", "b"] < games["a", "c"]
    assert all(count % 3 == 0 for count in games.values())


def test_scores_of_a_pair_leave_out_whatever_was_not_wholly_decided() -> None:
    results = [
        Result(Pairing("a", "b", "t0"), (1.0, 0.5), 2),
        Result(Pairing("a", "b", "t1"), (1.0,), 2),
        Result(Pairing("a", "c", "t0"), (1.0, 1.0), 2),
        Result(Pairing("a", "b", "t2"), (0.0, 0.0), 2),
    ]
    assert pair_scores(results, "a", "b") == [0.5, 2.0]


@pytest.mark.parametrize(
    "spec",
    ["round_robin", "cross_table", {"kind": "gauntlet", "new": ["h"]}, "swiss", "ladder", "adaptive"],
    ids=str,
)
def test_our_schedules_keep_what_a_schedule_promises(spec: str | dict[str, object]) -> None:
    check_schedule(lambda: build(spec), NAMES)


def test_a_schedule_that_breaks_a_promise_is_told_which() -> None:
    class Endless:
        static = True

        def next_round(self, state: State) -> Sequence[Pairing]:
            return [Pairing("a", "b", state.tasks[0])]

    class Forgetful:
        """Remembers by itself, which a tournament that is resumed does not."""

        static = False

        def __init__(self) -> None:
            self.asked = 0

        def next_round(self, state: State) -> Sequence[Pairing]:
            self.asked += 1
            return [Pairing("a", "b", task) for task in state.tasks[self.asked - 1 : self.asked]]

    class Loose(Endless):
        def next_round(self, state: State) -> Sequence[Pairing]:
            return [] if state.rounds else [Pairing("a", "zoe", state.tasks[0])]

    class Larger(Loose):
        def size(self, state: State) -> int:
            return 2

        def next_round(self, state: State) -> Sequence[Pairing]:
            return [] if state.rounds else [Pairing("a", "b", state.tasks[0])]

    class Partial:
        static = True

        def next_round(self, state: State) -> Sequence[Pairing]:
            won = [result for result in state.results() if result.scores == (1.0, 1.0)]
            return [
                Pairing("a", "b", task) for task in state.tasks[len(state.rounds) : len(state.rounds) + 1 + len(won)]
            ]

    for make, promise in (
        (Endless, "comes twice"),
        (Forgetful, "made anew, it asks for other pairings"),
        (Loose, "agents that do not take part"),
        (Larger, "its size is 2, and it asked for 1 pairings"),
    ):
        with pytest.raises(AssertionError, match=promise):
            check_schedule(make, NAMES)
    with pytest.raises(AssertionError, match=r"whatever the results|comes twice"):
        check_schedule(Partial, NAMES, [f"t{number}" for number in range(9)])


def test_a_schedule_of_ones_own_is_one_class_and_a_decorator() -> None:
    class Neighbours:
        static = True

        def next_round(self, state: State) -> Sequence[Pairing]:
            if state.rounds:
                return []
            return [Pairing(a, b, task) for a, b in itertools.pairwise(state.names) for task in state.tasks]

    SCHEDULES.register("test-neighbours", summary="each against the next")(Neighbours)
    check_schedule(Neighbours)
    (only,) = rounds_of(build("test-neighbours"), "abc")
    assert pairs(only) == [("a", "b"), ("b", "c")]
