"""Episodes of small games at the cost of their draws.

`arena.engine.Engine` makes every episode anew: prompts, contexts, moves, what is written down. In a game of choices all
of that is a function of the task, the sides and what was drawn before, so it is remembered (`arena.games.play_tree`).
What is left to do for an episode is to draw where its choices part; each distinct context goes through the net once a
call, whoever comes to it.

    engine = GameSampler(protocol, seed=0)
    episodes = engine.play(plans)           # those of Engine(protocol, {}, seed=0).play(plans)
    payoffs = engine.pay(episodes)          # those of arena.rewards.pay(protocol, {}, episodes, tasks)
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arena.agents.policy import PolicyAgent
from arena.agents.sampling import branch_seed, uniforms
from arena.engine.house import House
from arena.engine.plan import AnyAgent, Plan
from arena.games.forks import Fork, check_full, fork_logps, is_full
from arena.games.play_tree import DrawPoint, Ending, PlayTree, SpokenTurn, Voice
from arena.games.tree import check_game
from arena.judges.nobody import NoJudge
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, TokenSpan, Turn
from arena.rewards import Payoff, pay
from arena.seeds import Seeds

__all__ = ["GameSampler", "game_sampler"]

_MOST_TREES = 4096
"""Trees that are remembered; with more (tasks that are new each time) all are forgotten."""

Lineup: TypeAlias = Mapping[str, PolicyAgent]
Known: TypeAlias = dict[int, dict[Fork, NDArray[np.float64]]]
"""Agent by its identity -> log-probs of the ways at each fork that it was asked about."""


@dataclass(frozen=True, slots=True, eq=False)
class _Band:
    """Episodes of one lineup that have gone the same way so far."""

    tree: PlayTree
    lineup: Lineup
    here: DrawPoint | Ending
    path: tuple[int, ...]
    """Ways of the draws."""
    logps: tuple[float, ...]
    """Of the draws."""
    members: NDArray[np.intp]
    """Places of their plans."""


def game_sampler(protocol: Protocol, agents: Iterable[AnyAgent], *, seed: int) -> GameSampler | None:
    """A sampler for a protocol and all who may sit in its lineups; None where only an engine can play them."""
    fits = all(isinstance(agent, PolicyAgent) and is_full(agent.sampling) for agent in agents)
    try:
        return GameSampler(protocol, seed=seed) if fits else None
    except ConfigError:
        return None


class GameSampler:
    """Plays a game of choices with policies, as the engine does.

    Args:
        protocol: every speaking node has a ``choice`` output; see `arena.games.check_game`.
        seed: root of all random streams, as of an `arena.engine.Engine`.

    Raises:
        ConfigError: the protocol is no such game.
    """

    def __init__(self, protocol: Protocol, *, seed: int) -> None:
        check_game(protocol)
        self.protocol = protocol
        self._seeds = Seeds(seed)
        self._house = House(protocol, {}, self._seeds, judging=False, clock=time.monotonic)
        self._trees: dict[tuple[object, ...], PlayTree] = {}
        self._ended: dict[str, Ending] = {}
        """By key, of the last call of `play`."""

    def play(self, plans: Sequence[Plan]) -> list[Episode]:
        """Play all plans; the episodes are those of an engine with the same seed, in the order of the plans. Those that
        went the same way share the token spans of their turns.

        Raises:
            ConfigError: a lineup that does not fit or has others than policy agents, two plans with one key, or
                options that a model cannot say.
            BackendError: a model failed.
        """
        if len({plan.key for plan in plans}) < len(plans):
            raise ConfigError("two plans have the same key, from which their random streams derive")
        bands = self._begin(plans)
        known: Known = {}
        forks = {(id(agent), fork) for band in bands for agent, fork in _known_forks(band)}
        if len(forks) <= len(plans):  # else it may be that most of them are never come to
            _score((pair for band in bands for pair in _known_forks(band)), known)
        over: list[_Band] = []
        while bands:
            over += [band for band in bands if isinstance(band.here, Ending)]
            bands = self._draw([band for band in bands if isinstance(band.here, DrawPoint)], plans, known)
        return self._finish(over, plans)

    def pay(self, episodes: Sequence[Episode]) -> list[Payoff]:
        """What episodes of the last call of `play` are worth, as `arena.rewards.pay` says: worked out once for each way
        that an episode can go.

        Raises:
            ConfigError: an episode that was not played by that call; or as `arena.rewards.pay`.
        """
        payoffs = []
        for episode in episodes:
            ending = self._ended.get(episode.key)
            if ending is None:
                raise ConfigError(f"episode '{episode.key}' was not played by the last call of this sampler")
            if ending.payoff is None:
                (ending.payoff,) = pay(self.protocol, NoJudge(), [ending.episode], {ending.task.id: ending.task})
            payoffs.append(Payoff(list(ending.payoff.rewards), None, list(ending.payoff.final)))
        return payoffs

    def forget(self) -> None:
        """Begin as a new sampler would. Which contexts go through the net together depends on what is remembered, and
        with it the last bits of log-probs; who wants the same bits after a break forgets where the break may come."""
        self._trees.clear()
        self._house.begin_run()

    def _begin(self, plans: Sequence[Plan]) -> list[_Band]:
        """All plans at the roots of their trees."""
        if len(self._trees) > _MOST_TREES:
            self.forget()
        lineups: dict[int, tuple[Lineup, tuple[tuple[str, Voice], ...]]] = {}
        members: dict[tuple[int, int, tuple[int, ...] | None], list[int]] = {}
        for place, plan in enumerate(plans):
            if id(plan.lineup) not in lineups:
                lineups[id(plan.lineup)] = _speakers(plan.lineup)
            members.setdefault((id(plan.lineup), id(plan.task), plan.sides), []).append(place)
        bands = []
        for (number, _, sides), places in members.items():
            lineup, voices = lineups[number]
            task = plans[places[0]].task
            key = (id(task), sides, voices)
            tree = self._trees.get(key)
            if tree is None:
                tree = self._trees[key] = PlayTree(self._house, task, sides, dict(voices))
            bands.append(_Band(tree, lineup, tree.root, (), (), np.asarray(places)))
        return bands

    def _draw(self, bands: Sequence[_Band], plans: Sequence[Plan], known: Known) -> list[_Band]:
        """One draw for every episode of some bands, which stand at draws; the bands that they part into."""
        points = [band.here for band in bands if isinstance(band.here, DrawPoint)]
        askers = [band.lineup[point.seat] for band, point in zip(bands, points, strict=True)]
        _score(((agent, point.fork) for agent, point in zip(askers, points, strict=True)), known)
        of, uniform_B = self._seeds.of, np.empty(0)
        seeds_B: list[int] = []
        for band, point in zip(bands, points, strict=True):
            seeds = [of(plans[place].key + point.path) for place in band.members]
            seeds_B += [branch_seed(seed, point.branch) for seed in seeds] if point.branch else seeds
        if seeds_B:
            uniform_B = uniforms(seeds_B, 0)
        parted: list[_Band] = []
        begin = 0
        for band, point, agent in zip(bands, points, askers, strict=True):
            logps_K = known[id(agent)][point.fork]
            end = begin + len(band.members)
            ways_B = _drawn(logps_K, uniform_B[begin:end])
            begin = end
            for way, logp in enumerate(logps_K.tolist()):
                members = band.members[ways_B == way]
                if len(members):
                    path = (*band.path, way)
                    here = band.tree.follow(point, way, path)
                    parted.append(_Band(band.tree, band.lineup, here, path, (*band.logps, logp), members))
        return parted

    def _finish(self, bands: Sequence[_Band], plans: Sequence[Plan]) -> list[Episode]:
        """The episodes, in the order of the plans."""
        self._ended = {}
        episodes: list[Episode | None] = [None] * len(plans)
        for band in bands:
            ending = band.here
            assert isinstance(ending, Ending)
            names = {seat: agent.name for seat, agent in band.lineup.items()}
            first = ending.episode
            turns = [_made(turn, band) for turn in ending.turns]
            for place in band.members.tolist():
                key = plans[place].key
                self._ended[key] = ending
                said = [_turn(head, fields, tail) for head, fields, tail in turns]
                episodes[place] = Episode(
                    key, first.protocol, first.task, dict(names), first.sides, said, dict(first.verdicts), first.stop,
                    first.error, dict(first.inner_verdicts), dict(first.judged), dict(first.rated),
                )  # fmt: skip
        return episodes  # type: ignore[return-value]  # every plan was in a band


def _speakers(lineup: Mapping[str, AnyAgent]) -> tuple[Lineup, tuple[tuple[str, Voice], ...]]:
    """The agents of a lineup, and how each speaks."""
    found: dict[str, PolicyAgent] = {}
    for seat, agent in lineup.items():
        if not isinstance(agent, PolicyAgent):
            raise ConfigError(
                f"'{agent.name}' ({seat}) is no agent that samples from a model: only of these is it known beforehand "
                "what they may say; play with arena.engine.Engine"
            )
        check_full(agent.sampling, agent.name)
        found[seat] = agent
    return found, tuple((seat, Voice.of(agent)) for seat, agent in found.items())


def _known_forks(band: _Band) -> Iterable[tuple[PolicyAgent, Fork]]:
    """All that the agents of a band may be asked, as far as it is known."""
    return ((band.lineup[seat], fork) for seat, forks in band.tree.forks.items() for fork in forks)


def _score(asked: Iterable[tuple[PolicyAgent, Fork]], known: Known) -> None:
    """Ask agents about forks that are new; those of one model in one call."""
    new: dict[tuple[int, object], tuple[list[PolicyAgent], dict[Fork, None]]] = {}
    for agent, fork in asked:
        if fork not in known.setdefault(id(agent), {}):
            agents, forks = new.setdefault((id(agent.backend), agent.sampling), ([], {}))
            forks[fork] = None
            if agent not in agents:
                agents.append(agent)
    for agents, forks in new.values():
        logps = fork_logps(agents[0].backend, forks, agents[0].sampling)
        for agent in agents:
            known[id(agent)] |= logps


def _drawn(logps_K: NDArray[np.float64], uniform_B: NDArray[np.float64]) -> NDArray[np.intp]:
    """(B,) ways by inverting the cumulative distribution, as `arena.agents.sampling.draw` does."""
    cdf_K = np.exp(logps_K).cumsum()
    ways_B: NDArray[np.intp] = np.searchsorted(cdf_K, uniform_B * cdf_K[-1], side="right")
    return ways_B.clip(max=len(cdf_K) - 1)


def _turn(head: tuple[Any, ...], fields: Mapping[str, Any], tail: tuple[Any, ...]) -> Turn:
    return Turn(*head, dict(fields), *tail)  # type: ignore[call-arg]  # the checker takes either for the whole


def _made(turn: Turn | SpokenTurn, band: _Band) -> tuple[tuple[Any, ...], Mapping[str, Any], tuple[Any, ...]]:
    """What the turns of a band are made of: before, in and after `Turn.fields`."""
    name, span = "", None
    if isinstance(turn, SpokenTurn):
        agent = band.lineup[turn.turn.role]
        name, span = agent.name, turn.turn.tokens
        assert span is not None
        logps = tuple([band.logps[number] if number >= 0 else 0.0 for number in turn.draws])
        span = TokenSpan(
            span.prompt, span.ids, logps, agent.backend.policy, span.sampling, span.fresh, span.side, span.thinking,
            span.allowed,
        )  # fmt: skip
        turn = turn.turn
    head = (
        turn.index, turn.superstep, turn.node, turn.role, turn.visit, name or turn.agent, turn.answer, turn.text,
        turn.status, turn.quotes, turn.audience, span, turn.error,
    )  # fmt: skip
    tail = (
        turn.about, turn.replaces, turn.attempt, turn.sample, turn.kept, turn.thinking, turn.visible_tokens,
        turn.thinking_tokens,
    )  # fmt: skip
    return head, turn.fields, tail
