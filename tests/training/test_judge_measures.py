"""How good a judge is, by hand-made verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain
from arena.protocols.records import Verdict, VerdictStatus
from arena.training.judge_data import Example
from arena.training.judge_measures import gain, measure


class Told:
    """Gives the probability of the first answer that the view's question says."""

    name, sees_label = "told@1", False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [self._one(view.question) for view in views]

    def _one(self, question: str) -> Verdict:
        if not question:
            return abstain(self.name, "silent")
        first = float(question)
        status = VerdictStatus.TIE if first == 0.5 else VerdictStatus.SCORED
        evidence = {"order_consistent": first > 0.7}
        return Verdict(status, self.name, (math.log(first), math.log(1 - first)), None, evidence)


def examples(*said: str, label: int = 0) -> list[Example]:
    views = [JudgeView(f"v{n}", text, ("a", "b"), answers_argued=(0, 1)) for n, text in enumerate(said)]
    return [Example(view, label, f"q{n}") for n, view in enumerate(views)]


def test_figures_of_three_verdicts_by_hand() -> None:
    found = measure(Told(), examples("0.8", "0.6", "0.1", ""))
    assert found.accuracy.value == pytest.approx(2 / 3)
    assert found.log_loss.value == pytest.approx(-(math.log(0.8) + math.log(0.6) + math.log(0.1)) / 3)
    assert found.brier.value == pytest.approx(2 * (0.04 + 0.16 + 0.81) / 3)
    assert found.ece.value == pytest.approx((0.2 + 0.4 + 0.9) / 3)  # three bins of one verdict each
    assert found.order_consistency is not None
    assert found.order_consistency.value == pytest.approx(1 / 3)
    assert (found.decidable, found.undecidable) == (3, {"abstain": 1})


def test_a_tie_counts_half_and_an_undecided_view_not_at_all() -> None:
    assert measure(Told(), examples("0.5", "0.9", "")).accuracy.value == 0.75


def test_a_judge_that_is_always_right_and_sure_has_no_error() -> None:
    found = measure(Told(), examples(*["0.999999"] * 20))
    assert found.accuracy.value == 1.0
    assert found.ece.value == pytest.approx(1e-6)
    assert found.brier.high < 1e-9


def test_a_calibrated_judge_has_an_ece_within_its_interval_of_zero() -> None:
    sure = examples(*["0.7"] * 700) + [Example(e.view, 1, f"w{e.cluster}") for e in examples(*["0.7"] * 300)]
    found = measure(Told(), sure)
    assert found.ece.value == pytest.approx(0.0, abs=1e-9)
    assert found.ece.high < 0.06


def test_gain_pairs_the_views_that_both_decided() -> None:
    before, after = examples("0.4", "0.4", "0.9", ""), examples("0.9", "0.4", "", "0.9")
    found = gain(measure(Told(), before), measure(Told(), after), after)
    assert (found.value, found.n) == (0.5, 2)


def test_a_judge_that_does_not_say_has_no_order_consistency() -> None:
    from arena.judges.exact import ExactJudge

    found = measure(ExactJudge(), examples("x", "y"))
    assert found.order_consistency is None
    assert found.accuracy.value == 1.0
