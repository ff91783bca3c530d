"""Batches: the sequences of an optimizer step as tensors over their trained tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from arena.protocols.errors import ConfigError, NumericalError
from arena.training.critic import ValueTargets, value_targets
from arena.training.network import TrainedNetwork
from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import token_weights
from arena.training.packing import Pack, pack
from arena.training.sequences import TrainingSequence, missing_advantages, missing_logps

__all__ = ["Batch", "Forms", "add_signal", "batch_of", "check_signal", "trainable"]


@dataclass(frozen=True, slots=True)
class Forms:
    """Which ids the tokens of a batch were drawn from, where some had to be one of a few."""

    excluded_FV: Tensor
    """Each form that occurs: True for ids that could not be drawn. The first one excludes nothing."""
    number_N: Tensor
    """Form of each token."""


@dataclass(slots=True)
class Batch:
    """One optimizer step: tensors over the trained tokens (N) of all its sequences."""

    packs: list[Pack]
    targets_N: Tensor
    temperatures_N: Tensor | None
    """None where all are 1."""
    weights_N: Tensor
    rows_N: NDArray[np.int64]
    """Sequence of each token."""
    turns: int
    forms: Forms | None
    """None where every token was free."""
    old_logps_N: Tensor | None = None
    advantages_N: Tensor | None = None
    value: ValueTargets | None = None
    """For a critic, if there is one."""


def batch_of(
    sequences: Sequence[TrainingSequence],
    network: TrainedNetwork,
    *,
    budget: int,
    aggregate: Aggregate,
    norm_const: float | None = None,
) -> Batch:
    """One optimizer step over sequences, each with trained tokens.

    Args:
        sequences: of the whole step.
        network: that computes it.
        budget: most tokens of a forward pass.
        aggregate: how tokens are averaged.
        norm_const: its constant, if it has one.
    """
    packs = pack(sequences, budget=budget, trees=network.trees, token_cost=network.token_cost)
    counts_S = np.asarray([len(sequence.positions) for sequence in sequences])
    mask_ST = np.arange(counts_S.max()) < counts_S[:, None]
    weights_ST = token_weights(
        torch.from_numpy(mask_ST),
        aggregate,
        group_ids=[sequence.group for sequence in sequences],
        norm_const=norm_const,
    )
    temperatures = np.repeat([sequence.temperature for sequence in sequences], counts_S)
    targets = [sequence.ids[at] for sequence in sequences for at in sequence.positions]
    return Batch(
        packs=packs,
        targets_N=torch.tensor(targets, device=network.device),
        temperatures_N=None if (temperatures == 1.0).all() else torch.from_numpy(temperatures).to(network.device),
        weights_N=weights_ST[torch.from_numpy(mask_ST)].to(network.device),
        rows_N=np.repeat(np.arange(len(sequences)), counts_S),
        turns=sum(sequence.turn_count() for sequence in sequences),
        forms=_forms(sequences, counts_S, network),
    )


def _forms(sequences: Sequence[TrainingSequence], counts_S: NDArray[np.int64], network: TrainedNetwork) -> Forms | None:
    numbers: dict[tuple[int, ...], int] = {}
    number_N = np.zeros(int(counts_S.sum()), np.int64)
    for start, sequence in zip(np.cumsum(counts_S) - counts_S, sequences, strict=True):
        for number, ids in sequence.allowed.items():
            number_N[start + number] = numbers.setdefault(ids, len(numbers) + 1)
    if not numbers:
        return None
    excluded_FV = torch.zeros(len(numbers) + 1, network.head.weight.shape[0], dtype=torch.bool)
    for ids, number in numbers.items():
        excluded_FV[number] = True
        excluded_FV[number, list(ids)] = False
    return Forms(excluded_FV.to(network.device), torch.from_numpy(number_N).to(network.device))


def trainable(sequences: Sequence[TrainingSequence]) -> list[TrainingSequence]:
    """Those with trained tokens.

    Raises:
        ConfigError: there are none.
    """
    found = [sequence for sequence in sequences if sequence.positions]
    if not found:
        raise ConfigError(f"nothing to train: none of the {len(sequences)} sequences has a sampled token")
    return found


def check_signal(sequences: Sequence[TrainingSequence]) -> None:
    """Refuse log-probs and advantages that are no numbers.

    Raises:
        ConfigError: some are missing.
        NumericalError: one is not finite.
    """
    wrong = missing_logps(sequences) or missing_advantages(sequences)
    if wrong is not None:
        raise ConfigError(wrong)
    for sequence in sequences:
        given = [("log-prob", sequence.logps or ()), ("advantage", sequence.advantages)]
        if sequence.value is not None:
            given += [("value", sequence.value.values), ("value target", sequence.value.targets)]
        for name, values in given:
            bad = [value for value in values if not math.isfinite(value)]
            if bad:
                raise NumericalError(
                    f"{name} {bad[0]} of '{sequence.role}' in episode '{sequence.episode}' is not finite; "
                    "nothing was trained"
                )


def add_signal(batch: Batch, sequences: Sequence[TrainingSequence], *, critic: bool = False) -> None:
    """Put the sampler's log-probs and the advantages of its sequences into a batch; for a critic its targets, too."""
    if critic:
        batch.value = value_targets(sequences, batch.targets_N.device)
    logps = np.concatenate([np.asarray(sequence.logps, np.float64) for sequence in sequences])
    advantages = np.concatenate([np.asarray(sequence.advantages, np.float64) for sequence in sequences])
    batch.old_logps_N, batch.advantages_N = (
        torch.from_numpy(values).to(batch.targets_N.device) for values in (logps, advantages)
    )
