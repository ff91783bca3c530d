"""A tournament while it is played, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from arena.engine import sampled_tokens
from arena.protocols.records import Episode
from arena.ratings import Match, Rating
from arena.tournament.standings import HowRated, rate
from arena.undecided import NO_VERDICTS, Undecided

__all__ = ["Live", "Watcher"]

_QUICK = 50  # bootstrap replicates of ratings that are shown for seconds


@dataclass(slots=True)
class Live:
    """What is known so far; the same object all the time."""

    how: HowRated
    names: tuple[str, ...] = ()
    round: int = 0
    """Number of the round that is played, from 0."""
    stage: str = ""
    """``games``, ``arm NAME`` or ``judge NAME``."""
    total: int = 0
    """Games that the schedule has asked for so far; where pairings depend on results there may be more to come."""
    done: int = 0
    """Games of these that are stored."""
    played: int = 0
    """Games that were played since the beginning of this call."""
    tokens: int = 0
    """Sampled tokens of these."""
    undecided: Undecided = NO_VERDICTS
    open_end: bool = False
    """Whether more games may come than ``total``."""
    matches: list[Match] = field(default_factory=list)
    """Decided games so far."""

    def batch(self, episodes: Sequence[Episode]) -> None:
        """Count games that finished together."""
        self.done += len(episodes)
        self.played += len(episodes)
        self.tokens += sum(sampled_tokens(turn) for episode in episodes for turn in episode.turns)

    def ratings(self) -> list[Rating]:
        """Ratings of the games so far, with quick intervals; empty while nothing can be rated."""
        ratings, _ = rate(list(self.matches), replace(self.how, bootstrap=_QUICK, intervals="bootstrap"))
        return ratings


Watcher = Callable[[Live], None]
"""Called when a stage begins and after each batch of games."""
