"""Pairings as games of a protocol, and games as matches: both agents sit in both seats, and argue each answer once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from arena.agents.types import Agent, AsyncAgent
from arena.engine import Plan
from arena.judging import deciding_nodes
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task, Verdict
from arena.ratings import Match
from arena.running import exchanged

__all__ = ["check_pairing", "decided", "entered", "game_plans", "matches_of", "pairing_plans"]


class _Named:
    """An agent under the name it plays by in a tournament."""

    def __init__(self, name: str, agent: Agent | AsyncAgent) -> None:
        self.name = name
        # Whether there is an `answer` tells the engine how to ask.
        if hasattr(agent, "answer"):
            self.answer = agent.answer
        else:
            self.act = agent.act


def entered(name: str, lineup: Mapping[str, Agent]) -> dict[str, Agent]:
    """The agents of a lineup under one name: that of the entry which is rated, whoever sits in its seats."""
    named: dict[int, Agent] = {id(agent): _Named(name, agent) for agent in lineup.values()}
    return {role: named[id(agent)] for role, agent in lineup.items()}


def check_pairing(protocol: Protocol) -> None:
    """Whether two agents can meet in the protocol.

    Raises:
        ConfigError: it has not two arguing seats, somebody else speaks in it, or nothing decides between their answers.
    """
    if len(protocol.seats) != 2:
        raise ConfigError(f"protocol '{protocol.name}' has {len(protocol.seats)} arguing seats; a pairing needs two")
    if others := [role for role in protocol.speakers if role not in protocol.seats]:
        raise ConfigError(
            f"'{others[0]}' of protocol '{protocol.name}' speaks without arguing; pairings fill seats only"
        )
    if not deciding_nodes(protocol):
        raise ConfigError(f"protocol '{protocol.name}' gives no verdict, so no game in it is ever decided")


def game_plans(
    protocol: Protocol,
    task: Task,
    number: int,
    names: tuple[str, str],
    lineups: Mapping[str, Mapping[str, Agent]],
    prefix: str = "",
) -> list[Plan]:
    """Both games of one pairing on one task.

    The sides are the same in both, so that each agent argues each answer once, from the seat that goes with it. An
    agent that meets itself exchanges sides in place of seats.

    Args:
        protocol: with two arguing seats.
        task: to play on.
        number: of the task among those of the pairing; sides alternate from task to task.
        names: of both entries.
        lineups: for each name the agents that it puts on the seats' roles, `entered` under that name.
        prefix: of the keys; for games of several protocols in one run.
    """
    left, right = protocol.seats
    first, second = names
    sides = tuple(range(len(task.answers)))
    sides = sides if number % 2 == 0 else exchanged(sides)
    plans = []
    for order, (a, b) in enumerate(((first, second), (second, first))):
        lineup = {left: lineups[a][left], right: lineups[b][right]}
        argued = exchanged(sides) if order and first == second else sides
        plans.append(Plan(f"{prefix}{first}|{second}/{task.id}/{order}", task, lineup, argued))
    return plans


def pairing_plans(
    protocol: Protocol, tasks: Sequence[Task], first: str, second: str, lineups: Mapping[str, Mapping[str, Agent]]
) -> list[Plan]:
    """Both games of a pairing on every task; see `game_plans`.

    Raises:
        ConfigError: two agents cannot meet in the protocol.
    """
    check_pairing(protocol)
    return [
        plan
        for number, task in enumerate(tasks)
        for plan in game_plans(protocol, task, number, (first, second), lineups)
    ]


def matches_of(protocol: Protocol, episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> list[Match]:
    """Decided games as matches; both games of a pair carry the same pair key. See `decided`."""
    return [match for _, match in decided(protocol, episodes, tasks)]


def decided(
    protocol: Protocol,
    episodes: Iterable[Episode],
    tasks: Mapping[str, Task],
    verdicts: Mapping[str, Verdict] | None = None,
) -> Iterator[tuple[Episode, Match]]:
    """Each decided game with its match.

    Undecidable verdicts are left out, and so are verdicts for an answer that neither seat argued.

    Args:
        protocol: that was played.
        episodes: games in it.
        tasks: by id.
        verdicts: episode key -> verdict of another judge; absent: the one that the episode holds.
    """
    left, right = protocol.seats
    for episode in episodes:
        verdict = episode.verdict if verdicts is None else verdicts.get(episode.key)
        argued = episode.sides[:2]
        if verdict is None or not verdict.decidable or (verdict.choice is not None and verdict.choice not in argued):
            continue
        pair = episode.key.rpartition("/")[0]
        names = episode.lineup[left], episode.lineup[right]
        yield episode, Match(*names, verdict.score(argued[0]), task=tasks[episode.task].cluster, pair=pair)
