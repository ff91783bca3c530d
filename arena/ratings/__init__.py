"""Ratings from matches.

* `Match`, `Rating`, `CrossPlay`: the values. `MatchCounter` counts matches that come in a stream.
* `elo_table`: Bradley-Terry with ties in Elo points, with clustered intervals of ratings and ranks.
* `role_ratings`, `fit_with_covariates`: what a seat is worth; ratings with style held constant.
* `elo`, `openskill`: ratings that follow the games one by one.
* `bradley_terry`, `bootstrap_ratings`, `fit_counts`: fits of plain numbers.

The model is in `arena.ratings.likelihood`, the way to its maximum in `newton`, the intervals in `intervals`.
"""

from arena.ratings.bootstrap import bootstrap_ratings
from arena.ratings.counts import Counts, MatchCounter, count_matches
from arena.ratings.covariates import CovariateFit, fit_with_covariates, relative_difference
from arena.ratings.fit import Ratings, bradley_terry, fit_counts
from arena.ratings.matches import ELO, CrossPlay, Match, Rating, cross_play, rating_of
from arena.ratings.online import Skill, elo, openskill
from arena.ratings.roles import RoleRatings, role_ratings
from arena.ratings.table import elo_table, rating_differences

__all__ = [
    "ELO",
    "Counts",
    "CovariateFit",
    "CrossPlay",
    "Match",
    "MatchCounter",
    "Rating",
    "Ratings",
    "RoleRatings",
    "Skill",
    "bootstrap_ratings",
    "bradley_terry",
    "count_matches",
    "cross_play",
    "elo",
    "elo_table",
    "fit_counts",
    "fit_with_covariates",
    "openskill",
    "rating_differences",
    "rating_of",
    "relative_difference",
    "role_ratings",
]
