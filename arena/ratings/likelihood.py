"""The likelihood of results between pairs, for many weightings of the results at once.

With eta = theta_i - theta_j + x beta for a pair (i, j) whose matches have the covariates x, and the tie parameter nu,

    P(i beats j) = e^(eta/2) / Z,   P(tie) = nu / Z,   P(j beats i) = e^(-eta/2) / Z,   Z = e^(eta/2) + e^(-eta/2) + nu,

which is Bradley and Terry (1952) for nu = 0 and Davidson (1970, equation 2.3) without covariates. It is log-linear in
(theta, beta, log nu), so the log-likelihood is concave.

Axes: K pairs (with their covariates), P players, F covariates, Q = P + F + 1 parameters (theta, beta, log nu), R
replicates: weightings of the same matches. The replicates are the last axis, where the sparse products want them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arena.ratings.counts import Counts
from arena.ratings.matches import Floats

__all__ = ["Design", "Point", "Sparse", "Tally", "evaluate", "log_likelihood", "pairs_of"]

Ints = NDArray[np.int64]
Sparse: TypeAlias = Any
"""A csr_array of float64; scipy.sparse is imported only where it is used, and its types do not follow products."""


@dataclass(frozen=True)
class Design:
    """Who met whom, and with which covariates."""

    players: int
    """P."""
    first_K: Ints
    """[K] number of one side."""
    second_K: Ints
    """[K] number of the other; the same player where only covariates matter."""
    x_KF: Floats
    """[K, F] covariates, as differences of the first side to the second."""

    @property
    def covariates(self) -> int:
        """F."""
        return int(self.x_KF.shape[1])

    @cached_property
    def differences(self) -> Sparse:
        """[K, P] sparse: 1 for the first player, -1 for the second."""
        from scipy.sparse import csr_array

        pairs = len(self.first_K)
        columns = np.empty((pairs, 2), dtype=np.int32)
        columns[:, 0], columns[:, 1] = self.first_K, self.second_K
        starts = np.arange(0, 2 * pairs + 1, 2, dtype=np.int64 if pairs > 2**30 else np.int32)
        values = np.empty((pairs, 2))
        values[:, 0], values[:, 1] = 1.0, -1.0
        return csr_array((values.ravel(), columns.ravel(), starts), shape=(pairs, self.players))

    @cached_property
    def gathers(self) -> Sparse:
        """[P, K] sparse: the transpose of `differences`."""
        gathers = self.differences.T.tocsr()
        gathers.sum_duplicates()  # a player that meets itself has 1 - 1
        return gathers

    @cached_property
    def squares(self) -> Sparse:
        """[P, K] sparse: `gathers`, squared."""
        return abs(self.gathers)

    @cached_property
    def products(self) -> Sparse:
        """[P * P, K] sparse: the outer product of each row of `differences` with itself."""
        from scipy.sparse import coo_array

        i, j, P = self.first_K, self.second_K, self.players
        cells = np.concatenate([i * P + i, j * P + j, i * P + j, j * P + i])
        K = len(i)
        values = np.repeat([1.0, 1.0, -1.0, -1.0], K)
        return coo_array((values, (cells, np.tile(np.arange(K), 4))), shape=(P * P, K)).tocsr()

    def eta(self, x_QR: Floats) -> Floats:
        """[K, R] log-odds of the first side against the second, ties apart."""
        eta_KR = np.take(x_QR, self.first_K, axis=0)
        eta_KR -= np.take(x_QR, self.second_K, axis=0)
        return eta_KR + self.x_KF @ x_QR[self.players : -1] if self.covariates else eta_KR

    def gathered(self, values_KR: Floats) -> Floats:
        """[P + F, R]: the sum over pairs of each value times the derivative of eta by each parameter."""
        return np.concatenate([product(self.gathers, values_KR), self.x_KF.T @ values_KR])


@dataclass(frozen=True, slots=True)
class Tally:
    """Results of the pairs of a design, in R weightings."""

    win_KR: Floats
    """[K, R] how often the first side won."""
    tie_KR: Floats
    loss_KR: Floats

    @property
    def replicates(self) -> int:
        """R."""
        return int(self.win_KR.shape[1])

    @property
    def tied(self) -> NDArray[np.bool_]:
        """[R] whether there is any tie."""
        return np.asarray(self.tie_KR.any(axis=0))

    @property
    def matches(self) -> Floats:
        """[K, R] matches."""
        return self.win_KR + self.tie_KR + self.loss_KR

    def halved(self) -> Tally:
        """Each tie as half a win for both sides."""
        half = self.tie_KR / 2
        return Tally(self.win_KR + half, np.zeros_like(half), self.loss_KR + half)

    def of(self, chosen_R: NDArray[np.bool_]) -> Tally:
        """Some of the replicates."""
        if chosen_R.all():
            return self
        return Tally(self.win_KR[:, chosen_R], self.tie_KR[:, chosen_R], self.loss_KR[:, chosen_R])


@dataclass(frozen=True, slots=True)
class Point:
    """The log-likelihood's derivatives at one place of the parameters, by eta and by log nu."""

    slope_KR: Floats
    """[K, R] first derivative by eta."""
    curve_KR: Floats
    """[K, R] minus the second derivative by eta."""
    mixed_KR: Floats | None
    """[K, R] minus the derivative by eta and log nu; None where there are no ties in any replicate."""
    tie_slope_R: Floats
    """[R] first derivative by log nu; 0 where a replicate has no ties."""
    tie_curve_R: Floats
    """[R] minus the second derivative by log nu; 1 where a replicate has no ties."""


def evaluate(design: Design, tally: Tally, x_QR: Floats) -> Point:
    """Derivatives of the log-likelihood.

    Written so that nothing overflows: with e = exp(-|eta| / 2) the three probabilities are 1 / Z, e^2 / Z and
    nu e / Z, where Z = 1 + e^2 + nu e.
    """
    eta_KR, number_KR = design.eta(x_QR), tally.matches
    tied_R = tally.tied
    ones_R = np.ones(len(tied_R))
    if not tied_R.any():
        margin_KR = np.tanh(eta_KR / 2)  # P(win) - P(loss)
        slope_KR = (tally.win_KR - tally.loss_KR - number_KR * margin_KR) / 2
        return Point(slope_KR, number_KR * (1 - margin_KR**2) / 4, None, 0 * ones_R, ones_R)
    nu_R = np.where(tied_R, np.exp(x_QR[-1]), 0.0)
    e_KR = np.exp(-np.abs(eta_KR) / 2)
    z_KR = 1 + e_KR * (e_KR + nu_R)
    tie_KR = nu_R * e_KR / z_KR
    margin_KR = np.copysign((1 - e_KR**2) / z_KR, eta_KR)
    slope_KR = (tally.win_KR - tally.loss_KR - number_KR * margin_KR) / 2
    curve_KR = number_KR * (1 - tie_KR - margin_KR**2) / 4
    expected_KR = number_KR * tie_KR
    tie_slope_R = np.where(tied_R, (tally.tie_KR - expected_KR).sum(0), 0.0)
    tie_curve_R = np.where(tied_R, (expected_KR * (1 - tie_KR)).sum(0), 1.0)
    return Point(slope_KR, curve_KR, expected_KR * margin_KR / -2, tie_slope_R, tie_curve_R)


def log_likelihood(design: Design, tally: Tally, x_QR: Floats) -> Floats:
    """[R] log-likelihood in nats."""
    eta_KR, tied_R = design.eta(x_QR), tally.tied
    nu_R = np.where(tied_R, np.exp(x_QR[-1]), 0.0)
    size_KR = np.abs(eta_KR) / 2
    e_KR = np.exp(-size_KR)
    log_z_KR = size_KR + np.log1p(e_KR * (e_KR + nu_R))
    loglik_KR = (tally.win_KR - tally.loss_KR) * eta_KR / 2 - tally.matches * log_z_KR
    return np.asarray(loglik_KR.sum(0) + np.where(tied_R, x_QR[-1], 0.0) * tally.tie_KR.sum(0))


def pairs_of(counts: Counts, *, seats: bool = False) -> tuple[Design, Ints, Ints]:
    """The pairs that met.

    Args:
        counts: what was played.
        seats: tell the two orders of a pair apart, with a covariate that is 1: the advantage of the first seat.
            Otherwise self-play must have been left out.

    Returns:
        the design; for each cell of the counts the number of its pair [M]; and its result seen from the pair's first
        side [M] (0 won, 1 tied, 2 lost).
    """
    first_M, second_M, result_M = counts.first_M, counts.second_M, counts.result_M
    players = len(counts.names)
    code_M = first_M * players + second_M
    if not seats:
        turned_M = first_M > second_M
        code_M = np.where(turned_M, second_M * players + first_M, code_M)
        result_M = np.where(turned_M, 2 - result_M, result_M)
    code_K, place_M = _distinct(code_M, players**2)
    first_K = code_K // players
    x_KF = np.ones((len(code_K), 1)) if seats else np.zeros((len(code_K), 0))
    return Design(players, first_K, code_K - first_K * players, x_KF), place_M, result_M


def product(matrix: Sparse, x_QR: Floats) -> Floats:
    """A sparse matrix times a dense one, which scipy does faster as a vector where that is one column."""
    return np.asarray((matrix @ x_QR[:, 0])[:, None] if x_QR.shape[1] == 1 else matrix @ x_QR)


def _distinct(code_M: Ints, size: int) -> tuple[Ints, Any]:
    """Distinct codes in order, and the place of each of the M there; codes are below ``size``."""
    if size > 1 << 22:
        return np.unique(code_M, return_inverse=True)
    there = np.zeros(size, dtype=np.bool_)
    there[code_M] = True
    code_K = np.flatnonzero(there)
    place = np.empty(size, dtype=np.int32)
    place[code_K] = np.arange(len(code_K), dtype=np.int32)
    return code_K, place[code_M]
