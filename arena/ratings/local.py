"""The likelihood near one place of its parameters: its gradient, and how that changes with a step."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from arena.ratings.likelihood import Design, Point, Tally, evaluate, product
from arena.ratings.matches import Floats

__all__ = ["Local", "Pairs", "SparseLocal", "SparsePairs"]


class Local(Protocol):
    """The quadratic that touches the penalised log-likelihood; axes as in `arena.ratings.likelihood`."""

    gradient_QR: Floats
    """[Q, R] first derivatives."""

    def diagonal(self) -> Floats:
        """[Q, R] diagonal of minus the Hessian."""

    def apply(self, way_QR: Floats) -> Floats:
        """[Q, R] minus the Hessian times a vector."""

    def matrix(self) -> Floats:
        """[R, Q, Q] minus the Hessian, made regular where only the sum of strengths is free."""


class Pairs(Protocol):
    """A penalised log-likelihood."""

    def at(self, x_QR: Floats) -> Local | None:
        """What it is near a place; None where the place is out of this implementation's reach."""


class SparsePairs:
    """Any pairs, with covariates or without, in any number of weightings."""

    def __init__(self, design: Design, tally: Tally, l2: float) -> None:
        self._design, self._tally, self._l2 = design, tally, l2

    def at(self, x_QR: Floats) -> SparseLocal:
        """What the likelihood is near a place."""
        return SparseLocal(self._design, evaluate(self._design, self._tally, x_QR), x_QR, self._l2)


class SparseLocal:
    """Sums over the pairs that met."""

    def __init__(self, design: Design, point: Point, x_QR: Floats, l2: float) -> None:
        self._design, self._point, self._l2 = design, point, l2
        gradient_QR = np.concatenate([design.gathered(point.slope_KR), point.tie_slope_R[None]])
        # Exactly 0 but for rounding, which no step along the strengths could take away.
        gradient_QR[: design.players] -= gradient_QR[: design.players].mean(0)
        gradient_QR[:-1] -= l2 * x_QR[:-1]
        self.gradient_QR = gradient_QR

    def diagonal(self) -> Floats:
        """[Q, R] diagonal of minus the Hessian."""
        design, curve_KR = self._design, self._point.curve_KR
        strengths_PR, coefficients_FR = product(design.squares, curve_KR), (design.x_KF**2).T @ curve_KR
        return np.concatenate([strengths_PR + self._l2, coefficients_FR + self._l2, self._point.tie_curve_R[None]])

    def apply(self, way_QR: Floats) -> Floats:
        """[Q, R] minus the Hessian times a vector."""
        point = self._point
        along_KR = self._design.eta(way_QR)
        pull_KR = point.curve_KR * along_KR
        last_R = point.tie_curve_R * way_QR[-1]
        if point.mixed_KR is not None:
            pull_KR += point.mixed_KR * way_QR[-1]
            last_R = last_R + (point.mixed_KR * along_KR).sum(0)
        image_QR = np.concatenate([self._design.gathered(pull_KR), last_R[None]])
        image_QR[:-1] += self._l2 * way_QR[:-1]
        return image_QR

    def matrix(self) -> Floats:
        """[R, Q, Q] minus the Hessian, made regular where only the sum of strengths is free."""
        design, point = self._design, self._point
        P, F, R = design.players, design.covariates, point.curve_KR.shape[1]
        full_RQQ = np.zeros((R, P + F + 1, P + F + 1))
        full_RQQ[:, :P, :P] = product(design.products, point.curve_KR).T.reshape(R, P, P)
        # Fixes the gauge: a step has no part along the sum of strengths.
        scale_R = np.maximum(point.curve_KR.sum(0) / P**2, 1e-12)
        full_RQQ[:, :P, :P] += scale_R[:, None, None]
        for f in range(F):
            column_QR = design.gathered(point.curve_KR * design.x_KF[:, f, None])
            full_RQQ[:, : P + F, P + f] = column_QR.T
            full_RQQ[:, P + f, : P + F] = column_QR.T
        full_RQQ[:, np.arange(P + F), np.arange(P + F)] += self._l2
        if point.mixed_KR is not None:
            mixed_QR = design.gathered(point.mixed_KR)
            full_RQQ[:, :-1, -1] = full_RQQ[:, -1, :-1] = mixed_QR.T
        full_RQQ[:, -1, -1] = point.tie_curve_R
        return full_RQQ
