"""Intervals for what a debate reports: accuracies and means whose samples come in clusters.

Debates about one question are not independent of each other, so every interval here takes the question (or whatever
`Task.cluster` says) beside each score. Ties count as half a success.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = ["Z95", "Interval", "clustered_proportion", "mean_interval", "wilson"]

Z95 = 1.959963984540054
"""Normal quantile of a two-sided 95 % interval."""

_CHUNK = 4_000_000  # cells of one block of bootstrap weights: 32 MB


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its interval."""

    value: float
    """Point estimate; NaN where there was nothing to estimate from."""
    low: float
    high: float
    n: int
    """Number of scores behind it (not clusters)."""

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}] n={self.n}"


def wilson(successes: float, n: float, z: float = Z95) -> Interval:
    """Score interval of a proportion (Wilson 1927).

    Args:
        successes: how often it happened, ties counted half: 0 to n.
        n: number of trials; may be an effective (fractional) number. Without trials the interval is [0, 1].
        z: normal quantile; 1.96 for 95 %.

    Raises:
        ConfigError: the numbers are not a proportion.
    """
    if not (0 <= successes <= n and math.isfinite(n)):
        raise ConfigError(f"{successes!r} successes of {n!r} is not a proportion: 0 <= successes <= n")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0)
    p, z2 = successes / n, z * z
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    # At the ends the exact bound is 0 or 1; rounding must not leave 1e-17 there.
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return Interval(p, low, high, round(n))


def clustered_proportion(scores: ArrayLike, clusters: Sequence[Hashable]) -> Interval:
    """Mean of scores in [0, 1] with a 95 % interval that respects clusters.

    Wilson's interval at the effective sample size of Kish (1965): p (1 - p) / variance of the mean, the variance taken
    between clusters, and shrunk by the t quantile at few clusters (Korn and Graubard 1998). It is never larger than
    the number of scores, so independent scores give plain `wilson`. Where all scores are 0 (or 1) nothing is known
    about the clustering and the number of clusters is taken.

    Args:
        scores: [N], each 0 (wrong), 0.5 (tie), 1 (right) or anything between.
        clusters: [N], the unit that each score belongs to, such as `Task.cluster`.

    Raises:
        ConfigError: unequal lengths, or a score outside [0, 1].
    """
    scores_N, index_N, count = _clustered(scores, clusters)
    n = len(scores_N)
    if n == 0:
        return wilson(0, 0)
    if scores_N.min() < 0 or scores_N.max() > 1:
        raise ConfigError(f"scores of a proportion lie in [0, 1]; these go from {scores_N.min()} to {scores_N.max()}")
    p = float(scores_N.mean())
    effective = _effective_n(scores_N - p, index_N, count, p * (1 - p))
    interval = wilson(min(p, 1.0) * effective, effective)
    return Interval(p, interval.low, interval.high, n)


def _effective_n(rest_N: NDArray[np.float64], index_N: NDArray[np.intp], clusters: int, spread: float) -> float:
    n = len(rest_N)
    if clusters == 1:
        return 1.0
    if spread <= 1e-12:
        return float(clusters)
    sums_C = np.bincount(index_N, weights=rest_N, minlength=clusters)
    # The factor (n-1)/n makes the effective n of independent 0/1 scores exactly n.
    variance = clusters / (clusters - 1) * float(sums_C @ sums_C) / n**2 * (n - 1) / n
    if variance <= spread / n:
        return float(n)
    if clusters == n:
        return spread / variance
    from scipy.stats import t

    few = (t.ppf(0.975, n - 1) / t.ppf(0.975, clusters - 1)) ** 2
    return float(spread / variance * few)


def mean_interval(
    values: ArrayLike,
    clusters: Sequence[Hashable] | None = None,
    *,
    seed: int = 0,
    replicates: int = 2000,
    level: float = 0.95,
) -> Interval:
    """Mean with a percentile interval by bootstrap over clusters (Davison and Hinkley 1997, section 3.8).

    Give differences of paired scores to compare two arms.

    Args:
        values: [N], any finite numbers.
        clusters: [N], the unit of each; None takes each value as its own.
        seed: of this call's own generator.
        replicates: number of resamples.
        level: coverage.

    Raises:
        ConfigError: unequal lengths or a value that is not finite.
    """
    clusters = range(np.size(values)) if clusters is None else clusters
    values_N, index_N, count = _clustered(values, clusters)
    n = len(values_N)
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    sums_C = np.bincount(index_N, weights=values_N, minlength=count)
    sizes_C = np.bincount(index_N, minlength=count).astype(np.float64)
    rng = np.random.default_rng(seed)
    step = max(1, _CHUNK // count)
    means = []
    for start in range(0, replicates, step):
        weights_RC = resample_weights(rng, min(step, replicates - start), count)
        means.append((weights_RC @ sums_C) / (weights_RC @ sizes_C))
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(values_N.mean()), float(low), float(high), n)


def resample_weights(rng: np.random.Generator, replicates: int, count: int) -> NDArray[np.float64]:
    """[R, C]: how often each of C units is drawn in each of R resamples with replacement."""
    drawn = rng.integers(0, count, size=(replicates, count))
    drawn += np.arange(replicates)[:, None] * count
    return np.bincount(drawn.ravel(), minlength=replicates * count).reshape(replicates, count).astype(np.float64)


def _clustered(values: ArrayLike, clusters: Sequence[Hashable]) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    """Values [N], the number of each one's cluster [N], and how many clusters there are."""
    values_N = np.asarray(values, dtype=np.float64).reshape(-1)
    if len(values_N) != len(clusters):
        raise ConfigError(f"{len(values_N)} scores and {len(clusters)} clusters: give each score its cluster")
    if not np.isfinite(values_N).all():
        raise ConfigError(
            "a score is not a finite number: leave undecidable verdicts out and report how many there were"
        )
    numbers: dict[Hashable, int] = {}
    index_N = np.fromiter((numbers.setdefault(c, len(numbers)) for c in clusters), dtype=np.intp, count=len(clusters))
    return values_N, index_N, len(numbers)
