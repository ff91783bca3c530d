"""Episodes as JSON and back, exactly: one line an episode, the format of the store and of JSONL exports.

Written by hand because a run stores hundreds of thousands of episodes. Numbers keep every bit, texts every code point
(the line is pure ASCII, so control characters and lone surrogates do no harm in it). Two things that JSON lacks are
marked: an infinite log-probability is the string ``"-inf"``, and inside the fields of a turn and a verdict's evidence a
tuple is ``{"$tuple": [...]}`` and an infinite number ``{"$float": "-inf"}``. NaN is refused: something before went
wrong. What most turns lack (a field that has its default) is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from arena.protocols.errors import NumericalError, StoreError
from arena.protocols.records import Episode, Quote, Sampling, TokenSpan, Turn, TurnStatus, Verdict, VerdictStatus

__all__ = ["from_json", "read_verdict", "to_json", "verdict_fields"]

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_TURN_STATUS = {str(status): status for status in TurnStatus}
_VERDICT_STATUS = {str(status): status for status in VerdictStatus}
_MARKS = ("$tuple", "$float", "$map")
_NAN = object()
"""Stands for a NaN, which no encoder lets pass."""


def to_json(episode: Episode) -> str:
    """One line of ASCII.

    Raises:
        NumericalError: a number is NaN.
        StoreError: the evidence of a verdict holds something that JSON cannot carry.
    """
    try:
        fields = _episode(episode)
        try:
            line = orjson.dumps(fields)
            if line.isascii():
                return line.decode("ascii")
        except TypeError:
            # A NaN, or what JSON can carry and orjson cannot: halves of surrogate pairs, integers of more than 64 bits.
            _refuse_nan(fields, f"episode {episode.key}")
        return _encode(fields)
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
    fields: dict[str, Any] = {
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
    if episode.inner_verdicts:
        fields["inner_verdicts"] = {node: _verdict(verdict) for node, verdict in episode.inner_verdicts.items()}
    if episode.judged:
        fields["judged"] = episode.judged
    if episode.rated:
        fields["rated"] = {node: [_verdict(verdict) for verdict in given] for node, given in episode.rated.items()}
    return fields


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
    if turn.fields:
        fields["fields"] = _mark(turn.fields)
    if turn.about:
        fields["about"] = turn.about
    if turn.replaces is not None:
        fields["replaces"] = turn.replaces
    if turn.attempt:
        fields["attempt"] = turn.attempt
    if turn.sample:
        fields["sample"] = turn.sample
    if not turn.kept:
        fields["kept"] = False
    if turn.thinking:
        fields["thinking"] = turn.thinking
    if turn.visible_tokens is not None:
        fields["visible_tokens"] = turn.visible_tokens
    if turn.thinking_tokens:
        fields["thinking_tokens"] = turn.thinking_tokens
    return fields


def _span(span: TokenSpan) -> dict[str, Any]:
    sampling = span.sampling
    fields: dict[str, Any] = {
        "prompt": span.prompt,
        "ids": span.ids,
        "logps": None if span.logps is None else _finite(span.logps),
        "policy": span.policy,
        "sampling": _finite([sampling.temperature, sampling.top_p, sampling.top_k]),
        "fresh": span.fresh,
    }
    if span.side:
        fields["side"] = True
    if span.thinking:
        fields["thinking"] = span.thinking
    if span.allowed is not None:
        fields["allowed"] = span.allowed
    return fields


def verdict_fields(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON values.

    Raises:
        NumericalError: a number is NaN.
    """
    fields = _verdict(verdict)
    _refuse_nan(fields, f"verdict of {verdict.judge}")
    return fields


def _verdict(verdict: Verdict) -> dict[str, Any]:
    fields = {
        "status": verdict.status.value,
        "judge": verdict.judge,
        "logps": _finite(verdict.logps),
        "stated": verdict.stated,
        "evidence": _mark(verdict.evidence) if verdict.evidence else {},
    }
    if verdict.scores:
        fields["scores"] = _finite(verdict.scores)
    return fields


def _mark(value: Any) -> Any:
    """Fields or evidence with what JSON would lose marked."""
    kind = value.__class__
    if kind is float:
        number = _number(value)
        return {"$float": number} if number.__class__ is str else number
    if kind is tuple:
        return {"$tuple": [_mark(item) for item in value]}
    if kind is list:
        return [_mark(item) for item in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise StoreError(
                    f"fields of a turn, or the evidence of a verdict, have the key {key!r}: keys must be text"
                )
        marked = {key: _mark(item) for key, item in value.items()}
        return {"$map": marked} if len(marked) == 1 and next(iter(marked)) in _MARKS else marked
    if value is None or isinstance(value, str | int):
        return value
    raise TypeError(f"{kind.__name__} is nothing that JSON knows")


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


def _finite(values: Sequence[float]) -> Sequence[Any]:
    """Numbers with infinities as text and NaN marked."""
    return values if math.isfinite(sum(values)) else [_number(value) for value in values]


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return _NAN if math.isnan(value) else repr(value)


def _refuse_nan(value: Any, place: str) -> None:
    if value is _NAN:
        raise NumericalError(f"{place} is NaN; an episode with a number that is not one is not stored")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_nan(item, f"{place}.{key}")
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_nan(item, f"{place}[{index}]")


def _read_episode(fields: dict[str, Any]) -> Episode:
    return Episode(
        fields["key"],
        fields["protocol"],
        fields["task"],
        fields["lineup"],
        tuple(fields["sides"]),
        [_read_turn(turn) for turn in fields["turns"]],
        {node: read_verdict(verdict) for node, verdict in fields["verdicts"].items()},
        fields["stop"],
        fields["error"],
        {node: read_verdict(verdict) for node, verdict in fields.get("inner_verdicts", {}).items()},
        {node: tuple(counts) for node, counts in fields.get("judged", {}).items()},
        {node: tuple(map(read_verdict, given)) for node, given in fields.get("rated", {}).items()},
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
        _unmark(fields["fields"]) if "fields" in fields else {},
        tuple(get("about", ())),
        get("replaces"),
        get("attempt", 0),
        get("sample", 0),
        get("kept", True),
        get("thinking", ""),
        get("visible_tokens"),
        get("thinking_tokens", 0),
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
        fields.get("side", False),
        fields.get("thinking", 0),
        None if (allowed := fields.get("allowed")) is None else tuple(map(tuple, allowed)),
    )


def read_verdict(fields: dict[str, Any]) -> Verdict:
    """The verdict that `verdict_fields` wrote."""
    evidence = fields["evidence"]
    return Verdict(
        _VERDICT_STATUS[fields["status"]],
        fields["judge"],
        _numbers(fields["logps"]),
        fields["stated"],
        _unmark(evidence) if evidence else {},
        _numbers(fields.get("scores", ())),
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
