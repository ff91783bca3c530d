"""The agent: an ask becomes a request, and a reply becomes an act."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from arena.agents.call_cache import CallCache, call_key
from arena.agents.openai.chat import Chat, spoken, tell, to_wire, without_cue
from arena.agents.openai.endpoint import Endpoint
from arena.agents.openai.faults import Failure, backoff, find_failure
from arena.agents.openai.forms import plain_choice, response_format
from arena.agents.openai.replies import Reply, read_reply
from arena.agents.prices import Price, Usage
from arena.agents.types import Act, Ask
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import TurnStatus

__all__ = ["Limits", "OpenAIAgent", "ServerError", "Settings"]

_SEEDS = 0x7FFF_FFFF
"""Seeds are sent with 31 bits, the most that all servers take."""
_STATUS = {"stop": TurnStatus.OK, "length": TurnStatus.TRUNCATED, "refused": TurnStatus.REFUSED}


@dataclass(frozen=True, slots=True)
class Settings:
    """What is asked of the model beside the chat."""

    model: str
    """As the server calls it."""
    temperature: float | None = None
    """None leaves it to the server; reasoning models take no other."""
    top_p: float | None = None
    max_tokens: int = 2048
    """Most tokens of a turn, hidden thinking included; the protocol's limit counts if it is smaller."""
    seed: bool = True
    """Send the turn's seed. Servers that do not know it mostly ignore it; few keep to it exactly."""
    logprobs: int = 20
    """How many of the likeliest tokens `OpenAIAgent.score_choices` asks for."""
    structured: bool = False
    """The server can hold an answer to a JSON schema: turns with ``output`` of kind json or choice ask for it."""
    prefill: bool = False
    """The server goes on from the beginning of the assistant's message: a cue is given so."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How the server is treated, and what it may cost."""

    concurrency: int = 16
    """Most requests to the endpoint at once, those of other agents and those that wait to try again included."""
    rpm: float | None = None
    """Most requests a minute to the endpoint, spread evenly."""
    timeout: float = 120.0
    """Seconds that a request may take as a whole."""
    retries: int = 5
    """Most new tries of a request."""
    max_cost: float | None = None
    """US dollars; once they are spent, nothing more is asked. Requests under way at that moment are still paid."""


class OpenAIAgent:
    """Speaks through a chat-completions endpoint; see `arena.agents.types.AsyncAgent`.

    How a turn ends: `ok`; `truncated` by the limit of tokens; `refused` by the model or a content filter, with what
    was said; `transport` with the error if the server did not answer after all tries; `cancelled` if ``max_cost`` is
    spent. There are no token ids, so nothing that is said can be trained on.

    Args:
        name: key in lineups and ratings.
        endpoint: the server.
        settings: what is asked.
        limits: how often, how long, for how much.
        key: API key; empty for a server that wants none. It stands in no message.
        price: what a token costs; None if unknown.
        cache: answers that are known already; None asks for all.
        sleep: waits for some seconds.
        clock: seconds on a clock that only goes forward.
        now: the time of day.

    Raises:
        ConfigError: ``max_cost`` without a price.
    """

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        settings: Settings,
        limits: Limits = Limits(),
        *,
        key: str = "",
        price: Price | None = None,
        cache: CallCache | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        if limits.max_cost is not None and price is None:
            raise ConfigError(
                f"max_cost of agent '{name}' needs a price of '{settings.model}': give prices=FILE, a YAML file with "
                f"a line  {settings.model}: {{input: USD, output: USD}}  for a million tokens"
            )
        self.name = name
        self.endpoint = endpoint
        self.settings = settings
        self.limits = limits
        self.cache = cache
        self.usage = Usage(settings.model, price)
        """What this agent used so far."""
        self._key = key
        self._sleep = sleep
        self._clock = clock
        self._now = now
        self._known = False
        """The server has answered before: neither key nor model can be a slip."""

    async def answer(self, ask: Ask) -> Act:
        """One turn; see `arena.agents.types.AsyncAgent`.

        Raises:
            ConfigError: the server refuses the key or the model at the first request, or ``max_cost`` cannot be kept.
        """
        chat, cue = tell(ask.context.state or (), ask.new, prefill=self.settings.prefill)
        ask.context.state = chat  # what the role was told stays, whether or not it gets to answer
        salt = {"seed": ask.seed, "sample": ask.sample, "attempt": ask.attempt}
        try:
            reply = await self._reply(self._request(ask, chat, cue), ask.seed, salt)
        except _SpentError as error:
            return Act("", TurnStatus.CANCELLED, error=str(error))
        except BackendError as error:
            return Act("", TurnStatus.TRANSPORT, error=str(error))
        text = plain_choice(ask.output, reply.text) if self.settings.structured and not cue else reply.text
        begun = self.settings.prefill and not text.lstrip().startswith(cue)
        ask.context.state = spoken(chat, cue + text if begun else text)
        return _act(reply, without_cue(text, cue), as_drawn=text == reply.text)

    async def score_choices(
        self, messages: Sequence[Mapping[str, str]], options: Sequence[str], *, seed: int = 0
    ) -> tuple[float | None, ...]:
        """Log-probability in nats of each option as the first token of the answer, at temperature 1.

        Args:
            messages: ``role`` and ``content`` of each.
            options: short texts that begin with different tokens, such as ``A`` and ``B``. Tokens that differ only by
                blanks count together.
            seed: of the waits between tries.

        Returns:
            One for each option; None where it is not among the ``logprobs`` likeliest tokens.

        Raises:
            BackendError: no answer, or one without log-probs, or ``max_cost`` is spent.
        """
        body: dict[str, Any] = {"messages": [dict(message) for message in messages], "temperature": 1.0}
        body |= {"logprobs": True, "top_logprobs": self.settings.logprobs, self._limit_name: 1}
        reply = await self._reply({"model": self.settings.model, **body}, seed, {})
        if not reply.top_logprobs:
            raise BackendError(f"{self.endpoint.url} gives no log-probs for '{self.settings.model}'")
        return tuple(_total([p for token, p in reply.top_logprobs if token.strip() == each]) for each in options)

    async def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        max_tokens: int,
        seed: int = 0,
        top_logprobs: int = 0,
        cue: str = "",
    ) -> Reply:
        """The server's answer to a chat that is no role's, such as a judge's.

        Args:
            messages: ``role`` and ``content`` of each.
            max_tokens: of the answer, hidden thinking included.
            seed: of the answer, where seeds are sent, and of the waits between tries.
            top_logprobs: also ask for so many of the likeliest first tokens, at temperature 1; 0 asks for none.
            cue: words that the answer begins with, for a server that takes a prefill; others are not told.

        Raises:
            ServerError: no answer.
            BackendError: ``max_cost`` is spent.
            ConfigError: see `answer`.
        """
        settings = self.settings
        body = self._body([dict(message) for message in messages], max_tokens, seed, cue)
        if top_logprobs:
            body |= {"logprobs": True, "top_logprobs": top_logprobs, "temperature": 1.0}
        elif settings.temperature is not None:
            body["temperature"] = settings.temperature
        return await self._reply(body, seed, {})

    # Requests

    @property
    def _limit_name(self) -> str:
        # OpenAI's reasoning models know only the new name, and most other servers only the old one.
        return "max_completion_tokens" if self.endpoint.official else "max_tokens"

    def _request(self, ask: Ask, chat: Chat, cue: str) -> dict[str, Any]:
        settings = self.settings
        form = response_format(ask.output, ask.options) if settings.structured and not cue else None
        limit = settings.max_tokens if ask.max_tokens is None else min(ask.max_tokens, settings.max_tokens)
        if form and ask.output and ask.output.kind == "choice":
            limit = settings.max_tokens  # the schema ends it, and its braces and quotes are no part of the turn
        body = self._body(to_wire(chat), limit, ask.seed, cue)
        if settings.temperature is not None:
            body["temperature"] = settings.temperature
        if form:
            body["response_format"] = form
        return body

    def _body(self, messages: list[dict[str, str]], limit: int, seed: int, cue: str) -> dict[str, Any]:
        """What all requests have."""
        settings = self.settings
        body: dict[str, Any] = {"model": settings.model, "messages": messages, self._limit_name: limit}
        if settings.top_p is not None:
            body["top_p"] = settings.top_p
        if settings.seed:
            body["seed"] = seed & _SEEDS
        if cue and settings.prefill:
            body["messages"].append({"role": "assistant", "content": cue})
            # As vLLM and SGLang have it; servers that go on by themselves do not read it.
            body["extra_body"] = {"continue_final_message": True, "add_generation_prompt": False}
        return body

    async def _reply(self, body: dict[str, Any], seed: int, salt: Mapping[str, int]) -> Reply:
        """From the cache or the server.

        Raises:
            BackendError: no answer after all tries, or ``max_cost`` is spent.
            ConfigError: see `answer`.
        """
        if self.cache is None:
            return await self._ask_server(body, seed)
        key = call_key("chat", {"url": self.endpoint.url, "body": body, **salt})
        if (found := self.cache.get(key)) is not None:
            self.usage.from_cache += 1
            return _stored(found)
        return _stored(self.cache.put(key, asdict(await self._ask_server(body, seed))))

    async def _ask_server(self, body: dict[str, Any], seed: int) -> Reply:
        limits, usage = self.limits, self.usage
        # The place is held while waiting to try again: a server that is overrun is then asked less.
        async with self.endpoint.place(limits.concurrency):
            number = 0
            while True:
                self._look_at_cost()
                answer = await self._try(body)
                if isinstance(answer, Reply):
                    return self._count(answer)
                self._look_for_slips(answer)
                if not answer.again or number == limits.retries:
                    usage.failed += 1
                    tries = f" (after {number + 1} tries)" if number else ""
                    raise ServerError(f"{self.endpoint.url}: {answer.what}{tries}", answer.status)
                number += 1
                usage.retries += 1
                await self._sleep(backoff(seed, number, answer.retry_after))

    async def _try(self, body: dict[str, Any]) -> Reply | Failure:
        if (delay := self.endpoint.delay(self.limits.rpm, self._clock())) > 0:
            await self._sleep(delay)
        client = await self.endpoint.client(self._key)
        create: Any = client.chat.completions.with_raw_response.create
        try:
            async with asyncio.timeout(self.limits.timeout):
                answer = await create(**body)
            return read_reply(answer.content)
        except Exception as error:
            failure = find_failure(error, self.limits.timeout, self._key, self._now)
            if failure is None:
                raise
            return failure

    def _look_for_slips(self, failure: Failure) -> None:
        # A wrong key or model would fail every turn of a run, so it ends it.
        if self._known or failure.status not in (401, 404):
            return
        asked = f"agent '{self.name}' at {self.endpoint.url}: {failure.what.rstrip('.')}."
        if failure.status == 401:
            raise ConfigError(f"{asked} Put a valid key into an environment variable, and name it: api_key_env=NAME")
        raise ConfigError(f"{asked} Is there a model '{self.settings.model}', and does base_url end as it should?")

    def _count(self, reply: Reply) -> Reply:
        self._known = True
        thinking = reply.thinking_tokens or 0
        self.usage.add(
            reply.prompt_tokens, reply.cached_tokens, reply.completion_tokens, thinking, reply.written_tokens
        )
        if self.limits.max_cost is not None and self.usage.uncounted:
            raise ConfigError(
                f"{self.endpoint.url} does not tell how many tokens it used, so max_cost of agent '{self.name}' cannot "
                "be kept: leave it out"
            )
        return reply

    def _look_at_cost(self) -> None:
        cost, most = self.usage.cost, self.limits.max_cost
        if most is not None and cost is not None and cost >= most:
            raise _SpentError(f"max_cost of agent '{self.name}' is reached: {cost:.4f} of {most:g} USD are spent")


class ServerError(BackendError):
    """The server gave no answer after all tries.

    Args:
        what: the last failure.
        status: its HTTP status, if there was one.
    """

    def __init__(self, what: str, status: int | None = None) -> None:
        super().__init__(what)
        self.status = status

    def __reduce__(self) -> tuple[type[ServerError], tuple[str, int | None]]:
        return type(self), (str(self), self.status)


class _SpentError(BackendError):
    """``max_cost`` is reached."""


def _act(reply: Reply, text: str, *, as_drawn: bool) -> Act:
    thinking_tokens, visible = reply.thinking_tokens or 0, None
    # Nobody knows how many tokens are visible where thinking is shown but not counted apart, or a choice was taken out.
    if as_drawn and reply.completion_tokens is not None and (thinking_tokens or not reply.thinking):
        visible = reply.completion_tokens - thinking_tokens
    error = "the model or a content filter refused" if reply.finish == "refused" else None
    return Act(
        text,
        _STATUS[reply.finish],
        error=error,
        thinking=reply.thinking,
        visible_tokens=visible,
        thinking_tokens=thinking_tokens,
    )


def _stored(answer: Mapping[str, Any]) -> Reply:
    top = tuple((token, logp) for token, logp in answer["top_logprobs"])
    return Reply(**{**answer, "top_logprobs": top})


def _total(logps: Sequence[float]) -> float | None:
    """Log of the summed probabilities."""
    if not logps:
        return None
    peak = max(logps)
    return peak + math.log(sum(math.exp(logp - peak) for logp in logps)) if math.isfinite(peak) else peak
