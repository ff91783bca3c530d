"""Pairings in blocks, each stopped by a sequential test as soon as that is decided."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from arena.scheduling.types import Pairing, Result, Schedule, State, reach

__all__ = ["EarlyStop", "pair_scores"]


def pair_scores(results: Sequence[Result], first: str, second: str) -> list[float]:
    """What ``second`` got in both games of each task together, 0 to 2, in the order in which they were played.

    A pairing of which a game is undecidable is left out: half a pair says nothing about seats.
    """
    return [
        2.0 - sum(result.scores)
        for result in results
        if (result.pairing.first, result.pairing.second) == (first, second) and result.whole
    ]


class EarlyStop:
    """Cuts a static schedule into blocks of tasks; pairs that are decided get no further block.

    Args:
        schedule: says which pairings there are.
        block: tasks of a pair in each round.
        decided: whether the scores of a pair (`pair_scores`) decide it.
    """

    static = False

    def __init__(self, schedule: Schedule, block: int, decided: Callable[[Sequence[float]], bool]) -> None:
        self.schedule = schedule
        self.reach = reach(schedule)
        self.block = block
        self.decided = decided

    def next_round(self, state: State) -> Sequence[Pairing]:
        """The next block of each pair that is not decided."""
        by_pair: dict[tuple[str, str], list[Result]] = {}
        for result in state.results():
            by_pair.setdefault((result.pairing.first, result.pairing.second), []).append(result)
        chosen: list[Pairing] = []
        wanted = self.schedule.next_round(state)
        for pair, pairings in itertools.groupby(wanted, key=lambda pairing: (pairing.first, pairing.second)):
            if pair[0] == pair[1] or not self.decided(pair_scores(by_pair.get(pair, []), *pair)):
                chosen += itertools.islice(pairings, self.block)
        return chosen
