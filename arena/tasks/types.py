"""A named set of tasks, split once."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from arena.protocols.errors import ConfigError
from arena.protocols.records import Task

if TYPE_CHECKING:
    from arena.judges.types import Judge

__all__ = ["TaskSet", "check_counts", "split_tasks"]


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Tasks to train on and tasks to report on. A file that holds nothing out has all of its tasks in both."""

    name: str
    """The spec it came from: ``digits:seed=0``."""
    train: Sequence[Task]
    test: Sequence[Task]
    exhaustive: bool = False
    """Both are all cases that there are, such as the deals of a game: nothing is held out, and nothing could be."""

    def with_distractors(self, judge: Judge, *, train: int = 3, test: int = 1, seed: int = 0) -> TaskSet:
        """The same questions with wrong answers that ``judge`` finds credible.

        One task is made for each of the ``train`` (``test``) most credible wrong answers.

        Raises:
            ConfigError: the judge knows no classes, or the tasks have no ``class`` and ``candidates``.
        """
        from arena.tasks.distractors import with_distractors

        return TaskSet(
            self.name,
            with_distractors(self.train, judge, top=train, seed=seed),
            with_distractors(self.test, judge, top=test, seed=seed + 1),
        )


def split_tasks(name: str, tasks: Sequence[Task], *, test: int, rng: random.Random) -> TaskSet:
    """Tasks in an order drawn by ``rng``: the first ``test`` of them to report on, the others to train on.

    Raises:
        ConfigError: one of the parts would be empty.
    """
    if not 0 < test < len(tasks):
        raise ConfigError(f"test={test}: of {len(tasks)} tasks, at least one must be on each side")
    order = rng.sample(tasks, len(tasks))
    return TaskSet(name, order[test:], order[:test])


def check_counts(**counts: int) -> None:
    """Whether numbers of tasks are numbers of tasks.

    Raises:
        ConfigError: one is negative.
    """
    for name, value in counts.items():
        if value < 0:
            raise ConfigError(f"{name}={value}: a number of tasks cannot be negative")
