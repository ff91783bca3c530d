"""What a schedule is told, and what it answers: value types that all schedules share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Pairing", "Result", "Schedule", "State", "reach", "size"]


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two agents on one task, in both seat orders: the unit of a tournament, which is played whole or not at all."""

    first: str
    second: str
    task: str
    """Id of the task."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a pairing came to."""

    pairing: Pairing
    scores: tuple[float, ...]
    """What ``first`` got in each decided game, in the order of the games: 1, 0.5 or 0. Undecidable games are left
    out, never counted as lost."""
    games: int
    """Games that were played, undecidable ones included."""
    tokens: int = 0
    """Tokens that both agents sampled in them, as far as they are known."""

    @property
    def whole(self) -> bool:
        """Whether every game was decided, so that both seat orders count."""
        return self.games > 0 and len(self.scores) == self.games


@dataclass(frozen=True, slots=True)
class State:
    """All that a schedule may look at."""

    names: tuple[str, ...]
    """Who takes part in the round to come, in the order of the file; those who were added later stand last."""
    tasks: tuple[str, ...]
    """Ids of the tasks of each pairing of a round robin (``n`` of the file), in the order in which they are played."""
    rounds: tuple[tuple[Result, ...], ...] = ()
    """Complete rounds, the first one first."""
    seed: int = 0
    """For schedules that draw; the same in every round."""
    since: int = 0
    """Number of the round in which the last agent was added; 0 where all were there at the beginning."""
    spare: tuple[str, ...] = ()
    """Ids of further tasks, to be played after ``tasks``; for schedules that `reach` beyond these."""
    met: frozenset[tuple[str, str]] = field(init=False, compare=False)
    """Pairs that were paired in some round, in both orders of their names."""

    def __post_init__(self) -> None:
        pairs = {(r.pairing.first, r.pairing.second) for played in self.rounds for r in played}
        object.__setattr__(self, "met", frozenset(pairs | {(b, a) for a, b in pairs}))

    def results(self) -> list[Result]:
        """Those of all rounds."""
        return [result for played in self.rounds for result in played]


def reach(schedule: Schedule) -> int:
    """How many times ``n`` tasks one pair may play: the schedule's ``reach``, 1 where it has none.

    With more than 1, `State.spare` holds the tasks beyond ``n``, as far as the task set has them.
    """
    return int(getattr(schedule, "reach", 1))


def size(schedule: Schedule, begin: State) -> int | None:
    """How many pairings a schedule asks for from its first round to its last, as its method ``size`` tells.

    None where it has no such method, since that depends on results.
    """
    told: Callable[[State], int] | None = getattr(schedule, "size", None)
    return None if told is None else told(begin)


class Schedule(Protocol):
    """Says who meets whom next: a pure function of its own arguments and the results of complete rounds.

    Nothing else may decide what it answers (no clock, no global generator, no state of its own), so that a tournament
    that was killed goes on with the very games that it would have played.
    """

    static: bool
    """Whether its pairings depend on who takes part alone. All of them may then be cut into rounds (`sprt`)."""

    def next_round(self, state: State) -> Sequence[Pairing]:
        """The pairings of the round to come, each once; none that was played before. Empty: the tournament is over."""
        ...
