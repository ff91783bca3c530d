"""What nodes give: their fields, each with a value to try expressions on and with what it could give away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from arena.protocols.compiler.references import Ref, find_nodes, listed
from arena.protocols.compiler.scope import Move, key_of
from arena.protocols.errors import suggest
from arena.protocols.outputs import OutputRule

__all__ = [
    "BASE",
    "RESERVED_FIELDS",
    "UNKNOWN",
    "VERDICT",
    "Given",
    "chooses_answer",
    "gives",
    "gives_verdict",
    "unknown_field",
    "votes_on_answers",
    "votes_on_verdicts",
]

UNKNOWN: Any = type("Unknown", (), {"__repr__": lambda self: "UNKNOWN"})()
"""Sample of a field whose values may be anything."""

BASE: Mapping[str, Any] = {
    "text": "a text",
    "words": 2,
    "ok": True,
    "status": "ok",
    "bad_quotes": 1,
    "visits": 1,
}
"""Fields of every node with turns, with a sample."""
VERDICT: Mapping[str, Any] = {
    "choice": "an answer",
    "index": 0,
    "p": 0.7,
    "margin": 0.8,
    "score": 0.6,
    "status": "scored",
    "decidable": True,
    "winner": "a role",
}
RESERVED_FIELDS = frozenset({*BASE, "role"})
"""What outputs, draws and computations cannot call their own fields."""


@dataclass(frozen=True)
class Given:
    """One field of a node."""

    sample: Any = UNKNOWN
    field: str = ""
    """Task field of which it shows an item: a draw."""
    carries: frozenset[str] = frozenset()
    """Of a computed number: names that it may be equal to."""


def gives(ref: Ref) -> dict[str, Given]:
    """The fields of a node that are known when the file is read."""
    return _gives(ref.move, ())


def _gives(move: Move, within: tuple[Move, ...]) -> dict[str, Given]:
    if move in within:
        return {}
    found = _own_fields(move, (*within, move))
    if move.kind is None:
        return {}  # its nodes have fields
    if move.kind == "judge":
        return {**{name: Given(sample) for name, sample in VERDICT.items()}, "visits": Given(1)}
    return {**found, **{name: Given(sample) for name, sample in BASE.items()}}


def _own_fields(move: Move, within: tuple[Move, ...]) -> dict[str, Given]:
    file, unit = move.file, move.unit
    if move.speaks:
        found = {name: Given(sample) for name, sample in _output_samples(move).items()}
        for name, source in (file.draw or {}).items():
            found[name] = Given("a text", "" if source in unit.lists else source)
        return found
    if move.kind == "tool":
        return {"tool": Given("a tool")}
    if move.kind == "verify":
        return {"passed": Given(True), "score": Given(0.5)}
    if move.kind == "vote":
        return _vote_fields(move, within)
    if move.kind == "select":
        shared = _shared_fields(move, file.select, within)
        return {**shared, "picked": Given(0), "value": Given(0.5)}
    if move.kind == "compute":
        return {name: unit.computes.get((move.name, name), Given()) for name in file.compute or ()}
    return {}


def _vote_fields(move: Move, within: tuple[Move, ...]) -> dict[str, Given]:
    file = move.file
    found = {name: Given(sample) for name, sample in (("votes", 2), ("share", 0.7), ("cast", 3), ("agreed", False))}
    if file.rule == "mean" and not votes_on_verdicts(move):
        return {"value": Given(0.5), "cast": Given(3)}
    counted = _shared_fields(move, file.vote, within, draws=True).get(file.count or "choice", Given())
    if votes_on_verdicts(move) or votes_on_answers(move):
        found |= {name: Given(sample) for name, sample in VERDICT.items()}
        return found
    return found | {"choice": counted}


def _shared_fields(
    move: Move, names: str | list[str] | None, within: tuple[Move, ...], *, draws: bool = False
) -> dict[str, Given]:
    """Fields that all of the named nodes give."""
    shared: dict[str, Given] | None = None
    for name in listed(names):
        ref = find_nodes(move.unit, name)
        own = {} if ref is None else _gives(ref.move, within)
        if ref is not None and not draws:
            own = {key: given for key, given in own.items() if key not in (ref.move.file.draw or {})}
        shared = own if shared is None else {key: given for key, given in shared.items() if key in own}
    return {key: given for key, given in (shared or {}).items() if draws or key not in BASE}


def votes_on_verdicts(move: Move) -> bool:
    """Whether a vote combines verdicts (of judges, or of votes on answers)."""
    if move.kind != "vote":
        return False
    refs = [find_nodes(move.unit, name) for name in listed(move.file.vote)]
    return bool(refs) and all(ref is not None and gives_verdict(ref.move) for ref in refs)


def votes_on_answers(move: Move) -> bool:
    """Whether a vote counts choices among the task's answers."""
    if move.kind != "vote" or (move.file.count or "choice") != "choice" or move.file.rule == "mean":
        return False
    refs = [find_nodes(move.unit, name) for name in listed(move.file.vote)]
    return bool(refs) and all(ref is not None and chooses_answer(ref.move) for ref in refs)


def chooses_answer(move: Move) -> bool:
    """Whether turns of the node choose one of the ``answers`` of its scope."""
    if move.kind == "select":
        refs = [find_nodes(move.unit, name) for name in listed(move.file.select)]
        return bool(refs) and all(ref is not None and ref.move is not move and chooses_answer(ref.move) for ref in refs)
    return move.speaks and move.file.output is not None and move.file.output.choice == "answers"


def gives_verdict(move: Move, within: tuple[Move, ...] = ()) -> bool:
    """Whether the node ends in a verdict."""
    if move.kind == "judge":
        return True
    if move.kind != "vote" or move in within:
        return False
    if votes_on_answers(move):
        return True
    refs = [find_nodes(move.unit, name) for name in listed(move.file.vote)]
    return bool(refs) and all(ref is not None and gives_verdict(ref.move, (*within, move)) for ref in refs)


def _output_samples(move: Move) -> dict[str, Any]:
    """Fields of the node's ``output``, each with a value that it may have."""
    rule: OutputRule | None = move.unit.outputs.get(move.name)
    if rule is None:
        return {}
    if rule.kind == "choice":
        return {"choice": rule.choices[0] if rule.choices else UNKNOWN, "index": 0}
    if rule.kind == "call":
        return {"tool": rule.tools[0] if rule.tools else UNKNOWN, "arguments": UNKNOWN}
    if rule.kind == "json":
        properties: Any = rule.schema.get("properties")
        kinds: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        return {name: _json_sample(kinds.get(name)) for name in rule.fields}
    return dict.fromkeys(rule.fields, UNKNOWN)


def _json_sample(schema: Any) -> Any:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    samples: Mapping[str, Any] = {"integer": 1, "number": 0.5, "boolean": True, "array": ()}
    plain = isinstance(kind, str) and not {"enum", "const"} & set(schema)
    return samples.get(kind, UNKNOWN) if plain and isinstance(kind, str) else UNKNOWN


def unknown_field(ref: Ref, name: str, shown: str) -> str | None:
    """What is wrong with naming a field that the node does not give; None if it gives it."""
    fields = gives(ref)
    if name in fields:
        return None
    if ref.move.kind is None:
        known = [key_of(move) for unit in ref.move.inner[:1] for move in unit.moves]
        return f"'{shown}' is a nested protocol: name a node of it.{suggest(name, known)}"
    return f"'{shown}' gives no '{name}'.{suggest(name, fields)}"
