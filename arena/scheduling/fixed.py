"""Schedules whose pairings are known before the first game: round robin, gauntlet and cross-table.

They ask for whatever was not played yet, so that an agent that is added later meets everybody it has to meet, and
nobody else plays again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from arena.protocols.errors import ConfigError, UnknownNameError, suggest
from arena.scheduling.types import Pairing, State

__all__ = ["CrossTable", "Gauntlet", "RoundRobin"]


def _missing(pairs: Iterable[tuple[str, str]], state: State) -> list[Pairing]:
    """Every pair on every task, as far as it was not played; pair after pair."""
    played = {result.pairing for result in state.results()}
    wanted = (Pairing(first, second, task) for first, second in pairs for task in state.tasks)
    return [pairing for pairing in wanted if pairing not in played]


class RoundRobin:
    """Every agent against every other."""

    static = True

    def next_round(self, state: State) -> Sequence[Pairing]:
        """All pairs that were not played yet."""
        return _missing(itertools.combinations(state.names, 2), state)


class CrossTable:
    """Every agent against every other and against itself: a generation's own games show what a seat is worth."""

    static = True

    def next_round(self, state: State) -> Sequence[Pairing]:
        """All pairs that were not played yet, an agent with itself among them."""
        return _missing(itertools.combinations_with_replacement(state.names, 2), state)


class Gauntlet:
    """Newcomers against a pool; neither newcomers nor those of the pool meet among themselves.

    Args:
        new: names of the newcomers. Agents that are added later are newcomers, too.
        names: who takes part at the beginning.

    Raises:
        UnknownNameError: a newcomer is not one of the agents.
        ConfigError: there are no newcomers, or nobody else.
    """

    static = True

    def __init__(self, *, new: list[str], names: Sequence[str]) -> None:
        for name in new:
            if name not in names:
                raise UnknownNameError(
                    f"'{name}' of schedule 'gauntlet' is not one of the agents.{suggest(name, names)}"
                )
        self._pool = tuple(name for name in names if name not in new)
        if not new or not self._pool:
            raise ConfigError(
                "schedule 'gauntlet' needs newcomers and a pool: name in 'new' some of the agents, not all"
            )

    def next_round(self, state: State) -> Sequence[Pairing]:
        """All pairs of the pool and a newcomer that were not played yet; the newcomer stands second."""
        new = [name for name in state.names if name not in self._pool]
        return _missing(((old, name) for name in new for old in self._pool), state)
