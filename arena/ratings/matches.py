"""What is rated and what comes out of it: the value types of this package, and the table of who met whom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["ELO", "CrossPlay", "Floats", "Match", "Rating", "Ties", "cross_play", "rating_of"]

ELO = 400 / math.log(10)
"""Elo points per nat of strength: 400 points are odds of 10 to 1."""

Ties = Literal["davidson", "half"]
"""``davidson`` gives ties a probability of their own; ``half`` counts them as half a win for each side."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Match:
    """One game between two agents, named as in lineups."""

    first: str
    """Who sat in the first seat."""
    second: str
    score: float
    """What ``first`` got: 1, 0.5 or 0."""
    task: str = ""
    """Cluster for the bootstrap (`Task.cluster`): matches about one question are resampled together."""
    pair: str = ""
    """Key that both orders of one pairing share; the cluster where ``task`` is empty."""


@dataclass(frozen=True, slots=True)
class Rating:
    """One line of the rating table."""

    name: str
    elo: float
    """Elo points; the mean of all agents is 0, or the anchor is."""
    low: float
    high: float
    """95 % interval, clustered by task; NaN with fewer than two clusters, infinite where nothing limits it."""
    games: int
    """Matches against others; self-play is not counted."""
    wins: int
    ties: int
    losses: int
    rank: int = 0
    """1 for the best; agents of equal rating share the better rank. 0 where it is not known."""
    rank_low: int = 0
    """Best rank that the matches allow at 95 %; 0 where it is not known."""
    rank_high: int = 0
    """Worst rank that the matches allow at 95 %; 0 where it is not known."""


def rating_of(row: Mapping[str, Any]) -> Rating:
    """A rating from its fields as JSON has them, where an interval that cannot be had is null."""
    plain: dict[str, Any] = {name: math.nan if value is None else value for name, value in row.items()}
    return Rating(**plain)


@dataclass(frozen=True, slots=True)
class CrossPlay:
    """Who did how well against whom."""

    names: tuple[str, ...]
    score: Floats
    """[P, P] mean score of row against column; NaN where they never met."""
    games: NDArray[np.int64]
    """[P, P] number of matches."""


def cross_play(matches: Sequence[Match], names: Sequence[str] | None = None) -> CrossPlay:
    """Mean score of each agent against each other, self-play on the diagonal.

    Args:
        matches: who met whom.
        names: order of rows and columns; None takes the order in which the agents first appear.
    """
    if names is None:
        names = list(dict.fromkeys(name for match in matches for name in (match.first, match.second)))
    number = {name: index for index, name in enumerate(names)}
    total = np.zeros((len(names), len(names)))
    games = np.zeros((len(names), len(names)), dtype=np.int64)
    for match in matches:
        if match.first in number and match.second in number:
            i, j = number[match.first], number[match.second]
            total[i, j] += match.score
            games[i, j] += 1
            if i != j:
                total[j, i] += 1 - match.score
                games[j, i] += 1
    with np.errstate(invalid="ignore"):
        score = np.where(games > 0, total / np.maximum(games, 1), np.nan)
    return CrossPlay(tuple(names), score, games)
