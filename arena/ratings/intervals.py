"""Intervals of ratings, and of ranks.

Two ways to an interval of a rating, both clustered, so that 40 debates about one question do not count as 40 facts:

``bootstrap``
    Clusters are resampled (`arena.ratings.bootstrap`). Plain quantiles of the replicates are too narrow at the few
    dozen questions that tournaments have, and off centre, because a maximum-likelihood fit spreads the agents out and a
    resample spreads them once more. So bias and skewness are corrected (BCa, Efron 1987), and the levels are those of a
    t distribution with C - 1 degrees of freedom (the expanded quantiles of Hesterberg 2015).
``profile``
    All strengths at which the best likelihood that the others allow is not too far below the maximum. "Too far" is the
    t quantile squared, times the ratio of the clustered to the plain variance: the vertical adjustment of Chandler and
    Bate (2007). No random numbers, but the more agents, the slower.

Where all clusters are alike, or somebody won everything, resamples hardly differ, which is no sign of being sure. The
profile likelihood takes their place then, with matches as independent at best, and the model's covariance for ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Literal

import numpy as np

from arena.protocols.errors import ConfigError
from arena.ratings.bootstrap import Sample, draws, replicates
from arena.ratings.checks import strongly_connected
from arena.ratings.influence import influences, model_covariance
from arena.ratings.matches import Floats
from arena.ratings.profile import profile_interval

__all__ = ["IntervalMaker", "Intervals", "corrected_quantiles", "expanded", "interval_maker", "rank_intervals"]

Intervals = Literal["bootstrap", "profile"]

_ALIKE = 1e-9
"""Nats within which what varies from cluster to cluster is rounding."""
_PROFILED = 60
"""Parameters up to which a profile stands in for replicates that cannot tell; beyond, which takes minutes, a normal
approximation with the same variance does."""
_LARGEST = 20_000_000
"""Parameters times clusters up to which influences are computed; beyond, skewness is as good as none."""


def expanded(level: float, clusters: int) -> float:
    """Tail probability of a normal distribution to read replicates at, for a tail of (1 - level) / 2.

    Replicates vary by (C - 1) / C too little, and the spread of few clusters is itself uncertain (Hesterberg 2015,
    section 5.3): Phi(-sqrt(C / (C - 1)) t).

    Args:
        level: coverage, 0.95 as a rule.
        clusters: C, at least 2.
    """
    from scipy.special import ndtr, stdtrit

    quantile = stdtrit(clusters - 1, (1 + level) / 2)
    return float(ndtr(-np.sqrt(clusters / (clusters - 1)) * quantile))


def corrected_quantiles(point_S: Floats, sample_SR: Floats, influence_SC: Floats | None, tail: float) -> Floats:
    """[2, S] ends of BCa intervals (Efron 1987, equations 2.3 and 6.6).

    Args:
        point_S: [S] estimates.
        sample_SR: [S, R] bootstrap replicates of them.
        influence_SC: [S, C] of clusters; None for no acceleration (BC intervals).
        tail: probability to leave out at either end, of a normal distribution; see `expanded`.
    """
    from scipy.special import ndtr, ndtri

    R = sample_SR.shape[1]
    width_S = np.ptp(sample_SR, axis=1)
    spread_S = width_S > 1e-9
    # Half of the replicates that hit the point itself count as below it, whatever rounding makes of them.
    near_S = 1e-7 * width_S
    above_S = (sample_SR > (point_S + near_S)[:, None]).mean(1)
    below_S = (1 + (sample_SR < (point_S - near_S)[:, None]).mean(1) - above_S) / 2
    bias_S = ndtri(np.clip(below_S, 0.5 / R, 1 - 0.5 / R))
    skew_S = np.zeros(len(point_S))
    if influence_SC is not None:
        square_S = (influence_SC**2).sum(1)
        skew_S = (influence_SC**3).sum(1) / (6 * np.where(square_S > 0, square_S, 1.0) ** 1.5)
    ends = []
    for z in (ndtri(tail), -ndtri(tail)):
        level_S = ndtr(bias_S + (bias_S + z) / np.maximum(1 - skew_S * (bias_S + z), 0.1))
        rows = zip(sample_SR, level_S, point_S, spread_S, strict=True)
        ends.append([np.quantile(row, level) if spread else point for row, level, point, spread in rows])
    # With a handful of clusters the correction can leave the estimate itself outside.
    return np.stack([np.minimum(ends[0], point_S), np.maximum(ends[1], point_S)])


class IntervalMaker:
    """Intervals and rank intervals of one sample's parameters, by one of the two ways."""

    def __init__(self, sample: Sample, x_Q: Floats, kind: Intervals, count: int, seed: int, l2: float) -> None:
        self._sample, self._x_Q, self._kind, self._l2 = sample, x_Q, kind, l2
        C = sample.clusters
        self.tail = expanded(0.95, C)
        self.separated = l2 > 0 and not strongly_connected(sample.design, sample.tally)[0]
        """Whether the penalty alone keeps ratings finite: some group lost to nobody else."""
        influence_QC = influences(sample, x_Q, l2) if kind == "profile" or len(x_Q) * C <= _LARGEST else None
        self._influence_QC = influence_QC
        if kind == "bootstrap" or influence_QC is None:
            self.sample_QR = replicates(sample, x_Q, draws(seed, C), count, l2, influence_QC)
        else:
            # For ranks only: what replicates would be if they were normal, with the clustered covariance.
            normal_CR = np.random.default_rng(seed).standard_normal((C, count))
            self.sample_QR = x_Q[:, None] + influence_QC @ (normal_CR - normal_CR.mean(0))

    def of(self, contrast_SQ: Floats) -> Floats:
        """[2, S] low and high ends of linear combinations of the parameters."""
        point_S = contrast_SQ @ self._x_Q
        moved_SC = None if self._influence_QC is None else contrast_SQ @ self._influence_QC
        if moved_SC is None:
            return corrected_quantiles(point_S, contrast_SQ @ self.sample_QR, None, self.tail)
        if self._kind == "profile" or self.separated:
            return self._profile(contrast_SQ, moved_SC)
        sample_SR = contrast_SQ @ self.sample_QR
        ends_2S = corrected_quantiles(point_S, sample_SR, moved_SC, self.tail)
        alike_S = (np.ptp(sample_SR, axis=1) <= _ALIKE) & contrast_SQ.any(1)
        if alike_S.any():
            ends_2S[:, alike_S] = self._profile(contrast_SQ[alike_S], moved_SC[alike_S])
        return ends_2S

    @cached_property
    def plain(self) -> Floats:
        """[Q, Q] covariance of the parameters if all matches were independent."""
        return model_covariance(self._sample, self._x_Q, self._l2)

    def ranks(self, players_S: Sequence[int]) -> tuple[list[int], list[int]]:
        """Best and worst rank of each of these players among them; see `rank_intervals`."""
        chosen_S = np.asarray(players_S)

        def among() -> Floats:
            return np.asarray(self.plain[np.ix_(chosen_S, chosen_S)])

        return rank_intervals(self._x_Q[chosen_S], self.sample_QR[chosen_S], self.tail, among, self.separated)

    def _profile(self, contrast_SQ: Floats, moved_SC: Floats) -> Floats:
        from scipy.special import ndtri

        plain_S = np.einsum("sq,qp,sp->s", contrast_SQ, self.plain, contrast_SQ)
        # The square of the quantile that the tail stands for: t squared, times C / (C - 1) as for replicates.
        scale = float(ndtri(self.tail)) ** 2
        ratio_S = (moved_SC**2).sum(1) / np.where(plain_S > 0, plain_S, 1.0)
        alike_S = np.abs(moved_SC).max(1) <= _ALIKE
        drop_S = scale * np.where(alike_S | self.separated, np.maximum(ratio_S, 1.0), ratio_S)
        if self._kind == "bootstrap" and len(self._x_Q) > _PROFILED:
            wide_S = np.sqrt(drop_S * np.maximum(plain_S, 0.0))
            point_S = contrast_SQ @ self._x_Q
            return np.stack([point_S - wide_S, point_S + wide_S])
        point = self._sample, self._x_Q, self._l2
        # A profile takes steps of nats, whatever the combinations are measured in.
        unit_S = np.maximum(np.abs(contrast_SQ).max(1), 1e-300)
        scaled_SQ = contrast_SQ / unit_S[:, None]
        ends = [profile_interval(*point, contrast, drop) for contrast, drop in zip(scaled_SQ, drop_S, strict=True)]
        return np.asarray(np.array(ends).T * unit_S)


def interval_maker(
    sample: Sample, x_Q: Floats, *, kind: Intervals, count: int, seed: int, l2: float
) -> IntervalMaker | None:
    """What makes intervals, or None where there can be none: fewer than two clusters, or no replicates wanted.

    Raises:
        ConfigError: no such kind.
    """
    if kind not in ("bootstrap", "profile"):
        raise ConfigError(f"intervals={kind!r} is not known: use 'bootstrap' or 'profile'")
    if count <= 0 or sample.clusters < 2:
        return None
    return IntervalMaker(sample, x_Q, kind, count, seed, l2)


def rank_intervals(
    theta_P: Floats,
    sample_PR: Floats,
    tail: float,
    plain: Callable[[], Floats] | None = None,
    separated: bool = False,
) -> tuple[list[int], list[int]]:
    """Best and worst rank of each player that the replicates allow, at 95 % for each.

    A player's rank is at least one more than the number of those that are certainly better, where all of its
    differences to the others are judged together: by the largest of them, studentised, over the replicates (Mogstad,
    Romano, Shaikh and Wilhelm 2024, section 3.2). Quantiles of the replicates' own ranks (Goldstein and Spiegelhalter
    1996, section 4) are narrower, but miss the rank of players that are nearly equal.

    Args:
        theta_P: [P] strengths.
        sample_PR: [P, R] bootstrap replicates of them.
        tail: as for `corrected_quantiles`.
        plain: gives [P, P], the covariance of the strengths in the model, by which differences are judged (with
            Bonferroni's correction) that are the same in all replicates; None: these count as certain.
        separated: whether all differences are judged by the larger of the two.
    """
    from scipy.special import ndtri

    P, R = sample_PR.shape
    margin_PP = np.zeros((P, P))
    best, worst = [], []
    centred_PR = sample_PR - theta_P[:, None]
    for p in range(P):
        noise_PR = centred_PR - centred_PR[p]
        se_P = np.sqrt(np.einsum("pr,pr->p", noise_PR, noise_PR) / R)
        known_P = se_P > 1e-12
        scale_P = np.where(known_P, se_P, 1.0)
        largest_R = np.abs(noise_PR / scale_P[:, None]).max(0)
        margin_PP[p] = np.where(known_P, np.quantile(largest_R, 1 - 2 * tail) * scale_P, 0.0)
    blind_PP = np.full((P, P), True) if separated else margin_PP + np.eye(P) == 0
    if plain is not None and blind_PP.any():
        cov_PP, critical = plain(), -float(ndtri(tail / max(1, P - 1)))
        own_P = np.diag(cov_PP)
        model_PP = critical * np.sqrt(np.maximum(own_P[:, None] + own_P - 2 * cov_PP, 0.0))
        margin_PP = np.where(blind_PP, np.maximum(margin_PP, model_PP), margin_PP)
    for p, margin_P in enumerate(margin_PP):
        difference_P = theta_P - theta_P[p]
        best.append(1 + int((difference_P > margin_P + 1e-12).sum()))
        worst.append(P - int((difference_P < -margin_P - 1e-12).sum()))
    return best, worst
