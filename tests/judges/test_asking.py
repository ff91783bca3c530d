"""Asking judges: what comes back is checked, and a fault of one case leaves the others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from arena.judges import JudgeView
from arena.judges.asking import ask_judge
from arena.protocols.errors import BackendError
from arena.protocols.records import Verdict, VerdictStatus


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "something else than a list of verdicts"),
        (["A"], "something else than a list of verdicts"),
        ([], "0 verdicts on 1 views"),
        ([Verdict(VerdictStatus.SCORED, "odd", (0.0,))], "1 log-probs for 2 answers"),
        ([Verdict(VerdictStatus.TIE, "odd")], "0 log-probs for 2 answers"),
        ([Verdict(VerdictStatus.SCORED, "odd", (math.nan, 0.0))], "no distribution"),
        ([Verdict(VerdictStatus.SCORED, "odd", (5.0, 3.0))], "no distribution"),
        ([Verdict(VerdictStatus.SCORED, "odd", (0.0, -30.0), scores=(1.0, 2.0, 3.0))], "3 scores for 2 answers"),
        ([Verdict(VerdictStatus.SCORED, "odd", (0.0, -30.0), scores=(math.inf, 1.0))], "a score that is not finite"),
    ],
)
def test_a_judge_that_breaks_its_contract_is_named(answer: object, told: str) -> None:
    class Odd:
        name = "odd"
        sees_label = False

        def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
            return answer  # type: ignore[return-value]

    with pytest.raises(BackendError, match=f"judge 'odd' gave .*{told}"):
        ask_judge(Odd(), [JudgeView("e", "q", ("x", "y"), [], {}, None, (0, 1))])


def test_a_judge_from_afar_that_breaks_its_contract_is_named_too() -> None:
    class Odd:
        name = "odd"
        sees_label = False

        async def verdict(self, view: JudgeView) -> Verdict:
            return "A"  # type: ignore[return-value]

    with pytest.raises(BackendError, match="judge 'odd' gave str instead of a verdict"):
        ask_judge(Odd(), [JudgeView("e", "q", ("x", "y"), [], {}, None, (0, 1))])


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict(VerdictStatus.SCORED, "odd", (0.0,)), "compares answers, and there are none"),
        (Verdict(VerdictStatus.SCORED, "odd", scores=(1.0, 2.0)), "compares answers, and there are none"),
        (Verdict(VerdictStatus.SCORED, "odd", scores=(math.inf,)), "a score that is not finite"),
    ],
)
def test_without_answers_one_finite_score_is_wanted(verdict: Verdict, told: str) -> None:
    class Odd:
        name = "odd"
        sees_label = False

        def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
            return [verdict]

    with pytest.raises(BackendError, match=told):
        ask_judge(Odd(), [JudgeView("e", "q", ())])
