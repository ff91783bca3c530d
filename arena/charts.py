"""Small charts as inline SVG: lines, intervals, bars, heat maps.

Each function returns one ``<svg>`` element that scales to the width of its place, has a title and a description for
screen readers, takes its colours from CSS variables (``--ink``, ``--soft``, ``--line``, ``--c1`` ... ``--c6``; the
fallbacks suit a white page), and holds no script. Labels may be hostile: they are escaped, and control characters are
shown as ``[U+202E]``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from arena.protocols.errors import ConfigError

__all__ = [
    "Bar",
    "Series",
    "bar_chart",
    "heat_map",
    "interval_plot",
    "is_hidden",
    "line_chart",
    "nice_ticks",
    "plain",
    "reliability_chart",
]

WIDTH = 460
_COLOURS = ("#1d6a86", "#c0703a", "#6d7b3a", "#87527c", "#5b6470", "#b3922f")
_DASHES = ("", "7 3", "2 3", "8 3 2 3")
_CHARACTER = 7.7  # average width of a character at 13 px, on the safe side


@dataclass(frozen=True, slots=True)
class Series:
    """One line; NaN makes a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """Lower end of the interval of each point, drawn as a band with ``high``."""
    high: Sequence[float] | None = None


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of an interval plot or bar chart."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan
    strong: bool = True
    """Drawn in the accent colour; else in grey, for what is there to compare with."""


def is_hidden(character: str) -> bool:
    """Whether a character would be invisible or would reorder its neighbours: controls, bidi marks, lone surrogates."""
    code = ord(character)
    return (
        (code < 0x20 and character not in "\n\t")
        or 0x7F <= code < 0xA0
        or code in (0x061C, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029, 0x2060, 0xFEFF)
        or 0x202A <= code <= 0x202E
        or 0x2066 <= code <= 0x206F
        or 0xD800 <= code < 0xE000
        or 0xFFF9 <= code <= 0xFFFB
        or 0xFFFE <= code <= 0xFFFF
        or 0xE0000 <= code < 0xE0080
    )


def plain(text: object) -> str:
    """Text for SVG: escaped, hidden characters shown as ``[U+202E]``."""
    return escape("".join(f"[U+{ord(c):04X}]" if is_hidden(c) else c for c in str(text)))


def nice_ticks(low: float, high: float, count: int = 5, whole: bool = False) -> list[float]:
    """About ``count`` round numbers that span ``low`` to ``high`` from inside.

    Args:
        low: lower end.
        high: upper end, not below ``low``.
        count: how many ticks to aim for.
        whole: whole numbers only.
    """
    if not (math.isfinite(low) and math.isfinite(high)) or high - low <= 1e-9 * max(abs(low), abs(high)):
        return [low]
    raw = (high - low) / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = min((f * power for f in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    if whole:
        step = max(1.0, float(round(step)))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    digits = 3 - math.floor(math.log10(step))  # no 0.30000000000000004
    return [round(index * step, digits) + 0.0 for index in range(first, last + 1)]


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
        ConfigError: a series whose x, y and interval differ in length.
    """
    for line in series:
        if len({len(line.x), len(line.y), len(line.low or line.x), len(line.high or line.x)}) > 1:
            raise ConfigError(f"series '{line.name}' has x, y and interval of different lengths")
    xs = [float(x) for line in series for x in line.x]
    ys = [float(y) for line in series for part in (line.y, line.low or (), line.high or ()) for y in part]
    ys = [y for y in ys if math.isfinite(y)] + ([reference[0]] if reference else [])
    if not xs or not ys:
        return _empty(title)
    legend, top = _legend(series)
    top += 26 if y_label else 8
    x0, x1 = _span(min(xs), max(xs), pad=0.0)
    y0, y1 = y_range or _span(min(ys), max(ys), pad=0.06)
    ticks = nice_ticks(y0, y1, 5)
    left = 14 + _CHARACTER * max(len(_number(t)) for t in ticks)
    plot = _Plot(left, WIDTH - 12, top, height - (40 if x_label else 24), x0, x1, y0, y1)
    parts = [*legend]
    if y_label:
        parts.append(_text(2, top - 10, y_label, soft=True))
    for tick in ticks:
        y = plot.y(tick)
        parts.append(_line(plot.left, y, plot.right, y))
        parts.append(_text(plot.left - 7, y + 4.5, _number(tick), "end", soft=True))
    whole = all(x.is_integer() for x in xs)
    below = plot.bottom + 18
    parts += [_text(plot.x(t), below, _number(t), "middle", soft=True) for t in nice_ticks(x0, x1, 6, whole)]
    if x_label:
        parts.append(_text((plot.left + plot.right) / 2, height - 5, x_label, "middle", soft=True))
    if reference:
        y = plot.y(reference[0])
        parts.append(_line(plot.left, y, plot.right, y, style="stroke:var(--ink,#222);stroke-dasharray:3 3"))
    for index, line in enumerate(series):
        parts += _drawn(line, plot, index)
    if reference:  # over the lines, with a rim of paper that keeps it readable
        parts.append(_text(plot.right, plot.y(reference[0]) - 6, reference[1], "end", rim=True))
    spans = "; ".join(f"{s.name}: from {_number(s.y[0])} to {_number(s.y[-1])}" for s in series if len(s.y))
    return _svg(title, spans, height, parts)


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
        x_range: ends of the axis; None fits the data.
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


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    title: str,
    counts: Sequence[Sequence[int]] | None = None,
    middle: float = 0.5,
    reach: float = 0.5,
) -> str:
    """A square for each pair, its number in it; above ``middle`` in the first colour, below in the second.

    Args:
        rows: names of the rows.
        columns: names of the columns.
        values: [rows, columns]; NaN for a pair that never met.
        title: read by screen readers.
        counts: [rows, columns] numbers behind the values, shown on hover.
        middle: value without colour.
        reach: distance from the middle of full colour.
    """
    labels = min(150.0, 12 + _CHARACTER * max((len(str(name)) for name in rows), default=0))
    cell = min(64.0, (WIDTH - labels - 4) / max(1, len(columns)))
    tall = min(40.0, cell)
    heads = [str(name) for name in columns]
    if any(len(name) * _CHARACTER > cell - 4 for name in heads):
        heads = _without_prefix(heads)
    longest = min(18, max((len(name) for name in heads), default=0))
    slanted = longest * _CHARACTER > cell - 4
    head, overhang = 26.0, 0.0
    if slanted:  # names at 45 degrees reach up and, the last one, beyond the last column
        head = 16 + 0.71 * _CHARACTER * longest
        overhang = max(0.0, head - 16 - cell / 2)
        cell = min(64.0, (WIDTH - labels - 4 - overhang) / max(1, len(columns)))
        tall = min(40.0, cell)
    parts = []
    for j, name in enumerate(heads):
        x = labels + (j + 0.5) * cell
        if slanted:
            turn = f"rotate(-45 {x + 4:.1f} {head - 6:.1f})"
            parts.append(_text(x + 4, head - 6, _short(name, 18), soft=True, transform=turn))
        else:
            parts.append(_text(x, head - 9, name, "middle", soft=True))
    for i, row in enumerate(rows):
        y = head + i * tall
        parts.append(_text(labels - 8, y + tall / 2 + 4.5, _short(row, int(labels / _CHARACTER)), "end", soft=True))
        for j, column in enumerate(columns):
            value = float(values[i][j])
            number = f", n={counts[i][j]}" if counts is not None else ""
            colour = "c1" if value >= middle else "c2"
            strength = 0.0 if math.isnan(value) else min(1.0, abs(value - middle) / reach) * 0.7
            fill = f"fill:var(--{colour},{_COLOURS[0 if colour == 'c1' else 1]});fill-opacity:{strength:.2f}"
            box = (
                f'x="{labels + j * cell + 1:.1f}" y="{y + 1:.1f}" width="{cell - 2:.1f}" height="{tall - 2:.1f}" rx="2"'
            )
            shown = "–" if math.isnan(value) else f"{value:.2f}".removeprefix("0") if cell < 40 else f"{value:.2f}"
            parts.append(
                f"<g><title>{plain(row)} – {plain(column)}: {shown}{number}</title>"
                f'<rect {box} style="{fill};stroke:var(--line,#ddd);stroke-width:.5"/>'
                f"{_text(labels + (j + 0.5) * cell, y + tall / 2 + 4.5, shown, 'middle', small=cell < 34)}</g>"
            )
    told = f"{len(rows)} rows, {len(columns)} columns; mean score of the row against the column"
    return _svg(title, told, head + tall * len(rows) + 6, parts)


def reliability_chart(
    confidence: Sequence[float], accuracy: Sequence[float], counts: Sequence[int], *, title: str, height: int = 300
) -> str:
    """What was claimed against what came true: one dot a bin, its area by how many samples it stands for.

    A judge whose dots lie on the dashed diagonal is calibrated; below it, it is too sure of itself.

    Args:
        confidence: mean stated probability of each bin.
        accuracy: share of each bin that was right.
        counts: samples in each.
        title: read by screen readers.
        height: in the units of a 460 wide picture.

    Raises:
        ConfigError: the three differ in length.
    """
    if len({len(confidence), len(accuracy), len(counts)}) > 1:
        raise ConfigError("a reliability chart needs confidence, accuracy and count of each bin")
    if not counts:
        return _empty(title)
    left = min(0.5, math.floor(min(confidence) * 10) / 10)
    plot = _Plot(44, WIDTH - 14, 28, height - 44, left, 1.0, 0.0, 1.0)
    parts = [_text(2, 14, "share right", soft=True)]
    for tick in nice_ticks(0, 1, 5):
        parts.append(_line(plot.left, plot.y(tick), plot.right, plot.y(tick)))
        parts.append(_text(plot.left - 7, plot.y(tick) + 4.5, _number(tick), "end", soft=True))
    below = plot.bottom + 18
    parts += [_text(plot.x(t), below, _number(t), "middle", soft=True) for t in nice_ticks(left, 1, 6)]
    parts.append(_text((plot.left + plot.right) / 2, height - 6, "stated confidence", "middle", soft=True))
    dashed = "stroke:var(--ink,#222);stroke-dasharray:3 3"
    parts.append(_line(plot.x(left), plot.y(left), plot.x(1), plot.y(1), style=dashed))
    for claimed, came_true, count in zip(confidence, accuracy, counts, strict=True):
        x, y = plot.x(claimed), plot.y(came_true)
        radius = 3 + 9 * math.sqrt(count / max(counts))
        gap = _line(x, y, x, plot.y(claimed), style=f"stroke:{_colour(1)};stroke-width:2")
        tip = f"<title>{count}: confidence {_number(claimed)}, {_number(came_true)} right</title>"
        style = f"fill:{_colour(0)};fill-opacity:.8"
        parts.append(f'<g>{tip}{gap}<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" style="{style}"/></g>')
    bins = zip(confidence, accuracy, strict=True)
    told = "; ".join(f"{_number(claimed)} claimed, {_number(came_true)} right" for claimed, came_true in bins)
    return _svg(title, told, height, parts)


@dataclass(frozen=True, slots=True)
class _Plot:
    """Data coordinates to picture coordinates."""

    left: float
    right: float
    top: float
    bottom: float
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.right - self.left)

    def y(self, value: float) -> float:
        inside = min(max(value, self.y0), self.y1)
        return self.bottom - (inside - self.y0) / (self.y1 - self.y0) * (self.bottom - self.top)


def _span(low: float, high: float, pad: float) -> tuple[float, float]:
    if high - low < 1e-12 * max(1.0, abs(high)):
        room = abs(high) * 0.1 or 0.5
        return low - room, high + room
    room = (high - low) * pad
    # Data that start at or near 0 show it.
    return (0.0 if pad and 0 <= low <= high / 4 else low - room), (high if high == 0 else high + room)


def _drawn(line: Series, plot: _Plot, index: int) -> list[str]:
    colour = _colour(index)
    parts = []
    if line.low is not None and line.high is not None:
        ends = [(x, a, b) for x, a, b in zip(line.x, line.low, line.high, strict=True) if math.isfinite(a + b)]
        edge = [(x, a) for x, a, _ in ends] + [(x, b) for x, _, b in reversed(ends)]
        points = " ".join(f"{plot.x(x):.1f},{plot.y(y):.1f}" for x, y in edge)
        parts.append(f'<polygon points="{points}" style="fill:{colour};fill-opacity:.14"/>')
    path, pen, alone = [], "M", 0
    for x, y in zip(line.x, line.y, strict=True):
        if not math.isfinite(y):
            pen = "M"
            continue
        alone += pen == "M"
        path.append(f"{pen}{plot.x(x):.1f} {plot.y(y):.1f}")
        pen = "L"
    dash = _DASHES[index // len(_COLOURS) % len(_DASHES)]
    style = f"fill:none;stroke:{colour};stroke-width:1.8;stroke-linejoin:round;stroke-dasharray:{dash or 'none'}"
    parts.append(f'<path d="{"".join(path)}" style="{style}"/>')
    if len(line.x) <= 30 or alone == len(path):
        for x, y in zip(line.x, line.y, strict=True):
            if math.isfinite(y):
                tip = f"<title>{plain(line.name)}: {_number(x)}, {_number(y)}</title>"
                parts.append(
                    f'<circle cx="{plot.x(x):.1f}" cy="{plot.y(y):.1f}" r="2.8" style="fill:{colour}">{tip}</circle>'
                )
    return parts


def _rows(
    bars: Sequence[Bar],
    title: str,
    x_label: str,
    x_range: tuple[float, float] | None,
    reference: tuple[float, str] | None,
    percent: bool,
    filled: bool,
) -> str:
    numbers = [v for bar in bars for v in (bar.value, bar.low, bar.high) if math.isfinite(v)]
    numbers += [reference[0]] if reference else []
    numbers += [0.0] if filled and numbers else []
    if not numbers:
        return _empty(title)
    x0, x1 = x_range or _span(min(numbers), max(numbers), pad=0.06)
    shown = [_percent(bar.value) if percent else _number(bar.value) for bar in bars]
    labels = min(190.0, 12 + _CHARACTER * max(len(bar.label) for bar in bars))
    step, top = 26.0, 24.0 if reference else 8.0
    plot = _Plot(labels, WIDTH - 14 - _CHARACTER * max(map(len, shown)), top, top + step * len(bars), x0, x1, 0, 1)
    parts = []
    for tick in nice_ticks(x0, x1, 5):
        x = plot.x(tick)
        parts.append(_line(x, plot.top, x, plot.bottom))
        text = _percent(tick, 0) if percent else _number(tick)
        parts.append(_text(x, plot.bottom + 17, text, "middle", soft=True))
    if reference:
        x = plot.x(reference[0])
        parts.append(_line(x, plot.top - 6, x, plot.bottom, style="stroke:var(--ink,#222);stroke-dasharray:3 3"))
        parts.append(_text(x, plot.top - 11, reference[1], "middle", soft=True))
    for index, (bar, text) in enumerate(zip(bars, shown, strict=True)):
        parts.append(_row(bar, text, plot, top + step * (index + 0.5), filled))
    height = plot.bottom + (40 if x_label else 24)
    if x_label:
        parts.append(_text((plot.left + plot.right) / 2, height - 5, x_label, "middle", soft=True))
    told = "; ".join(f"{bar.label}: {text}" for bar, text in zip(bars, shown, strict=True))
    return _svg(title, told, height, parts)


def _row(bar: Bar, text: str, plot: _Plot, y: float, filled: bool) -> str:
    colour = _colour(0) if bar.strong else "var(--soft,#667)"
    fits = int((plot.left - 10) / _CHARACTER)
    parts = [_text(plot.left - 9, y + 4.5, _short(bar.label, fits), "end")]
    parts.append(_text(WIDTH - 2, y + 4.5, text, "end"))
    if math.isfinite(bar.value):
        x = plot.x(bar.value)
        if filled:
            zero = plot.x(min(max(0.0, plot.x0), plot.x1))
            box = f'x="{min(x, zero):.1f}" y="{y - 8:.1f}" width="{abs(x - zero):.1f}" height="16"'
            parts.append(f'<rect {box} style="fill:{colour};fill-opacity:.75"/>')
        if math.isfinite(bar.low) and math.isfinite(bar.high):
            a, b = plot.x(max(bar.low, plot.x0)), plot.x(min(bar.high, plot.x1))
            stroke = "var(--ink,#222);stroke-width:1.2" if filled else f"{colour};stroke-width:2.4"
            parts.append(_line(a, y, b, y, style=f"stroke:{stroke};stroke-linecap:round"))
        if not filled:
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.4" style="fill:{colour}"/>')
    interval = f" [{_number(bar.low)}, {_number(bar.high)}]" if math.isfinite(bar.low + bar.high) else ""
    return f"<g><title>{plain(bar.label)}: {text}{interval}</title>{''.join(parts)}</g>"


def _legend(series: Sequence[Series]) -> tuple[list[str], float]:
    """Names beside a stroke of their colour, in as many lines as they need; and the height they take."""
    if len(series) < 2:
        return [], 0.0
    parts, x, y = [], 2.0, 12.0
    for index, line in enumerate(series):
        name = _short(line.name, 40)
        width = 34 + _CHARACTER * len(name)
        if x > 2 and x + width > WIDTH:
            x, y = 2.0, y + 18
        dash = _DASHES[index // len(_COLOURS) % len(_DASHES)] or "none"
        stroke = f"stroke:{_colour(index)};stroke-width:2.4;stroke-dasharray:{dash}"
        parts += [_line(x, y - 4, x + 16, y - 4, style=stroke), _text(x + 21, y, name)]
        x += width
    return parts, y + 6


def _empty(title: str) -> str:
    return _svg(title, "no data", 60, [_text(WIDTH / 2, 34, "no data", "middle", soft=True)])


def _svg(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg" '
        f'style="font:13px/1 var(--sans,system-ui,sans-serif);font-variant-numeric:tabular-nums" '
        f'aria-label="{plain(title)}"><title>{plain(title)}</title><desc>{plain(description)}</desc>{"".join(parts)}</svg>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    anchor: str = "start",
    *,
    soft: bool = False,
    small: bool = False,
    rim: bool = False,
    transform: str = "",
) -> str:
    style = "fill:var(--soft,#667)" if soft else "fill:var(--ink,#222)"
    style += ";font-size:10.5px" if small else ""
    style += ";stroke:var(--paper,#fff);stroke-width:4;stroke-linejoin:round;paint-order:stroke" if rim else ""
    turned = f' transform="{transform}"' if transform else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}"{turned}>{plain(text)}</text>'


def _line(x0: float, y0: float, x1: float, y1: float, style: str = "stroke:var(--line,#ddd)") -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" style="{style}"/>'


def _without_prefix(names: list[str]) -> list[str]:
    """``debater@g0, debater@g1`` -> ``g0, g1``: what all names share, up to a sign, only takes room."""
    first, last = min(names), max(names)  # what these two share, all share
    differ = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    cut = max(first.rfind(sign, 0, differ) for sign in "@/:-_ ") + 1
    return [name[cut:] for name in names]


def _colour(index: int) -> str:
    slot = index % len(_COLOURS)
    return f"var(--c{slot + 1},{_COLOURS[slot]})"


def _number(value: float) -> str:
    """A number as short as a reader wants it, with a true minus sign."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-3):
        text = f"{value:.2g}"
    else:
        text = f"{value:.0f}" if size >= 100 or value == round(value) else f"{value:.3g}"
    return text.replace("-", "\N{MINUS SIGN}") if text != "-0" else "0"


def _percent(value: float, digits: int = 1) -> str:
    return "–" if not math.isfinite(value) else f"{100 * value:.{digits}f} %".replace("-", "\N{MINUS SIGN}")


def _short(text: object, length: int) -> str:
    text = str(text)
    return text if len(text) <= length else text[: max(1, length - 1)] + "…"
