"""Lines over a common axis, with bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from arena.charts.drawing import (
    CHARACTER,
    WIDTH,
    Plot,
    colour,
    dash,
    empty,
    legend,
    line,
    nice_ticks,
    number,
    plain,
    span,
    svg,
    text,
    tick_labels,
)
from arena.protocols.errors import ConfigError

__all__ = ["Series", "axes", "line_chart"]


@dataclass(frozen=True, slots=True)
class Series:
    """One line; NaN makes a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """Lower end of the interval of each point, drawn as a band with ``high``."""
    high: Sequence[float] | None = None
    courses: Sequence[tuple[Sequence[float], Sequence[float]]] = ()
    """What the line is a mean of, each as its own x and y: drawn thin in the same colour, and not in the legend."""


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str = "",
    y_label: str = "",
    y_range: tuple[float, float] | None = None,
    reference: tuple[float, str] | None = None,
    height: int = 250,
) -> str:
    """Lines over a common axis, with a legend if there are several.

    Args:
        series: the lines.
        title: read by screen readers; the visible caption is the page's affair.
        x_label: under the axis.
        y_label: above the axis.
        y_range: ends of the y axis; None fits the data.
        reference: a horizontal line and its label.
        height: in the units of a 460 wide picture.

    Raises:
        ConfigError: a series whose x, y and interval differ in length, or x and y of a course.
    """
    for each in series:
        lengths = {len(each.x), len(each.y), len(each.low or each.x), len(each.high or each.x)}
        if len(lengths) > 1 or any(len(x) != len(y) for x, y in each.courses):
            raise ConfigError(f"series '{each.name}' has x, y and interval of different lengths")
    xs = [float(x) for each in series for part in (each.x, *(x for x, _ in each.courses)) for x in part]
    parts_y = [part for s in series for part in (s.y, s.low or (), s.high or (), *(y for _, y in s.courses))]
    ys = [float(y) for part in parts_y for y in part]
    ys = [y for y in ys if math.isfinite(y)] + ([reference[0]] if reference else [])
    if not xs or not ys:
        return empty(title)
    parts, top = legend([each.name for each in series])
    top += 26 if y_label else 8
    x0, x1 = span(min(xs), max(xs), pad=0.0)
    y0, y1 = y_range or span(min(ys), max(ys), pad=0.06)
    left = 14 + CHARACTER * max(map(len, tick_labels(nice_ticks(y0, y1, 5))))
    plot = Plot(left, WIDTH - 12, top, height - (40 if x_label else 24), x0, x1, y0, y1)
    parts += axes(plot, x_label, y_label, whole=all(x.is_integer() for x in xs))
    if reference:
        y = plot.y(reference[0])
        parts.append(line(plot.left, y, plot.right, y, style="stroke:var(--ink,#222);stroke-dasharray:3 3"))
    for index, each in enumerate(series):  # thin ones first: no mean is covered
        parts += [_course(x, y, plot, index) for x, y in each.courses]
    for index, each in enumerate(series):
        parts += _drawn(each, plot, index)
    if reference:  # over the lines
        parts.append(text(plot.right, plot.y(reference[0]) - 6, reference[1], "end", rim=True))
    spans = "; ".join(f"{s.name}: from {number(s.y[0])} to {number(s.y[-1])}" for s in series if len(s.y))
    return svg(title, spans, height, parts)


def axes(plot: Plot, x_label: str, y_label: str, y_ticks: Sequence[float] = (), whole: bool = False) -> list[str]:
    """Grid and labels of both axes; ``y_ticks`` instead of round numbers, ``whole`` numbers only along x."""
    parts = [text(2, plot.top - 10, y_label, soft=True)] if y_label else []
    rows = nice_ticks(plot.y0, plot.y1, 5)
    marks = [(tick, number(tick)) for tick in y_ticks] or list(zip(rows, tick_labels(rows), strict=True))
    for tick, words in marks:
        y = plot.y(tick)
        parts += [line(plot.left, y, plot.right, y), text(plot.left - 7, y + 4.5, words, "end", soft=True)]
    below = plot.bottom + 18
    ticks = nice_ticks(plot.x0, plot.x1, 6, whole)
    named = zip(ticks, tick_labels(ticks), strict=True)
    parts += [text(plot.x(tick), below, words, "middle", soft=True) for tick, words in named]
    if x_label:
        parts.append(text((plot.left + plot.right) / 2, plot.bottom + 35, x_label, "middle", soft=True))
    return parts


def _drawn(series: Series, plot: Plot, index: int) -> list[str]:
    stroke = colour(index)
    parts = []
    if series.low is not None and series.high is not None:
        ends = [(x, a, b) for x, a, b in zip(series.x, series.low, series.high, strict=True) if math.isfinite(a + b)]
        edge = [(x, a) for x, a, _ in ends] + [(x, b) for x, _, b in reversed(ends)]
        points = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in edge)
        parts.append(f'<polygon points="{points}" style="fill:{stroke};fill-opacity:.14"/>')
    path = _path(series.x, series.y, plot)
    alone = sum(point[0] == "M" for point in path)
    style = f"fill:none;stroke:{stroke};stroke-width:1.8;stroke-linejoin:round;stroke-dasharray:{dash(index)}"
    parts.append(f'<path d="{"".join(path)}" style="{style}"/>')
    if len(series.x) <= 30 or alone == len(path):
        for x, y in zip(series.x, series.y, strict=True):
            if math.isfinite(y):
                tip = f"<title>{plain(series.name)}: {number(x)}, {number(y)}</title>"
                parts.append(
                    f'<circle cx="{plot.x(x):.1f}" cy="{plot.y(y):.1f}" r="2.8" style="fill:{stroke}">{tip}</circle>'
                )
    return parts


def _course(x: Sequence[float], y: Sequence[float], plot: Plot, index: int) -> str:
    style = f"fill:none;stroke:{colour(index)};stroke-width:.9;stroke-opacity:.45;stroke-linejoin:round"
    return f'<path d="{"".join(_path(x, y, plot))}" style="{style}"/>'


def _path(xs: Sequence[float], ys: Sequence[float], plot: Plot) -> list[str]:
    """Commands of a path, one a finite point; the first after a gap begins anew."""
    path, pen = [], "M"
    for x, y in zip(xs, ys, strict=True):
        if math.isfinite(y):
            path.append(f"{pen}{plot.x(x):.1f} {plot.y(y):.1f}")
        pen = "L" if math.isfinite(y) else "M"
    return path
