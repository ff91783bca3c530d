"""KL divergence of the policy from its reference, KL(policy || reference), in nats.

    exact   sum_v p(v) (log p(v) - log q(v))            the whole distribution at a position
    k1      log p - log q                               unbiased, negative values; as a loss its expected gradient is 0
    k2      (log p - log q)^2 / 2                       as a loss its expected gradient is that of the KL
    k3      q/p - log(q/p) - 1                          unbiased, >= 0; as a loss it pulls down KL(reference || policy)
    abs     |log p - log q|

The last four see one sampled token (Schulman, "Approximating KL divergence", 2020). All are the KL at the visited
positions; how the policy changes which positions are visited is left to the policy gradient.
"""

from __future__ import annotations

import math
from typing import get_args

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError, suggest
from arena.training.objectives import Estimator
from arena.training.objectives.precision import widened

__all__ = ["best_of_n_kl", "exact_kl", "kl_from_logps", "kl_per_token"]


@widened
def kl_per_token(
    logps_BT: Tensor,
    ref_logps_BT: Tensor,
    mask_BT: Tensor | None = None,
    *,
    estimator: Estimator = "k3",
    clamp: float | None = None,
    linear_from: float | None = None,
) -> Tensor:
    """Sampled estimate of the KL at each token.

    Args:
        logps_BT: (B, T) policy, with gradient.
        ref_logps_BT: (B, T) reference.
        mask_BT: (B, T); masked entries give 0.
        estimator: see the module.
        clamp: cut the log-ratio at +-clamp. Finite, but the gradient is 0 beyond, where the pull is needed most.
        linear_from: continue k3 as its tangent where log q - log p exceeds this: finite, and the pull never dies.

    Returns:
        (B, T).

    Raises:
        ConfigError: unknown estimator.
    """
    if estimator not in get_args(Estimator):
        raise ConfigError(f"KL estimator '{estimator}' is not known.{suggest(estimator, get_args(Estimator))}")
    gap_BT = logps_BT - ref_logps_BT
    if mask_BT is not None:
        gap_BT = torch.where(mask_BT != 0, gap_BT, 0.0)
    if clamp is not None:
        gap_BT = gap_BT.clamp(-clamp, clamp)
    if estimator == "k1":
        return gap_BT
    if estimator == "k2":
        return 0.5 * gap_BT.square()
    if estimator == "abs":
        return gap_BT.abs()
    if linear_from is None:
        return torch.expm1(-gap_BT) + gap_BT
    within_BT = (-gap_BT).clamp(max=linear_from)
    beyond_BT = torch.relu(-gap_BT - linear_from) * torch.exp(gap_BT.new_tensor(linear_from))
    return torch.expm1(within_BT) + beyond_BT + gap_BT


@widened
def exact_kl(p_logits_NV: Tensor, q_logits_NV: Tensor) -> Tensor:
    """KL(softmax(p) || softmax(q)) of each row: (N, V), (N, V) -> (N,). Tokens that p excludes contribute 0."""
    return kl_from_logps(torch.log_softmax(p_logits_NV, -1), torch.log_softmax(q_logits_NV, -1))


@widened
def kl_from_logps(p_logps_NV: Tensor, q_logps_NV: Tensor) -> Tensor:
    """`exact_kl` of normalised log-probs."""
    p_NV = p_logps_NV.exp()
    # 0 * (-inf - q) would be NaN, in the value and in the gradient.
    gap_NV = torch.where(p_NV > 0, p_logps_NV - q_logps_NV, 0.0)
    return (p_NV * gap_NV).sum(-1)


def best_of_n_kl(n: int) -> float:
    """Nats by which the best of n samples may diverge from one: log n - (n - 1) / n.

    Stiennon et al. 2020 (2009.01325), appendix G.3; an upper bound where answers can be equally good (Beirami et al.
    2024, 2401.01879).

    Raises:
        ConfigError: n is less than 1.
    """
    if n < 1:
        raise ConfigError(f"best of {n} is nothing: n is at least 1")
    return math.log(n) - (n - 1) / n
