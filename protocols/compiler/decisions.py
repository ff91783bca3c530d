"""Votes, selections and computations."""

from __future__ import annotations

from typing import Any

from arena.protocols.compiler.given import UNKNOWN, gives, votes_on_answers, votes_on_verdicts
from arena.protocols.compiler.ratings import read_rater, read_value
from arena.protocols.compiler.references import Ref
from arena.protocols.compiler.scope import Move, Unit
from arena.protocols.compiler.targets import targets
from arena.protocols.compiler.values import check_order, expression, try_number
from arena.protocols.errors import suggest
from arena.protocols.expressions import Expression

__all__ = ["read_computation", "read_selection", "read_vote"]


def read_vote(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a vote has."""
    unit, file, path = move.unit, move.file, (*move.path, "vote")
    refs, verdicts = targets(move, file.vote), votes_on_verdicts(move)
    if verdicts:
        unit.refuse_keys(move.path, ("count",), "verdicts are combined, not fields counted")
        for ref in refs:
            if any("answers" in between.bound for between in _between(ref.unit, unit)):
                unit.add(path, f"'{ref.move.name}' judges other answers than those of this protocol")
    elif any(ref.move.kind == "judge" for ref in refs):
        unit.add(path, "a vote is over judges alone, or over turns alone: make two votes")
    else:
        for ref in refs:
            _check_counted(move, ref)
    if refs and not any(ref.names for ref in refs):
        unit.add(path, "none of these nodes runs with these params")
    answers = verdicts or votes_on_answers(move)
    return {"count": file.count or "choice", "rule": file.rule, "votes_on_answers": answers}


def _between(inner: Unit, outer: Unit) -> list[Unit]:
    """The units from a nested one up to, and without, the one around it."""
    chain = inner.chain()
    return chain[: chain.index(outer)]


def _check_counted(move: Move, ref: Ref) -> None:
    """The nodes that are counted give the field."""
    count, fields = move.file.count or "choice", gives(ref)
    if not ref.names:
        return
    if count not in fields:
        what = f"'{ref.move.name}' gives no '{count}' to count.{suggest(count, fields)}"
        move.unit.add((*move.path, "count" if move.has("count") else "vote"), what)
    elif move.file.rule == "mean" and isinstance(fields[count].sample, str):
        what = f"'mean' is for numbers and verdicts, and '{count}' is a text"
        move.unit.add((*move.path, "rule"), what)


def read_selection(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a selection has."""
    unit, file = move.unit, move.file
    refs = targets(move, file.select)
    by = read_rater(unit, (*move.path, "by"), file.by)
    argues = all(role.argues is not None for ref in refs for role in ref.move.roles)
    plain: dict[str, Any] = {"words": 2, "bad_quotes": 1}
    shared = [gives(ref) for ref in refs if ref.names]
    for name in set.intersection(*(set(fields) for fields in shared)) if shared else ():
        plain.setdefault(name, shared[0][name].sample)
    if file.value is None:
        unit.add(move.path, "a selection needs 'value': what is largest for the best", key=True)
    value = read_value(unit, (*move.path, "value"), file.value, by, plain, argues=argues)
    if refs and sum(len(ref.names) for ref in refs) < 2:
        unit.add((*move.path, "select"), "there is only one turn to pick from")
    return {"by": by, "value": value}


def read_computation(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a computation has."""
    unit, found = move.unit, dict[str, Expression]()
    if not move.file.compute:
        unit.add((*move.path, "compute"), "there is nothing to compute: write NAME: EXPRESSION", key=True)
    fields = dict.fromkeys(unit.fields, UNKNOWN)
    for name, source in (move.file.compute or {}).items():
        path = (*move.path, "compute", name)
        compiled = expression(unit, path, source, fields)
        if compiled is None:
            continue
        unit.used_fields |= compiled.names & unit.fields.keys()
        try_number(unit, path, compiled, fields, texts=True)
        check_order(unit, path, compiled, move.names)
        found[name] = compiled
    return {"computes": found}
