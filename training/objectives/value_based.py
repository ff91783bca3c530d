"""Offline learning of values: what a token is worth, from logged transcripts alone.

    expectile   |tau - 1[u < 0]| u^2                        IQL (Kostrikov et al. 2021, 2110.06169) eq. 5
    ilql        TD error of Q, expectile of min Q - V, and cross-entropy of softmax(Q) at the logged token
                                                            Snell et al. 2022 (2206.11871) section 4
    decoding    log pi + beta (Q - V), normalised           the same, eq. 3
    cql         TD error, and Q of actions from mu minus Q of the logged action, both at logged states
                                                            Kumar et al. 2020 (2006.04779) eq. 2, 3
    verifierq   a step verifier as a Q-function             after VerifierQ (Qi et al. 2024, 2410.08048)

Targets carry no gradient. The survey leaves out ILQL's expectile loss, without which Q has no target, and takes CQL's
states from mu too. `verifierq_style` is a reconstruction from the abstract: the constants of the paper could not be
checked, and its two-expectile penalty is not here.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError, suggest
from arena.training.objectives.precision import widened

__all__ = ["cql", "expectile", "ilql", "ilql_logps", "verifierq_style"]

Mu = Literal["logsumexp", "uniform", "given"]
Bellman = Literal["half", "clip", "plain"]


@widened
def expectile(u: Tensor, *, tau: float) -> Tensor:
    """Asymmetric square of each entry: tau u^2 above 0, (1 - tau) u^2 below; any shape."""
    return torch.where(u < 0, (1.0 - tau) * u.square(), tau * u.square())


@widened
def ilql(
    q_BTV: Tensor,
    target_q_BTV: Tensor,
    v_BS: Tensor,
    actions_BT: Tensor,
    rewards_BT: Tensor,
    mask_BT: Tensor,
    *,
    q2_BTV: Tensor | None = None,
    target_q2_BTV: Tensor | None = None,
    gamma: float,
    tau: float,
    cql_alpha: float,
    v_coef: float = 1.0,
    cql_temp: float = 1.0,
) -> dict[str, Tensor]:
    """Implicit language Q-learning; each part is a mean over trained tokens, summed over the heads of Q.

    Args:
        q_BTV: (B, T, V) Q of every token, with gradient.
        target_q_BTV: (B, T, V) of the slow copy.
        v_BS: (B, T + 1) state values, with gradient. The state after a token is that of the next trained token of its
            row; behind the last one the episode is over, and the value 0.
        actions_BT: (B, T) logged tokens.
        rewards_BT: (B, T).
        mask_BT: (B, T), non-zero where trained.
        q2_BTV: a second head, whose minimum with the first is the target of V.
        target_q2_BTV: its slow copy.
        gamma: discount a token.
        tau: expectile; 0.5 is the mean.
        cql_alpha: weight of the cross-entropy.
        v_coef: weight of the expectile loss.
        cql_temp: temperature of the softmax over Q.

    Returns:
        Scalars ``loss``, ``q_loss``, ``v_loss``, ``cql_loss``.
    """
    mask_BT, index_BT1 = mask_BT != 0, actions_BT[..., None]
    # Masked entries go first: a NaN among them would come back in the gradient of the softmax.
    q_BTV, target_q_BTV = _kept(q_BTV, mask_BT), _kept(target_q_BTV, mask_BT)
    q2_BTV = None if q2_BTV is None else _kept(q2_BTV, mask_BT)
    next_BT = _kept(rewards_BT, mask_BT) + gamma * _next_value(v_BS, mask_BT)
    target_BT = target_q_BTV.gather(2, index_BT1)[..., 0]
    if target_q2_BTV is not None:
        target_BT = torch.minimum(target_BT, target_q2_BTV.gather(2, index_BT1)[..., 0])
    heads = [q_BTV] if q2_BTV is None else [q_BTV, q2_BTV]
    q_loss = _mean(sum((head.gather(2, index_BT1)[..., 0] - next_BT).square() for head in heads), mask_BT)
    v_loss = _mean(expectile(target_BT.detach() - _kept(v_BS[:, :-1], mask_BT), tau=tau), mask_BT)
    cross = sum(-torch.log_softmax(head / cql_temp, 2).gather(2, index_BT1)[..., 0] for head in heads)
    cql_loss = _mean(cross, mask_BT)
    loss = q_loss + v_coef * v_loss + cql_alpha * cql_loss
    return {"loss": loss, "q_loss": q_loss, "v_loss": v_loss, "cql_loss": cql_loss}


@widened
def ilql_logps(lm_logits_NV: Tensor, q_NV: Tensor, v_N: Tensor, *, beta: float) -> Tensor:
    """Log-probs to decode with: (N, V), (N, V), (N,) -> (N, V), the language model's moved by beta (Q - V)."""
    return torch.log_softmax(torch.log_softmax(lm_logits_NV, -1) + beta * (q_NV - v_N[:, None]), -1)


@widened
def cql(
    q_NV: Tensor,
    next_target_q_NV: Tensor,
    actions_N: Tensor,
    rewards_N: Tensor,
    done_N: Tensor,
    *,
    mu_NV: Tensor | None = None,
    alpha: float,
    gamma: float,
    mode: Mu = "logsumexp",
    half: bool = True,
) -> dict[str, Tensor]:
    """Conservative Q-learning: TD error plus ``alpha`` times how much unlogged actions are overrated.

    Args:
        q_NV: (N, V) with gradient.
        next_target_q_NV: (N, V) of the slow copy at the next state; its largest is the target.
        actions_N: (N,) logged.
        rewards_N: (N,).
        done_N: (N,), non-zero where the episode ended.
        mu_NV: (N, V) probabilities of actions, for ``given``.
        alpha: weight of the penalty.
        gamma: discount.
        mode: mu is the softmax of Q (as log-sum-exp: CQL(H)), uniform, or given.
        half: the factor 1/2 before the TD error, as in the paper.

    Returns:
        Scalars ``loss``, ``bellman``, ``conservative``.

    Raises:
        ConfigError: unknown mode, or ``given`` without ``mu_NV``.
    """
    if mode not in get_args(Mu):
        raise ConfigError(f"mode '{mode}' is not known.{suggest(mode, get_args(Mu))}")
    if (mu_NV is None) == (mode == "given"):
        raise ConfigError("mu_NV belongs to mode 'given', which needs it")
    logged_N = q_NV.gather(1, actions_N[:, None])[:, 0]
    target_N = rewards_N + gamma * torch.where(done_N != 0, 0.0, next_target_q_NV.max(1).values)
    bellman = (logged_N - target_N.detach()).square().mean() * (0.5 if half else 1.0)
    if mode == "logsumexp":
        under_mu_N = torch.logsumexp(q_NV, 1)
    else:
        under_mu_N = q_NV.mean(1) if mu_NV is None else (mu_NV * q_NV).sum(1)
    conservative = (under_mu_N - logged_N).mean()
    return {"loss": bellman + alpha * conservative, "bellman": bellman, "conservative": conservative}


@widened
def verifierq_style(
    q_BT: Tensor,
    v_BS: Tensor,
    cand_q_BTC: Tensor,
    target_q_BT: Tensor,
    rewards_BT: Tensor,
    mask_BT: Tensor,
    *,
    gamma: float,
    tau: float,
    beta: float,
    bellman: Bellman = "half",
) -> dict[str, Tensor]:
    """A verifier of steps trained as a Q-function in [0, 1] (a reconstruction, see the module).

    Args:
        q_BT: (B, T) Q of the logged steps, with gradient.
        v_BS: (B, T + 1) state values, with gradient, as in `ilql`.
        cand_q_BTC: (B, T, C) Q of other steps that could have been taken, with gradient.
        target_q_BT: (B, T) of the slow copy.
        rewards_BT: (B, T) in [0, 1].
        mask_BT: (B, T), non-zero where trained.
        gamma: discount a step.
        tau: expectile of V.
        beta: weight of the conservative penalty.
        bellman: how the target r + gamma V' is kept in [0, 1]: its half, cut, or not at all.

    Returns:
        Scalars ``loss``, ``bellman``, ``v_loss``, ``cql``.

    Raises:
        ConfigError: unknown ``bellman``.
    """
    if bellman not in get_args(Bellman):
        raise ConfigError(f"bellman '{bellman}' is not known.{suggest(bellman, get_args(Bellman))}")
    mask_BT = mask_BT != 0
    q_BT, cand_q_BTC = _kept(q_BT, mask_BT), _kept(cand_q_BTC, mask_BT)
    target_BT = _kept(rewards_BT, mask_BT) + gamma * _next_value(v_BS, mask_BT)
    if bellman != "plain":
        target_BT = target_BT / 2.0 if bellman == "half" else target_BT.clamp(0.0, 1.0)
    error = _mean((q_BT - target_BT).square(), mask_BT)
    gap_BT = _kept(target_q_BT.detach(), mask_BT) - _kept(v_BS[:, :-1], mask_BT)
    v_loss = _mean(expectile(gap_BT, tau=tau), mask_BT)
    penalty = _mean(cand_q_BTC.mean(2) - q_BT, mask_BT)
    return {"loss": error + v_loss + beta * penalty, "bellman": error, "v_loss": v_loss, "cql": penalty}


def _next_value(v_BS: Tensor, mask_BT: Tensor) -> Tensor:
    """(B, T) value of the state after each token, without gradient."""
    width = mask_BT.shape[1]
    places_BT = torch.where(mask_BT, torch.arange(width, device=mask_BT.device), width)
    # The next trained place behind each: the running minimum from the right, moved by one.
    from_here_BT = places_BT.flip(1).cummin(1).values.flip(1)
    next_BT = torch.cat([from_here_BT[:, 1:], torch.full_like(from_here_BT[:, :1], width)], 1)
    values_BS = torch.cat([v_BS[:, :width].detach(), torch.zeros_like(v_BS[:, :1])], 1)
    return values_BS.gather(1, next_BT)


def _kept(x: Tensor, mask_BT: Tensor) -> Tensor:
    """(B, T) or (B, T, ...) with 0 where nothing is trained."""
    return torch.where(mask_BT.reshape(*mask_BT.shape, *[1] * (x.dim() - 2)), x, 0.0)


def _mean(x_BT: Tensor | int, mask_BT: Tensor) -> Tensor:
    """Mean over trained tokens; 0 without any."""
    assert isinstance(x_BT, Tensor)
    return torch.where(mask_BT, x_BT, 0.0).sum() / mask_BT.sum().clamp(min=1)
