"""How much a property of a presentation shifts what the judge chooses.

The effect of a property is P(an answer is chosen | it has it) - P(it is chosen | the other answer has it), all else
equal: 0 for a judge that does not mind, 1 for one that minds nothing else. For a share of first choices of 1/2 + b / 2
in a balanced design, the position effect is b. All effects of a design are the coefficients of one linear probability
model, fitted by least squares; in a balanced design these are the differences of means, and where verdicts are missing
they adjust for what became unbalanced.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.statistics import Interval, wilson

__all__ = ["effects"]


def effects(
    scores: ArrayLike, signs: Mapping[str, ArrayLike], clusters: Sequence[Hashable], *, at_once: int = 1
) -> dict[str, Interval]:
    """The effect of each property, with an interval that respects clusters (Liang and Zeger 1986; factor CR1).

    Where no choice ever depended on a property, the interval is that of an event never seen in so many clusters.

    Args:
        scores: [N]: 1 if the right answer was chosen, 0 if the other, 0.5 for a tie.
        signs: property -> [N]: +1 where the right answer has it, -1 where the other has it, 0 where neither has.
        clusters: [N], the question of each.
        at_once: intervals that are to hold together with 95 % (Bonferroni).

    Returns:
        Property -> effect in [-1, 1]; NaN where it never varied, or never apart from another.
    """
    y_N = np.asarray(scores, dtype=np.float64)
    n, names = len(y_N), list(signs)
    half_NK = np.column_stack([np.ones(n), *(np.asarray(signs[name], dtype=np.float64) / 2 for name in names)])
    numbers: dict[Hashable, int] = {}
    index_N = np.fromiter((numbers.setdefault(c, len(numbers)) for c in clusters), dtype=np.intp, count=n)
    count = len(numbers)
    nothing = Interval(math.nan, -1.0, 1.0, n)
    if count < 2 or np.linalg.matrix_rank(half_NK) < half_NK.shape[1]:
        return dict.fromkeys(names, nothing)
    beta_K, se_K = _fit(y_N, half_NK, index_N, count)
    quantile = _t(1 - 0.025 / at_once, count - 1)
    return {
        name: _interval(float(beta_K[place]), float(se_K[place]) * quantile, count, n)
        for place, name in enumerate(names, start=1)
    }


def _fit(
    y_N: NDArray[np.float64], x_NK: NDArray[np.float64], index_N: NDArray[np.intp], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients and their standard errors between clusters."""
    n, k = x_NK.shape
    inverse_KK = np.linalg.inv(x_NK.T @ x_NK)
    beta_K = inverse_KK @ (x_NK.T @ y_N)
    rest_N = y_N - x_NK @ beta_K
    pulls_CK = np.zeros((count, k))
    np.add.at(pulls_CK, index_N, x_NK * rest_N[:, None])
    factor = count / (count - 1) * (n - 1) / max(1, n - k)
    covariance_KK = factor * inverse_KK @ (pulls_CK.T @ pulls_CK) @ inverse_KK
    return beta_K, np.sqrt(np.maximum(0.0, np.diag(covariance_KK)))


def _t(probability: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.ppf(probability, freedom))


def _interval(value: float, half: float, count: int, n: int) -> Interval:
    if half < 1e-9:
        # All clusters alike: what one has not seen in ``count`` of them may still happen.
        half = wilson(0, count).high
    return Interval(value, max(-1.0, value - half), min(1.0, value + half), n)
