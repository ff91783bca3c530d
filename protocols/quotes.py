"""Quotes: passages that a speaker claims to take from a task field, checked word by word.

Two forms. ``whole``: the whole turn is one quote (games). ``tagged``: free text with ``<quote>...</quote>``. Readers
see ``<verified>`` or ``<unverified>`` in place of the speaker's tags; a speaker who writes those words in tags gets
them defused (`arena.protocols.inert`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Literal

from arena.protocols.inert import defuse, indent, inert
from arena.protocols.records import Quote

__all__ = ["QuoteRule", "QuoteSource", "find_quotes", "mark_quotes"]

_TAG = re.compile(r"<(/?)quote>", re.IGNORECASE)
_MINUS = "\u2212"
_WORD = re.compile(r"(?<!\w)[-+]?\d+(?:[.,:]\d+)*|\w+")
_APOSTROPHES = str.maketrans("", "", "'\u2019\u2018`\u00b4\u02bc")


@dataclass(frozen=True, slots=True)
class QuoteRule:
    """What a turn of a node is expected to quote."""

    field: str
    """Task field that is quoted."""
    form: Literal["tagged", "whole"] = "tagged"
    once: bool = False
    """A passage counts only the first time in an episode."""


def _normalise(text: str) -> str:
    """Words without case, punctuation and spacing; signs and decimals of numbers stay, since they carry meaning."""
    text = unicodedata.normalize("NFKC", text).casefold().translate(_APOSTROPHES)
    return f" {' '.join(_WORD.findall(text.replace(_MINUS, '-')))} "


class QuoteSource:
    """A task field prepared for checking quotes; make one per task and keep it.

    Args:
        value: a text, of which any run of words may be quoted, or a sequence of texts, each quoted whole and exactly.
    """

    __slots__ = ("_words", "known")

    def __init__(self, value: str | Sequence[str]) -> None:
        self._words = _normalise(value) if isinstance(value, str) else None
        items = () if isinstance(value, str) else value
        self.known: dict[str, tuple[Quote]] = {
            text: (Quote(text, True),) for text in (str(item).strip() for item in items)
        }
        """The items of a sequence, each with its finding."""

    def holds(self, text: str) -> bool:
        """Whether ``text`` is really there."""
        if self._words is None:
            return text.strip() in self.known
        words = _normalise(text)
        return len(words) > 2 and words in self._words

    def key(self, text: str) -> str:
        """What two quotes of the same passage have in common."""
        return text.strip() if self._words is None else _normalise(text)


def find_quotes(rule: QuoteRule, text: str, source: QuoteSource, already: Set[str] = frozenset()) -> tuple[Quote, ...]:
    """The quotes in a turn, in order.

    Args:
        rule: what the node expects.
        text: what was said.
        source: the field that ``rule`` names.
        already: texts of the good quotes made before; only read if ``rule.once``.
    """
    if rule.form == "whole":
        text = text.strip()
        known = source.known.get(text)
        if known is not None:
            return (Quote(text, True, True),) if rule.once and text in already else known
        return (_check(rule, text, source, {source.key(said) for said in already} if rule.once else set()),)
    said = {source.key(earlier) for earlier in already} if rule.once else set()
    return tuple(_check(rule, text[start:end].strip(), source, said) for start, end in _spans(text))


def _check(rule: QuoteRule, text: str, source: QuoteSource, said: set[str]) -> Quote:
    """One quote; a good one is added to ``said``, the keys of what was quoted before."""
    if not source.holds(text):
        return Quote(text, False)
    if not rule.once:
        return Quote(text, True)
    key = source.key(text)
    repeated = key in said
    said.add(key)
    return Quote(text, True, repeated)


def mark_quotes(rule: QuoteRule | None, text: str, quotes: Sequence[Quote]) -> str:
    """The turn as others read it: inert, with its quotes in ``<verified>`` or ``<unverified>``.

    A turn that is a quote as a whole keeps its bare text, since readers get its `Quote`.

    Args:
        rule: what the node expects; None if it expects no quotes.
        text: what was said.
        quotes: what `find_quotes` found in it.
    """
    if rule is None or rule.form == "whole" or not quotes:
        return inert(text)
    parts, last = [], 0
    for (start, end), quote in zip(_spans(text), quotes, strict=True):
        tag = "verified" if quote.verified else "unverified"
        # The speaker's own tags are cut out with the quote they enclose.
        before = text[last : text.rindex("<", 0, start)]
        parts += [defuse(before), f"<{tag}>", defuse(text[start:end].strip()), f"</{tag}>"]
        last = text.index(">", end) + 1
    parts.append(defuse(text[last:]))
    return indent("".join(parts))


def _spans(text: str) -> list[tuple[int, int]]:
    """Start and end of the text inside each ``<quote>...</quote>``; an opening tag cancels one that was left open."""
    spans, start = [], None
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            spans.append((start, tag.start()))
            start = None
    return spans
