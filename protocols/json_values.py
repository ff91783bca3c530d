"""JSON as models write it: parsed strictly, with a bound on everything, and with faults that its writer understands."""

from __future__ import annotations

import json
import re
from typing import Any

__all__ = ["MAX_NESTING", "MAX_TEXT", "read_json"]

MAX_TEXT = 100_000
"""Most characters of a text that is read."""

MAX_NESTING = 50
"""Most brackets around a value."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[{]|[\]}]', re.DOTALL)


def read_json(text: str) -> Any:
    """The value of a text that is JSON as a whole, a code fence around it aside.

    Raises:
        ValueError: it is not JSON, or too long or deep, with a key twice, or a number or character that cannot be kept.
    """
    if len(text) > MAX_TEXT:
        raise ValueError(f"it has {len(text):,} characters, and at most {MAX_TEXT:,} are read")
    text = _unfenced(text.strip())
    _check_nesting(text)
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_int=_whole, parse_float=_decimal, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} (line {error.lineno}, column {error.colno})") from None
    if "\\" in text or not text.isascii():
        _check_characters(value)
    return value


def _unfenced(text: str) -> str:
    """What stands in a code fence (```json), if the text is one."""
    if len(text) < 6 or not (text.startswith("```") and text.endswith("```")):
        return text
    language, newline, inside = text[3:-3].partition("\n")
    return inside if newline and (not language.strip() or language.strip().isalnum()) else text


def _check_nesting(text: str) -> None:
    """Before parsing, which would otherwise run out of stack."""
    depth = 0
    for token in _TOKEN.finditer(text):
        if token[0] in "[{":
            depth += 1
            if depth > MAX_NESTING:
                raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")
        elif token[0] in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r:.40} stands there twice")
        found[key] = value
    return found


def _whole(digits: str) -> int:
    _decimal(digits)
    return int(digits)


def _decimal(digits: str) -> float:
    number = float(digits)
    if abs(number) == float("inf"):
        raise ValueError(f"the number {digits[:20]}... is too large" if len(digits) > 20 else f"{digits} is too large")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number of JSON")


def _check_characters(value: Any) -> None:
    """Halves of surrogate pairs can be neither printed nor stored."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair (\\ud800 to \\udfff)") from None
