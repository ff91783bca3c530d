"""The league: frozen former selves and outside agents that the policies in training meet.

A step plays `tasks` groups of episodes. Each group has a `Matchup`: everybody by the policies in training (mirror), or
one side by them and all others by one member. Which, is drawn for each step by systematic sampling from the shares of
`LeagueConfig.mix`, so that every step has its due number of each kind, up to one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.engine import AnyAgent
from arena.protocols.errors import ConfigError
from arena.training.selfplay_config import MIXES, LeagueConfig, Mix

__all__ = ["League", "Matchup", "Member", "sides_of"]


@dataclass(slots=True)
class Member:
    """Somebody who is not in training."""

    name: str
    agents: Mapping[str, AnyAgent]
    """Agent of each trained role."""
    games: float = 0.0
    """Games of the policies in training against it."""
    won: float = 0.0
    """Points that they made in these: 1 for a game won, 0.5 for a tie."""

    @property
    def win_rate(self) -> float:
        """Of the policies in training against it, as if one tie had been played before."""
        return (self.won + 0.5) / (self.games + 1.0)


@dataclass(frozen=True, slots=True)
class Matchup:
    """Who plays a group of episodes."""

    kind: Mix
    side: frozenset[str]
    """Roles that the policies in training play."""
    member: Member | None
    """Who plays the other trained roles; None for mirror games, where there are no others."""


def sides_of(config: LeagueConfig, trained: Sequence[str]) -> list[frozenset[str]]:
    """The sides of a game among its trained roles.

    Raises:
        ConfigError: `sides` names roles that are not trained, or leaves trained ones out.
    """
    if not config.sides:
        return [frozenset([role]) for role in trained]
    named = {role for side in config.sides for role in side}
    if named != set(trained):
        wrong = ", ".join(sorted(named ^ set(trained)))
        raise ConfigError(f"league.sides must name every trained role once ({', '.join(trained)}): see {wrong}")
    return [frozenset(side) for side in config.sides]


class League:
    """Members, and who meets whom.

    Args:
        config: see `LeagueConfig`.
        sides: of the game, as `sides_of` has them.
        anchors: the agents of `LeagueConfig.anchors`.
    """

    def __init__(self, config: LeagueConfig, sides: Sequence[frozenset[str]], anchors: Sequence[Member]) -> None:
        self.config = config
        self.sides = list(sides)
        self.anchors = list(anchors)
        self.members: list[Member] = []
        """Former selves, oldest first."""
        self._recent: dict[str, list[float]] = {}
        shares = np.array([config.mix.get(kind, 0.0) for kind in MIXES])
        self._shares: NDArray[np.float64] = shares / shares.sum()
        if len(self.sides) < 2 and self._shares[0] < 1.0:
            raise ConfigError("an opponent needs a side of its own, and there is one side only: write mix: {mirror: 1}")

    @property
    def needed(self) -> bool:
        """Whether anybody ever meets a member."""
        return bool(self._shares[0] < 1.0)

    def add(self, member: Member) -> list[Member]:
        """Take a new member in, and return those who have to go for it."""
        self.members.append(member)
        gone = []
        while len(self.members) > max(self.config.size, 1):
            # Generation 0 stays: it is the anchor of every comparison.
            gone.append(self.members.pop(1 if len(self.members) > 1 and self.config.size > 1 else 0))
        return gone

    def matchups(self, groups: int, rng: np.random.Generator, generation: int) -> list[Matchup]:
        """Who plays each group of a step; the members are those of this moment."""
        places = (rng.random() + np.arange(groups)) / groups
        kinds = np.searchsorted(np.cumsum(self._shares), places, side="right").clip(max=len(MIXES) - 1)
        kinds = rng.permutation(kinds)
        first = int(rng.integers(len(self.sides)))
        everybody = frozenset().union(*self.sides)
        found = []
        against = 0
        for kind in (MIXES[int(k)] for k in kinds):
            if kind == "mirror":
                found.append(Matchup(kind, everybody, None))
                continue
            seat = generation - 1 if self.config.alternate else first + against
            against += 1
            found.append(Matchup(kind, self.sides[seat % len(self.sides)], self._opponent(kind, rng)))
        return found

    def _opponent(self, kind: Mix, rng: np.random.Generator) -> Member:
        if kind == "anchors":
            return self.anchors[int(rng.integers(len(self.anchors)))]
        if kind == "latest":
            return self.members[-1]
        if kind == "history":
            return self.members[int(rng.integers(len(self.members)))]
        weights = np.array([max(1.0 - member.win_rate, 1e-6) ** self.config.pfsp_power for member in self.members])
        return self.members[int(rng.choice(len(self.members), p=weights / weights.sum()))]

    def record(self, matchup: Matchup, score: float) -> None:
        """Remember the score (1 won, 0.5 tied, 0 lost) of a game of the policies in training against a member."""
        if matchup.member is not None:
            matchup.member.games += 1.0
            matchup.member.won += score
            self._recent.setdefault(matchup.member.name, []).append(score)

    def win_rates(self) -> dict[str, float]:
        """Of the policies in training against everybody whom they met since this was last asked."""
        found = {name: sum(scores) / len(scores) for name, scores in self._recent.items()}
        self._recent = {}
        return found

    def state_dict(self) -> dict[str, Any]:
        """Names and results; weights are in the members' folders."""
        return {
            "members": [(member.name, member.games, member.won) for member in self.members],
            "anchors": [(member.games, member.won) for member in self.anchors],
        }

    def load_state_dict(self, state: Mapping[str, Any], members: Mapping[str, Member]) -> None:
        """Go on from a saved state; ``members`` are those that it names, with their agents."""
        self.members = []
        for name, games, won in state["members"]:
            member = members[name]
            member.games, member.won = games, won
            self.members.append(member)
        for member, (games, won) in zip(self.anchors, state["anchors"], strict=True):
            member.games, member.won = games, won
