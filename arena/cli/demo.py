"""``arena demo``: the main job, on games that train in a minute or two on a CPU.

Each game is an ordinary ``arena train RECIPE`` in a process of its own, on one thread: two games use two cores.
"""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.output import AsJson, new_folder, now, print_json
from arena.cli.progress import Progress, print_outcome
from arena.cli.workers import Job, run_jobs
from arena.protocols.errors import ConfigError

__all__ = ["command"]


class Game(StrEnum):
    """Which games to play."""

    DIGITS = "digits"
    FACTS = "facts"
    BOTH = "both"


def command(
    seed: Annotated[int, typer.Option(help="Root of all random streams.")] = 0,
    game: Annotated[Game, typer.Option(help="Which games to train on.")] = Game.BOTH,
    control: Annotated[
        bool, typer.Option("--control", help="For facts, train again with shuffled advantages: nothing may be learned.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Run directory; a new one in arena-runs/ if absent.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the demo that is in --out.")] = False,
    json_: AsJson = False,
) -> None:
    """Train debaters by self-play against trained judges, rate their generations, and show what debate is worth."""
    games = ["digits", "facts"] if game is Game.BOTH else [game.value]
    if control and "facts" not in games:
        raise ConfigError("--control is the control of 'facts': use it with --game facts or both")
    if resume and out is None:
        raise ConfigError("--resume needs --out DIR: the demo to go on with")
    folder = out or new_folder("demo")
    if not resume and folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"--out {folder}: the directory is not empty; go on with --resume, or choose another")
    started = time.perf_counter()
    with Progress(games, quiet=json_) as progress:
        options = {name: _options(name, control=control, resume=resume) for name in games}
        results = _play(games, seed, folder, options, progress)
    plain: dict[str, Any] = {**results, "seed": seed, "seconds": time.perf_counter() - started}
    report = _report(folder, games, seed)
    plain["report"] = str(report)
    if json_:
        print_json(plain)
        return
    for name in games:
        print_outcome(name, results[name])
    typer.echo(f"\nseed {seed}, {plain['seconds']:.0f} s in all\nreport: {report}")


def _options(name: str, *, control: bool, resume: bool) -> list[str]:
    return ["--control"] * (control and name == "facts") + ["--resume"] * resume


def _play(
    games: list[str], seed: int, folder: Path, options: dict[str, list[str]], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Train all games side by side."""
    jobs = [Job(name, [name, "--alone", "--seed", str(seed), *options[name]], folder / name) for name in games]
    return run_jobs(jobs, at_once=len(jobs), on_event=progress.on_event)


def _report(folder: Path, games: list[str], seed: int) -> Path:
    from arena.training.reporting import write_combined_report

    return write_combined_report(
        folder / "report.html", [folder / name for name in games], title=f"Demo, seed {seed}", created=now()
    )
