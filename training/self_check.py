"""The check before the first step: training that would start from a false premise does not start.

On freshly sampled sequences the trainer must find the log-probs that the sampler reported (ratio 1), a policy that is
its own reference must have a KL of 0, and the gradient must reach the predictions of the role's own tokens and no
others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arena.protocols.errors import SelfCheckError
from arena.training.learner import Learner
from arena.training.sequences import TrainingSequence, missing_logps

__all__ = ["self_check"]


def self_check(
    learner: Learner,
    sequences: Sequence[TrainingSequence],
    *,
    tolerance: float = 1e-3,
    reference_is_policy: bool = True,
    gradient_sequences: int = 4,
) -> dict[str, float]:
    """Check a learner against sequences that its policy has just sampled.

    Args:
        learner: before its first update.
        sequences: as `arena.training.sequences_of` cuts them; advantages are not needed.
        tolerance: largest difference of log-probs and largest KL that rounding may explain, in nats.
        reference_is_policy: whether the KL to the reference, if there is one, must be 0 now.
        gradient_sequences: how many sequences to follow the gradient of, one at a time.

    Returns:
        What was measured, for the log: ``tokens`` compared, ``logp_gap`` (largest difference of log-probs, nats),
        ``ratio_max``, ``kl_max`` (nats at a token, if there is a reference), ``gradient_sequences``.

    Raises:
        SelfCheckError: what failed, where, and by how much. Nothing was trained.
        ConfigError: nothing to check.
    """
    sequences = [sequence for sequence in sequences if sequence.positions]
    wrong = missing_logps(sequences)
    if wrong is not None:
        raise SelfCheckError(f"sampler log-probs are missing: {wrong}")
    scores = learner.score(sequences)
    sampled = np.concatenate([np.asarray(sequence.logps, np.float64) for sequence in sequences])
    gap = np.abs(scores.logps - sampled)
    worst = int(np.argmax(np.where(np.isfinite(gap), gap, np.inf)))
    if not gap[worst] <= tolerance:
        raise SelfCheckError(
            f"trainer and sampler disagree: {_token(sequences, worst)} has log-prob {sampled[worst]:.6f} under the "
            f"sampler and {scores.logps[worst]:.6f} under the trainer (up to {tolerance:g} apart is rounding). Were "
            "the tokens sampled by these weights and this adapter, at the recorded temperature, without top-p or top-k?"
        )
    report = {
        "tokens": float(len(gap)),
        "logp_gap": float(gap.max()),
        "ratio_max": float(np.exp((scores.logps - sampled).max())),
    }
    if scores.kl is not None:
        report["kl_max"] = float(scores.kl.max())
        if reference_is_policy and not report["kl_max"] <= tolerance:
            raise SelfCheckError(
                f"the reference is not the policy: their KL is {report['kl_max']:.6f} nats at "
                f"{_token(sequences, int(np.argmax(scores.kl)))} (up to {tolerance:g} is rounding). "
                "Call set_reference() when the weights are in place"
            )
    for sequence in sequences[:gradient_sequences]:
        _check_reach(learner, sequence)
    report["gradient_sequences"] = float(min(gradient_sequences, len(sequences)))
    return report


def _check_reach(learner: Learner, sequence: TrainingSequence) -> None:
    reached, own = set(learner.gradient_reach(sequence)), set(sequence.positions)
    where = f"'{sequence.role}' in episode '{sequence.episode}'"
    if foreign := sorted(reached - own):
        raise SelfCheckError(f"the gradient reaches tokens that {where} did not sample: positions {foreign}")
    if missed := sorted(own - reached):
        raise SelfCheckError(f"no gradient reaches tokens that {where} sampled: positions {missed}")


def _token(sequences: Sequence[TrainingSequence], index: int) -> str:
    """Where the trained token ``index`` of all sequences is."""
    for sequence in sequences:
        if index < len(sequence.positions):
            return f"position {sequence.positions[index]} of '{sequence.role}' in episode '{sequence.episode}'"
        index -= len(sequence.positions)
    raise IndexError(index)
