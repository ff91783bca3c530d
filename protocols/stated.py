"""Which of some answers, or which number, a text states; read strictly: an answer inside a sentence does not count."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from arena.protocols.records import VerdictStatus

__all__ = ["PARSER", "Stated", "begins_answer", "read_answer", "read_number"]

Value = TypeVar("Value", int, float)

PARSER = 3
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


def read_answer(text: str, answers: Sequence[str], *, led: bool = False, cut: bool = False) -> Stated[int]:
    """The answer that a text states.

    Counted, after case folding and without marks around it: a line that is an answer, its letter
    (``B``, ``b)``, ``(B)``), both (``B) Paris``), or one of these after ``Answer:`` or ``The answer is``. If several
    lines state something, they must agree. A letter does not count where an answer is itself a single letter.

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
        whole = None if led else _line(line, plain, letters)
        if whole is not None or (lead := _LEAD.fullmatch(line)) is None:
            return whole
        return _line(_bare(lead[1]), plain, letters)

    return _agreed(text, line_answer, cut, f"states none of the {len(plain)} answers")


def read_number(text: str, low: float, high: float, *, led: bool = False, cut: bool = False) -> Stated[float]:
    """The number from ``low`` to ``high`` that a text states: alone on a line (``7``, ``7/10``, ``7 out of 10``), or
    after ``Score:``, ``Rating:`` or ``Answer:``. Several lines must agree; a number outside of the range is none.

    Args:
        text: what was written.
        low, high: smallest and largest number; after a slash only ``high`` counts.
        led: only lines with one of these words count.
        cut: see `read_answer`.
    """

    def line_number(line: str) -> float | None:
        lead = _NUMBER_LEAD.fullmatch(line)
        if lead is None and led:
            return None
        found = _NUMBER.fullmatch(_bare(lead[1]) if lead else line)
        if found is None or any(whole and float(whole) != high for whole in (found[2], found[3])):
            return None
        number = float(found[1])
        return number if low <= number <= high else None

    return _agreed(text, line_number, cut, f"states no number from {low:g} to {high:g}")


def begins_answer(line: str) -> bool:
    """Whether a line begins as one that states the answer or a score, whatever follows."""
    return _BEGINS_ANSWER.match(_fold(line)) is not None


def _agreed(text: str, read: Callable[[str], Value | None], cut: bool, none: str) -> Stated[Value]:
    lines = text.splitlines()
    found = {}
    for line in lines[:-1] if cut else lines:
        if (value := read(_fold(line))) is not None:
            found[value] = line.strip()
    if len(found) > 1:
        first, second, *_ = found.values()
        return Stated(None, VerdictStatus.CONTRADICTORY, f"states both {first[:40]!r} and {second[:40]!r}")
    if found:
        return Stated(next(iter(found)))
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
