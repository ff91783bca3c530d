"""The deals of Kuhn poker (Kuhn 1950): two of three cards, one for each player, six deals in all.

The game has no question, no answers and no label: what a deal is worth, the protocol works out.
"""

from __future__ import annotations

import itertools
import random

from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["CARDS", "kuhn"]

CARDS = ("J", "Q", "K")
"""From the lowest."""
DEALS = tuple(itertools.permutations(CARDS, 2))


def kuhn(*, seed: int = 0, train: int = 6, test: int = 6) -> TaskSet:
    """Deals with the fields ``card_one`` and ``card_two``.

    Every six tasks in a row are the six deals, in an order drawn by ``seed``: each deal is played as often as the
    others.
    """
    check_counts(train=train, test=test)
    rng = random.Random(f"kuhn {seed}")
    name = f"kuhn:seed={seed},train={train},test={test}"
    testing = _deals("test", test, rng)  # first: it stays the same whatever the training size
    return TaskSet(name, _deals("train", train, rng), testing, exhaustive=min(train, test) >= len(DEALS))


def _deals(part: str, count: int, rng: random.Random) -> list[Task]:
    rounds = (rng.sample(DEALS, len(DEALS)) for _ in itertools.count())
    deals = itertools.islice(itertools.chain.from_iterable(rounds), count)
    return [
        Task(f"kuhn-{part}-{number}-{one}{two}", {"card_one": one, "card_two": two})
        for number, (one, two) in enumerate(deals)
    ]
