"""Running a protocol on tasks with a lineup and keeping what came of it: the work behind ``arena run``."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arena.agents import AGENTS
from arena.agents.types import Agent
from arena.engine import Engine, Plan
from arena.judges import JUDGES
from arena.judges.types import Judge
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.records import Episode, Task, Turn
from arena.seeds import derive_seed
from arena.statistics import Interval, clustered_proportion
from arena.store import RunHandle, Store
from arena.tasks import open_tasks

__all__ = [
    "Accuracy",
    "RunConfig",
    "RunSummary",
    "accuracy",
    "bad_quote_share",
    "balanced_plans",
    "exchanged",
    "fingerprint_tasks",
    "lineup_of",
    "play_stored",
    "record_tasks",
    "run_episodes",
    "stored_tasks",
]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often the verdict was the label, and on how many verdicts that rests."""

    interval: Interval | None
    """None where no decidable verdict was about a task with a label."""
    decidable: int
    """Verdicts that can be used, with a label or without."""
    undecidable: Mapping[str, int]
    """Status -> count of the verdicts that cannot; ``episode failed`` where there is none."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """All that determines a run."""

    protocol: str
    """Library name or path."""
    tasks: str
    """Task spec or a path to a JSONL file."""
    agents: Mapping[str, str]
    """Speaking role -> agent spec; the role ``*`` fills all that are not named."""
    judge: str | None = None
    """Judge spec; may be absent where the protocol has no judge."""
    n: int | None = None
    """Most tasks; None takes all."""
    seed: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)
    swap: bool = False
    """Play every task twice, with the seats' answers exchanged."""
    split: str = "test"
    """Which part of the tasks: ``train`` or ``test``."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    episodes: int
    turns: Mapping[str, int]
    """Turn status -> count."""
    accuracy: Accuracy
    wins: Mapping[str, int]
    """Role -> verdicts for the answer it argued."""
    failed: int
    """Episodes that ended in an error."""
    out: Path


def exchanged(sides: tuple[int, ...]) -> tuple[int, ...]:
    """The sides with the answers of the first two seats exchanged; of fewer than two answers, the same."""
    return sides if len(sides) < 2 else (sides[1], sides[0], *sides[2:])


def balanced_plans(
    prefix: str, protocol: Protocol, tasks: Iterable[Task], lineup: Mapping[str, Agent], *, both: bool
) -> list[Plan]:
    """One plan a task, or with ``both`` two, the second with the first two answers exchanged between the seats."""
    plans = []
    for task in tasks:
        sides = tuple(range(len(task.answers)))
        plans.append(Plan(f"{prefix}{task.id}/a", task, lineup, sides))
        if both and protocol.seats and len(sides) > 1:
            plans.append(Plan(f"{prefix}{task.id}/b", task, lineup, exchanged(sides)))
    return plans


def play_stored(
    engine: Engine,
    plans: Sequence[Plan],
    run: RunHandle,
    stage: str,
    on_batch: Callable[[list[Episode]], None] | None = None,
) -> list[Episode]:
    """Play what is not in the store yet, store it as it finishes, and return all episodes in the order of the plans."""
    done = run.finished(stage)
    for batch in engine.stream([plan for plan in plans if plan.key not in done]):
        run.add(stage, batch)
        if on_batch is not None:
            on_batch(batch)
    stored = {episode.key: episode for episode in run.episodes(stage)}
    return [stored[plan.key] for plan in plans]


def record_tasks(run: RunHandle, tasks: Iterable[Task]) -> None:
    """Keep the tasks beside the games, for reports and for judging again."""
    rows = {task.id: {"fields": dict(task.fields), "label": task.label, "group": task.group} for task in tasks}
    run.record("tasks", 0, rows)


def fingerprint_tasks(tasks: Iterable[Task]) -> str:
    """16 hex digits of the content of tasks, labels included: a resumed run must have the same."""
    digest = hashlib.sha256()
    for task in tasks:
        row = [task.id, dict(task.fields), task.label, task.group]
        digest.update(json.dumps(row, sort_keys=True, default=str).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def stored_tasks(run: RunHandle) -> dict[str, Task]:
    """What `record_tasks` kept, by id."""
    rows = run.series("tasks").get(0, {})
    return {key: Task(key, row["fields"], row["label"], row["group"]) for key, row in rows.items()}


def accuracy(episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> Accuracy:
    """Share of decidable verdicts that are the label, ties counting half, with a 95 % interval clustered by task.

    What was not judged because the episode failed counts as undecidable, not as wrong.
    """
    scores: list[float] = []
    clusters: list[str] = []
    decidable = 0
    undecidable: Counter[str] = Counter()
    for episode in episodes:
        task, verdict = tasks[episode.task], episode.verdict
        if verdict is None:
            undecidable["episode failed"] += episode.error is not None
        elif not verdict.decidable:
            undecidable[verdict.status.value] += 1
        else:
            decidable += 1
            if task.label is not None:
                scores.append(verdict.score(task.label))
                clusters.append(task.cluster)
    interval = clustered_proportion(scores, clusters) if scores else None
    return Accuracy(interval, decidable, {reason: count for reason, count in sorted(undecidable.items()) if count})


def bad_quote_share(episodes: Iterable[Episode]) -> float:
    """Share of turns with a quote that is fabricated or, where quotes must be new, repeated."""
    turns = [turn for episode in episodes for turn in episode.turns]
    return sum(any(not quote.good for quote in turn.quotes) for turn in turns) / max(1, len(turns))


def lineup_of(protocol: Protocol, agents: Mapping[str, str], **context: Any) -> dict[str, Agent]:
    """Build the agents of all speaking roles; equal specs share one agent.

    Raises:
        ConfigError: a role that nobody fills, or a filler for a role that does not speak.
    """
    speakers = protocol.speakers
    named = {role: spec for role, spec in agents.items() if role != "*"}
    if strangers := sorted(set(named) - set(speakers)):
        known = suggest(strangers[0], speakers) or " Nobody speaks in it."
        raise ConfigError(f"'{strangers[0]}' is not a speaking role of protocol '{protocol.name}'.{known}")
    lineup: dict[str, Agent] = {}
    built: dict[str, Agent] = {}
    for role in speakers:
        spec = named.get(role, agents.get("*"))
        if spec is None:
            raise ConfigError(f"nobody fills the role '{role}' of protocol '{protocol.name}': give --agent {role}=SPEC")
        if spec not in built:
            built[spec] = AGENTS.build(spec, **context)
        lineup[role] = built[spec]
    return lineup


def run_episodes(
    config: RunConfig,
    out: Path,
    *,
    created: str,
    resume: bool = False,
    concurrency: int = 512,
    on_start: Callable[[int, int], None] | None = None,
    on_turn: Callable[[Plan, Turn], None] | None = None,
    on_batch: Callable[[list[Episode]], None] | None = None,
) -> RunSummary:
    """Play a protocol over tasks and store every finished episode in ``out``.

    Args:
        config: what to run; a resumed run must have the same.
        out: run directory.
        created: time stamp to store with the run.
        resume: go on with a run that is there.
        concurrency: most episodes in flight.
        on_start: called with (episodes in the run, episodes already stored).
        on_turn: called after each turn.
        on_batch: called with the episodes that finished together.

    Raises:
        UserError: a mistake in the protocol, tasks, agents or judge; nothing was played.
        ResumeError: the directory holds another run.
    """
    protocol = load_protocol(config.protocol, config.params)
    if config.split not in ("train", "test"):
        raise ConfigError(f"split={config.split!r} is neither 'train' nor 'test'")
    taskset = open_tasks(config.tasks, seed=config.seed)
    tasks = list(taskset.test if config.split == "test" else taskset.train)[: config.n]
    judges: dict[str, Judge] = {}
    if protocol.judge_nodes:
        if config.judge is None:
            raise ConfigError(f"protocol '{protocol.name}' has a judge: give --judge SPEC (see 'arena ls judges')")
        judge = JUDGES.build(config.judge, seed=config.seed)
        judges = {protocol.nodes[name].role.name: judge for name in protocol.judge_nodes}
    lineup = lineup_of(protocol, config.agents, tasks=taskset, seed=config.seed)
    plans = balanced_plans("", protocol, tasks, lineup, both=config.swap)
    for task in tasks:
        protocol.check_task(task)
    engine = Engine(protocol, judges, seed=derive_seed(config.seed, "run"), concurrency=concurrency, on_turn=on_turn)
    identity = {
        **asdict(config),
        "protocol_fingerprint": protocol.fingerprint,
        "tasks_fingerprint": fingerprint_tasks(tasks),
        "judge_fingerprint": sorted({judge.name for judge in judges.values()}),
    }
    with Store.open(out) as store:
        run = store.begin("run", identity, created=created, resume=resume)
        if on_start is not None:
            on_start(len(plans), len(run.finished("run")))
        record_tasks(run, tasks)
        episodes = play_stored(engine, plans, run, "run", on_batch)
        run.finish("done")
    by_id = {task.id: task for task in tasks}
    return RunSummary(
        episodes=len(episodes),
        turns=dict(Counter(turn.status.value for episode in episodes for turn in episode.turns)),
        accuracy=accuracy(episodes, by_id),
        wins=_wins(protocol, episodes),
        failed=sum(episode.error is not None for episode in episodes),
        out=out,
    )


def _wins(protocol: Protocol, episodes: Iterable[Episode]) -> dict[str, int]:
    wins = dict.fromkeys(protocol.seats, 0)
    for episode in episodes:
        if episode.verdict is not None:
            for seat, role in enumerate(protocol.seats):
                wins[role] += episode.verdict.choice == episode.sides[seat]
    return wins
