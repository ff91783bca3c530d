"""Who beats whom in a circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arena.charts.drawing import (
    CHARACTER,
    WIDTH,
    arrow,
    colour,
    empty,
    line,
    number,
    percentage,
    plain,
    short,
    svg,
    text,
)
from arena.protocols.errors import ConfigError

__all__ = ["Cycle", "cycle_chart"]

_RADIUS = 60.0
_ABOVE, _BELOW = 26.0, 68.0  # room for names, margin and the gap to the next line


@dataclass(frozen=True, slots=True)
class Cycle:
    """Each agent beats the next one, and the last one the first."""

    names: Sequence[str]
    scores: Sequence[float]
    """[names] mean score of each against the next; NaN where it is not known."""
    margin: float = math.nan
    """How much the weakest of these wins is worth, above one half."""
    low: float = math.nan
    high: float = math.nan


def cycle_chart(cycles: Sequence[Cycle], *, title: str) -> str:
    """Cycles beside each other, two in a line: an arrow leads from the winner to the loser, with the winner's score.

    One whose interval covers 0 is drawn in grey: it may be chance.

    Args:
        cycles: the cycles, strongest first.
        title: read by screen readers.

    Raises:
        ConfigError: a cycle of fewer than three agents, or without a score for each.
    """
    for cycle in cycles:
        if len(cycle.names) < 3 or len(cycle.names) != len(cycle.scores):
            raise ConfigError(f"a cycle has three agents or more and a score for each, not {cycle!r}")
    if not cycles:
        return empty(title)
    wide = WIDTH / min(2, len(cycles))
    parts, top = [], 0.0
    for first in range(0, len(cycles), 2):
        line_of_two = cycles[first : first + 2]
        bottom = top + _ABOVE + _BELOW + max(_depth(len(cycle.names)) for cycle in line_of_two)
        parts += [_drawn(cycle, (k + 0.5) * wide, top, bottom, wide) for k, cycle in enumerate(line_of_two)]
        top = bottom
    told = "; ".join(f"{' beats '.join((*cycle.names, cycle.names[0]))}, by {number(cycle.margin)}" for cycle in cycles)
    return svg(title, told, top - 12, parts)


def _angles(count: int) -> list[float]:
    """Where the agents stand, the first at the top, then clockwise."""
    return [2 * math.pi * i / count - math.pi / 2 for i in range(count)]


def _depth(count: int) -> float:
    """From the top one to the lowest."""
    return _RADIUS * (1 + max(map(math.sin, _angles(count))))


def _drawn(cycle: Cycle, x: float, top: float, bottom: float, wide: float) -> str:
    stroke = "var(--soft,#667)" if cycle.low <= 0 <= cycle.high else colour(0)
    middle = top + _ABOVE + _RADIUS
    angles = _angles(len(cycle.names))
    places = [(x + 1.2 * _RADIUS * math.cos(a), middle + _RADIUS * math.sin(a)) for a in angles]
    parts = []
    for i, score in enumerate(cycle.scores):
        parts += _edge(places[i], places[(i + 1) % len(places)], (x, middle), score, stroke)
    fits = int((wide / 2 - 16) / CHARACTER)
    for (a, b), angle, name in zip(places, angles, cycle.names, strict=True):
        parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="5" style="fill:{stroke}"/>')
        parts.append(_name(short(name, fits), a, b, angle))
    known = math.isfinite(cycle.low) and math.isfinite(cycle.high)
    interval = f" [{number(cycle.low, True)}, {number(cycle.high, True)}]" if known else ""
    parts.append(text(x, bottom - 24, f"margin {number(cycle.margin, True)}{interval}", "middle", soft=True))
    return f"<g><title>{plain(' beats '.join((*cycle.names, cycle.names[0])))}</title>{''.join(parts)}</g>"


def _name(name: str, x: float, y: float, angle: float) -> str:
    """Outside of the circle: above, below or beside its place."""
    if abs(math.sin(angle)) < 0.25:
        right = math.cos(angle) > 0
        return text(x + (11 if right else -11), y + 4.5, name, "start" if right else "end")
    return text(x, y + (20 if math.sin(angle) > 0 else -11), name, "middle")


def _edge(
    start: tuple[float, float], end: tuple[float, float], middle: tuple[float, float], score: float, stroke: str
) -> list[str]:
    """An arrow between two places, and the score on its outer side; at the bottom, where names stand, on the inner."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    ax, ay = start[0] + 11 * math.cos(angle), start[1] + 11 * math.sin(angle)
    bx, by = end[0] - 10 * math.cos(angle), end[1] - 10 * math.sin(angle)
    half = ((ax + bx) / 2, (ay + by) / 2)
    shown = percentage(score, 0) if math.isfinite(score) else ""
    outward = math.atan2(half[1] - middle[1], half[0] - middle[0])
    outward = -outward if math.sin(outward) > 0.9 else outward
    at = half[0] + 20 * math.cos(outward), half[1] + 12 * math.sin(outward) + 4
    back = 4 * math.cos(angle), 4 * math.sin(angle)
    return [
        line(ax, ay, bx - back[0], by - back[1], style=f"stroke:{stroke};stroke-width:1.8"),
        arrow(bx, by, angle, stroke, 9.0),
        text(*at, shown, "middle", small=True) if shown else "",
    ]
