"""What a judge is audited on: two answers, one of them right, and what was said for each.

Three sources: statements by template, which say nothing but which answer they are for; statements that agents write;
transcripts of a run. The audit shows each case several times (`arena.audit.design`) and changes one thing at a time.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from arena.audit.wording import argument
from arena.engine import AnyAgent, Engine, Plan
from arena.judges.types import AnyJudge, JudgeView, Statement
from arena.judging import Bench, judge_node
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task
from arena.running import play_stored
from arena.seeds import derive_seed
from arena.store import RunHandle

__all__ = ["Case", "Material", "from_episodes", "from_tasks", "pairs", "written"]


@dataclass(frozen=True, slots=True)
class Case:
    """One question with two answers."""

    key: str
    """Of every view that shows the case, so that a judge that draws lots draws the same for all of them."""
    cluster: str
    """Unit of all intervals."""
    question: str
    answers: tuple[str, str]
    right: int
    statements: tuple[Statement, ...]
    """In the order in which they were made; `Statement.answer` counts in ``answers``."""
    other: tuple[Statement, ...] = ()
    """The same from a writer of another family; empty if there is one writer only."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What else the judge sees."""
    held: bool = False
    """They are a debate that was held, in which the order of turns cannot be changed."""

    @property
    def turnable(self) -> bool:
        """Whether either side can be read first."""
        return not self.held and {said.answer for said in self.statements} >= {0, 1}

    @property
    def editable(self) -> bool:
        """Whether something was said for both answers, so that words can be added on either side."""
        return {said.answer for said in self.statements if said.text} >= {0, 1}


@dataclass(frozen=True, slots=True)
class Material:
    """Cases, and what could not become one."""

    cases: Sequence[Case]
    what: str
    """Where the statements come from, in words."""
    left_out: Mapping[str, int]
    """Reason -> count of tasks or episodes."""


def pairs(tasks: Iterable[Task], seed: int) -> tuple[list[Task], Counter[str]]:
    """The tasks with two answers each: of more, the right one and a wrong one drawn by ``seed``; and who is left out.

    Raises:
        ConfigError: no task is left.
    """
    kept: list[Task] = []
    left_out: Counter[str] = Counter()
    for task in tasks:
        if task.label is None or len(task.answers) < 2:
            left_out["no label" if task.label is None else "fewer than two answers"] += 1
            continue
        right = task.label
        wrongs = [index for index in range(len(task.answers)) if index != right]
        wrong = random.Random(f"audit {seed} {task.id}").choice(wrongs)
        chosen = sorted((right, wrong))
        fields = {**task.fields, "answers": tuple(task.answers[index] for index in chosen)}
        kept.append(Task(task.id, fields, chosen.index(right), task.group))
    if not kept:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "there are none"
        raise ConfigError(f"an audit needs tasks with a label and two answers at least: {reasons}")
    return kept, left_out


def _seen(task: Task, sees: Sequence[str]) -> dict[str, Any]:
    if missing := [name for name in sees if name not in task.fields]:
        known = ", ".join(name for name in task.fields if name not in ("question", "answers")) or "none"
        raise ConfigError(f"task '{task.id}' has no field '{missing[0]}' for the judge to see (it has: {known})")
    return {name: task.fields[name] for name in sees}


def from_tasks(tasks: Sequence[Task], sees: Sequence[str]) -> list[Case]:
    """One statement for each answer, by template (`arena.audit.wording`).

    Args:
        tasks: from `pairs`.
        sees: other fields that the judge sees.

    Raises:
        ConfigError: a task lacks such a field.
    """
    return [_templated(number, task, _seen(task, sees)) for number, task in enumerate(tasks)]


def _templated(number: int, task: Task, fields: Mapping[str, Any]) -> Case:
    first, second = task.answers
    texts = [argument(answer, number) for answer in task.answers]
    said = tuple(Statement("debater", index, text, said=text) for index, text in enumerate(texts))
    assert task.label is not None
    return Case(task.id, task.cluster, task.question, (first, second), task.label, said, fields=fields)


def written(
    tasks: Sequence[Task], writers: Sequence[AnyAgent], judge: AnyJudge, sees: Sequence[str], run: RunHandle, seed: int
) -> tuple[list[Case], Counter[str]]:
    """Statements that agents write: each one for both answers of every task, by the library's ``debate`` of one round.

    The debates are stored in the run; those that are there are not written again.

    Returns:
        The cases, and why tasks became none.

    Raises:
        ConfigError: a task lacks a field that the judge is to see.
    """
    protocol = load_protocol("debate", {"rounds": 1})
    by_id = {task.id: task for task in tasks}
    held: list[dict[str, Case]] = []
    left_out: Counter[str] = Counter()
    for number, writer in enumerate(writers):
        engine = Engine(protocol, judge, seed=derive_seed(seed, "writers", number), judging=False)
        lineup = dict.fromkeys(protocol.speakers, writer)
        plans = [Plan(f"{task.id}/{number}", task, lineup) for task in tasks]
        stage = f"writer{number + 1}"
        cases, gone = from_episodes(protocol, play_stored(engine, plans, run, stage), by_id, judge, None)
        held.append({case.key.removesuffix(f"/{number}"): case for case in cases})
        left_out += gone
    found = []
    for task in tasks:
        if all(task.id in cases for cases in held):
            other = held[1][task.id].statements if len(held) > 1 else ()
            found.append(_rewritten(task, held[0][task.id], other, _seen(task, sees)))
    return found, left_out


def _rewritten(task: Task, case: Case, other: tuple[Statement, ...], fields: Mapping[str, Any]) -> Case:
    """A case of statements that are independent of each other, so that either can be read first."""
    first, second = (tuple(replace(each, role="debater") for each in said) for said in (case.statements, other))
    return replace(case, key=task.id, statements=first, other=second, fields=fields, held=False)


def from_episodes(
    protocol: Protocol, episodes: Sequence[Episode], tasks: Mapping[str, Task], judge: AnyJudge, node: str | None
) -> tuple[list[Case], Counter[str]]:
    """Cases of debates that were held, as the judge at ``node`` read them; and why episodes became none.

    Raises:
        ConfigError: there is no such judge node.
    """
    bench = Bench(protocol, judge_node(protocol, node), judge)
    cases: list[Case] = []
    left_out: Counter[str] = Counter()
    for episode in episodes:
        task = tasks[episode.task]
        count = episode.judged.get(bench.node.name, (None,))[-1]
        if task.label is None:
            left_out["no label"] += 1
        elif len(task.answers) != 2:
            left_out["not two answers"] += 1
        elif count is None:
            left_out["never judged"] += 1
        else:
            cases.append(_held(bench.view(episode, task, upto=count), task, task.label))
    return cases, left_out


def _held(view: JudgeView, task: Task, right: int) -> Case:
    first, second = task.answers
    said = tuple(view.statements)
    return Case(view.key, task.cluster, view.question, (first, second), right, said, fields=view.fields, held=True)
