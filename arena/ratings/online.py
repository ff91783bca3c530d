"""Ratings that follow the games one by one, in the order in which they were played."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from arena.protocols.errors import ConfigError, MissingExtraError
from arena.ratings.matches import Match

__all__ = ["Skill", "elo", "openskill"]


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


@dataclass(frozen=True, slots=True)
class Skill:
    """What is believed of an agent's skill: a normal distribution. Newcomers have mu 25 and sigma 25 / 3."""

    mu: float
    sigma: float

    @property
    def ordinal(self) -> float:
        """mu - 3 sigma: a skill that the agent almost certainly has, to rank by."""
        return self.mu - 3 * self.sigma


def openskill(games: Iterable[Match | Sequence[tuple[str, float]]], *, players: Sequence[str] = ()) -> dict[str, Skill]:
    """Bayesian skills after games of any number of agents, by the Plackett-Luce model of Weng and Lin (2011).

    The arithmetic is that of the library openskill. Self-play moves nobody; the order of games matters.

    Args:
        games: matches of two, or for each game (name, score) of all who took part: more is better, equal is a tie.
        players: agents to list even if they did not play.

    Raises:
        MissingExtraError: openskill is not installed.
        ConfigError: a game of fewer than two, or one in which an agent is named twice.
    """
    try:
        from openskill.models import PlackettLuce
    except ImportError as error:
        raise MissingExtraError(
            "ratings of many players need openskill: pip install 'debate-arena[ratings]'"
        ) from error
    model = PlackettLuce()
    skills = {name: model.rating() for name in players}
    for number, game in enumerate(games):
        sides = ((game.first, game.score), (game.second, 1 - game.score)) if isinstance(game, Match) else game
        if isinstance(game, Match) and game.first == game.second:
            continue
        names = [name for name, _ in sides]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ConfigError(
                f"game {number} is between {', '.join(names) or 'nobody'}: "
                f"a game has two agents or more, each named once"
            )
        teams = [[skills.setdefault(name, model.rating())] for name in names]
        for name, team in zip(names, model.rate(teams, scores=[score for _, score in sides]), strict=True):
            skills[name] = team[0]
    return {name: Skill(float(rating.mu), float(rating.sigma)) for name, rating in skills.items()}
