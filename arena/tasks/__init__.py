"""What is debated: sets of tasks by name.

A spec names them: ``digits:seed=0``, ``facts:seed=0``, ``jsonl:path=questions.jsonl`` or just ``questions.jsonl``.
"""

from collections.abc import Mapping
from typing import Any

from arena.agents import AGENTS
from arena.protocols.registry import Registry, Spec
from arena.tasks.types import TaskSet

__all__ = ["TASKS", "TaskSet", "open_tasks"]

TASKS: Registry[TaskSet] = Registry("task set")
"""Factories of task sets by name."""

TASKS.lazy("digits", "arena.tasks.digits:digits", "which digit is it? 4x4 pixels of scikit-learn's handwritten digits")
TASKS.lazy("facts", "arena.tasks.facts:facts", "who gained more? eight shuffled facts about two people")
TASKS.lazy("reading", "arena.tasks.reading:reading", "questions on short made-up passages, two answers each")
TASKS.lazy("claims", "arena.tasks.claims:claims", "is a statement of three parts true? the books of four people tell")
TASKS.lazy("arithmetic", "arena.tasks.arithmetic:arithmetic", "what is 7 * 8 - 9? with a solution and two answers")
TASKS.lazy("larger", "arena.tasks.larger:larger", "which of two numbers is larger?")
TASKS.lazy("chains", "arena.tasks.chains:chains", "( 1 2 3 + 4 5 6 ) * 7 8 9, digit by digit and modulo 1000")
TASKS.lazy("records", "arena.tasks.records:records", "who gained more? twelve records, of which four were cancelled")
TASKS.lazy("sorting", "arena.tasks.sorting:sorting", "3 1 4 1 5 9 -> 1 1 3 4 5 9, for models with few words")
TASKS.lazy("programs", "arena.tasks.programs:programs", "small programming tasks with unit tests")
TASKS.lazy("kuhn", "arena.tasks.kuhn:kuhn", "the six deals of Kuhn poker")
TASKS.lazy("blank", "arena.tasks.blank:blank", "no question: for games that always begin in the same way")
TASKS.lazy("jsonl", "arena.tasks.jsonl:jsonl", "questions from a file, one JSON object a line")

AGENTS.lazy(
    "chains-demonstrator", "arena.tasks.chains:demonstrator", "plans and writes the calls of chains, not always well"
)
AGENTS.lazy(
    "records-demonstrator",
    "arena.tasks.records:demonstrator",
    "claims, quotes and strikes records, not always rightly",
)
AGENTS.lazy("digits-demonstrator", "arena.tasks.digits:demonstrator", "quotes telling pixels of the digits, not always")
AGENTS.lazy(
    "sorting-demonstrator",
    "arena.tasks.sorting:demonstrator",
    "drafts, criticises and revises digits to sort, with faults",
)


def open_tasks(spec: str | Mapping[str, Any] | Spec, *, seed: int = 0) -> TaskSet:
    """The task set that ``spec`` names; a bare path ending in ``.jsonl`` is read as a file.

    ``seed`` is that of the run: it makes or splits the tasks unless the spec has a seed of its own.

    Raises:
        UnknownNameError: no such set.
        ConfigError: a wrong argument.
        SourceError: faults in a file.
    """
    if isinstance(spec, str) and spec.endswith(".jsonl") and not spec.startswith("jsonl:"):
        spec = {"kind": "jsonl", "path": spec}
    return TASKS.build(spec, seed=seed)
