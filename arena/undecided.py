"""How many verdicts cannot be used, and when there are too many of them to go on.

What rests on the few verdicts that a judge could give says little about the many that it could not. Work that needs
verdicts therefore stops where their share passes a limit, as soon as that shows, and keeps what it has.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena.protocols.records import Episode, Verdict

__all__ = [
    "FIRST_LOOK",
    "MOST_UNDECIDED",
    "NO_VERDICTS",
    "Undecided",
    "UndecidedLimit",
    "UndecidedWindow",
    "verdicts_of",
]

MOST_UNDECIDED = 0.5
"""Largest share of undecidable verdicts in a run or tournament that names none."""
FIRST_LOOK = 20
"""Verdicts before which nothing is concluded: of three, one that failed is a third."""
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Undecided:
    """A count of verdicts."""

    verdicts: int
    """All that were given, of episodes that did not fail."""
    undecidable: int
    """Those that cannot be used."""
    share: float
    """Undecidable of all; 0 where there are none."""
    by_status: Mapping[str, int] = field(default_factory=dict)
    """Status -> count of the undecidable ones, the commonest first."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Status -> the reason that is given most often with it."""
    limit: float = 1.0
    """Largest share that was allowed."""
    too_many: bool = False
    """Whether it was passed, so that the work was stopped."""

    def __str__(self) -> str:
        told = f"{self.share:.1%} of {self.verdicts}"
        if not self.undecidable:
            return told
        why = [f"{count} {status} ({self.examples[status]})" for status, count in self.by_status.items()]
        return f"{told}: {', '.join(why)}"


NO_VERDICTS = Undecided(0, 0, 0.0)


class UndecidedLimit:
    """Counts verdicts as they come, and says when too many cannot be used.

    Args:
        most: largest share of undecidable verdicts, 0 to 1; 1 allows everything.
        first_look: verdicts before which no share is too large.
    """

    def __init__(self, most: float = MOST_UNDECIDED, first_look: int = FIRST_LOOK) -> None:
        self.most = most
        self.first_look = first_look
        self._verdicts = 0
        self._reasons: dict[str, Counter[str]] = {}

    def add(self, verdicts: Iterable[Verdict]) -> None:
        """Count some more."""
        for verdict in verdicts:
            self._verdicts += 1
            if not verdict.decidable:
                reason = " ".join(str(verdict.evidence.get("reason") or "no reason given").split())
                self._reasons.setdefault(str(verdict.status), Counter())[reason[:_LONGEST]] += 1

    def state_dict(self) -> dict[str, Any]:
        """The count, as plain values."""
        return {"verdicts": self._verdicts, "reasons": {status: dict(why) for status, why in self._reasons.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved count."""
        self._verdicts = state["verdicts"]
        self._reasons = {status: Counter(why) for status, why in state["reasons"].items()}

    @property
    def found(self) -> Undecided:
        """The count so far."""
        counts = {status: reasons.total() for status, reasons in self._reasons.items()}
        by_status = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
        examples = {status: self._reasons[status].most_common(1)[0][0] for status in by_status}
        undecidable = sum(by_status.values())
        share = undecidable / self._verdicts if self._verdicts else 0.0
        too_many = self._verdicts >= self.first_look and share > self.most
        return Undecided(self._verdicts, undecidable, share, by_status, examples, self.most, too_many)

    @property
    def passed(self) -> bool:
        """Whether there are too many."""
        return self.found.too_many


class UndecidedWindow:
    """Looks at verdicts that come in batches, each with those since the last look, once there are enough.

    A judge that fails late shows at once, whatever it did before.

    Args:
        most: see `UndecidedLimit`.
        first_look: verdicts of a look.
    """

    def __init__(self, most: float, first_look: int = FIRST_LOOK) -> None:
        self.most = most
        self.first_look = first_look
        self.all = UndecidedLimit(1.0)
        """Everything so far."""
        self._since = UndecidedLimit(most, first_look)

    def add(self, verdicts: Sequence[Verdict]) -> Undecided:
        """Count a batch, and look: what was found since the last look, this batch included."""
        self.all.add(verdicts)
        self._since.add(verdicts)
        found = self._since.found
        if found.verdicts >= self.first_look:
            self._since = UndecidedLimit(self.most, self.first_look)
        return found

    def state_dict(self) -> dict[str, Any]:
        """Both counts, as plain values."""
        return {"all": self.all.state_dict(), "since": self._since.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from saved counts."""
        self.all.load_state_dict(state["all"])
        self._since.load_state_dict(state["since"])


def verdicts_of(episodes: Iterable[Episode]) -> list[Verdict]:
    """All verdicts that judges and votes gave in episodes that did not fail: on the answers, those of nested protocols
    on theirs, and on the candidates for a turn."""
    found: list[Verdict] = []
    for episode in episodes:
        if episode.error is None:
            found += [*episode.verdicts.values(), *episode.inner_verdicts.values()]
            found += itertools.chain.from_iterable(episode.rated.values())
    return found
