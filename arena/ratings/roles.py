"""What a seat is worth: ratings of agents in each role, and the advantage of sitting first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from arena.protocols.errors import ConfigError
from arena.ratings.bootstrap import Sample
from arena.ratings.counts import Counts, count_matches
from arena.ratings.covariates import check_covariates, fit_covariates
from arena.ratings.intervals import Intervals, interval_maker
from arena.ratings.matches import ELO, Match, Rating, Ties
from arena.ratings.table import fit_with_intervals, rating_rows, results, those_who_played
from arena.statistics import Interval

__all__ = ["RoleRatings", "role_ratings"]


@dataclass(frozen=True, slots=True)
class RoleRatings:
    """Ratings of agents role by role."""

    advantage: Interval
    """Elo points that the first seat is worth: an agent meets its equal as if it were stronger by so much."""
    ratings: Mapping[str, list[Rating]] = field(default_factory=dict)
    """Role -> the agents in it, best first. All roles have one scale, whose mean is 0; ranks are within a role."""
    note: str = ""
    """Why there are no ratings by role, if there are none."""


def role_ratings(
    matches: Iterable[Match] | Counts,
    *,
    roles: tuple[str, str] = ("first", "second"),
    bootstrap: int = 1000,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
    intervals: Intervals = "bootstrap",
) -> RoleRatings:
    """Rate agents in each of the two seats, and the seats.

    The advantage gamma is that of the Bradley-Terry model with an order effect, logit = theta_i - theta_j + gamma
    (Davidson and Beaver 1977): one number for all agents, with self-play counted, where it tells most. For ratings by
    role an agent in the first seat and the same agent in the second are two players. That needs results which connect
    all of them: three agents, or two that also play themselves.

    Args:
        matches: who met whom, or what was counted of it; `Match.first` sat in the first seat.
        roles: names of the first and second seat.
        bootstrap: as for `arena.ratings.elo_table`.
        seed: as for `arena.ratings.elo_table`.
        ties: as for `arena.ratings.elo_table`.
        l2: as for `arena.ratings.elo_table`; it holds the advantage as well.
        intervals: as for `arena.ratings.elo_table`.

    Raises:
        ConfigError: no matches, or results that do not determine the advantage.
    """
    counts = count_matches(matches)
    if not len(counts.number_M):
        raise ConfigError("there is no match, so there is no seat to rate")
    options = _Options(bootstrap, seed, ties, l2, intervals)
    advantage = _advantage(counts, options)
    try:
        return RoleRatings(advantage, _by_role(counts, roles, options))
    except ConfigError as error:
        return RoleRatings(advantage, note=f"no ratings by role: {error}")


class _Options(NamedTuple):
    """How to fit."""

    bootstrap: int
    seed: int
    ties: Ties
    l2: float
    intervals: Intervals


def _advantage(counts: Counts, options: _Options) -> Interval:
    sample = Sample.of(counts, options.ties, options.l2, seats=True)
    check_covariates(sample, ["first seat"], options.l2)
    x_Q = fit_covariates(sample, counts.names, ["first seat"], options.l2)
    maker = interval_maker(
        sample, x_Q, kind=options.intervals, count=options.bootstrap, seed=options.seed, l2=options.l2
    )
    contrast_1Q = np.zeros((1, len(x_Q)))
    contrast_1Q[0, -2] = ELO
    low, high = (np.nan, np.nan) if maker is None else maker.of(contrast_1Q)[:, 0]
    return Interval(float(ELO * x_Q[-2]), float(low), float(high), counts.matches)


def _by_role(counts: Counts, roles: tuple[str, str], options: _Options) -> dict[str, list[Rating]]:
    seated = those_who_played(counts.by_seat(roles))
    x_Q, maker = fit_with_intervals(seated, **options._asdict())
    results_P3 = results(seated)
    agents = {f"{name} as {role}": (name, role) for role in roles for name in counts.names}
    found = {}
    for role in roles:
        players = [number for number, name in enumerate(seated.names) if agents[name][1] == role]
        names = [agents[seated.names[number]][0] for number in players]
        found[role] = rating_rows(names, players, None, x_Q, maker, results_P3)
    return found
