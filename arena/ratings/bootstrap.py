"""Ratings of resampled matches: whole clusters are drawn with replacement, each replicate is fitted to its maximum.

Matches about one question depend on each other, and so do both orders of a pair, so that what is resampled is the
cluster (Davison and Hinkley 1997, section 3.8). A replicate differs from the matches by the weight of each cluster
only: nothing is copied, results are counted by one sparse product, and the fit starts from that of all matches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from arena.ratings.checks import check_finite, strongly_connected
from arena.ratings.counts import Counts, Ints
from arena.ratings.dense import DensePairs
from arena.ratings.fit import games_counted, settled_tally, tally_of
from arena.ratings.likelihood import Design, Sparse, Tally, pairs_of, product
from arena.ratings.matches import ELO, Floats, Ties
from arena.ratings.newton import NotConvergedError, maximise

__all__ = ["Sample", "bootstrap_ratings", "draws", "replicates"]

_PRIOR = 1e-3  # l2 for a replicate in which some agent happens to win (or lose) everything
_LARGE = 100
"""Parameters above which fits are worth a better start."""
_CELLS = 1 << 19
"""Most numbers in one array of a block of replicates: 4 MB."""


@dataclass(frozen=True)
class Sample:
    """Results of pairs, cluster by cluster."""

    design: Design
    tally: Tally
    """All matches: R is 1."""
    by_cluster: Sparse
    """[3 K, C] sparse: how often each pair was won, then tied, then lost, in each cluster."""
    ties: Ties

    @classmethod
    def of(cls, counts: Counts, ties: Ties, l2: float, *, seats: bool = False) -> Sample:
        """The pairs of counted matches; see `pairs_of`."""
        return cls.placed(*pairs_of(counts, seats=seats), counts, ties, l2)

    @classmethod
    def placed(cls, design: Design, place_M: Ints, result_M: Ints, counts: Counts, ties: Ties, l2: float) -> Sample:
        """Counted matches whose place in a design, and result as seen from there, are given."""
        from scipy.sparse import coo_array

        K = len(design.first_K)
        tally = settled_tally(tally_of(K, place_M, result_M, counts.number_M), ties, l2)
        cells = (counts.number_M, (result_M * K + place_M, counts.cluster_M))
        return cls(design, tally, coo_array(cells, shape=(3 * K, counts.clusters)).tocsr(), ties)

    @property
    def clusters(self) -> int:
        """C."""
        return int(self.by_cluster.shape[1])

    def weighted(self, weight_CR: Floats) -> Tally:
        """The tallies in which each cluster counts as often as its weight says."""
        K = len(self.design.first_K)
        tally = Tally(*product(self.by_cluster, weight_CR).reshape(3, K, -1))
        return tally.halved() if self.ties == "half" else tally


def replicates(
    sample: Sample,
    x_Q: Floats,
    weight_of: Callable[[int], Floats],
    count: int,
    l2: float,
    influence_QC: Floats | None = None,
) -> Floats:
    """Parameters [Q, R] of weighted samples.

    A replicate without finite strengths is fitted with a slight penalty (l2 = 0.001). Replicates are fitted in blocks,
    as many at once as there are processors; the result does not depend on how many.

    Args:
        sample: the matches.
        x_Q: parameters of all matches, where each fit begins.
        weight_of: for the number of a replicate [C], how often each cluster counts.
        count: R.
        l2: penalty of the fit.
        influence_QC: of `arena.ratings.influence.influences`, where it is known: large fits then begin where the
            influences of the weights lead to first order, and end at 1e-8 nats from the maximum at most.
    """
    size = max(1, len(sample.design.first_K), len(x_Q) ** 2 if len(x_Q) <= _LARGE else 0)
    step = 1 if DensePairs.suit(sample.design) else max(1, _CELLS // size)  # matrices are for one at a time
    blocks = [range(start, min(start + step, count)) for start in range(0, count, step)]

    def fit(block: range) -> Floats:
        weight_CR = np.stack([weight_of(r) for r in block], axis=1)
        start_QR = np.tile(x_Q[:, None], len(block))
        close = 1e-6
        if influence_QC is not None and len(x_Q) > _LARGE:
            start_QR += np.einsum("qc,cr->qr", influence_QC, weight_CR - 1)
            close = 1e-4
        return _fit_block(sample, sample.weighted(weight_CR), start_QR, l2, close)

    if len(blocks) == 1:
        return fit(blocks[0])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return np.concatenate(list(pool.map(fit, blocks)), axis=1)


def _fit_block(sample: Sample, tally: Tally, start_QR: Floats, l2: float, close: float) -> Floats:
    R = tally.replicates
    sound_R = np.full(R, True) if l2 > 0 else strongly_connected(sample.design, tally)
    # Nothing but ties: all are equal, and nu has no finite value.
    decisive_R = (tally.win_KR + tally.loss_KR).any(axis=0)
    x_QR = np.zeros_like(start_QR)
    for chosen_R, penalty in ((sound_R & decisive_R, l2), (~sound_R & decisive_R, max(l2, _PRIOR))):
        if chosen_R.any():
            x_QR[:, chosen_R] = _fit_chosen(sample.design, tally.of(chosen_R), start_QR[:, chosen_R], penalty, close)
    return x_QR


def _fit_chosen(design: Design, tally: Tally, start_QR: Floats, l2: float, close: float) -> Floats:
    try:
        return maximise(design, tally, l2=l2, start_QR=start_QR, close=close)
    except NotConvergedError:
        # Covariates can separate the results of a replicate however well its players are connected.
        return maximise(design, tally, l2=max(l2, _PRIOR), start_QR=start_QR)


def draws(seed: int, clusters: int) -> Callable[[int], Floats]:
    """How often each of C clusters is drawn in a replicate, by its number: the same whoever asks when."""

    def weight_of(replicate: int) -> Floats:
        drawn = np.random.default_rng([seed, replicate]).integers(0, clusters, size=clusters)
        return np.bincount(drawn, minlength=clusters).astype(np.float64)

    return weight_of


def bootstrap_ratings(
    n_players: int,
    games: Sequence[tuple[int, int, float]] | Sequence[Sequence[float]],
    index_sets: Sequence[Sequence[int]],
    *,
    ties: Ties = "davidson",
    l2: float = 0.0,
    alpha: float = 0.05,
    base: float = 1000.0,
) -> dict[str, Floats]:
    """Fit the games and given resamples of them.

    Args:
        n_players: number of players P.
        games: as for `arena.ratings.bradley_terry`.
        index_sets: [R, any] indices into ``games`` of each resample.
        ties: as for `arena.ratings.bradley_terry`.
        l2: as for `arena.ratings.bradley_terry`.
        alpha: 1 - coverage.
        base: Elo points of the average player.

    Returns:
        ``point``, ``lo``, ``hi``, each [P] in Elo points; the interval is one of quantiles, interpolated linearly.

    Raises:
        ConfigError: as `arena.ratings.bradley_terry`.
    """
    counts = games_counted(n_players, games)
    sample = Sample.of(counts, ties, l2)
    check_finite(sample.design, sample.tally, counts.names, l2)
    x_Q = maximise(sample.design, sample.tally, l2=l2)[:, 0]
    weights = [_drawn(index_set, counts.clusters) for index_set in index_sets]
    theta_PR = replicates(sample, x_Q, weights.__getitem__, len(weights), l2)[:n_players]
    low_P, high_P = np.quantile(theta_PR, [alpha / 2, 1 - alpha / 2], axis=1)
    return {"point": base + ELO * x_Q[:n_players], "lo": base + ELO * low_P, "hi": base + ELO * high_P}


def _drawn(index_set: Sequence[int], size: int) -> Floats:
    numbers: Ints = np.asarray(index_set, dtype=np.int64)
    return np.bincount(numbers, minlength=size).astype(np.float64)
