"""All ways through a graph, whatever its conditions: who can act in one superstep, and which joins can never fire.

Conditions and bounds are taken to hold or not as it comes, so more is walked than can happen, and nothing less.
Graphs with more than a few thousand steps are walked in part; what is found then is true, but not all.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from arena.protocols.graph import START, Edge

__all__ = ["Walk", "explore"]

_State: TypeAlias = "tuple[frozenset[str], tuple[tuple[int, frozenset[str]], ...]]"

MAX_STEPS = 3_000


@dataclass
class Walk:
    """What was found."""

    together: set[frozenset[str]] = field(default_factory=set)
    """Sets of nodes that act in one superstep."""
    fired: set[frozenset[str]] = field(default_factory=set)
    """Sources of the edges that can be taken."""
    complete: bool = True
    """Everything was walked."""


class _Group:
    def __init__(self, sources: frozenset[str]) -> None:
        self.sources = sources
        self.scope = _scope(next(iter(sources)))
        self.ways: list[Edge] = []
        """Guarded edges, and all plain ones as one."""


def _scope(name: str) -> str:
    return name.rpartition(".")[0]


def explore(edges: Sequence[Edge]) -> Walk:
    """Walk a graph."""
    walk = Walk()
    groups, first = _groups(edges)
    waiting: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for name in group.sources:
            waiting.setdefault(name, []).append(number)
    begin: _State = (first, ())
    seen, todo = {begin}, [begin]
    steps = 0
    while todo:
        ready, masks = todo.pop()
        walk.together.add(ready)
        for state in _advance(ready, dict(masks), groups, waiting, walk):
            steps += 1
            if state not in seen and state[0]:
                seen.add(state)
                todo.append(state)
        if steps > MAX_STEPS:
            walk.complete = False
            break
    return walk


def _groups(edges: Sequence[Edge]) -> tuple[list[_Group], frozenset[str]]:
    found: dict[frozenset[str], _Group] = {}
    plain: dict[frozenset[str], Edge] = {}
    first: frozenset[str] = frozenset()
    for edge in edges:
        targets = edge.targets - {"end"}
        if edge.sources == {START}:
            first |= targets
            continue
        group = found.setdefault(edge.sources, _Group(edge.sources))
        if edge.guarded:
            group.ways.append(Edge(edge.sources, targets, enters=edge.enters, exits=edge.exits))
        else:
            before = plain.get(edge.sources)
            enters = (*(before.enters if before else ()), *edge.enters)
            joined = targets | (before.targets if before else frozenset())
            plain[edge.sources] = Edge(
                edge.sources, joined, enters=enters, exits=edge.exits or (before.exits if before else "")
            )
    for sources, edge in plain.items():
        found[sources].ways.append(edge)
    return list(found.values()), first


def _advance(
    ready: frozenset[str],
    masks: dict[int, frozenset[str]],
    groups: Sequence[_Group],
    waiting: Mapping[str, Sequence[int]],
    walk: Walk,
) -> Iterator[_State]:
    """The states that can follow when all of ``ready`` have finished."""
    fired: list[int] = []
    for name in sorted(ready):
        fired += _finish(name, masks, groups, waiting)
    for number in fired:
        masks.pop(number, None)
        walk.fired.add(groups[number].sources)
    options = [groups[number].ways or [Edge(groups[number].sources, frozenset())] for number in fired]
    for ways in itertools.islice(itertools.product(*options), MAX_STEPS):
        yield from _settle(*_sort(ways), dict(masks), groups, waiting, walk)


def _finish(
    name: str, masks: dict[int, frozenset[str]], groups: Sequence[_Group], waiting: Mapping[str, Sequence[int]]
) -> list[int]:
    fired = []
    for number in waiting.get(name, ()):
        mask = masks.get(number, frozenset()) | {name}
        if mask == groups[number].sources and number not in fired:
            fired.append(number)
        masks[number] = mask
    return fired


def _sort(ways: Sequence[Edge]) -> tuple[list[Edge], list[str]]:
    """Edges that lead on, and scopes that others leave."""
    return [way for way in ways if not way.exits], [way.exits for way in ways if way.exits]


def _settle(
    ways: list[Edge],
    left: list[str],
    masks: dict[int, frozenset[str]],
    groups: Sequence[_Group],
    waiting: Mapping[str, Sequence[int]],
    walk: Walk,
) -> Iterator[_State]:
    """Take edges; a scope that is left, and in which nothing acts any more, may complete what waits for it."""
    ready = frozenset(name for way in ways for name in way.targets)
    for scope in sorted(set(left), key=len, reverse=True):
        if any(name.startswith(f"{scope}.") for name in ready):
            continue
        left = [each for each in left if each != scope]
        options = []
        for number in _finish(scope, masks, groups, waiting):
            masks.pop(number, None)
            walk.fired.add(groups[number].sources)
            options.append(groups[number].ways)
        if options:
            for chosen in itertools.islice(itertools.product(*options), MAX_STEPS):
                more, outer = _sort(chosen)
                yield from _settle([*ways, *more], [*left, *outer], dict(masks), groups, waiting, walk)
            return
    for scope in {scope for way in ways for scope in way.enters}:
        masks = {
            number: mask
            for number, mask in masks.items()
            if groups[number].scope != scope and not groups[number].scope.startswith(f"{scope}.")
        }
    yield ready, tuple(sorted(masks.items(), key=lambda item: item[0]))
