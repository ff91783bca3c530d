"""What expressions can call: functions of numbers, and functions of the values of several nodes.

Votes count with the same helpers, so that ``agreement(answer.choice)`` and a vote on ``answer`` say the same.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

__all__ = ["FUNCTIONS", "GROUPS", "as_number", "read_number", "shorten", "tally", "value_key"]

_NUMBER = re.compile(r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)


def as_number(value: Any) -> Any:
    """The value itself.

    Raises:
        TypeError: it is no number (true and false are 1 and 0).
    """
    if isinstance(value, int | float):
        return value
    raise TypeError(f"{'none' if value is None else shorten(repr(value))} is not a number")


def shorten(text: str) -> str:
    """At most 60 characters of it, for messages."""
    return text if len(text) <= 60 else text[:57] + "..."


def read_number(value: Any) -> int | float | None:
    """The number that a text is, as people write it (``-3``, ``0.5``, ``1e3``); None for anything else."""
    if isinstance(value, int | float):
        return value
    text = value.strip() if isinstance(value, str) and len(value) <= 100 else ""
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text) if re.search("[.eE]", text) else int(text)
    return number if math.isfinite(number) else None


def tally(values: Iterable[Any]) -> Counter[Hashable]:
    """How often each value occurs, by its `value_key`, first ones first; None is left out."""
    return Counter(value_key(value) for value in values if value is not None)


def value_key(value: Any) -> Hashable:
    """What equal values have in common, also where they are lists or mappings."""
    return value if isinstance(value, Hashable) else ("json", json.dumps(value, sort_keys=True))


def _clip(value: float, low: float, high: float) -> float:
    """``value`` moved into [low, high]."""
    return max(low, min(high, value))


def _round(value: float, digits: int = 0) -> float:
    """``value`` to so many digits, a whole number without; beyond 400 nothing changes any more."""
    return round(value) if digits == 0 and isinstance(digits, int) else round(value, max(-400, min(400, digits)))


def _agreement(values: Sequence[Any]) -> float:
    """Share of the most frequent value among all entries; an abstention agrees with nobody."""
    return max(tally(values).values(), default=0) / len(values) if values else 0.0


def _count(values: Sequence[Any], value: Any) -> int:
    """How many equal ``value``."""
    return sum(item == value for item in values)


def _given(values: Sequence[Any]) -> list[Any]:
    """The numbers among the values, abstentions left out."""
    return [as_number(value) for value in values if value is not None]


def _mean(values: Sequence[Any]) -> float | None:
    given = _given(values)
    return sum(given) / len(given) if given else None


def _median(values: Sequence[Any]) -> float | None:
    """The middle of the numbers; of an even count, the mean of the two in the middle."""
    given: list[float] = sorted(_given(values))
    half = len(given) // 2
    if not given:
        return None
    return given[half] if len(given) % 2 else (given[half - 1] + given[half]) / 2


FUNCTIONS: Mapping[str, tuple[Callable[..., Any], int, int]] = {
    "tanh": (math.tanh, 1, 1),
    "exp": (math.exp, 1, 1),
    "log": (math.log, 1, 1),
    "sqrt": (math.sqrt, 1, 1),
    "abs": (abs, 1, 1),
    "min": (min, 2, 20),
    "max": (max, 2, 20),
    "round": (_round, 1, 2),
    "clip": (_clip, 3, 3),
}
"""Name -> function of numbers, least and largest count of arguments."""

GROUPS: Mapping[str, tuple[Callable[..., Any], int]] = {
    "agreement": (_agreement, 1),
    "distinct": (lambda values: len(tally(values)), 1),
    "count": (_count, 2),
    "len": (len, 1),
    "sum": (lambda values: sum(_given(values)), 1),
    "mean": (_mean, 1),
    "median": (_median, 1),
    "any": (any, 1),
    "all": (all, 1),
    "min": (lambda values: min(_given(values), default=None), 1),
    "max": (lambda values: max(_given(values), default=None), 1),
}
"""Name -> function of a tuple of values (and one more value), count of arguments."""
