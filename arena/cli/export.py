"""``arena export``: stored episodes for other programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TextIO

import typer

from arena.protocols.errors import ConfigError

__all__ = ["command"]


def command(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="Run directory, or a database URL.")],
    stage: Annotated[
        str | None, typer.Option("--stage", help="Only this part of the run; a wrong name lists what there is.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write to this file instead of standard output.")
    ] = None,
) -> None:
    """Write every episode as one line of JSON (JSONL): turns, token ledger, quotes, verdicts."""
    from arena.store import Store

    with Store.open(folder, create=False) as store:
        run = store.run()
        stages = run.stages()
        if stage is not None and stage not in stages:
            raise ConfigError(f"{store.where} has no stage '{stage}'. There is: {', '.join(stages) or 'none'}.")
        if out is None:
            for line in run.lines(stage):
                sys.stdout.write(line + "\n")
        else:
            typer.echo(f"{_write(out, run.lines(stage))} episodes in {out}")


def _write(path: Path, lines: Iterator[str]) -> int:
    """Write the lines; how many there were."""
    from arena.whole_files import write_whole

    def write(stream: TextIO) -> int:
        count = 0
        for count, line in enumerate(lines, 1):  # noqa: B007 - the last count is the result
            stream.write(line + "\n")
        return count

    return write_whole(path, write)
