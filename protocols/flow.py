"""The walk of one episode through a protocol's graph, superstep by superstep.

When a superstep is done, a group of edges with the same sources is ready if all those sources have finished since the
group last fired. Its guarded edges (``times``, ``when``) are tried in file order; the first that holds is taken
instead of the plain ones. The targets of all that fire are the next superstep. With no target left the episode is
over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from arena.protocols.graph import Edge, Node

__all__ = ["Flow", "Routes"]

_Step: TypeAlias = "tuple[Node, ...]"


class _Way:
    """One edge, prepared: where it leads and what it demands."""

    __slots__ = ("index", "targets", "times", "when")

    def __init__(self, index: int, edge: Edge, targets: _Step) -> None:
        self.index = index
        self.targets = targets
        self.times = edge.times
        self.when = edge.when


class _Group:
    """All edges with the same sources."""

    __slots__ = ("full", "guarded", "plain", "sources")

    def __init__(self, sources: Iterable[str]) -> None:
        self.sources = tuple(sorted(sources))
        self.full = (1 << len(self.sources)) - 1
        self.guarded: list[_Way] = []
        self.plain: _Step = ()


class Routes:
    """The edges of a protocol, prepared once and shared by all its walks."""

    __slots__ = ("finishes", "first", "groups", "names")

    def __init__(self, nodes: Mapping[str, Node], edges: Iterable[Edge]) -> None:
        self.names = tuple(nodes)
        self.first: _Step = ()
        by_sources: dict[frozenset[str], _Group] = {}
        for index, edge in enumerate(edges):
            targets = _in_order(nodes[name] for name in edge.targets if name in nodes)
            if edge.sources == {"start"}:
                self.first = _in_order({*self.first, *targets})
                continue
            group = by_sources.setdefault(edge.sources, _Group(edge.sources))
            if edge.guarded:
                group.guarded.append(_Way(index, edge, targets))
            else:
                group.plain = _in_order({*group.plain, *targets})
        self.groups = tuple(by_sources.values())
        self.finishes = {
            name: tuple(
                (number, 1 << group.sources.index(name))
                for number, group in enumerate(self.groups)
                if name in group.sources
            )
            for name in nodes
        }
        """Node -> the groups that wait for it, each with the node's bit."""


class Flow:
    """Where one episode stands."""

    __slots__ = ("_masks", "_routes", "_taken", "ready", "superstep", "visits")

    def __init__(self, routes: Routes) -> None:
        self.ready: tuple[Node, ...] = routes.first
        """Nodes that act now, in file order; empty when the episode is over."""
        self.superstep = 0
        """Count of supersteps that are done."""
        self.visits: dict[str, int] = dict.fromkeys(routes.names, 0)
        """Node -> how often it has finished; during a superstep this is the visit that is under way, from 0."""
        self._routes = routes
        self._masks = [0] * len(routes.groups)
        self._taken: dict[int, int] = {}

    def advance(self) -> None:
        """The nodes in ``ready`` have acted: go on to the next superstep."""
        routes, masks, visits = self._routes, self._masks, self.visits
        full = []
        for node in self.ready:
            name = node.name
            visits[name] += 1
            for number, bit in routes.finishes[name]:
                masks[number] |= bit
                if masks[number] == routes.groups[number].full:
                    full.append(number)
        self.superstep += 1
        steps = []
        for number in full:
            masks[number] = 0
            steps.append(self._leave(routes.groups[number]))
        if len(steps) == 1:
            self.ready = steps[0]
        else:
            self.ready = _in_order({node for step in steps for node in step})

    def _leave(self, group: _Group) -> _Step:
        """The targets that follow when all sources of a group have finished."""
        for way in group.guarded:
            taken = self._taken.get(way.index, 0)
            if way.times is not None and taken >= way.times:
                continue
            if way.when is not None and not way.when(self._names(group)):
                continue
            self._taken[way.index] = taken + 1
            return way.targets
        return group.plain

    def _names(self, group: _Group) -> dict[str, int]:
        visits = self.visits
        return {"round": max(visits[name] for name in group.sources), "visits": sum(visits.values())}


def _in_order(nodes: Iterable[Node]) -> _Step:
    return tuple(sorted(nodes, key=lambda node: node.order))
