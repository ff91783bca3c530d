"""The likelihood of many players most of whom have met, as matrices.

Where a large share of all pairs met, a matrix of all is faster than a list of those: with w = exp(theta / 2) no pair
needs an exponential of its own, Z_ij = w_i^2 + w_j^2 + nu w_i w_j, and sums over opponents are products of a matrix
and a vector. Rows are looked at in blocks that stay in a processor's cache.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from arena.ratings.counts import Counts
from arena.ratings.likelihood import Design, Tally
from arena.ratings.matches import Floats

__all__ = ["DenseLocal", "DensePairs"]

_SHARE = 8
"""One pair in so many must have met."""
_FEWEST, _MOST = 100, 4000
"""Players: with fewer there is nothing to gain, and more make a matrix of more than 128 MB."""
_MOST_CUBED = 1500
"""Players whose matches are counted in matrices at once: 54 MB."""
_BLOCK = 1 << 15
"""Numbers in the rows that are looked at together: 256 KB."""
_FARTHEST = 150.0
"""Nats from the mean up to which no power of w that is needed here overflows."""


class DensePairs:
    """One weighting of pairs without covariates."""

    def __init__(self, number_PP: Floats, score_P: Floats, ties: float, l2: float) -> None:
        self.number_PP = number_PP
        """[P, P] matches, symmetric, 0 on the diagonal."""
        self.score_P = score_P
        """[P] wins and half of the ties."""
        self.ties = ties
        self.l2 = l2

    @classmethod
    def counted(cls, counts: Counts, *, halved: bool, l2: float) -> Self | None:
        """The likelihood of counted matches without a list of pairs in between.

        Args:
            counts: without self-play.
            halved: ties are half a win for each side.
            l2: weight of the penalty.

        Returns:
            None where it is not one for matrices, or where wins do not lead from every player to every other, so that
            somebody must look closer.
        """
        P = len(counts.names)
        if not (_FEWEST < P <= _MOST_CUBED and _SHARE * len(counts.number_M) >= P * P / 2):
            return None
        cell_M = (counts.result_M * P + counts.first_M) * P + counts.second_M
        cube = np.bincount(cell_M, counts.number_M, 3 * P * P).reshape(3, P, P)
        won_PP, tied_PP = cube[0] + cube[2].T, cube[1]
        beaten_PP = won_PP > 0
        if halved:
            beaten_PP |= (tied_PP > 0) | (tied_PP > 0).T
        if not (_reaches_all(beaten_PP) and _reaches_all(beaten_PP.T)):
            return None
        tied_PP += tied_PP.T.copy()
        number_PP = won_PP + won_PP.T
        number_PP += tied_PP
        score_P = won_PP.sum(1) + tied_PP.sum(1) / 2
        return cls(number_PP, score_P, 0.0 if halved else float(tied_PP.sum() / 2), l2)

    def log_likelihood(self, x_Q: Floats) -> float:
        """In nats, penalty not included."""
        theta_P, log_nu = x_Q[:-1], x_Q[-1]
        w_P, nu = np.exp(theta_P / 2), np.exp(log_nu) if self.ties else 0.0
        log_z = 0.0
        rows = max(1, _BLOCK // len(w_P))
        for start in range(0, len(w_P), rows):
            block = slice(start, start + rows)
            total = np.multiply.outer(nu * w_P[block], w_P)
            total += np.add.outer(w_P[block] ** 2, w_P**2)
            log_z += float(np.einsum("pq,pq->", self.number_PP[block], np.log(total)))
        return float(self.score_P @ theta_P + self.ties * log_nu - log_z / 2)

    @staticmethod
    def suit(design: Design) -> bool:
        """Whether matrices are the faster way to see a design."""
        P, K = design.players, len(design.first_K)
        return _FEWEST < P <= _MOST and _SHARE * K >= P * P / 2 and not design.covariates

    @classmethod
    def of(cls, design: Design, tally: Tally, l2: float) -> Self | None:
        """The same likelihood, or None where it is not one for matrices."""
        P = design.players
        if tally.replicates > 1 or not cls.suit(design):
            return None
        number_K = tally.matches[:, 0]
        number_PP = np.zeros((P, P))
        number_PP[design.first_K, design.second_K] = number_K
        number_PP += number_PP.T
        half_K = (tally.win_KR[:, 0] - tally.loss_KR[:, 0]) / 2
        balance_P = np.bincount(design.first_K, half_K, P) - np.bincount(design.second_K, half_K, P)
        score_P = number_PP.sum(1) / 2 + balance_P
        return cls(number_PP, score_P, float(tally.tie_KR.sum()), l2)

    def at(self, x_QR: Floats) -> DenseLocal | None:
        """What the likelihood is near a place; None far from the mean of all, where numbers would overflow."""
        strengths_P = x_QR[:-1, 0] - x_QR[:-1, 0].mean()
        if np.abs(strengths_P).max() > _FARTHEST:
            return None
        return DenseLocal(self, strengths_P, float(np.exp(x_QR[-1, 0])) if self.ties else 0.0)


def _reaches_all(edges_PP: NDArray[np.bool_]) -> bool:
    """Whether edges lead from player 0 to all others."""
    reached_P = np.arange(len(edges_PP)) == 0
    while True:
        now_P = reached_P | edges_PP[reached_P].any(0)
        if now_P.all() or (now_P == reached_P).all():
            return bool(now_P.all())
        reached_P = now_P


def _add_products(sums_PV: Floats, part: Floats, vectors_PV: Floats, start: int, rows: int) -> None:
    """Add what the rows from ``start`` on of a symmetric matrix, given from its diagonal on, add to its products."""
    sums_PV[start : start + rows] += part @ vectors_PV[start:]
    sums_PV[start + rows :] += part[:, rows:].T @ vectors_PV[start : start + rows]


class DenseLocal:
    """Sums over rows of matrices."""

    def __init__(self, pairs: DensePairs, theta_P: Floats, nu: float) -> None:
        self._l2 = pairs.l2
        P = len(theta_P)
        w_P = np.exp(theta_P / 2)
        square_P = w_P**2
        # Vectors that matrices are multiplied by: for sums of n / Z, and of n / Z^2.
        once_P2, twice_P3 = np.stack([np.ones(P), w_P], 1), np.stack([w_P, w_P**3, square_P], 1)
        sums_P2, sums_P3 = np.zeros((P, 2)), np.zeros((P, 3))
        self._curve_PP = np.empty((P, P))
        rows = max(1, _BLOCK // P)
        for start in range(0, P, rows):
            # Everything is symmetric: the columns from this block's own on are enough, and what is beyond its own
            # square counts for those columns too.
            block, rest, beyond = slice(start, start + rows), slice(start, None), slice(start + rows, None)
            tie = np.multiply.outer(nu * w_P[block], w_P[rest])
            both = np.add.outer(square_P[block], square_P[rest])
            total = both + tie
            ratio = pairs.number_PP[block, rest] / total
            _add_products(sums_P2, ratio, once_P2, start, rows)
            ratio /= total
            _add_products(sums_P3, ratio, twice_P3, start, rows)
            # Z^2 times the variance of a score: P(win) P(loss) + P(tie) (P(win) + P(loss)) / 4.
            if nu:
                both *= tie
                both *= 0.25
                both += np.multiply.outer(square_P[block], square_P[rest])
            else:
                np.multiply.outer(square_P[block], square_P[rest], out=both)
            both *= ratio
            self._curve_PP[block, rest] = both
            self._curve_PP[beyond, block] = both[:, rows:].T
        self._diagonal_P = self._curve_PP.sum(1) - np.diagonal(self._curve_PP)
        np.fill_diagonal(self._curve_PP, 0.0)
        slope_P = pairs.score_P - square_P * sums_P2[:, 0] - nu / 2 * w_P * sums_P2[:, 1]
        slope_P -= slope_P.mean()
        expected = nu / 2 * float(w_P @ sums_P2[:, 1])
        self._mixed_P = nu / 2 * w_P * (sums_P3[:, 1] - square_P * sums_P3[:, 0])
        self._tie_curve = expected - nu**2 / 2 * float(square_P @ sums_P3[:, 2]) if nu else 1.0
        tie_slope = pairs.ties - expected if nu else 0.0
        self.gradient_QR = np.append(slope_P - pairs.l2 * theta_P, tie_slope)[:, None]

    def diagonal(self) -> Floats:
        """[Q, 1] diagonal of minus the Hessian."""
        return np.append(self._diagonal_P + self._l2, self._tie_curve)[:, None]

    def apply(self, way_QR: Floats) -> Floats:
        """[Q, 1] minus the Hessian times a vector."""
        way_P, last = way_QR[:-1, 0], way_QR[-1, 0]
        # Not by BLAS: its threads would get into the way of those that fit other replicates (small products have none).
        others_P = np.einsum("pq,q->p", self._curve_PP, way_P)
        image_P = (self._diagonal_P + self._l2) * way_P - others_P + self._mixed_P * last
        return np.append(image_P, self._mixed_P @ way_P + self._tie_curve * last)[:, None]

    def matrix(self) -> Floats:
        """[1, Q, Q] minus the Hessian, made regular where only the sum of strengths is free."""
        P = len(self._diagonal_P)
        full_QQ = np.zeros((P + 1, P + 1))
        full_QQ[:P, :P] = self._diagonal_P.sum() / P**2 / 2 - self._curve_PP
        full_QQ[np.arange(P), np.arange(P)] += self._diagonal_P + self._l2
        full_QQ[:P, -1] = full_QQ[-1, :P] = self._mixed_P
        full_QQ[-1, -1] = self._tie_curve
        return full_QQ[None]
