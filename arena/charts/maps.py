"""A number for each pair, as a map; with a share for each row beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena.charts.drawing import CHARACTER, WIDTH, across, colour, percentage, plain, short, svg, text, without_prefix

__all__ = ["heat_map"]

_SHARES = 124.0  # width of the column of shares
_LEAST = 14.0  # height of a row that a name fits into


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    *,
    title: str,
    counts: Sequence[Sequence[int]] | None = None,
    middle: float = 0.5,
    reach: float = 0.5,
    shares: Sequence[float] | None = None,
    shares_label: str = "",
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
        shares: [rows] a share of 1 for each row, drawn as a bar at its end.
        shares_label: above the bars.
    """
    beside = 0.0 if shares is None else _SHARES
    labels = min(150.0, 12 + CHARACTER * max((across(name) for name in rows), default=0))
    room = WIDTH - labels - 4 - beside
    cell = min(64.0, room / max(1, len(columns)))
    heads = [str(name) for name in columns]
    if any(across(name) * CHARACTER > cell - 4 for name in heads):
        heads = without_prefix(heads)
    longest = min(18, max((across(name) for name in heads), default=0))
    slanted = longest * CHARACTER > cell - 4
    head = 26.0
    if slanted:  # names at 45 degrees reach up and, the last one, beyond the last column
        head = 16 + 0.71 * CHARACTER * longest
        overhang = max(0.0, head - 16 - cell / 2 - beside)
        cell = min(64.0, (room - overhang) / max(1, len(columns)))
    tall = max(_LEAST, min(40.0, cell))
    every = math.ceil(_LEAST / cell)  # where columns are narrower than a name is high, not each can have one
    parts = [_head(name, labels + (j + 0.5) * cell, head, slanted) for j, name in enumerate(heads) if j % every == 0]
    for i, row in enumerate(rows):
        y = head + i * tall
        parts.append(text(labels - 8, y + tall / 2 + 4.5, short(row, int(labels / CHARACTER)), "end", soft=True))
        for j, column in enumerate(columns):
            value = float(values[i][j])
            told = f"{plain(row)} – {plain(column)}"
            count = "" if counts is None else f", n={counts[i][j]}"
            parts.append(_cell(told, count, value, (labels + j * cell, y, cell, tall), (value - middle) / reach))
    if shares is not None:
        left = labels + len(columns) * cell + 14
        parts += _shares(rows, shares, shares_label, (left, head, tall))
    told = f"{len(rows)} rows, {len(columns)} columns; mean score of the row against the column"
    return svg(title, told, head + tall * len(rows) + 6, parts)


def _head(name: str, x: float, head: float, slanted: bool) -> str:
    if not slanted:
        return text(x, head - 9, name, "middle", soft=True)
    turn = f"rotate(-45 {x + 4:.1f} {head - 6:.1f})"
    return text(x + 4, head - 6, short(name, 18), soft=True, transform=turn)


def _cell(told: str, count: str, value: float, place: tuple[float, float, float, float], off: float) -> str:
    x, y, cell, tall = place
    strength = 0.0 if math.isnan(value) else min(1.0, abs(off)) * 0.7
    fill = f"fill:{colour(0 if off >= 0 else 1)};fill-opacity:{strength:.2f}"
    box = f'x="{x + 1:.1f}" y="{y + 1:.1f}" width="{cell - 2:.1f}" height="{tall - 2:.1f}" rx="2"'
    shown = "–" if math.isnan(value) else f"{value:.2f}".removeprefix("0") if cell < 40 else f"{value:.2f}"
    # Below that no number can be read; it is still there on hover.
    number = text(x + cell / 2, y + tall / 2 + 4.5, shown, "middle", small=cell < 34) if cell >= 22 else ""
    return (
        f"<g><title>{told}: {shown}{count}</title>"
        f'<rect {box} style="{fill};stroke:var(--line,#ddd);stroke-width:.5"/>{number}</g>'
    )


def _shares(rows: Sequence[str], shares: Sequence[float], label: str, place: tuple[float, float, float]) -> list[str]:
    left, top, tall = place
    right = left + _SHARES - 16
    parts = [text(right, top - 9, label, "end", soft=True)] if label else []
    for i, (row, share) in enumerate(zip(rows, shares, strict=True)):
        if not math.isfinite(share):
            continue
        middle = top + (i + 0.5) * tall
        width = (_SHARES - 16 - 46) * min(1.0, max(0.0, share))  # 46 for "100 %"
        box = f'x="{left:.1f}" y="{middle - 5:.1f}" width="{width:.1f}" height="10" rx="1"'
        parts.append(
            f"<g><title>{plain(row)}: {percentage(share)}</title>"
            f'<rect {box} style="fill:{colour(0)};fill-opacity:.75"/>'
            f"{text(right, middle + 4.5, percentage(share, 0), 'end', small=tall < 20)}</g>"
        )
    return parts
