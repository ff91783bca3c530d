"""What backends over a continuously batching engine share: every request goes alone, and all at once.

A backend of this sort asks its engine one sort of `Question`: what is drawn after these ids, and how likely would
those have been. Adapters are delivered as files under names that are never used twice (`arena.agents.adapters`).
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from arena.agents.adapters import AdapterShelf, PublishedAdapter
from arena.agents.backends import check_room
from arena.agents.loops import LoopThread
from arena.agents.models import Model
from arena.agents.sampling import PLAIN, check_sampling
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling

__all__ = ["Answer", "BatchingBackend", "Question", "Speaker"]

_SEEDS = (1 << 63) - 1
"""Engines take seeds as signed 64-bit numbers, and -1 as none."""
_COOLEST = 0.01
"""vLLM raises lower temperatures to this one without saying so in its answer."""
_MOST_SCORED = 128
"""Most ids whose log-probs vLLM gives at one place."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Question:
    """What an engine is asked."""

    ids: list[int]
    """Context, at least one id."""
    seed: int
    """In [0, 2^63)."""
    sampling: Sampling
    max_tokens: int
    end_ids: tuple[int, ...] = ()
    """Ids that end the answer; they are part of it."""
    allowed: list[int] | None = None
    """Only these ids may be drawn."""
    scored: tuple[int, ...] = ()
    """Ids whose log-probs are wanted at the first place after the context, at temperature 1."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine says to a `Question`."""

    ids: tuple[int, ...]
    logps: tuple[float, ...]
    """Of ``ids``, nats, under the distribution that each was drawn from."""
    scored: Mapping[int, float] = field(default_factory=dict)
    """Id -> log-prob in nats, of those that were asked for."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """How a model speaks, as far as its backend needs to know."""

    name: str
    end_ids: tuple[int, ...]
    max_length: int | None
    """Most tokens of context and answer together."""


class BatchingBackend(ABC):
    """See the module; a backend for one policy. Several share an engine.

    Args:
        speaker: of the model.
        policy: name and version in ledgers.
        loop: where the engine lives.
    """

    def __init__(self, speaker: Speaker, policy: str, loop: LoopThread) -> None:
        self.policy = policy
        self.end_ids = speaker.end_ids
        self._speaker = speaker
        self._ends = frozenset(speaker.end_ids)
        self._loop = loop
        self._model: Model | None = None
        self._adapter_name: str | None = None
        self._adapter: PublishedAdapter | None = None
        """The version that answers now; requests under way hold theirs."""

    @property
    def max_length(self) -> int | None:
        """Most tokens of context and answer together."""
        return self._speaker.max_length

    # What an engine has to offer

    @property
    @abstractmethod
    def _shelf(self) -> AdapterShelf:
        """Where adapters are written for this engine."""

    @abstractmethod
    async def _ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        """The answer, in the engine's loop.

        Raises:
            BackendError: there is none.
        """

    @abstractmethod
    async def _load(self, adapter: PublishedAdapter) -> None:
        """Make an adapter known to the engine.

        Raises:
            BackendError: it cannot be loaded.
        """

    # What a policy needs

    def follow(self, model: Model, adapter: str | None) -> None:
        """Speak with a model's adapter as it is now, and deliver later versions of it (`update`).

        Args:
            model: whose base the engine serves.
            adapter: which of its adapters; None: the base alone.

        Raises:
            ConfigError: the model has no such adapter, or one that engines do not load.
            BackendError: it could not be loaded.
        """
        known = getattr(model.network, "peft_config", {})
        if known and adapter is not None and adapter not in known:
            raise ConfigError(f"model '{model.name}' has no adapter '{adapter}'; it has: {', '.join(known)}")
        self._model, self._adapter_name = model, adapter if known else None
        if self._adapter_name is not None:
            self._deliver(self.policy)

    def update(self, policy: str) -> None:
        """See `arena.agents.backends.PolicyBackend`.

        Raises:
            ConfigError: the policy has no adapter: the engine's base never changes.
            BackendError: the adapter could not be loaded; the version before goes on answering.
        """
        if self._adapter_name is None:
            raise ConfigError(
                f"'{policy}' changes all weights of its model, and this backend delivers LoRA adapters alone: "
                "train an adapter (binding: adapter) or sample with the backend 'hf'"
            )
        self._deliver(policy)

    def _deliver(self, policy: str) -> None:
        assert self._model is not None
        assert self._adapter_name is not None
        adapter = self._shelf.publish(self._model, self._adapter_name, policy)
        self._loop.run(self._load(adapter))
        self._adapter, self.policy = adapter, policy

    # What agents and judges need

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Draw after each context; see `arena.agents.types.Backend`.

        Raises:
            ConfigError: an empty context, one that is too long, or a temperature that the engine would change.
            BackendError: the engine failed.
        """
        adapter = self._adapter
        questions = [self._question(request) for request in requests]
        return self._loop.run(_all([self._complete(question, adapter) for question in questions]))

    async def draw(self, request: SampleRequest) -> Completion:
        """See `arena.agents.backends.AsyncBackend`; raises as `generate` does."""
        return await self._loop.hop(self._complete(self._question(request), self._adapter))

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        """Summed log-prob in nats of each continuation after its context; 0 for an empty one.

        Raises:
            ConfigError: an empty context, or one that is too long for the model.
            BackendError: the engine failed.
        """
        for request in requests:
            self._check(len(request.ids), max(map(len, request.continuations), default=0))
        adapter = self._adapter
        return self._loop.run(_all([self._score(request, adapter) for request in requests]))

    def _question(self, request: SampleRequest) -> Question:
        self._check(len(request.ids), request.max_tokens)
        sampling = check_sampling(request.sampling)
        if 0.0 < sampling.temperature < _COOLEST:
            raise ConfigError(
                f"temperature {sampling.temperature:g} is below {_COOLEST}, the lowest that vLLM draws at: write 0 for "
                "the most likely token"
            )
        allowed = None if request.allowed is None else list(request.allowed)
        seed = request.seed & _SEEDS
        return Question(list(request.ids), seed, sampling, request.max_tokens, self.end_ids, allowed)

    def _check(self, context: int, new: int) -> None:
        check_room(context, new, self.max_length, self._speaker.name)

    async def _complete(self, question: Question, adapter: PublishedAdapter | None) -> Completion:
        answer = await self._ask(question, adapter)
        if not answer.ids or not all(map(math.isfinite, answer.logps)):
            raise BackendError(f"{self.policy}: the model gave no number for the log-prob of a token that it drew")
        # The most likely token is what small temperatures end in: it is drawn with certainty.
        greedy = question.sampling.temperature == 0.0
        logps = (0.0,) * len(answer.ids) if greedy else answer.logps
        return Completion(answer.ids, logps, "stop" if answer.ids[-1] in self._ends else "length")

    async def _score(self, request: ScoreRequest, adapter: PublishedAdapter | None) -> list[float]:
        """Every token of a continuation is read where it would be drawn: a request for each distinct beginning.

        vLLM can also tell how likely a prompt was, but not beside adapters: its head then takes the prompt's rows for
        those of the requests in the batch (0.32). What the requests share is computed once, by prefix caching.
        """
        wanted: dict[tuple[int, ...], list[int]] = {}
        for continuation in request.continuations:
            for place, token in enumerate(continuation):
                wanted.setdefault(tuple(continuation[:place]), []).append(token)
        jobs = [
            (before, ids[start : start + _MOST_SCORED])
            for before, ids in ((before, list(dict.fromkeys(ids))) for before, ids in wanted.items())
            for start in range(0, len(ids), _MOST_SCORED)
        ]
        context = list(request.ids)
        asked = [
            self._ask(Question([*context, *before], 0, PLAIN, 1, scored=tuple(ids)), adapter) for before, ids in jobs
        ]
        # The first alone, so that the others find the context in the cache.
        answers = [*await _all(asked[:1]), *await _all(asked[1:])]
        known = {
            (*before, token): answer.scored[token]
            for (before, ids), answer in zip(jobs, answers, strict=True)
            for token in ids
        }
        return [
            math.fsum(known[tuple(continuation[: place + 1])] for place in range(len(continuation)))
            for continuation in request.continuations
        ]


async def _all(coroutines: Sequence[Coroutine[Any, Any, Result]]) -> list[Result]:
    """All results in order; if one fails, the others are cancelled."""
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
