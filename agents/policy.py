"""Agents that sample from a model, and the versioned policies behind them."""

from __future__ import annotations

import copy
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from arena.agents.backends import BACKENDS, AsyncBackend, PolicyBackend
from arena.agents.choices import Drawn, choices_of, draw_choice
from arena.agents.encoders import THINK, THOUGHT, Encoder
from arena.agents.sampling import PLAIN, check_sampling
from arena.agents.types import Act, Ask, Backend, Completion, SampleRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling, TokenSpan, TurnStatus
from arena.protocols.registry import Spec

if TYPE_CHECKING:
    from arena.agents.models import Model
    from arena.agents.prices import Usage

__all__ = ["AsyncPolicyAgent", "Policy", "PolicyAgent", "agent_for"]


class PolicyAgent:
    """Speaks for a role by sampling from a backend, and keeps the ledger of exact tokens.

    How a turn ends: `ok` if the model drew its end token, if it is the choice that was asked for, or if a word-level
    vocabulary was asked for exactly one token; `truncated` if a limit cut it. If the model fails, or the context is
    full, the act has status `transport`, the error, and a span without sampled ids: what the role was told stays in its
    context. The engine ends the episode.

    A turn that must be one of some texts is drawn among these (`arena.agents.choices`). Hidden thinking that a turn
    begins with is told apart, and has a limit of its own where the protocol sets one.

    Args:
        name: key in lineups and ratings.
        backend: draws the tokens.
        encoder: turns messages into ids; it must be the one of the backend's model.
        sampling: how tokens are drawn.
        max_tokens: limit of sampled tokens where the protocol sets none; the smaller of both counts. The protocol's
            limit of hidden thinking comes on top.

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

    @property
    def usage(self) -> Usage | None:
        """What the model and its call cache answered; None where nothing is cached."""
        return getattr(self.backend, "usage", None)

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One turn for each ask; see `arena.agents.types.Agent`."""
        acts: list[Act | None] = [None] * len(asks)
        turns = [self._turn(ask) for ask in asks]
        answers: list[Completion | str | None] = [None] * len(asks)
        going = list(range(len(asks)))
        while going:
            requests: list[SampleRequest] = []
            on: list[int] = []
            for number in going:
                try:
                    requests.append(turns[number].send(answers[number]))
                    on.append(number)
                except StopIteration as end:
                    acts[number] = end.value
            going = on
            for number, answer in zip(going, self._draw(requests), strict=True):
                answers[number] = answer
        return acts  # type: ignore[return-value]  # every turn has ended

    def _turn(self, ask: Ask) -> Generator[SampleRequest, Completion | str | None, Act]:
        """One turn: yields what to draw, is sent what was drawn or why nothing was."""
        context = ask.context
        delta, fresh = self.encoder.extend(context, ask.new)
        if fresh:
            context.ids = []
        context.ids += delta
        policy = self.backend.policy
        options = choices_of(ask, self.encoder)
        limit = max(map(len, options)) if options else self._limit(ask) + (ask.max_thinking or 0)
        room: int | None = getattr(self.backend, "max_length", None)
        drawn: Drawn | str
        if room is not None and (len(context.ids) >= room or (options and len(context.ids) + limit > room)):
            drawn = f"the context of {len(context.ids)} tokens fills the {room} of '{self.name}'"
        else:
            limit = limit if room is None else min(limit, room - len(context.ids))
            request = SampleRequest(context.ids, ask.seed, self.sampling, limit)
            if options:
                drawn = yield from draw_choice(request, options)
            else:
                answer = yield request
                assert answer is not None
                drawn = answer if isinstance(answer, str) else Drawn(answer)
        if isinstance(drawn, str):
            span = TokenSpan(tuple(delta), (), (), policy, self.sampling, fresh)
            return Act("", TurnStatus.TRANSPORT, span, drawn)
        return self._act(ask, drawn, TokenSpan(tuple(delta), (), (), policy, self.sampling, fresh))

    def _limit(self, ask: Ask) -> int:
        """Most visible tokens; most tokens, where hidden thinking has no limit of its own."""
        if ask.max_tokens is None:
            return self.max_tokens
        return min(ask.max_tokens - (ask.max_thinking or 0), self.max_tokens)

    def _act(self, ask: Ask, drawn: Drawn, span: TokenSpan) -> Act:
        """The turn that a completion makes; ``span`` says what stood before it."""
        encoder, context = self.encoder, ask.context
        ids, logps = drawn.completion.ids, drawn.completion.logps
        body = ids[:-1] if ids[-1] in encoder.end_ids else ids
        thinking = encoder.thinking(context, body)
        ended = drawn.completion.finish == "stop"
        if ask.max_thinking is not None:
            most = ask.max_thinking if thinking > ask.max_thinking else thinking + self._limit(ask)
            if len(ids) > most:
                # What would have been drawn under the limit: the tokens up to it are the same.
                ids, logps, body, ended = ids[:most], logps[:most], body[:most], False
        context.ids += ids
        span = replace(span, ids=ids, logps=logps, thinking=min(thinking, len(ids)), allowed=drawn.allowed)
        whole = ended or (ask.max_tokens == 1 and encoder.one_token_turns)
        act = Act(encoder.decode(body[thinking:]), TurnStatus.OK if whole else TurnStatus.TRUNCATED, span)
        if thinking:
            act.thinking, act.thinking_tokens = _without_tags(encoder.decode(body[:thinking])), span.thinking
        if drawn.allowed is not None:
            act.visible_tokens = len(body)
        return act

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
        turn = self._turn(ask)
        answer: Completion | str | None = None
        while True:
            try:
                request = turn.send(answer)
            except StopIteration as end:
                act: Act = end.value
                return act
            try:
                answer = await self.backend.draw(request)
            except BackendError as error:
                answer = _told(error)


def agent_for(
    backend: Backend, encoder: Encoder, name: str, sampling: Sampling = PLAIN, max_tokens: int = 256
) -> PolicyAgent:
    """The agent that suits a backend: asynchronous if it takes requests one by one (`arena.agents.backends`)."""
    kind = AsyncPolicyAgent if hasattr(backend, "draw") else PolicyAgent
    return kind(name, backend, encoder, sampling, max_tokens)


def _told(error: BackendError) -> str:
    return str(error) or type(error).__name__


def _without_tags(thinking: str) -> str:
    return thinking.strip().removeprefix(THINK).removesuffix(THOUGHT).strip()


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
