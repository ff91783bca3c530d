"""Sequential tests: the log-likelihood ratio after each pair of games, between its two bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arena.charts.drawing import CHARACTER, WIDTH, Plot, colour, dash, empty, legend, number, plain, svg, text
from arena.charts.lines import axes
from arena.protocols.errors import ConfigError

__all__ = ["Trace", "sprt_chart"]

_POINTS = 400  # of one line; more cannot be told apart


@dataclass(frozen=True, slots=True)
class Trace:
    """One test."""

    name: str
    values: Sequence[float]
    """Log-likelihood ratio of H1 against H0 in nats, after each pair; it starts from 0 before the first."""
    decided: bool = True
    """Whether it ended at a bound; else its last point is drawn hollow."""


def sprt_chart(
    traces: Sequence[Trace],
    *,
    lower: float,
    upper: float,
    title: str,
    lower_label: str = "H0",
    upper_label: str = "H1",
    height: int = 270,
) -> str:
    """The course of sequential probability ratio tests (Wald 1945) that share their bounds.

    Args:
        traces: the tests.
        lower: H0 is accepted at or below this log-likelihood ratio.
        upper: H1 is accepted at or above this one.
        title: read by screen readers.
        lower_label: stands in the region where H0 is accepted.
        upper_label: stands in the region where H1 is accepted.
        height: in the units of a 460 wide picture.

    Raises:
        ConfigError: the bounds do not lie on both sides of 0.
    """
    if not (math.isfinite(lower) and math.isfinite(upper) and lower < 0 < upper):
        raise ConfigError(f"a sequential test runs between a bound below 0 and one above, not {lower!r} and {upper!r}")
    values = [v for trace in traces for v in trace.values if math.isfinite(v)]
    if not values:
        return empty(title)
    room = 0.25 * (upper - lower)
    y0, y1 = min(lower - room, *values), max(upper + room, *values)
    head, used = legend([trace.name for trace in traces])
    longest = max(len(trace.values) for trace in traces)
    left = 14 + CHARACTER * max(len(number(bound)) for bound in (lower, upper))
    plot = Plot(left, WIDTH - 12, used + 26, height + used - 40, 0.0, float(longest), y0, y1)
    parts = [*head]
    for bound, edge, index in ((upper, plot.top, 0), (lower, plot.bottom, 1)):
        y, wide = plot.y(bound), plot.right - plot.left
        box = f'x="{plot.left:.1f}" y="{min(y, edge):.1f}" width="{wide:.1f}" height="{abs(y - edge):.1f}"'
        parts.append(f'<rect {box} style="fill:{colour(index)};fill-opacity:.12"/>')
    parts += axes(plot, "pairs of games", "log-likelihood ratio, nats", (lower, 0.0, upper), whole=True)
    # At the outer edges: a test ends near the inner one.
    parts.append(text(plot.left + 8, plot.top + 15, upper_label))
    parts.append(text(plot.left + 8, plot.bottom - 7, lower_label))
    for index, trace in enumerate(traces):
        parts += _drawn(trace, plot, index)
    told = "; ".join(f"{trace.name}: {len(trace.values)} pairs, {_end(trace)}" for trace in traces)
    return svg(title, told, height + used, parts)


def _end(trace: Trace) -> str:
    last = number(trace.values[-1]) if trace.values else "nothing played"
    return f"ended at {last}" if trace.decided else f"not decided, at {last}"


def _drawn(trace: Trace, plot: Plot, index: int) -> list[str]:
    points = [(0.0, 0.0), *((float(n), v) for n, v in enumerate(trace.values, 1) if math.isfinite(v))]
    if len(points) == 1:
        return []
    every = math.ceil(len(points) / _POINTS)
    kept = points[::every] + ([] if (len(points) - 1) % every == 0 else points[-1:])
    path = "L".join(f"{plot.x(x):.1f} {plot.y(y):.1f}" for x, y in kept)
    stroke = colour(index)
    style = f"fill:none;stroke:{stroke};stroke-width:1.8;stroke-linejoin:round;stroke-dasharray:{dash(index)}"
    x, y = plot.x(points[-1][0]), plot.y(points[-1][1])
    fill = stroke if trace.decided else "var(--paper,#fff)"
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" style="fill:{fill};stroke:{stroke};stroke-width:1.8"/>'
    return [f'<g><title>{plain(trace.name)}: {_end(trace)}</title><path d="M{path}" style="{style}"/>{dot}</g>']
