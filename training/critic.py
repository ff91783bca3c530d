"""A critic: a linear value head on the hidden states of a policy's own network.

    V_t = w h_{t-1} + b,     L = coef 1/2 mean_t max((V_t - R_t)^2, (clip(V_t, V_old +- range) - R_t)^2)

h is what the last layer says where token t is predicted, so that V sees what the choice of the token saw and no more.
The head begins at 0 and is float32 even if the network is not. It is no part of the policy: no snapshot holds it, the
reference has none, and its gradient is clipped by its own norm. The mean is over all tokens of the optimizer step that
have a target, so that micro-batches of any size give the same gradient.

The clipped loss is that of the PPO codebase, `arena.training.objectives.actor_critic.ppo_value`. Without ``detach`` it
trains the network too, as in Schulman et al. 2017 (arXiv 1707.06347) eq. 9 with shared parameters. There is no weight
decay on the head: it would pull all values to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from arena.protocols.errors import ResumeError
from arena.training.learner_config import ValueConfig
from arena.training.objectives.actor_critic import ppo_value
from arena.training.sequences import TrainingSequence

__all__ = ["Critic", "ValueTargets", "explained_variance", "value_targets"]

_EQUAL = 1e-9
"""Returns that differ by less than this share of the largest one differ by rounding."""


@dataclass(frozen=True, slots=True)
class ValueTargets:
    """What the critic should learn in an optimizer step; one entry for each trained token (N)."""

    old_N: Tensor
    """Values when the update began."""
    targets_N: Tensor
    known_N: Tensor
    """False for tokens of roles whose credit asks no critic."""
    count: int
    """Tokens with a target."""


class Critic:
    """The value head of one policy.

    Args:
        width: of the hidden states.
        config: coefficient and clip of its loss, and its learning rate.
        dtype: of the hidden states; the head is float32, or float64 if they are.
        device: of the network.
    """

    def __init__(self, width: int, config: ValueConfig, *, dtype: torch.dtype, device: torch.device) -> None:
        self.config = config
        kind = torch.promote_types(dtype, torch.float32)
        self.parameters: dict[str, nn.Parameter] = {
            "weight": nn.Parameter(torch.zeros(width, dtype=kind, device=device)),
            "bias": nn.Parameter(torch.zeros(1, dtype=kind, device=device)),
        }

    def __call__(self, hidden_NH: Tensor) -> Tensor:
        """(N, H) hidden states -> (N,) values."""
        weight = self.parameters["weight"]
        return hidden_NH.to(weight.dtype) @ weight + self.parameters["bias"]

    def loss(self, hidden_NH: Tensor, known: ValueTargets, tokens_N: NDArray[np.intp], *, detach: bool) -> Tensor:
        """The share of some tokens in the value loss of their optimizer step, without its coefficient: a scalar.

        Args:
            hidden_NH: that predict the tokens.
            known: of all tokens of the step.
            tokens_N: numbers of these tokens there.
            detach: send no gradient to the network.
        """
        values_N = self(hidden_NH.detach() if detach else hidden_NH)
        old_N, targets_N = (each[tokens_N].to(values_N.dtype) for each in (known.old_N, known.targets_N))
        rows = [each[None] for each in (values_N, old_N, targets_N, known.known_N[tokens_N])]
        total = ppo_value(*rows, clip_range=self.config.clip, agg="token_sum")
        return total / max(known.count, 1)

    def group(self) -> dict[str, Any]:
        """Its parameters as a group of an optimizer; ``factor`` multiplies the learning rate of the others."""
        return {"params": list(self.parameters.values()), "weight_decay": 0.0, "factor": self.config.lr}

    def state_dict(self) -> dict[str, Tensor]:
        """Weights of the head."""
        return {name: parameter.detach() for name, parameter in self.parameters.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a saved state.

        Raises:
            ResumeError: the state belongs to a network of another width.
        """
        for name, parameter in self.parameters.items():
            if state[name].shape != parameter.shape:
                raise ResumeError(
                    f"'{name}' of the value head is {tuple(state[name].shape)} in the saved state and "
                    f"{tuple(parameter.shape)} here: resume with the model that the run was started with"
                )
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                parameter.copy_(state[name])


def value_targets(sequences: Sequence[TrainingSequence], device: torch.device) -> ValueTargets:
    """The value targets of sequences; those without ``value`` have none."""
    columns: list[list[float]] = [[], [], []]
    for sequence in sequences:
        signal, count = sequence.value, len(sequence.positions)
        columns[0] += signal.values if signal is not None else [0.0] * count
        columns[1] += signal.targets if signal is not None else [0.0] * count
        columns[2] += [float(signal is not None)] * count
    old_N, targets_N, known_N = (torch.tensor(column, dtype=torch.float64, device=device) for column in columns)
    return ValueTargets(old_N, targets_N, known_N != 0, int(sum(columns[2])))


def explained_variance(sequences: Sequence[TrainingSequence]) -> float | None:
    """1 - Var(G - V) / Var(G) over all tokens that have values V, G being the rewards that came from there on.

    1: the critic knew what would come. 0: no more than a constant. None where all returns are equal, up to rounding, or
    there are none.
    """
    signals = [sequence.value for sequence in sequences if sequence.value is not None]
    came = np.array([value for signal in signals for value in signal.to_go])
    expected = np.array([value for signal in signals for value in signal.values])
    if not len(came) or np.ptp(came) <= _EQUAL * np.abs(came).max():
        return None
    return 1.0 - float((came - expected).var()) / float(came.var())
