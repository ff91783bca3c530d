"""What speakers have: limits (tools have them too), quotes, draws, claims, retries and candidates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arena.protocols.compiler.given import gives
from arena.protocols.compiler.ratings import read_rater, read_value
from arena.protocols.compiler.references import Ref
from arena.protocols.compiler.scope import Move
from arena.protocols.compiler.values import whole
from arena.protocols.errors import suggest
from arena.protocols.graph import BestOf
from arena.protocols.quotes import QuoteRule

__all__ = ["read_limits", "read_speech"]

MOST = 1_000_000
MAX_CANDIDATES = 64
MAX_RETRIES = 100


def read_speech(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a speaker has."""
    retries = whole(move.unit, (*move.path, "retries"), move.file.retries, 0, MAX_RETRIES) or 0
    if move.has("retries") and move.file.output is None:
        what = "'retries' does nothing without 'output': any text can be read"
        move.unit.add((*move.path, "retries"), what, key=True)
    _check_draws(move)
    _check_claims(move)
    return {
        **read_limits(move),
        "quote": _read_quote(move),
        "output": move.unit.outputs.get(move.name),
        "retries": retries,
        "claims": move.file.claims,
        "draws": dict(move.file.draw or {}),
        "best_of": _read_best_of(move),
    }


def _own(move: Move) -> str:
    return move.roles[0].group.rpartition(".")[2] if move.roles else ""


def read_limits(move: Move) -> dict[str, Any]:
    """The bounds of a turn of a speaker or a tool."""
    limit, unit, path = move.file.limit, move.unit, (*move.path, "limit")
    if limit is None:
        return {}
    if limit.words is None and limit.tokens is None and limit.thinking is None:
        unit.add(path, "a limit has at least one of 'words', 'tokens' and 'thinking'", key=True)
    if limit.thinking is not None and not move.speaks:
        unit.add((*path, "thinking"), "a program has no hidden thinking: leave it out", key=True)
    return {
        "max_words": whole(unit, (*path, "words"), limit.words, 1, MOST),
        "max_tokens": whole(unit, (*path, "tokens"), limit.tokens, 1, MOST),
        "max_thinking": whole(unit, (*path, "thinking"), limit.thinking, 0, MOST),
        "refuses": limit.over == "refuse",
    }


def _read_quote(move: Move) -> QuoteRule | None:
    quote, unit = move.file.quote, move.unit
    if quote is None:
        return None
    rule = QuoteRule(quote) if isinstance(quote, str) else QuoteRule(quote.field, quote.form, quote.once)
    place = (*move.path, "quote") if isinstance(quote, str) else (*move.path, "quote", "field")
    if rule.field not in unit.fields:
        unit.add(place, f"'{rule.field}' is not a field of this protocol.{suggest(rule.field, unit.fields)}")
        return None
    if any(rule.field not in role.sees for role in move.roles):
        own = _own(move)
        what = f"role '{own}' cannot quote '{rule.field}', which it does not see: add it to roles.{own}.sees"
        unit.add(place, what)
    return rule


def _check_draws(move: Move) -> None:
    """What is drawn is an item of a list of the protocol, or of a field that the role sees."""
    unit = move.unit
    for name, source in (move.file.draw or {}).items():
        path = (*move.path, "draw", name)
        if source in unit.lists:
            unit.used_lists.add(source)
        elif source not in unit.fields:
            known = [*unit.lists, *unit.fields]
            unit.add(path, f"'{source}' is neither a list nor a field of this protocol.{suggest(source, known)}")
        elif any(source not in role.sees for role in move.roles):
            own = _own(move)
            what = f"role '{own}' cannot draw from '{source}', which it does not see: add it to roles.{own}.sees"
            unit.add(path, what)


def _check_claims(move: Move) -> None:
    """A claim takes one of the answers for a role that argues."""
    if not move.file.claims:
        return
    output, path = move.file.output, (*move.path, "claims")
    if output is None or output.choice != "answers":
        move.unit.add(path, "a claim is read from 'output: {choice: answers}'", key=True)
    if any(role.argues is None for role in move.roles):
        what = f"role '{_own(move)}' argues nothing that it could claim: add 'argues'"
        move.unit.add(path, what, key=True)


def _read_best_of(move: Move) -> BestOf | None:
    file, path = move.file.best_of, (*move.path, "best_of")
    if file is None:
        return None
    n = whole(move.unit, (*path, "n"), file.n, 2, MAX_CANDIDATES)
    by = read_rater(move.unit, (*path, "by"), file.by)
    argues = all(role.argues is not None for role in move.roles)
    plain = {**_outputs(move), "words": 2, "bad_quotes": 1}
    value = read_value(move.unit, (*path, "value"), file.value, by, plain, argues=argues)
    return BestOf(n, by, value) if n and value else None


def _outputs(move: Move) -> Mapping[str, Any]:
    """Fields of the node's output, each with a value that it may have."""
    rule, fields = move.unit.outputs.get(move.name), gives(Ref([move]))
    return {name: fields[name].sample for name in (rule.fields if rule else ()) if name in fields}
