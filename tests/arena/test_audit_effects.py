"""Effects and their intervals: exact where the design says what they are, right in coverage where it is chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

from arena.audit.effects import effects
from arena.statistics import wilson


def test_in_a_balanced_design_an_effect_is_the_difference_of_means() -> None:
    scores = [1, 0, 1, 1, 0, 0, 1, 0]
    order = [1, -1] * 4
    longer = [1, 1, -1, -1] * 2
    found = effects(scores, {"order": order, "longer": longer}, [0, 0, 1, 1, 2, 2, 3, 3])
    assert found["order"].value == pytest.approx(3 / 4 - 1 / 4)
    assert found["longer"].value == pytest.approx(1 / 4 - 3 / 4)


def test_a_factor_that_became_unbalanced_does_not_pass_its_effect_to_another() -> None:
    # the score is 1/2 + longer/2 * 0.4; order and length come together more often than not
    longer = [1, 1, 1, -1, -1, -1, 1, -1]
    order = [1, 1, 1, -1, -1, -1, -1, 1]
    scores = [0.7 if sign > 0 else 0.3 for sign in longer]
    found = effects(scores, {"order": order, "longer": longer}, range(8))
    assert found["longer"].value == pytest.approx(0.4)
    assert found["order"].value == pytest.approx(0.0, abs=1e-12)


def test_the_interval_is_that_of_paired_differences() -> None:
    # one pair a question: the classic t interval of the mean difference
    rng = np.random.default_rng(0)
    first, second = rng.random(30), rng.random(30)
    found = effects(
        np.column_stack([first, second]).ravel(), {"order": [1, -1] * 30}, np.repeat(np.arange(30), 2).tolist()
    )["order"]
    rest = first - second - (first - second).mean()
    factor = 30 / 29 * 59 / 58  # CR1
    half = 2.045229642 * math.sqrt(factor * rest @ rest) / 30
    assert found.high - found.value == pytest.approx(half, rel=1e-6)


def test_intervals_that_hold_together_are_wider() -> None:
    rng = np.random.default_rng(1)
    scores, signs = rng.integers(0, 2, 400), {"order": [1, -1] * 200}
    alone, together = (effects(scores, signs, range(400), at_once=count)["order"] for count in (1, 6))
    # t quantiles with 399 degrees of freedom at 1 - 0.025 and 1 - 0.025/6
    assert (together.high - together.value) / (alone.high - alone.value) == pytest.approx(2.6506 / 1.9659, abs=1e-3)


def test_what_never_happened_may_still_happen() -> None:
    found = effects([1, 1] * 20, {"order": [1, -1] * 20}, np.repeat(np.arange(20), 2).tolist())["order"]
    assert found.value == pytest.approx(0.0, abs=1e-12)
    assert found.high == pytest.approx(wilson(0, 20).high)
    assert found.low == pytest.approx(-found.high)


@pytest.mark.parametrize("signs", [{"order": [1, 1, 1, 1]}, {"order": [1, -1, 1, -1], "own": [-1, 1, -1, 1]}])
def test_what_the_design_cannot_tell_is_not_told(signs: dict[str, list[int]]) -> None:
    assert all(math.isnan(found.value) for found in effects([1, 0, 1, 1], signs, range(4)).values())


def test_95_of_100_intervals_hold_the_truth() -> None:
    """Coverage, with what questions share: 600 simulated audits of 60 questions, true effect 0.2."""
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(600):
        easy = rng.random(60) * 0.5 + 0.15  # P(right) of each question, between 0.15 and 0.65
        chance = np.column_stack([easy + 0.1, easy - 0.1, easy + 0.1, easy - 0.1]) + 0.1
        scores = rng.random((60, 4)) < chance
        clusters = np.repeat(np.arange(60), 4).tolist()
        found = effects(scores.ravel(), {"order": [1, -1] * 120}, clusters)["order"]
        covered += found.low <= 0.2 <= found.high
    assert 0.93 <= covered / 600 <= 0.97
