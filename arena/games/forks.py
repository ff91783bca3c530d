"""Where a constrained choice of a model parts, and how likely each way is: exactly, in one batch.

A text that is chosen among others is drawn along the trie of their tokens (`arena.agents.choices`). At a fork the
probabilities are those of the model over the ways that go on, at its temperature; the rest of the vocabulary is out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.agents.types import Backend, ScoreRequest
from arena.protocols.errors import ConfigError
from arena.protocols.records import Sampling

__all__ = ["Fork", "check_full", "fork_logps", "forks_of", "is_full"]

Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fork:
    """A context, and the tokens that may follow it."""

    ids: Ids
    ways: Ids
    """Two or more, ascending."""


def is_full(sampling: Sampling) -> bool:
    """Whether tokens are drawn from whole distributions."""
    return sampling.top_p >= 1.0 and sampling.top_k == 0


def check_full(sampling: Sampling, name: str) -> None:
    """Whether an agent samples from its whole distribution, as exact probabilities need.

    Raises:
        ConfigError: it cuts the distribution.
    """
    if not is_full(sampling):
        raise ConfigError(
            f"agent '{name}' samples with top_p {sampling.top_p:g} and top_k {sampling.top_k}: the probabilities of "
            "choices are worked out for top_p 1 and top_k 0 only"
        )


def forks_of(context: Ids, options: Sequence[Ids]) -> list[list[tuple[Fork, int]]]:
    """For each option the forks on its way, and the place of the way that it takes at each."""
    found = []
    for option in options:
        passed = []
        for length in range(len(option)):
            ways = tuple(sorted({other[length] for other in options if other[:length] == option[:length]}))
            if len(ways) > 1:
                passed.append((Fork((*context, *option[:length]), ways), ways.index(option[length])))
        found.append(passed)
    return found


def fork_logps(backend: Backend, forks: Iterable[Fork], sampling: Sampling) -> dict[Fork, NDArray[np.float64]]:
    """Log-probs in nats of the ways of each fork; each distinct fork is asked for once, all in one call.

    Args:
        backend: the model.
        forks: any.
        sampling: of the agent; at temperature 0 the most likely way, the lowest id of equals, is certain.

    Returns:
        (K,) float64 for the K ways of each.

    Raises:
        BackendError: the model failed.
    """
    distinct = list(dict.fromkeys(forks))
    if not distinct:
        return {}
    scores = backend.score([ScoreRequest(fork.ids, [(way,) for way in fork.ways]) for fork in distinct])
    return {
        fork: _tempered(np.asarray(row, np.float64), sampling.temperature)
        for fork, row in zip(distinct, scores, strict=True)
    }


def _tempered(scores_K: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    if temperature == 0.0:
        logps_K = np.full_like(scores_K, -np.inf)
        logps_K[scores_K.argmax()] = 0.0
        return logps_K
    logits_K: NDArray[np.float64] = (scores_K - scores_K.max()) / temperature
    logits_K -= np.log(np.exp(logits_K).sum())
    return logits_K
