"""From rewards to advantages: each return is compared with those of its own kind.

    group mean      A_i = (r_i - mean_g) / (std_g + eps)             GRPO, DeepSeekMath (arXiv 2402.03300) eq. 2
                    A_i = r_i - mean_g                               Dr. GRPO (arXiv 2503.20783)
    leave one out   A_i = r_i - mean of the others in the group      RLOO (arXiv 2402.14740)

A group without variance, or of one member, teaches nothing: its advantages are exactly 0, never rounding noise over
eps.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from arena.protocols.errors import ConfigError, NumericalError
from arena.training.sequences import TrainingSequence

__all__ = ["assign_advantages", "credit", "group_advantages"]

Floats = NDArray[np.float64]


def group_advantages(
    rewards: Sequence[float] | Floats,
    group_ids: Sequence[Hashable],
    *,
    kind: Literal["grpo", "dr_grpo", "rloo"] = "grpo",
    ddof: int = 1,
    eps: float = 1e-4,
    singleton: Literal["zero", "raw"] = "zero",
    scale: Literal["group", "batch", "none"] = "group",
) -> Floats:
    """Advantages of rollouts against their group.

    Args:
        rewards: (B,) one for each rollout.
        group_ids: (B,) rollouts with equal ids are compared; they need not be adjacent.
        kind: ``grpo`` divides by a standard deviation, ``dr_grpo`` only subtracts the mean, ``rloo`` the others' mean.
        ddof: 1 for the sample standard deviation, 0 for the population's.
        eps: added to the standard deviation (``grpo``).
        singleton: what a group of one gets: 0, or its reward (``grpo``: divided by 1 + eps).
        scale: standard deviation of the group, of all rewards, or none (``grpo``).

    Returns:
        (B,) float64.

    Raises:
        ConfigError: unequal lengths or an unknown kind.
        NumericalError: a reward is not finite.
    """
    if kind not in ("grpo", "dr_grpo", "rloo"):
        raise ConfigError(f"advantage kind '{kind}' is not known. There is: grpo, dr_grpo, rloo.")
    values = _finite(rewards, group_ids)
    advantages = np.zeros_like(values)
    batch_std = _std(values, ddof)
    for members in _groups(group_ids):
        group = values[members]
        if len(group) == 1:
            advantages[members] = _alone(group, kind, eps, scale) if singleton == "raw" else 0.0
            continue
        if group.max() == group.min():
            continue
        centred = group - math.fsum(group) / len(group)
        if kind == "rloo":
            centred *= len(group) / (len(group) - 1)
        elif kind == "grpo" and scale != "none":
            centred /= (_std(group, ddof) if scale == "group" else batch_std) + eps
        advantages[members] = centred
    return advantages


def credit(
    returns: Sequence[float] | Floats,
    keys: Sequence[Hashable],
    *,
    baseline: Literal["group", "leave_one_out", "none"] = "group",
    scale: Literal["batch", "none"] = "batch",
    eps: float = 1e-8,
) -> Floats:
    """Advantages of turns: each return minus the mean of its key, over one standard deviation of all that remains.

    With keys ``(role, turn, task)`` each role is compared only with itself at the same point of the same task, so that
    adding a constant to the returns of one key changes nothing anywhere; dividing by the deviation of the whole batch
    keeps the relative size of turns that matter and turns that do not.

    Args:
        returns: (N,) one for each turn of each episode.
        keys: (N,) what the turn is compared with.
        baseline: mean of the key, mean of the others of the key, or nothing.
        scale: divide by the population standard deviation of all centred returns, or by nothing; by that of a key,
            see `group_advantages`.
        eps: a deviation at or below eps counts as 0, and the advantages as well.

    Returns:
        (N,) float64; exactly 0 for keys that occur once or whose returns are all equal (unless the baseline is none).

    Raises:
        ConfigError: unequal lengths, or an unknown baseline or scale.
        NumericalError: a return is not finite.
    """
    if baseline not in ("group", "leave_one_out", "none"):
        raise ConfigError(f"baseline '{baseline}' is not known. There is: group, leave_one_out, none.")
    if scale not in ("batch", "none"):
        raise ConfigError(f"scale '{scale}' is not known. There is: batch, none.")
    values = _finite(returns, keys)
    leave_one_out = baseline == "leave_one_out"
    centred = values.copy() if baseline == "none" else _centre(values, _groups(keys), leave_one_out=leave_one_out)
    if scale == "none" or not len(values):
        return centred
    # fsum is exact, so that the order of the batch cannot change a bit of the result.
    mean = math.fsum(centred) / len(centred)
    deviation = math.sqrt(math.fsum((centred - mean) ** 2) / len(centred))
    return centred / deviation if deviation > eps else np.zeros_like(centred)


def assign_advantages(sequences: Iterable[TrainingSequence], by_turn: Mapping[tuple[str, str, int], float]) -> None:
    """Give every trained token the advantage of its turn.

    Args:
        sequences: filled in place.
        by_turn: (episode key, role, turn of the role) -> advantage.

    Raises:
        ConfigError: a turn has no advantage.
    """
    for sequence in sequences:
        episode, role = sequence.episode, sequence.role
        try:
            sequence.advantages = [by_turn[episode, role, turn] for turn in sequence.turns]
        except KeyError as missing:
            raise ConfigError(f"no advantage for (episode, role, turn) {missing}") from None


def _centre(values: Floats, groups: Sequence[NDArray[np.intp]], *, leave_one_out: bool) -> Floats:
    centred = np.zeros_like(values)
    for members in groups:
        group = values[members]
        if len(group) == 1 or group.max() == group.min():
            continue
        centred[members] = group - math.fsum(group) / len(group)
        if leave_one_out:
            centred[members] *= len(group) / (len(group) - 1)
    return centred


def _alone(group: Floats, kind: str, eps: float, scale: str) -> Floats:
    return group / (1.0 + eps) if kind == "grpo" and scale != "none" else group


def _std(values: Floats, ddof: int) -> float:
    return float(np.std(values, ddof=ddof)) if len(values) > ddof else 0.0


def _groups(keys: Sequence[Hashable]) -> list[NDArray[np.intp]]:
    members: dict[Hashable, list[int]] = {}
    for index, key in enumerate(keys):
        members.setdefault(key, []).append(index)
    return [np.asarray(indices, dtype=np.intp) for indices in members.values()]


def _finite(values: Sequence[float] | Floats, keys: Sequence[Hashable]) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (len(keys),):
        raise ConfigError(f"{array.shape} values for {len(keys)} group keys: give one key for each value")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise NumericalError(f"reward {array[bad[0]]} at index {bad[0]} (group {keys[int(bad[0])]!r}) is not finite")
    return array
