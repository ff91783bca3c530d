"""Asking judges: what comes back is checked, and a fault of one case leaves the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from arena.judges import JudgeView
from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge
from arena.protocols.errors import BackendError
from arena.protocols.records import Verdict, VerdictStatus


class Odd:
    """Gives what it is told to."""

    name = "odd"
    sees_label = False

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return self.answer  # type: ignore[return-value]


class OddAfar:
    """The same from afar."""

    name = "odd"
    sees_label = False

    def __init__(self, answer: object) -> None:
        self.answer = answer

    async def verdict(self, view: JudgeView) -> Verdict:
        return self.answer  # type: ignore[return-value]


VIEW = JudgeView("e", "q", ("x", "y"), [], {}, None, (0, 1))
GOOD = Verdict(VerdictStatus.SCORED, "odd", (math.log(0.9), math.log(0.1)))
BAD = [
    ("A", "str instead of a verdict"),
    (Verdict(VerdictStatus.SCORED, "odd", (0.0,)), "1 log-probs for 2 answers"),
    (Verdict(VerdictStatus.TIE, "odd"), "0 log-probs for 2 answers"),
    (Verdict(VerdictStatus.SCORED, "odd", (math.nan, 0.0)), "no distribution"),
    (Verdict(VerdictStatus.SCORED, "odd", (5.0, 3.0)), "no distribution"),
    (Verdict(VerdictStatus.SCORED, "odd", (0.0, -30.0), scores=(1.0, 2.0, 3.0)), "3 scores for 2 answers"),
    (Verdict(VerdictStatus.SCORED, "odd", (0.0, -30.0), scores=(math.inf, 1.0)), "a score that is not finite"),
]


@pytest.mark.parametrize(("answer", "told"), [(None, "something else than a list"), ([], "0 verdicts on 1 views")])
def test_verdicts_that_belong_to_no_view_end_the_work(answer: object, told: str) -> None:
    with pytest.raises(BackendError, match=f"judge 'odd' gave .*{told}"):
        ask_judge(Odd(answer), [VIEW])


@pytest.mark.parametrize(("verdict", "told"), BAD)
def test_what_is_no_verdict_on_its_view_leaves_the_others(verdict: Verdict, told: str) -> None:
    good, bad, last = ask_judge(Odd([GOOD, verdict, GOOD]), [VIEW] * 3)
    assert good == last == GOOD
    assert bad.status is VerdictStatus.TRANSPORT
    assert "judge 'odd' gave" in bad.evidence["reason"]
    assert told in bad.evidence["reason"]
    (afar,) = ask_judge(OddAfar(verdict), [VIEW])
    assert (afar.status, afar.evidence) == (bad.status, bad.evidence)


@pytest.mark.parametrize("kind", [lambda verdict: Odd([verdict]), OddAfar])
def test_a_strict_caller_is_told_by_an_error(kind: Callable[[object], AnyJudge]) -> None:
    with pytest.raises(BackendError, match="no distribution"):
        ask_judge(kind(Verdict(VerdictStatus.SCORED, "odd", (5.0, 3.0))), [VIEW], strict=True)


@pytest.mark.parametrize(
    ("verdict", "told"),
    [
        (Verdict(VerdictStatus.SCORED, "odd", (0.0,)), "compares answers, and there are none"),
        (Verdict(VerdictStatus.SCORED, "odd", scores=(1.0, 2.0)), "compares answers, and there are none"),
        (Verdict(VerdictStatus.SCORED, "odd", scores=(math.inf,)), "a score that is not finite"),
    ],
)
def test_without_answers_one_finite_score_is_wanted(verdict: Verdict, told: str) -> None:
    (found,) = ask_judge(Odd([verdict]), [JudgeView("e", "q", ())])
    assert told in found.evidence["reason"]
