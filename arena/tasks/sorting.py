"""Digits to sort: ``3 1 4 1 5 9`` -> ``1 1 3 4 5 9``; and a demonstrator that drafts, criticises and revises."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task
from arena.tasks.types import TaskSet, check_counts

__all__ = ["demonstrator", "sorting"]

_DIGITS = "0123456789"

Share = Annotated[float, Field(ge=0, le=1)]


def sorting(*, seed: int = 0, train: int = 20_000, test: int = 1000, digits: int = 6) -> TaskSet:
    """Fresh questions from ``seed``, none twice.

    Fields: ``question`` (digits with blanks between them), ``solution`` (the same ones, sorted) and ``places`` (their
    names: ``P1``, ``P2``, ...).

    Args:
        seed: of all draws.
        train: count of training tasks.
        test: count of held-out tasks.
        digits: of a question, 2 to 18.

    Raises:
        ConfigError: a count out of range, or more questions than there are.
    """
    check_counts(train=train, test=test)
    if not 2 <= digits <= 18:
        raise ConfigError(f"digits={digits} of sorting must be from 2 to 18")
    if train + test > 10**digits // 2:
        raise ConfigError(f"train={train} and test={test} of sorting are too many: there are {10**digits} questions")
    rng = random.Random(f"sorting {seed} {digits}")
    seen: dict[str, None] = {}
    while len(seen) < test + train:
        seen[" ".join(rng.choices(_DIGITS, k=digits))] = None
    places = tuple(f"P{place}" for place in range(1, digits + 1))
    made = [
        Task(f"sorting-{seed}-{number}", {"question": text, "solution": _solution(text), "places": places})
        for number, text in enumerate(seen)
    ]
    name = f"sorting:seed={seed},train={train},test={test},digits={digits}"
    return TaskSet(name, made[test:], made[:test])  # test first: it stays the same whatever the training size


def _solution(question: str) -> str:
    return " ".join(sorted(question.split()))


def demonstrator(
    *, corrupted: Share = 0.3, place: Share = 0.6, digit: Share = 0.8, name: str = "sorting-demonstrator"
) -> ScriptedAgent:
    """An agent that shows what a draft, a critique and a revision look like, with faults: what a warm start imitates.

    It plays the three roles of `noisy-revision`.

    Args:
        corrupted: each draft has a share of digits replaced by random ones that is drawn between 0 and this.
        place: how often the critic names a place that is wrong, any of them; else one that is right.
        digit: how often the reviser gives the digit that belongs to the named place; else another one.
        name: key in lineups and ratings.
    """

    def say(ask: Ask) -> str:
        right = _solution(str(ask.task.fields["question"])).split()
        draw = uniforms([ask.seed] * (2 * len(right) + 2), list(range(2 * len(right) + 2))).tolist()
        if ask.node == "draft":
            return _draft(right, draw, corrupted)
        turns = {turn.node: turn for turn in ask.heard}
        if ask.node == "critique":
            return _critique(ask.options, right, turns["received"].text.split(), draw, place)
        named = int(turns["critique"].fields["index"])
        return right[named] if draw[0] < digit else _any_of([each for each in _DIGITS if each != right[named]], draw[1])

    return ScriptedAgent(name, say)


def _draft(right: Sequence[str], draw: Sequence[float], corrupted: float) -> str:
    rate = corrupted * draw[-1]
    return " ".join(
        _any_of(_DIGITS, draw[2 * at + 1]) if draw[2 * at] < rate else digit for at, digit in enumerate(right)
    )


def _critique(
    places: Sequence[str], right: Sequence[str], received: Sequence[str], draw: Sequence[float], hit: float
) -> str:
    wrong = [place for at, place in enumerate(places) if right[at : at + 1] != list(received[at : at + 1])]
    others = [place for place in places if place not in wrong]
    return _any_of((wrong if draw[0] < hit else others) or places, draw[1])


def _any_of(items: Sequence[str], draw: float) -> str:
    return items[int(draw * len(items))]
