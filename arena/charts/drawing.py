"""What all charts are drawn with: colours, numbers, texts, lines, axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from unicodedata import combining, east_asian_width

__all__ = [
    "CHARACTER",
    "FAMILIES",
    "WIDTH",
    "Plot",
    "across",
    "arrow",
    "colour",
    "dash",
    "empty",
    "is_hidden",
    "legend",
    "line",
    "nice_ticks",
    "number",
    "percentage",
    "plain",
    "short",
    "span",
    "svg",
    "text",
    "tick_labels",
    "without_prefix",
]

WIDTH = 460
"""Units of every picture from left to right."""
CHARACTER = 7.7
"""Average width of a character at 13 units, on the safe side."""
FAMILIES = "'Helvetica Neue',Helvetica,Arial,'Liberation Sans','DejaVu Sans',sans-serif"
"""Fonts outside of a page, the first that there is."""

_COLOURS = ("#1d6a86", "#c0703a", "#6d7b3a", "#87527c", "#5b6470", "#b3922f")
_DASHES = ("", "7 3", "2 3", "8 3 2 3")


@dataclass(frozen=True, slots=True)
class Plot:
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
        """Where a value stands across."""
        return self.left + (value - self.x0) / (self.x1 - self.x0) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Where a value stands, held inside of the axis."""
        inside = min(max(value, self.y0), self.y1)
        return self.bottom - (inside - self.y0) / (self.y1 - self.y0) * (self.bottom - self.top)


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


def plain(words: object) -> str:
    """Text for SVG: escaped, hidden characters shown as ``[U+202E]``."""
    return escape("".join(f"[U+{ord(c):04X}]" if is_hidden(c) else c for c in str(words)))


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


def span(low: float, high: float, pad: float) -> tuple[float, float]:
    """Ends of an axis that shows values from ``low`` to ``high`` with a share ``pad`` of room beside them."""
    if high - low < 1e-12 * max(1.0, abs(high)):
        room = abs(high) * 0.1 or 0.5
        return low - room, high + room
    room = (high - low) * pad
    # Data that start at or near 0 show it.
    return (0.0 if pad and 0 <= low <= high / 4 else low - room), (high if high == 0 else high + room)


def svg(title: str, description: str, height: float, parts: Sequence[str]) -> str:
    """The whole element."""
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH} {height:.0f}" xmlns="http://www.w3.org/2000/svg" '
        f'style="font-family:var(--sans,{FAMILIES});font-size:13px;font-variant-numeric:tabular-nums" '
        f'aria-label="{plain(title)}"><title>{plain(title)}</title><desc>{plain(description)}</desc>{"".join(parts)}</svg>'
    )


def empty(title: str) -> str:
    """The picture of nothing."""
    return svg(title, "no data", 60, [text(WIDTH / 2, 34, "no data", "middle", soft=True)])


def text(
    x: float,
    y: float,
    words: str,
    anchor: str = "start",
    *,
    soft: bool = False,
    small: bool = False,
    rim: bool = False,
    transform: str = "",
) -> str:
    """A label; ``rim`` gives it an edge of paper that keeps it readable over lines."""
    style = "fill:var(--soft,#667)" if soft else "fill:var(--ink,#222)"
    style += ";font-size:10.5px" if small else ""
    style += ";stroke:var(--paper,#fff);stroke-width:4;stroke-linejoin:round;paint-order:stroke" if rim else ""
    turned = f' transform="{transform}"' if transform else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" style="{style}"{turned}>{plain(words)}</text>'


def line(x0: float, y0: float, x1: float, y1: float, style: str = "stroke:var(--line,#ddd)") -> str:
    """A straight line."""
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" style="{style}"/>'


def arrow(x: float, y: float, angle: float, fill: str, size: float = 6.0) -> str:
    """A head whose tip is at (x, y), pointing along ``angle`` (radians, 0 is right, pi/2 is down)."""
    wings = [(x - size * math.cos(angle + turn), y - size * math.sin(angle + turn)) for turn in (0.5, -0.5)]
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in [(x, y), *wings])
    return f'<polygon points="{points}" style="fill:{fill}"/>'


def legend(names: Sequence[str]) -> tuple[list[str], float]:
    """Names beside a stroke of their colour, in as many lines as they need; and the height they take.

    Nothing for a single name: what it is stands in the caption.
    """
    if len(names) < 2:
        return [], 0.0
    parts, x, y = [], 2.0, 12.0
    for index, name in enumerate(names):
        shown = short(name, 40)
        width = 34 + CHARACTER * across(shown)
        if x > 2 and x + width > WIDTH:
            x, y = 2.0, y + 18
        style = f"stroke:{colour(index)};stroke-width:2.4;stroke-dasharray:{dash(index)}"
        parts += [line(x, y - 4, x + 16, y - 4, style=style), text(x + 21, y, shown)]
        x += width
    return parts, y + 6


def colour(index: int) -> str:
    """Colour of a series, as CSS."""
    slot = index % len(_COLOURS)
    return f"var(--c{slot + 1},{_COLOURS[slot]})"


def dash(index: int) -> str:
    """Dashes of a series: every round of colours has others."""
    return _DASHES[index // len(_COLOURS) % len(_DASHES)] or "none"


def number(value: float, signed: bool = False) -> str:
    """A number as short as a reader wants it, with a true minus sign; ``signed`` with a plus too."""
    if not math.isfinite(value):
        return "–"
    size = abs(value)
    if size and (size >= 1e6 or size < 1e-3):
        shown = f"{value:.2g}"
    else:
        shown = f"{value:.0f}" if size >= 100 or value == round(value) else f"{value:.3g}"
    if shown == "-0":
        return "0"
    return ("+" if signed and value > 0 else "") + shown.replace("-", "\N{MINUS SIGN}")


def tick_labels(ticks: Sequence[float], percent: bool = False) -> list[str]:
    """What stands at the ticks of an axis: as many decimals as tell them apart exactly, 0.625 as 0.625."""
    scaled = [100 * tick if percent else tick for tick in ticks]
    if max(map(abs, scaled), default=0.0) >= 1e6:
        shown = [number(value) for value in scaled]
    else:
        decimals = next((d for d in range(8) if all(abs(round(v, d) - v) < 1e-9 for v in scaled)), 8)
        exact = [f"{value:.{decimals}f}" for value in scaled]
        shown = [each.rstrip("0").rstrip(".") if "." in each else each for each in exact]
    return [each.replace("-", "\N{MINUS SIGN}") + (" %" if percent else "") for each in shown]


def percentage(value: float, digits: int = 1) -> str:
    """A share in per cent."""
    return "–" if not math.isfinite(value) else f"{100 * value:.{digits}f} %".replace("-", "\N{MINUS SIGN}")


def across(words: object) -> int:
    """Columns that a text takes: wide characters two, marks that combine none, ``[U+202E]`` eight."""
    return sum(8 if is_hidden(c) else 0 if combining(c) else 1 + (east_asian_width(c) in "WF") for c in str(words))


def short(words: object, length: int) -> str:
    """At most ``length`` columns of a text."""
    shown = str(words)
    if across(shown) <= length:
        return shown
    kept, room = "", max(1, length - 1)
    for character in shown:
        room -= across(character)
        if room < 0 and kept:
            break
        kept += character
    return kept + "…"


def without_prefix(names: Sequence[str]) -> list[str]:
    """``debater@g0, debater@g1`` -> ``g0, g1``: what all names share, up to a sign, only takes room."""
    first, last = min(names), max(names)  # what these two share, all share
    differ = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    cut = max(first.rfind(sign, 0, differ) for sign in "@/:-_ ") + 1
    return [name[cut:] for name in names]
