"""How strongly the policy is pulled to its reference.

    additive         beta <- beta (1 + gain clip(KL / target - 1, -0.2, 0.2))     Ziegler et al. 2019 (arXiv 1909.08593)
    multiplicative   beta <- beta exp(gain clip(log(KL / target), -clip, clip))   with gain 1 a KL of twice the target
                                                                                  doubles beta

The first form moves at most 2 % a step with the paper's gain of 0.1: safe for long runs, far too slow for a few
hundred steps. A floor keeps the pull ready while the policy still sits on the reference, where every controller lets
beta decay. It never falls to 0, whatever the floor, since nothing would bring it back from there.
"""

from __future__ import annotations

import math
from typing import Literal

from arena.protocols.errors import ConfigError, NumericalError

__all__ = ["KLController"]

_LEAST = 1e-8
"""Of a coefficient that adapts: far below any that pulls, and a few hundred steps from one that does."""


class KLController:
    """A bounded coefficient for one policy; fixed when there is no target.

    Raises:
        ConfigError: bounds or gain that cannot work.
    """

    def __init__(
        self,
        beta: float,
        *,
        target: float | None = None,
        form: Literal["additive", "multiplicative"] = "additive",
        gain: float = 0.1,
        horizon: float | None = None,
        batch: int = 1,
        clip: float | None = None,
        floor: float = 0.0,
        ceiling: float = math.inf,
    ) -> None:
        if not 0.0 <= floor <= beta <= ceiling:
            raise ConfigError(f"KL coefficient {beta:g} must lie between floor {floor:g} and ceiling {ceiling:g}")
        if target is not None and not (target > 0.0 and beta > 0.0 and gain > 0.0):
            raise ConfigError(f"KL target {target:g}, beta {beta:g} and gain {gain:g} must be above 0 to adapt")
        if form not in ("additive", "multiplicative"):
            raise ConfigError(f"KL controller '{form}' is not known. There is: additive, multiplicative.")
        self.beta = beta
        self.target = target
        self.form = form
        # Released code of Ziegler et al. states the gain as (episodes a step) / horizon.
        self.gain = gain if horizon is None else batch / horizon
        self.clip = (0.2 if form == "additive" else math.log(2.0)) if clip is None else clip
        self.floor = floor
        self.ceiling = ceiling

    def update(self, kl: float) -> float:
        """Move beta after a measured KL (nats, same unit as the target; sampled estimates may be negative).

        Returns:
            The new beta.

        Raises:
            NumericalError: the KL is not finite; beta stays.
        """
        if not math.isfinite(kl):
            raise NumericalError(f"the measured KL to the reference is {kl}; the coefficient stays at {self.beta:g}")
        if self.target is None:
            return self.beta
        ratio = max(kl, 0.0) / self.target
        if self.form == "additive":
            factor = 1.0 + self.gain * _clip(ratio - 1.0, self.clip)
        else:
            error = math.log(ratio) if ratio > 0.0 else -math.inf
            factor = math.exp(self.gain * _clip(error, self.clip))
        self.beta = min(max(self.beta * factor, self.floor, _LEAST), self.ceiling)
        return self.beta

    def state_dict(self) -> dict[str, float]:
        """All that changes."""
        return {"beta": self.beta}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """Continue from a saved state."""
        self.beta = float(state["beta"])


def _clip(value: float, bound: float) -> float:
    return min(max(value, -bound), bound)
