"""What a schedule promises."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from arena.scheduling import Pairing, Result, Schedule, State, reach, size

__all__ = ["check_schedule"]

_MOST_ROUNDS = 1000


def check_schedule(
    make: Callable[[], Schedule],
    names: Sequence[str] = ("ann", "bob", "cy", "dan", "eve"),
    tasks: Sequence[str] = ("t0", "t1", "t2"),
    seed: int = 0,
) -> None:
    """Check what `arena.scheduling.Schedule` promises, on results that are drawn, some of them undecided.

    It ends; no pairing comes twice; all are of agents and tasks that there are; a schedule that is made anew asks for
    the same; one that calls itself static asks for the same whatever the results; one that tells its size keeps to it.

    Args:
        make: makes the schedule anew, for a tournament of ``names``.
        names: of the agents.
        tasks: ids of the tasks of a pairing.
        seed: of the results.

    Raises:
        AssertionError: a promise is broken; the message says which.
    """
    one, other = (_followed(make, names, tasks, number) for number in (seed, seed + 1))
    if make().static:
        assert one == other, "a static schedule asks for the same pairings whatever the results"


def _followed(
    make: Callable[[], Schedule], names: Sequence[str], tasks: Sequence[str], seed: int
) -> list[list[Pairing]]:
    """All rounds of a tournament with drawn results."""
    rng = random.Random(seed)
    kept = make()
    spare = tuple(f"spare {number}" for number in range((reach(kept) - 1) * len(tasks)))
    rounds: list[tuple[Result, ...]] = []
    found: list[list[Pairing]] = []
    known: set[Pairing] = set()
    told = size(kept, State(tuple(names), tuple(tasks), spare=spare))
    while True:
        state = State(tuple(names), tuple(tasks), tuple(rounds), spare=spare)
        pairings = list(kept.next_round(state))
        assert pairings == list(make().next_round(state)), f"round {len(rounds)}: made anew, it asks for other pairings"
        if not pairings:
            assert told is None or told == len(known), f"its size is {told}, and it asked for {len(known)} pairings"
            return found
        for pairing in pairings:
            assert isinstance(pairing, Pairing), f"round {len(rounds)}: {pairing!r} is no Pairing"
            assert {pairing.first, pairing.second} <= set(names), f"{pairing} is of agents that do not take part"
            assert pairing.task in (*tasks, *spare), f"{pairing} is about a task that there is not"
            assert pairing not in known, f"{pairing} comes twice"
            known.add(pairing)
        found.append(pairings)
        rounds.append(tuple(_result(pairing, rng) for pairing in pairings))
        assert len(rounds) < _MOST_ROUNDS, f"it does not end: {_MOST_ROUNDS} rounds were played"


def _result(pairing: Pairing, rng: random.Random) -> Result:
    decided = rng.choice((0, 1, 2, 2, 2))
    return Result(pairing, tuple(rng.choice((0.0, 0.5, 1.0)) for _ in range(decided)), 2, rng.randrange(100))
