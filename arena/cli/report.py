"""``arena report``: a run as one HTML page, and its pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from arena.cli.output import now

if TYPE_CHECKING:
    from arena.report import Section

__all__ = ["command"]


def command(
    folder: Annotated[
        str,
        typer.Argument(metavar="DIR", help="Directory of a run, tournament, training, study, audit or demo; or a URL."),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write; DIR/report.html if absent.")] = None,
    figures: Annotated[
        Path | None, typer.Option("--figures", metavar="DIR", help="Also write every picture into this directory.")
    ] = None,
    form: Annotated[
        Literal["svg", "png"] | None, typer.Option("--format", help="Of the pictures.  [default: svg]")
    ] = None,
) -> None:
    """Write one self-contained HTML page: tables with intervals, curves, the graph, transcripts."""
    from arena.protocols.errors import ConfigError

    if form is not None and figures is None:
        raise ConfigError("--format is of the pictures: say where they go by --figures DIR")
    typer.echo(str(_page(folder, _target(folder, out))))
    if figures is not None:
        from arena.report import write_figures

        for path in write_figures(figures, _sections(folder), form or "svg"):
            typer.echo(str(path))


def _target(where: str, out: Path | None) -> Path:
    from arena.protocols.errors import ConfigError
    from arena.store import is_url

    if out is None and is_url(where):
        raise ConfigError("a database has no place for a page: say where it goes by --out FILE")
    return out or Path(where) / "report.html"


def _page(where: str, path: Path) -> Path:
    """Write the page."""
    kind, games = _kind(where)
    if kind == "audit":
        from arena.audit import report_audit

        return report_audit(Path(where), path, created=now())
    if kind == "study":
        from arena.training.study_reporting import write_study_report

        return write_study_report(path, Path(where), created=now())
    if kind == "train-judge":
        from arena.training.judge_reporting import write_judge_report

        return write_judge_report(path, games, title=Path(where).name, created=now())
    if kind == "train":
        from arena.training.reporting import write_combined_report

        return write_combined_report(path, games, title=Path(where).name, created=now())
    from arena.reporting import report_run

    return report_run(where, path, created=now())


def _sections(where: str) -> list[Section]:
    """What the page shows, for its pictures."""
    from arena.store import Store

    kind, games = _kind(where)
    if kind == "train-judge":
        from arena.training.judge_reporting import judge_section

        return [judge_section(game)[0] for game in games]
    if kind == "train":
        from arena.training.reporting import training_section

        return [training_section(game)[0] for game in games]
    if kind == "study":
        from arena.training.study_folder import read_study
        from arena.training.study_reporting import study_section

        return [study_section(read_study(Path(where)), Path(where))]
    with Store.open(where, create=False) as store:
        if kind == "audit":
            from arena.audit.report import audit_section

            rows = store.run().series("audit")
            return [audit_section(rows[max(rows)])]
        from arena.reporting import run_section

        return [run_section(store.run())]


def _kind(where: str) -> tuple[str, list[Path]]:
    """What is stored there, and the directories of the trainings among which a demo is spread."""
    from arena.store import Store, is_url
    from arena.training.study_folder import is_study

    if not is_url(where) and is_study(where):
        return "study", []
    games = [] if is_url(where) else sorted(inside.parent for inside in Path(where).glob("*/results.json"))
    with Store.open(games[0] if games else where, create=False) as store:
        return store.run().kind, games or ([] if is_url(where) else [Path(where)])
