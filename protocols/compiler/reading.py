"""Who may be shown what: which seats read a node, and what its fields could give away to them."""

from __future__ import annotations

from collections.abc import Collection

from arena.protocols.compiler.given import BASE, VERDICT, Given, gives, gives_verdict
from arena.protocols.compiler.references import Ref, find_key, find_nodes, listed
from arena.protocols.compiler.scope import Move, Unit

__all__ = ["hearers", "hidden", "may_see", "reaches", "unread"]


def reaches(ref: Ref, seat: str) -> bool:
    """Whether all nodes of the name are read by a seat, be they revised or not."""
    return all(_reads(ref.unit, name, seat) for name in ref.names)


def unread(ref: Ref, seat: str, at: Collection[str]) -> str | None:
    """A node that a seat does not read, and of which it would be shown a turn where it is shown what stands of a name.

    Args:
        ref: the name.
        seat: who is shown it.
        at: nodes, at one of which it is shown.
    """
    every = (*ref.names, *ref.unit.work.versions(ref.names, at))
    return next((name for name in every if not _reads(ref.unit, name, seat)), None)


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
        elif (found := find_key(outer, path)) and hidden(seat, *found, at=unit.all_names()):
            return False
    return True


def hidden(seat: str, ref: Ref, name: str, *, at: Collection[str] = ()) -> str | None:
    """Why a seat may not be shown a field of a node (all of them if ``name`` is empty); None if it may.

    Args:
        seat: who is shown it.
        ref: the node.
        name: the field.
        at: nodes, at one of which a template shows it, and so what stands of it; expressions mean the node itself.
    """
    for part in (name,) if name else tuple(gives(ref)):
        if why := _hidden_field(seat, ref, part, at):
            return why
    return None


def _hidden_field(seat: str, ref: Ref, name: str, at: Collection[str]) -> str | None:
    move, unit = ref.move, ref.unit
    given = gives(ref).get(name)
    if name == "visits" or given is None:
        return None
    verdict = gives_verdict(move)
    if verdict and name in VERDICT:
        if name == "choice" and not may_see(unit, seat, "answers"):
            return f"it shows 'answers', which '{seat}' does not see"
        return None
    if move.kind == "compute" and name not in BASE:
        return _hidden_number(seat, unit, given)
    if move.kind == "vote" and name in ("choice", "value"):
        why = _hidden_ballot(seat, move, frozenset())
        if why:
            return why
    if given.field and not may_see(unit, seat, given.field):
        return f"it was drawn from '{given.field}', which '{seat}' does not see"
    other = unread(ref, seat, at)
    if other is None:
        return None
    return f"'{seat}' does not read " + ("its turns" if other in ref.names else f"'{other}', which revises it")


def _hidden_ballot(seat: str, vote: Move, within: frozenset[Move]) -> str | None:
    """Why the result of a vote may not be shown: it is a value of what is counted. A choice is one of the options."""
    count, unit = vote.file.count or "choice", vote.unit
    for name in listed(vote.file.vote):
        ref = find_nodes(unit, name)
        if ref is None or ref.move.kind is None or ref.move in within:
            continue
        revisions = unit.work.versions(ref.names, vote.names)
        for each in (ref, *(Ref([unit.work.revising[revision]], (revision,)) for revision in revisions)):
            rule = each.unit.outputs.get(each.move.name)
            if rule is not None and rule.kind == "choice" and count in ("choice", "index"):
                if count == "choice" and rule.choices_field and not may_see(each.unit, seat, rule.choices_field):
                    return f"it shows an item of '{rule.choices_field}', which '{seat}' does not see"
            elif each.move.kind == "vote" and count in ("choice", "value") and not gives_verdict(each.move):
                if why := _hidden_ballot(seat, each.move, within | {vote}):
                    return why
            elif why := hidden(seat, each, count):
                return f"it is the '{count}' of '{name}': {why}"
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
