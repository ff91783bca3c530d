"""Agents that are programs: baselines, demonstrators, and fakes for tests.

A program gets the `Ask` and returns a text (or a whole `Act`):

    shy = ScriptedAgent("shy", lambda ask: "no comment")

`ScriptedAgent.encode_with` lets its turns carry the tokens that a policy would have seen and written in its place, so
that its episodes are demonstrations for supervised training.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from pydantic import RootModel

from arena.agents.encoders import Encoder
from arena.agents.sampling import PLAIN, hash_index
from arena.agents.types import Act, Agent, Ask
from arena.protocols.documents import read_document, validate_model
from arena.protocols.errors import BackendError, ConfigError, suggest
from arena.protocols.records import TokenSpan, TurnStatus

__all__ = [
    "AsyncScripted",
    "FaultyAgent",
    "ScriptedAgent",
    "echo",
    "fixed",
    "from_list",
    "from_script",
    "random_quotes",
    "script",
    "silent",
]


class ScriptedAgent:
    """Speaks by calling ``function`` for each ask.

    Args:
        name: key in lineups and ratings.
        function: ask -> text or act. A random program must draw from ``ask.seed`` alone
            (`arena.agents.sampling.hash_index`).
        encoder: if given, turns carry a `TokenSpan` with ``logps`` None; see `encode_with`.
        policy: name in those spans; the agent's name if empty.
    """

    def __init__(
        self, name: str, function: Callable[[Ask], str | Act], *, encoder: Encoder | None = None, policy: str = ""
    ) -> None:
        self.name = name
        self.function = function
        self.encoder = encoder
        self.policy = policy or name

    def encode_with(self, encoder: Encoder, policy: str = "") -> ScriptedAgent:
        """The same program, its turns with the tokens that a policy with this encoder would have seen and written.

        A turn that the protocol limits to one token has no end token where the encoder's turns end by themselves.
        """
        return ScriptedAgent(self.name, self.function, encoder=encoder, policy=policy or self.policy)

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One turn for each ask; see `arena.agents.types.Agent`."""
        acts = []
        for ask in asks:
            said = self.function(ask)
            act = Act(said) if isinstance(said, str) else said
            if self.encoder is not None and act.tokens is None:
                act.tokens = self._span(ask, act, self.encoder)
            acts.append(act)
        return acts

    def _span(self, ask: Ask, act: Act, encoder: Encoder) -> TokenSpan:
        delta, fresh = encoder.extend(ask.context, ask.new)
        ids = _as_choice(ask, act, encoder)
        if ids is None:
            end = act.status is TurnStatus.OK and not (ask.max_tokens == 1 and encoder.one_token_turns)
            ids = encoder.encode_turn(act.text, end=end)
        if fresh:
            ask.context.ids = []
        ask.context.ids += delta
        ask.context.ids += ids
        return TokenSpan(tuple(delta), tuple(ids), None, self.policy, PLAIN, fresh)


def _as_choice(ask: Ask, act: Act, encoder: Encoder) -> list[int] | None:
    """Ids of an option as a policy draws it, with or without an end token; None where the turn is none."""
    from arena.agents.choices import choices_of

    said = encoder.encode_turn(act.text, end=False)
    found = (list(option) for option in choices_of(ask, encoder) or ())
    return next((option for option in found if option in (said, [*said, encoder.end_ids[0]])), None)


class AsyncScripted:
    """Speaks by calling ``function``, but takes its time: many asks wait at once, as for a server.

    Args:
        name: key in lineups and ratings.
        function: ask -> text or act.
        seconds: how long an answer takes.
    """

    def __init__(self, name: str, function: Callable[[Ask], str | Act], seconds: float) -> None:
        self.name = name
        self.function = function
        self.seconds = seconds

    async def answer(self, ask: Ask) -> Act:
        """The turn; see `arena.agents.types.AsyncAgent`."""
        await asyncio.sleep(self.seconds)
        said = self.function(ask)
        return Act(said) if isinstance(said, str) else said


def from_list(texts: Sequence[str], *, name: str = "list") -> ScriptedAgent:
    """Says ``texts`` one after the other, counted by the role's own turns in the episode, and starts again at the end.

    Raises:
        ConfigError: the list is empty.
    """
    lines = list(texts)
    if not lines:
        raise ConfigError(f"agent '{name}' has nothing to say: give at least one text")

    def say(ask: Ask) -> str:
        return lines[(ask.spoken + ask.attempt) % len(lines)]

    return ScriptedAgent(name, say)


def fixed(text: str, *, name: str = "fixed") -> ScriptedAgent:
    """Always says ``text``."""
    return ScriptedAgent(name, lambda ask: text)


def silent(*, name: str = "silent") -> ScriptedAgent:
    """Says nothing."""
    return fixed("", name=name)


def echo(*, name: str = "echo") -> ScriptedAgent:
    """Repeats the last turn that it heard from another role; nothing if there is none."""

    def say(ask: Ask) -> str:
        return next((turn.text for turn in reversed(ask.heard) if turn.role != ask.role), "")

    return ScriptedAgent(name, say)


def random_quotes(*, name: str = "random-quotes") -> ScriptedAgent:
    """Quotes an item of the protocol's quote field that nobody quoted yet, uniformly by the turn's seed; else nothing.

    Raises:
        ConfigError: at the first ask, if the node quotes no field or the field is not a list of texts.
    """

    def say(ask: Ask) -> str:
        items = _quotable(ask, name)
        used = {quote.text for turn in ask.heard for quote in turn.quotes}
        left = [item for item in items if item not in used]
        return left[hash_index(ask.seed, len(left))] if left else ""

    return ScriptedAgent(name, say)


def _quotable(ask: Ask, name: str) -> Sequence[str]:
    if ask.quote_field is None:
        raise ConfigError(f"agent '{name}' quotes, but node '{ask.node}' has no 'quote: FIELD' to quote from")
    items = ask.task.fields.get(ask.quote_field)
    if items is None or isinstance(items, str) or not isinstance(items, Sequence):
        raise ConfigError(
            f"agent '{name}' needs a list of texts in task field '{ask.quote_field}' (task '{ask.task.id}'), "
            f"not {type(items).__name__}"
        )
    return items


class FaultyAgent:
    """Wraps an agent and fails where told: for tests of whatever must survive failures.

    Args:
        inner: the agent that answers otherwise.
        fails: ask -> whether this ask fails.
        how: ``error`` and ``timeout`` answer with a failed act; ``raise`` raises `BackendError` for the whole batch.
    """

    def __init__(self, inner: Agent, fails: Callable[[Ask], bool], how: str = "error") -> None:
        if how not in {"error", "timeout", "raise"}:
            raise ConfigError(f"'{how}' is not a way to fail: error, timeout or raise")
        self.name = inner.name
        self.inner = inner
        self.fails = fails
        self.how = how

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One act for each ask; see `arena.agents.types.Agent`."""
        broken: Collection[int] = {number for number, ask in enumerate(asks) if self.fails(ask)}
        if broken and self.how == "raise":
            raise BackendError(f"injected failure of '{self.name}' at episode {asks[min(broken)].episode}")
        rest = iter(self.inner.act([ask for number, ask in enumerate(asks) if number not in broken]))
        error = "timed out (injected)" if self.how == "timeout" else "injected failure"
        return [Act("", TurnStatus.TRANSPORT, error=error) if n in broken else next(rest) for n in range(len(asks))]


def listed(texts: Sequence[str] | str, *, name: str = "list") -> ScriptedAgent:
    """`from_list` for specs: a YAML list, or one text with the turns separated by ``|``."""
    return from_list(texts.split("|") if isinstance(texts, str) else texts, name=name)


def from_script(lines: Mapping[str, Sequence[str]], *, name: str = "scripted") -> ScriptedAgent:
    """Each role says its own lines, one after the other, in the order in which its turns are recorded.

    Failed attempts and candidates that are not picked use up lines as well: the candidates of a best-of-n turn say the
    next n lines, an attempt that is made again the one after.

    Args:
        lines: role -> what it says. Roles ``debater-1``, ``debater-2`` without lines of their own say those of
            ``debater``.
        name: key in lineups and ratings.
    """

    def say(ask: Ask) -> str:
        own = lines.get(ask.role, lines.get(ask.role.rpartition("-")[0]))
        if own is None:
            raise ConfigError(f"agent '{name}' has no lines for role '{ask.role}'.{suggest(ask.role, lines)}")
        place = ask.spoken + ask.sample + ask.attempt
        if place >= len(own):
            raise ConfigError(
                f"agent '{name}' has {len(own)} lines for role '{ask.role}', and node '{ask.node}' asks for one more: "
                "write it at the end of its list"
            )
        return own[place]

    return ScriptedAgent(name, say)


class _ScriptFile(RootModel[dict[str, list[str]]]):
    """Role -> what it says."""


def script(*, path: str, name: str = "scripted") -> ScriptedAgent:
    """`from_script` of a YAML file: a mapping of roles to lists of texts.

    Raises:
        SourceError: it cannot be read, or is of another form.
    """
    document = read_document(path)
    return from_script(validate_model(document, _ScriptFile).root, name=name)
