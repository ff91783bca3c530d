"""Which pairings tell most about the ranking, for the tokens that they cost.

Strengths theta get a normal prior and the posterior its normal approximation N(m, S) at the mode (Bradley-Terry, ties
half). For a pair (k, l) let d = m_k - m_l be the difference of the modes and s^2 its posterior variance. A ranking from
estimates whose difference has the standard error t puts the pair the wrong way round with probability

    E Phi(-|D| / t), D ~ N(d, s^2)   =   t phi(d / s) / s * sqrt(2 / pi)   for t well below s:

what counts is how likely the two are to be equal. The sum over all pairs is the expected number of pairs in the wrong
order, which Kendall's tau counts. G games of (i, j) carry information w = G p (1 - p) about theta_i - theta_j, which
takes w c^2 / (1 + w v) off t^2, with c the covariance of the two differences and v the variance of the played one; t
falls by 1 / (2 t) of that. Summed over all pairs (k, l) this is one quadratic form for all candidates:

    gain(i, j) = w / (1 + w v) * (e_i - e_j)' S L S (e_i - e_j)

where L is the Laplacian of the weights phi(d / s) / (s t). It is A-optimal design, with weights on the pairs whose
order is not known; what matters is therefore learned through third agents as well. Pairings are picked one after the
other, each time with t as it will be after those already picked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = ["most_informative", "posterior"]

Floats = NDArray[np.float64]
Name = TypeVar("Name")

_SPREAD = 1.5  # nats (260 Elo points): standard deviation of the prior, wide enough that a dozen games outweigh it
_STEPS = 100


def most_informative(
    names: Sequence[Name],
    points: ArrayLike,
    cost: ArrayLike,
    k: int,
    seed: int = 0,
    *,
    games: float = 2.0,
    left: ArrayLike | None = None,
) -> list[tuple[Name, Name]]:
    """The k pairings that most lower the expected number of pairs in the wrong order, per unit of cost.

    Pure and deterministic. The same pair may be picked several times: play it on as many tasks.

    Args:
        names: P agents.
        points: [P, P] points that the row took from the column so far, ties one half; the diagonal is not looked at.
        cost: of one pairing, in tokens or whatever is scarce: a number for all, or [P, P] symmetric.
        k: how many pairings to pick.
        seed: decides between pairings that promise the same.
        games: games of one pairing: 2 where each agent takes each seat once.
        left: [P, P] symmetric, how often each pair may still be picked; None: as often as wanted.

    Returns:
        Up to k pairs, each in the order of ``names``; fewer only where no more are ``left``.

    Raises:
        ConfigError: shapes that do not fit, negative points, or a cost that is not above 0.
    """
    P = len(names)
    points_PP, cost_PP = _square(points, P, "points"), _square(cost, P, "cost")
    left_PP = _square(np.inf if left is None else left, P, "left").copy()
    off_PP = ~np.eye(P, dtype=bool)
    if (points_PP[off_PP] < 0).any() or not (cost_PP[off_PP] > 0).all():
        raise ConfigError("points are 0 or more and every pairing costs something: give tokens of a pairing, or 1")
    points_PP = np.where(off_PP, points_PP, 0.0)
    mean_P, cov_PP = posterior(points_PP)
    gap_PP = mean_P[:, None] - mean_P
    info_PP = games / (2 + 2 * np.cosh(gap_PP))  # p (1 - p)
    spread_PP = np.where(off_PP, _differences(cov_PP), 1.0)
    equal_PP = np.where(off_PP, np.exp(-(gap_PP**2) / (2 * spread_PP)) / np.sqrt(spread_PP), 0.0)
    order_PP = np.random.default_rng(seed).permutation(P * P).reshape(P, P)
    upper_PP = np.triu(off_PP)
    picked = []
    for _ in range(k):
        open_PP = upper_PP & (left_PP > 0)
        if not open_PP.any():
            break
        rate_PP = np.where(open_PP, _gain(equal_PP, cov_PP, info_PP) / cost_PP, -1.0)
        best_PP = rate_PP >= rate_PP.max() * (1 - 1e-9)
        i, j = divmod(int(np.argmin(np.where(best_PP, order_PP, P * P))), P)
        picked.append((names[i], names[j]))
        left_PP[i, j] -= 1
        side_P = cov_PP[:, i] - cov_PP[:, j]
        cov_PP = cov_PP - np.outer(side_P, side_P) * info_PP[i, j] / (1 + info_PP[i, j] * (side_P[i] - side_P[j]))
    return picked


def posterior(points_PP: Floats) -> tuple[Floats, Floats]:
    """[P] mode and [P, P] covariance of the strengths in nats, by Newton's method (the posterior is log-concave).

    Args:
        points_PP: [P, P] points that the row took from the column, ties one half; 0 on the diagonal.
    """
    P = len(points_PP)
    games_PP = points_PP + points_PP.T
    mean_P = np.zeros(P)
    for _ in range(_STEPS):
        chance_PP = 1 / (1 + np.exp(mean_P - mean_P[:, None]))
        weight_PP = games_PP * chance_PP * (1 - chance_PP)
        slope_P = (points_PP - games_PP * chance_PP).sum(1) - mean_P / _SPREAD**2
        cov_PP = np.asarray(np.linalg.inv(np.diag(weight_PP.sum(1) + 1 / _SPREAD**2) - weight_PP), dtype=np.float64)
        step_P = cov_PP @ slope_P
        # A full step can overshoot where all was won: no strength moves by more than 2 nats at once.
        mean_P = mean_P + step_P * min(1.0, 2.0 / max(1e-12, float(np.abs(step_P).max())))
        if np.abs(step_P).max() < 1e-10:
            break
    return mean_P, cov_PP


def _gain(equal_PP: Floats, cov_PP: Floats, info_PP: Floats) -> Floats:
    """[P, P]: how much fewer pairs stand in the wrong order after one more pairing of row and column, up to a factor.

    Args:
        equal_PP: [P, P] how likely two are to be equal (a density, up to a factor); 0 on the diagonal.
        cov_PP: [P, P] covariance of the strengths, after the pairings already picked.
        info_PP: [P, P] information of a pairing.
    """
    square_PP = _differences(cov_PP)
    np.fill_diagonal(square_PP, 1.0)
    weight_PP = equal_PP / np.sqrt(square_PP)
    laplacian_PP = np.diag(weight_PP.sum(1)) - weight_PP
    fall_PP = _differences(cov_PP @ laplacian_PP @ cov_PP)
    return info_PP / (1 + info_PP * square_PP) * fall_PP


def _differences(form_PP: Floats) -> Floats:
    """[P, P]: (e_i - e_j)' F (e_i - e_j)."""
    own_P = np.diag(form_PP)
    return own_P[:, None] + own_P - 2 * form_PP


def _square(values: ArrayLike, P: int, what: str) -> Floats:
    values_PP = np.asarray(values, dtype=np.float64)
    if values_PP.shape not in ((), (P, P)):
        raise ConfigError(f"{what} has shape {values_PP.shape}: for {P} agents give one number, or [{P}, {P}]")
    return np.broadcast_to(values_PP, (P, P))
