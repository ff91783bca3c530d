"""Checks of payoff matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = ["Floats", "antisymmetric", "finite_matrix"]

Floats = NDArray[np.float64]

_TINY = 1e-7  # scores are shares of at most some millions of games


def antisymmetric(payoff: ArrayLike) -> Floats:
    """[P, P], checked.

    Raises:
        ConfigError: it is not antisymmetric, empty or not finite.
    """
    payoff_PP = finite_matrix(payoff)
    if payoff_PP.shape[0] != payoff_PP.shape[1] or np.abs(payoff_PP + payoff_PP.T).max() > _TINY:
        raise ConfigError("the payoff matrix is not antisymmetric: give scores minus one half, or log-odds")
    return (payoff_PP - payoff_PP.T) / 2


def finite_matrix(payoff: ArrayLike) -> Floats:
    """[M, N], checked.

    Raises:
        ConfigError: it is empty or not finite.
    """
    payoff_MN = np.asarray(payoff, dtype=np.float64)
    if payoff_MN.ndim != 2 or not payoff_MN.size or not np.isfinite(payoff_MN).all():
        raise ConfigError("a payoff matrix has two axes and finite numbers: leave out whoever did not meet all others")
    return payoff_MN
