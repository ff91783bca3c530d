"""Who reads the turns of each node."""

from __future__ import annotations

from arena.protocols.compiler.roles import find_roles
from arena.protocols.compiler.scope import Audience, Move, Unit
from arena.protocols.documents import KeyPath

__all__ = ["read_audiences"]


def read_audiences(unit: Unit) -> None:
    """Fill in who reads the nodes of a unit; those of the units around it are known."""
    for move in unit.live_moves():
        if move.kind is None:
            _read_use(move)
        elif move.kind == "judge":
            for name in move.names:
                unit.work.audiences[name] = Audience((), False, "")
        else:
            _read_turns(move)


def _read_use(move: Move) -> None:
    """Who outside of a nested protocol reads its turns."""
    to, path = move.file.to, (*move.path, "to")
    if to == "self":
        move.unit.add(path, "a nested protocol is no speaker: write everyone, nobody or a list of roles")
    outside: tuple[str, ...] | None = None if to is None or to == "everyone" else ()
    if isinstance(to, list):
        outside = _seats(move.unit, path, to)
    for inner in move.inner:
        if outside is None:
            inner.everyone = move.unit.everyone
        else:
            own = [role.seat for roles in inner.roles.values() for role in roles]
            inner.everyone = tuple(dict.fromkeys((*own, *outside)))


def _read_turns(move: Move) -> None:
    unit, to, path = move.unit, move.file.to, (*move.path, "to")
    if move.kind == "compute" and move.file.say is None:
        unit.refuse_keys(move.path, ("to",), "a computation without 'say' is read by nobody")
        seats: tuple[str, ...] | None = ()
    elif isinstance(to, list):
        seats = _seats(unit, path, to)
    else:
        seats = () if to in ("self", "nobody") else unit.everyone
        if to == "self" and not move.speaks:
            unit.add(path, "a program has no mind to keep a turn in: write 'to: nobody' or a list of roles")
    for index, name in enumerate(move.names):
        speaker = move.roles[min(index, len(move.roles) - 1)].seat if move.speaks and move.roles else ""
        unit.work.audiences[name] = Audience(seats, to == "nobody" and move.speaks, speaker)


def _seats(unit: Unit, path: KeyPath, names: list[str]) -> tuple[str, ...]:
    found: list[str] = []
    for index, name in enumerate(names):
        roles = find_roles(unit, (*path, index), name)
        if roles and (roles[0].tools or roles[0].check is not None):
            unit.add((*path, index), f"role '{name}' is a program and reads no turns: remove it")
        found += [role.seat for role in roles]
    return tuple(dict.fromkeys(found))
