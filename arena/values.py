"""What turns and verdicts say to expressions: the fields behind ``NODE.`` in conditions, rewards and computations."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from arena.protocols.lengths import count_words
from arena.protocols.records import Turn, TurnStatus, Verdict

__all__ = ["READABLE", "TOKEN", "TURN_FIELDS", "VERDICT_FIELDS", "heard_text", "turn_value", "verdict_value"]

READABLE = frozenset({TurnStatus.OK, TurnStatus.TRUNCATED, TurnStatus.OVER_LIMIT})
"""How a turn may end for its text to count as said and read."""

TOKEN = re.compile(r"\w++(?:[^\w\s]++\w++)*+|[^\w\s]")
"""A token where the agent does not count: a word, with what joins its parts (``b9=4``, ``don't``), or a mark."""


def heard_text(turn: Turn) -> str:
    """What was said, for everybody but the record: of a refused turn, nothing."""
    return "" if turn.status is TurnStatus.REFUSED else turn.text


TURN_FIELDS: Mapping[str, Callable[[Turn], Any]] = {
    "text": heard_text,
    "words": lambda turn: count_words(heard_text(turn)),
    "ok": lambda turn: turn.status in READABLE,
    "status": lambda turn: turn.status.value,
    "bad_quotes": lambda turn: sum(not quote.good for quote in turn.quotes),
    "visits": lambda turn: turn.visit + 1,
}
"""What every turn says; what else it says stands in `Turn.fields`."""

VERDICT_FIELDS = ("choice", "decidable", "index", "margin", "p", "score", "status", "winner")
"""What every verdict says, beside ``visits``."""


def turn_value(turn: Turn, field: str) -> Any:
    """One field of a turn; None where it has no such field."""
    read = TURN_FIELDS.get(field)
    return turn.fields.get(field) if read is None else read(turn)


def verdict_value(
    verdict: Verdict, field: str, answers: Sequence[str], sides: Sequence[int], seats: Sequence[str]
) -> Any:
    """One of `VERDICT_FIELDS`; None where the verdict does not say.

    Args:
        verdict: on ``answers``.
        field: its name.
        answers: texts, in task order.
        sides: index of the answer that each seat argues.
        seats: names of the roles that argue, in the order of their seats.
    """
    if field == "status":
        return verdict.status.value
    if field == "decidable":
        return verdict.decidable
    if field == "margin":
        return _lead(verdict)
    choice = verdict.choice
    if field == "score":
        return verdict.worth(choice) if verdict.decidable else None
    if choice is None or field == "index":
        return choice
    if field == "choice":
        return answers[choice]
    if field == "p":
        return math.exp(verdict.logps[choice])
    return next((seat for seat, side in zip(seats, sides, strict=False) if side == choice), None)


def _lead(verdict: Verdict) -> float | None:
    """The best log-probability minus the second best, in nats; 0 for a tie."""
    if not verdict.decidable or len(verdict.logps) < 2:
        return None
    second, best = sorted(verdict.logps)[-2:]
    return best - second
