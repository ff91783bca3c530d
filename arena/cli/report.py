"""``arena report``: a run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.output import now

__all__ = ["command"]


def command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Run directory of a run, tournament, training, audit or demo.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; DIR/report.html if absent.")] = None,
) -> None:
    """Write one self-contained HTML page: tables with intervals, curves, the graph, transcripts."""
    path = out or folder / "report.html"
    games = sorted(inside.parent for inside in folder.glob("*/results.json"))
    kind = _kind(games[0] if games else folder)
    if kind == "audit":
        from arena.audit import report_audit

        written = report_audit(folder, path, created=now())
    elif kind == "train-judge":
        from arena.training.judge_reporting import write_judge_report

        written = write_judge_report(path, games or [folder], title=folder.name, created=now())
    elif kind == "train":
        from arena.training.reporting import write_combined_report

        written = write_combined_report(path, games or [folder], title=folder.name, created=now())
    else:
        from arena.reporting import report_run

        written = report_run(folder, path, created=now())
    typer.echo(str(written))


def _kind(folder: Path) -> str:
    from arena.store import Store

    with Store.open(folder, create=False) as store:
        return store.run().kind
