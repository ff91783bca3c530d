"""The reliability diagram."""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena.charts.drawing import WIDTH, Plot, colour, empty, line, number, svg
from arena.charts.lines import axes
from arena.protocols.errors import ConfigError

__all__ = ["reliability_chart"]


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
        return empty(title)
    left = min(0.5, math.floor(min(confidence) * 10 + 1e-9) / 10)
    # A little room beyond 1 and below the least, so that dots there stay off the labels.
    plot = Plot(44, WIDTH - 14, 28, height - 44, left - 0.025, 1.025, 0.0, 1.05)
    parts = axes(plot, "stated confidence", "share right")
    dashed = "stroke:var(--ink,#222);stroke-dasharray:3 3"
    parts.append(line(plot.x(left), plot.y(left), plot.x(1), plot.y(1), style=dashed))
    for claimed, came_true, count in zip(confidence, accuracy, counts, strict=True):
        x, y = plot.x(claimed), plot.y(came_true)
        radius = 3 + 9 * math.sqrt(count / max(counts))
        gap = line(x, y, x, plot.y(claimed), style=f"stroke:{colour(1)};stroke-width:2")
        tip = f"<title>{count}: confidence {number(claimed)}, {number(came_true)} right</title>"
        style = f"fill:{colour(0)};fill-opacity:.8"
        parts.append(f'<g>{tip}{gap}<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" style="{style}"/></g>')
    bins = zip(confidence, accuracy, strict=True)
    told = "; ".join(f"{number(claimed)} claimed, {number(came_true)} right" for claimed, came_true in bins)
    return svg(title, told, height, parts)
