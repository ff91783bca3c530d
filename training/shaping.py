"""What an objective makes of the rewards of turns before they are compared with each other.

    KL in the reward   r <- r - beta sum_t (log pi - log ref)_t     over the turn's tokens; Ziegler et al. 2019
                                                                    (arXiv 1909.08593) eq. 2, summed a turn as in RLOO
    overlong           r <- r + penalty(tokens of the turn)         DAPO (arXiv 2503.14476) eq. 13
    mixed_only         moves of a group that all earned alike go    DAPO's dynamic sampling, by paid rewards

The KL is that of the sampler's log-probs, which `arena.training.self_check` found to be the trainer's. It is taken off
the turn that caused it: what a later turn does is charged to that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from arena.training.crediting import PaidTurn, Place
from arena.training.learner import Learner
from arena.training.returns import mixed_groups, overlong_penalty
from arena.training.sequences import TrainingSequence

__all__ = ["shaped"]


def shaped(turns: Sequence[PaidTurn], sequences: Sequence[TrainingSequence], learner: Learner) -> list[PaidTurn]:
    """The turns with the rewards that the learner's configuration asks for; unchanged if it asks for nothing.

    Args:
        turns: paid, of the roles that the learner trains.
        sequences: with the tokens of these turns.
        learner: has the reference and the price of a nat.

    Raises:
        ConfigError: the KL is to be taken off rewards, and there is no reference or nothing to score.
    """
    objective, found = learner.config.objective, list(turns)
    if objective.mixed_only:
        keys = [tuple(turn.facts[name] for name in ("task", "role", "node", "visit", "attempt")) for turn in found]
        kept = mixed_groups([turn.reward for turn in found], keys)
        found = [turn for turn, keep in zip(found, kept, strict=True) if keep]
    if objective.overlong is not None:
        tokens = Counter((one.episode, one.role, turn) for one in sequences for turn in one.turns)
        lengths = [tokens[turn.place] for turn in found]
        penalties = overlong_penalty(lengths, max_len=objective.overlong.max_len, cache=objective.overlong.cache)
        found = [replace(turn, reward=turn.reward + less) for turn, less in zip(found, penalties.tolist(), strict=True)]
    if learner.config.kl.place == "reward" and found:
        nats, beta = _kl_of_turns(learner, sequences), learner.kl_control.beta
        found = [replace(turn, reward=turn.reward - beta * nats.get(turn.place, 0.0)) for turn in found]
    return found


def _kl_of_turns(learner: Learner, sequences: Sequence[TrainingSequence]) -> dict[Place, float]:
    """Nats of log pi - log ref that the tokens of each turn add up to."""
    learner.require_reference()
    sequences = [sequence for sequence in sequences if sequence.positions]
    references = learner.score(sequences).ref_logps
    assert references is not None
    left = iter(references.tolist())
    totals: dict[Place, float] = {}
    for sequence in sequences:
        assert sequence.logps is not None
        for turn, logp in zip(sequence.turns, sequence.logps, strict=True):
            place = (sequence.episode, sequence.role, turn)
            totals[place] = totals.get(place, 0.0) + logp - next(left)
    return totals
