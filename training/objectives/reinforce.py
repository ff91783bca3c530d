"""Policy gradients without a learned value: the score function, and what is subtracted from returns.

    reinforce       -agg (R - b) log pi                          Williams 1992
    rloo            -mean_b A_b sum_t log pi_t, A against the others of the group    Ahmadian et al. 2024 (2402.14740)
                    clipped_sequence: PPO's clip with one ratio a row, as TRL has it
    reinforce_pp    PPO's clip on returns-to-go of r_t = -beta (log pi_old - log ref) + score on the last token,
                    whitened over the tokens of the batch        Hu et al. 2025 (2501.03262)
                    with groups (the -baseline variant): the score less its group's mean, whitened, and a k2 KL in
                    the loss instead of the reward
    cot_ro          -mean_b sum_t c_t log pi_t, rewards on steps
                    literal: c_t = gamma^(t-1) r_t               the survey's printed formula, no policy gradient
                    rtg:     c_t = sum_{u >= t} gamma^(u-t) r_u  the customary one
                    exact:   c_t = gamma^(t-1) times that        unbiased for the discounted return
                    total:   c_t = sum_u gamma^(u-1) r_u         unbiased, more noise (Sutton and Barto, chapter 13)
    hrl_tar         planner: -sum_k G_k log pi_k; executor: the same within each segment, whose clock starts anew

The survey's OB-RL, V-RL and PS-RL are `reinforce` with an outcome, a verifier's score, or the share of tests passed
(`pass_rate`) as return. Returns and baselines carry no gradient. t counts trained tokens of a row.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from arena.protocols.errors import ConfigError, suggest
from arena.training.advantages import group_advantages
from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import aggregate
from arena.training.objectives.policy_gradient import ppo_policy
from arena.training.objectives.precision import widened
from arena.training.objectives.supervised import whiten
from arena.training.returns import kl_in_reward, returns_to_go

__all__ = ["cot_ro", "hrl_tar", "pass_rate", "reinforce", "reinforce_pp", "rloo"]

Form = Literal["literal", "rtg", "exact", "total"]


@widened
def reinforce(
    logps_BT: Tensor,
    returns: Tensor,
    mask_BT: Tensor,
    *,
    baseline: Tensor | float = 0.0,
    agg: Aggregate = "seq_mean_token_sum",
) -> Tensor:
    """Score-function loss, a scalar.

    Args:
        logps_BT: (B, T) policy, with gradient.
        returns: (B,) of each row, or (B, T) of each token.
        mask_BT: (B, T), non-zero where trained.
        baseline: what is subtracted: a number, (B,) or (B, T).
        agg: see `token_weights`.
    """
    baseline = torch.as_tensor(baseline, dtype=logps_BT.dtype, device=logps_BT.device)
    gain_BT = (_by_token(returns) - _by_token(baseline)).detach().expand_as(logps_BT)
    kept_BT = mask_BT != 0
    return -aggregate(torch.where(kept_BT, gain_BT, 0.0) * torch.where(kept_BT, logps_BT, 0.0), mask_BT, agg)


@widened
def pass_rate(passed_B: Tensor, total_B: Tensor) -> Tensor:
    """(B,) share of unit tests passed: the return of program synthesis. Without tests it is 0, not undefined."""
    return torch.where(total_B > 0, passed_B / total_B.clamp(min=1), 0.0)


@widened
def rloo(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    rewards_B: Sequence[float],
    group_ids: Sequence[Hashable],
    mask_BT: Tensor,
    *,
    ref_logps_BT: Tensor | None = None,
    form: Literal["reinforce", "clipped_sequence"] = "reinforce",
    kl_beta: float = 0.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> dict[str, Tensor]:
    """Each row's reward against the mean of the others of its group.

    Args:
        logps_BT: (B, T) policy, with gradient.
        old_logps_BT: (B, T) the policy that sampled.
        rewards_B: (B,).
        group_ids: (B,) prompts; a group of one teaches nothing.
        mask_BT: (B, T), non-zero where trained.
        ref_logps_BT: (B, T) reference, for ``kl_beta``.
        form: the paper's, or a clipped ratio of whole rows.
        kl_beta: price of a nat of log pi_old - log ref of the row, taken off its reward.
        clip_low, clip_high: for ``clipped_sequence``.

    Returns:
        Scalar ``loss`` and ``advantages`` (B,).

    Raises:
        ConfigError: unknown form, or ``kl_beta`` without a reference.
    """
    if form not in ("reinforce", "clipped_sequence"):
        raise ConfigError(f"form '{form}' is not known. There is: reinforce, clipped_sequence.")
    rewards = np.asarray(rewards_B, np.float64)
    if kl_beta:
        if ref_logps_BT is None:
            raise ConfigError("kl_beta needs log-probs of a reference: give ref_logps_BT")
        gap_BT = torch.where(mask_BT != 0, old_logps_BT - ref_logps_BT, 0.0)
        rewards = rewards - kl_beta * gap_BT.detach().sum(1).double().cpu().numpy()
    advantages_B = _like(group_advantages(rewards, group_ids, kind="rloo"), logps_BT)
    if form == "reinforce":
        loss = reinforce(logps_BT, advantages_B, mask_BT)
    else:
        clipped = ppo_policy(
            logps_BT, old_logps_BT, advantages_B, mask_BT,
            level="sequence_sum", agg="seq_mean_token_mean", clip_low=clip_low, clip_high=clip_high,
        )  # fmt: skip
        loss = clipped["loss"]
    return {"loss": loss, "advantages": advantages_B}


@widened
def reinforce_pp(
    logps_BT: Tensor,
    old_logps_BT: Tensor,
    ref_logps_BT: Tensor,
    scores_B: Sequence[float],
    mask_BT: Tensor,
    *,
    group_ids: Sequence[Hashable] | None = None,
    beta: float = 0.0,
    kl_loss_coef: float = 0.0,
    ddof: int = 0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> dict[str, Tensor]:
    """REINFORCE++, or with ``group_ids`` its -baseline variant.

    Args:
        logps_BT: (B, T) policy, with gradient.
        old_logps_BT: (B, T) the policy that sampled.
        ref_logps_BT: (B, T) reference.
        scores_B: (B,) reward of each row.
        mask_BT: (B, T), non-zero where trained.
        group_ids: (B,) prompts.
        beta: price of the KL in the reward (without groups).
        kl_loss_coef: weight of the k2 KL in the loss (with groups).
        ddof: 1 whitens by the sample variance.
        clip_low, clip_high: of the ratio.

    Returns:
        As `ppo_policy`, and ``advantages`` (B, T).

    Raises:
        ConfigError: a KL coefficient of the other variant.
    """
    if (beta and group_ids is not None) or (kl_loss_coef and group_ids is None):
        raise ConfigError("beta is for REINFORCE++ without groups, kl_loss_coef for its variant with groups")
    if group_ids is None:
        arrays = [x_BT.detach().double().cpu().numpy() for x_BT in (old_logps_BT, ref_logps_BT, mask_BT)]
        rewards_BT = kl_in_reward(scores_B, *arrays, beta=beta)
        raw_BT = _like(returns_to_go(rewards_BT, arrays[2]), logps_BT)
    else:
        raw_BT = _like(group_advantages(scores_B, group_ids, kind="dr_grpo"), logps_BT)[:, None].expand_as(logps_BT)
    advantages_BT = whiten(raw_BT, mask_BT, ddof=ddof)
    grouped: dict[str, Any] = {} if group_ids is None else {"beta": kl_loss_coef, "ref_logps_BT": ref_logps_BT}
    result = ppo_policy(
        logps_BT, old_logps_BT, advantages_BT, mask_BT,
        clip_low=clip_low, clip_high=clip_high, kl_estimator="k2", **grouped,
    )  # fmt: skip
    return {**result, "advantages": advantages_BT}


@widened
def cot_ro(
    logps_BT: Tensor, rewards_BT: Tensor, mask_BT: Tensor, *, form: Form = "rtg", gamma: float = 1.0
) -> dict[str, Tensor]:
    """Rewards on the steps of a chain of thought.

    Args:
        logps_BT: (B, T) policy, with gradient.
        rewards_BT: (B, T), on trained tokens.
        mask_BT: (B, T), non-zero where trained.
        form: see the module; ``literal`` is for comparison only.
        gamma: discount a trained token.

    Returns:
        Scalar ``loss``, the mean over rows, and ``coefficients`` (B, T).

    Raises:
        ConfigError: unknown form.
    """
    if form not in get_args(Form):
        raise ConfigError(f"form '{form}' is not known.{suggest(form, get_args(Form))}")
    kept_BT = mask_BT != 0
    rewards_BT = torch.where(kept_BT, rewards_BT, 0.0)
    clock_BT = (kept_BT.cumsum(1) - 1).clamp(min=0).to(rewards_BT.dtype)
    discount_BT = torch.pow(torch.full_like(rewards_BT, gamma), clock_BT)
    if form == "literal":
        coefficients_BT = discount_BT * rewards_BT
    elif form == "total":
        coefficients_BT = (discount_BT * rewards_BT).sum(1, keepdim=True).expand_as(rewards_BT)
    else:
        arrays = [x_BT.detach().double().cpu().numpy() for x_BT in (rewards_BT, kept_BT)]
        coefficients_BT = _like(returns_to_go(*arrays, gamma=gamma), logps_BT)
        if form == "exact":
            coefficients_BT = discount_BT * coefficients_BT
    coefficients_BT = torch.where(kept_BT, coefficients_BT, 0.0)
    return {"loss": reinforce(logps_BT, coefficients_BT, mask_BT), "coefficients": coefficients_BT}


@widened
def hrl_tar(
    hi_logps_BK: Tensor,
    hi_rewards_BK: Tensor,
    hi_mask_BK: Tensor,
    lo_logps_BT: Tensor,
    lo_rewards_BT: Tensor,
    lo_segments_BT: Tensor,
    *,
    gamma_hi: float = 1.0,
    gamma_lo: float = 1.0,
    lo_coef: float = 1.0,
    share_hi: bool = False,
) -> dict[str, Tensor]:
    """A planner and the executors of its steps, each by REINFORCE on its own returns.

    Args:
        hi_logps_BK: (B, K) log-probs of the planner's steps, with gradient.
        hi_rewards_BK: (B, K).
        hi_mask_BK: (B, K), non-zero where there is a step.
        lo_logps_BT: (B, T) log-probs of the executors' tokens, with gradient.
        lo_rewards_BT: (B, T).
        lo_segments_BT: (B, T) which step a token belongs to; -1 is nobody's, such as what a tool returned.
        gamma_hi: discount a step.
        gamma_lo: discount a token of a segment.
        lo_coef: weight of the executors' loss.
        share_hi: an executor also earns the planner's return from its step on.

    Returns:
        Scalars ``loss`` (mean over rows) and, without gradient, the mean returns ``J`` (each segment discounted by its
        own clock) and ``J_global`` (by the clock of the row): the survey's formula leaves open which is meant.
    """
    kept_BT = lo_segments_BT >= 0
    hi_BK = _like(returns_to_go(*_numpy(hi_rewards_BK, hi_mask_BK), gamma=gamma_hi), hi_logps_BK)
    lo_BT, local_BT = torch.zeros_like(lo_logps_BT), torch.zeros_like(lo_logps_BT)
    for k in range(hi_logps_BK.shape[1]):
        own_BT = lo_segments_BT == k
        lo_BT = lo_BT + _like(returns_to_go(*_numpy(lo_rewards_BT, own_BT), gamma=gamma_lo), lo_logps_BT)
        local_BT = local_BT + torch.where(own_BT, own_BT.cumsum(1) - 1, 0).to(local_BT.dtype)
        if share_hi:
            lo_BT = torch.where(own_BT, lo_BT + hi_BK[:, k : k + 1], lo_BT)
    loss = reinforce(hi_logps_BK, hi_BK, hi_mask_BK) + lo_coef * reinforce(lo_logps_BT, lo_BT, kept_BT)
    rewards_BT = torch.where(kept_BT, lo_rewards_BT, 0.0)
    planned = torch.where(hi_mask_BK != 0, hi_rewards_BK, 0.0).sum(1)
    row_BT = (kept_BT.cumsum(1) - 1).clamp(min=0).to(local_BT.dtype)
    local, whole = ((planned + (gamma_lo**clock_BT * rewards_BT).sum(1)).mean() for clock_BT in (local_BT, row_BT))
    return {"loss": loss, "J": local.detach(), "J_global": whole.detach()}


def _by_token(values: Tensor) -> Tensor:
    return values[:, None] if values.dim() == 1 else values


def _numpy(rewards: Tensor, mask: Tensor) -> list[Any]:
    return [x.detach().double().cpu().numpy() for x in (rewards, mask)]


def _like(values: Any, other: Tensor) -> Tensor:
    return torch.as_tensor(values, dtype=other.dtype, device=other.device)
