"""All pairs of agents, or of judges, compared and corrected for how many comparisons there are.

Both tests exchange the names of two contestants, question by question (`arena.metrics.paired_permutation`): what was
seen is compared with what would be seen if it made no difference which of the two had said it. Questions are clusters,
so that both orders of a pair and all games about one question are exchanged together.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from arena.decisions.multiple import Method, adjusted
from arena.metrics import McNemar, mcnemar, paired_permutation
from arena.protocols.errors import ConfigError
from arena.ratings import Match, rating_differences
from arena.ratings.matches import Ties
from arena.statistics import Interval, mean_interval

__all__ = ["Compared", "ScoreComparison", "compare_all", "compare_scores", "sprt_pairs"]

Question = TypeVar("Question", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Compared:
    """Two agents of a tournament."""

    first: str
    second: str
    difference: Interval
    """Elo points that ``first`` is ahead, with its 95 % cluster-bootstrap interval; ``n`` counts their own matches."""
    p: float | None
    """Two-sided p of "they are the same"; None where they have no opponent and no game in common."""
    p_adjusted: float | None
    """The same, corrected for all comparisons of the table."""
    method: Method
    shared: int
    """Questions on which they met each other, or the same opponent from the same seat: what the p-value rests on."""


def compare_all(
    matches: Sequence[Match],
    *,
    method: Method = "holm",
    bootstrap: int = 1000,
    replicates: int = 10_000,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
) -> list[Compared]:
    """Every pair of agents: by how much they differ, and whether that can be chance.

    The p-value rests on what both did under the same conditions: for each question, their games with each other, and
    the mean scores of both against each opponent that both met there from the same seat. It does not assume the rating
    model, nor that the schedule was balanced. The difference in points is that of the ratings.

    Args:
        matches: who met whom about what.
        method: correction, see `adjusted`.
        bootstrap: replicates of the intervals of the differences; 0 for none.
        replicates: sign changes of each permutation test. No p is smaller than one in that many, so M comparisons under
            Holm's correction need well over 20 M of them to find anything at 5 %.
        seed: of bootstrap and permutations.
        ties: see `arena.ratings.bradley_terry`.
        l2: likewise.

    Returns:
        All pairs, in the order in which the agents first appear.

    Raises:
        ConfigError: see `arena.ratings.rating_differences`.
    """
    differences = rating_differences(matches, bootstrap=bootstrap, seed=seed, ties=ties, l2=l2)
    cells = _cells(matches)
    found = [_gaps(cells, first, second) for first, second in differences]
    tests = [_exchanged(gaps, replicates, seed) for gaps in found]
    return [
        Compared(*names, difference, p, fair, method, len(gaps))
        for (names, difference), gaps, p, fair in zip(
            differences.items(), found, tests, _adjusted(tests, method), strict=True
        )
    ]


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Two judges, arms or agents that were scored on the same questions."""

    first: str
    second: str
    difference: Interval
    """Mean of first minus second, with its 95 % cluster-bootstrap interval; ``n`` counts common questions."""
    p: float | None
    """Two-sided, by exchanging clusters; None without a common question."""
    p_adjusted: float | None
    mcnemar: McNemar | None
    """Where all scores are 0 or 1; it takes questions to be independent."""
    method: Method


def compare_scores(
    scores: Mapping[str, Mapping[Question, float]],
    clusters: Mapping[Question, Hashable] | None = None,
    *,
    method: Method = "holm",
    seed: int = 0,
) -> list[ScoreComparison]:
    """Every pair of score lists, compared on the questions that both have.

    Args:
        scores: name -> question -> score, such as 1 where a judge was right, 0 where not, 0.5 for a tie. Leave out
            what was not decided.
        clusters: question -> what is resampled and exchanged together; None takes each question by itself.
        method: correction, see `adjusted`.
        seed: of bootstrap and permutations.
    """
    rows = []
    for first, second in itertools.combinations(scores, 2):
        common = [question for question in scores[first] if question in scores[second]]
        groups: list[Hashable] = [question if clusters is None else clusters[question] for question in common]
        a_N, b_N = (np.array([scores[name][question] for question in common]) for name in (first, second))
        p = paired_permutation(a_N, b_N, groups, seed=seed) if common else None
        decided = bool(common) and bool(np.isin(np.concatenate([a_N, b_N]), (0.0, 1.0)).all())
        test = mcnemar((a_N == 1).tolist(), (b_N == 1).tolist()) if decided else None
        rows.append((first, second, mean_interval(a_N - b_N, groups, seed=seed), p, test))
    fair = _adjusted([row[3] for row in rows], method)
    return [
        ScoreComparison(first, second, difference, p, q, test, method)
        for (first, second, difference, p, test), q in zip(rows, fair, strict=True)
    ]


def sprt_pairs(matches: Sequence[Match], first: str, second: str) -> list[float]:
    """Points of ``second`` in each complete pair of games with ``first``, in the order of the matches, for `Sprt`.

    A pair is the matches with one pair key. It counts where both of its games were decided and each agent had each
    seat once.

    Raises:
        ConfigError: more than two matches share a pair key.
    """
    games: defaultdict[str, list[Match]] = defaultdict(list)
    for match in matches:
        if {match.first, match.second} == {first, second} and first != second:
            games[match.pair].append(match)
    points = []
    for key, pair in games.items():
        if len(pair) > 2:
            raise ConfigError(f"{len(pair)} matches share the pair key {key!r}: a pair has two games, one in each seat")
        if len(pair) == 2 and pair[0].first != pair[1].first:
            points.append(sum(match.score if match.first == second else 1 - match.score for match in pair))
    return points


Cells = dict[str, dict[tuple[Hashable, str, int], float]]


def _cells(matches: Sequence[Match]) -> Cells:
    """Agent -> (cluster, opponent, own seat) -> its mean score there."""
    found: defaultdict[str, defaultdict[tuple[Hashable, str, int], list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for index, match in enumerate(matches):
        if match.first == match.second:
            continue
        cluster = ("task", match.task) if match.task else ("pair", match.pair) if match.pair else index
        found[match.first][cluster, match.second, 0].append(match.score)
        found[match.second][cluster, match.first, 1].append(1 - match.score)
    return {name: {cell: sum(s) / len(s) for cell, s in cells.items()} for name, cells in found.items()}


def _gaps(cells: Cells, first: str, second: str) -> dict[Hashable, float]:
    """Cluster -> what first got above second under the same conditions there; exchanging the names changes the sign."""
    gaps: defaultdict[Hashable, float] = defaultdict(float)
    for (cluster, opponent, seat), score in cells.get(first, {}).items():
        if opponent == second:
            gaps[cluster] += 2 * score - 1
        elif (other := cells.get(second, {}).get((cluster, opponent, seat))) is not None:
            gaps[cluster] += score - other
    return dict(gaps)


def _exchanged(gaps: Mapping[Hashable, float], replicates: int, seed: int) -> float | None:
    """The permutation test of what one is ahead in each cluster."""
    if not gaps:
        return None
    return paired_permutation(list(gaps.values()), np.zeros(len(gaps)), seed=seed, replicates=replicates)


def _adjusted(p_values: Sequence[float | None], method: Method) -> list[float | None]:
    made = [p for p in p_values if p is not None]
    fair = iter(adjusted(made, method).tolist())
    return [None if p is None else next(fair) for p in p_values]
