"""Who gained more? Eight facts in random order, four about each person: ``ann+7``, ``bob+4``.

The values of one person are distinct digits 1 to 9; questions whose sums tie are drawn again. Every seed gives fresh
questions, and the training and the test stream of one seed share none.
"""

from __future__ import annotations

import random

from arena.protocols.records import Task
from arena.protocols.words import expand_words
from arena.tasks.types import TaskSet, check_counts

__all__ = ["ITEMS", "PEOPLE", "facts"]

PEOPLE = ("ann", "bob")
ITEMS = tuple(expand_words("{ann,bob}+{1..9}"))
"""Every fact there is."""

VALUES = range(1, 10)
EACH = 4


def facts(*, seed: int = 0, train: int = 8192, test: int = 1000) -> TaskSet:
    """Fresh questions from ``seed``: fields ``question``, ``answers`` (in random order), ``evidence`` (eight words)."""
    check_counts(train=train, test=test)
    rng = random.Random(f"facts {seed}")
    seen: set[tuple[str, ...]] = set()
    made = [_task(f"facts-{seed}-{index}", rng, seen) for index in range(test + train)]
    name = f"facts:seed={seed},train={train},test={test}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _task(key: str, rng: random.Random, seen: set[tuple[str, ...]]) -> Task:
    while True:
        values = [rng.sample(VALUES, EACH) for _ in PEOPLE]
        evidence = [f"{person}+{value}" for person, own in zip(PEOPLE, values, strict=True) for value in own]
        rng.shuffle(evidence)
        ann, bob = map(sum, values)
        if ann != bob and tuple(evidence) not in seen:
            break
    seen.add(tuple(evidence))
    answers = rng.sample(PEOPLE, 2)
    winner = PEOPLE[0] if ann > bob else PEOPLE[1]
    fields = {"question": "Who gained more?", "answers": tuple(answers), "evidence": tuple(evidence)}
    return Task(key, fields, label=answers.index(winner))
