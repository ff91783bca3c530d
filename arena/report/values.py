"""Numbers of stored series, as a report writes them: intervals, points, p-values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from arena.charts import Bar, number
from arena.statistics import Interval

__all__ = ["Plain", "bar_of", "interval_of", "p_text", "percent_text", "points_text", "real", "signed"]

Plain = Mapping[str, Any]
"""Something read from JSON."""


def real(value: float | None) -> float:
    """A number; NaN for JSON's null."""
    return math.nan if value is None else float(value)


def interval_of(row: Plain | None) -> Interval:
    """``{"value", "low", "high", "n"}`` as an interval; all NaN where there is none."""
    row = row or {}
    return Interval(real(row.get("value")), real(row.get("low")), real(row.get("high")), int(row.get("n") or 0))


def bar_of(label: str, row: Plain | None, strong: bool = True, shown: str = "") -> Bar:
    """The same as a row of a picture."""
    found = interval_of(row)
    return Bar(label, found.value, found.low, found.high, strong, shown)


def signed(value: float) -> str:
    """Whole points with their sign; 0 has none."""
    return number(float(round(value)), signed=True) if math.isfinite(value) else "–"


def points_text(found: Interval) -> str:
    """Elo points with their interval."""
    return _with_ends(signed(found.value), signed(found.low), signed(found.high))


def percent_text(found: Interval) -> str:
    """A share in per cent with its interval."""
    return _with_ends(*(_percent(value) for value in (found.value, found.low, found.high)))


def p_text(p: float | None) -> str:
    """A p-value with as many digits as mean something."""
    if p is None or not math.isfinite(p):
        return "–"
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else "–"


def _with_ends(value: str, low: str, high: str) -> str:
    return value if low == high == "–" else f"{value} [{low}, {high}]"
