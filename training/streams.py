"""Credit by a critic: generalised advantage estimation along a role's own tokens in an episode.

    A_t = sum_l (gamma lam)^l delta_{t+l},  delta_t = r_t + gamma V_{t+1} - V_t
                                                             Schulman et al. 2016 (1506.02438) eq. 16

A stream is the trained tokens of a role in an episode, in order. What others say between two of them is the
environment's answer: "next" is the next token of the stream, and gamma and lam count own tokens only.

* The reward of a turn falls on its last trained token; of a turn without one (nothing in it had an alternative), on the
  last one before it.
* A value at the end, which every turn of the role is paid, falls once: on the last turn that it pays.
* Where a context started afresh the stream goes on: the role forgot, but the episode did not end.
* A side branch (an ephemeral turn, a candidate that was not picked) is a stream of its own, which ends with its turn
  and is worth all that the turn is paid: nothing that came later followed from it. Without a trained token it is worth
  nothing to anybody: the stream does not run through it.
* A turn that was not paid (an undecidable verdict) is context, like what others say.
* With ``returns: own`` each turn is a stream of its own, worth all that it is paid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from arena.training.advantages import credit
from arena.training.returns import gae, returns_to_go
from arena.training.selfplay_config import CreditRule
from arena.training.sequences import TrainingSequence, ValueSignal

if TYPE_CHECKING:
    from arena.training.crediting import PaidTurn, Place

__all__ = ["assign_by_critic"]

Floats = NDArray[np.float64]


@dataclass(slots=True)
class _Stream:
    """Trained tokens that follow on each other."""

    places: list[tuple[int, int]] = field(default_factory=list)
    """Of each token: which sequence, and its number there."""
    turns: list[int] = field(default_factory=list)
    """Of each token."""
    rewards: list[float] = field(default_factory=list)
    """Of each token."""


def assign_by_critic(
    rule: CreditRule,
    turns: Sequence[PaidTurn],
    sequences: Sequence[TrainingSequence],
    values: Sequence[Sequence[float]],
) -> None:
    """Give every trained token its advantage, and what the critic should learn of it.

    Args:
        rule: with ``discount``, ``lam``, ``returns``, ``scale`` and ``weight``. What the critic learns is neither
            scaled nor weighted.
        turns: paid, of the roles of the sequences, episode after episode in the order in which they were spoken.
        sequences: with the tokens of these turns and of no others; their ``advantages`` and ``value`` are filled.
        values: of each sequence, what the critic expects before each trained token.

    Raises:
        NumericalError: a reward or a value is not finite.
    """
    streams = _streams(turns, sequences, across=rule.returns == "to_go")
    if not streams:
        return
    mask_BT = _padded([[1.0] * len(stream.turns) for stream in streams])
    rewards_BT = _padded([stream.rewards for stream in streams])
    values_BT = _padded([[values[one][at] for one, at in stream.places] for stream in streams])
    advantages_BT, targets_BT = gae(rewards_BT, values_BT, mask_BT, gamma=rule.discount, lam=rule.lam)
    to_go_BT = returns_to_go(rewards_BT, mask_BT, gamma=rule.discount)
    real_BT = mask_BT != 0
    scaled_N = credit(advantages_BT[real_BT], [None] * int(real_BT.sum()), baseline="none", scale=rule.scale)
    columns = (rule.weight * scaled_N, targets_BT[real_BT], to_go_BT[real_BT])
    places = [place for stream in streams for place in stream.places]
    _fill(sequences, values, places, columns)


def _streams(turns: Sequence[PaidTurn], sequences: Sequence[TrainingSequence], *, across: bool) -> list[_Stream]:
    """The streams of all sequences, with their rewards; ``across``: they go on from turn to turn."""
    streams: dict[tuple[str, str, int], _Stream] = {}
    of_turn: dict[Place, _Stream] = {}
    for number, sequence in enumerate(sequences):
        for at, turn in enumerate(sequence.turns):
            alone = sequence.side or not across
            stream = streams.setdefault((sequence.episode, sequence.role, turn if alone else -1), _Stream())
            of_turn[sequence.episode, sequence.role, turn] = stream
            stream.places.append((number, at))
            stream.turns.append(turn)
            stream.rewards.append(0.0)
    _pay(turns, of_turn, streams, across=across)
    return list(streams.values())


def _pay(
    turns: Sequence[PaidTurn],
    of_turn: Mapping[Place, _Stream],
    streams: Mapping[tuple[str, str, int], _Stream],
    *,
    across: bool,
) -> None:
    """Put rewards on the tokens of streams."""
    final: dict[tuple[str, str], tuple[_Stream, int, float]] = {}
    for turn in turns:
        episode, role, ordinal = turn.place
        main = streams.get((episode, role, -1))
        stream = of_turn.get(turn.place, None if turn.side else main)
        at = -1 if stream is None else int(np.searchsorted(stream.turns, ordinal, side="right")) - 1
        if stream is None or at < 0:  # nothing of the role's own led to it
            continue
        once = across and stream is main and turn.final != 0.0
        stream.rewards[at] += turn.reward - turn.final if once else turn.reward
        if once:
            final[episode, role] = (stream, at, turn.final)
    for stream, at, value in final.values():
        stream.rewards[at] += value


def _padded(rows: Sequence[Sequence[float]]) -> Floats:
    """(B, T) with zeros behind shorter rows."""
    padded_BT = np.zeros((len(rows), max(map(len, rows))))
    for row, values in zip(padded_BT, rows, strict=True):
        row[: len(values)] = values
    return padded_BT


def _fill(
    sequences: Sequence[TrainingSequence],
    values: Sequence[Sequence[float]],
    places: Sequence[tuple[int, int]],
    columns: tuple[Floats, Floats, Floats],
) -> None:
    found = [np.empty((3, len(sequence.positions))) for sequence in sequences]
    for (number, at), *numbers in zip(places, *columns, strict=True):
        found[number][:, at] = numbers
    for sequence, own, (advantages, targets, to_go) in zip(sequences, values, found, strict=True):
        sequence.advantages = advantages.tolist()
        sequence.value = ValueSignal(list(own), targets.tolist(), to_go.tolist())
