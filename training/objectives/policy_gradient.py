"""Clipped policy gradients.

    ratio = exp(log pi - log pi_old)
    loss  = -agg min(ratio A, clip(ratio, 1 - low, 1 + high) A)        PPO (arXiv 1707.06347) eq. 7
    A < 0: the objective is at least dual_clip * A                     Dual-clip PPO (arXiv 1912.09729) eq. 5
    level sequence: ratio = exp(mean of the row's log-ratios)          GSPO (arXiv 2507.18071) eq. 7
    score       loss = -agg A log pi, without a ratio                  REINFORCE (Williams 1992)

GRPO, Dr. GRPO, DAPO and GSPO are this loss with another advantage, aggregation or level. Each token is sorted into its
branch by its log-ratio, and only live branches are exponentiated: a clipped token has gradient 0 even if its ratio
overflows, where autograd through min and clamp would give NaN.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from arena.training.objectives import Aggregate, Estimator, Level
from arena.training.objectives.aggregate import aggregate, masked_sum, token_weights
from arena.training.objectives.kl import kl_per_token
from arena.training.objectives.precision import widened

__all__ = ["PolicyLoss", "policy_loss", "ppo_policy", "score_loss"]


class PolicyLoss(NamedTuple):
    """Per-token surrogate."""

    loss_BT: Tensor
    """To minimise; 0 at masked tokens."""
    clipped_BT: Tensor
    """Bool: the token's gradient is cut by a clip."""
    log_ratio_BT: Tensor
    """Log of the ratio at its level, detached."""


@widened
def policy_loss(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    level: Level = "token",
    dual_clip: float | None = None,
    log_ratio_clamp: float | None = None,
) -> PolicyLoss:
    """The clipped surrogate of each token, before aggregation.

    Args:
        logps_BT: (B, T) policy, with gradient.
        old_logps_BT: (B, T) the policy that sampled.
        advantages_BT: (B, T) or (B, 1).
        mask_BT: (B, T), non-zero where trained.
        clip_low: the ratio is cut at 1 - clip_low.
        clip_high: the ratio is cut at 1 + clip_high.
        level: one ratio a token, or one a row (``sequence``: mean log-ratio, ``sequence_sum``: their sum).
        dual_clip: bound of the loss for negative advantages, above 1.
        log_ratio_clamp: cut the log-ratio first; no gradient beyond.
    """
    mask_BT = mask_BT != 0
    log_ratio_BT = torch.where(mask_BT, logps_BT - old_logps_BT, 0.0)
    if level != "token":
        total_B1 = log_ratio_BT.sum(1, keepdim=True)
        if level == "sequence":
            total_B1 = total_B1 / mask_BT.sum(1, keepdim=True).clamp(min=1)
        log_ratio_BT = total_B1.expand_as(mask_BT)
    if log_ratio_clamp is not None:
        log_ratio_BT = log_ratio_BT.clamp(-log_ratio_clamp, log_ratio_clamp)

    advantages_BT = torch.where(mask_BT, advantages_BT.detach(), 0.0)
    at = log_ratio_BT.detach()
    above = (advantages_BT > 0) & (at > math.log1p(clip_high))
    below = (advantages_BT < 0) & (at < (math.log1p(-clip_low) if clip_low < 1 else -math.inf))
    clipped = above | below
    # A clipped token keeps the value of its bound and has no gradient.
    bound_BT = torch.ones_like(at).masked_fill(above, 1.0 + clip_high).masked_fill(below, 1.0 - clip_low)
    if dual_clip is not None:
        dual = (advantages_BT < 0) & (at > math.log(dual_clip))
        clipped, bound_BT = clipped | dual, bound_BT.masked_fill(dual, dual_clip)
    live = (advantages_BT != 0) & ~clipped
    ratio_BT = torch.where(live, torch.exp(torch.where(live, log_ratio_BT, 0.0)), bound_BT)
    return PolicyLoss(-ratio_BT * advantages_BT, clipped, at)


@widened
def score_loss(logps_BT: Tensor, old_logps_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor) -> PolicyLoss:
    """REINFORCE's surrogate of each token, -A log pi, before aggregation; arguments and results as of `policy_loss`.

    It has no ratio and no clip: after the first step on the same samples it is biased, and nothing bounds it. The ratio
    is reported all the same.
    """
    mask_BT = mask_BT != 0
    kept_BT = torch.where(mask_BT, logps_BT, 0.0)
    advantages_BT = torch.where(mask_BT, advantages_BT.detach(), 0.0)
    log_ratio_BT = torch.where(mask_BT, logps_BT.detach() - old_logps_BT, 0.0)
    return PolicyLoss(-advantages_BT * kept_BT, torch.zeros_like(mask_BT), log_ratio_BT)


@widened
def ppo_policy(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    advantages: Tensor,
    mask_BT: Tensor,
    *,
    ref_logps_BT: Tensor | None = None,
    group_ids: Sequence[Hashable] | None = None,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    level: Level = "token",
    dual_clip: float | None = None,
    log_ratio_clamp: float | None = None,
    beta: float = 0.0,
    kl_estimator: Estimator = "k3",
    agg: Aggregate = "token_mean",
    empty_rows: Literal["count", "exclude"] = "count",
    norm_const: float | None = None,
    importance_BT: Tensor | None = None,
) -> dict[str, Tensor]:
    """The whole objective of one batch: aggregated surrogate plus ``beta`` times the aggregated KL.

    Args:
        logps_BT: (B, T) policy, with gradient.
        old_logps_BT: (B, T) the policy that sampled.
        advantages: (B,) or (B, T).
        mask_BT: (B, T), non-zero where trained.
        ref_logps_BT: (B, T) reference; without it the KL is 0.
        group_ids: (B,), see `token_weights`.
        clip_low, clip_high, level, dual_clip, log_ratio_clamp: see `policy_loss`.
        beta: coefficient of the KL.
        kl_estimator: see `arena.training.objectives.kl`.
        agg, empty_rows, norm_const: see `token_weights`.
        importance_BT: (B, T) weights of the surrogate for tokens that a sampler drew which is not quite the trainer
            (`arena.training.objectives.importance`); the KL is not weighted.

    Returns:
        Scalars ``loss``, ``pg_loss``, ``kl`` (aggregated like the loss), ``clip_frac`` (share of trained tokens).
    """
    weights_BT = token_weights(
        mask_BT, agg, group_ids=group_ids, empty_rows=empty_rows, norm_const=norm_const, dtype=logps_BT.dtype
    )
    surrogate = policy_loss(
        logps_BT,
        old_logps_BT,
        advantages[:, None] if advantages.dim() == 1 else advantages,
        mask_BT,
        clip_low=clip_low,
        clip_high=clip_high,
        level=level,
        dual_clip=dual_clip,
        log_ratio_clamp=log_ratio_clamp,
    )
    loss_BT = surrogate.loss_BT if importance_BT is None else surrogate.loss_BT * importance_BT.detach()
    pg_loss = masked_sum(loss_BT, mask_BT, weights_BT)
    kl = torch.zeros_like(pg_loss)
    if ref_logps_BT is not None:
        kl_BT = kl_per_token(logps_BT, ref_logps_BT, mask_BT, estimator=kl_estimator)
        kl = masked_sum(kl_BT, mask_BT, weights_BT)
    clip_frac = aggregate(surrogate.clipped_BT.to(logps_BT.dtype), mask_BT)
    loss = pg_loss + beta * kl if beta else pg_loss
    return {"loss": loss, "pg_loss": pg_loss, "kl": kl, "clip_frac": clip_frac}
