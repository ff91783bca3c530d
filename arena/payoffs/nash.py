"""Mixtures of agents: the one that gains most in the worst case, and Nash averaging.

`maxent_nash` is, of the mixtures of agents that nobody beats, the one of largest entropy. It is unique, and copies of
an agent share its weight, so that it does not depend on how often somebody was entered: Nash averaging (Balduzzi,
Tuyls, Perolat and Graepel 2018, "Re-evaluating evaluation", 1806.02643, section 3). The rating of agent i under it is
(A p)_i.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.payoffs.matrices import Floats, antisymmetric, finite_matrix
from arena.protocols.errors import NumericalError

__all__ = ["maxent_nash", "maximin"]

_BEATEN = 1e-5  # of the largest payoff: by how much a mixture may be beaten for the solver's rounding


def maximin(payoff: ArrayLike) -> tuple[Floats, float]:
    """The mixture of rows that gains most from the column which is worst for it (von Neumann 1928).

    Args:
        payoff: [M, N] what the row gains from the column, finite.

    Returns:
        [M] weights, one of several if there are several, and the value of the game.

    Raises:
        ConfigError: the matrix is empty or not finite.
    """
    payoff_MN = finite_matrix(payoff)
    rows, columns = payoff_MN.shape
    best = _linear_program(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.column_stack([-payoff_MN.T, np.ones(columns)]),
        b_ub=np.zeros(columns),
        A_eq=[[1.0] * rows + [0.0]],
        b_eq=[1.0],
        bounds=[(0, 1)] * rows + [(None, None)],
    )
    weight_M = np.maximum(best[:rows], 0.0)
    weight_M /= weight_M.sum()
    return weight_M, float((weight_M @ payoff_MN).min())


def maxent_nash(payoff: ArrayLike) -> Floats:
    """The mixture of largest entropy among those that no pure strategy beats, which is unique.

    Args:
        payoff: [P, P] antisymmetric: what the row gains from the column.

    Returns:
        [P] weights; exactly 0 for whoever is in no such mixture.

    Raises:
        ConfigError: the matrix is not antisymmetric, empty or not finite.
        NumericalError: a solver did not converge.
    """
    payoff_PP = antisymmetric(payoff)
    scale = np.abs(payoff_PP).max()
    if scale == 0:
        return np.full(len(payoff_PP), 1 / len(payoff_PP))
    payoff_PP = payoff_PP / scale
    inside_P = _widest_support(payoff_PP)
    weight_P = np.zeros(len(payoff_PP))
    weight_P[inside_P] = _most_even(payoff_PP[inside_P], inside_P)
    if (weight_P @ payoff_PP).min() < -_BEATEN:
        raise NumericalError("the mixture of largest entropy was not found: the payoff matrix is nearly degenerate")
    return weight_P


def _widest_support(payoff_PP: Floats) -> NDArray[np.intp]:
    """Indices of all that are in some optimal mixture, by one linear program.

    Optimal mixtures, scaled by any factor, are a cone: y >= 0, A' y >= 0. With u <= y and u <= 1, the sum of u is
    largest where u is 1 for everybody who can have any weight at all.
    """
    P = len(payoff_PP)
    best = _linear_program(
        np.concatenate([np.zeros(P), -np.ones(P)]),
        A_ub=np.block([[-payoff_PP.T, np.zeros((P, P))], [-np.eye(P), np.eye(P)]]),
        b_ub=np.zeros(2 * P),
        bounds=[(0, None)] * P + [(0, 1)] * P,
    )
    return np.flatnonzero(best[P:] > 0.5)


def _linear_program(cost: Floats, **constraints: Any) -> Floats:
    """The minimum, by HiGHS."""
    from scipy.optimize import linprog

    done = linprog(cost, method="highs", **constraints)
    if not done.success:
        raise NumericalError(f"the linear program of the payoff matrix was not solved: {done.message}")
    return np.asarray(done.x, dtype=np.float64)


def _most_even(payoff_SP: Floats, inside_S: NDArray[np.intp]) -> Floats:
    """[S] weights of largest entropy with no column beating them, where all of them are known to be above 0.

    Then the columns of the support are even with every optimal mixture and the others do not gain. By duality the
    weights are p_i = exp((A m)_i) / Z at the multipliers m that minimise log Z, free for the former columns and >= 0
    for the latter.
    """
    from scipy.optimize import minimize
    from scipy.special import logsumexp, softmax

    P = payoff_SP.shape[1]
    free = set(inside_S.tolist())

    def dual(m_P: Floats) -> tuple[float, Floats]:
        z_S = payoff_SP @ m_P
        return float(logsumexp(z_S)), softmax(z_S) @ payoff_SP

    bounds = [(None if column in free else 0.0, None) for column in range(P)]
    found = minimize(
        dual,
        np.zeros(P),
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": 20_000, "maxfun": 200_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30},
    )
    return np.asarray(softmax(payoff_SP @ found.x), dtype=np.float64)
