"""Which of some answers, or which number, a text states; read strictly.

An answer inside a sentence does not count, nor does a line that is quoted (`arena.protocols.quotation`): who repeats
what the other side said has not said it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from arena.protocols.quotation import own_lines, starts_quoted
from arena.protocols.records import VerdictStatus

__all__ = ["PARSER", "Stated", "begins_answer", "read_answer", "read_number"]

Value = TypeVar("Value", int, float)

PARSER = 4
"""Version of the rules in this module: part of the name of every judge that reads by them."""

_LABEL = re.compile(r"\(?([a-z])[).:]?")
_LABELLED = re.compile(r"\(?([a-z])[).:]\s+(.+)")
_BEGINS = r"(?:the |my )?(?:final )?answer(?: is)?"
_LEAD = re.compile(rf"{_BEGINS}(?:[*_]*\s*[:=][*_]*\s*|[*_]*\s+)(.+)")
_BEGINS_ANSWER = re.compile(r"(?:the |my )?(?:final )?(?:answer|score|rating)\b")
_NUMBER = re.compile(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(?:\s*/\s*([0-9]{1,4})| out of ([0-9]{1,4}))?")
_NUMBER_LEAD = re.compile(r"(?:the |my )?(?:final )?(?:score|rating|answer)(?: is)?[*_]*\s*[:=]?[*_]*\s*(.+)")
_MARKS = " \t\"'`*_“”‘’«»"
_EDGES = f"{_MARKS}.,;:!"  # a question states nothing
_WIDE = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}
"""Full-width letters and marks, as some keyboards write them."""


@dataclass(frozen=True, slots=True)
class Stated(Generic[Value]):
    """What a text states."""

    value: Value | None
    """Index of the answer, or the number; None where none can be read."""
    status: VerdictStatus = VerdictStatus.SCORED
    """``scored``; or why nothing can be read: ``contradictory``, ``truncated``, ``parse_error``."""
    reason: str = ""
    line: int | None = field(default=None, compare=False)
    """Number of the first line (from 0, as `str.splitlines` counts) that states something."""


def read_answer(text: str, answers: Sequence[str], *, led: bool = False, cut: bool = False) -> Stated[int]:
    """The answer that a text states.

    Counted, after case folding and without marks around it: a line that is an answer, its letter
    (``B``, ``b)``, ``(B)``), both (``B) Paris``), or one of these after ``Answer:`` or ``The answer is``. If several
    lines state something, they must agree. A letter does not count where an answer is itself a single letter, and a
    quoted line not at all: ``"Answer: B"``, ``> B``, whatever stands in a code fence. ``Answer: "B"`` is no quoted
    line, and neither is a text of one line that is nothing but ``"B"``.

    Args:
        text: what was written.
        answers: in the order of their letters.
        led: only lines that begin with ``Answer:`` or ``The answer is`` count.
        cut: a limit of tokens ended the text, so that its last line is not known to be whole and does not count.
    """
    plain = [_fold(answer) for answer in answers]
    if len(set(plain)) < len(plain):
        return Stated(None, VerdictStatus.PARSE_ERROR, "two answers read the same")
    letters = not any(len(answer) == 1 and answer.isalpha() for answer in plain)

    def line_answer(line: str) -> int | None:
        lead = _LEAD.fullmatch(line)
        return None if lead is None else _line(_bare(lead[1]), plain, letters)

    def whole_line(line: str) -> int | None:
        return _line(line, plain, letters)

    return _agreed(text, line_answer, None if led else whole_line, cut, f"states none of the {len(plain)} answers")


def read_number(text: str, low: float, high: float, *, led: bool = False, cut: bool = False) -> Stated[float]:
    """The number from ``low`` to ``high`` that a text states: alone on a line (``7``, ``7/10``, ``7 out of 10``), or
    after ``Score:``, ``Rating:`` or ``Answer:``. Several lines must agree; a number outside of the range is none, and
    so is one in a quoted line (see `read_answer`).

    Args:
        text: what was written.
        low, high: smallest and largest number; after a slash only ``high`` counts.
        led: only lines with one of these words count.
        cut: see `read_answer`.
    """

    def line_number(line: str) -> float | None:
        lead = _NUMBER_LEAD.fullmatch(line)
        return None if lead is None else whole_line(_bare(lead[1]))

    def whole_line(line: str) -> float | None:
        found = _NUMBER.fullmatch(line)
        if found is None or any(whole and float(whole) != high for whole in (found[2], found[3])):
            return None
        number = float(found[1])
        return number if low <= number <= high else None

    return _agreed(text, line_number, None if led else whole_line, cut, f"states no number from {low:g} to {high:g}")


def begins_answer(line: str) -> bool:
    """Whether a line begins as one that states the answer or a score, whatever follows."""
    return not starts_quoted(line) and _BEGINS_ANSWER.match(_fold(line)) is not None


Reader: TypeAlias = Callable[[str], Value | None]


def _agreed(text: str, led: Reader[Value], whole: Reader[Value] | None, cut: bool, none: str) -> Stated[Value]:
    """What all lines state that are the writer's own.

    Args:
        text: what was written.
        led: reads a line that announces a value.
        whole: reads one that is nothing but a value; None: these do not count.
        cut: see `read_answer`.
        none: says that there is none.
    """
    lines = text.splitlines()
    alone = sum(map(bool, map(str.strip, lines))) == 1
    found: dict[Value, int] = {}
    for number, own in enumerate(own_lines(lines)[: -1 if cut else None]):
        line = _fold(lines[number])
        value = whole(line) if whole is not None and (own or alone) else None
        if value is None and own:
            value = led(line)
        if value is not None:
            found.setdefault(value, number)
    if len(found) > 1:
        first, second, *_ = (lines[number].strip()[:40] for number in found.values())
        reason = f"states both {first!r} and {second!r}"
        return Stated(None, VerdictStatus.CONTRADICTORY, reason, min(found.values()))
    if found:
        return Stated(next(iter(found)), line=min(found.values()))
    shown = text.strip()[:80]
    if cut:
        return Stated(None, VerdictStatus.TRUNCATED, f"{none} before the limit of tokens: {shown!r}")
    return Stated(None, VerdictStatus.PARSE_ERROR, f"{none}: {shown!r}")


def _line(line: str, answers: list[str], letters: bool) -> int | None:
    if line in answers:
        return answers.index(line)
    if not letters:
        return None
    if label := _LABEL.fullmatch(line):
        return _index(label[1], answers)
    if (both := _LABELLED.fullmatch(line)) and _bare(both[2]) in answers:
        index = _index(both[1], answers)
        return index if index is not None and answers[index] == _bare(both[2]) else None
    return None


def _index(letter: str, answers: list[str]) -> int | None:
    index = ord(letter) - ord("a")
    return index if index < len(answers) else None


def _fold(text: str) -> str:
    """Without case, extra blanks and marks around it. ``.5`` is not ``5``, and ``10²`` not ``102``."""
    return _bare(" ".join(unicodedata.normalize("NFC", text.translate(_WIDE)).casefold().split()))


def _bare(text: str) -> str:
    """Without marks around it; what consists of marks alone stays, or an empty line would state it."""
    return text.lstrip(_MARKS).rstrip(_EDGES) or text
