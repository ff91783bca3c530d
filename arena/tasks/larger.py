"""Which of two numbers is larger? ``Which number is larger, 417 or 82?``"""

from __future__ import annotations

import random

from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["larger"]


def larger(*, seed: int = 0, train: int = 2000, test: int = 200) -> TaskSet:
    """Fresh questions from ``seed`` about numbers from 1 to 999, none twice.

    Fields: ``question``, ``answers`` (in the order of the question) and ``solution`` (the number, as a text).
    """
    check_counts(train=train, test=test)
    rng = random.Random(f"larger {seed}")
    seen: dict[tuple[int, int], None] = {}
    while len(seen) < test + train:
        first, second = rng.sample(range(1, 1000), 2)
        seen[first, second] = None
    made = [_task(f"larger-{seed}-{index}", *pair) for index, pair in enumerate(seen)]
    name = f"larger:seed={seed},train={train},test={test}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _task(key: str, first: int, second: int) -> Task:
    fields = {
        "question": f"Which number is larger, {first} or {second}?",
        "answers": (str(first), str(second)),
        "solution": str(max(first, second)),
    }
    return Task(key, fields, label=int(second > first))
