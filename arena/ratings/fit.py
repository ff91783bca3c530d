"""Strengths by maximum likelihood: Bradley-Terry, and Davidson's model of ties.

Bradley and Terry (1952, "Rank analysis of incomplete block designs I"), Davidson (1970, "On extending the
Bradley-Terry model to accommodate ties"). What an algorithm must reach is the same for all; `arena.ratings.newton` says
how it is reached here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena.protocols.errors import ConfigError
from arena.ratings.checks import check_finite
from arena.ratings.counts import Counts, Ints, check_numbers, results_of
from arena.ratings.dense import DensePairs
from arena.ratings.likelihood import Tally, log_likelihood, pairs_of
from arena.ratings.matches import Floats, Ties
from arena.ratings.newton import maximise, maximise_dense

__all__ = ["Ratings", "bradley_terry", "fit_counts", "games_counted", "settled_tally", "tally_of"]


@dataclass(frozen=True, slots=True)
class Ratings:
    """A maximum-likelihood fit."""

    theta: Floats
    """[P] strengths in nats, summing to 0."""
    nu: float
    """Davidson's tie parameter; 0 without ties or with ``ties="half"``."""
    loglik: float
    """Log-likelihood in nats at the fit, penalty not included."""


def bradley_terry(
    n_players: int,
    games: Sequence[tuple[int, int, float]] | Sequence[Sequence[float]],
    ties: Ties = "davidson",
    l2: float = 0.0,
) -> Ratings:
    """Fit strengths by maximum likelihood.

    Args:
        n_players: number of players P.
        games: (i, j, score of i) with score 1, 0.5 (tie) or 0; i != j. An array [N, 3] is taken as it is.
        ties: ``davidson`` gives ties a probability of their own; ``half`` counts them as half a win for each side.
        l2: weight of the penalty l2/2 * sum(theta^2); makes every result finite.

    Raises:
        ConfigError: a game is malformed, or the results do not determine finite strengths (and l2 is 0).
    """
    return fit_counts(games_counted(n_players, games), ties=ties, l2=l2)


def fit_counts(counts: Counts, *, ties: Ties = "davidson", l2: float = 0.0) -> Ratings:
    """Fit strengths to matches that were counted, one for each of their names; self-play tells nothing here.

    Args:
        counts: of `MatchCounter` or `count_matches`.
        ties: as for `bradley_terry`.
        l2: as for `bradley_terry`.

    Raises:
        ConfigError: the results do not determine finite strengths (and l2 is 0).
    """
    counts = counts.without_self_play()
    check_arguments(ties, l2)
    dense = DensePairs.counted(counts, halved=ties == "half", l2=l2)
    if dense is not None and (x_Q := maximise_dense(dense)) is not None:
        return Ratings(x_Q[:-1], float(np.exp(x_Q[-1])) if dense.ties else 0.0, dense.log_likelihood(x_Q))
    design, place_M, result_M = pairs_of(counts)
    tally = settled_tally(tally_of(len(design.first_K), place_M, result_M, counts.number_M), ties, l2)
    check_finite(design, tally, counts.names, l2)
    x_QR = maximise(design, tally, l2=l2)
    nu = float(np.exp(x_QR[-1, 0])) if tally.tied[0] else 0.0
    return Ratings(x_QR[: design.players, 0], nu, float(log_likelihood(design, tally, x_QR)[0]))


def games_counted(n_players: int, games: Sequence[Any]) -> Counts:
    """Games as numbers, each a cluster by itself and in a cell of its own, in the order given.

    Raises:
        ConfigError: a bad score, a player that is not there or meets itself.
    """
    table = np.asarray(games, dtype=np.float64).reshape(-1, 3)
    first_N, second_N = table[:, 0].astype(np.int64), table[:, 1].astype(np.int64)
    result_N = results_of(table[:, 2])
    if (first_N == second_N).any():
        raise ConfigError("a player does not play itself here: leave self-play out")
    check_numbers(first_N, second_N, n_players)
    names = tuple(map(str, range(n_players)))
    return Counts(names, len(table), first_N, second_N, result_N, np.arange(len(table)), np.ones(len(table)))


def tally_of(pairs: int, place_M: Ints, result_M: Ints, number_M: Floats) -> Tally:
    """Results of each pair, every match counting once: R is 1."""
    counted = np.bincount(result_M * pairs + place_M, weights=number_M, minlength=3 * pairs).astype(np.float64)
    won_K, tied_K, lost_K = counted.reshape(3, pairs)
    return Tally(won_K[:, None], tied_K[:, None], lost_K[:, None])


def settled_tally(tally: Tally, ties: Ties, l2: float) -> Tally:
    """Ties as the arguments want them.

    Raises:
        ConfigError: an argument is none of those that there are.
    """
    check_arguments(ties, l2)
    return tally.halved() if ties == "half" else tally


def check_arguments(ties: Ties, l2: float) -> None:
    """Raise unless both are what a fit can have."""
    if ties not in ("davidson", "half"):
        raise ConfigError(f"ties={ties!r} is not known: use 'davidson' or 'half'")
    if not l2 >= 0:
        raise ConfigError(f"l2={l2!r} is not a penalty: use 0 or more")
