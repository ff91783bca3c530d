"""Probes of protocols that are small games: exact, from the probabilities of the policies themselves.

    exact: {kind: nash_conv, every: 25}
    average: {kind: off_uniform, of: league}

The game is over all training tasks, each equally likely (`arena.games`). ``of: current`` looks at the policies as they
are; ``of: league`` at the average of the league's members, in each information set weighted by how often each would
come there: at what is played if a member is drawn for the whole of each game.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from arena.agents.policy import PolicyAgent
from arena.agents.types import Backend
from arena.engine import AnyAgent
from arena.games import (
    Game,
    InformationSet,
    PolicyStrategy,
    Strategy,
    average_strategy,
    check_game,
    expected_values,
    from_table,
    nash_conv,
    open_game,
    tabulate,
)
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.training.probes import Moment
from arena.training.recipe import Recipe

__all__ = ["NashConvProbe", "OffUniformProbe"]

Of: TypeAlias = Literal["current", "league"]
Table: TypeAlias = dict[InformationSet, tuple[float, ...]]


class _GameProbe:
    """A game, and what is played in it.

    Args:
        of: ``current``: the policies in training; ``league``: the average of its members.
    """

    def __init__(self, *, of: Of = "current") -> None:
        self.of = of
        self._game: Game | None = None
        self._members: dict[str, Table] = {}
        """What members of the league play: they never change."""
        self._strategies: dict[str, tuple[Backend, PolicyStrategy]] = {}
        """Seat -> backend of who plays it now, and its strategy, which knows how the model reads the game."""

    def check(self, recipe: Recipe, protocol: Protocol) -> None:
        """See `arena.training.probes.Probe`.

        Raises:
            ConfigError: the protocol is no game, a role is not trained, or the league has no members.
        """
        check_game(protocol)
        for role in protocol.speakers:
            if recipe.policy_of(role) is None:
                raise ConfigError(f"'{role}' is no policy in training: what it does is not known without playing")
        league = recipe.self_play.league
        if (
            self.of == "league"
            and league.snapshot_every is None
            and not any(share for kind, share in league.mix.items() if kind not in ("mirror", "anchors"))
        ):
            raise ConfigError("the league has no members to take the average of: write league: {snapshot_every: 20}")

    def look(self, now: Moment) -> tuple[Game, Strategy]:
        """The game, and the strategy that is to be measured in it."""
        if self._game is None:
            self._game = open_game(now.protocol, now.world.tasks.train)
        game = self._game
        if self.of == "current":
            lineup = now.lineup(now.protocol.speakers)
            return game, from_table(tabulate(game, {seat: self._strategy(seat, lineup[seat]) for seat in game.seats}))
        for member in now.league.members:
            if member.name not in self._members:
                own = {seat: PolicyStrategy(_policy(seat, member.agents[seat])) for seat in game.seats}
                self._members[member.name] = tabulate(game, own)
        return game, average_strategy(game, [from_table(self._members[member.name]) for member in now.league.members])

    def _strategy(self, seat: str, agent: AnyAgent) -> PolicyStrategy:
        policy = _policy(seat, agent)
        known = self._strategies.get(seat)
        if known is None or known[0] is not policy.backend:
            # Agents with the same policy share a strategy, which is then asked once for all their seats.
            shared = next((s for backend, s in self._strategies.values() if backend is policy.backend), None)
            known = self._strategies[seat] = policy.backend, shared or PolicyStrategy(policy)
        return known[1]


def _policy(seat: str, agent: AnyAgent) -> PolicyAgent:
    if not isinstance(agent, PolicyAgent):
        raise ConfigError(f"'{agent.name}' ({seat}) is no policy: what it does is not known without playing")
    return agent


class NashConvProbe(_GameProbe):
    """How far the policies are from an equilibrium: ``nash_conv`` (`arena.games.nash_conv`), in units of the rewards,
    and ``value/SEAT``, what each seat wins against the others. Arguments as of `_GameProbe`.
    """

    def measure(self, now: Moment) -> Mapping[str, float]:
        """See `arena.training.probes.Probe`."""
        game, strategy = self.look(now)
        values = {f"value/{seat}": value for seat, value in expected_values(game, strategy).items()}
        return {"nash_conv": nash_conv(game, strategy), **values}


class OffUniformProbe(_GameProbe):
    """How far the policies are from taking every option equally often: ``off``, the largest difference of a probability
    (L_inf), over all information sets. In games where a seat decides once, ``SEAT/OPTION`` are its probabilities.
    """

    def measure(self, now: Moment) -> Mapping[str, float]:
        """See `arena.training.probes.Probe`."""
        game, strategy = self.look(now)
        table = tabulate(game, strategy)
        found = {"off": max(abs(p - 1.0 / len(row)) for row in table.values() for p in row)}
        for seat in game.seats:
            sets = game.of(seat)
            if len(sets) == 1:
                found |= {f"{seat}/{option}": p for option, p in zip(sets[0].options, table[sets[0]], strict=True)}
        return found
