"""Ratings from matches: Bradley-Terry with ties, as an Elo table with clustered intervals.

Model (Bradley and Terry 1952; ties after Davidson 1970): with strengths theta and tie parameter nu,

    P(i beats j) = exp(theta_i) / Z,   P(tie) = nu exp((theta_i + theta_j) / 2) / Z,   Z = the sum of all three.

All outcomes are log-linear in (theta, log nu), so the log-likelihood is concave and Newton's method with step halving
finds the maximum. Matches are first counted per pair: the cost of a fit does not depend on their number, and all
bootstrap replicates are fitted in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arena.protocols.errors import ConfigError, NumericalError, UnknownNameError, suggest
from arena.statistics import resample_weights

__all__ = [
    "ELO",
    "CrossPlay",
    "Match",
    "Rating",
    "Ratings",
    "bootstrap_ratings",
    "bradley_terry",
    "cross_play",
    "elo",
    "elo_table",
]

ELO = 400 / math.log(10)
"""Elo points per nat of strength: 400 points are odds of 10 to 1."""

Ties = Literal["davidson", "half"]
Floats = NDArray[np.float64]

_PRIOR = 1e-3  # l2 for a bootstrap replicate in which some agent happens to win (or lose) everything
_STEPS = 100


@dataclass(frozen=True, slots=True)
class Ratings:
    """A maximum-likelihood fit."""

    theta: Floats
    """[P] strengths in nats, summing to 0."""
    nu: float
    """Davidson's tie parameter; 0 without ties or with ``ties="half"``."""
    loglik: float
    """Log-likelihood in nats at the fit, penalty not included."""


@dataclass(frozen=True, slots=True)
class Match:
    """One game between two agents, named as in lineups."""

    first: str
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
    """95 % interval, clustered by task (NaN where there are fewer than two clusters)."""
    games: int
    """Matches against others; self-play is not counted."""
    wins: int
    ties: int
    losses: int


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


@dataclass(slots=True)
class _Counts:
    """Results of R replicates among P players."""

    wins: Floats
    """[R, P, P] how often row beat column."""
    ties: Floats
    """[R, P, P] symmetric."""
    names: Sequence[str] = field(default_factory=tuple)

    def halved(self) -> _Counts:
        return _Counts(self.wins + self.ties / 2, np.zeros_like(self.ties), self.names)


def bradley_terry(
    n_players: int,
    games: Sequence[tuple[int, int, float]] | Sequence[Sequence[float]],
    ties: Ties = "davidson",
    l2: float = 0.0,
) -> Ratings:
    """Fit strengths by maximum likelihood.

    Args:
        n_players: number of players P.
        games: (i, j, score of i) with score 1, 0.5 (tie) or 0; i != j.
        ties: ``davidson`` gives ties a probability of their own; ``half`` counts them as half a win for each side.
        l2: weight of the penalty l2/2 * sum(theta^2); makes every result finite.

    Raises:
        ConfigError: a game is malformed, or the results do not determine finite strengths (and l2 is 0).
    """
    names = [str(player) for player in range(n_players)]
    table = _as_array(games)
    counts = _count(table, np.ones((1, len(table))), names)
    theta_RP, nu_R, loglik_R = _fit(counts, ties, l2)
    return Ratings(theta_RP[0], float(nu_R[0]), float(loglik_R[0]))


def bootstrap_ratings(
    n_players: int,
    games: Sequence[tuple[int, int, float]] | Sequence[Sequence[float]],
    index_sets: Sequence[Sequence[int]],
    *,
    ties: Ties = "davidson",
    l2: float = 0.0,
    alpha: float = 0.05,
    base: float = 1000.0,
) -> dict[str, Floats]:
    """Fit the games and given resamples of them.

    Args:
        n_players: number of players P.
        games: as for `bradley_terry`.
        index_sets: [R, any] indices into ``games`` of each resample.
        ties: as for `bradley_terry`.
        l2: as for `bradley_terry`.
        alpha: 1 - coverage.
        base: Elo points of the average player.

    Returns:
        ``point``, ``lo``, ``hi``, each [P] in Elo points; the interval is one of quantiles, interpolated linearly.
    """
    table = _as_array(games)
    names = [str(player) for player in range(n_players)]
    weights_RN = np.stack([np.bincount(np.asarray(s, dtype=np.intp), minlength=len(table)) for s in index_sets])
    point_P = _fit(_count(table, np.ones((1, len(table))), names), ties, l2)[0][0]
    theta_RP = _fit_replicates(_count(table, weights_RN.astype(np.float64), names), ties, l2)
    low_P, high_P = np.quantile(theta_RP, [alpha / 2, 1 - alpha / 2], axis=0)
    return {"point": base + ELO * point_P, "lo": base + ELO * low_P, "hi": base + ELO * high_P}


def elo_table(
    matches: Sequence[Match],
    *,
    anchor: str | None = None,
    bootstrap: int = 200,
    seed: int = 0,
    ties: Ties = "davidson",
    l2: float = 0.0,
) -> list[Rating]:
    """Rate agents from their matches, best first.

    The bootstrap resamples whole tasks, so that both orders of a pair and all debates about one question stay together.
    A replicate in which an agent happens to win or lose everything is fitted with a slight penalty (l2 = 0.001).

    Args:
        matches: who met whom about what; self-play (one name on both sides) is allowed and tells nothing here.
        anchor: agent at 0 points; intervals are then of the difference to it. None: the mean of all agents is 0.
        bootstrap: number of replicates; 0 for no intervals.
        seed: of the bootstrap's own generator.
        ties: as for `bradley_terry`.
        l2: as for `bradley_terry`; 0.1 is a mild prior where few matches were played.

    Raises:
        ConfigError: no matches between different agents, a bad score, or results that do not determine finite ratings.
        UnknownNameError: the anchor did not play.
    """
    played = [match for match in matches if match.first != match.second]
    if not played:
        raise ConfigError("there is no match between two different agents, so there is nothing to rate")
    names = list(dict.fromkeys(name for match in played for name in (match.first, match.second)))
    number = {name: index for index, name in enumerate(names)}
    if anchor is not None and anchor not in number:
        raise UnknownNameError(f"the anchor '{anchor}' played no match.{suggest(anchor, names)}")
    table = _as_array([(number[m.first], number[m.second], m.score) for m in played])
    point = _count(table, np.ones((1, len(table))), names)
    theta_P = _fit(point, ties, l2)[0][0]
    low_P = high_P = np.full(len(names), np.nan)
    unit_N = _units(played)
    units = int(unit_N.max()) + 1
    shift = slice(None) if anchor is None else [number[anchor]]
    if bootstrap > 0 and units > 1:
        weights_RC = resample_weights(np.random.default_rng(seed), bootstrap, units)
        theta_RP = _fit_replicates(_count(table, weights_RC, names, unit_N), ties, l2)
        # Strengths sum to 0, so that subtracting the mean of all agents changes nothing.
        theta_RP = theta_RP - theta_RP[:, shift].mean(1, keepdims=True)
        low_P, high_P = np.quantile(theta_RP, [0.025, 0.975], axis=0)
    theta_P = theta_P - theta_P[shift].mean()
    wins_P, ties_P, losses_P = point.wins[0].sum(1), point.ties[0].sum(1), point.wins[0].sum(0)
    ratings = [
        Rating(
            name,
            ELO * float(theta_P[i]),
            ELO * float(low_P[i]),
            ELO * float(high_P[i]),
            round(wins_P[i] + ties_P[i] + losses_P[i]),
            round(wins_P[i]),
            round(ties_P[i]),
            round(losses_P[i]),
        )
        for i, name in enumerate(names)
    ]
    return sorted(ratings, key=lambda rating: -rating.elo)


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


def elo(
    games: Sequence[tuple[str, str, float]] | Sequence[Sequence[Any]],
    *,
    k: float = 32.0,
    init: float = 1000.0,
    players: Sequence[str] = (),
) -> dict[str, float]:
    """Sequential Elo ratings (Elo 1978), each game updating both sides at once; the order of games matters.

    Args:
        games: (name, name, score of the first).
        k: points at stake.
        init: points of a newcomer.
        players: agents to list even if they did not play.
    """
    ratings = {name: float(init) for name in players}
    for first, second, score in games:
        a, b = ratings.setdefault(first, float(init)), ratings.setdefault(second, float(init))
        change = k * (score - 1 / (1 + 10 ** ((b - a) / 400)))
        ratings[first], ratings[second] = a + change, b - change
    return ratings


def _as_array(games: Sequence[Any]) -> Floats:
    """[N, 3]: i, j, score."""
    table = np.asarray(games, dtype=np.float64).reshape(-1, 3)
    bad = np.flatnonzero(~np.isin(table[:, 2], (0.0, 0.5, 1.0)))
    if len(bad):
        raise ConfigError(
            f"match {bad[0]} has score {table[bad[0], 2]}: a score is 0, 0.5 or 1; leave undecided ones out"
        )
    if (table[:, 0] == table[:, 1]).any():
        raise ConfigError("a player does not play itself here: leave self-play out")
    return table


def _units(played: Sequence[Match]) -> NDArray[np.intp]:
    """[N] number of the cluster of each match."""
    numbers: dict[Hashable, int] = {}
    keys: list[Hashable] = [
        ("task", m.task) if m.task else ("pair", m.pair) if m.pair else index for index, m in enumerate(played)
    ]
    return np.fromiter((numbers.setdefault(key, len(numbers)) for key in keys), dtype=np.intp, count=len(keys))


def _count(table: Floats, weights_RN: Floats, names: Sequence[str], unit_N: NDArray[np.intp] | None = None) -> _Counts:
    """Count matrices; ``weights`` are per game [R, N], or per unit [R, C] if the unit of each game is given."""
    from scipy.sparse import coo_array

    P, N = len(names), len(table)
    if N and not (table[:, :2].min() >= 0 and table[:, :2].max() < P):
        raise ConfigError(f"a match names a player that is not among the {P}: players are numbered from 0")
    i, j, score = table[:, 0].astype(np.intp), table[:, 1].astype(np.intp), table[:, 2]
    winner, loser = np.where(score > 0, i, j), np.where(score > 0, j, i)
    low, high = np.minimum(i, j), np.maximum(i, j)
    tied = score == 0.5
    cell_N = np.where(tied, P * P + low * P + high, winner * P + loser)
    row_N = np.arange(N) if unit_N is None else unit_N
    # [cells, units] times [units, R]: the work is one pass over the games per replicate.
    cells = coo_array((np.ones(N), (cell_N, row_N)), shape=(2 * P * P, weights_RN.shape[1])).tocsr()
    counts = np.asarray(cells @ weights_RN.T).T.reshape(-1, 2, P, P)
    half = counts[:, 1]
    return _Counts(np.ascontiguousarray(counts[:, 0]), half + half.transpose(0, 2, 1), names)


def _fit_replicates(counts: _Counts, ties: Ties, l2: float) -> Floats:
    """[R, P]; replicates without finite strengths get a slight penalty."""
    if ties == "half":
        counts = counts.halved()
    R, P = counts.wins.shape[:2]
    sound_R = np.full(R, True) if l2 > 0 else _connected(counts.wins > 0).all((1, 2))
    decisive_R = counts.wins.any((1, 2))  # nothing but ties: all are equal, and nu has no finite value
    theta_RP = np.zeros((R, P))
    for chosen_R, penalty in ((sound_R & decisive_R, l2), (~sound_R & decisive_R, max(l2, _PRIOR))):
        if chosen_R.any():
            part = _Counts(counts.wins[chosen_R], counts.ties[chosen_R], counts.names)
            theta_RP[chosen_R] = _newton(part, penalty)[0]
    return theta_RP


def _fit(counts: _Counts, ties: Ties, l2: float) -> tuple[Floats, Floats, Floats]:
    if ties not in ("davidson", "half"):
        raise ConfigError(f"ties={ties!r} is not known: use 'davidson' or 'half'")
    if not l2 >= 0:
        raise ConfigError(f"l2={l2!r} is not a penalty: use 0 or more")
    if ties == "half":
        counts = counts.halved()
    _check_finite(counts, l2)
    return _newton(counts, l2)


def _check_finite(counts: _Counts, l2: float) -> None:
    """Raise unless the first replicate's likelihood has its maximum at finite strengths."""
    wins, ties, names = counts.wins[0], counts.ties[0], counts.names
    cure = "play more tasks, or set l2 (0.1 is a mild prior)"
    if ties.any() and not wins.any():
        raise ConfigError("every match is a tie, so Davidson's tie parameter has no finite value: use ties='half'")
    if l2 > 0:
        return
    met = _connected((wins + wins.T + ties > 0)[None])[0]
    if not met.all():
        parts = [names[i] for i in range(len(names)) if not met[0, i]]
        raise ConfigError(
            f"the matches fall into groups that never met ({', '.join(parts)} and {names[0]}): "
            f"their ratings cannot be compared. Let them meet, or set l2 (0.1 is a mild prior)"
        )
    reach = _connected((wins > 0)[None])[0]
    if reach.all() or (ties.any() and not _davidson_separable(wins, ties)):
        return
    # The strongest group of players that nobody outside it ever beat.
    top = next(i for i in range(len(names)) if all(reach[i, j] or not reach[j, i] for j in range(len(names))))
    group = [names[j] for j in range(len(names)) if j == top or (reach[top, j] and reach[j, top])]
    raise ConfigError(f"{', '.join(group)} never lost to any other agent, so no finite rating fits: {cure}")


def _connected(edges_RPP: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """[R, P, P]: whether a path of edges leads from row to column (itself included)."""
    P = edges_RPP.shape[-1]
    reach = (edges_RPP | np.eye(P, dtype=np.bool_)).astype(np.float32)
    for _ in range(max(1, math.ceil(math.log2(max(2, P))))):
        reach = (reach @ reach > 0).astype(np.float32)
    return reach > 0


def _davidson_separable(wins: Floats, ties: Floats) -> bool:
    """Whether some direction of (theta, log nu) lowers no observed outcome's probability and raises one's, for ever.

    Ties do not tie strengths down by themselves: an agent that only wins and draws has no finite rating. The direction
    is found as a linear program: each observed outcome must stay the greatest of its pair's three.
    """
    from scipy.optimize import linprog

    P = len(wins)
    rows = []
    for i in range(P):
        for j in range(i + 1, P):
            outcomes = np.zeros((3, P + 1))
            outcomes[0, i] = outcomes[1, j] = outcomes[2, P] = 1.0
            outcomes[2, [i, j]] = 0.5
            for outcome, seen in zip(outcomes, (wins[i, j], wins[j, i], ties[i, j]), strict=True):
                if seen > 0:
                    rows += [outcome - other for other in outcomes if other is not outcome]
    gains = np.array(rows)
    result = linprog(-gains.sum(0), A_ub=-gains, b_ub=np.zeros(len(gains)), bounds=(-1, 1))
    return bool(result.fun is not None and result.fun < -1e-7)


def _newton(counts: _Counts, l2: float) -> tuple[Floats, Floats, Floats]:
    """Maximise all replicates at once: theta [R, P] summing to 0, nu [R], log-likelihood [R] without the penalty."""
    R, P = counts.wins.shape[:2]
    tied_R = np.asarray(counts.ties.any((1, 2)))
    x_RQ = np.zeros((R, P + 1))  # theta and log nu
    value_R = _objective(x_RQ, counts, tied_R, l2)
    scale_R = np.maximum(1.0, counts.wins.sum((1, 2)) + counts.ties.sum((1, 2)))
    for _ in range(_STEPS):
        gradient_RQ, hessian_RQQ = _derivatives(x_RQ, counts, tied_R, l2)
        if (np.abs(gradient_RQ).max(1) <= 1e-11 * scale_R).all():
            break
        step_RQ = np.linalg.solve(hessian_RQQ, gradient_RQ[..., None])[..., 0]
        length_R = np.minimum(1.0, 4.0 / np.maximum(np.abs(step_RQ).max(1), 1e-300))
        for _ in range(30):
            trial_R = _objective(x_RQ + length_R[:, None] * step_RQ, counts, tied_R, l2)
            worse_R = trial_R < value_R - 1e-12 * np.abs(value_R)
            if not worse_R.any():
                break
            length_R = np.where(worse_R, length_R / 2, length_R)
        x_RQ = x_RQ + length_R[:, None] * step_RQ
        value_R = _objective(x_RQ, counts, tied_R, l2)
    theta_RP = x_RQ[:, :P] - x_RQ[:, :P].mean(1, keepdims=True)
    if not np.isfinite(theta_RP).all():
        raise NumericalError("the rating fit did not converge to finite strengths")
    loglik_R = _objective(x_RQ, counts, tied_R, 0.0)
    return theta_RP, np.where(tied_R, np.exp(x_RQ[:, P]), 0.0), loglik_R


def _log_odds(x_RQ: Floats, tied_R: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
    """Log-probabilities [R, P, P] of row beating column and of a tie, and the strengths [R, P]."""
    theta_RP = x_RQ[:, :-1]
    log_nu_R = np.where(tied_R, x_RQ[:, -1], -np.inf)
    own, other = theta_RP[:, :, None], theta_RP[:, None, :]
    tie = (own + other) / 2 + log_nu_R[:, None, None]
    log_z = np.logaddexp(np.logaddexp(own, other), tie)
    return own - log_z, tie - log_z, theta_RP


def _objective(x_RQ: Floats, counts: _Counts, tied_R: NDArray[np.bool_], l2: float) -> Floats:
    win, tie, theta_RP = _log_odds(x_RQ, tied_R)
    tie = np.where(counts.ties > 0, tie, 0.0)  # 0 * -inf
    loglik_R = (counts.wins * win).sum((1, 2)) + (counts.ties * tie).sum((1, 2)) / 2
    return np.asarray(loglik_R - l2 / 2 * (theta_RP**2).sum(1))


def _derivatives(x_RQ: Floats, counts: _Counts, tied_R: NDArray[np.bool_], l2: float) -> tuple[Floats, Floats]:
    """Gradient [R, Q] and negative Hessian [R, Q, Q] of the penalised log-likelihood."""
    win, tie, theta_RP = _log_odds(x_RQ, tied_R)
    win, tie = np.exp(win), np.exp(tie)
    P = theta_RP.shape[1]
    games = counts.wins + counts.wins.transpose(0, 2, 1) + counts.ties
    expected = win + tie / 2  # score of row against column
    gradient = np.empty_like(x_RQ)
    gradient[:, :P] = (counts.wins + counts.ties / 2 - games * expected).sum(2) - l2 * theta_RP
    gradient[:, P] = (counts.ties - games * tie).sum((1, 2)) / 2

    variance = games * (win + tie / 4 - expected**2)
    mixed_RP = (games * tie * (0.5 - expected)).sum(2)
    hessian = np.zeros((len(x_RQ), P + 1, P + 1))
    diagonal = np.arange(P)
    hessian[:, :P, :P] = -variance
    hessian[:, diagonal, diagonal] += variance.sum(2) + l2
    hessian[:, :P, :P] += 1.0  # fixes the gauge: strengths keep summing to 0
    hessian[:, :P, P] = hessian[:, P, :P] = mixed_RP
    hessian[:, P, P] = np.where(tied_R, (games * tie * (1 - tie)).sum((1, 2)) / 2, 1.0)
    gradient[~tied_R, P] = 0.0
    return gradient, hessian
