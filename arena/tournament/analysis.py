"""Everything else that follows from the games of a tournament, as one value of JSON: the series ``analysis``.

Each part stands by itself: one that cannot be had (too few games, nothing but ties, a coefficient without a finite
value) is left out, and a note says why. No part plays a game or asks a judge.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from arena.decisions import compare_all, sprt_pairs
from arena.payoffs import payoff_view
from arena.protocols.errors import ConfigError, NumericalError
from arena.ratings import elo, fit_with_covariates, openskill, role_ratings
from arena.ratings.matches import Ties
from arena.records_json import finite
from arena.seeds import derive_seed
from arena.tournament.covariates import COVARIATES
from arena.tournament.material import Material, plain_interval
from arena.tournament.pairing import decided
from arena.tournament.standings import PRIOR, rate
from arena.tournament.truth_side import arms_of, calibration_of, judges_of, truth_of
from arena.tournament.world import sprt_of

__all__ = ["analyse"]

_MOST_COMPARED = 40
"""Agents up to which every pair is compared: 780 tests."""


def analyse(material: Material) -> dict[str, Any]:
    """All parts that there is something to say about, by the names of the series ``analysis``."""
    found: dict[str, Any] = {}
    notes = list(material.arms.notes)
    for name, part in _PARTS.items():
        try:
            found |= part(material)
        except (ConfigError, NumericalError) as error:
            notes.append(f"{name}: {error}")
    plain: dict[str, Any] = finite(found)
    return plain | {"notes": notes}


def _roles(material: Material) -> dict[str, Any]:
    """Ratings by seat, and what the first seat is worth."""
    if not material.rated:
        return {}
    world = material.world
    seats = next(iter(world.protocols.values())).seats if len(world.protocols) == 1 else ("first", "second")

    def fitted(ties: Ties, l2: float) -> dict[str, Any]:
        found = role_ratings(
            material.played.matches,
            roles=(seats[0], seats[1]),
            bootstrap=world.config.bootstrap,
            seed=derive_seed(world.config.seed, "roles"),
            ties=ties,
            l2=l2,
            intervals=world.config.intervals,
        )
        tables = {role: [asdict(rating) for rating in ratings] for role, ratings in found.ratings.items()}
        return {
            "roles": {
                "seats": list(seats),
                "advantage": plain_interval(found.advantage),
                "ratings": tables,
                "note": found.note,
            }
        }

    return _finite_fit(fitted, world.config.ties)


def _finite_fit(fitted: Callable[[Ties, float], dict[str, Any]], ties: Ties) -> dict[str, Any]:
    """By maximum likelihood, or where that is not finite with the prior that the ratings get there, too."""
    try:
        return fitted(ties, 0.0)
    except ConfigError:
        return fitted("half", PRIOR)


def _payoffs(material: Material) -> dict[str, Any]:
    if not material.rated:
        return {}
    view = payoff_view(
        material.rated, list(material.world.entries), seed=derive_seed(material.world.config.seed, "cycles")
    )
    return {"payoffs": view.row()}


def _compared(material: Material) -> dict[str, Any]:
    """Every pair of agents, corrected for how many there are."""
    config = material.world.config
    if not material.rated:
        return {}
    if (count := len(material.world.entries)) > _MOST_COMPARED:
        raise ConfigError(f"{count} agents are too many to test every pair: at most {_MOST_COMPARED} are compared")

    def tested(ties: Ties, l2: float) -> dict[str, Any]:
        table = compare_all(
            material.rated,
            method=config.correction,
            bootstrap=config.bootstrap,
            # A corrected p-value is no smaller than pairs / replicates.
            replicates=max(10_000, 40 * math.comb(count, 2)),
            seed=derive_seed(config.seed, "compared"),
            ties=ties,
            l2=l2,
        )
        return {"compared": [asdict(each) | {"difference": plain_interval(each.difference)} for each in table]}

    return _finite_fit(tested, config.ties)


def _sprt(material: Material) -> dict[str, Any]:
    """Every sequential test as it went."""
    config = material.world.config.sprt
    if config is None:
        return {}
    rows = []
    for first, second in (pair for pair in material.played.pairs if pair[0] != pair[1]):
        test = sprt_of(config).replay(sprt_pairs(material.rated, first, second))
        rows.append(
            {
                "first": first,
                "second": second,
                **{name: getattr(config, name) for name in ("elo0", "elo1", "alpha", "beta")},
                "decision": test.decision,
                "pairs": test.observed,
                "trace": list(test.trace),
                "lower": test.lower,
                "upper": test.upper,
            }
        )
    return {"sprt": rows}


def _covariates(material: Material) -> dict[str, Any]:
    """Ratings freed of what else decides games, as the file asks for."""
    config, world = material.world.config, material.world
    if not config.covariates:
        return {}
    built = [COVARIATES.build(name) for name in config.covariates]
    seats = {part: protocol.seats for part, protocol in world.protocols.items()}
    part_of = {episode.key: part for part, episodes in material.played.episodes.items() for episode in episodes}
    games = [(episode, match) for episode, match in material.played.decided if match.first != match.second]
    tasks = world.by_id
    features_NF = [
        [measure(episode, tasks[episode.task], seats[part_of[episode.key]]) for measure in built]
        for episode, _ in games
    ]
    fit = fit_with_covariates(
        [match for _, match in games],
        features_NF,
        config.covariates,
        anchor=config.anchor,
        seed=derive_seed(config.seed, "covariates"),
        bootstrap=config.bootstrap,
        ties=config.ties,
        intervals=config.intervals,
    )
    return {
        "covariates": {
            "names": list(config.covariates),
            "coefficients": [plain_interval(each) for each in fit.coefficients],
            "ratings": [asdict(rating) for rating in fit.ratings],
        }
    }


def _online(material: Material) -> dict[str, Any]:
    """Ratings that were followed game by game, in the order of the schedule."""
    wanted = material.world.config.online
    if not wanted or not material.rated:
        return {}
    found: dict[str, Any] = {}
    if "elo" in wanted:
        found["elo"] = elo([(match.first, match.second, match.score) for match in material.rated])
    if "openskill" in wanted:
        found["openskill"] = {name: asdict(skill) for name, skill in openskill(material.rated).items()}
    return {"online": found}


def _protocols(material: Material) -> dict[str, Any]:
    """Ratings in each of several protocols."""
    if len(material.world.protocols) < 2:
        return {}
    tables = {}
    for part, protocol in material.world.protocols.items():
        matches = [m for _, m in decided(protocol, material.played.episodes[part], material.world.by_id)]
        ratings, note = rate(matches, material.how)
        tables[part] = {"ratings": [asdict(rating) for rating in ratings], "note": note}
    return {"protocols": tables}


def _schedule(material: Material) -> dict[str, Any]:
    """Who met whom in each round, and how it went."""
    rounds = []
    for played in material.played.state.rounds:
        scores: dict[tuple[str, str], list[float]] = {}
        for result in played:
            scores.setdefault((result.pairing.first, result.pairing.second), []).extend(result.scores)
        rounds.append(
            [
                {"first": first, "second": second, "score": sum(points), "games": len(points)}
                for (first, second), points in scores.items()
            ]
        )
    return {"rounds": rounds}


_PARTS: dict[str, Callable[[Material], dict[str, Any]]] = {
    "roles": _roles,
    "payoffs": _payoffs,
    "comparisons": _compared,
    "sequential tests": _sprt,
    "covariates": _covariates,
    "arms": arms_of,
    "truth": truth_of,
    "judges": judges_of,
    "online ratings": _online,
    "calibration": calibration_of,
    "protocols": _protocols,
    "rounds": _schedule,
}
