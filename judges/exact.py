"""Judges that are programs: one knows the label, one reads what was answered."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from arena.judges.fingerprint import fingerprint
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, certain
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["ExactJudge", "MatchJudge", "stated_answer"]


class ExactJudge:
    """Knows the label: the right answer gets all the probability (the others `arena.judges.verdicts.FLOOR`)."""

    sees_label = True

    def __init__(self) -> None:
        self.name = f"exact@{fingerprint({'kind': 'exact'})}"

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view; a task without a label makes it abstain."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        if view.label is None:
            return abstain(self.name, "the task has no label")
        if not 0 <= view.label < len(view.answers):
            return abstain(self.name, f"label {view.label} is none of the {len(view.answers)} answers")
        return certain(self.name, view.label, len(view.answers))


class MatchJudge:
    """Which answer does the last statement state? All probability goes there.

    Nothing is guessed: see `stated_answer` for the forms that count. An answer inside a sentence does not.
    """

    sees_label = False

    def __init__(self) -> None:
        self.name = f"match@{fingerprint({'kind': 'match', 'parser': 1})}"

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view: scored, contradictory (two answers stated) or parse_error."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        if not view.statements:
            return abstain(self.name, "nothing was said")
        answer, problem = stated_answer(view.statements[-1].text, view.answers)
        if answer is not None:
            return certain(self.name, answer, len(view.answers), stated=answer)
        contradictory = problem.startswith("states both")
        return abstain(self.name, problem, VerdictStatus.CONTRADICTORY if contradictory else VerdictStatus.PARSE_ERROR)


_LABEL = re.compile(r"\(?([a-z])[).:]?")
_LABELLED = re.compile(r"\(?([a-z])[).:]\s+(.+)")
_LEAD = re.compile(r"(?:the |my )?(?:final )?answer(?: is)?\s*[:=]?\s+(.+)")
_EDGES = " \t.,;:!?\"'`*_“”‘’«»"


def stated_answer(text: str, answers: Sequence[str]) -> tuple[int | None, str]:
    """The answer that a text states, as (index, "") or (None, why not).

    Counted, after Unicode and case folding and without punctuation at the ends: a line that is an answer, its letter
    (``B``, ``b)``, ``(B)``), both (``B) Paris``), or one of these after ``Answer:`` or ``The answer is``. If several
    lines state something, they must agree. A letter does not count where an answer is itself a single letter.
    """
    plain = [_fold(answer) for answer in answers]
    if len(set(plain)) < len(plain):
        return None, "two answers read the same"
    letters = not any(len(answer) == 1 and answer.isalpha() for answer in plain)
    found = {}
    for line in text.splitlines():
        if (index := _line(_fold(line), plain, letters)) is not None:
            found[index] = line.strip()
    if len(found) > 1:
        first, second, *_ = found.values()
        return None, f"states both {first[:40]!r} and {second[:40]!r}"
    if found:
        return next(iter(found)), ""
    return None, f"states none of the {len(plain)} answers: {text.strip()[:80]!r}"


def _line(line: str, answers: list[str], letters: bool) -> int | None:
    if lead := _LEAD.fullmatch(line):
        line = lead[1].strip(_EDGES)
    if line in answers:
        return answers.index(line)
    if not letters:
        return None
    if label := _LABEL.fullmatch(line):
        return _index(label[1], answers)
    if (both := _LABELLED.fullmatch(line)) and both[2].strip(_EDGES) in answers:
        index = _index(both[1], answers)
        return index if index is not None and answers[index] == both[2].strip(_EDGES) else None
    return None


def _index(letter: str, answers: list[str]) -> int | None:
    index = ord(letter) - ord("a")
    return index if index < len(answers) else None


def _fold(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(_EDGES)
