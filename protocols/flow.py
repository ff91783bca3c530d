"""The walk of one episode through a protocol's graph, superstep by superstep.

When a superstep is done, a group of edges with the same sources is ready if all those sources have finished since the
group last fired. Its guarded edges (``times``, ``when``) are tried in file order; the first that holds is taken
instead of the plain ones. The targets of all that fire are the next superstep. With no target left the episode is
over.

An edge that enters a nested scope begins it anew: ``round``, ``visits``, ``times`` and half-finished joins of the scope
start from nothing. To the edges around it the scope is like one node, which has finished when one of its edges to `end`
is taken and nothing in it acts next; it has run as often as it was entered.

An edge to `end` ends its own branch: others go on. One with ``stop`` ends all of them: the episode, or the nested scope
in whose file it stands, is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from arena.protocols.graph import Edge, Node

__all__ = ["Flow", "Routes"]

_Step: TypeAlias = "tuple[Node, ...]"

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_OWN = frozenset({"round", "visits"})


class _Way:
    """Where a group of edges, or one guarded edge, leads, and what it demands."""

    __slots__ = (
        "by_round",
        "by_visits",
        "enters",
        "exits",
        "key",
        "reads",
        "scope",
        "sources",
        "stop",
        "targets",
        "times",
        "when",
    )

    def __init__(self, key: int, edge: Edge, targets: _Step, scope: str) -> None:
        self.key = key
        """Edges that share it share the count of ``times``."""
        self.targets = targets
        self.times = edge.times
        self.when = edge.when
        self.stop = edge.stop
        self.enters = edge.enters
        names = edge.when.names if edge.when else frozenset()
        self.reads = tuple(names - _OWN)
        self.by_round = "round" in names
        self.by_visits = "visits" in names
        self.exits = edge.exits
        self.scope = scope
        """Where the edge stands, and with which its count begins anew."""
        self.sources = tuple(edge.sources)

    def join(self, other: _Way) -> None:
        """Take the targets of another plain edge along."""
        if other.stop or (self.exits and not self.stop):
            self.exits = other.exits
        self.targets = _in_order({*self.targets, *other.targets})
        self.enters = tuple(dict.fromkeys((*self.enters, *other.enters)))
        self.stop = self.stop or other.stop


class _Group:
    """All edges with the same sources."""

    __slots__ = ("full", "guarded", "plain", "scope", "sources")

    def __init__(self, sources: Iterable[str], scope: str) -> None:
        self.sources = tuple(sorted(sources))
        self.scope = scope
        """The one whose file joins them."""
        self.full = (1 << len(self.sources)) - 1
        self.guarded: list[_Way] = []
        self.plain: _Way | None = None

    def add(self, way: _Way, guarded: bool) -> None:
        """One more edge."""
        if guarded:
            self.guarded.append(way)
        elif self.plain is None:
            self.plain = way
        else:
            self.plain.join(way)


class _Inside:
    """What begins anew with a scope."""

    __slots__ = ("groups", "keys", "nodes", "scopes")

    def __init__(self) -> None:
        self.nodes: list[str] = []
        self.groups: list[int] = []
        self.keys: set[int] = set()
        self.scopes: list[str] = []
        """Those inside it, but not itself."""


class Routes:
    """The edges of a protocol, prepared once and shared by all its walks."""

    __slots__ = ("enters", "finishes", "first", "groups", "inside", "names", "own")

    def __init__(self, nodes: Mapping[str, Node], edges: Iterable[Edge]) -> None:
        self.names = tuple(nodes)
        self.first: _Step = ()
        self.enters: tuple[str, ...] = ()
        self.own = {name: node.scope.name if node.scope else "" for name, node in nodes.items()}
        """Node -> its scope."""
        self.inside = _insides(self.own)
        """Scope -> what lies in it, inner scopes included."""
        by_sources: dict[frozenset[str], _Group] = {}
        for index, edge in enumerate(edges):
            targets = _in_order(nodes[name] for name in edge.targets if name in nodes)
            # An edge without an origin counts for itself.
            scope = self._around(next(iter(edge.sources)))
            way = _Way(edge.origin or -1 - index, edge, targets, scope)
            if edge.sources == {"start"}:
                self.first = _in_order({*self.first, *targets})
                self.enters = tuple(dict.fromkeys((*self.enters, *edge.enters)))
                continue
            by_sources.setdefault(edge.sources, _Group(edge.sources, scope)).add(way, edge.guarded)
            for outer in _with_outer(way.scope):
                self.inside[outer].keys.add(way.key)
        self.groups = tuple(by_sources.values())
        for number, group in enumerate(self.groups):
            for scope in _with_outer(group.scope):
                self.inside[scope].groups.append(number)
        self.finishes = {
            name: tuple(
                (number, 1 << group.sources.index(name), group.full)
                for number, group in enumerate(self.groups)
                if name in group.sources
            )
            for name in (*nodes, *self.inside)
        }
        """Node or scope -> the groups that wait for it, each with its bit and the bits of all."""

    def _around(self, name: str) -> str:
        """The scope whose file has a node, or nests a scope, of that name."""
        return self.own[name] if name in self.own else name.rpartition(".")[0]


class Flow:
    """Where one episode stands."""

    __slots__ = (
        "_ended",
        "_entries",
        "_masks",
        "_routes",
        "_since",
        "_taken",
        "entered",
        "ready",
        "stop",
        "superstep",
        "visits",
    )

    def __init__(self, routes: Routes) -> None:
        self.ready: tuple[Node, ...] = routes.first
        """Nodes that act now, in file order; empty when the episode is over."""
        self.superstep = 0
        """Count of supersteps that are done."""
        self.visits: dict[str, int] = dict.fromkeys(routes.names, 0)
        """Node -> how often it has finished; during a superstep this is the visit that is under way, from 0."""
        self.stop = ""
        """The ``stop:`` of the edge that ended the episode, if it has one."""
        self.entered: tuple[str, ...] = ()
        """Nested scopes that the last step (or the start) entered anew."""
        self._routes = routes
        self._masks = [0] * len(routes.groups)
        self._taken: dict[int, tuple[int, int]] = {}
        """Key of a way -> how often it was taken, and after which superstep last."""
        self._ended = False
        """A branch has come to `end`."""
        self._entries: dict[str, int] = {}
        """Scope -> how often it was entered."""
        self._since: dict[str, dict[str, int]] = {}
        """Scope -> counts of what lies in it when it was last entered."""
        if routes.enters:
            self._enter(routes.enters)

    def rounds(self, node: str) -> int:
        """How often a node has finished since its scope was last entered."""
        return self._count(node, self._routes.own[node])

    @property
    def stuck(self) -> str:
        """Why the walk is over although it never came to an end: what waits for what; empty if it is not so."""
        if self.ready or self._ended or self.stop:
            return ""
        for group, mask in zip(self._routes.groups, self._masks, strict=True):
            if mask:
                done = [name for place, name in enumerate(group.sources) if mask >> place & 1]
                missing = [name for name in group.sources if name not in done]
                names = [f"'{node.name}'" for node in group.plain.targets] if group.plain else []
                then = " and ".join(names) or "the end"
                return f"{then} waits for '{missing[0]}', which did not act (only '{done[0]}' did)"
        return ""

    def advance(self, values: Mapping[str, Any] = _NOTHING) -> None:
        """The nodes in ``ready`` have acted: go on to the next superstep. A condition that is none does not hold.

        Args:
            values: what conditions may name, beside ``round`` and ``visits``: ``NODE.field`` -> value.
        """
        routes, masks, visits = self._routes, self._masks, self.visits
        fired: list[int] = []
        for node in self.ready:
            name = node.name
            visits[name] += 1
            for number, bit, full in routes.finishes[name]:
                before = masks[number]
                masks[number] = mask = before | bit
                if mask == full and before != full:
                    fired.append(number)
        self.superstep += 1
        ways: list[_Way] = []
        left: list[_Way] = []
        while fired:
            for number in fired:
                masks[number] = 0
                way = self._leave(routes.groups[number], values)
                if way is not None:
                    (left if way.exits else ways).append(way)
            fired = self._finish(ways, left) if left else []
        self._go(ways)

    def _finish(self, ways: list[_Way], left: list[_Way]) -> list[int]:
        """The groups that had waited only for nested scopes of which nothing acts any more."""
        complete = []
        for stopped in {way.exits for way in left if way.stop}:
            ways[:] = [way for way in ways if not _within(way.scope, stopped)]
            left[:] = [way for way in left if way.exits == stopped or not _within(way.exits, stopped)]
        for scope in sorted({way.exits for way in left}, key=len, reverse=True):  # inner ones first
            inside = self._routes.inside[scope].nodes
            if any(node.name in inside for way in ways for node in way.targets):
                continue
            left[:] = [way for way in left if way.exits != scope]
            for number, bit, full in self._routes.finishes[scope]:
                before = self._masks[number]
                self._masks[number] = mask = before | bit
                if mask == full and before != full:
                    complete.append(number)
            if complete:
                break  # what they lead to may lie in the next scope outside
        return complete

    def _go(self, ways: Sequence[_Way]) -> None:
        """Take ways together."""
        for way in ways:
            if way.stop and not way.exits:
                self.stop, self.ready, self.entered = way.stop, (), ()
                return
            if not way.targets:
                self._ended = True
        if len(ways) == 1:
            self.ready, enters = ways[0].targets, ways[0].enters
        else:
            self.ready = _in_order({node for way in ways for node in way.targets})
            enters = tuple(dict.fromkeys(scope for way in ways for scope in way.enters))
        if enters or self.entered:
            self._enter(enters)

    def _leave(self, group: _Group, values: Mapping[str, Any]) -> _Way | None:
        """The way that is taken when all sources of a group have finished."""
        for way in group.guarded:
            count, last = self._taken.get(way.key, (0, 0))
            # Edges of one line that are taken after the same superstep (`a | b -> c`) are one transition.
            again = last == self.superstep
            if way.times is not None and count >= way.times and not again:
                continue
            if way.when is not None and not way.when(self._names(way, values)):
                continue
            self._taken[way.key] = (count if again else count + 1, self.superstep)
            return way
        return group.plain

    def _names(self, way: _Way, values: Mapping[str, Any]) -> dict[str, Any]:
        names: dict[str, Any] = {name: values[name] for name in way.reads if name in values} if way.reads else {}
        if way.by_round:
            names["round"] = max([self._count(name, way.scope) for name in way.sources])
        if way.by_visits:
            nodes = self._routes.inside[way.scope].nodes if way.scope else self.visits
            names["visits"] = sum([self._count(name, way.scope) for name in nodes])
        return names

    def _count(self, unit: str, scope: str) -> int:
        """How often a node, or a nested scope, has run since ``scope`` was entered."""
        total = self.visits.get(unit)
        if total is None:
            total = self._entries.get(unit, 0)
        return total - self._since[scope].get(unit, 0) if scope in self._since else total

    def _enter(self, scopes: tuple[str, ...]) -> None:
        """Begin scopes anew, those inside them included."""
        self.entered = scopes
        for scope in scopes:
            inside = self._routes.inside[scope]
            for number in inside.groups:
                self._masks[number] = 0
            for key in inside.keys:
                self._taken.pop(key, None)
            counts = {name: self.visits[name] for name in inside.nodes}
            counts |= {inner: self._entries.get(inner, 0) for inner in inside.scopes}
            self._since |= dict.fromkeys((scope, *inside.scopes), counts)
        for scope in scopes:
            self._entries[scope] = self._entries.get(scope, 0) + 1


def _insides(own: Mapping[str, str]) -> dict[str, _Inside]:
    found: dict[str, _Inside] = {"": _Inside()}
    for name, scope in own.items():
        for outer in _with_outer(scope):
            found.setdefault(outer, _Inside()).nodes.append(name)
    for scope in found:
        for outer in _with_outer(scope)[1:]:
            found[outer].scopes.append(scope)
    return found


def _with_outer(scope: str) -> list[str]:
    """``a.b`` -> ``a.b``, ``a`` and the outermost, ``""``."""
    found = [scope] if scope else []
    while "." in scope:
        scope = scope.rpartition(".")[0]
        found.append(scope)
    return [*found, ""]


def _within(scope: str, outer: str) -> bool:
    """Whether a scope is another one or nested in it."""
    return scope == outer or scope.startswith(f"{outer}.")


def _in_order(nodes: Iterable[Node]) -> _Step:
    return tuple(sorted(nodes, key=lambda node: node.order))
