"""What names of nodes mean in a file: ``draft``, ``answer-2`` of a group, ``work.step`` of a nested protocol."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from arena.protocols.compiler.scope import Move, Unit, key_of

__all__ = ["Ref", "find_key", "find_nodes", "listed", "node_named"]


@dataclass(eq=False)
class Ref:
    """What a name like ``draft``, ``answer-2`` or ``work.step`` means in a file."""

    moves: list[Move]
    """One for each unit that has it."""
    names: tuple[str, ...] = ()
    """Of the nodes that can be reached, in order."""
    many: bool = False
    """Several nodes, whose fields are tuples."""
    key: str = ""
    """In expressions, with its scope."""

    @property
    def move(self) -> Move:
        """Any of them: they stand in one place of one file."""
        return next((move for move in self.moves if move.alive), self.moves[0])

    @property
    def unit(self) -> Unit:
        """Whose node it is."""
        return self.move.unit


def find_nodes(unit: Unit, text: str) -> Ref | None:
    """What a name of the file means, with ``-`` as written; None if there is no such node (a ``use`` is one)."""
    return _find(unit, text.split("."), plain=True)


def node_named(unit: Unit, name: str) -> tuple[Move, bool] | None:
    """What the first part of a name in an expression or template means: a node, and whether it is several."""
    found = _member(unit, name, plain=False)
    return (found[0][0], found[0][0].counted and not found[0][1]) if found else None


def find_key(unit: Unit, path: Sequence[str]) -> tuple[Ref, str] | None:
    """What a dotted name of an expression or template means: the node, and the first step behind it ("" without
    one)."""
    for length in range(len(path), 0, -1):
        ref = _find(unit, path[:length], plain=False)
        if ref is not None and (ref.move.kind is not None or length == len(path)):
            return ref, path[length] if length < len(path) else ""
        if ref is not None:
            return ref, path[length]
    return None


def _find(unit: Unit, parts: Sequence[str], *, plain: bool) -> Ref | None:
    units, many, key = [unit], False, unit.key
    for depth, part in enumerate(parts):
        found = [(move, number) for each in units for move, number in _member(each, part, plain=plain)]
        if not found:
            return None
        move, number = found[0]
        many = many or (move.counted and not number)
        key = f"{key}.{key_of(part)}" if key else key_of(part)
        if depth < len(parts) - 1:
            if move.kind is not None:
                return None
            units = [each for use, _ in found for each in use.inner if not number or each.number == number]
            if not units:
                return Ref([use for use, _ in found], (), many, key)
            continue
        names = [
            name
            for own, _ in found
            for index, name in enumerate(own.names)
            if own.alive and (not number or index + 1 == number)
        ]
        return Ref([own for own, _ in found], tuple(names), many, key)
    return None


def _member(unit: Unit, part: str, *, plain: bool) -> list[tuple[Move, int]]:
    """The node of that name, or the node of a group and a number (``answer-2``)."""
    if plain:
        if part in unit.moves:
            return [(unit.moves[part], 0)]
        group, _, number = part.rpartition("-")
    else:
        keys = unit.keys
        if part in keys:
            return [(keys[part], 0)]
        group, _, number = part.rpartition("_")
    move = unit.moves.get(group) if plain else unit.keys.get(group)
    if move is None or not move.counted or not number.isdecimal():
        return []
    size = len(move.names) or len(move.inner)
    return [(move, int(number))] if 1 <= int(number) <= size and number == str(int(number)) else []


def listed(names: str | list[str] | None) -> list[str]:
    """One name or several."""
    return [names] if isinstance(names, str) else names or []
