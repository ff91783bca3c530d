"""Several goals at once: a reward under a limit on costs, and rewards that cannot all be had.

lagrangian    lambda grows while costs exceed their limit       Ray et al. 2019 (safety starter agents)
              projected: lambda <- max(0, lambda + lr (J - limit))
              softplus:  lambda = softplus(x), x <- x + lr (J - limit)
              log:       log lambda <- log lambda + lr lambda (J - limit)      Dai et al. 2023 (2310.12773) eq. 31
advantage     (A_reward - lambda A_cost) / (1 + lambda)
scalarise     linear: w . r;  Chebyshev: -(max_i w_i (ideal_i - r_i)) - rho sum_i w_i (ideal_i - r_i)
                                                                Miettinen 1999, section 3.4
Pareto front  what nothing else beats in one goal without losing in another
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError, suggest

__all__ = ["Multiplier", "constrained_advantages", "pareto_front", "scalarise"]

Form = Literal["projected", "softplus", "log"]


class Multiplier:
    """The price of a cost: dual ascent on how far it exceeds its limit.

    Args:
        start: first value, positive.
        limit: of the mean cost.
        lr: step size.
        form: what keeps it at 0 or above (see the module). The safety agents' form is ``softplus``; ``log`` moves in
            proportion to itself.

    Raises:
        ConfigError: unknown form, or a start that the form cannot have.
    """

    def __init__(self, start: float, *, limit: float, lr: float, form: Form = "projected") -> None:
        if form not in get_args(Form):
            raise ConfigError(f"form '{form}' is not known.{suggest(form, get_args(Form))}")
        if start < 0 or (start == 0 and form != "projected"):
            raise ConfigError(f"a multiplier of form '{form}' cannot start at {start}: give a positive number")
        self.value = start
        self.limit = limit
        self.lr = lr
        self.form = form

    def update(self, cost: float) -> float:
        """The multiplier after one more mean cost.

        Raises:
            ConfigError: the cost is not finite.
        """
        if not math.isfinite(cost):
            raise ConfigError(f"a cost of {cost} is not finite")
        step = self.lr * (cost - self.limit)
        if self.form == "projected":
            self.value = max(0.0, self.value + step)
        elif self.form == "log":
            self.value *= math.exp(step * self.value)
        else:
            self.value = _softplus(_inverse_softplus(self.value) + step)
        return self.value


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _inverse_softplus(y: float) -> float:
    return y + math.log(-math.expm1(-y))


def constrained_advantages(
    rewards: ArrayLike, costs: ArrayLike, *, multiplier: float, normalize: bool = True
) -> NDArray[np.float64]:
    """Advantages of a reward less those of a cost at its price; any shape, both the same.

    Args:
        rewards: advantages of the reward.
        costs: advantages of the cost.
        multiplier: price of the cost.
        normalize: divide by 1 + multiplier, so that a rising price does not raise the step size.
    """
    total = np.asarray(rewards, np.float64) - multiplier * np.asarray(costs, np.float64)
    return total / (1.0 + multiplier) if normalize else total


def scalarise(
    rewards_NK: ArrayLike,
    weights_K: Sequence[float],
    *,
    kind: Literal["linear", "chebyshev"] = "linear",
    ideal_K: Sequence[float] | None = None,
    rho: float = 0.0,
) -> NDArray[np.float64]:
    """One number from several rewards, larger for better: (N, K), (K,) -> (N,).

    Args:
        rewards_NK: all to be maximised.
        weights_K: how much each matters.
        kind: ``linear`` finds convex parts of the front only; ``chebyshev`` all of it.
        ideal_K: the point that ``chebyshev`` measures from; the best of each column if absent.
        rho: a small weight of the sum, which rules out points that are only weakly Pareto-optimal.

    Raises:
        ConfigError: unknown kind.
    """
    rewards = np.asarray(rewards_NK, np.float64)
    weights = np.asarray(weights_K, np.float64)
    if kind == "linear":
        return rewards @ weights
    if kind != "chebyshev":
        raise ConfigError(f"kind '{kind}' is not known. There is: linear, chebyshev.")
    ideal = rewards.max(axis=0) if ideal_K is None else np.asarray(ideal_K, np.float64)
    lack = weights * (ideal - rewards)
    found: NDArray[np.float64] = -lack.max(axis=1) - rho * lack.sum(axis=1)
    return found


def pareto_front(points_NK: ArrayLike) -> list[int]:
    """Indices of the points that no other dominates, in order; all columns are maximised, and duplicates stay."""
    points = np.asarray(points_NK, np.float64)
    front = []
    for index, point in enumerate(points):
        dominated = (points >= point).all(axis=1) & (points > point).any(axis=1)
        if not dominated.any():
            front.append(index)
    return front
