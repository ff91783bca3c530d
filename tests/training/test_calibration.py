"""Temperatures and lapse rates: found again where they are known, and in agreement with a library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena.judges import JUDGES, JudgeView
from arena.protocols.errors import ConfigError
from arena.training.calibration import fit_calibration
from arena.training.judge_launch import launch_judge
from arena.training.judge_recipes import load_judge_recipe

sm = pytest.importorskip("statsmodels.api")


def drawn(temperature: float, lapse: float, *, n: int, answers: int = 2, seed: int = 0) -> tuple[list[Any], list[int]]:
    """Scores, and labels drawn with the probabilities of the model."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=2.0, size=(n, answers))
    weights = np.exp(scores / temperature - (scores / temperature).max(1, keepdims=True))
    probs = (1 - lapse) * weights / weights.sum(1, keepdims=True) + lapse / answers
    labels = (probs.cumsum(1) < rng.random((n, 1))).sum(1)
    return list(scores), labels.tolist()


def test_the_temperature_of_two_answers_is_a_logistic_regression_without_intercept() -> None:
    scores, labels = drawn(2.5, 0.0, n=400)
    temperature, lapse = fit_calibration(scores, labels)
    gap = np.array([row[1] - row[0] for row in scores])
    fitted = sm.Logit(np.array(labels), gap).fit(disp=False)
    assert lapse == 0.0
    assert 1 / temperature == pytest.approx(float(fitted.params[0]), rel=1e-6)


@pytest.mark.parametrize(("temperature", "answers"), [(0.5, 2), (3.0, 5)])
def test_a_known_temperature_is_found(temperature: float, answers: int) -> None:
    scores, labels = drawn(temperature, 0.0, n=20_000, answers=answers)
    assert fit_calibration(scores, labels)[0] == pytest.approx(temperature, rel=0.05)
    both = fit_calibration(scores, labels, lapse=True)
    assert both[0] == pytest.approx(temperature, rel=0.07)
    assert both[1] < 0.04


def test_a_known_lapse_rate_is_found() -> None:
    scores, labels = drawn(0.2, 0.4, n=20_000)
    temperature, lapse = fit_calibration(scores, labels, lapse=True)
    assert temperature == pytest.approx(0.2, rel=0.15)
    assert lapse == pytest.approx(0.4, abs=0.02)


def test_examples_may_have_different_counts_of_answers() -> None:
    two, labels_two = drawn(2.0, 0.0, n=4000)
    three, labels_three = drawn(2.0, 0.0, n=4000, answers=3, seed=1)
    assert fit_calibration([*two, *three], [*labels_two, *labels_three])[0] == pytest.approx(2.0, rel=0.07)


def test_scores_that_are_always_right_or_say_nothing_have_a_temperature_all_the_same() -> None:
    assert fit_calibration([[1.0, 0.0]] * 9, [0] * 9)[0] == pytest.approx(0.01)
    assert fit_calibration([[1.0, 0.0]] * 9, [1] * 9)[0] == pytest.approx(100)
    assert fit_calibration([[1.0, 1.0]] * 9, [1] * 9, lapse=True)[1] in (0.0, pytest.approx(0, abs=1))
    with pytest.raises(ConfigError, match="nothing to calibrate on"):
        fit_calibration([], [])


RECIPE = {
    "data.train": 600,
    "data.held_out": 200,
    "train.steps": 40,
    "train.batch": 64,
    "train.learner.warmup": 0,
    "train.learner.total_steps": 40,
}


def test_a_calibrated_judge_has_the_scores_of_before_and_is_kept_with_its_probabilities(tmp_path: Path) -> None:
    recipe = load_judge_recipe("reward_model", {**RECIPE, "train.calibration": {"share": 0.25, "lapse": True}})
    outcome = launch_judge(recipe, tmp_path / "run", seed=0, created="x", on_event=lambda event: None)
    judge: Any = JUDGES.build(f"reward-model:path={tmp_path / 'run' / 'judge'}")
    assert outcome.calibration is not None
    assert outcome.calibration.fitted.examples == 150
    assert outcome.labels[0].used == 450
    assert judge.lapse == outcome.calibration.fitted.lapse
    assert judge.scale == pytest.approx(1 / outcome.calibration.fitted.temperature)
    assert judge.report["calibration"]["examples"] == 150
    view = JudgeView("k", "q0", ("g0 g1 g2 g3", "g4 g5 g6 g7"), answers_argued=(0, 1))
    raw = judge.calibrated(1.0, 0.0, {})
    one, other = judge.judge([view])[0], raw.judge([view])[0]
    assert one.scores == other.scores
    assert one.choice == other.choice
    assert one.logps != other.logps
    assert sum(np.exp(one.logps)) == pytest.approx(1)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["calibration"]["ece_before"]["n"] == 200
    assert results["after"]["ece"] == results["calibration"]["ece_after"]
    assert "ECE" in (tmp_path / "run" / "report.html").read_text()
