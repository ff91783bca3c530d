"""The edges that the engine walks: between nodes of all files, with the scopes that they enter and leave."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from arena.protocols.compiler.scope import Link, Move, Unit
from arena.protocols.compiler.settings import EDGE_NAMES
from arena.protocols.compiler.values import check_order, expression, try_number
from arena.protocols.expressions import Expression
from arena.protocols.graph import END, START, Edge

__all__ = ["add_conditions", "make_edges"]

MAX_EDGES = 5_000


def make_edges(unit: Unit) -> list[tuple[Edge, Link, Unit]]:
    """All edges of a unit and of those inside it, in file order, without their conditions."""
    found = [(edge, link, unit) for link in unit.links for edge in _edges(unit, link)]
    for move in unit.live_moves():
        found += [(edge, Link(move.path, 0, (), ()), unit) for edge in _turn_by_turn(move)]
        for inner in move.inner:
            found += make_edges(inner)
    return found


def _edges(unit: Unit, link: Link) -> Iterator[Edge]:
    for sources in link.sources:
        if sources == (START,) and not unit.main:
            continue  # part of the edges that enter the scope
        targets, enters = _targets(unit, link.targets)
        yield Edge(
            sources=frozenset(_finished(unit, sources)),
            targets=targets,
            times=link.times,
            bound="" if link.times is None or link.file is None else str(link.file.times),
            stop=(link.file.stop or "") if link.file else "",
            origin=link.origin,
            enters=enters,
            exits="" if unit.main or link.targets != (END,) else unit.name,
        )


def _turn_by_turn(move: Move) -> Iterator[Edge]:
    """From each seat to the next, where they act one after the other."""
    for before, after in itertools.pairwise(move.names if move.in_turn else ()):
        yield Edge(sources=frozenset({before}), targets=frozenset({after}))


def _finished(unit: Unit, names: Sequence[str]) -> Iterator[str]:
    """What must have finished: nodes, and scopes of nested protocols."""
    for name in names:
        move = unit.moves.get(name)
        if move is None:
            yield name
        elif move.kind is None:
            yield from (inner.name for inner in move.inner)
        else:
            yield from move.names[-1:] if move.in_turn else move.names


def _targets(unit: Unit, names: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """What acts next, and the scopes that are entered."""
    targets: set[str] = set()
    enters: list[str] = []
    for name in names:
        move = unit.moves.get(name)
        if move is None:
            targets |= {END} if unit.main else set()
        elif move.kind is not None:
            targets |= set(move.names[:1] if move.in_turn else move.names)
        else:
            for inner in move.inner:
                first, inside = _first(inner)
                targets |= first
                enters += inside
    return frozenset(targets), tuple(dict.fromkeys(enters))


def _first(unit: Unit) -> tuple[frozenset[str], tuple[str, ...]]:
    """The nodes with which a nested protocol begins."""
    targets: frozenset[str] = frozenset()
    enters: list[str] = [unit.name]
    for link in unit.links:
        if (START,) in link.sources:
            more, inside = _targets(unit, link.targets)
            targets |= more
            enters += inside
    return targets, tuple(dict.fromkeys(enters))


def add_conditions(found: Sequence[tuple[Edge, Link, Unit]]) -> tuple[Edge, ...]:
    """The edges with their conditions, when it is known what nodes give."""
    compiled: dict[int, Expression | None] = {}
    edges = []
    for edge, link, unit in found:
        if link.when is not None and id(link) not in compiled:
            path = (*link.path, "when")
            names = dict.fromkeys(EDGE_NAMES, 1)
            when = expression(unit, path, link.when, names)
            try_number(unit, path, when, names)
            if when is not None:
                check_order(unit, path, when, tuple(edge.sources))
            compiled[id(link)] = when
        when = compiled.get(id(link))
        edges.append(
            Edge(
                edge.sources,
                edge.targets,
                edge.times,
                edge.bound,
                when,
                edge.stop,
                edge.origin,
                edge.enters,
                edge.exits,
            )
        )
    return tuple(edges)
