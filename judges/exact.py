"""Judges that are programs: one knows the label, one reads what was answered."""

from __future__ import annotations

from collections.abc import Sequence

from arena.judges.fingerprint import fingerprint
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, certain
from arena.protocols.records import Verdict
from arena.protocols.stated import PARSER, read_answer

__all__ = ["ExactJudge", "MatchJudge"]


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

    Nothing is guessed: see `read_answer` for the forms that count. An answer inside a sentence does not.
    """

    sees_label = False

    def __init__(self) -> None:
        self.name = f"match@{fingerprint({'kind': 'match', 'parser': PARSER})}"

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view: scored, contradictory (two answers stated) or parse_error."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        if not view.statements:
            return abstain(self.name, "nothing was said")
        found = read_answer(view.statements[-1].text, view.answers)
        if found.value is None:
            return abstain(self.name, found.reason, found.status)
        return certain(self.name, found.value, len(view.answers), stated=found.value)
