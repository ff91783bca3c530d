"""What a small game consists of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from arena.agents.types import Ask, Message
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task

__all__ = ["Deal", "Decision", "Game", "InformationSet", "Outcome", "Probabilities", "Profile", "Strategy"]


@dataclass(frozen=True, slots=True, eq=False)
class Deal:
    """What chance may bring: a task, and who argues what."""

    task: Task
    sides: tuple[int, ...] | None = None
    """As of `arena.engine.Plan`: None is the order of the task."""
    weight: float = 1.0
    """How likely it is, relative to the other deals."""


@dataclass(slots=True, eq=False)
class InformationSet:
    """All histories at which a seat was told the same and did the same, so that it cannot tell them apart.

    Told are exact messages: what else programs may look up in an `Ask` (node, task fields) is no part of it.
    """

    number: int
    """Place in `Game.information_sets`."""
    seat: str
    before: tuple[InformationSet, int] | None
    """The last decision that the seat has in mind, and which option it took there."""
    new: tuple[Message, ...]
    """What it was told since."""
    options: tuple[str, ...]
    """The texts that it may say."""
    ask: Ask = field(repr=False)
    """How it was asked, in one of the histories."""

    @property
    def told(self) -> str:
        """All that it was told and said, for people: ``hold Q | ? -> check | bet | ?``."""
        begin = "" if self.before is None else f"{self.before[0].told} -> {self.before[0].options[self.before[1]]} | "
        return begin + " | ".join(message.text for message in self.new)

    def __str__(self) -> str:
        return f"{self.seat}: {self.told}"


@dataclass(slots=True, eq=False)
class Outcome:
    """The end of a game."""

    payoffs: tuple[float, ...]
    """(R,) what each of `Game.seats` wins."""


@dataclass(slots=True, eq=False)
class Decision:
    """A history at which a seat chooses. Of seats that act at once, later ones do not know what earlier ones chose."""

    information_set: InformationSet
    ways: list[Decision | Outcome] = field(default_factory=list)
    """What follows each option."""


@dataclass(frozen=True, slots=True, eq=False)
class Game:
    """The tree of a protocol: chance draws a deal, then the seats choose."""

    protocol: str
    seats: tuple[str, ...]
    """The players, in the order of the protocol."""
    deals: tuple[tuple[float, Decision | Outcome], ...]
    """(probability, what follows) of each."""
    information_sets: tuple[InformationSet, ...]
    """Of all seats, in the order in which they were found: what a set rests on (`before`) comes first."""
    histories: int
    """How many there are, ends included."""
    forgetful: str
    """Why some seat has no perfect recall: it does not have in mind what it said; empty if all have."""

    def of(self, seat: str) -> list[InformationSet]:
        """The information sets of a seat.

        Raises:
            ConfigError: there is no such player.
        """
        if seat not in self.seats:
            raise ConfigError(f"'{seat}' is no player of '{self.protocol}'; there are: {', '.join(self.seats)}")
        return [found for found in self.information_sets if found.seat == seat]


Probabilities: TypeAlias = Sequence[float]
"""Of the options of an information set, in their order; they add up to 1."""

Strategy: TypeAlias = Callable[[Sequence[InformationSet]], Sequence[Probabilities]]
"""How to play: what is chosen at each of some information sets. Asked once for all sets that matter."""

Profile: TypeAlias = Strategy | Mapping[str, Strategy]
"""One strategy for all seats, or one for each."""
