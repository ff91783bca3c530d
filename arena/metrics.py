"""How good a judge is, as numbers: calibration, agreement, and tests of whether two judges differ.

All take plain sequences and reproduce the golden vectors of ``tests/data``. What was undecidable is left out before and
counted beside: none of these numbers has a place for it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = [
    "Bin",
    "McNemar",
    "brier",
    "cohen_kappa",
    "ece",
    "fleiss_kappa",
    "judge_swap_average",
    "mcc",
    "mcnemar",
    "order_consistency",
    "paired_permutation",
    "reliability",
]

Floats = NDArray[np.float64]
_ENUMERATED = 16  # clusters up to which all sign changes are gone through: 65,536 of them


def brier(probs: ArrayLike, outcomes: ArrayLike) -> float:
    """Mean squared error of stated probabilities, summed over the classes (Brier 1950): 0 is best.

    Args:
        probs: [N] probabilities of the event, or [N, K] of each class. For two classes the second form gives twice the
            first.
        outcomes: [N]: whether the event happened, or the class that came true.

    Returns:
        The score; NaN without samples.

    Raises:
        ConfigError: unequal lengths, or a class that there is not.
    """
    probs_NK, outcomes_N = np.asarray(probs, dtype=np.float64), np.asarray(outcomes)
    _same_length(probs_NK, outcomes_N)
    if not len(probs_NK):
        return math.nan
    if probs_NK.ndim == 1:
        return float(np.mean((probs_NK - outcomes_N) ** 2))
    truth_NK = np.eye(probs_NK.shape[1])[_classes(outcomes_N, probs_NK.shape[1])]
    return float(np.mean(np.sum((probs_NK - truth_NK) ** 2, axis=1)))


@dataclass(frozen=True, slots=True)
class Bin:
    """Samples whose confidence lies in (low, high]; in the first bin, 0 too."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean over the bin."""
    accuracy: float
    """Share that was right."""


def reliability(conf: ArrayLike, correct: ArrayLike, bins: int = 10) -> list[Bin]:
    """The reliability diagram: what was claimed and what came true, by confidence, empty bins left out.

    Args:
        conf: [N], in [0, 1].
        correct: [N]: 1 right, 0 wrong, 0.5 for a tie.
        bins: of equal width.

    Raises:
        ConfigError: unequal lengths, a confidence outside [0, 1], or no bins.
    """
    conf_N, correct_N = np.asarray(conf, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    _same_length(conf_N, correct_N)
    if bins < 1:
        raise ConfigError(f"bins={bins}: at least one")
    if len(conf_N) and not (conf_N.min() >= 0.0 and conf_N.max() <= 1.0):
        raise ConfigError(f"confidences lie in [0, 1]; these go from {conf_N.min()} to {conf_N.max()}")
    edges = np.arange(bins + 1) / bins
    place_N = np.maximum(np.searchsorted(edges, conf_N, side="left") - 1, 0)
    return [
        Bin(
            float(edges[index]),
            float(edges[index + 1]),
            int(np.sum(place_N == index)),
            float(conf_N[place_N == index].mean()),
            float(correct_N[place_N == index].mean()),
        )
        for index in np.unique(place_N)
    ]


def ece(conf: ArrayLike, correct: ArrayLike, bins: int = 10, kind: Literal["ece", "mce"] = "ece") -> float:
    """Calibration error over equal bins (Naeini et al. 2015; Guo et al. 2017, 1706.04599, equations 3 and 5).

    Args:
        conf: [N], see `reliability`.
        correct: [N].
        bins: of equal width.
        kind: ``ece`` is the mean gap between accuracy and confidence, weighted by samples, ``mce`` the largest gap.

    Returns:
        The error; NaN without samples.

    Raises:
        ConfigError: see `reliability`, or an unknown kind.
    """
    if kind not in ("ece", "mce"):
        raise ConfigError(f"kind={kind!r}: write ece or mce")
    found = reliability(conf, correct, bins)
    if not found:
        return math.nan
    gaps = [abs(each.accuracy - each.confidence) for each in found]
    if kind == "mce":
        return max(gaps)
    total = sum(each.count for each in found)
    return sum(gap * each.count for gap, each in zip(gaps, found, strict=True)) / total


def mcc(truth: ArrayLike, predicted: ArrayLike) -> float:
    """Matthews correlation of classes (Matthews 1975; of more than two, Gorodkin 2004): 1 right, 0 chance.

    Args:
        truth: [N] integers.
        predicted: [N] integers.

    Returns:
        The coefficient; 0 where either side is constant and nothing can be correlated, NaN without samples.

    Raises:
        ConfigError: unequal lengths.
    """
    truth_N, predicted_N = np.asarray(truth), np.asarray(predicted)
    _same_length(truth_N, predicted_N)
    if not len(truth_N):
        return math.nan
    table = _table(truth_N, predicted_N, int(max(truth_N.max(), predicted_N.max())) + 1)
    n, hits = table.sum(), np.trace(table)
    true_K, said_K = table.sum(axis=1), table.sum(axis=0)
    spread = (n * n - true_K @ true_K) * (n * n - said_K @ said_K)
    return float((hits * n - true_K @ said_K) / math.sqrt(spread)) if spread > 0 else 0.0


def cohen_kappa(
    a: ArrayLike, b: ArrayLike, n_classes: int | None = None, weights: Literal["linear", "quadratic"] | None = None
) -> float:
    """Agreement of two judges beyond chance (Cohen 1960; weighted: Cohen 1968): 1 always, 0 as by chance.

    Args:
        a: [N] classes that one judge chose.
        b: [N] of the other.
        n_classes: how many classes there are; None: up to the largest that occurs.
        weights: how disagreements count: None all the same, ``linear`` and ``quadratic`` by the distance of classes.

    Returns:
        Kappa; 1 where both always say the same one class, NaN without samples.

    Raises:
        ConfigError: unequal lengths, a class that there is not, or unknown weights.
    """
    a_N, b_N = np.asarray(a), np.asarray(b)
    _same_length(a_N, b_N)
    if weights not in (None, "linear", "quadratic"):
        raise ConfigError(f"weights={weights!r}: write linear or quadratic, or leave them out")
    if not len(a_N):
        return math.nan
    table = _table(a_N, b_N, n_classes or int(max(a_N.max(), b_N.max())) + 1)
    distance = np.abs(np.subtract.outer(np.arange(len(table)), np.arange(len(table)))).astype(np.float64)
    cost = distance**2 if weights == "quadratic" else distance if weights == "linear" else (distance > 0) * 1.0
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / len(a_N)
    by_chance = float((cost * expected).sum())
    return 1.0 - float((cost * table).sum()) / by_chance if by_chance > 0 else 1.0


def fleiss_kappa(counts: ArrayLike) -> float:
    """Agreement of several judges beyond chance (Fleiss 1971).

    Args:
        counts: [N, K]: how many judges chose each class; every row has the same sum, at least 2.

    Returns:
        Kappa; 1 where all always say the same one class, NaN without samples.

    Raises:
        ConfigError: rows of different sums, or of fewer than two judges.
    """
    counts_NK = np.asarray(counts, dtype=np.float64)
    if not counts_NK.size:
        return math.nan
    judges = counts_NK.sum(axis=1)
    if judges.min() != judges.max() or judges.min() < 2:
        raise ConfigError("each row of counts needs the same number of judges, two at least: leave incomplete rows out")
    n = judges[0]
    agreed = float(np.mean((np.sum(counts_NK**2, axis=1) - n) / (n * (n - 1))))
    shares_K = counts_NK.sum(axis=0) / counts_NK.sum()
    by_chance = float(shares_K @ shares_K)
    return (agreed - by_chance) / (1.0 - by_chance) if by_chance < 1.0 else 1.0


def judge_swap_average(p_ab: ArrayLike, p_ba: ArrayLike) -> Floats:
    """Preference for A, averaged over both presentation orders (Lee et al. 2023, RLAIF, 2309.00267, section 3.1).

    Args:
        p_ab: [N] probability of the answer shown first where A is first.
        p_ba: [N] the same where B is first.
    """
    return (np.asarray(p_ab, dtype=np.float64) + 1.0 - np.asarray(p_ba, dtype=np.float64)) / 2.0


def order_consistency(first: Sequence[Hashable], second: Sequence[Hashable]) -> float:
    """Share of pairs with the same choice in both orders; NaN without pairs.

    Args:
        first: choices when shown in one order, mapped back to the answers.
        second: of the same material in the other order.

    Raises:
        ConfigError: unequal lengths.
    """
    if len(first) != len(second):
        raise ConfigError(
            f"{len(first)} choices in one order and {len(second)} in the other: leave incomplete pairs out"
        )
    return sum(a == b for a, b in zip(first, second, strict=True)) / len(first) if len(first) else math.nan


@dataclass(frozen=True, slots=True)
class McNemar:
    """Whether two judges are right equally often, by the questions on which only one of them is."""

    only_first: int
    only_second: int
    exact: float
    """Two-sided p of the exact conditional test: never too small, often too large."""
    mid_p: float
    """Two-sided mid-p, which Fagerland et al. recommend."""
    chi2: float
    """McNemar's statistic without continuity correction; NaN where the judges never differ."""
    chi2_p: float


def mcnemar(first: Sequence[bool], second: Sequence[bool]) -> McNemar:
    """Paired comparison of who was right (McNemar 1947; Fagerland, Lydersen and Laake 2013, equations 1 to 5).

    Args:
        first: [N] whether one judge was right; pairs are taken to be independent.
        second: [N] whether the other was, on the same questions.

    Raises:
        ConfigError: unequal lengths.
    """
    from scipy.stats import binom
    from scipy.stats import chi2 as chi2_distribution

    if len(first) != len(second):
        raise ConfigError(f"{len(first)} and {len(second)} verdicts: give those that both judges decided")
    b = sum(bool(x) and not y for x, y in zip(first, second, strict=True))
    c = sum(bool(y) and not x for x, y in zip(first, second, strict=True))
    if b + c == 0:
        return McNemar(0, 0, 1.0, 1.0, math.nan, 1.0)
    tail, point = (float(f(min(b, c), b + c, 0.5)) for f in (binom.cdf, binom.pmf))
    mid = 1.0 - point / 2 if b == c else 2 * tail - point
    statistic = (b - c) ** 2 / (b + c)
    return McNemar(b, c, min(1.0, 2 * tail), mid, statistic, float(chi2_distribution.sf(statistic, 1)))


def paired_permutation(
    first: ArrayLike,
    second: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    replicates: int = 10_000,
) -> float:
    """Two-sided p of the hypothesis that two judges' scores could be exchanged, cluster by cluster (Fisher 1935).

    Args:
        first: [N] scores of one judge.
        second: [N] of the other on the same questions.
        clusters: [N], what is exchanged together, such as `Task.cluster`; None takes each pair by itself.
        seed: of this call's own generator.
        replicates: random sign changes; up to 16 clusters all of them are gone through instead.

    Raises:
        ConfigError: unequal lengths.
    """
    first_N, second_N = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    _same_length(first_N, second_N)
    names = list(range(len(first_N)) if clusters is None else clusters)
    _same_length(first_N, np.asarray(names, dtype=object))
    numbers: dict[Hashable, int] = {}
    index_N = [numbers.setdefault(name, len(numbers)) for name in names]
    sums_C = np.bincount(index_N, weights=first_N - second_N, minlength=len(numbers)) if numbers else np.zeros(0)
    count = len(sums_C)
    seen = abs(sums_C.sum()) - 1e-9
    if count <= _ENUMERATED:
        signs_RC = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float(np.mean(np.abs(signs_RC @ sums_C) >= seen))
    rng = np.random.default_rng(seed)
    rows = max(1, 4_000_000 // count)
    extreme = 0
    for start in range(0, replicates, rows):
        signs_RC = rng.choice([-1.0, 1.0], size=(min(rows, replicates - start), count))
        extreme += int(np.sum(np.abs(signs_RC @ sums_C) >= seen))
    # The arrangement that was seen is one of them, so p is never 0 (Phipson and Smyth 2010).
    return (extreme + 1) / (replicates + 1)


def _same_length(a: NDArray[np.generic], b: NDArray[np.generic]) -> None:
    if len(a) != len(b):
        raise ConfigError(f"{len(a)} values on one side and {len(b)} on the other")


def _classes(values_N: NDArray[np.generic], count: int) -> NDArray[np.intp]:
    index_N = values_N.astype(np.intp)
    if len(index_N) and not (index_N.min() >= 0 and index_N.max() < count):
        raise ConfigError(f"classes go from 0 to {count - 1}; these from {index_N.min()} to {index_N.max()}")
    return index_N


def _table(a_N: NDArray[np.generic], b_N: NDArray[np.generic], count: int) -> Floats:
    """[K, K]: how often class i on one side met class j on the other."""
    pairs_N = _classes(a_N, count) * count + _classes(b_N, count)
    return np.bincount(pairs_N, minlength=count * count).reshape(count, count).astype(np.float64)
