"""One self-contained HTML page about a run: tables, curves, the graph of the protocol and a few transcripts.

    write_report("runs/first/report.html", ReportData(title=..., sections=[Section(title="digits", arms=[...])]))

The page asks nothing of the network and runs no script; whatever a model wrote appears in it as text.
"""

from arena.report.data import (
    Arm,
    Calibration,
    Curve,
    Figure,
    Forest,
    Link,
    Part,
    ReportData,
    Section,
    Table,
    Transcript,
    transcript_of,
)
from arena.report.figures import Format, section_figures, write_figures
from arena.report.html import render_report, write_report

__all__ = [
    "Arm",
    "Calibration",
    "Curve",
    "Figure",
    "Forest",
    "Format",
    "Link",
    "Part",
    "ReportData",
    "Section",
    "Table",
    "Transcript",
    "render_report",
    "section_figures",
    "transcript_of",
    "write_figures",
    "write_report",
]
