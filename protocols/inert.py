"""Text of one role as others read it: nothing in it can pass for something else.

What a model says is hostile. Before another role reads it, characters that print as nothing or move what is printed are
gone, tags that only the engine may write (``<verified>``, ``<unverified>``, ``<quote>``) lose their bracket, and every
line after the first is indented, so that none begins where a header, another turn or a verdict begins.

Where its first line stands is up to the templates that show it. They are given such text as `Said`, which puts a mark
in front of itself where it is shown, whatever was done with it before; `settle` then moves right what is marked at the
beginning of a line. So no template, however it is written, lets a speaker begin a line.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

__all__ = ["INDENT", "Said", "as_said", "begins_line", "defuse", "indent", "inert", "inert_line", "join", "settle"]

INDENT = "    "
MARK = "\U0010fffd"
"""Where something that was said begins, while a template is filled: a private character that no text keeps."""

# Characters that print as nothing: a forged tag may hide them between its letters.
_NOTHING = (
    "[\\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0100-\U000e01ef]"
)
_HIDDEN = f"{_NOTHING}*+"
_OPENERS = "[<\uff1c\ufe64\u2039\u3008\u27e8\u2329]"
_SPELLED = "|".join(_HIDDEN.join(word) for word in ("verified", "unverified", "quote"))
# Possessive repeats and the look-behind keep this linear on runs of brackets and blanks.
_FORGED = re.compile(f"(?<!{_OPENERS}){_OPENERS}++(?={_HIDDEN}[/\uff0f\u2215]?{_HIDDEN}(?:{_SPELLED}))", re.IGNORECASE)
_VANISHING = ("Cc", "Cf", "Cs")
_BREAKS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BREAK = "[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]"
_BLANK = f"(?:(?!{_BREAK}){_NOTHING})*+"
_STARTS = re.compile(f"(?:^|(?<={_BREAK}))(?:{_BLANK}{MARK})+")
_OPEN_LINE = re.compile(f"(?:^|{_BREAK}){_BLANK}$(?!\n)")


def inert(text: str) -> str:
    """What others read of a turn. A plain line without ``<`` is left as it is; doing it twice changes nothing.

    Line breaks of all kinds become newlines, tabs four spaces; other control, format and surrogate characters (Unicode
    Cc, Cf, Cs) vanish. The lines after the first are moved right together until each is indented by four spaces.
    """
    if text.isascii() and "<" not in text and text.isprintable():
        return text
    return indent(defuse(text))


def defuse(text: str) -> str:
    """The text without control and format characters, and with its look-alikes of the engine's tags broken."""
    if not text.isprintable() and not text.replace("\n", "").isprintable():
        text = _BREAKS.sub("\n", text)
        categories = {character: unicodedata.category(character) for character in set(text)}
        vanishing = {ord(each): "" for each, kind in categories.items() if kind in _VANISHING or each == MARK}
        text = text.translate(vanishing | {ord("\n"): "\n", ord("\t"): INDENT})
    return _FORGED.sub("\u2039", text) if "<" in text or not text.isascii() else text


def indent(text: str) -> str:
    """The text with its lines after the first moved right until each begins with four spaces; empty ones stay empty."""
    if "\n" not in text:
        return text
    first, *lines = text.split("\n")
    lines = [line if line.strip(" ") else "" for line in lines]
    least = min((len(line) - len(line.lstrip(" ")) for line in lines if line), default=0)
    missing = " " * (len(INDENT) - least)
    return "\n".join([first, *[missing + line if line else "" for line in lines]])


class Said(str):
    """Text that somebody said, as templates are given it: it stays what it is, whatever is cut out of it."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Said:
        return Said(str.__getitem__(self, key))

    def __iter__(self) -> Iterator[str]:
        return map(Said, str.__iter__(self))

    @property
    def shown(self) -> str:
        """With the mark, and without lines that begin where a header begins (a filter may have turned them round)."""
        return MARK + indent(str(self))


class _Joined(Said):
    """Several texts as one, of which each that was said has a mark of its own."""

    __slots__ = ("_shown",)

    _shown: str

    @property
    def shown(self) -> str:
        return self._shown


def join(parts: Iterable[Any], separator: str = "") -> str:
    """The parts as one text, which is `Said` if one of them is."""
    parts = list(parts)
    text = separator.join(map(str, parts))
    if not any(isinstance(part, Said) for part in parts):
        return text
    joined = _Joined(text)
    joined._shown = separator.join(part.shown if isinstance(part, Said) else str(part) for part in parts)
    return joined


def settle(text: str) -> str:
    """A filled template without marks: what is marked where a line begins, be it behind blanks, is moved right."""
    if MARK not in text:
        return text
    plain = text.replace(MARK, "")
    if text[0].isalnum() and plain.isprintable():
        return plain  # most messages: one line, which begins with a name
    return _STARTS.sub(lambda start: start[0].replace(MARK, "") + INDENT, text).replace(MARK, "")


def as_said(text: str) -> str:
    """A filled template without marks, to be shown by another: `Said` if it begins with what was said."""
    start = _STARTS.match(text)
    if start is None:
        return settle(text)
    blanks = start[0].replace(MARK, "")
    return Said(blanks + settle(text)[len(blanks) + len(INDENT) :])


def begins_line(before: str) -> bool:
    """Whether what follows these characters stands at the beginning of a line."""
    return _OPEN_LINE.search(before) is not None


@functools.lru_cache(maxsize=1 << 12)  # words and answers come again and again
def inert_line(text: str) -> str:
    """One line: white space and control characters (Unicode Z and Cc) become one space, other C characters vanish."""
    kept = []
    for character in text:
        category = unicodedata.category(character)
        if category[0] == "Z" or category == "Cc":
            kept.append(" ")
        elif category[0] != "C":
            kept.append(character)
    return " ".join("".join(kept).split())
