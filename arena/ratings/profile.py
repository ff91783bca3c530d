"""Profile likelihood: how far one combination of parameters can go while the others make the best of it."""

from __future__ import annotations

import numpy as np

from arena.ratings.bootstrap import Sample
from arena.ratings.likelihood import log_likelihood
from arena.ratings.local import SparseLocal, SparsePairs
from arena.ratings.matches import Floats

__all__ = ["profile_interval"]

_STEPS = 50
_CLOSE = 1e-8
_FAR = 2.0
"""Nats in one step."""
_FARTHEST = 60.0
"""Nats at which an end counts as infinite: odds of e^60."""


def profile_interval(sample: Sample, x_Q: Floats, l2: float, contrast_Q: Floats, drop: float) -> tuple[float, float]:
    """Ends of the interval of ``contrast_Q @ x`` in which twice the log-likelihood falls by ``drop`` at most.

    Args:
        sample: the matches.
        x_Q: parameters of greatest likelihood.
        l2: penalty that they were fitted with; it is part of the likelihood here.
        contrast_Q: the combination; that of strengths must not depend on their sum.
        drop: twice the difference of log-likelihoods at the ends; 0 gives the point itself.
    """
    point = float(contrast_Q @ x_Q)
    if drop <= 0 or not contrast_Q.any():
        return point, point
    follow_Q, size = _direction(sample, x_Q, l2, contrast_Q)
    top = _value(sample, x_Q, l2)
    low, high = (_end(sample, x_Q, l2, contrast_Q, follow_Q, top, side * np.sqrt(drop), size) for side in (-1.0, 1.0))
    return low, high


def _end(
    sample: Sample,
    x_Q: Floats,
    l2: float,
    contrast_Q: Floats,
    follow_Q: Floats,
    top: float,
    wanted: float,
    size: float,
) -> float:
    """Where the signed root of twice the drop is ``wanted``; infinite where it stays smaller in reach.

    That root is nearly linear in the combination, so that a secant finds the place in a few steps.
    """
    side, point = np.sign(wanted), float(contrast_Q @ x_Q)
    last, root_last, now = point, 0.0, point + wanted * np.sqrt(size)
    for _ in range(_STEPS):
        moved_Q = _constrained(sample, x_Q + (now - float(contrast_Q @ x_Q)) * follow_Q, l2, contrast_Q)
        if moved_Q is None or abs(now - point) > _FARTHEST:
            return float(side * np.inf)
        x_Q = moved_Q
        root = side * np.sqrt(max(2 * (top - _value(sample, x_Q, l2)), 0.0))
        if abs(root - wanted) <= _CLOSE or root == root_last:
            break
        ahead = now + (wanted - root) * (now - last) / (root - root_last)
        # Not beyond the point, and not so far in one step that the likelihood is flat there.
        ahead = point + side * np.clip(side * (ahead - point), 0.0, abs(now - point) + _FAR)
        last, root_last, now = now, root, float(ahead)
    return float(now)


def _value(sample: Sample, x_Q: Floats, l2: float) -> float:
    return float(log_likelihood(sample.design, sample.tally, x_Q[:, None])[0] - l2 / 2 * x_Q[:-1] @ x_Q[:-1])


def _near(sample: Sample, x_Q: Floats, l2: float) -> SparseLocal:
    return SparsePairs(sample.design, sample.tally, l2).at(x_Q[:, None])


def _direction(sample: Sample, x_Q: Floats, l2: float, contrast_Q: Floats) -> tuple[Floats, float]:
    """How the other parameters follow when the combination grows by 1 [Q], and its variance in the model."""
    moved_Q = np.linalg.solve(_near(sample, x_Q, l2).matrix()[0], contrast_Q)
    size = float(contrast_Q @ moved_Q)
    return moved_Q / size, size


def _constrained(sample: Sample, x_Q: Floats, l2: float, contrast_Q: Floats) -> Floats | None:
    """The best parameters with the same value of the combination, by Newton's method from ``x_Q``; None for none."""
    for _ in range(_STEPS):
        local = _near(sample, x_Q, l2)
        try:
            solved_Q2 = np.linalg.solve(local.matrix()[0], np.column_stack([local.gradient_QR, contrast_Q]))
        except np.linalg.LinAlgError:  # so far out that the likelihood is flat
            return None
        along_2 = contrast_Q @ solved_Q2
        step_Q = solved_Q2[:, 0] - solved_Q2[:, 1] * along_2[0] / along_2[1]
        longest = np.abs(step_Q).max()
        x_Q = x_Q + step_Q * min(1.0, _FAR / max(longest, 1e-300))
        if longest <= _CLOSE:
            return x_Q
    return None
