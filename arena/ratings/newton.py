"""Newton's method for the likelihood of pairs, for all replicates of a bootstrap at once.

The iteration is the Newton-Raphson one that Hunter (2004, section 5) compares with minorisation: from a good start it
takes three or four steps where the fixed-point iterations of Hunter and of Newman (2023) take tens to thousands. Few
parameters are solved for directly. With many, each step is solved by conjugate gradients preconditioned by the
diagonal, which touch the pairs that met only; where these are too badly connected for that (a long ladder, say), the
direct way is taken after all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from arena.protocols.errors import NumericalError
from arena.ratings.dense import DensePairs
from arena.ratings.likelihood import Design, Tally
from arena.ratings.local import Local, Pairs, SparsePairs
from arena.ratings.matches import Floats

__all__ = ["NotConvergedError", "maximise", "maximise_dense"]

_STEPS = 100
_LONGEST = 4.0
"""Change of log nu in one step; strengths may go far at once, as those of a long ladder must."""
_HALVINGS = 60
_DIRECT = 100
"""Parameters up to which equations are solved directly."""
_MOST_DIRECT = 4000
"""Parameters up to which they can be: 128 MB a matrix."""
_ROUNDS = 60


class NotConvergedError(NumericalError):
    """The likelihood has no finite maximum, or one too far away."""


def maximise(
    design: Design, tally: Tally, *, l2: float = 0.0, start_QR: Floats | None = None, close: float = 1e-6
) -> Floats:
    """Parameters of greatest penalised likelihood, one column a replicate.

    Args:
        design: the pairs.
        tally: their results.
        l2: weight of the penalty l2/2 * (sum(theta^2) + sum(beta^2)).
        start_QR: [Q, R] where to begin; None is what each player's own score would make of it.
        close: a step this short in nats is the last: Newton's error is then about its square.

    Returns:
        [Q, R]: strengths in nats summing to 0, coefficients of the covariates, log nu.

    Raises:
        NotConvergedError: no maximum was found.
    """
    x_QR = _first_guess(design, tally) if start_QR is None else start_QR.copy()
    x_QR[-1] *= tally.tied
    dense = DensePairs.of(design, tally, l2)
    found_QR = None if dense is None else _climb(dense, x_QR, close)
    if found_QR is None:
        found_QR = _climb(SparsePairs(design, tally, l2), x_QR, close)
    if found_QR is None:
        raise NotConvergedError(
            f"the rating fit did not converge in {_STEPS} steps: some agent's strength or some coefficient has no "
            f"finite best value; set l2 (0.1 is a mild prior)"
        )
    return _centred(found_QR, design.players)


def maximise_dense(pairs: DensePairs) -> Floats | None:
    """[Q] parameters of greatest penalised likelihood as of `maximise`, or None where matrices do not reach them."""
    number_P = pairs.number_PP.sum(1)
    log_nu = _log_nu(np.array([pairs.ties]), np.array([number_P.sum() / 2 - pairs.ties]))
    x_Q = np.append(_log_odds(number_P, pairs.score_P), log_nu if pairs.ties else 0.0)
    found_QR = _climb(pairs, x_Q[:, None], 1e-6)
    return None if found_QR is None else _centred(found_QR, len(number_P))[:, 0]


def _first_guess(design: Design, tally: Tally) -> Floats:
    """[Q, R] what each player's own score makes of its strength, and the share of ties of nu."""
    number_PR, score_PR = np.empty((2, design.players, tally.replicates))
    matches_KR, margin_KR = tally.matches, tally.win_KR - tally.loss_KR
    for r in range(tally.replicates):
        number_K, margin_K = matches_KR[:, r], margin_KR[:, r]
        first_P, second_P = (
            np.stack([np.bincount(side_K, values_K, design.players) for values_K in (number_K, margin_K)])
            for side_K in (design.first_K, design.second_K)
        )
        number_PR[:, r] = first_P[0] + second_P[0]
        score_PR[:, r] = (number_PR[:, r] + first_P[1] - second_P[1]) / 2
    log_nu_R = _log_nu(tally.tie_KR.sum(0), (tally.win_KR + tally.loss_KR).sum(0))
    beta_FR = np.zeros((design.covariates, tally.replicates))
    return np.concatenate([_log_odds(number_PR, score_PR), beta_FR, log_nu_R[None]])


def _log_odds(number_PR: Floats, score_PR: Floats) -> Floats:
    """Strengths as if all opponents were equal, none infinite, around 0."""
    theta_PR = np.log((score_PR + 0.5) / (number_PR - score_PR + 0.5))
    return np.asarray(theta_PR - theta_PR.mean(0))


def _log_nu(ties_R: Floats, others_R: Floats) -> Floats:
    """Log of Davidson's nu as if all players were equal."""
    return np.asarray(np.log(np.maximum(2 * ties_R, 1.0) / np.maximum(others_R, 1.0)))


def _centred(x_QR: Floats, players: int) -> Floats:
    x_QR[:players] -= x_QR[:players].mean(0)
    return x_QR


def _climb(pairs: Pairs, x_QR: Floats, close: float) -> Floats | None:
    """The maximum from ``x_QR`` on, or None if there is none in reach."""
    local = pairs.at(x_QR)
    for _ in range(_STEPS):
        if local is None:
            return None
        step_QR = _solve(local)
        longest_R = np.abs(step_QR).max(0)
        if not np.isfinite(longest_R).all():
            return None
        if longest_R.max() <= close:
            return x_QR + step_QR
        uphill_R = (local.gradient_QR * step_QR).sum(0)
        length_R = np.minimum(1.0, _LONGEST / np.maximum(np.abs(step_QR[-1]), 1e-300))
        for _ in range(_HALVINGS):
            local = pairs.at(x_QR + length_R * step_QR)
            if local is None:
                return None
            # The function is concave: a step that goes too far is seen by the slope at its end, downhill by then.
            far_R = (local.gradient_QR * step_QR).sum(0) < -0.5 * uphill_R
            if not far_R.any():
                break
            length_R = np.where(far_R, length_R / 2, length_R)
        x_QR = x_QR + length_R * step_QR
    return None


def _solve(local: Local) -> Floats:
    gradient_QR = local.gradient_QR
    Q = len(gradient_QR)
    if Q > _DIRECT:
        step_QR, solved = _by_conjugate_gradients(local, _ROUNDS if Q <= _MOST_DIRECT else 2 * Q)
        if solved or Q > _MOST_DIRECT:
            return step_QR
    try:
        return np.asarray(np.linalg.solve(local.matrix(), gradient_QR.T[..., None])[..., 0].T, dtype=np.float64)
    except np.linalg.LinAlgError:
        return np.full_like(gradient_QR, np.nan)


def _by_conjugate_gradients(local: Local, rounds: int) -> tuple[Floats, bool]:
    """Hestenes and Stiefel (1952), solved as exactly as quadratic convergence needs; whether that was reached."""
    gradient_QR = local.gradient_QR
    diagonal_QR = local.diagonal()
    diagonal_QR = np.where(diagonal_QR > 0, diagonal_QR, 1.0)
    x_QR = np.zeros_like(gradient_QR)
    rest_QR = gradient_QR
    scaled_QR = rest_QR / diagonal_QR
    way_QR, size_R = scaled_QR, (rest_QR * scaled_QR).sum(0)
    # Step sizes in nats: near the maximum the equations are solved as well as the square of the distance asks.
    target_R = size_R * np.clip(np.abs(scaled_QR).max(0), 1e-5, 0.01) ** 2
    for _ in range(rounds):
        if (size_R <= target_R).all():
            return x_QR, True
        image_QR = local.apply(way_QR)
        length_R = _ratio(size_R, (way_QR * image_QR).sum(0))
        x_QR = x_QR + length_R * way_QR
        rest_QR = rest_QR - length_R * image_QR
        scaled_QR = rest_QR / diagonal_QR
        last_R, size_R = size_R, (rest_QR * scaled_QR).sum(0)
        way_QR = scaled_QR + _ratio(size_R, last_R) * way_QR
    return x_QR, bool((size_R <= target_R).all())


def _ratio(above_R: Floats, below_R: Floats) -> NDArray[np.float64]:
    return np.divide(above_R, below_R, out=np.zeros_like(above_R), where=below_R > 0)
