"""What the analysis of a tournament starts from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from arena.protocols.records import Verdict
from arena.ratings import Match
from arena.statistics import Interval
from arena.tournament.arms import ArmsPlayed
from arena.tournament.rounds import Played
from arena.tournament.standings import HowRated
from arena.tournament.world import World

__all__ = ["Material", "plain_interval"]


@dataclass(slots=True)
class Material:
    """What is analysed."""

    world: World
    played: Played
    arms: ArmsPlayed = field(default_factory=ArmsPlayed)
    judged: Mapping[str, Mapping[str, Verdict]] = field(default_factory=dict)
    """Further judge -> game -> verdict."""

    @property
    def how(self) -> HowRated:
        """How ratings are made."""
        config = self.world.config
        return HowRated(config.anchor, config.seed, config.ties, config.intervals, config.bootstrap)

    @property
    def rated(self) -> list[Match]:
        """Matches between different agents."""
        return [match for match in self.played.matches if match.first != match.second]


def plain_interval(found: Interval | None) -> dict[str, Any] | None:
    """As JSON; None where there is nothing to estimate from."""
    return None if found is None or math.isnan(found.value) else asdict(found)
