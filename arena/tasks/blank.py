"""Tasks without a question: for games that begin in the same way each time, such as rock, paper, scissors."""

from __future__ import annotations

from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["blank"]


def blank(*, seed: int = 0, train: int = 1, test: int = 1) -> TaskSet:
    """Tasks that have no fields at all. There is nothing that ``seed`` could change, and nothing to hold out."""
    check_counts(train=train, test=test)
    parts = [
        [Task(f"blank-{part}-{n}", {}) for n in range(count)] for part, count in (("train", train), ("test", test))
    ]
    return TaskSet(f"blank:train={train},test={test}", parts[0], parts[1], exhaustive=True)
