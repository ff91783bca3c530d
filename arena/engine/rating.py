"""Rating candidates: of a best-of-n move, and of what a selection picks from."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from arena.engine.requests import Request, Run, Steps
from arena.protocols import Expression
from arena.protocols.programs import Outcome
from arena.protocols.records import Turn, Verdict
from arena.values import READABLE, turn_value

if TYPE_CHECKING:
    from arena.engine.move import Move

__all__ = ["Candidate", "best", "check_request", "rate"]


@dataclass(slots=True)
class Candidate:
    """A turn that may be picked."""

    turn: Turn
    answer: int | None
    """The answer that it speaks for, among those of its scope."""


def rate(
    move: Move, candidates: Sequence[Candidate], value: Expression, without: Collection[int] = ()
) -> Steps[list[float | None]]:
    """The value of each candidate; None where it cannot be read, or what rates it did not decide.

    Args:
        move: whose candidates they are.
        candidates: in order.
        value: over what the judge or checker finds, and over fields of the turns.
        without: indices of turns that a judge passes over while it rates another.
    """
    station = move.station
    readable = [candidate for candidate in candidates if candidate.turn.status in READABLE]
    found: list[Any] = [None] * len(readable)
    if not readable:
        pass
    elif station.bench is not None:
        found = list((yield [move.game.view(station, candidate=c.turn, without=without) for c in readable]))
        move.rated = found
    elif station.check is not None:
        found = list((yield [check_request(move, c.turn, number) for number, c in enumerate(readable)]))
    values = {id(c): _value(move, c, result, value) for c, result in zip(readable, found, strict=True)}
    return [values.get(id(candidate)) for candidate in candidates]


def check_request(move: Move, turn: Turn, number: int = 0) -> Request:
    """A request to the check at a node: to examine a turn."""
    from arena.agents.tools import run_check

    game, station = move.game, move.station
    check = station.check
    assert check is not None
    role = station.rater or station.role
    call = game.call(move, turn, role, number)
    if station.node.fields:
        call = replace(call, task={**call.task, **game.given(move, station.node.fields)})
    return Run(lambda: run_check(check, call), check.slow)


def _value(move: Move, candidate: Candidate, result: Any, value: Expression) -> float | None:
    turn = candidate.turn
    names: dict[str, Any] = {**move.game.values, **turn.fields}
    names |= {name: turn_value(turn, name) for name in ("words", "bad_quotes", "ok")}
    if isinstance(result, Verdict):
        names |= _judged(result, candidate.answer)
    elif isinstance(result, Outcome):
        names |= {"passed": result.fields.get("passed"), "score": result.fields.get("score")}
    if any(names.get(name) is None for name in value.names):
        return None
    number = value(names)
    return float(number) if isinstance(number, int | float) else None


def _judged(verdict: Verdict, answer: int | None) -> dict[str, float | None]:
    score = verdict.worth(answer) if verdict.decidable else None
    if answer is None or not verdict.decidable or not verdict.logps:
        return {"margin": None, "p": None, "won": None, "score": score}
    return {
        "score": score,
        "margin": verdict.margin(answer),
        "p": math.exp(verdict.logps[answer]),
        "won": verdict.score(answer),
    }


def best(candidates: Sequence[Candidate], values: Sequence[float | None]) -> int:
    """Place of the candidate with the largest value, the first of equals; if none has one, of the first readable."""
    rated = [(value, -place) for place, value in enumerate(values) if value is not None]
    if rated:
        return -max(rated)[1]
    return next((place for place, c in enumerate(candidates) if c.turn.status in READABLE), 0)
