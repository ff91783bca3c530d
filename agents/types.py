"""What fills a role: the contract between the engine, the agents and the model backends.

    engine --Ask--> Agent.act --SampleRequest--> Backend.generate
           <--Act--                <--Completion--

An `Ask` carries only what its role may see. An agent that samples from a model returns the exact tokens in
`Act.tokens`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from arena.protocols.outputs import OutputRule
from arena.protocols.records import Sampling, Task, TokenSpan, Turn, TurnStatus

__all__ = [
    "Act",
    "Agent",
    "Ask",
    "AsyncAgent",
    "Backend",
    "Completion",
    "Context",
    "Message",
    "SampleRequest",
    "ScoreRequest",
]


@dataclass(frozen=True, slots=True)
class Message:
    """A piece of text for one role."""

    kind: Literal["opening", "heard", "prompt", "cue"]
    """``opening``: the role's instructions, once, first (a chat's system message). ``heard``: another turn, rendered
    for readers. ``prompt``: what the node asks for now. ``cue``: words at the beginning of the speaker's own turn."""
    text: str


@dataclass(slots=True)
class Context:
    """What one role has seen and said so far in one episode; owned by its agent, kept by the engine."""

    ids: list[int] = field(default_factory=list)
    """Every token id so far: the prefix of the next request. Only ever appended to; a fresh start puts another list in
    its place, so that the engine can go back to what stood there before a request that failed."""
    state: Any = None
    """Whatever else the agent's encoder needs to extend the context. It is replaced, never changed, since several
    candidates for a turn may go on from the same one."""


@dataclass(slots=True)
class Ask:
    """A request to speak."""

    episode: str
    node: str
    role: str
    visit: int
    seed: int
    """64-bit seed of this turn's random stream: derived from (run, episode, node, visit), never from batch order."""
    context: Context
    new: Sequence[Message]
    """What the role has not seen before its previous turn: opening, heard, prompt, cue, in that order of time."""
    max_tokens: int | None
    """The protocol's limit of sampled tokens for this turn; None leaves it to the agent."""
    answer: int | None
    """Index (task order) of the answer that the role argues."""
    task: Task
    """The task reduced to the fields that the role may see, without label."""
    heard: Sequence[Turn]
    """All turns so far that the role may read, its own included, for agents that are programs; without own turns ``to:
    nobody``, which it has not in mind."""
    quote_field: str | None = None
    """Task field that the turn is expected to quote, if the protocol says so."""
    output: OutputRule | None = None
    """What form the turn must have; None leaves it free."""
    options: tuple[str, ...] = ()
    """The texts to choose from, where ``output`` is a choice."""
    max_words: int | None = None
    """The protocol's limit of words; the engine enforces it."""
    max_thinking: int | None = None
    """The protocol's limit of hidden-thinking tokens."""
    sample: int = 0
    """Which candidate of a best-of-n move this is."""
    attempt: int = 0
    """How often the move was tried before."""
    spoken: int = 0
    """How many turns the role has made before this move, whatever became of them."""


@dataclass(slots=True)
class Act:
    """What the agent said."""

    text: str
    status: TurnStatus = TurnStatus.OK
    tokens: TokenSpan | None = None
    error: str | None = None
    thinking: str = ""
    """Hidden thinking, apart from ``text``."""
    visible_tokens: int | None = None
    """Count of tokens of ``text``, if the agent knows it; where ``tokens`` is given, it need not."""
    thinking_tokens: int = 0
    """Count of tokens of ``thinking``."""


class AsyncAgent(Protocol):
    """Fills a role from afar (a server, a person): many asks wait at once, each for itself.

    An agent is asynchronous if it has ``answer``; the engine then calls that and not ``act``.
    """

    name: str

    async def answer(self, ask: Ask) -> Act:
        """See `Agent.act`, for one ask. The engine runs it in an event loop of its own."""
        ...


class Agent(Protocol):
    """Fills a role. All asks that are ready in one superstep, of all episodes in flight, come in one call."""

    name: str
    """Key in lineups, tournaments and ratings, such as ``debater@v3``."""

    def act(self, asks: Sequence[Ask]) -> Sequence[Act]:
        """One act for each ask, in order. The result for an ask must not depend on the others.

        A fault of one ask is an `Act` with a status and an error; raising `BackendError` fails the whole batch.
        """
        ...


@dataclass(slots=True)
class SampleRequest:
    """Draw tokens after a context."""

    ids: Sequence[int]
    """The whole context."""
    seed: int
    sampling: Sampling
    max_tokens: int
    allowed: Sequence[int] | None = None
    """If given, only these ids may be drawn (constrained choice); log-probs are under the constrained distribution."""


@dataclass(slots=True)
class Completion:
    """What was drawn."""

    ids: tuple[int, ...]
    logps: tuple[float, ...]
    """Log-prob in nats of each id under the distribution it was drawn from (temperature, top-p, top-k, constraint)."""
    finish: Literal["stop", "length"]
    """``stop``: the end token was drawn (it is the last id). ``length``: max_tokens reached."""


@dataclass(slots=True)
class ScoreRequest:
    """Log-probability of given continuations after a context (temperature 1, no truncation)."""

    ids: Sequence[int]
    continuations: Sequence[Sequence[int]]


class Backend(Protocol):
    """A model that draws and scores tokens, one policy version at a time."""

    @property
    def policy(self) -> str:
        """Name and version of the weights that answer: ``debater@v17``."""
        ...

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        """One completion a request, in order; each depends on its own request alone.

        Raises:
            BackendError: the model failed.
        """
        ...

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        """For each request the summed log-prob in nats of each continuation."""
        ...
