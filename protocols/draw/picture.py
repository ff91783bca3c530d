"""What there is to draw, before it is known how: boxes in rows, and arrows between them.

A picture shows one scope. Nodes of a nested protocol stand in a picture of their own, inside a box of the outer one; an
edge that crosses its frame becomes one arrow on each side.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import networkx as nx

from arena.protocols.draw.facts import guard_of, node_facts
from arena.protocols.graph import END, START, Edge, Protocol, Scope

__all__ = ["Arrow", "Box", "Picture", "picture_of"]


@dataclass(frozen=True)
class Box:
    """A node, all nodes of a counted role, or a nested protocol."""

    key: str
    """Unique in its picture."""
    name: str
    kind: str
    """Kind of the node; ``start``, ``end`` or ``use``."""
    facts: tuple[str, ...] = ()
    count: int = 1
    inner: Picture | None = None
    """Of a nested protocol."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """An edge, by keys of boxes."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    label: tuple[str, ...] = ()
    """Bound, condition and stop reason, each in words."""
    guarded: bool = False
    any: bool = False
    """One of the sources is enough; else all must have finished."""


@dataclass(frozen=True)
class Picture:
    """One scope."""

    scope: str
    boxes: dict[str, Box]
    """By key; ``start`` comes first and ``end`` last, the others as in the file."""
    arrows: tuple[Arrow, ...]

    @cached_property
    def row(self) -> dict[str, int]:
        """Key -> place of its row: below all that leads to it but by a loop."""
        graph = nx.DiGraph([(a, b) for arrow in self.arrows for a in arrow.sources for b in arrow.targets])
        first = self._first_supersteps()
        cycle = {key: number for number, keys in enumerate(nx.strongly_connected_components(graph)) for key in keys}
        # Inside a cycle the way goes on where the superstep in which a node can act first grows, and back elsewhere.
        back = [(a, b) for a, b in graph.edges if cycle[a] == cycle[b] and first[b] <= first[a]]
        graph.remove_edges_from(back)
        row: dict[str, int] = {}
        for key in nx.topological_sort(graph):
            row[key] = 1 + max((row[above] for above in graph.predecessors(key)), default=-1)
        row[END] = 1 + max(place for key, place in row.items() if key != END)
        return row

    @cached_property
    def rows(self) -> list[list[str]]:
        """Keys by row, in the order of the file."""
        rows: list[list[str]] = [[] for _ in range(self.row[END] + 1)]
        for key in self.boxes:
            rows[self.row[key]].append(key)
        return rows

    def _first_supersteps(self) -> dict[str, int]:
        first, found, step = {START: 0}, {START}, 0
        while found:
            step += 1
            found = {
                target
                for arrow in self.arrows
                if (any if arrow.any else all)(source in first for source in arrow.sources)
                for target in arrow.targets
                if target not in first
            }
            first |= dict.fromkeys(found, step)
        return first

    def goes_back(self, arrow: Arrow) -> bool:
        """Whether an arrow leads to its own row or an earlier one."""
        return min(self.row[key] for key in arrow.targets) <= max(self.row[key] for key in arrow.sources)


def picture_of(protocol: Protocol) -> Picture:
    """The picture of a protocol, those of nested ones inside."""
    return _picture(protocol, protocol.scope, _arrows(protocol))


def _picture(protocol: Protocol, scope: Scope, arrows: dict[str, list[Arrow]]) -> Picture:
    boxes = {START: Box(START, START, START)}
    counts = Counter(node.group for node in protocol.nodes.values())
    for name, node in protocol.nodes.items():
        key, inner = _key(protocol, scope, name), _child(protocol, scope, name)
        if key is None or key in boxes:
            continue
        shown = key.rpartition(".")[2]
        if inner is None:
            boxes[key] = Box(key, shown, node.kind, node_facts(protocol, node), counts[key])
        else:
            boxes[key] = Box(key, shown, "use", (), max(1, inner.count), _picture(protocol, inner, arrows))
    boxes[END] = Box(END, END, END)
    found = Picture(scope.name, boxes, tuple(dict.fromkeys(_joined(arrows[scope.name]))))
    return replace(found, arrows=tuple(_split(found)))


def _owner(protocol: Protocol, name: str) -> Scope:
    """The scope in which a node, or a nested scope, stands."""
    if name in protocol.nodes:
        return protocol.nodes[name].scope or protocol.scope
    nested = protocol.scopes.get(name)
    return nested.parent or protocol.scope if nested else protocol.scope


def _path(scope: Scope) -> list[Scope]:
    """The scopes around a scope and itself, outermost first."""
    return [*(_path(scope.parent) if scope.parent else []), scope]


def _child(protocol: Protocol, scope: Scope, name: str) -> Scope | None:
    """The scope directly inside ``scope`` in which a node stands; None if it stands in ``scope`` itself, or outside."""
    path = _path(_owner(protocol, name))
    return path[path.index(scope) + 1] if scope in path[:-1] else None


def _key(protocol: Protocol, scope: Scope, name: str) -> str | None:
    """What stands for a node or nested scope in the picture of ``scope``; None outside of it."""
    if name in (START, END):
        return name
    if child := _child(protocol, scope, name):
        return child.group
    if _owner(protocol, name) is not scope:
        return None
    return protocol.nodes[name].group if name in protocol.nodes else protocol.scopes[name].group


# -- arrows


def _arrows(protocol: Protocol) -> dict[str, list[Arrow]]:
    """Scope -> arrows between what stands in its picture. Of scopes that counted roles play, the first is drawn."""
    found: dict[str, list[Arrow]] = defaultdict(list)
    meant: dict[tuple[Scope, Arrow], set[str]] = defaultdict(set)
    for edge in protocol.edges:
        if _passes_on(protocol, edge) or _idle(protocol, edge):
            continue
        home = _home(protocol, edge)
        targets = _keys(protocol, home, edge.targets) or (END,)
        arrow = Arrow(_keys(protocol, home, edge.sources), targets, guard_of(edge), edge.guarded)
        meant[home, arrow] |= _all_in_turn(protocol, edge.sources | edge.targets)
        for scope in _entered(protocol, home, edge):
            names = {name for name in edge.targets if scope in _path(_owner(protocol, name))}
            meant[scope, Arrow((START,), _keys(protocol, scope, names))] |= _all_in_turn(protocol, names)
    for (scope, arrow), names in meant.items():
        if all(outer.number <= 1 for outer in _path(scope)):
            found[scope.name].append(replace(arrow, label=(*_partial(protocol, names), *arrow.label)))
    return found


def _passes_on(protocol: Protocol, edge: Edge) -> bool:
    """Whether an edge leads from one seat to the next, where they act in turn: inside one box."""
    groups = {_group_in_turn(protocol, name) for name in (*edge.sources, *edge.targets)}
    group = next(iter(groups)) if len(groups) == 1 else ()
    return bool(group) and group[0] not in edge.targets


def _idle(protocol: Protocol, edge: Edge) -> bool:
    """Whether an edge is never taken (``times`` is 0), and all that it leads to is reached by others."""
    others = (each.targets for each in protocol.edges if each.times != 0)
    return edge.times == 0 and edge.targets <= frozenset().union(*others)


def _all_in_turn(protocol: Protocol, names: Iterable[str]) -> set[str]:
    """The names, and with a node that acts in turn the others of its group: an edge leads to the first for all."""
    return {member for name in names for member in _group_in_turn(protocol, name) or (name,)}


def _group_in_turn(protocol: Protocol, name: str) -> tuple[str, ...]:
    node = protocol.nodes.get(name)
    return protocol.groups[node.group] if node and node.in_turn else ()


def _home(protocol: Protocol, edge: Edge) -> Scope:
    """The innermost scope that holds all ends of an edge and is not begun anew by it."""
    if edge.exits:
        return protocol.scopes[edge.exits]
    paths: list[list[Scope]] = [_path(_owner(protocol, name)) for name in (*edge.sources, *edge.targets)]
    first, *others = paths
    shared = takewhile(lambda scope: all(scope in path for path in others) and scope.name not in edge.enters, first)
    return list(shared)[-1]


def _entered(protocol: Protocol, home: Scope, edge: Edge) -> list[Scope]:
    """The scopes inside ``home`` in which targets of an edge stand, outermost first."""
    return list(
        dict.fromkeys(
            scope for name in sorted(edge.targets) for scope in _path(_owner(protocol, name))[len(_path(home)) :]
        )
    )


def _keys(protocol: Protocol, scope: Scope, names: Iterable[str]) -> tuple[str, ...]:
    """What stands for nodes in the picture of a scope, in the order of the file."""
    places = {name: place for place, name in enumerate([START, *protocol.nodes, END])}
    ordered = sorted(names, key=lambda name: min(places[n] for n in places if f"{n}.".startswith(f"{name}.")))
    found = (_key(protocol, scope, name) for name in ordered)
    return tuple(dict.fromkeys(key for key in found if key is not None))


def _partial(protocol: Protocol, names: Iterable[str]) -> Iterator[str]:
    """Which nodes of a group an arrow is about, if not all of them."""
    found = set(names)
    some = [
        name
        for name in protocol.nodes
        if name in found and not found.issuperset(protocol.groups[protocol.nodes[name].group])
    ]
    if some:
        yield f"only {', '.join(some)}"


def _joined(arrows: Sequence[Arrow]) -> Iterator[Arrow]:
    """Arrows that do the same from several single boxes, as one that needs any of them."""
    alike: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = defaultdict(list)
    for arrow in arrows:
        if len(arrow.sources) == 1 and arrow.sources != (START,):
            alike[arrow.targets, arrow.label].append(arrow.sources[0])
    for arrow in arrows:
        together = tuple(dict.fromkeys(alike.get((arrow.targets, arrow.label), ())))
        if len(together) > 1 and arrow.targets != (END,) and arrow.sources[0] in together:
            yield replace(arrow, sources=together, any=True)
        else:
            yield arrow


def _split(picture: Picture) -> Iterator[Arrow]:
    """Arrows whose ends lie in order: all targets below all sources, or none of them."""
    row = picture.row
    for arrow in picture.arrows:
        last, first = max(row[key] for key in arrow.sources), min(row[key] for key in arrow.sources)
        below = tuple(key for key in arrow.targets if row[key] > last)
        above = tuple(key for key in arrow.targets if row[key] <= last)
        if arrow.any and above and any(row[key] > first for key in arrow.targets):
            yield from (replace(arrow, sources=(key,), any=False) for key in arrow.sources)
        else:
            yield from (replace(arrow, targets=targets) for targets in (below, above) if targets)
