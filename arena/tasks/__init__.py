"""What is debated: sets of tasks by name.

A spec names them: ``digits:seed=0``, ``facts:seed=0``, ``jsonl:path=questions.jsonl`` or just ``questions.jsonl``.
"""

from arena.agents import AGENTS
from arena.protocols.registry import Registry
from arena.tasks.types import TaskSet

__all__ = ["TASKS", "TaskSet", "open_tasks"]

TASKS: Registry[TaskSet] = Registry("task set")
"""Factories of task sets by name."""

TASKS.lazy("digits", "arena.tasks.digits:digits", "which digit is it? 4x4 pixels of scikit-learn's handwritten digits")
TASKS.lazy("facts", "arena.tasks.facts:facts", "who gained more? eight shuffled facts about two people")
TASKS.lazy("jsonl", "arena.tasks.jsonl:jsonl", "questions from a file, one JSON object a line")

AGENTS.lazy("digits-demonstrator", "arena.tasks.digits:demonstrator", "quotes telling pixels of the digits, not always")


def open_tasks(spec: str) -> TaskSet:
    """The task set that ``spec`` names; a bare path ending in ``.jsonl`` is read as a file.

    Raises:
        UnknownNameError: no such set.
        ConfigError: a wrong argument.
        SourceError: faults in a file.
    """
    if spec.endswith(".jsonl") and not spec.startswith("jsonl:"):
        return TASKS.factory("jsonl")(path=spec)
    return TASKS.build(spec)
