"""When nodes can run: in which superstep at the earliest, and at the latest."""

from __future__ import annotations

import math
from collections.abc import Iterable

import networkx as nx

from arena.protocols.graph import START

__all__ = ["Timing"]


class Timing:
    """Bounds on the supersteps of all nodes, whatever conditions hold.

    Args:
        graph: what can follow what at once, from `start`; of nested scopes also how they are left.
        scopes: names of nested scopes, which take no superstep of their own.
    """

    def __init__(self, graph: nx.DiGraph[str], scopes: Iterable[str]) -> None:
        self._free = set(scopes)
        reached: nx.DiGraph[str] = graph.subgraph({START, *nx.descendants(graph, START)} if START in graph else ())
        self._first = nx.single_source_dijkstra_path_length(reached, START, weight=self._cost) if reached else {}
        self._last = self._longest(reached)

    def _cost(self, before: str, after: str, edge: object) -> float:
        return 0 if after in self._free else 1

    def _longest(self, graph: nx.DiGraph[str]) -> dict[str, float]:
        """Node -> its last superstep; infinite in and behind a cycle."""
        parts = nx.condensation(graph)
        found: dict[str, float] = {}
        for part in nx.topological_sort(parts):
            members = parts.nodes[part]["members"]
            for name in members:
                before = [found[other] for other in graph.predecessors(name) if other not in members]
                found[name] = max(before) + self._cost("", name, None) if before else 0
            if len(members) > 1 or any(graph.has_edge(name, name) for name in members):
                found |= dict.fromkeys(members, math.inf)
        return found

    def may_follow(self, names: Iterable[str], others: Iterable[str]) -> bool:
        """Whether one of ``names`` can run in a later superstep than one of ``others``."""
        last = max((self._last.get(name, -1) for name in names), default=-1)
        return last > min((self._first.get(other, math.inf) for other in others), default=math.inf)
