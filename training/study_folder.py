"""A study in its folder: ``study.json`` beside one run directory a training.

It is written when the trainings begin, so that a study that was killed can be told from one that is finished, and again
with metrics when all of them have ended.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from arena.protocols.errors import StoreError
from arena.training.study import MAIN, Run
from arena.whole_files import write_whole

__all__ = ["FILE", "Study", "begin_study", "finish_study", "is_study", "read_study"]

FILE = "study.json"

Plain = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Study:
    """A finished study."""

    folder: Path
    recipe: str
    summary: str
    """Of the recipe; empty where an earlier version wrote the study."""
    seeds: Sequence[int]
    runs: Sequence[Run]
    """In the order of training."""
    metrics: Mapping[str, Sequence[float | None]]
    """Metric -> one value a seed."""
    definitions: Mapping[str, str]
    """Metric -> what it was computed by; empty as ``summary``."""
    seconds: Sequence[float]
    """Of all trainings of a seed together."""
    elapsed: float
    """Seconds by the clock."""

    @property
    def variants(self) -> list[str]:
        """Their names, the recipe as it stands first."""
        return list(dict.fromkeys(run.variant for run in self.runs))

    def place(self, run: Run) -> Path:
        """Directory of a training."""
        return self.folder / run.name


def is_study(where: str | Path) -> bool:
    """Whether a directory holds a study, finished or not."""
    return (Path(where) / FILE).is_file()


def begin_study(folder: Path, plain: Plain, *, resume: bool) -> None:
    """Write down what will be trained.

    Args:
        folder: of the study; made if it is missing.
        plain: ``recipe``, ``seeds``, ``runs``; with ``summary``, ``variants``, ``definitions``, and ``source`` and
            ``overrides`` as the user gave them.
        resume: go on with the study that is there, if any.

    Raises:
        StoreError: there is one and ``resume`` is False.
    """
    if is_study(folder) and not resume:
        raise StoreError(
            f"{folder} already holds a study: go on with it by --resume, or choose another directory by --out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder, plain)


def finish_study(folder: Path, results: Plain) -> None:
    """Add what came of it: ``metrics``, ``seconds``, ``elapsed``."""
    _write(folder, {**_read(folder), **results})


def read_study(folder: Path) -> Study:
    """The study in a directory.

    Raises:
        StoreError: it is not finished, with the trainings that are missing and how to go on; or it cannot be read.
    """
    plain = _read(folder)
    try:
        variants = plain.get("variants", {})
        runs = [Run(row["variant"], row["seed"], variants.get(row["variant"], {})) for row in plain["runs"]]
        missing = [run for run in runs if not (folder / run.name / "results.json").is_file()]
        if missing or "metrics" not in plain:
            raise StoreError(_unfinished(folder, plain, runs, missing))
        return Study(
            folder,
            plain["recipe"],
            plain.get("summary", ""),
            plain["seeds"],
            runs,
            plain["metrics"],
            plain.get("definitions", {}),
            plain["seconds"],
            plain["elapsed"],
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"{folder / FILE} is not what `arena train` writes: {error!r}") from error


def _unfinished(folder: Path, plain: Plain, runs: Sequence[Run], missing: Sequence[Run]) -> str:
    what = f"of {len(runs)} trainings {len(missing)} without results" if missing else "its metrics are missing"
    told = [f"{folder} holds a study that is not finished, or still running: {what}"]
    told += [f"  {run.name}: {_state(folder, run)}" for run in missing]
    words = ["arena", "train", plain.get("source", plain["recipe"]), *plain.get("overrides", ())]
    words += ["--seeds", ",".join(map(str, plain["seeds"])), "--resume", "--out", str(folder)]
    told.append(f"go on with it by {shlex.join(words)}")
    if done := [run.name for run in runs if run not in missing]:
        told.append(f"each training that is finished has a page of its own: arena report {folder / done[0]}")
    return "\n".join(told)


def _state(folder: Path, run: Run) -> str:
    """What is known of a training without results."""
    log = folder / f"{run.name}.log"
    if not log.is_file():
        return "not begun"
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"not finished; {log} ends with: {lines[-1].strip()}" if lines else "not finished"


def _read(folder: Path) -> dict[str, Any]:
    path = folder / FILE
    try:
        plain = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StoreError(f"{folder} holds no study: there is no {FILE} in it") from error
    except ValueError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    if not isinstance(plain, dict):
        raise StoreError(f"{path} is not what `arena train` writes: it holds no mapping")
    return plain


def _write(folder: Path, plain: Plain) -> None:
    def write(stream: TextIO) -> None:
        stream.write(json.dumps({**plain, "main": MAIN}, indent=2, allow_nan=False) + "\n")

    write_whole(folder / FILE, write)
