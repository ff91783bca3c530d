"""Every way that an episode of a game can go for policies that speak one language, found as it is needed.

What is said in such an episode, and what it is worth, is a function of the task, the sides and the tokens that are
drawn where choices part. Here these are the branches of a tree: a `DrawPoint` is a request for one token out of some,
and an `Ending` is a finished episode without what differs between episodes on the same path (key, versions, names,
log-probs). A branch is found by playing the engine's own `Game` with the agents' own code up to it, once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from arena.agents.encoders import Encoder
from arena.agents.policy import PolicyAgent
from arena.agents.types import Ask, Completion, SampleRequest, ScoreRequest
from arena.engine.game import Game
from arena.engine.house import House
from arena.engine.plan import Plan
from arena.engine.requests import Say
from arena.games.forks import Fork
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Sampling, Task, Turn
from arena.rewards import Payoff

__all__ = ["DrawPoint", "Ending", "PlayTree", "Voice"]

Place = tuple[str, int, int, int]
"""(node, visit, sample, attempt) of a turn."""


@dataclass(frozen=True, slots=True)
class Voice:
    """What an agent says depends on this and its draws: agents of one voice share a tree."""

    encoder: Encoder
    sampling: Sampling
    max_tokens: int
    max_length: int | None

    @staticmethod
    def of(agent: PolicyAgent) -> Voice:
        """The voice of an agent."""
        room: int | None = getattr(agent.backend, "max_length", None)
        return Voice(agent.encoder, agent.sampling, agent.max_tokens, room)


@dataclass(slots=True, eq=False)
class DrawPoint:
    """Where a token is drawn out of some."""

    seat: str
    fork: Fork
    path: str
    """What the seed of the turn derives from, behind the episode's key (`arena.engine`)."""
    branch: int
    """How many tokens of the turn were drawn before."""
    ways: list[DrawPoint | Ending | None]
    """What follows each; None where nobody has come yet."""


@dataclass(slots=True, eq=False)
class SpokenTurn:
    """A turn of an agent on the way to an ending."""

    turn: Turn
    draws: tuple[int, ...]
    """For each of its tokens: which draw of the episode it was, or -1 where it was certain."""


@dataclass(slots=True, eq=False)
class Ending:
    """A finished episode, up to what differs between those of one path."""

    task: Task
    episode: Episode
    turns: list[Turn | SpokenTurn]
    payoff: Payoff | None = None
    """What it is worth, once somebody has asked."""


class _ReachedError(Exception):
    """The play has come to a draw that the path does not say."""

    def __init__(self, request: SampleRequest) -> None:
        self.request = request


@dataclass(slots=True)
class _Prompter:
    """A backend that draws what the path says."""

    policy: str
    max_length: int | None
    left: Iterator[int]
    """Ways of the draws to come."""
    drawn: list[Place]
    """Whose each draw of the play was."""
    place: Place = ("", 0, 0, 0)

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """See `arena.agents.types.Backend`; one request at a time."""
        (request,) = requests
        if request.allowed is None:
            raise ConfigError(
                f"'{self.policy}' does not speak in bare choices at '{self.place[0]}': its model thinks aloud, or two "
                "options read the same to it"
            )
        way = next(self.left, None)
        if way is None:
            raise _ReachedError(request)
        self.drawn.append(self.place)
        return [Completion((request.allowed[way],), (0.0,), "length")]

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class PlayTree:
    """The tree of one task, laid out with sides, for one voice in each seat."""

    house: House
    task: Task
    sides: tuple[int, ...] | None
    voices: Mapping[str, Voice]
    root: DrawPoint | Ending = field(init=False)
    forks: dict[str, dict[Fork, None]] = field(init=False)
    """Seat -> what it may be asked, as far as it is known."""

    def __post_init__(self) -> None:
        self.forks = {seat: {} for seat in self.voices}
        self.root = self._find([])

    def follow(self, point: DrawPoint, way: int, path: Sequence[int]) -> DrawPoint | Ending:
        """What comes after a draw; ``path`` are the ways of all draws up to and with this one."""
        found = point.ways[way]
        if found is None:
            found = point.ways[way] = self._find(path)
        return found

    def _find(self, path: Sequence[int]) -> DrawPoint | Ending:
        drawn: list[Place] = []
        left = iter(path)
        agents: dict[str, PolicyAgent] = {}
        for seat, voice in self.voices.items():
            prompter = _Prompter(seat, voice.max_length, left, drawn)
            agents[seat] = PolicyAgent(seat, prompter, voice.encoder, voice.sampling, voice.max_tokens)
        game = Game(Plan("", self.task, agents, self.sides), self.house, 0, None)
        while requests := game.proceed():
            for request in requests:
                if not isinstance(request, Say):
                    raise ConfigError(f"'{self.house.protocol.name}' asks a judge or a program: it is no game")
                ask = request.ask
                agent = agents[ask.role]
                agent.backend.place = (ask.node, ask.visit, ask.sample, ask.attempt)  # type: ignore[attr-defined]
                try:
                    (act,) = agent.act([ask])
                except _ReachedError as reached:
                    return self._point(ask, reached.request, drawn)
                request.move.answer(request.place, act)
        return _ending(self.task, game.episode, drawn)

    def _point(self, ask: Ask, request: SampleRequest, drawn: Sequence[Place]) -> DrawPoint:
        assert request.allowed is not None
        fork = Fork(tuple(request.ids), tuple(request.allowed))
        self.forks[ask.role][fork] = None
        first = ask.sample == 0 and ask.attempt == 0
        path = f"\0{ask.node}\0{ask.visit}" + ("" if first else f"\0{ask.sample}\0{ask.attempt}")
        branch = drawn.count((ask.node, ask.visit, ask.sample, ask.attempt))
        return DrawPoint(ask.role, fork, path, branch, [None] * len(fork.ways))


def _ending(task: Task, episode: Episode, drawn: Sequence[Place]) -> Ending:
    turns: list[Turn | SpokenTurn] = []
    for turn in episode.turns:
        if turn.tokens is None:
            turns.append(turn)
            continue
        if turn.error is not None and not turn.tokens.ids:
            raise ConfigError(f"task '{episode.task}' cannot be played: {turn.node}: {turn.error}")
        place = (turn.node, turn.visit, turn.sample, turn.attempt)
        own = iter([number for number, other in enumerate(drawn) if other == place])
        allowed = turn.tokens.allowed or ()
        turns.append(SpokenTurn(turn, tuple(next(own) if len(ways) > 1 else -1 for ways in allowed)))
    return Ending(task, episode, turns)
