"""Learning from replies that are judged one by one, or ranked among several to one prompt.

With s = log pi(y) - log ref(y) summed over trained tokens:

    kto        desirable:   lambda_d (1 - sigmoid(beta (s - z0)))      Ethayarajh et al. 2024 (2402.01306) eq. 7, 8
               undesirable: lambda_u (1 - sigmoid(beta (z0 - s)))
               z0 = max(0, mean s of mismatched replies), without gradient
    una        implicit reward sigmoid(beta s) against a label or score in [0, 1]    Wang et al. 2024 (2408.15339)
    rrhf       sum over pairs with a better reward of max(0, p_worse - p_better), p = mean log pi,    Yuan et al. 2023
               plus the best reply's likelihood                                                       (2304.05302)
    pro        softmax of p over the reply and all that are ranked below it, one reply after another, Song et al. 2023
               plus the best reply's likelihood                                                       (2306.17492)

UNA's printed equations carry a sign that would maximise the error; here errors are minimised and averaged (its code
adds them up). KTO's z0 averages over all mismatched replies. In PRO each of two tied replies would push the other
away: give rewards without ties, or ``use_temperature=False``.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, relu

from arena.protocols.errors import ConfigError
from arena.training.objectives.precision import widened
from arena.training.objectives.preference import Replies

__all__ = ["kto", "pro", "rrhf", "una_binary_bce", "una_binary_mse", "una_score_mse"]


@widened
def kto(
    replies: Replies,
    labels_B: Tensor,
    mismatched: Replies | None = None,
    *,
    beta: float,
    lambda_d: float = 1.0,
    lambda_u: float = 1.0,
) -> dict[str, Tensor]:
    """Kahneman-Tversky optimisation.

    Args:
        replies: with references.
        labels_B: (B,), non-zero where the reply is desirable; a batch may hold one kind only.
        mismatched: replies that belong to other prompts, with references: they estimate the KL from the reference,
            which is taken to be 0 without them.
        beta: nats of value that a nat of log-ratio is worth.
        lambda_d: weight of desirable replies.
        lambda_u: weight of undesirable ones.

    Returns:
        Scalar ``loss``, the mean over replies, and ``z0``.
    """
    gain_B = replies.log_ratio()
    zero = gain_B.new_zeros(()) if mismatched is None else mismatched.log_ratio().mean().clamp(min=0).detach()
    good_B = labels_B != 0
    value_B = torch.sigmoid(beta * torch.where(good_B, gain_B - zero, zero - gain_B))
    loss_B = torch.where(good_B, lambda_d * (1.0 - value_B), lambda_u * (1.0 - value_B))
    return {"loss": loss_B.mean(), "z0": zero}


@widened
def una_binary_mse(replies: Replies, targets_B: Tensor, *, beta: float) -> dict[str, Tensor]:
    """Mean squared error of the implicit reward's sigmoid against thumbs up (1) or down (0): ``loss``, ``scores``."""
    return una_score_mse(replies, targets_B, beta=beta)


@widened
def una_binary_bce(replies: Replies, targets_B: Tensor, *, beta: float) -> dict[str, Tensor]:
    """Cross-entropy of the implicit reward against thumbs up (1) or down (0): ``loss``, ``scores`` (B,)."""
    implicit_B = beta * replies.log_ratio()
    loss = binary_cross_entropy_with_logits(implicit_B, targets_B.to(implicit_B.dtype))
    return {"loss": loss, "scores": torch.sigmoid(implicit_B).detach()}


@widened
def una_score_mse(
    replies: Replies, targets_B: Tensor, *, beta: float, reduction: Literal["mean", "sum"] = "mean"
) -> dict[str, Tensor]:
    """Squared error of the implicit reward's sigmoid against scores in [0, 1] of another judge.

    Args:
        replies: with references.
        targets_B: (B,).
        beta: of the implicit reward.
        reduction: ``sum`` as the released code.

    Returns:
        Scalar ``loss`` and ``scores`` (B,), without gradient.
    """
    scores_B = torch.sigmoid(beta * replies.log_ratio())
    errors_B = (scores_B - targets_B).square()
    return {"loss": errors_B.sum() if reduction == "sum" else errors_B.mean(), "scores": scores_B.detach()}


@widened
def rrhf(
    candidates: Replies,
    rewards_B: Tensor,
    *,
    sft_coef: float = 1.0,
    sft_reduction: Literal["mean", "sum"] = "sum",
    length_penalty: float = 1.0,
) -> dict[str, Tensor]:
    """Rank responses to align with human feedback: one prompt, B candidates.

    Args:
        candidates: all replies to one prompt.
        rewards_B: (B,); equal rewards say nothing about their pair.
        sft_coef: weight of the likelihood of the best candidate, the first of equals.
        sft_reduction: the sum of the paper, or its mean over tokens.
        length_penalty: p = log pi / tokens^length_penalty.

    Returns:
        Scalars ``loss`` and ``rank_loss`` (without the likelihood).
    """
    tokens_B = (candidates.mask_BT != 0).sum(1).clamp(min=1)
    logps_B = candidates.log_prob()
    p_B = logps_B / tokens_B.to(logps_B.dtype) ** length_penalty
    worse_BB = rewards_B[:, None] < rewards_B[None, :]  # [i, j]: i is worse than j
    rank = (relu(p_B[:, None] - p_B[None, :]) * worse_BB).sum()
    return {"loss": _with_likelihood(rank, candidates, int(rewards_B.argmax()), sft_coef, sft_reduction),
            "rank_loss": rank}  # fmt: skip


@widened
def pro(
    candidates: Replies,
    rewards_B: Tensor,
    *,
    sft_coef: float,
    sft_reduction: Literal["mean", "sum"] = "sum",
    use_temperature: bool = True,
) -> dict[str, Tensor]:
    """Preference ranking optimisation: one prompt, B candidates in rows from best to worst.

    Args:
        candidates: all replies to one prompt.
        rewards_B: (B,), falling.
        sft_coef: weight of the likelihood of the best candidate.
        sft_reduction: its mean over tokens or the sum.
        use_temperature: sharpen each comparison by the difference of rewards; else it is the Plackett-Luce likelihood.

    Returns:
        Scalars ``loss`` and ``pro_loss`` (without the likelihood).

    Raises:
        ConfigError: rewards rise, or tie where they set a temperature.
    """
    gaps = rewards_B[:-1] - rewards_B[1:]
    if bool((gaps < 0).any()) or (use_temperature and bool((gaps == 0).any())):
        raise ConfigError(f"rewards {rewards_B.tolist()} must fall from row to row (order the rows, drop ties)")
    p_B = candidates.log_prob(mean=True)
    total = p_B.new_zeros(())
    for best in range(len(p_B) - 1):
        total = total + _first_of(p_B, rewards_B, best, use_temperature)
    return {"loss": _with_likelihood(total, candidates, 0, sft_coef, sft_reduction), "pro_loss": total}


def _first_of(p_B: Tensor, rewards_B: Tensor, best: int, use_temperature: bool) -> Tensor:
    """-log of the share of row ``best`` among itself and all below."""
    below_B, own = p_B[best + 1 :], p_B[best]
    if use_temperature:
        sharp_B = rewards_B[best] - rewards_B[best + 1 :]
        below_B, own = below_B * sharp_B, own * sharp_B.max()
    return torch.logsumexp(torch.cat([own[None], below_B]), 0) - own


def _with_likelihood(
    loss: Tensor, candidates: Replies, best: int, coef: float, reduction: Literal["mean", "sum"]
) -> Tensor:
    if not coef:
        return loss
    return loss - coef * candidates.log_prob(mean=reduction == "mean")[best]
