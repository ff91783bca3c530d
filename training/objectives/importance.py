"""The sampler is not quite the trainer: weights for tokens that another program drew.

An inference engine rounds otherwise than the trainer does, so its log-probs differ a little, sometimes much. With
w = exp(log pi_old - log pi_rollout), both of the same weights:

    truncate   min(w, cap)                           TIS: Yao et al. 2025, "Your efficient RL framework secretly brings
                                                     you off-policy RL training"
    mask       w where floor <= w <= cap, else 0     IcePop, masked importance sampling

The weights carry no gradient and multiply the surrogate only: a KL to the reference is about the policy itself.
"""

from __future__ import annotations

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError, suggest
from arena.training.objectives.precision import widened

__all__ = ["sampler_weights"]

Mode = Literal["truncate", "mask"]
Unit = Literal["token", "sequence"]


@widened
def sampler_weights(
    old_logps_BT: Tensor,
    rollout_logps_BT: Tensor,
    mask_BT: Tensor,
    *,
    cap: float = 2.0,
    level: Unit = "token",
    mode: Mode = "truncate",
    floor: float = 0.0,
) -> Tensor:
    """Importance weight of each token, without gradient.

    Args:
        old_logps_BT: (B, T) of the sampling weights, computed by the trainer.
        rollout_logps_BT: (B, T) as the sampler gave them.
        mask_BT: (B, T), non-zero where trained.
        cap: largest weight.
        level: one weight a token, or one a row (from the sum of its log-ratios).
        mode: cut weights above the cap, or drop what lies outside floor and cap.
        floor: smallest weight that ``mask`` keeps.

    Returns:
        (B, T), 0 at masked tokens.

    Raises:
        ConfigError: unknown level or mode, or a cap that is not positive.
    """
    if level not in get_args(Unit):
        raise ConfigError(f"level '{level}' is not known.{suggest(level, get_args(Unit))}")
    if mode not in get_args(Mode):
        raise ConfigError(f"mode '{mode}' is not known.{suggest(mode, get_args(Mode))}")
    if not cap > 0:
        raise ConfigError(f"cap={cap} is not positive")
    trained_BT = mask_BT != 0
    log_BT = torch.where(trained_BT, (old_logps_BT - rollout_logps_BT).detach(), 0.0)
    if level == "sequence":
        log_BT = log_BT.sum(1, keepdim=True).expand_as(log_BT)
    # Cut before exp, which would overflow; a weight that `mask` drops need not be right, only above the cap.
    weights_BT = torch.exp(log_BT.clamp(max=math.log(cap) + 1.0))
    if mode == "truncate":
        kept_BT = weights_BT.clamp(max=cap)
    else:
        kept_BT = torch.where((weights_BT >= floor) & (weights_BT <= cap), weights_BT, 0.0)
    return torch.where(trained_BT, kept_BT, 0.0)
