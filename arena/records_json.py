"""Episodes as JSON and back, exactly: one line an episode, the format of the store and of JSONL exports.

Written by hand because a run stores hundreds of thousands of episodes. Numbers keep every bit, texts every code point
(the line is pure ASCII, so control characters and lone surrogates do no harm in it). Two things that JSON lacks are
marked: an infinite log-probability is the string ``"-inf"``, and inside a verdict's evidence a tuple is
``{"$tuple": [...]}`` and an infinite number ``{"$float": "-inf"}``. NaN is refused: something before went wrong.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena.protocols.errors import NumericalError, StoreError
from arena.protocols.records import Episode, Quote, Sampling, TokenSpan, Turn, TurnStatus, Verdict, VerdictStatus

__all__ = ["from_json", "to_json"]

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_TURN_STATUS = {str(status): status for status in TurnStatus}
_VERDICT_STATUS = {str(status): status for status in VerdictStatus}
_MARKS = ("$tuple", "$float", "$map")


def to_json(episode: Episode) -> str:
    """One line of ASCII.

    Raises:
        NumericalError: a number is NaN.
        StoreError: the evidence of a verdict holds something that JSON cannot carry.
    """
    try:
        return _encode(_episode(episode))
    except ValueError:
        return _encode(_finite(_episode(episode), f"episode {episode.key}"))
    except TypeError as error:
        raise StoreError(f"episode {episode.key} cannot be stored: {error}") from error


def from_json(text: str | bytes) -> Episode:
    """The episode that `to_json` wrote.

    Raises:
        StoreError: the text is not one.
    """
    try:
        return _read_episode(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        start = text[:80]
        raise StoreError(f"this is not a stored episode ({type(error).__name__}: {error}): {start!r}") from error


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "key": episode.key,
        "protocol": episode.protocol,
        "task": episode.task,
        "lineup": dict(episode.lineup),
        "sides": episode.sides,
        "turns": [_turn(turn) for turn in episode.turns],
        "verdicts": {node: _verdict(verdict) for node, verdict in episode.verdicts.items()},
        "stop": episode.stop,
        "error": episode.error,
    }


def _turn(turn: Turn) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "index": turn.index,
        "superstep": turn.superstep,
        "node": turn.node,
        "role": turn.role,
        "visit": turn.visit,
        "agent": turn.agent,
        "answer": turn.answer,
        "text": turn.text,
        "status": turn.status.value,
    }
    # What most turns lack is left out.
    if turn.quotes:
        fields["quotes"] = [
            {"text": quote.text, "verified": quote.verified, "repeated": quote.repeated} for quote in turn.quotes
        ]
    if turn.audience is not None:
        fields["audience"] = turn.audience
    if turn.tokens is not None:
        fields["tokens"] = _span(turn.tokens)
    if turn.error is not None:
        fields["error"] = turn.error
    return fields


def _span(span: TokenSpan) -> dict[str, Any]:
    sampling = span.sampling
    return {
        "prompt": span.prompt,
        "ids": span.ids,
        "logps": span.logps,
        "policy": span.policy,
        "sampling": [sampling.temperature, sampling.top_p, sampling.top_k],
        "fresh": span.fresh,
    }


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "status": verdict.status.value,
        "judge": verdict.judge,
        "logps": verdict.logps,
        "stated": verdict.stated,
        "evidence": _mark(verdict.evidence) if verdict.evidence else {},
    }


def _mark(value: Any) -> Any:
    """Evidence with what JSON would lose marked."""
    kind = value.__class__
    if kind is float:
        return value if math.isfinite(value) or math.isnan(value) else {"$float": repr(value)}
    if kind is tuple:
        return {"$tuple": [_mark(item) for item in value]}
    if kind is list:
        return [_mark(item) for item in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StoreError(f"the evidence of a verdict has the key {key!r}: keys must be text")
        marked = {key: _mark(item) for key, item in value.items()}
        return {"$map": marked} if len(marked) == 1 and next(iter(marked)) in _MARKS else marked
    return value


def _unmark(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmark(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (mark, inside), *_ = value.items()
        if mark == "$tuple":
            return tuple(_unmark(item) for item in inside)
        if mark == "$float":
            return float(inside)
        if mark == "$map":
            return {key: _unmark(item) for key, item in inside.items()}
    return {key: _unmark(item) for key, item in value.items()}


def _finite(value: Any, place: str) -> Any:
    """The rare way: infinities as text; NaN raises with its place."""
    if isinstance(value, float) and not math.isfinite(value):
        if math.isnan(value):
            raise NumericalError(f"{place} is NaN; an episode with a number that is not one is not stored")
        return repr(value)
    if isinstance(value, dict):
        return {key: _finite(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, f"{place}[{index}]") for index, item in enumerate(value)]
    return value


def _read_episode(fields: dict[str, Any]) -> Episode:
    return Episode(
        fields["key"],
        fields["protocol"],
        fields["task"],
        fields["lineup"],
        tuple(fields["sides"]),
        [_read_turn(turn) for turn in fields["turns"]],
        {node: _read_verdict(verdict) for node, verdict in fields["verdicts"].items()},
        fields["stop"],
        fields["error"],
    )


def _read_turn(fields: dict[str, Any]) -> Turn:
    get = fields.get
    quotes, audience, tokens = get("quotes"), get("audience"), get("tokens")
    return Turn(
        fields["index"],
        fields["superstep"],
        fields["node"],
        fields["role"],
        fields["visit"],
        fields["agent"],
        fields["answer"],
        fields["text"],
        _TURN_STATUS[fields["status"]],
        tuple([Quote(quote["text"], quote["verified"], quote["repeated"]) for quote in quotes]) if quotes else (),
        None if audience is None else tuple(audience),
        None if tokens is None else _read_span(tokens),
        get("error"),
    )


def _read_span(fields: dict[str, Any]) -> TokenSpan:
    logps = fields["logps"]
    sampling: Any = _numbers(fields["sampling"])
    return TokenSpan(
        tuple(fields["prompt"]),
        tuple(fields["ids"]),
        None if logps is None else _numbers(logps),
        fields["policy"],
        Sampling(*sampling),
        fields["fresh"],
    )


def _read_verdict(fields: dict[str, Any]) -> Verdict:
    evidence = fields["evidence"]
    return Verdict(
        _VERDICT_STATUS[fields["status"]],
        fields["judge"],
        _numbers(fields["logps"]),
        fields["stated"],
        _unmark(evidence) if evidence else {},
    )


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple([float(value) if value.__class__ is str else value for value in values])


def finite(data: Any) -> Any:
    """``data`` with NaN and infinity, which JSON does not have, as None."""
    if isinstance(data, Mapping):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
