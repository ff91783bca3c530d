"""A recipe with seeds, variants and metrics: all its trainings, side by side, and one table."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from arena.cli.output import now, print_json, print_table
from arena.cli.progress import Progress
from arena.cli.workers import Job, run_jobs

if TYPE_CHECKING:
    from arena.training.recipe import Recipe

__all__ = ["run_study"]

_ALONE: Mapping[str, Any] = {"variants": {}, "metrics": {}}
"""What a training of a study has of its own: under its overrides the others need not be recipes at all."""


def run_study(
    recipe: Recipe,
    source: str,
    overrides: Sequence[str],
    folder: Path,
    seeds: Sequence[int],
    *,
    options: Sequence[str],
    jobs: int | None,
    as_json: bool,
) -> None:
    """Train a recipe and its variants with all seeds, each in a process of its own, and print its metrics.

    Args:
        recipe: loaded.
        source: what the user called it.
        overrides: of the user, for all trainings.
        folder: one folder a training goes into it.
        seeds: to train with.
        options: of each training, such as ``--resume``.
        jobs: most at once.
        as_json: print JSON on one line, the last of standard output.

    Raises:
        StoreError: the folder holds a study already, and ``options`` do not go on with it.
    """
    from arena.training.study import MAIN, runs_of, study_metrics
    from arena.training.study_folder import begin_study, finish_study
    from arena.training.study_reporting import write_study_report

    runs = runs_of(seeds, recipe.variants)
    trainings = [{"variant": run.variant, "seed": run.seed, "out": str(folder / run.name)} for run in runs]
    begun = {
        "recipe": recipe.recipe,
        "summary": recipe.summary,
        "source": source,
        "overrides": list(overrides),
        "seeds": list(seeds),
        "variants": recipe.variants,
        "definitions": recipe.metrics,
        "runs": trainings,
    }
    begin_study(folder, begun, resume="--resume" in options)
    started = time.perf_counter()
    work = [
        Job(
            run.name,
            [
                source,
                *overrides,
                *_assignments({**run.overrides, **_ALONE}),
                "--alone",
                "--seed",
                str(run.seed),
                *options,
            ],
            folder / run.name,
        )
        for run in runs
    ]
    with Progress([run.name for run in runs], quiet=as_json) as progress:
        results = run_jobs(work, at_once=jobs or _cores(recipe.threads), on_event=progress.on_event)
    metrics = study_metrics(recipe.metrics, seeds, {job.name: job.folder for job in work})
    seconds = [sum(results[run.name]["seconds"]["total"] for run in runs if run.seed == seed) for seed in seeds]
    plain = {
        "recipe": recipe.recipe,
        "seeds": list(seeds),
        "metrics": metrics,
        "seconds": seconds,
        "elapsed": time.perf_counter() - started,
        "runs": trainings,
        "main": MAIN,
    }
    finish_study(folder, plain)
    page = write_study_report(folder / "report.html", folder, created=now())
    if as_json:
        print_json(plain, indent=None)
        return
    _print(recipe.recipe, seeds, metrics, seconds)
    typer.echo(f"\n{len(runs)} trainings in {folder}, {plain['elapsed']:.0f} s in all\nreport: {page}")


def _assignments(overrides: Mapping[str, Any]) -> list[str]:
    """As the command line takes them: values in flow style, which YAML reads."""
    return [f"{key}={json.dumps(value)}" for key, value in overrides.items()]


def _cores(threads: int) -> int:
    return max(1, len(os.sched_getaffinity(0)) // threads) if hasattr(os, "sched_getaffinity") else 1


def _print(
    name: str, seeds: Sequence[int], metrics: Mapping[str, Sequence[float | None]], seconds: Sequence[float]
) -> None:
    typer.echo(f"\n{name}")
    headers = ["metric", *(f"seed {seed}" for seed in seeds)]
    rows = [(metric, *map(_shown, values)) for metric, values in metrics.items()]
    rows.append(("seconds", *(f"{value:.0f}" for value in seconds)))
    print_table(headers, rows, right=headers[1:])


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
