"""The HTML report of trained judges, made from what is in their run directories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.charts import Series
from arena.protocols.errors import StoreError
from arena.protocols.registry import parse_spec
from arena.report import Calibration, Curve, ReportData, Section, Table, write_report
from arena.statistics import Interval

__all__ = ["FIGURES", "judge_section", "write_judge_report"]

Plain = Mapping[str, Any]

FIGURES = {
    "accuracy": "accuracy",
    "log_loss": "log loss, nats",
    "brier": "Brier score",
    "ece": "calibration error (ECE)",
    "order_consistency": "same choice in every order",
}
"""Key of a measurement -> what it is called."""

_CURVES = {
    "loss": ("Loss", "nats"),
    "accuracy": ("Verdicts sampled in training that are right", ""),
    "agreement": ("Verdicts sampled in training that agree with those of the other order", ""),
    "kl_per_turn": ("KL to the start", "nats a verdict"),
}
"""Column of the log -> title and unit of its picture."""


def write_judge_report(path: Path, runs: Sequence[Path], *, title: str, created: str) -> Path:
    """One page about one or several trainings of a judge.

    Args:
        path: where to write it.
        runs: run directories, finished.
        title: of the page.
        created: date and time to show.

    Raises:
        StoreError: a directory does not hold a finished training of a judge.
    """
    sections, config = [], {}
    for run in runs:
        section, identity = judge_section(run)
        sections.append(section)
        config[run.name] = identity
    lead = (
        "A judge was trained and measured on held-out examples before and after, against the labels of the data. "
        "Intervals are 95 %, clustered by question."
    )
    return write_report(path, ReportData(title, lead, created, config=config, sections=sections))


def judge_section(folder: Path) -> tuple[Section, Plain]:
    """What there is to say about one run, and its configuration.

    Raises:
        StoreError: the directory does not hold a finished training of a judge.
    """
    try:
        identity = json.loads((folder / "config.json").read_text())
        results = json.loads((folder / "results.json").read_text())
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    except FileNotFoundError as error:
        raise StoreError(f"{folder} holds no finished training of a judge: {error.filename} is missing") from error
    section = Section(
        title=f"{results['recipe']}, seed {results['seed']}",
        lead=str(identity["recipe"]["summary"]),
        facts=_facts(identity["recipe"], results),
        tables=[_measures(results)],
        calibrations=[_calibration(results, part) for part in ("before", "after") if results[part]["reliability"]],
        curves=_curves(rows),
    )
    return section, identity


def _facts(recipe: Plain, results: Plain) -> dict[str, Any]:
    data, rise = results["data"], results["gain"]
    facts = {
        "judge": results["after"]["judge"],
        "data": str(parse_spec(recipe["data"])),
        "examples": f"{data['train']} to learn from, {data['held_out']} held out",
        "accuracy rose by": f"{rise['value']:+.3f} [{rise['low']:+.3f}, {rise['high']:+.3f}], paired by question",
        "seconds": round(results["seconds"], 1),
    }
    if (fitted := results["calibration"]) is not None:
        before, after = fitted["ece_before"]["value"], fitted["ece_after"]["value"]
        facts["calibrated"] = (
            f"on {fitted['examples']} examples kept back: temperature {fitted['temperature']:.3g}, lapse rate "
            f"{fitted['lapse']:.3f}; ECE {before:.3f} before, {after:.3f} after"
        )
    for number, row in enumerate(results["labels"], 1):
        lost = "".join(f", {count} {why}" for why, count in row["left_out"].items())
        right = "" if row["right"] is None else f", {row['right']:.1%} agree with the data"
        facts[f"labels, round {number}"] = f"by {row['by']}: {row['used']}{lost}{right}"
    return facts


def _measures(results: Plain) -> Table:
    columns = [part for part in ("before", "after", "teacher") if results[part] is not None]
    rows: list[list[Any]] = [
        [title, *(_interval(results[part][key]) for part in columns)] for key, title in FIGURES.items()
    ]
    rows.append(["undecidable", *(sum(results[part]["undecidable"].values()) for part in columns)])
    return Table("On held-out examples", ("", *columns), rows)


def _interval(row: Plain | None) -> Interval | None:
    return None if row is None or row["value"] is None else Interval(row["value"], row["low"], row["high"], row["n"])


def _calibration(results: Plain, part: str) -> Calibration:
    bins = results[part]["reliability"]
    return Calibration(
        f"Stated confidence and share right, {part} training",
        [each["confidence"] for each in bins],
        [each["accuracy"] for each in bins],
        [each["count"] for each in bins],
    )


def _curves(rows: Sequence[Plain]) -> list[Curve]:
    found = []
    for key, (title, unit) in _CURVES.items():
        steps = [row["step"] for row in rows if key in row]
        if len(steps) > 1:
            values = [row[key] for row in rows if key in row]
            found.append(Curve(title, [Series(key, steps, values)], y_label=unit))
    return found
