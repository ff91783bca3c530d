"""What else may decide a game, besides strength: differences between both seats that ratings are freed of.

    from arena.tournament.covariates import COVARIATES

    @COVARIATES.register("calm", summary="fewer exclamation marks")
    def calm() -> Covariate:
        return lambda episode, task, seats: ...

A covariate is a number for each game, larger where it speaks for the first seat (style control, Chatbot Arena 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.protocols.records import Episode, Task
from arena.protocols.registry import Registry

__all__ = ["COVARIATES", "Covariate"]

Covariate = Callable[[Episode, Task, Sequence[str]], float]
"""Of a game about a task with these two seats."""

COVARIATES: Registry[Covariate] = Registry("covariate")
"""Factories of covariates by name."""


def _balance(first: float, second: float) -> float:
    """(first - second) / (first + second): -1 to 1, and 0 where there is nothing."""
    return (first - second) / (first + second) if first + second else 0.0


@COVARIATES.register("length", summary="who said more words")
def length() -> Covariate:
    """(a - b) / (a + b) of the words that both seats said in turns that were kept."""

    def words(episode: Episode, seat: str) -> int:
        return sum(len(turn.text.split()) for turn in episode.turns_of(seat) if turn.kept)

    return lambda episode, task, seats: _balance(words(episode, seats[0]), words(episode, seats[1]))


@COVARIATES.register("order", summary="who sits in the first seat")
def order() -> Covariate:
    """1 in every game: its coefficient is the advantage of the first seat."""
    return lambda episode, task, seats: 1.0


@COVARIATES.register("quotes", summary="who gave more good quotes")
def quotes() -> Covariate:
    """(a - b) / (a + b) of the good quotes of both seats."""

    def good(episode: Episode, seat: str) -> int:
        return sum(quote.good for turn in episode.turns_of(seat) if turn.kept for quote in turn.quotes)

    return lambda episode, task, seats: _balance(good(episode, seats[0]), good(episode, seats[1]))


@COVARIATES.register("truth", summary="who argues the right answer")
def truth() -> Covariate:
    """1 where the first seat argues the label, -1 where the second one does, 0 elsewhere."""

    def argued(episode: Episode, task: Task, seats: Sequence[str]) -> float:
        first, second = episode.sides[:2]
        return float(task.label == first) - float(task.label == second) if task.label is not None else 0.0

    return argued
