"""Exact values of strategies in small games.

    u_i(pi)      = sum over ends z of  p_chance(z) * prod_j pi_j(z) * u_i(z)
    BR_i(pi)     = max over strategies b of seat i of  u_i(b, pi_-i)
    NashConv(pi) = sum_i [ BR_i(pi) - u_i(pi) ]                     Lanctot et al. 2017 (arXiv 1711.00832), section 2

A best response is found by going through the information sets of a seat from the end (von Stengel 2002, Handbook of
Game Theory 3, chapter 45): at each, the option with the largest value, summed over the histories of the set with the
weights that chance and the others give them. This needs perfect recall, which is checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from arena.games.types import Decision, Game, InformationSet, Outcome, Probabilities, Profile, Strategy
from arena.protocols.errors import ConfigError

__all__ = [
    "BestResponse",
    "average_strategy",
    "best_response",
    "expected_values",
    "exploitability",
    "from_table",
    "nash_conv",
    "tabulate",
    "uniform",
    "values_against",
]

Table: TypeAlias = dict[InformationSet, tuple[float, ...]]
"""A strategy or profile written out."""

_ROUNDING = 1e-6
"""How far probabilities may be from adding up to 1."""


@dataclass(frozen=True, slots=True)
class BestResponse:
    """What a seat can win at most against what the others do."""

    value: float
    choices: Mapping[InformationSet, int]
    """Option at each information set of the seat that is reached if the others and the seat itself play so."""

    def __call__(self, sets: Sequence[InformationSet]) -> list[tuple[float, ...]]:
        """The strategy; at sets that it never comes to, the first option."""
        taken = [self.choices.get(found, 0) for found in sets]
        return [
            tuple(float(place == choice) for place in range(len(found.options)))
            for found, choice in zip(sets, taken, strict=True)
        ]


def uniform(sets: Sequence[InformationSet]) -> list[tuple[float, ...]]:
    """The strategy that takes every option equally often."""
    return [(1.0 / len(found.options),) * len(found.options) for found in sets]


def from_table(table: Mapping[InformationSet, Probabilities]) -> Strategy:
    """The strategy that is written out in a table, such as `tabulate` makes: a snapshot of one that changes."""
    return lambda sets: [table[found] for found in sets]


def tabulate(game: Game, profile: Profile) -> Table:
    """A profile written out; each strategy is asked once, for all sets of its seats.

    Raises:
        ConfigError: a seat has no strategy, or one gives no probabilities.
    """
    if not isinstance(profile, Mapping):
        return _asked(profile, game.information_sets)
    table: Table = {}
    seats: dict[int, tuple[Strategy, list[InformationSet]]] = {}
    for seat in game.seats:
        if seat not in profile:
            raise ConfigError(f"no strategy is given for '{seat}' of '{game.protocol}'")
        seats.setdefault(id(profile[seat]), (profile[seat], []))[1].extend(game.of(seat))
    for strategy, sets in seats.values():
        table |= _asked(strategy, sets)
    return table


def _asked(strategy: Strategy, sets: Sequence[InformationSet]) -> Table:
    given = strategy(sets)
    if len(given) != len(sets):
        raise ConfigError(f"a strategy answered for {len(given)} of {len(sets)} information sets")
    return {found: _checked(found, shares) for found, shares in zip(sets, given, strict=True)}


def _checked(found: InformationSet, shares: Probabilities) -> tuple[float, ...]:
    row = tuple(map(float, shares))
    sound = len(row) == len(found.options) and all(share >= 0.0 for share in row)
    if not sound or not abs(math.fsum(row) - 1.0) <= _ROUNDING:
        raise ConfigError(f"{row} are no probabilities of the options {found.options} at '{found}'")
    return row


def expected_values(game: Game, profile: Profile) -> dict[str, float]:
    """What each seat wins on average, in units of the protocol's rewards.

    Raises:
        ConfigError: see `tabulate`.
    """
    return _values(game, tabulate(game, profile))


def _values(game: Game, table: Table) -> dict[str, float]:
    ends: list[tuple[float, Outcome]] = []
    open_ = list(game.deals)
    while open_:
        reach, here = open_.pop()
        if isinstance(here, Outcome):
            ends.append((reach, here))
        elif reach > 0.0:
            open_ += [(reach * share, way) for share, way in zip(table[here.information_set], here.ways, strict=True)]
    return {seat: math.fsum(reach * end.payoffs[place] for reach, end in ends) for place, seat in enumerate(game.seats)}


def best_response(game: Game, seat: str, profile: Profile) -> BestResponse:
    """The most that a seat can win against the others of a profile, and how; of equals, the first option.

    Args:
        game: with perfect recall.
        seat: who answers; what the profile says for it does not matter, and a mapping may leave it out.
        profile: how the others play.

    Raises:
        ConfigError: no such seat, a seat forgets what it said, or see `tabulate`.
    """
    game.of(seat)
    if isinstance(profile, Mapping):
        profile = {**profile, seat: uniform}
    return _Answer(game, seat, tabulate(game, profile)).best()


class _Answer:
    """Works a best response out, from the ends of the game."""

    def __init__(self, game: Game, seat: str, table: Table) -> None:
        _check_recall(game)
        self._game, self._seat, self._table = game, seat, table
        self._place = game.seats.index(seat)
        self._histories: dict[InformationSet, list[tuple[float, Decision]]] = {}
        """Of the seat: with the chance that all but the seat itself bring them about."""
        self._choices: dict[InformationSet, int] = {}
        self._found: dict[int, float] = {}
        open_ = list(game.deals)
        while open_:
            reach, here = open_.pop()
            if isinstance(here, Outcome):
                continue
            own = here.information_set.seat == seat
            if own:
                self._histories.setdefault(here.information_set, []).append((reach, here))
            shares = (1.0,) * len(here.ways) if own else table[here.information_set]
            open_ += [(reach * share, way) for share, way in zip(shares, here.ways, strict=True) if share > 0.0]

    def best(self) -> BestResponse:
        value = math.fsum(reach * self._value(root) for reach, root in self._game.deals)
        return BestResponse(value, self._choices)

    def _value(self, here: Decision | Outcome) -> float:
        if isinstance(here, Outcome):
            return here.payoffs[self._place]
        value = self._found.get(id(here))
        if value is None:
            found = here.information_set
            if found.seat == self._seat:
                value = self._value(here.ways[self._choice(found)])
            else:
                ways = zip(self._table[found], here.ways, strict=True)
                value = math.fsum(share * self._value(way) for share, way in ways if share > 0.0)
            self._found[id(here)] = value
        return value

    def _choice(self, found: InformationSet) -> int:
        choice = self._choices.get(found)
        if choice is None:
            histories = self._histories[found]
            worth = [
                math.fsum(reach * self._value(here.ways[option]) for reach, here in histories)
                for option in range(len(found.options))
            ]
            choice = self._choices[found] = worth.index(max(worth))
        return choice


def _check_recall(game: Game) -> None:
    if game.forgetful:
        raise ConfigError(
            f"the game of '{game.protocol}' has no perfect recall: {game.forgetful} (its turn goes `to: nobody`); best "
            "responses and averages are not defined by its information sets"
        )


def nash_conv(game: Game, profile: Profile) -> float:
    """How much all seats together could win more by answering best, each alone; 0 in an equilibrium.

    Raises:
        ConfigError: see `best_response`.
    """
    table = tabulate(game, profile)
    values = _values(game, table)
    return math.fsum(_Answer(game, seat, table).best().value - values[seat] for seat in game.seats)


def exploitability(game: Game, profile: Profile) -> float:
    """NashConv over the number of seats, for a game of two whose payoffs add up to a constant (Johanson et al. 2011).

    Raises:
        ConfigError: another sort of game, or see `best_response`.
    """
    sums = [math.fsum(end.payoffs) for end in _ends(game)]
    if len(game.seats) != 2 or max(sums) - min(sums) > _ROUNDING:
        raise ConfigError(
            f"exploitability is for two players whose payoffs add up to a constant, and '{game.protocol}' is no such "
            "game: use nash_conv"
        )
    return nash_conv(game, profile) / 2.0


def _ends(game: Game) -> list[Outcome]:
    ends: list[Outcome] = []
    open_ = [root for _, root in game.deals]
    while open_:
        here = open_.pop()
        if isinstance(here, Outcome):
            ends.append(here)
        else:
            open_ += here.ways
    return ends


def average_strategy(game: Game, strategies: Sequence[Profile], weights: Sequence[float] | None = None) -> Strategy:
    """One strategy that wins as much as drawing a member of a league for the whole of each game.

        pi(I, a) = sum_k w_k x_k(I) pi_k(I, a) / sum_k w_k x_k(I)

    where x_k(I) is the chance that member k itself does what leads to I (Kuhn 1953; as in fictitious self-play,
    Heinrich et al. 2015, lemma 6). Where no member ever comes, members count by their weights alone.

    Args:
        game: with perfect recall.
        strategies: members of the league.
        weights: one for each, relative; None: all the same.

    Raises:
        ConfigError: a seat forgets what it said, there is no member, weights that are none, or see `tabulate`.
    """
    _check_recall(game)
    shares = [1.0] * len(strategies) if weights is None else list(weights)
    if not strategies or len(shares) != len(strategies) or min(shares) < 0.0 or not 0.0 < math.fsum(shares) < math.inf:
        raise ConfigError(f"an average needs strategies with weights of 0 or more, one for each, not {shares}")
    sums: dict[InformationSet, list[float]] = {found: [0.0] * len(found.options) for found in game.information_sets}
    spare: dict[InformationSet, list[float]] = {found: [0.0] * len(found.options) for found in game.information_sets}
    for share, strategy in zip(shares, strategies, strict=True):
        table = tabulate(game, strategy)
        reach: dict[InformationSet, float] = {}
        for found in game.information_sets:
            before = found.before
            reach[found] = 1.0 if before is None else reach[before[0]] * table[before[0]][before[1]]
            for option, p in enumerate(table[found]):
                sums[found][option] += share * reach[found] * p
                spare[found][option] += share * p
    mixed: Table = {}
    for found in game.information_sets:
        row = sums[found] if math.fsum(sums[found]) > 0.0 else spare[found]
        mixed[found] = tuple(value / math.fsum(row) for value in row)
    return from_table(mixed)


def values_against(game: Game, strategy: Strategy, opponents: Sequence[Profile]) -> list[dict[str, float]]:
    """What a strategy wins in each seat while all other seats are played by an opponent; one mapping for each opponent.

    Raises:
        ConfigError: see `tabulate`.
    """
    own = tabulate(game, strategy)
    found = []
    for opponent in opponents:
        other = tabulate(game, opponent)
        values = {
            seat: _values(game, {known: (own if known.seat == seat else other)[known] for known in own})[seat]
            for seat in game.seats
        }
        found.append(values)
    return found
