"""Agents that sample from a model, and the versioned policies behind them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from arena.agents.encoders import Encoder
from arena.agents.sampling import PLAIN, check_sampling
from arena.agents.types import Act, Ask, Backend, Completion, SampleRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling, TokenSpan, TurnStatus

if TYPE_CHECKING:
    from arena.agents.backend_hf import HFBackend
    from arena.agents.models import Model

__all__ = ["Policy", "PolicyAgent"]


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
        extend, sampling, own_limit = self.encoder.extend, self.sampling, self.max_tokens
        room_limit: int | None = getattr(self.backend, "max_length", None)
        heard: list[tuple[list[int], bool]] = []
        requests: list[SampleRequest] = []
        full: dict[int, str] = {}
        for number, ask in enumerate(asks):
            context = ask.context
            delta, fresh = extend(context, ask.new)
            if fresh:
                context.ids.clear()
            context.ids += delta
            heard.append((delta, fresh))
            limit = own_limit if ask.max_tokens is None else min(ask.max_tokens, own_limit)
            if room_limit is not None and len(context.ids) + limit > room_limit:
                limit = room_limit - len(context.ids)
                if limit < 1:
                    full[number] = f"the context of {len(context.ids)} tokens fills the {room_limit} of '{self.name}'"
                    continue
            requests.append(SampleRequest(context.ids, ask.seed, sampling, limit))
        drawn = iter(self._draw(requests) if requests else ())
        policy = self.backend.policy
        acts: list[Act] = []
        for number, (ask, (delta, fresh)) in enumerate(zip(asks, heard, strict=True)):
            answer = full[number] if number in full else next(drawn)
            if isinstance(answer, str):
                span = TokenSpan(tuple(delta), (), (), policy, sampling, fresh)
                acts.append(Act("", TurnStatus.TRANSPORT, span, answer))
                continue
            ask.context.ids += answer.ids
            ended = answer.finish == "stop"
            text = self.encoder.decode(answer.ids[:-1] if ended else answer.ids)
            whole = ended or (ask.max_tokens == 1 and self.encoder.one_token_turns)
            span = TokenSpan(tuple(delta), answer.ids, answer.logps, policy, sampling, fresh)
            acts.append(Act(text, TurnStatus.OK if whole else TurnStatus.TRUNCATED, span))
        return acts

    def _draw(self, requests: Sequence[SampleRequest]) -> Sequence[Completion | str]:
        """A completion or what went wrong for each request; where a batch fails, each request alone."""
        try:
            return self.backend.generate(requests)
        except BackendError as error:
            if len(requests) == 1:
                return [str(error) or type(error).__name__]
            return [found for request in requests for found in self._draw([request])]


@dataclass(eq=False)
class Policy:
    """A model at a version: ``debater@v17``."""

    name: str
    model: Model
    version: int = 0
    adapter: str | None = "default"
    """LoRA adapter that speaks, if the network has adapters; None: the base without them."""
    _backend: HFBackend | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Name and version as in ledgers and ratings."""
        return f"{self.name}@v{self.version}"

    @property
    def backend(self) -> HFBackend:
        """Samples from the current weights; one for the life of the policy."""
        if self._backend is None:
            from arena.agents.backend_hf import HFBackend

            self._backend = HFBackend(self.model, self.id, adapter=self.adapter)
        return self._backend

    def agent(self, sampling: Sampling = PLAIN, max_tokens: int = 256, name: str | None = None) -> PolicyAgent:
        """An agent that speaks with this policy, named after its current version unless told otherwise."""
        return PolicyAgent(name or self.id, self.backend, self.model.encoder, sampling, max_tokens)

    def publish(self) -> str:
        """The weights changed: count the version up, drop what is cached, and return the new id."""
        self.version += 1
        if self._backend is not None:
            self._backend.policy = self.id
            self._backend.invalidate()
        return self.id

    def snapshot(self) -> Policy:
        """A frozen copy of the weights under the same id: a league member, or the reference of a KL term."""
        network: Any = copy.deepcopy(self.model.network)
        network.eval()
        network.requires_grad_(False)
        model = type(self.model)(network, self.model.encoder, self.id, self.model.source)
        return Policy(self.name, model, self.version, self.adapter)
