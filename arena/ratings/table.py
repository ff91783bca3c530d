"""The rating table: strengths in Elo points, with intervals of ratings and ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from arena.protocols.errors import ConfigError, UnknownNameError, suggest
from arena.ratings.bootstrap import Sample
from arena.ratings.checks import check_finite
from arena.ratings.counts import Counts, count_matches
from arena.ratings.intervals import IntervalMaker, Intervals, interval_maker
from arena.ratings.matches import ELO, Floats, Match, Rating, Ties
from arena.ratings.newton import maximise
from arena.statistics import Interval

__all__ = ["elo_table", "fit_with_intervals", "rating_differences", "rating_rows", "results", "those_who_played"]


def elo_table(
    matches: Iterable[Match] | Counts,
    *,
    anchor: str | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
    intervals: Intervals = "bootstrap",
) -> list[Rating]:
    """Rate agents from their matches, best first.

    All intervals are clustered by task, so that both orders of a pair and all debates about one question stay together;
    `arena.ratings.intervals` says how they are made. A replicate in which an agent happens to win or lose everything is
    fitted with a slight penalty (l2 = 0.001).

    Args:
        matches: who met whom about what, or what a `MatchCounter` counted of it; self-play (one name on both sides) is
            allowed and tells nothing here.
        anchor: agent at 0 points; intervals are then of the difference to it. None: the mean of all agents is 0.
        bootstrap: number of replicates; 0 for no intervals of any kind. With ``profile``: draws for the rank intervals.
        seed: of the bootstrap's own generator.
        ties: as for `arena.ratings.bradley_terry`.
        l2: as for `arena.ratings.bradley_terry`; 0.1 is a mild prior where few matches were played.
        intervals: how to make them; ``profile`` takes long for hundreds of agents.

    Raises:
        ConfigError: no matches between different agents, a bad score, or results that do not determine finite ratings.
        UnknownNameError: the anchor did not play.
    """
    counts = those_who_played(count_matches(matches))
    names = counts.names
    if anchor is not None and anchor not in names:
        raise UnknownNameError(f"the anchor '{anchor}' played no match.{suggest(anchor, names)}")
    x_Q, maker = fit_with_intervals(counts, bootstrap=bootstrap, seed=seed, ties=ties, l2=l2, intervals=intervals)
    zero = None if anchor is None else names.index(anchor)
    return rating_rows(names, range(len(names)), zero, x_Q, maker, results(counts))


def rating_differences(
    matches: Iterable[Match] | Counts,
    *,
    bootstrap: int = 1000,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
    intervals: Intervals = "bootstrap",
) -> dict[tuple[str, str], Interval]:
    """How many Elo points each agent is ahead of each other, with 95 % intervals of the differences themselves.

    Args:
        matches: as for `elo_table`.
        bootstrap: as for `elo_table`.
        seed: as for `elo_table`.
        ties: as for `elo_table`.
        l2: as for `elo_table`.
        intervals: as for `elo_table`.

    Returns:
        for each pair once, in the order in which the agents first played: points that the first is ahead, with the
        number of matches between the two.

    Raises:
        ConfigError: as `elo_table`.
    """
    counts = those_who_played(count_matches(matches))
    x_Q, maker = fit_with_intervals(counts, bootstrap=bootstrap, seed=seed, ties=ties, l2=l2, intervals=intervals)
    P = len(counts.names)
    low_S, high_S = np.triu_indices(P, 1)
    contrast_SQ = np.zeros((len(low_S), len(x_Q)))
    contrast_SQ[np.arange(len(low_S)), low_S] = ELO
    contrast_SQ[np.arange(len(low_S)), high_S] = -ELO
    ends_2S = np.full((2, len(low_S)), np.nan) if maker is None else maker.of(contrast_SQ)
    met_PP = np.zeros((P, P))
    np.add.at(met_PP, (counts.first_M, counts.second_M), counts.number_M)
    met_S = np.rint(met_PP + met_PP.T)[low_S, high_S].astype(int).tolist()
    values = zip((contrast_SQ @ x_Q).tolist(), *ends_2S.tolist(), met_S, strict=True)
    pairs = ((counts.names[i], counts.names[j]) for i, j in zip(low_S.tolist(), high_S.tolist(), strict=True))
    return {pair: Interval(*value) for pair, value in zip(pairs, values, strict=True)}


def fit_with_intervals(
    counts: Counts, *, bootstrap: int, seed: int, ties: Ties, l2: float, intervals: Intervals
) -> tuple[Floats, IntervalMaker | None]:
    """Parameters [Q] of counted matches between different agents, and what makes intervals of them, if anything can.

    Raises:
        ConfigError: the results do not determine finite ratings.
    """
    sample = Sample.of(counts, ties, l2)
    check_finite(sample.design, sample.tally, counts.names, l2)
    x_Q = maximise(sample.design, sample.tally, l2=l2)[:, 0]
    return x_Q, interval_maker(sample, x_Q, kind=intervals, count=bootstrap, seed=seed, l2=l2)


def rating_rows(
    names: Sequence[str],
    players: Sequence[int],
    anchor: int | None,
    x_Q: Floats,
    maker: IntervalMaker | None,
    results_P3: Floats,
) -> list[Rating]:
    """The table of some players, best first.

    Args:
        names: [S] what the players are called.
        players: [S] their numbers among the P strengths.
        anchor: number of the player at 0 points; None: the mean of all P is 0.
        x_Q: parameters of greatest likelihood, strengths first.
        maker: of the intervals; None for none.
        results_P3: matches won, tied and lost by each of the P.
    """
    chosen_S = np.asarray(players)
    # Strengths sum to 0, so that taking their mean away changes no value; it keeps contrasts free of the sum.
    contrast_SQ = np.zeros((len(names), len(x_Q)))
    contrast_SQ[:, : len(results_P3)] -= 1 / len(results_P3) if anchor is None else 0
    contrast_SQ[np.arange(len(names)), chosen_S] += 1
    if anchor is not None:
        contrast_SQ[:, anchor] -= 1
    theta_S = contrast_SQ @ x_Q
    ends_2S = np.full((2, len(names)), np.nan)
    best_S, worst_S = [0] * len(names), [0] * len(names)
    if maker is not None:
        ends_2S = maker.of(contrast_SQ)
        best_S, worst_S = maker.ranks(players)
    rank_S = 1 + (theta_S[None] > theta_S[:, None] + 1e-9).sum(1)
    rows = []
    for s, (name, (won, tied, lost)) in enumerate(zip(names, results_P3[chosen_S].astype(int).tolist(), strict=True)):
        elo, low, high = (ELO * float(value) for value in (theta_S[s], *ends_2S[:, s]))
        ranks = int(rank_S[s]), best_S[s], worst_S[s]
        rows.append(Rating(name, elo, low, high, won + tied + lost, won, tied, lost, *ranks))
    return sorted(rows, key=lambda rating: -rating.elo)


def results(counts: Counts) -> Floats:
    """[P, 3] matches won, tied and lost."""
    P = len(counts.names)
    sides = (counts.first_M, counts.result_M), (counts.second_M, 2 - counts.result_M)
    cells = [np.bincount(side * 3 + result, weights=counts.number_M, minlength=3 * P) for side, result in sides]
    return np.asarray(np.rint(cells[0] + cells[1]).reshape(P, 3))


def those_who_played(counts: Counts) -> Counts:
    """Matches between different agents, with those agents (in the order of their first matches) and clusters only.

    Raises:
        ConfigError: there are none.
    """
    counts = counts.without_self_play()
    if not len(counts.number_M):
        raise ConfigError("there is no match between two different agents, so there is nothing to rate")
    agent_there, cluster_there = np.zeros(len(counts.names), dtype=np.bool_), np.zeros(counts.clusters, dtype=np.bool_)
    agent_there[counts.first_M] = agent_there[counts.second_M] = True
    cluster_there[counts.cluster_M] = True
    if agent_there.all() and cluster_there.all():
        return counts
    place = np.cumsum(agent_there) - 1
    names = tuple(name for name, plays in zip(counts.names, agent_there, strict=True) if plays)
    cluster_M = (np.cumsum(cluster_there) - 1)[counts.cluster_M]
    first_M, second_M = place[counts.first_M], place[counts.second_M]
    clusters = int(cluster_there.sum())
    return Counts(names, clusters, first_M, second_M, counts.result_M, cluster_M, counts.number_M)
