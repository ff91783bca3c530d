"""Who may be shown what: which seats read a node, and what its fields could give away to them."""

from __future__ import annotations

from arena.protocols.compiler.given import BASE, VERDICT, Given, gives, gives_verdict
from arena.protocols.compiler.references import Ref, find_key
from arena.protocols.compiler.scope import Move, Unit

__all__ = ["hearers", "hidden", "may_see", "reaches"]


def reaches(ref: Ref, seat: str) -> bool:
    """Whether all nodes of the name are read by a seat."""
    return all(_reads(ref.unit, name, seat) for name in ref.names)


def _reads(unit: Unit, name: str, seat: str) -> bool:
    audience = unit.work.audiences.get(name)
    if audience is None:
        return True
    return not audience.ephemeral and (audience.seats is None or seat in audience.seats or seat == audience.speaker)


def may_see(unit: Unit, seat: str, name: str) -> bool:
    """Whether a seat may be shown a field of a unit's scope: its outermost role sees it, or all that it is made
    from."""
    if seat in unit.work.programs:
        return True
    if unit.parent is None:
        return name in unit.work.visible.get(seat, ())
    outer = unit.parent.unit
    if name not in unit.bound:
        return may_see(outer, seat, name)
    for path in (path for template in unit.bound[name] for path in template.members):
        if path[0] in outer.fields:
            if not may_see(outer, seat, path[0]):
                return False
        elif (found := find_key(outer, path)) and hidden(seat, *found):
            return False
    return True


def hidden(seat: str, ref: Ref, name: str) -> str | None:
    """Why a seat may not be shown a field of a node (all of them if ``name`` is empty); None if it may."""
    for part in (name,) if name else tuple(gives(ref)):
        if why := _hidden_field(seat, ref, part):
            return why
    return None


def _hidden_field(seat: str, ref: Ref, name: str) -> str | None:
    move, unit = ref.move, ref.unit
    given = gives(ref).get(name)
    if name == "visits" or given is None:
        return None
    verdict = gives_verdict(move)
    if verdict and name in VERDICT:
        if (
            name in ("answer", "choice")
            and (name == "answer" or move.kind == "vote")
            and not may_see(unit, seat, "answers")
        ):
            return f"it shows 'answers', which '{seat}' does not see"
        return None
    if move.kind == "compute" and name not in BASE:
        return _hidden_number(seat, unit, given)
    if given.field and not may_see(unit, seat, given.field):
        return f"it was drawn from '{given.field}', which '{seat}' does not see"
    if not reaches(ref, seat):
        return f"'{seat}' does not read its turns"
    return None


def _hidden_number(seat: str, unit: Unit, given: Given, within: frozenset[str] = frozenset()) -> str | None:
    """Why a computed value may not be shown: it may be equal to something hidden."""
    for name in sorted(given.carries - within):
        if name in unit.fields and not may_see(unit, seat, name):
            return f"it may be the value of '{name}', which '{seat}' does not see"
        found = find_key(unit, name.split(".")) if "." in name else None
        if found is None:
            continue
        ref, part = found
        if ref.move.kind == "compute" and part not in BASE:
            inner = gives(ref).get(part, Given())
            why = _hidden_number(seat, ref.unit, inner, within | given.carries)
        else:
            why = hidden(seat, ref, part) if part else None
        if why:
            return f"it may be the value of '{name}': {why}"
    return None


def hearers(unit: Unit, move: Move) -> list[str]:
    """Seats that read turns of a node, beside its own speaker."""
    work = unit.work
    found = []
    for seat in work.visible:
        for name in move.names:
            audience = work.audiences[name]
            reads = not audience.ephemeral and (audience.seats is None or seat in audience.seats)
            if reads and seat != audience.speaker and seat not in work.programs and seat not in work.deaf:
                found.append(seat)
                break
    return found
