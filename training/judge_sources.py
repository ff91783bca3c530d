"""Where labelled views come from: random evidence, debates that are played now, transcripts that are stored."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from arena.judges.evidence import evidence_columns, random_subsets
from arena.judges.exact import MatchJudge
from arena.judges.types import JudgeView, Statement
from arena.judging import Bench, answers_scope
from arena.protocols import Node, Protocol, load_protocol
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.records import Episode, Quote, Task
from arena.seeds import derive_seed
from arena.tasks import open_tasks
from arena.training.judge_data import Example, LabelledViews

__all__ = ["examples_of", "played", "quotes", "stored"]

Count = Annotated[int, Field(ge=1, le=10**9)]
Share = Annotated[float, Field(ge=0, le=1)]
Length = Annotated[int, Field(ge=0, le=10**6)]
Part = Annotated[float, Field(gt=0, lt=1)]
SpecLike = str | dict[str, Any]


def quotes(
    *,
    tasks: SpecLike,
    field: str = "evidence",
    size: tuple[Length, Length] = (1, 4),
    drop: Share = 0.0,
    each: Count = 1,
    train: Count | None = None,
    held_out: Count | None = None,
    seed: int = 0,
) -> LabelledViews:
    """Random quotes of each task's evidence, as a judge that hears quotes only would read them.

    Args:
        tasks: whose evidence; the part to report on is held out.
        field: task field with the list of evidence words.
        size: smallest and largest number of quotes, both included.
        drop: share of quotes lost again, as unverified ones are.
        each: handfuls of quotes for each task that is learned from; held-out tasks give one.
        train: most tasks to learn from; None takes all.
        held_out: most tasks to measure on.
        seed: of the tasks and the quotes.

    Raises:
        ConfigError: a task without such a field.
    """
    found = open_tasks(tasks, seed=seed)

    def drawn(part: Sequence[Task], repeats: int, stream: str) -> list[Example]:
        rng = np.random.default_rng(derive_seed(seed, "quotes", stream))
        words = sorted({word for task in part for word in _words(task, field)})
        columns_BK = np.repeat(evidence_columns(part, words, field), repeats, axis=0)
        rows = random_subsets(columns_BK, size, rng, drop=drop).tolist()
        return [
            _quoted(part[number // repeats], number % repeats, [words[column] for column in row if column >= 0])
            for number, row in enumerate(rows)
        ]

    return LabelledViews(drawn(found.train[:train], each, "train"), drawn(found.test[:held_out], 1, "held out"))


def _words(task: Task, field: str) -> Sequence[str]:
    words = task.fields.get(field)
    if words is None or isinstance(words, str):
        raise ConfigError(f"task '{task.id}': field '{field}' must be a list of words, not {words!r}")
    return list(words)


def _quoted(task: Task, number: int, words: Sequence[str]) -> Example:
    said = Statement("", None, "", tuple(Quote(word, verified=True) for word in words))
    sides = tuple(range(len(task.answers)))
    view = JudgeView(f"{task.id}/{number}", task.question, task.answers, [said], answers_argued=sides)
    return Example(view, task.label, task.cluster)


def played(
    *,
    protocol: str,
    tasks: SpecLike,
    agents: SpecLike | dict[str, SpecLike],
    params: dict[str, Any] | None = None,
    judge_node: str | None = None,
    each: Count = 1,
    train: Count | None = None,
    held_out: Count | None = None,
    seed: int = 0,
) -> LabelledViews:
    """Debates that agents play now, both seat orders in turn, as the judge of the protocol hears them.

    Args:
        protocol: a library name or a path; no verdict may steer it, since nobody judges while it is played.
        tasks: what is debated; the part to report on is held out.
        agents: an agent for all roles, or role -> agent.
        params: of the protocol.
        judge_node: whose place the judge takes; None: the last one that decides.
        each: debates about each task that is learned from; held-out tasks give one.
        train: most tasks to learn from; None takes all.
        held_out: most tasks to measure on.
        seed: of the tasks and the debates.

    Raises:
        UserError: the protocol, the agents or the node do not fit.
    """
    from arena.engine import Engine, Plan
    from arena.running import exchanged, lineup_of

    game, found = load_protocol(protocol, params or {}), open_tasks(tasks, seed=seed)
    if game.steered:
        raise ConfigError(
            f"a verdict steers protocol '{game.name}': run it with a judge, and learn from the stored run"
        )
    by_role = agents if isinstance(agents, dict) and "kind" not in agents else {"*": agents}
    lineup = lineup_of(game, by_role, tasks=found, seed=seed)  # type: ignore[arg-type]

    def debates(part: Sequence[Task], repeats: int, stream: str) -> tuple[list[Example], int]:
        plans = []
        for number, task in enumerate(part):
            sides = tuple(range(len(task.answers)))
            for turn in range(repeats):
                seats = exchanged(sides) if (number + turn) % 2 else sides
                plans.append(Plan(f"{task.id}/{turn}", task, lineup, seats))
        engine = Engine(game, MatchJudge(), seed=derive_seed(seed, "played", stream), judging=False)
        return examples_of(game, engine.play(plans), {task.id: task for task in part}, judge_node)

    learned, lost = debates(found.train[:train], each, "train")
    measured, lost_too = debates(found.test[:held_out], 1, "held out")
    return LabelledViews(learned, measured, {"failed_debates": lost + lost_too})


def stored(
    *, path: str, judge_node: str | None = None, held_out: Part = 0.25, stage: str | None = None, seed: int = 0
) -> LabelledViews:
    """Transcripts of a run directory, as the judge of the protocol heard them.

    Args:
        path: of the run.
        judge_node: whose place the judge takes; None: the last one that decides.
        held_out: share of questions to measure on.
        stage: only the episodes of this stage, such as ``tournament``.
        seed: of what is held out.

    Raises:
        StoreError: the directory holds no run.
        ConfigError: there is no such node, or nothing was judged there.
    """
    from arena.running import stored_protocol, stored_tasks
    from arena.store import Store

    with Store.open(path, create=False) as store:
        run = store.run()
        protocol, tasks = stored_protocol(run), stored_tasks(run)
        own = [episode for episode in run.episodes(stage) if episode.protocol == protocol.name]
    found, lost = examples_of(protocol, own, tasks, judge_node)
    clusters = sorted({example.cluster for example in found})
    count = round(held_out * len(clusters))
    chosen = set(random.Random(f"held out {seed}").sample(clusters, count))
    return LabelledViews(
        [example for example in found if example.cluster not in chosen],
        [example for example in found if example.cluster in chosen and example.label is not None],
        {"failed_debates": lost},
    )


def examples_of(
    protocol: Protocol, episodes: Sequence[Episode], tasks: Mapping[str, Task], node: str | None = None
) -> tuple[list[Example], int]:
    """What a judge would read of finished debates, and how many never came to be judged.

    Raises:
        ConfigError: there is no such node, or it does not decide about the tasks' own answers.
    """
    bench = Bench(protocol, _deciding(protocol, node), MatchJudge())
    found = []
    for episode in episodes:
        counts = episode.judged.get(bench.node.name, ())
        if counts and episode.error is None:
            task = tasks[episode.task]
            found.append(Example(bench.view(episode, task, upto=counts[-1]), task.label, task.cluster))
    return found, len(episodes) - len(found)


def _deciding(protocol: Protocol, name: str | None) -> Node:
    """The judge node whose place is taken: one that decides between the task's answers, and is not nested."""
    nodes = [
        node
        for node in protocol.judge_nodes
        if protocol.nodes[node].scope in (None, protocol.scope) and answers_scope(protocol.scope) == ""
    ]
    if not nodes:
        raise ConfigError(f"no judge of protocol '{protocol.name}' decides between the answers of its tasks")
    if name is not None and name not in nodes:
        raise ConfigError(f"'{name}' is no judge of protocol '{protocol.name}'.{suggest(name, nodes)}")
    return protocol.nodes[name or nodes[-1]]
