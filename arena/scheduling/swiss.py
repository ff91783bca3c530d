"""Swiss system: each round pairs agents of about the same score that have not met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.protocols.errors import ConfigError
from arena.scheduling.standing import standing
from arena.scheduling.types import Pairing, State

__all__ = ["Swiss"]

_NEAR = 8  # places apart that are looked at first: the matching takes time with the cube of the agents


class Swiss:
    """A round robin's information about neighbours of the table, at a fraction of its games.

    A round is the matching of most pairs that never met, of these the one with the smallest sum of squared distances
    in the table. With an odd number one agent sits out, the lowest of those that sat out least often. Agents that are
    added after the last round meet as many opponents near them as there were rounds.

    Args:
        rounds: how many; absent: log2 of the number of agents, rounded up, and one more.
        names: who takes part at the beginning.

    Raises:
        ConfigError: there are more rounds than opponents.
    """

    static = False

    def __init__(self, *, rounds: Annotated[int, Field(ge=1)] | None = None, names: Sequence[str]) -> None:
        most = len(names) - 1 + len(names) % 2  # of an odd number somebody sits out in each round
        if rounds is not None and rounds > most:
            raise ConfigError(
                f"'rounds' of schedule 'swiss' is {rounds}, but {len(names)} agents have met after {most}"
            )
        self._names = frozenset(names)
        self.rounds = min(most, (len(names) - 1).bit_length() + 1) if rounds is None else rounds

    def next_round(self, state: State) -> Sequence[Pairing]:
        """Pairs of neighbours, each on all tasks."""
        table = standing(state)
        over = len(state.rounds) >= self.rounds
        pairs = self._late(table, state) if over else self._round(table, state)
        return [Pairing(*_seats(a, b, state), task) for a, b in pairs for task in state.tasks]

    def _round(self, table: list[str], state: State) -> list[tuple[str, str]]:
        if len(table) % 2:
            played = Counter(name for pair in state.met for name in set(pair))
            table.remove(max(reversed(table), key=lambda name: played[name]))
        return _match(table, state)

    def _late(self, table: Sequence[str], state: State) -> list[tuple[str, str]]:
        """An opponent for each agent that came too late for the rounds, the nearest that is free."""
        pairs: list[tuple[str, str]] = []
        busy: set[str] = set()
        for place, name in enumerate(table):
            met = {other for one, other in state.met if one == name}
            if name in self._names or name in busy or len(met) >= self.rounds:
                continue
            free = [each for each in table if each not in met | busy | {name}]
            if free:
                other = min(free, key=lambda each: abs(table.index(each) - place))
                pairs.append((name, other))
                busy |= {name, other}
        return pairs


def _seats(a: str, b: str, state: State) -> tuple[str, str]:
    """In the order of the file."""
    return (a, b) if state.names.index(a) < state.names.index(b) else (b, a)


def _match(table: Sequence[str], state: State) -> list[tuple[str, str]]:
    import networkx as nx

    near = min(_NEAR, len(table))
    while True:
        graph: nx.Graph[int] = nx.Graph()
        graph.add_nodes_from(range(len(table)))
        graph.add_weighted_edges_from(
            (i, j, -((j - i) ** 2))
            for i in range(len(table))
            for j in range(i + 1, min(i + near, len(table)))
            if (table[i], table[j]) not in state.met
        )
        pairs = nx.max_weight_matching(graph, maxcardinality=True)
        if near >= len(table) or len(pairs) == len(table) // 2:
            return [(table[min(pair)], table[max(pair)]) for pair in sorted(map(sorted, pairs))]
        near *= 2
