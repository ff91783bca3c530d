"""Texts that match a regular expression, made at random by walking what Python's own parser makes of the pattern.

The patterns of protocols are those of RE2. Where the two languages differ, what was made is tried with RE2, and thrown
away if it does not match.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from re import _constants as op  # type: ignore[attr-defined]  # its module for what the parser gives
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

from arena.protocols.patterns import compile_pattern

__all__ = ["make_match"]

_TRIES = 30
_MORE = 3
"""How often an unbounded repeat goes beyond its least number at most."""
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789 ABCDEFGHIJKLMNOPQRSTUVWXYZ.,-_!?:;()'\"/+*=<>@#$%&[]{}|~^`\\\t\n"
"""Characters to choose from, the likely ones first."""
_LIKELY = 36
_POSIX = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "digit": "0-9",
    "lower": "a-z",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "word": r"\w",
    "xdigit": "0-9a-fA-F",
}
# Of RE2's own: classes by their POSIX name, letters and digits of Unicode, characters by their number.
_CLASS = re.compile(r"\[:(\w+):\]")
_UNICODE = {"L": "a-zA-Z", "Lu": "A-Z", "Ll": "a-z", "N": "0-9", "Nd": "0-9", "P": "!,.:;?-", "Z": " ", "Zs": " "}
_NUMBER = re.compile(r"\\x\{([0-9a-fA-F]{1,8})\}")
_PROPERTY = re.compile(r"(\[(?:[^\]\\]|\\.)*)?\\p(?:\{(\w+)\}|(\w))")


def make_match(pattern: str, rng: random.Random) -> str | None:
    """A text that RE2 matches with the whole pattern; None if none was found."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python has other plans for what looks like sets in sets
            parsed = parser.parse(_as_python(pattern))
    except (re.error, RecursionError, OverflowError):
        return None
    wanted = compile_pattern(pattern)
    for _ in range(_TRIES):
        try:
            text = _Walk(rng).sequence(parsed)
        except _NothingError:
            continue
        # What is read of a turn has no white space around it.
        if text == text.strip() and wanted.fullmatch(text):
            return text
    return None


def _as_python(pattern: str) -> str:
    pattern = _CLASS.sub(lambda found: _POSIX.get(found[1], found[0]), pattern)
    pattern = _PROPERTY.sub(_letters, pattern)
    pattern = _NUMBER.sub(lambda found: f"\\U{int(found[1], 16):08x}", pattern)
    return re.sub(r"\(\?<(?=\w+>)", "(?P<", pattern).replace(r"\z", r"\Z").replace("(?U)", "")


def _letters(found: re.Match[str]) -> str:
    letters = _UNICODE.get(found[2] or found[3], "a-z")
    return f"{found[1]}{letters}" if found[1] else f"[{letters}]"


class _NothingError(Exception):
    """No text begins so."""


class _Walk:
    """One walk through a pattern; what groups matched is kept for references to them."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.groups: dict[int, str] = {}

    def sequence(self, parts: Iterable[tuple[Any, Any]]) -> str:
        return "".join(self.part(kind, value) for kind, value in parts)

    def part(self, kind: Any, value: Any) -> str:
        """The text of one part; parts that match places, such as ``^``, have none."""
        if kind is op.LITERAL:
            return chr(value)
        if kind is op.BRANCH:
            return self.sequence(self.rng.choice(value[1]))
        if kind is op.SUBPATTERN:
            return self.group(value[0], value[-1])
        if kind is op.ATOMIC_GROUP:
            return self.sequence(value)
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT):
            return self.repeat(*value)
        if kind is op.GROUPREF:
            return self.groups.get(value, "")
        allowed = self.allowed(kind, value)
        return "" if allowed is None else self.one(allowed)

    def group(self, number: int | None, parts: Iterable[tuple[Any, Any]]) -> str:
        text = self.sequence(parts)
        if number is not None:
            self.groups[number] = text
        return text

    def repeat(self, least: int, most: int, parts: Sequence[tuple[Any, Any]]) -> str:
        count = self.rng.randint(least, max(least, min(most, least + _MORE)))
        return "".join(self.sequence(parts) for _ in range(count))

    def allowed(self, kind: Any, value: Any) -> str | list[int] | None:
        """The characters of a part that stands for one of several; None for other parts."""
        if kind is op.ANY:
            return _PLAIN.replace("\n", "")
        if kind is op.NOT_LITERAL:
            return _PLAIN.replace(chr(value), "")
        if kind is not op.IN:
            return None
        negated = value[0][0] is op.NEGATE
        plain = [each for each in _PLAIN if any(_holds(item, each) for item in value)]
        if negated:
            return "".join(each for each in _PLAIN if each not in plain)
        strange = [item for kind, item in value if kind is op.LITERAL and chr(item) not in _PLAIN]
        strange += [self.rng.randint(*item) for kind, item in value if kind is op.RANGE and not plain]
        return [*map(ord, plain), *strange]

    def one(self, characters: str | list[int]) -> str:
        """One of them, mostly of the first, which read like a text."""
        if not characters:
            raise _NothingError
        first = characters[:_LIKELY] if self.rng.random() < 0.9 else characters
        chosen = self.rng.choice(first)
        return chr(chosen) if isinstance(chosen, int) else str(chosen)


_KINDS: Mapping[Any, Callable[[str], bool]] = {
    op.CATEGORY_DIGIT: str.isdigit,
    op.CATEGORY_SPACE: str.isspace,
    op.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    op.CATEGORY_NOT_DIGIT: lambda each: not each.isdigit(),
    op.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    op.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}


def _holds(item: tuple[Any, Any], character: str) -> bool:
    kind, value = item
    if kind is op.LITERAL:
        return ord(character) == int(value)
    if kind is op.RANGE:
        return bool(value[0] <= ord(character) <= value[1])
    return kind is op.CATEGORY and bool(_KINDS[value](character))
