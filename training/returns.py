"""From rewards of tokens and episodes to what each token is credited with. Numpy, float64, no gradients.

    gae              A_t = sum_l (gamma lam)^l delta_{t+l},  delta_t = r_t + gamma V_{t+1} - V_t
                                                             Schulman et al. 2016 (1506.02438) eq. 16
    returns_to_go    G_t = sum_l gamma^l r_{t+l}
    kl_in_reward     r_t = -beta (log pi - log ref), and the episode's score on its last token
                                                             Ziegler et al. 2019 (1909.08593) eq. 2
    RoleBaseline     A = r - b[key], b[key] a moving average  SPIRAL's role-conditioned baseline (2506.24119)
    overlong_penalty 0 up to max_len - cache, then linear to -1 at max_len    DAPO (2503.14476) eq. 13
    mixed_groups     groups whose rewards are not all equal  DAPO's dynamic sampling

A role's row holds tokens of others too. They are masked: they cost no discount, and the token after one is the next
trained token of the row. Behind the last trained token the value is 0, or the bootstrap value of a row that was cut.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError, NumericalError
from arena.training.objectives import Estimator
from arena.training.objectives.kl import kl_per_token

__all__ = [
    "RoleBaseline",
    "gae",
    "kl_in_reward",
    "mixed_groups",
    "overlong_penalty",
    "returns_to_go",
]

Floats = NDArray[np.float64]


def gae(
    rewards_BT: ArrayLike,
    values_BT: ArrayLike,
    mask_BT: ArrayLike,
    *,
    gamma: float,
    lam: float,
    bootstrap_values_B: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """Generalised advantage estimation over a role's own tokens.

    Args:
        rewards_BT: (B, T), on trained tokens.
        values_BT: (B, T) of the state before each token.
        mask_BT: (B, T), non-zero where trained.
        gamma: discount a trained token.
        lam: 0 is the one-step TD error, 1 the return minus the value.
        bootstrap_values_B: (B,) value behind the last trained token; 0 if absent.

    Returns:
        Advantages and returns (advantage plus value), both (B, T) and 0 at masked tokens.

    Raises:
        NumericalError: a reward or value of a trained token is not finite.
    """
    mask, rewards, values = _trained(mask_BT, rewards_BT, values_BT)
    advantages = np.zeros_like(rewards)
    last = np.zeros(len(mask)) if bootstrap_values_B is None else np.array(bootstrap_values_B, np.float64)
    carried = np.zeros(len(mask))
    for t in reversed(range(mask.shape[1])):
        own = mask[:, t]
        delta = rewards[:, t] + gamma * last - values[:, t]
        carried = np.where(own, delta + gamma * lam * carried, carried)
        last = np.where(own, values[:, t], last)
        advantages[:, t] = np.where(own, carried, 0.0)
    return advantages, np.where(mask, advantages + values, 0.0)


def returns_to_go(rewards_BT: ArrayLike, mask_BT: ArrayLike, *, gamma: float = 1.0) -> Floats:
    """Discounted sum of the rewards from each trained token on: (B, T), 0 at masked tokens.

    Raises:
        NumericalError: a reward of a trained token is not finite.
    """
    return gae(rewards_BT, np.zeros(np.shape(rewards_BT)), mask_BT, gamma=gamma, lam=1.0)[0]


def kl_in_reward(
    scores_B: ArrayLike,
    logps_BT: ArrayLike,
    ref_logps_BT: ArrayLike,
    mask_BT: ArrayLike,
    *,
    beta: float,
    estimator: Estimator = "k1",
) -> Floats:
    """Rewards of tokens: the estimated KL from a reference at its price, and each row's score on its last token.

    Args:
        scores_B: (B,) what the episodes earned.
        logps_BT: (B, T) of the policy that sampled.
        ref_logps_BT: (B, T) of the reference.
        mask_BT: (B, T), non-zero where trained.
        beta: price of a nat.
        estimator: see `arena.training.objectives.kl`; k1 is the one whose sum is the log-ratio of the row.

    Returns:
        (B, T), 0 at masked tokens; a row without trained tokens keeps no score.

    Raises:
        ConfigError: unknown estimator.
    """
    mask, logps, reference = _trained(mask_BT, logps_BT, ref_logps_BT)
    kl = kl_per_token(torch.from_numpy(logps), torch.from_numpy(reference), estimator=estimator).numpy()
    rewards = np.where(mask, -beta * kl, 0.0)
    rows = np.flatnonzero(mask.any(axis=1))
    last = mask.shape[1] - 1 - mask[rows, ::-1].argmax(axis=1)
    rewards[rows, last] += np.asarray(scores_B, np.float64)[rows]
    return rewards


class RoleBaseline:
    """A moving average of rewards for each key, such as (game, role): what an average episode earns there.

    Args:
        decay: share of the old average that stays at each reward.
        order: ``use_then_update`` (the released code) compares a reward with the average before it;
            ``update_then_use`` lets it count in its own baseline.
        state: averages to go on from; a key that is not there starts at 0.

    Raises:
        ConfigError: unknown order, or a decay outside of [0, 1).
    """

    def __init__(
        self,
        *,
        decay: float = 0.95,
        order: Literal["use_then_update", "update_then_use"] = "use_then_update",
        state: Mapping[Hashable, float] | None = None,
    ) -> None:
        if order not in ("use_then_update", "update_then_use"):
            raise ConfigError(f"order '{order}' is not known. There is: use_then_update, update_then_use.")
        if not 0 <= decay < 1:
            raise ConfigError(f"decay={decay} is not in [0, 1): an average that never moves is no baseline")
        self.decay = decay
        self.order = order
        self.averages: dict[Hashable, float] = dict(state or {})

    def advantages(self, rewards: Sequence[float], keys: Sequence[Hashable]) -> list[float]:
        """Each reward minus the average of its key, in order; the averages move along.

        Raises:
            NumericalError: a reward is not finite.
        """
        found = []
        for reward, key in zip(rewards, keys, strict=True):
            if not np.isfinite(reward):
                raise NumericalError(f"reward {reward} of {key!r} is not finite")
            before = self.averages.get(key, 0.0)
            self.averages[key] = after = self.decay * before + (1.0 - self.decay) * reward
            found.append(reward - (before if self.order == "use_then_update" else after))
        return found


def overlong_penalty(lengths: ArrayLike, *, max_len: int, cache: int) -> Floats:
    """Soft punishment of long replies, to be added to their reward: 0 to -1, the shape of ``lengths``.

    Args:
        lengths: trained tokens of each reply.
        max_len: where it is -1.
        cache: over how many tokens before that it grows.

    Raises:
        ConfigError: the cache is not within the length.
    """
    if not 0 < cache <= max_len:
        raise ConfigError(f"cache={cache} is not a number of tokens within max_len={max_len}")
    return np.clip((max_len - cache - np.asarray(lengths, np.float64)) / cache, -1.0, 0.0)


def mixed_groups(rewards: Sequence[float], group_ids: Sequence[Hashable]) -> list[bool]:
    """For each rollout whether its group can teach something: its rewards are not all equal."""
    kinds: dict[Hashable, set[float]] = {}
    for reward, group in zip(rewards, group_ids, strict=True):
        kinds.setdefault(group, set()).add(reward)
    return [len(kinds[group]) > 1 for group in group_ids]


def _trained(mask_BT: ArrayLike, *arrays_BT: ArrayLike) -> tuple[NDArray[np.bool_], Floats, Floats]:
    """The mask, and two arrays with 0 where nothing is trained."""
    mask = np.asarray(mask_BT) != 0
    first, second = (np.where(mask, np.asarray(array, np.float64), 0.0) for array in arrays_BT)
    if not (np.isfinite(first).all() and np.isfinite(second).all()):
        row, place = np.argwhere(~(np.isfinite(first) & np.isfinite(second)))[0]
        raise NumericalError(f"row {row}, token {place}: a number of a trained token is not finite")
    return mask, first, second
