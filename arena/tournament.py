"""Tournaments: every agent against every other on the same tasks, both seats, rated by Bradley-Terry."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from arena.agents import AGENTS
from arena.agents.prices import Usage, used_by
from arena.agents.types import Agent, AsyncAgent
from arena.engine import Engine, Plan
from arena.judges import JUDGES
from arena.judging import deciding_nodes
from arena.protocols import Protocol, load_protocol
from arena.protocols.documents import read_document, validate_model
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task
from arena.ratings import CrossPlay, Match, Rating, cross_play, elo_table
from arena.records_json import finite
from arena.running import (
    Accuracy,
    accuracy,
    exchanged,
    fingerprint_tasks,
    play_stored,
    record_protocol,
    record_tasks,
)
from arena.seeds import derive_seed
from arena.store import RunHandle, Store
from arena.tasks import open_tasks
from arena.undecided import MOST_UNDECIDED, NO_VERDICTS, Undecided, UndecidedLimit

__all__ = [
    "Standings",
    "TournamentConfig",
    "check_pairing",
    "entered",
    "load_tournament",
    "matches_of",
    "pairing_plans",
    "run_tournament",
]


class TournamentConfig(BaseModel):
    """A tournament file."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tournament: str
    """Its name."""
    protocol: str
    """Protocol with two arguing seats: a library name, or a path beside the file."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
    tasks: str | dict[str, Any]
    """Task spec, or a path to a JSONL file beside the tournament file."""
    n: int = Field(20, ge=1)
    """Tasks for each pairing; each is played twice, with the agents exchanging seats."""
    agents: dict[str, str | dict[str, Any]] = Field(min_length=2)
    """Name -> agent spec. Ratings are by name, so two names may stand for the same model."""
    judge: str | dict[str, Any]
    """Judge spec."""
    seed: int = 0
    """Root of all random streams."""
    anchor: str | None = None
    """Agent whose rating is 0; absent: the mean is 0."""
    max_undecidable: float = Field(MOST_UNDECIDED, ge=0, le=1)
    """The tournament stops when a larger share of its verdicts cannot be used; 1 allows everything."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Where a tournament ended."""

    ratings: list[Rating]
    matches: int
    accuracy: Accuracy
    """Share of verdicts that are the label, where tasks have labels."""
    scores: CrossPlay
    """Mean score of each agent against each other, ties one half."""
    note: str = ""
    """What a reader of the ratings must know: that they were shrunk, or why there are none."""
    usage: Sequence[Usage] = ()
    """What was used of models that are paid for or whose answers are kept, one entry a model."""
    missing: int = 0
    """Games that were not played to their end."""
    stopped: str = ""
    """Why an agent or judge gave up; empty if all was played."""
    undecided: Undecided = NO_VERDICTS
    """How many verdicts cannot be used, why, and whether the tournament was stopped for it."""


def load_tournament(path: Path) -> TournamentConfig:
    """Read a tournament file; protocol and task paths count from its folder.

    Raises:
        SourceError: all faults of the file.
    """
    document = read_document(path)
    config = validate_model(document, TournamentConfig)
    changes: dict[str, Any] = {}
    if config.protocol.endswith((".yaml", ".yml")):
        changes["protocol"] = str(path.parent / config.protocol)
    if isinstance(config.tasks, str) and config.tasks.endswith(".jsonl"):
        changes["tasks"] = str(path.parent / config.tasks)
    return config.model_copy(update=changes)


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


def pairing_plans(
    protocol: Protocol, tasks: Sequence[Task], first: str, second: str, lineups: Mapping[str, Mapping[str, Agent]]
) -> list[Plan]:
    """Both games of a pairing on every task.

    The sides of a task are the same in both games, so that each agent argues each answer once, from the seat that goes
    with it; sides alternate from task to task.

    Args:
        protocol: with two arguing seats.
        tasks: to play on.
        first: name of an entry.
        second: name of another.
        lineups: for each name the agents that it puts on the seats' roles, `entered` under that name.
    """
    check_pairing(protocol)
    left, right = protocol.seats
    plans = []
    for number, task in enumerate(tasks):
        sides = tuple(range(len(task.answers)))
        sides = sides if number % 2 == 0 else exchanged(sides)
        for order, (a, b) in enumerate(((first, second), (second, first))):
            lineup = {left: lineups[a][left], right: lineups[b][right]}
            plans.append(Plan(f"{first}|{second}/{task.id}/{order}", task, lineup, sides))
    return plans


def matches_of(protocol: Protocol, episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> list[Match]:
    """Decided games as matches; both games of a pair carry the same pair key.

    Undecidable verdicts are left out, and so are verdicts for an answer that neither seat argued.
    """
    left, right = protocol.seats
    matches = []
    for episode in episodes:
        verdict, argued = episode.verdict, episode.sides[:2]
        if verdict is None or not verdict.decidable or (verdict.choice is not None and verdict.choice not in argued):
            continue
        pair = episode.key.rpartition("/")[0]
        names = episode.lineup[left], episode.lineup[right]
        matches.append(Match(*names, verdict.score(argued[0]), task=tasks[episode.task].cluster, pair=pair))
    return matches


def run_tournament(
    config: TournamentConfig,
    out: Path,
    *,
    created: str,
    resume: bool = False,
    concurrency: int = 512,
    on_start: Callable[[int, int], None] | None = None,
    on_batch: Callable[[list[Episode]], None] | None = None,
) -> Standings:
    """Play the round robin, store every game in ``out`` and rate the agents.

    Args:
        config: what to play; a resumed tournament must have the same, but for ``max_undecidable`` and what
            `Registry.identity` leaves out of specs.
        out: run directory.
        created: time stamp to store with the run.
        resume: go on with a tournament that is there.
        concurrency: most games in flight; one where a person takes part.
        on_start: called with (games of the tournament, games already stored).
        on_batch: called with the games that finished together.

    Raises:
        UserError: a mistake in the file, its tasks, agents or judge; nothing was played.
        ResumeError: the directory holds another tournament.
    """
    protocol = load_protocol(config.protocol, config.params)
    check_pairing(protocol)
    taskset = open_tasks(config.tasks, seed=config.seed)
    tasks = list(taskset.test)[: config.n]
    judge = JUDGES.build(config.judge, seed=config.seed)
    if config.anchor is not None and config.anchor not in config.agents:
        raise ConfigError(f"anchor '{config.anchor}' is not one of the agents: {', '.join(config.agents)}")
    agents = {
        name: AGENTS.build(spec, tasks=taskset, judge=judge, seed=config.seed) for name, spec in config.agents.items()
    }
    lineups = {name: entered(name, dict.fromkeys(protocol.seats, agent)) for name, agent in agents.items()}
    plans = [
        plan
        for first, second in itertools.combinations(config.agents, 2)
        for plan in pairing_plans(protocol, tasks, first, second, lineups)
    ]
    if any(getattr(person, "interactive", False) for person in (*agents.values(), judge)):
        concurrency = 1
    engine = Engine(protocol, judge, seed=derive_seed(config.seed, "tournament"), concurrency=concurrency)
    identity = {
        **config.model_dump(exclude={"max_undecidable"}),
        "agents": {name: AGENTS.identity(spec) for name, spec in config.agents.items()},
        "judge": JUDGES.identity(config.judge),
        "protocol_fingerprint": protocol.fingerprint,
        "tasks_fingerprint": fingerprint_tasks(tasks),
        "judge_fingerprint": judge.name,
    }
    with Store.open(out) as store:
        run = store.begin("tournament", identity, created=created, resume=resume)
        if on_start is not None:
            on_start(len(plans), len(run.finished("tournament")))
        record_tasks(run, tasks)
        record_protocol(run, protocol)
        limit = UndecidedLimit(config.max_undecidable)
        episodes = play_stored(engine, plans, run, "tournament", on_batch, limit)
        undecided = limit.found
        standings = standings_of(protocol, episodes, tasks, anchor=config.anchor, seed=config.seed, run=run)
        run.finish("stopped" if engine.stopped or undecided.too_many else "done")
    return replace(
        standings,
        usage=used_by([*agents.values(), judge]),
        missing=len(plans) - len(episodes),
        stopped=engine.stopped,
        undecided=undecided,
    )


def standings_of(
    protocol: Protocol,
    episodes: Sequence[Episode],
    tasks: Iterable[Task],
    *,
    anchor: str | None,
    seed: int,
    run: RunHandle | None = None,
    series: str = "ratings",
) -> Standings:
    """Rate the agents of played games; with ``run`` the table is stored beside the games as ``series``.

    Where the games determine no finite ratings (an agent won or lost all of its games), they are fitted again with a
    mild prior (l2 = 0.1) that pulls them together, and the standings say so.
    """
    by_id = {task.id: task for task in tasks}
    matches = matches_of(protocol, episodes, by_id)
    ratings, note = _rate(matches, anchor, derive_seed(seed, "bootstrap"))
    if len(matches) < len(episodes):
        left_out = (
            f"{len(episodes) - len(matches)} of {len(episodes)} games had no decidable verdict for one of the seats"
        )
        note = f"{note}; {left_out}" if note else left_out
    standings = Standings(ratings, len(matches), accuracy(episodes, by_id), cross_play(matches), note)
    if run is not None:
        run.record(series, 0, finite({"ratings": [asdict(rating) for rating in ratings], "note": note}))
    return standings


def _rate(matches: Sequence[Match], anchor: str | None, seed: int) -> tuple[list[Rating], str]:
    """Ratings by maximum likelihood, or with a prior and a note where that has no finite answer."""
    if not any(match.first != match.second for match in matches):
        return [], "no ratings: no game between two agents was decided"
    if anchor is not None and all(anchor not in (match.first, match.second) for match in matches):
        ratings, note = _rate(matches, None, seed)
        return ratings, f"no game of the anchor '{anchor}' was decided, so the mean is at 0" + (
            f"; {note}" if note else ""
        )
    try:
        return elo_table(matches, anchor=anchor, seed=seed), ""
    except ConfigError as error:
        note = f"ratings are pulled together by a prior (l2 = 0.1): {error}"
        return elo_table(matches, anchor=anchor, seed=seed, ties="half", l2=0.1), note
