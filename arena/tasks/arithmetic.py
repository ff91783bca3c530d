"""Small sums: ``What is 7 * 8 - 9?``, with the solution and with a wrong answer beside it.

A wrong answer is near the right one: off by 1, 2 or 10, or with a sign turned.
"""

from __future__ import annotations

import random

from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["arithmetic"]

_TURNED = {"+": "-", "-": "+"}


def arithmetic(*, seed: int = 0, train: int = 2000, test: int = 200) -> TaskSet:
    """Fresh questions from ``seed``, none twice.

    Fields: ``question``, ``answers`` (in random order) and ``solution`` (the number, as a text).
    """
    check_counts(train=train, test=test)
    rng = random.Random(f"arithmetic {seed}")
    seen: set[str] = set()
    made = [_task(f"arithmetic-{seed}-{index}", rng, seen) for index in range(test + train)]
    name = f"arithmetic:seed={seed},train={train},test={test}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _task(key: str, rng: random.Random, seen: set[str]) -> Task:
    while True:
        numbers = [rng.randint(2, 99), rng.randint(2, 12), rng.randint(2, 99)]
        signs = [rng.choice("+-*"), rng.choice("+-")]
        question = f"What is {numbers[0]} {signs[0]} {numbers[1]} {signs[1]} {numbers[2]}?"
        if question not in seen:
            break
    seen.add(question)
    right = _value(numbers, signs)
    turned = _value(numbers, [signs[0], _TURNED[signs[1]]])
    wrong = rng.choice([right - 10, right - 2, right - 1, right + 1, right + 2, right + 10, turned])
    answers = rng.sample([str(right), str(wrong)], 2)
    fields = {"question": question, "answers": tuple(answers), "solution": str(right)}
    return Task(key, fields, label=answers.index(str(right)))


def _value(numbers: list[int], signs: list[str]) -> int:
    first, second, third = numbers
    left = {"+": first + second, "-": first - second, "*": first * second}[signs[0]]
    return left + third if signs[1] == "+" else left - third
