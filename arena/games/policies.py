"""Policies as strategies: the exact probabilities of what an agent that samples from a model would choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from arena.agents.choices import choices_of
from arena.agents.policy import PolicyAgent
from arena.agents.types import Context
from arena.games.forks import Fork, check_full, fork_logps, forks_of
from arena.games.types import InformationSet
from arena.protocols.errors import ConfigError

__all__ = ["PolicyStrategy"]


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    """An information set as a model reads it."""

    context: Context
    """Before it speaks."""
    options: list[tuple[int, ...]]
    forks: list[list[tuple[Fork, int]]]
    """For each option."""


class PolicyStrategy:
    """The strategy of a policy agent with the weights that it has when it is asked.

    What the agent reads is encoded once for each information set and kept; every call scores all sets that it is asked
    about in one batch of its backend.

    Args:
        agent: samples with top_p 1 and top_k 0.

    Raises:
        ConfigError: it cuts its distribution.
    """

    def __init__(self, agent: PolicyAgent) -> None:
        check_full(agent.sampling, agent.name)
        self._agent = agent
        self._known: dict[InformationSet, _Asked] = {}

    def __call__(self, sets: Sequence[InformationSet]) -> list[tuple[float, ...]]:
        """Probabilities of the options at each set.

        Raises:
            ConfigError: the model would say more than its choice, or cannot say it.
            BackendError: the model failed.
        """
        asked = [self._asked(found) for found in sets]
        forks = (fork for one in asked for passed in one.forks for fork, _ in passed)
        logps = fork_logps(self._agent.backend, forks, self._agent.sampling)
        return [
            tuple(float(np.exp(sum(logps[fork][way] for fork, way in passed))) for passed in one.forks) for one in asked
        ]

    def _asked(self, found: InformationSet) -> _Asked:
        asked = self._known.get(found)
        if asked is None:
            asked = self._known[found] = self._read(found)
        return asked

    def _read(self, found: InformationSet) -> _Asked:
        encoder, context = self._agent.encoder, Context()
        if found.before is not None:
            earlier = self._asked(found.before[0])
            context.ids = [*earlier.context.ids, *earlier.options[found.before[1]]]
            context.state = earlier.context.state
        delta, fresh = encoder.extend(context, found.new)
        context.ids = delta if fresh else [*context.ids, *delta]
        options = choices_of(replace(found.ask, context=context, new=found.new), encoder)
        if options is None:
            raise ConfigError(
                f"agent '{self._agent.name}' does not speak in bare choices at '{found}': its model thinks aloud, or "
                "two options read the same to it"
            )
        return _Asked(context, options, forks_of(tuple(context.ids), options))
