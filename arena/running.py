"""Running a protocol on tasks with a lineup and keeping what came of it: the work behind ``arena run``."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from arena.agents import AGENTS
from arena.agents.prices import Usage, used_by
from arena.engine import AnyAgent, Engine, Plan, sampled_tokens
from arena.judges import JUDGES
from arena.judges.types import AnyJudge
from arena.judging import deciding_nodes
from arena.passes import PassRate, pass_rates
from arena.playing import play_stored
from arena.protocols import Budget, Protocol, load_protocol, restore_protocol, sources_of
from arena.protocols.errors import ConfigError, StoreError, suggest
from arena.protocols.records import Episode, Task, Turn, VerdictStatus
from arena.seeds import derive_seed
from arena.statistics import Interval, clustered_proportion
from arena.store import RunHandle, Store
from arena.tasks import open_tasks
from arena.transcripts import Listener
from arena.undecided import MOST_UNDECIDED, Undecided, UndecidedLimit

__all__ = [
    "Accuracy",
    "RunConfig",
    "RunSummary",
    "accuracy",
    "bad_quote_share",
    "balanced_plans",
    "exchanged",
    "fingerprint_tasks",
    "judges_of",
    "lineup_of",
    "play_stored",
    "played_games",
    "record_protocol",
    "record_tasks",
    "run_episodes",
    "stored_protocol",
    "stored_tasks",
]


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How often the verdict was the label, and on how many verdicts that rests."""

    interval: Interval | None
    """None where no decidable verdict was about a task with a label."""
    decidable: int
    """Verdicts that can be used, with a label or without; ties, which count half where there is a label, among them."""
    ties: int
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
    """Speaking role -> agent spec; a counted role stands for all its seats, ``*`` for all that are not named."""
    judges: Mapping[str, str] = field(default_factory=dict)
    """Judging role -> judge spec, named likewise."""
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
    """Turn status -> count, attempts and candidates included."""
    stops: Mapping[str, int]
    """Stop reason -> count of episodes."""
    accuracy: Accuracy | None
    """None where the protocol decides nothing about the answers of a task."""
    passes: Mapping[str, PassRate]
    """Check -> how often it was passed."""
    wins: Mapping[str, int]
    """Role -> verdicts for the answer it argued."""
    failed: int
    """Episodes that ended in an error."""
    first_error: str
    """Of the first of them; empty if there is none."""
    missing: int
    """Episodes that were not played to their end, because the run was stopped."""
    stopped: str
    """Which budget it was, or why an agent or judge gave up; empty if all was played."""
    undecided: Undecided
    """How many verdicts cannot be used, why, and whether the run was stopped for it."""
    notes: Sequence[str]
    """What was given to the run and is of no use in it."""
    usage: Sequence[Usage]
    """What was used of models that are paid for or whose answers are kept, one entry a model."""
    out: str
    """Run directory, or the URL of the database without its password."""


def exchanged(sides: tuple[int, ...]) -> tuple[int, ...]:
    """The sides with the answers of the first two seats exchanged; of fewer than two answers, the same."""
    return sides if len(sides) < 2 else (sides[1], sides[0], *sides[2:])


def balanced_plans(
    prefix: str,
    protocol: Protocol,
    tasks: Iterable[Task],
    lineup: Mapping[str, AnyAgent],
    *,
    both: bool,
    samples: int | None = None,
) -> list[Plan]:
    """One plan a task, or with ``both`` two, the second with the first two answers exchanged between the seats; with
    ``samples`` so many of each, numbered in their keys."""
    plans = []
    for task in tasks:
        sides = tuple(range(len(task.answers)))
        plans.append(Plan(f"{prefix}{task.id}/a", task, lineup, sides))
        if both and protocol.seats and len(sides) > 1:
            plans.append(Plan(f"{prefix}{task.id}/b", task, lineup, exchanged(sides)))
    if samples is None:
        return plans
    return [replace(plan, key=f"{plan.key}/{sample}") for plan in plans for sample in range(samples)]


def record_tasks(run: RunHandle, tasks: Iterable[Task]) -> None:
    """Keep the tasks beside the games, for reports and for judging again."""
    rows = {task.id: {"fields": dict(task.fields), "label": task.label, "group": task.group} for task in tasks}
    run.record("tasks", 0, rows)


def record_protocol(run: RunHandle, protocol: Protocol) -> None:
    """Keep the files of the protocol beside the games, so that these can be read wherever the files are later."""
    run.record("protocol", 0, sources_of(protocol))


def stored_protocol(run: RunHandle, step: int = 0) -> Protocol:
    """What `record_protocol` kept, compiled; ``step`` is the number of the protocol where a run has several.

    Raises:
        UserError: nothing was kept, or it is no protocol any more.
    """
    sources = run.series("protocol").get(step)
    if sources is None:
        raise StoreError(f"{run.store.where} holds no protocol")
    return restore_protocol(sources)


def played_games(run: RunHandle) -> list[Episode]:
    """The episodes under the protocol that `stored_protocol` gives: all of a run; of a tournament those that are rated,
    and none of its arms, which have protocols of their own.

    Raises:
        ConfigError: the tournament has several protocols.
    """
    if run.kind != "tournament":
        return list(run.episodes())
    if len(run.series("protocol")) > 1:
        raise ConfigError(
            f"{run.store.where} holds games of several protocols, which are not judged again as one: name further "
            "judges under 'judges' of the tournament file, and go on by --resume"
        )
    stages = [stage for stage in run.stages() if stage.split("/")[0] == "tournament"]
    return [episode for stage in stages for episode in run.episodes(stage)]


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
    decidable = ties = 0
    undecidable: Counter[str] = Counter()
    for episode in episodes:
        task, verdict = tasks[episode.task], episode.verdict
        if verdict is None:
            undecidable["episode failed"] += episode.error is not None
        elif not verdict.decidable:
            undecidable[verdict.status.value] += 1
        else:
            decidable += 1
            ties += verdict.status is VerdictStatus.TIE
            if task.label is not None and verdict.logps:
                scores.append(verdict.score(task.label))
                clusters.append(task.cluster)
    interval = clustered_proportion(scores, clusters) if scores else None
    return Accuracy(
        interval, decidable, ties, {reason: count for reason, count in sorted(undecidable.items()) if count}
    )


def bad_quote_share(episodes: Iterable[Episode]) -> float:
    """Share of turns with a quote that is fabricated or, where quotes must be new, repeated."""
    turns = [turn for episode in episodes for turn in episode.turns if turn.kept]
    return sum(any(not quote.good for quote in turn.quotes) for turn in turns) / max(1, len(turns))


def lineup_of(protocol: Protocol, agents: Mapping[str, str], **context: Any) -> dict[str, AnyAgent]:
    """Build the agents of all speaking seats; equal specs share one agent.

    Args:
        protocol: whose seats are filled.
        agents: seat, counted role, or ``*`` -> spec; the closest name counts. Seats of `human` nodes that nothing else
            fills are a person at the terminal.
        context: for the factories.

    Raises:
        ConfigError: a seat that nobody fills, or a filler for a role that does not speak.
    """
    people = {node.role.seat for node in protocol.nodes.values() if node.kind == "human"}
    specs = _by_seat(protocol, protocol.speakers, agents, "is not a speaking role of", " Nobody speaks in it.")
    specs |= {seat: "human" for seat in protocol.speakers if seat in people and seat not in specs}
    if empty := [seat for seat in protocol.speakers if seat not in specs]:
        named = " and ".join(f"'{name}'" for name in _named(protocol, empty))
        options = " ".join(f"--agent {name}=SPEC" for name in _named(protocol, empty))
        raise ConfigError(
            f"nobody fills {named} of protocol '{protocol.name}': give {options}, or '--agent *=SPEC' for all "
            "(see 'arena ls agents')"
        )
    built: dict[str, AnyAgent] = {spec: AGENTS.build(spec, **context) for spec in dict.fromkeys(specs.values())}
    return {seat: built[specs[seat]] for seat in protocol.speakers}


def judges_of(protocol: Protocol, judges: Mapping[str, str], **context: Any) -> dict[str, AnyJudge]:
    """Build the judges of all judging seats; see `lineup_of`.

    Raises:
        ConfigError: a seat without a judge, or a judge for a role that does not judge.
    """
    seats = protocol.judging_seats
    if not seats:
        judges = {name: spec for name, spec in judges.items() if name != "*"}
    specs = _by_seat(protocol, seats, judges, "is not a judging role of", " Nobody judges in it.")
    if empty := [seat for seat in seats if seat not in specs]:
        named = " and ".join(f"'{name}'" for name in _named(protocol, empty))
        options = " ".join(f"--judge {name}=SPEC" for name in _named(protocol, empty))
        raise ConfigError(
            f"nobody judges as {named} of protocol '{protocol.name}': give {options}, or --judge SPEC for all "
            "(see 'arena ls judges')"
        )
    built: dict[str, AnyJudge] = {spec: JUDGES.build(spec, **context) for spec in dict.fromkeys(specs.values())}
    return {seat: built[specs[seat]] for seat in seats}


def _named(protocol: Protocol, seats: Sequence[str]) -> list[str]:
    """Seats as an option names them: a counted role of which all are meant by its own name."""
    whole: dict[str, int] = Counter(protocol.roles[seat].group for seat in seats)
    groups = {seat: protocol.roles[seat] for seat in seats}
    return list(dict.fromkeys(role.group if whole[role.group] == role.count else seat for seat, role in groups.items()))


def _by_seat(
    protocol: Protocol, seats: Sequence[str], specs: Mapping[str, str], stranger: str, nobody: str
) -> dict[str, str]:
    """Seat -> spec by its own name, that of its counted role, or ``*``; seats that nothing names are left out."""
    groups = {seat: protocol.roles[seat].group for seat in seats}
    known = {*seats, *groups.values()}
    if strangers := sorted(set(specs) - known - {"*"}):
        hint = suggest(strangers[0], known) or nobody
        raise ConfigError(f"'{strangers[0]}' {stranger} protocol '{protocol.name}'.{hint}")
    chosen = {seat: specs.get(seat, specs.get(groups[seat], specs.get("*"))) for seat in seats}
    return {seat: spec for seat, spec in chosen.items() if spec is not None}


def run_episodes(
    config: RunConfig,
    out: str | Path,
    *,
    created: str,
    resume: bool = False,
    concurrency: int = 512,
    budget: Budget | None = None,
    max_undecidable: float = MOST_UNDECIDED,
    on_start: Callable[[int, int], None] | None = None,
    on_turn: Callable[[Plan, Turn], None] | None = None,
    on_batch: Callable[[list[Episode]], None] | None = None,
    on_end: Callable[[Protocol, list[Episode], Mapping[str, Task]], None] | None = None,
    listener: Listener | None = None,
    listened: int = 0,
) -> RunSummary:
    """Play a protocol over tasks and store every finished episode in ``out``.

    Args:
        config: what to run; a resumed run must have the same, but for what `Registry.identity` leaves out of specs.
        out: run directory, or the URL of a database, where several processes may share the run.
        created: time stamp to store with the run.
        resume: go on with a run that is there.
        concurrency: most episodes in flight; one where a person takes part, who cannot be in two of them.
        budget: of the run. Turns and tokens that are stored already count; seconds are those of this call. Of processes
            that share the run each may spend what was left when it began.
        max_undecidable: the run stops when a larger share of its verdicts, stored ones among them, cannot be used.
        on_start: called with (episodes in the run, episodes already stored).
        on_turn: called after each turn.
        on_batch: called with the episodes that finished together.
        on_end: called with the protocol, all episodes in the order of the tasks, and the tasks.
        listener: hears what everybody is told in the first episodes, as far as these are played now.
        listened: how many episodes.

    Raises:
        UserError: a mistake in the protocol, tasks, agents or judge; nothing was played.
        ResumeError: the directory holds another run.
    """
    protocol = load_protocol(config.protocol, config.params)
    if config.split not in ("train", "test"):
        raise ConfigError(f"split={config.split!r} is neither 'train' nor 'test'")
    taskset = open_tasks(config.tasks, seed=config.seed)
    tasks = list(taskset.test if config.split == "test" else taskset.train)[: config.n]
    judges = judges_of(protocol, config.judges, seed=config.seed)
    lineup = lineup_of(protocol, config.agents, tasks=taskset, seed=config.seed)
    if any(getattr(person, "interactive", False) for person in (*lineup.values(), *judges.values())):
        concurrency = 1
    players, bench = (listener.agents(lineup), listener.judges(judges)) if listener else (lineup, judges)
    plans = balanced_plans("", protocol, tasks, players, both=config.swap)
    if listener:
        listener.keys |= {plan.key for plan in plans[:listened]}
    for task in tasks:
        protocol.check_task(task)
    identity = {
        **asdict(config),
        "agents": {role: AGENTS.identity(spec) for role, spec in config.agents.items()},
        "judges": {role: JUDGES.identity(spec) for role, spec in config.judges.items()},
        "protocol_fingerprint": protocol.fingerprint,
        "tasks_fingerprint": fingerprint_tasks(tasks),
        "judge_fingerprint": sorted({judge.name for judge in judges.values()}),
    }
    with Store.open(out) as store:
        run = store.begin("run", identity, created=created, resume=resume, share=True)
        engine = Engine(
            protocol,
            bench,
            seed=derive_seed(config.seed, "run"),
            concurrency=concurrency,
            on_turn=on_turn,
            budget=_left(budget, run),
        )
        if on_start is not None:
            on_start(len(plans), len(run.finished("run")))
        record_tasks(run, tasks)
        record_protocol(run, protocol)
        limit = UndecidedLimit(max_undecidable)
        episodes = play_stored(engine, plans, run, "run", on_batch, limit)
        undecided = limit.found
        run.finish("stopped" if engine.stopped or undecided.too_many else "done")
    by_id = {task.id: task for task in tasks}
    if on_end is not None:
        on_end(protocol, episodes, by_id)
    return RunSummary(
        episodes=len(episodes),
        turns=dict(Counter(turn.status.value for episode in episodes for turn in episode.turns)),
        stops=dict(Counter(episode.stop for episode in episodes)),
        accuracy=accuracy(episodes, by_id) if deciding_nodes(protocol) else None,
        passes=pass_rates(protocol, episodes, by_id),
        wins=_wins(protocol, episodes),
        failed=sum(episode.error is not None for episode in episodes),
        first_error=next((episode.error for episode in episodes if episode.error is not None), ""),
        missing=len(plans) - len(episodes),
        stopped=engine.stopped,
        undecided=undecided,
        notes=_notes(protocol, config),
        usage=used_by([*lineup.values(), *judges.values()]),
        out=store.where,
    )


def _left(budget: Budget | None, run: RunHandle) -> Budget:
    """What is left of the budget of a run after what is stored."""
    if budget is None or (budget.turns is None and budget.tokens is None):
        return budget or Budget()
    turns = [turn for episode in run.episodes("run") for turn in episode.turns]
    tokens = sum(map(sampled_tokens, turns))
    return Budget(
        None if budget.turns is None else budget.turns - len(turns),
        None if budget.tokens is None else budget.tokens - tokens,
        budget.seconds,
    )


def _notes(protocol: Protocol, config: RunConfig) -> list[str]:
    if config.judges and not protocol.judging_seats:
        return [f"nobody judges in protocol '{protocol.name}', so --judge is not used"]
    return []


def _wins(protocol: Protocol, episodes: Iterable[Episode]) -> dict[str, int]:
    wins = dict.fromkeys(protocol.seats, 0)
    for episode in episodes:
        if episode.verdict is not None:
            for seat, role in enumerate(protocol.seats):
                wins[role] += episode.verdict.choice == episode.sides[seat]
    return wins
