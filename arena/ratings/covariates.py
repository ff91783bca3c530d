"""Ratings with something else held constant: style control.

The log-odds of a match are theta_i - theta_j + x beta, where x says how the two sides of this match differ in what
should not count: length, number of lists, who was read first (Li, Angelopoulos and Chiang 2024, "Does style matter?").
The strengths are then those at equal style.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from arena.protocols.errors import ConfigError, UnknownNameError, suggest
from arena.ratings.bootstrap import Sample
from arena.ratings.checks import check_finite, diverging
from arena.ratings.counts import MatchCounter
from arena.ratings.intervals import Intervals, interval_maker
from arena.ratings.likelihood import Design
from arena.ratings.matches import ELO, Floats, Match, Rating, Ties
from arena.ratings.newton import NotConvergedError, maximise
from arena.ratings.table import rating_rows, results
from arena.statistics import Interval

__all__ = ["CovariateFit", "check_covariates", "fit_covariates", "fit_with_covariates", "relative_difference"]

_DEPENDENT = 1e-9
"""Share of a covariate's variation, apart from agents and other covariates, below which there is none."""
_FARTHEST = 30.0
"""Nats between two matches a standard deviation apart at which a coefficient counts as infinite."""


@dataclass(frozen=True, slots=True)
class CovariateFit:
    """Ratings at equal covariates."""

    names: tuple[str, ...]
    """[F] covariates."""
    coefficients: list[Interval]
    """[F] Elo points that a side gains where its covariate is larger by one, with 95 % interval."""
    ratings: list[Rating]
    """Agents at equal covariates, best first."""


def relative_difference(first_N: ArrayLike, second_N: ArrayLike) -> Floats:
    """[N] (a - b) / (a + b): how Li et al. (2024) compare lengths, 0 where both are 0.

    Args:
        first_N: [N] not negative, such as tokens that the first side said.
        second_N: [N] the same of the second side.
    """
    a, b = np.asarray(first_N, dtype=np.float64), np.asarray(second_N, dtype=np.float64)
    return np.divide(a - b, a + b, out=np.zeros_like(a), where=a + b > 0)


def fit_with_covariates(
    matches: Sequence[Match],
    features_NF: ArrayLike,
    names_F: Sequence[str],
    *,
    anchor: str | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
    intervals: Intervals = "bootstrap",
) -> CovariateFit:
    """Rate agents with covariates held constant.

    Args:
        matches: [N] who met whom; self-play tells of the covariates.
        features_NF: [N, F] finite numbers, each the difference of the first side to the second, as
            `relative_difference` of lengths is. A column of ones is the advantage of the first seat.
        names_F: [F] what they are called.
        anchor: as for `arena.ratings.elo_table`.
        bootstrap: as for `arena.ratings.elo_table`.
        seed: as for `arena.ratings.elo_table`.
        ties: as for `arena.ratings.elo_table`.
        l2: as for `arena.ratings.elo_table`; also holds the coefficients, per standard deviation of their covariate.
        intervals: as for `arena.ratings.elo_table`.

    Raises:
        ConfigError: no matches; malformed features; covariates that cannot be told apart from each other or from the
            agents; or a fit that does not converge, since something separates the winners from the losers.
        UnknownNameError: the anchor did not play.
    """
    if not matches:
        raise ConfigError("there is no match, so there is nothing to rate")
    counts = MatchCounter().in_order(matches)
    x_NF = _checked(features_NF, names_F, len(matches))
    scale_F = np.sqrt((x_NF**2).mean(0))
    scale_F = np.where(scale_F > 0, scale_F, 1.0)
    if anchor is not None and anchor not in counts.names:
        raise UnknownNameError(f"the anchor '{anchor}' played no match.{suggest(anchor, counts.names)}")
    design = Design(len(counts.names), counts.first_M, counts.second_M, x_NF / scale_F)
    sample = Sample.placed(design, np.arange(len(matches)), counts.result_M, counts, ties, l2)
    check_covariates(sample, names_F, l2)
    x_Q = fit_covariates(sample, counts.names, names_F, l2)
    maker = interval_maker(sample, x_Q, kind=intervals, count=bootstrap, seed=seed, l2=l2)
    P, F = design.players, len(names_F)
    contrast_FQ = np.zeros((F, len(x_Q)))
    contrast_FQ[np.arange(F), P + np.arange(F)] = ELO / scale_F
    ends_2F = np.full((2, F), np.nan) if maker is None else maker.of(contrast_FQ)
    values = zip((contrast_FQ @ x_Q).tolist(), *ends_2F.tolist(), strict=True)
    zero = None if anchor is None else counts.names.index(anchor)
    table = rating_rows(counts.names, range(P), zero, x_Q, maker, results(counts.without_self_play()))
    coefficients = [Interval(value, low, high, len(matches)) for value, low, high in values]
    return CovariateFit(tuple(names_F), coefficients, table)


def check_covariates(sample: Sample, names_F: Sequence[str], l2: float) -> None:
    """Raise unless the covariates vary apart from the agents and from each other.

    Raises:
        ConfigError: they do not (and ``l2`` is 0), with those that depend on each other.
    """
    design = sample.design
    weight_K = sample.tally.matches[:, 0]
    x_KF = design.x_KF * np.sqrt(weight_K)[:, None]
    own_FF = x_KF.T @ x_KF
    across_PF = design.gathers @ (design.x_KF * weight_K[:, None])
    laplacian_PP = np.reshape(design.products @ weight_K, (design.players, design.players))
    rest_FF = own_FF - across_PF.T @ np.linalg.pinv(laplacian_PP, hermitian=True) @ across_PF
    size_F = np.sqrt(np.maximum(np.diag(own_FF), 1e-300))
    values_F, vectors_FF = np.linalg.eigh(rest_FF / np.outer(size_F, size_F))
    if l2 > 0 or values_F[0] > _DEPENDENT:
        return
    weights_F = np.abs(vectors_FF[:, 0])
    involved = [f"'{name}'" for name, weight in zip(names_F, weights_F, strict=True) if weight > 0.01]
    if len(involved) > 1:
        raise ConfigError(
            f"the covariates {' and '.join(involved)} say the same, given the agents: leave one of them out"
        )
    raise ConfigError(
        f"the covariate {involved[0]} is a matter of the agents alone (it never varies, or each agent always has the "
        f"same), so that its effect cannot be told from theirs: leave it out, or let the agents exchange seats"
    )


def fit_covariates(sample: Sample, agents: Sequence[str], names_F: Sequence[str], l2: float) -> Floats:
    """[Q] parameters of greatest likelihood.

    Raises:
        ConfigError: there are none, with what separates winners from losers.
    """
    P = sample.design.players
    if P > 1:
        _check_agents(sample, agents, l2)
    try:
        x_Q = maximise(sample.design, sample.tally, l2=l2)[:, 0]
    except NotConvergedError as error:
        raise ConfigError(_not_converged(sample, names_F)) from error
    if np.abs(x_Q[P:-1]).max(initial=0.0) > _FARTHEST:
        raise ConfigError(_not_converged(sample, names_F))
    return x_Q


def _check_agents(sample: Sample, agents: Sequence[str], l2: float) -> None:
    """The checks of a fit without covariates, which one with covariates needs as well."""
    design = sample.design
    plain = Design(design.players, design.first_K, design.second_K, np.zeros((len(design.first_K), 0)))
    check_finite(plain, sample.tally, agents, l2)


def _not_converged(sample: Sample, names_F: Sequence[str]) -> str:
    direction_Q = diverging(sample.design, sample.tally)
    ways_F = np.zeros(len(names_F)) if direction_Q is None else direction_Q[sample.design.players : -1]
    moved = [f"'{name}'" for name, way in zip(names_F, ways_F, strict=True) if abs(way) > 1e-6]
    why = f": {', '.join(moved)} tells the winners from the losers without fail" if moved else ""
    return (
        f"the fit with covariates did not converge{why}, so that some coefficient has no finite best value. "
        f"Leave the covariate out, play more tasks, or set l2 (0.1 is a mild prior)"
    )


def _checked(features_NF: ArrayLike, names_F: Sequence[str], matches: int) -> Floats:
    x_NF = np.asarray(features_NF, dtype=np.float64)
    if x_NF.shape != (matches, len(names_F)) or not names_F:
        raise ConfigError(
            f"covariates have the shape {x_NF.shape}, but there are {matches} matches and {len(names_F)} names: give "
            f"each match a row and each name a column"
        )
    bad = np.argwhere(~np.isfinite(x_NF))
    if len(bad):
        row, column = bad[0]
        raise ConfigError(
            f"the covariate '{names_F[column]}' of match {row} is {x_NF[row, column]}: give finite numbers, or leave "
            f"the match out"
        )
    return x_NF
