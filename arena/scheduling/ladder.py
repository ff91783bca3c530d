"""A ladder: neighbours meet, and the winner stands higher."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.scheduling.types import Pairing, State

__all__ = ["Ladder"]


class Ladder:
    """Odd-even transposition: the agents stand in the order of the file, the first one at the top; in each step every
    other pair of neighbours meets, and whoever scored more takes the higher place. Who met before does not play again:
    their result counts anew. Agents that are added later begin at the bottom.

    Args:
        rounds: most rounds with games, counted anew when an agent is added; absent: until no two neighbours are left
            that never met.
    """

    static = False

    def __init__(self, *, rounds: Annotated[int, Field(ge=1)] | None = None) -> None:
        self.rounds = rounds

    def next_round(self, state: State) -> Sequence[Pairing]:
        """Neighbours that never met, each pair on all tasks."""
        if self.rounds is not None and len(state.rounds) - state.since >= self.rounds:
            return []
        order, step = self._replay(state)
        for parity in range(step, step + 2 * len(order)):
            pairs = _neighbours(order, parity)
            if fresh := [pair for pair in pairs if pair not in state.met]:
                return [Pairing(upper, lower, task) for upper, lower in fresh for task in state.tasks]
            _climb(order, pairs, self._beaten(state))
        return []

    def _replay(self, state: State) -> tuple[list[str], int]:
        """The ladder after the last round, and how many steps led there."""
        order, step = list(state.names), 0
        beaten: set[tuple[str, str]] = set()
        for played in state.rounds:
            now = {(result.pairing.first, result.pairing.second) for result in played}
            while not now & set(_neighbours(order, step)):  # steps in which everybody had met
                _climb(order, _neighbours(order, step), beaten)
                step += 1
            beaten |= _beaten(played_scores(state, now))
            _climb(order, _neighbours(order, step), beaten)
            step += 1
        return order, step

    def _beaten(self, state: State) -> set[tuple[str, str]]:
        return _beaten(played_scores(state, state.met))


def played_scores(
    state: State, pairs: set[tuple[str, str]] | frozenset[tuple[str, str]]
) -> dict[tuple[str, str], float]:
    """What the first of each pair got above one half, summed over its decided games."""
    margins: dict[tuple[str, str], float] = {}
    for result in state.results():
        pair = result.pairing.first, result.pairing.second
        if pair in pairs:
            margins[pair] = margins.get(pair, 0.0) + sum(score - 0.5 for score in result.scores)
    return margins


def _beaten(margins: dict[tuple[str, str], float]) -> set[tuple[str, str]]:
    """(winner, loser)."""
    return {(a, b) if margin > 0 else (b, a) for (a, b), margin in margins.items() if margin}


def _neighbours(order: Sequence[str], step: int) -> list[tuple[str, str]]:
    """(upper, lower) of every other pair."""
    return [(order[place], order[place + 1]) for place in range(step % 2, len(order) - 1, 2)]


def _climb(order: list[str], pairs: Sequence[tuple[str, str]], beaten: set[tuple[str, str]]) -> None:
    """Exchange neighbours of which the lower one has beaten the upper one."""
    for upper, lower in pairs:
        if (lower, upper) in beaten:
            place = order.index(upper)
            order[place : place + 2] = [lower, upper]
