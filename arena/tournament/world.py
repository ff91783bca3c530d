"""What a tournament is played with, built from its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from arena.agents import AGENTS
from arena.agents.types import Agent
from arena.decisions import Sprt
from arena.judges import JUDGES
from arena.judges.types import AnyJudge
from arena.protocols import Protocol, load_protocol
from arena.protocols.records import Task
from arena.running import fingerprint_tasks
from arena.scheduling import SCHEDULES, Schedule, reach
from arena.scheduling.early_stop import EarlyStop
from arena.tasks import TaskSet, open_tasks
from arena.tournament.config import SpecLike, SprtConfig, TournamentConfig
from arena.tournament.entries import Entry, build_lineup, entries_of
from arena.tournament.pairing import entered

__all__ = ["World", "build_schedule", "build_world", "identity_of", "opened_tasks", "sprt_of"]


@dataclass(frozen=True, slots=True)
class World:
    """All that takes part."""

    config: TournamentConfig
    protocols: Mapping[str, Protocol]
    """By name in the file; the only one has the name ``""``."""
    taskset: TaskSet
    tasks: tuple[Task, ...]
    """Those of each pairing, in order."""
    spare: tuple[Task, ...]
    """Further ones, for a schedule that reaches beyond them."""
    judge: AnyJudge
    """Who decides."""
    judges: Mapping[str, AnyJudge]
    """Who judges the transcripts again."""
    entries: Mapping[str, Entry]
    lineups: Mapping[str, Mapping[str, Mapping[str, Agent]]]
    """Protocol -> entry -> seat -> agent, `entered` under the name of the entry."""
    agents: Mapping[str, Mapping[str, Agent]] = field(default_factory=dict)
    """Entry -> seat -> agent as it was built; of the first protocol."""

    @property
    def by_id(self) -> dict[str, Task]:
        """All tasks by id."""
        return {task.id: task for task in self.playable}

    @property
    def playable(self) -> tuple[Task, ...]:
        """The tasks of each pairing, and the further ones."""
        return (*self.tasks, *self.spare)

    def everybody(self) -> list[object]:
        """All that may use models, judges included."""
        seated = [agent for lineup in self.agents.values() for agent in lineup.values()]
        return [*seated, self.judge, *self.judges.values()]

    def build_agent(self, spec: SpecLike) -> Agent:
        """An agent that knows the tasks and the judge if its kind asks for them."""
        return AGENTS.build(spec, tasks=self.taskset, judge=self.judge, seed=self.config.seed)


def opened_tasks(config: TournamentConfig, schedule: Schedule) -> tuple[TaskSet, tuple[Task, ...], tuple[Task, ...]]:
    """The task set, the tasks of each pairing, and those that its schedule may ask for besides.

    Raises:
        UserError: there are none, or they have faults.
    """
    taskset = open_tasks(config.tasks, seed=config.seed)
    tasks = tuple(taskset.test[: config.n * reach(schedule)])
    return taskset, tasks[: config.n], tasks[config.n :]


def build_world(config: TournamentConfig) -> World:
    """Build tasks, judges and agents.

    Raises:
        UserError: a mistake in the file or in what it names.
    """
    protocols = {name: load_protocol(part.protocol, part.params) for name, part in config.played().items()}
    entries = entries_of(config.agents)
    taskset, tasks, spare = opened_tasks(config, build_schedule(config, tuple(entries)))
    judge: AnyJudge = JUDGES.build(config.judge, seed=config.seed)
    judges: dict[str, AnyJudge] = {name: JUDGES.build(spec, seed=config.seed) for name, spec in config.judges.items()}

    def build(spec: SpecLike) -> Agent:
        return AGENTS.build(spec, tasks=taskset, judge=judge, seed=config.seed)

    seats = {name: protocol.seats for name, protocol in protocols.items()}
    every = tuple(dict.fromkeys(seat for group in seats.values() for seat in group))
    agents = {name: build_lineup(entry, every, build) for name, entry in entries.items()}
    lineups = {
        part: {name: entered(name, {seat: agents[name][seat] for seat in group}) for name in entries}
        for part, group in seats.items()
    }
    return World(config, protocols, taskset, tasks, spare, judge, judges, entries, lineups, agents)


def build_schedule(config: TournamentConfig, names: tuple[str, ...]) -> Schedule:
    """The schedule of the file, its pairings stopped early where the file says so.

    Args:
        config: of the tournament.
        names: who takes part at the beginning.

    Raises:
        UserError: there is no such schedule, or it cannot work with these agents.
    """
    schedule = SCHEDULES.build(config.schedule, names=names)
    if config.sprt is None:
        return schedule
    sprt = config.sprt
    return EarlyStop(schedule, sprt.block, lambda scores: sprt_of(sprt).replay(scores).decision is not None)


def sprt_of(config: SprtConfig) -> Sprt:
    """The sequential test of a pairing, at its beginning.

    Raises:
        ConfigError: its bounds are no bounds.
    """
    return Sprt(config.elo0, config.elo1, config.alpha, config.beta)


_ALWAYS = ("tournament", "protocol", "params", "tasks", "n", "seed", "anchor")
_WHERE_USED = ("schedule", "sprt")


def identity_of(world: World) -> dict[str, Any]:
    """What decides the games, as JSON values: a resumed tournament must have the same.

    How ratings are made of the games, when the tournament stops, and what `Registry.identity` leaves out of specs
    decide none; the anchor is among them since reports tell it. ``agents``, ``arms`` and ``judges`` may have more
    entries later.
    """
    config = world.config
    found = config.model_dump(mode="json", include=set(_ALWAYS))
    for name in _WHERE_USED:
        if (value := getattr(config, name)) != type(config).model_fields[name].default:
            found[name] = value.model_dump(mode="json") if hasattr(value, "model_dump") else value
    if config.protocols:
        found["protocols"] = {name: part.model_dump(mode="json") for name, part in config.protocols.items()}
    if config.judges:
        found["judges"] = {name: JUDGES.identity(spec) for name, spec in config.judges.items()}
    if config.arms:
        found["arms"] = {name: arm.model_dump(mode="json") for name, arm in config.arms.items()}
    fingerprints = {name: protocol.fingerprint for name, protocol in world.protocols.items()}
    return found | {
        "agents": {name: entry.identity() for name, entry in world.entries.items()},
        "judge": JUDGES.identity(config.judge),
        "protocol_fingerprint": fingerprints.get("", fingerprints),
        "tasks_fingerprint": fingerprint_tasks(world.playable),
        "judge_fingerprint": world.judge.name,
    }
