"""PPO with a learned value, as it trains one model from another's rewards.

    value      1/2 agg max((V - R)^2, (clip(V, V_old +- range) - R)^2)    the clipped value loss of the PPO codebase
    entropy    agg of -sum_v p log p at trained tokens
    total      policy + vf_coef value - ent_coef entropy                  Schulman et al. 2017 (1707.06347) eq. 9
    ptx        policy + ptx_coef (token mean of -log pi on pretraining text)    Ouyang et al. 2022 (2203.02155) eq. 2

All are losses to minimise: equation 9 and InstructGPT's objective are printed as what is to be maximised. RLHF with the
KL in the loss is `ppo_policy` with ``beta``; with the KL in the reward see `arena.training.returns.kl_in_reward`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import aggregate
from arena.training.objectives.policy_gradient import ppo_policy
from arena.training.objectives.precision import widened
from arena.training.objectives.supervised import nll

__all__ = ["entropy", "ppo_ptx", "ppo_total", "ppo_value"]


@widened
def ppo_value(
    values_BT: Tensor,
    old_values_BT: Tensor,
    returns_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_range: float | None = 0.2,
    agg: Aggregate = "token_mean",
) -> Tensor:
    """Loss of the value head, a scalar.

    Args:
        values_BT: (B, T), with gradient.
        old_values_BT: (B, T) when the tokens were sampled.
        returns_BT: (B, T) targets.
        mask_BT: (B, T), non-zero where trained.
        clip_range: how far a value may move from its old one before it stops counting; None: any distance.
        agg: see `token_weights`.
    """
    trained_BT = mask_BT != 0
    values_BT, old_BT, returns_BT = (
        torch.where(trained_BT, x_BT, 0.0) for x_BT in (values_BT, old_values_BT.detach(), returns_BT.detach())
    )
    errors_BT = (values_BT - returns_BT).square()
    if clip_range is not None:
        near_BT = old_BT + (values_BT - old_BT).clamp(-clip_range, clip_range)
        errors_BT = torch.maximum(errors_BT, (near_BT - returns_BT).square())
    return 0.5 * aggregate(errors_BT, mask_BT, agg)


@widened
def entropy(logits_BTV: Tensor, mask_BT: Tensor, *, agg: Aggregate = "token_mean") -> Tensor:
    """Entropy in nats of the next-token distributions at trained tokens: (B, T, V), (B, T) -> scalar."""
    logps_BTV = torch.log_softmax(torch.where((mask_BT != 0)[..., None], logits_BTV, 0.0), -1)
    # A token that is excluded (-inf) adds nothing: 0 * inf would be NaN.
    p_BTV = logps_BTV.exp()
    return aggregate(-(p_BTV * torch.where(p_BTV > 0, logps_BTV, 0.0)).sum(-1), mask_BT, agg)


@widened
def ppo_total(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages: Tensor,
    values_BT: Tensor,
    old_values_BT: Tensor,
    returns_BT: Tensor,
    logits_BTV: Tensor,
    mask_BT: Tensor,
    *,
    clip: float = 0.2,
    value_clip: float | None = 0.2,
    vf_coef: float = 0.5,
    ent_coef: float = 0.0,
) -> dict[str, Tensor]:
    """Policy, value and entropy in one loss, averaged over trained tokens.

    Args:
        logps_BT: (B, T) policy, with gradient.
        old_logps_BT: (B, T) the policy that sampled.
        advantages: (B,) or (B, T).
        values_BT, old_values_BT, returns_BT: see `ppo_value`.
        logits_BTV: (B, T, V) policy, with gradient, for the entropy.
        mask_BT: (B, T), non-zero where trained.
        clip: of the ratio, both ways.
        value_clip: ``clip_range`` of `ppo_value`.
        vf_coef: weight of the value loss.
        ent_coef: weight of the entropy, which is subtracted.

    Returns:
        Scalars ``loss``, ``pg_loss``, ``value_loss``, ``entropy``.
    """
    policy = ppo_policy(logps_BT, old_logps_BT, advantages, mask_BT, clip_low=clip, clip_high=clip)["loss"]
    value = ppo_value(values_BT, old_values_BT, returns_BT, mask_BT, clip_range=value_clip)
    spread = entropy(logits_BTV, mask_BT)
    loss = policy + vf_coef * value - ent_coef * spread
    return {"loss": loss, "pg_loss": policy, "value_loss": value, "entropy": spread}


@widened
def ppo_ptx(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages: Tensor,
    mask_BT: Tensor,
    ptx_logps_BT: Tensor,
    ptx_mask_BT: Tensor,
    *,
    ptx_coef: float,
    **options: Any,
) -> dict[str, Tensor]:
    """PPO that keeps the likelihood of pretraining text; ``options`` and results as of `ppo_policy`.

    Args:
        logps_BT, old_logps_BT, advantages, mask_BT: see `ppo_policy`.
        ptx_logps_BT: (B', T') of pretraining text, with gradient.
        ptx_mask_BT: (B', T').
        ptx_coef: weight of the text's mean-token negative log-likelihood; InstructGPT took 27.8.
        options: see `ppo_policy`.
    """
    result = ppo_policy(logps_BT, old_logps_BT, advantages, mask_BT, **options)
    return {**result, "loss": result["loss"] + ptx_coef * nll(ptx_logps_BT, ptx_mask_BT)}
