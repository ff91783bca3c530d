"""Agents that sample from a model, and the versioned policies behind them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from arena.agents.backends import BACKENDS, AsyncBackend, PolicyBackend
from arena.agents.encoders import Encoder
from arena.agents.sampling import PLAIN, check_sampling
from arena.agents.types import Act, Ask, Backend, Completion, SampleRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling, TokenSpan, TurnStatus
from arena.protocols.registry import Spec

if TYPE_CHECKING:
    from arena.agents.models import Model

__all__ = ["AsyncPolicyAgent", "Policy", "PolicyAgent", "agent_for"]


class PolicyAgent:
    """Speaks for a role by sampling from a backend, and keeps the ledger of exact tokens.

    How a turn ends: `ok` if the model drew its end token, or if a word-level vocabulary was asked for exactly one
    token; `truncated` if a limit cut it. If the model fails, or the context is full, the act has status `transport`,
    the error, and a span without sampled ids: what the role was told stays in its context. The engine ends the episode.

    Args:
        name: key in lineups and ratings.
        backend: draws the tokens.
        encoder: turns messages into ids; it must be the one of the backend's model.
        sampling: how tokens are drawn.
        max_tokens: limit of sampled tokens where the protocol sets none; the smaller of both counts.

    Raises:
        ConfigError: sampling or max_tokens out of range.
    """

    def __init__(
        self, name: str, backend: Backend, encoder: Encoder, sampling: Sampling = PLAIN, max_tokens: int = 256
    ) -> None:
        if max_tokens < 1:
            raise ConfigError(f"max_tokens {max_tokens} of agent '{name}' must be 1 or more")
        self.name = name
        self.backend = backend
        self.encoder = encoder
        self.sampling = check_sampling(sampling)
        self.max_tokens = max_tokens

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One turn for each ask; see `arena.agents.types.Agent`."""
        heard = [self._hear(ask) for ask in asks]
        drawn = iter(self._draw([each.request for each in heard if not isinstance(each.request, str)]))
        policy = self.backend.policy
        return [
            self._act(ask, each, each.request if isinstance(each.request, str) else next(drawn), policy)
            for ask, each in zip(asks, heard, strict=True)
        ]

    def _hear(self, ask: Ask) -> _Heard:
        """Extend the ask's context by what is new, and say what to draw; a full context says why nothing can be."""
        context = ask.context
        delta, fresh = self.encoder.extend(context, ask.new)
        if fresh:
            context.ids = []
        context.ids += delta
        limit = self.max_tokens if ask.max_tokens is None else min(ask.max_tokens, self.max_tokens)
        room: int | None = getattr(self.backend, "max_length", None)
        if room is not None and len(context.ids) + limit > room:
            limit = room - len(context.ids)
            if limit < 1:
                full = f"the context of {len(context.ids)} tokens fills the {room} of '{self.name}'"
                return _Heard(delta, fresh, full)
        return _Heard(delta, fresh, SampleRequest(context.ids, ask.seed, self.sampling, limit))

    def _act(self, ask: Ask, heard: _Heard, answer: Completion | str, policy: str) -> Act:
        """The turn that a completion, or what went wrong, makes."""
        if isinstance(answer, str):
            span = TokenSpan(tuple(heard.delta), (), (), policy, self.sampling, heard.fresh)
            return Act("", TurnStatus.TRANSPORT, span, answer)
        ask.context.ids += answer.ids
        ended = answer.finish == "stop"
        text = self.encoder.decode(answer.ids[:-1] if ended else answer.ids)
        whole = ended or (ask.max_tokens == 1 and self.encoder.one_token_turns)
        span = TokenSpan(tuple(heard.delta), answer.ids, answer.logps, policy, self.sampling, heard.fresh)
        return Act(text, TurnStatus.OK if whole else TurnStatus.TRUNCATED, span)

    def _draw(self, requests: Sequence[SampleRequest]) -> Sequence[Completion | str]:
        """A completion or what went wrong for each request; where a batch fails, each request alone."""
        if not requests:
            return ()
        try:
            return self.backend.generate(requests)
        except BackendError as error:
            if len(requests) == 1:
                return [_told(error)]
            return [found for request in requests for found in self._draw([request])]


class AsyncPolicyAgent(PolicyAgent):
    """A `PolicyAgent` whose asks are requests of their own: each is answered as soon as its tokens are drawn.

    The engine prefers `answer`, so that asks of all roles, agents and episodes are in one running batch.
    """

    backend: AsyncBackend

    async def answer(self, ask: Ask) -> Act:
        """One turn; see `arena.agents.types.AsyncAgent`."""
        heard, policy = self._hear(ask), self.backend.policy
        if isinstance(heard.request, str):
            return self._act(ask, heard, heard.request, policy)
        try:
            answer: Completion | str = await self.backend.draw(heard.request)
        except BackendError as error:
            answer = _told(error)
        return self._act(ask, heard, answer, policy)


def agent_for(
    backend: Backend, encoder: Encoder, name: str, sampling: Sampling = PLAIN, max_tokens: int = 256
) -> PolicyAgent:
    """The agent that suits a backend: asynchronous if it takes requests one by one (`arena.agents.backends`)."""
    kind = AsyncPolicyAgent if hasattr(backend, "draw") else PolicyAgent
    return kind(name, backend, encoder, sampling, max_tokens)


@dataclass(frozen=True, slots=True)
class _Heard:
    """What an ask added to its context, and what is to be drawn."""

    delta: list[int]
    fresh: bool
    request: SampleRequest | str
    """Or why nothing can be drawn."""


def _told(error: BackendError) -> str:
    return str(error) or type(error).__name__


@dataclass(eq=False)
class Policy:
    """A model at a version: ``debater@v17``."""

    name: str
    model: Model
    version: int = 0
    adapter: str | None = "default"
    """LoRA adapter that speaks, if the network has adapters; None: the base without them."""
    sampler: str | Mapping[str, Any] | Spec = "hf"
    """Which backend draws its tokens, as `arena.agents.backends.BACKENDS` names it."""
    _backend: PolicyBackend | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Name and version as in ledgers and ratings."""
        return f"{self.name}@v{self.version}"

    @property
    def backend(self) -> PolicyBackend:
        """Samples from the current weights; one for the life of the policy."""
        if self._backend is None:
            self._backend = BACKENDS.build(self.sampler, model=self.model, policy=self.id, adapter=self.adapter)
        return self._backend

    def agent(self, sampling: Sampling = PLAIN, max_tokens: int = 256, name: str | None = None) -> PolicyAgent:
        """An agent that speaks with this policy, named after its current version unless told otherwise."""
        return agent_for(self.backend, self.model.encoder, name or self.id, sampling, max_tokens)

    def publish(self) -> str:
        """The weights changed: count the version up, deliver them to the backend, and return the new id."""
        self.version += 1
        if self._backend is not None:
            self._backend.update(self.id)
        return self.id

    def snapshot(self) -> Policy:
        """A frozen copy of the weights under the same id: a league member, or the reference of a KL term."""
        network: Any = copy.deepcopy(self.model.network)
        network.eval()
        network.requires_grad_(False)
        model = type(self.model)(network, self.model.encoder, self.id, self.model.source)
        return Policy(self.name, model, self.version, self.adapter, self.sampler)
