"""Small charts as SVG: lines, intervals, bars, maps, dots, sequential tests and cycles; and pictures as files.

Each drawing function returns one ``<svg>`` element that scales to the width of its place, has a title and a description
for screen readers, takes its colours from CSS variables (``--ink``, ``--soft``, ``--line``, ``--c1`` ... ``--c6``; the
fallbacks suit a white page), and holds no script. Labels may be hostile: they are escaped, and control characters are
shown as ``[U+202E]``. `standalone` and `png` make a file of such an element that needs no page around it.
"""

from arena.charts.cycles import Cycle, cycle_chart
from arena.charts.dots import reliability_chart
from arena.charts.drawing import is_hidden, nice_ticks, number, plain, short
from arena.charts.files import png, standalone
from arena.charts.lines import Series, line_chart
from arena.charts.maps import heat_map
from arena.charts.rows import Bar, bar_chart, grouped_plot, interval_plot
from arena.charts.sequential import Trace, sprt_chart

__all__ = [
    "Bar",
    "Cycle",
    "Series",
    "Trace",
    "bar_chart",
    "cycle_chart",
    "grouped_plot",
    "heat_map",
    "interval_plot",
    "is_hidden",
    "line_chart",
    "nice_ticks",
    "number",
    "plain",
    "png",
    "reliability_chart",
    "short",
    "sprt_chart",
    "standalone",
]
