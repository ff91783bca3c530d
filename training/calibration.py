"""Probabilities of a reward model that mean what they say, fitted on examples that it did not learn from.

    p_i = (1 - lapse) softmax(scale * score / T)_i + lapse / answers

Temperature scaling (Guo et al. 2017, 1706.04599, section 4.2) fits T alone: it mends a network that is too sure or not
sure enough everywhere, and cannot mend labels that are wrong in clear cases as often as in close ones. These are what
the lapse rate is for (Wichmann and Hill 2001, equation 1, with guesses spread evenly): of two answers, a share of
lapse / 2 of the labels names the wrong one however clear the case is. Both are fitted by maximum likelihood. Neither
changes a score or which answer is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.judges.asking import ask_judge
from arena.judges.reward_model import RewardModelJudge
from arena.protocols.errors import ConfigError
from arena.training.judge_data import Example
from arena.training.reward_config import CalibrationConfig

__all__ = ["Calibrated", "calibrate", "fit_calibration"]

_WIDEST = 100.0
"""Temperatures are sought between 1 / this and this: scores that are never wrong have none."""
_STARTS = ((0.0, 0.02), (1.0, 0.2), (2.5, 0.4), (-1.0, 0.1))
"""(log of 1 / T, lapse rate) from which the likelihood is climbed."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    """What was fitted."""

    temperature: float
    lapse: float
    examples: int
    """On which it was fitted."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def fit_calibration(scores: Sequence[ArrayLike], labels: Sequence[int], *, lapse: bool = False) -> tuple[float, float]:
    """Temperature and lapse rate under which the labels are likeliest.

    Args:
        scores: of each example, those of its answers, in nats.
        labels: index of the right answer of each.
        lapse: fit the lapse rate too; else it is 0.

    Returns:
        The temperature, between 0.01 and 100, and the lapse rate in [0, 1).

    Raises:
        ConfigError: there are no examples.
    """
    if not len(labels):
        raise ConfigError("there is nothing to calibrate on: give the data more labelled examples")
    rows = [np.asarray(each, dtype=np.float64) for each in scores]
    places = np.asarray(labels, dtype=np.intp)
    count_N = np.array([len(row) for row in rows])
    scores_NA = np.full((len(rows), count_N.max()), -np.inf)
    for number, row in enumerate(rows):
        scores_NA[number, : len(row)] = row - row.max()
    alone = _best_temperature(scores_NA, places)
    if not lapse:
        return 1.0 / alone, 0.0
    from scipy.optimize import minimize

    bounds = [(-math.log(_WIDEST), math.log(_WIDEST)), (0.0, 1.0 - 1e-6)]

    def loss(found: NDArray[np.float64]) -> float:
        return _loss(scores_NA, places, count_N, math.exp(found[0]), float(found[1]))

    tried = [minimize(loss, start, method="L-BFGS-B", bounds=bounds) for start in ((math.log(alone), 0.0), *_STARTS)]
    best = min(tried, key=lambda each: float(each.fun))
    if loss(np.array([math.log(alone), 0.0])) <= float(best.fun):
        return 1.0 / alone, 0.0
    return 1.0 / math.exp(best.x[0]), float(best.x[1])


def _best_temperature(scores_NA: NDArray[np.float64], labels_N: NDArray[np.intp]) -> float:
    """1 / T. The loss is convex in it, so its slope is cut in half until it is found."""
    rows = np.arange(len(labels_N))
    finite_NA = np.where(np.isfinite(scores_NA), scores_NA, 0.0)

    def slope(inverse: float) -> float:
        return float(((_softmax(inverse * scores_NA) * finite_NA).sum(1) - scores_NA[rows, labels_N]).mean())

    low, high = 1.0 / _WIDEST, _WIDEST
    if slope(low) >= 0:
        return low
    if slope(high) <= 0:
        return high
    while high / low > 1 + 1e-10:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if slope(middle) > 0 else (middle, high)
    return math.sqrt(low * high)


def _softmax(scores_NA: NDArray[np.float64]) -> NDArray[np.float64]:
    weights_NA: NDArray[np.float64] = np.exp(scores_NA - scores_NA.max(1, keepdims=True))
    share_NA: NDArray[np.float64] = weights_NA / weights_NA.sum(1, keepdims=True)
    return share_NA


def _loss(
    scores_NA: NDArray[np.float64],
    labels_N: NDArray[np.intp],
    count_N: NDArray[np.int64],
    inverse: float,
    lapse: float,
) -> float:
    """Mean of -log p(label) in nats."""
    share_N = _softmax(inverse * scores_NA)[np.arange(len(labels_N)), labels_N]
    return -float(np.log(np.maximum((1.0 - lapse) * share_N + lapse / count_N, 1e-300)).mean())


def calibrate(
    judge: RewardModelJudge, examples: Sequence[Example], config: CalibrationConfig
) -> tuple[RewardModelJudge, Calibrated]:
    """The same judge with probabilities that fit the examples; its scores stay.

    Args:
        judge: trained, and on other examples than these.
        examples: labelled.
        config: what is fitted.

    Raises:
        ConfigError: the judge decides none of the examples.
    """
    scores, labels = [], []
    for example, verdict in zip(examples, ask_judge(judge, [each.view for each in examples]), strict=True):
        if verdict.decidable and example.label is not None:
            scores.append(np.asarray(verdict.scores) * judge.scale)
            labels.append(example.label)
    temperature, lapse = fit_calibration(scores, labels, lapse=config.lapse)
    found = Calibrated(temperature, lapse, len(labels))
    return judge.calibrated(judge.scale / temperature, lapse, {"calibration": found.plain()}), found
