"""One estimate a row: points with intervals (forest plots), several of them a row, or bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena.charts.drawing import (
    CHARACTER,
    WIDTH,
    Plot,
    across,
    arrow,
    colour,
    empty,
    legend,
    line,
    nice_ticks,
    number,
    percentage,
    plain,
    short,
    span,
    svg,
    text,
    tick_labels,
)

__all__ = ["Bar", "bar_chart", "grouped_plot", "interval_plot"]

_STEP = 26.0  # height of a row
_LABELS = 230.0  # most room for labels
_GREY = "var(--soft,#667)"


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of an interval plot or bar chart."""

    label: str
    value: float
    low: float = math.nan
    """Lower end of the interval; NaN with a finite ``high`` is an interval that is open below."""
    high: float = math.nan
    strong: bool = True
    """Drawn in the accent colour; else in grey, for what is there to compare with."""
    shown: str = ""
    """What stands at the end of the row; empty for the value."""


def interval_plot(
    bars: Sequence[Bar],
    *,
    title: str,
    x_label: str = "",
    x_range: tuple[float, float] | None = None,
    reference: tuple[float, str] | None = None,
    percent: bool = False,
) -> str:
    """A point with its interval for each row (forest plot).

    Args:
        bars: the rows, from the top.
        title: read by screen readers.
        x_label: under the axis.
        x_range: ends of the axis; None fits the data. What goes on beyond them ends in an arrow.
        reference: a vertical line and its label.
        percent: write numbers in per cent.
    """
    return _rows(bars, title, x_label, x_range, reference, percent, filled=False)


def bar_chart(
    bars: Sequence[Bar],
    *,
    title: str,
    x_label: str = "",
    x_range: tuple[float, float] | None = None,
    reference: tuple[float, str] | None = None,
    percent: bool = False,
) -> str:
    """Horizontal bars from 0, with whiskers where a row has an interval; arguments as for `interval_plot`."""
    return _rows(bars, title, x_label, x_range, reference, percent, filled=True)


def grouped_plot(
    groups: Mapping[str, Sequence[Bar]],
    *,
    title: str,
    x_label: str = "",
    x_range: tuple[float, float] | None = None,
    reference: tuple[float, str] | None = None,
    percent: bool = False,
) -> str:
    """Several points with intervals in each row, one a group, with a legend.

    Args:
        groups: name -> bars; those with one label share a row, and rows stand in the order of first mention.
        title: read by screen readers.
        x_label: under the axis.
        x_range: ends of the axis; None fits the data.
        reference: a vertical line and its label.
        percent: write numbers in per cent.
    """
    bars = [bar for group in groups.values() for bar in group]
    ends = _ends(bars, reference, x_range)
    if ends is None:
        return empty(title)
    labels = list(dict.fromkeys(bar.label for bar in bars))
    head, used = legend(list(groups))
    step = max(_STEP, 10.0 + 9.0 * len(groups))
    plot = _place(labels, used + _above(reference), step, WIDTH - 14, ends)
    parts = [*head, *_frame(plot, reference, percent)]
    for row, label in enumerate(labels):
        middle = plot.top + step * (row + 0.5)
        parts.append(_label(label, plot, middle))
        for index, (name, group) in enumerate(groups.items()):
            y = middle + 9.0 * (index - (len(groups) - 1) / 2)
            for bar in group:
                if bar.label == label and math.isfinite(bar.value):
                    told = f"<title>{plain(label)}, {plain(name)}: {_told(bar, percent)}</title>"
                    parts.append(f"<g>{told}{''.join(_point(bar, plot, y, colour(index), 3.4, 2.0))}</g>")
    told = "; ".join(f"{b.label}, {name}: {_told(b, percent)}" for name, group in groups.items() for b in group)
    return _finished(title, told, plot, x_label, parts)


def _rows(
    bars: Sequence[Bar],
    title: str,
    x_label: str,
    x_range: tuple[float, float] | None,
    reference: tuple[float, str] | None,
    percent: bool,
    filled: bool,
) -> str:
    ends = _ends(bars, reference, x_range, zero=filled)
    if ends is None:
        return empty(title)
    shown = [bar.shown or _value(bar, percent) for bar in bars]
    right = WIDTH - 20 - CHARACTER * max(map(across, shown))
    plot = _place([bar.label for bar in bars], _above(reference), _STEP, right, ends)
    parts = _frame(plot, reference, percent)
    for index, (bar, words) in enumerate(zip(bars, shown, strict=True)):
        y = plot.top + _STEP * (index + 0.5)
        stroke = colour(0) if bar.strong else _GREY
        drawn = [_label(bar.label, plot, y), text(WIDTH - 2, y + 4.5, words, "end")]
        if math.isfinite(bar.value):
            drawn += _filled(bar, plot, y, stroke) if filled else _point(bar, plot, y, stroke, 4.4, 2.4)
        parts.append(f"<g><title>{plain(bar.label)}: {_told(bar, percent)}</title>{''.join(drawn)}</g>")
    told = "; ".join(f"{bar.label}: {words}" for bar, words in zip(bars, shown, strict=True))
    return _finished(title, told, plot, x_label, parts)


def _ends(
    bars: Sequence[Bar],
    reference: tuple[float, str] | None,
    x_range: tuple[float, float] | None,
    zero: bool = False,
) -> tuple[float, float] | None:
    """Ends of the axis; None without anything to show."""
    numbers = [v for bar in bars for v in (bar.value, bar.low, bar.high) if math.isfinite(v)]
    numbers += [reference[0]] if reference and bars else []
    if not numbers:
        return None
    numbers += [0.0] if zero else []
    return x_range or span(min(numbers), max(numbers), pad=0.06)


def _above(reference: tuple[float, str] | None) -> float:
    """Room for the reference's label."""
    return 24.0 if reference and reference[1] else 8.0


def _place(labels: Sequence[str], top: float, step: float, right: float, ends: tuple[float, float]) -> Plot:
    left = min(_LABELS, 12 + CHARACTER * max(across(label) for label in labels))
    return Plot(left, right, top, top + step * len(labels), *ends, 0, 1)


def _frame(plot: Plot, reference: tuple[float, str] | None, percent: bool) -> list[str]:
    """Grid, numbers under it and the reference."""
    parts = []
    for tick, words in _ticks(plot, percent):
        x = plot.x(tick)
        parts += [line(x, plot.top, x, plot.bottom), text(x, plot.bottom + 17, words, "middle", soft=True)]
    if reference:
        x, words = plot.x(reference[0]), short(reference[1], 40)
        half = CHARACTER * across(words) / 2
        anchor, at = ("end", WIDTH - 2.0) if x + half > WIDTH else ("start", 2.0) if x < half else ("middle", x)
        parts.append(line(x, plot.top - 6, x, plot.bottom, style="stroke:var(--ink,#222);stroke-dasharray:3 3"))
        parts += [text(at, plot.top - 11, words, anchor, soft=True)] if words else []
    return parts


def _ticks(plot: Plot, percent: bool) -> list[tuple[float, str]]:
    """Ticks and their labels: no more than stand beside each other."""
    for count in (5, 4, 3, 2):
        ticks = nice_ticks(plot.x0, plot.x1, count)
        labels = tick_labels(ticks, percent)
        if CHARACTER * (across("".join(labels)) + 2 * len(labels)) <= plot.right - plot.left:
            break
    return list(zip(ticks, labels, strict=True))


def _label(label: str, plot: Plot, y: float) -> str:
    return text(plot.left - 9, y + 4.5, short(label, int((plot.left - 10) / CHARACTER)), "end")


def _point(bar: Bar, plot: Plot, y: float, stroke: str, radius: float, width: float) -> list[str]:
    x = plot.x(min(max(bar.value, plot.x0), plot.x1))
    dot = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" style="fill:{stroke}"/>'
    return [*_whisker(bar, plot, y, f"{stroke};stroke-width:{width}", stroke), dot]


def _filled(bar: Bar, plot: Plot, y: float, stroke: str) -> list[str]:
    x, zero = (plot.x(min(max(value, plot.x0), plot.x1)) for value in (bar.value, 0.0))
    box = f'x="{min(x, zero):.1f}" y="{y - 8:.1f}" width="{abs(x - zero):.1f}" height="16"'
    ink = "var(--ink,#222)"
    return [
        f'<rect {box} style="fill:{stroke};fill-opacity:.75"/>',
        *_whisker(bar, plot, y, f"{ink};stroke-width:1.2", ink),
    ]


def _whisker(bar: Bar, plot: Plot, y: float, stroke: str, tip: str) -> list[str]:
    """The interval; an arrow where it goes on beyond the axis or has no end."""
    if not (math.isfinite(bar.low) or math.isfinite(bar.high)):
        return []
    beyond = [not bar.low >= plot.x0, not bar.high <= plot.x1]
    a = plot.left if beyond[0] else plot.x(min(bar.low, plot.x1))
    b = plot.right if beyond[1] else plot.x(max(bar.high, plot.x0))
    parts = [line(a, y, b, y, style=f"stroke:{stroke};stroke-linecap:round")]
    heads = ((a, math.pi), (b, 0.0))
    return parts + [arrow(x, y, angle, tip, 7.0) for (x, angle), over in zip(heads, beyond, strict=True) if over]


def _value(bar: Bar, percent: bool) -> str:
    return percentage(bar.value) if percent else number(bar.value)


def _told(bar: Bar, percent: bool) -> str:
    """The value, and the interval if there is one."""
    interval = f" [{number(bar.low)}, {number(bar.high)}]" if math.isfinite(bar.low) or math.isfinite(bar.high) else ""
    return _value(bar, percent) + interval


def _finished(title: str, told: str, plot: Plot, x_label: str, parts: list[str]) -> str:
    height = plot.bottom + (40 if x_label else 24)
    if x_label:
        parts.append(text((plot.left + plot.right) / 2, height - 5, x_label, "middle", soft=True))
    return svg(title, told, height, parts)
