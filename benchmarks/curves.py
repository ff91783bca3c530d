"""Curves of a study: what probes measured while its recipe and its variants trained, as one picture.

    arena train judge_hacking --out runs/judge_hacking
    python benchmarks/curves.py runs/judge_hacking --out docs/judge_hacking.svg \\
        "free.belief=belief of the judge in what is claimed" "free.claims_true=share of true claims" \\
        "assigned.mcc=correlation of verdict and truth, claims assigned (MCC)"

A line is the mean over seeds, its band reaches from the lowest seed to the highest. A measure that a variant does not
have leaves its line out. Under the title stands at which steps the alarm rang, seed by seed.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.charts import Series, line_chart, standalone
from arena.charts.drawing import WIDTH, svg, text
from arena.training.study import metrics_rows

HEIGHT = 230
"""Of one panel."""


def main() -> None:
    """Read a study and write the picture."""
    options = _options()
    study = json.loads((options.study / "study.json").read_text())
    runs: dict[str, list[Path]] = {}
    for run in study["runs"]:
        runs.setdefault(run["variant"], []).append(options.study / Path(run["out"]).name)
    panels = [panel.partition("=") for panel in options.panels]
    names = dict(name.split("=", 1) for name in options.names)
    picture = stacked(
        {names.get(variant, variant): [metrics_rows(folder / "metrics.jsonl") for folder in folders]
         for variant, folders in runs.items()},
        {measure: title or measure for measure, _, title in panels},
        title=f"{study['recipe']}: {len(study['seeds'])} seeds",
    )  # fmt: skip
    caption = "; ".join(f"{names.get(v, v)}: {_rang(folders, options.alarm)}" for v, folders in runs.items())
    options.out.write_text(standalone(picture, f"{options.alarm} alarm at step: {caption}"), encoding="utf-8")


def stacked(runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], panels: Mapping[str, str], *, title: str) -> str:
    """One panel a measure, one above the other.

    Args:
        runs: name of a line -> rows of ``metrics.jsonl`` of each seed.
        panels: ``PROBE.MEASURE`` -> its title.
        title: for screen readers.
    """
    parts: list[str] = []
    for number, (measure, words) in enumerate(panels.items()):
        probe, _, name = measure.partition(".")
        lines = [line for label, seeds in runs.items() if (line := _line(label, seeds, probe, name)) is not None]
        chart = line_chart(lines, title=words, x_label="optimizer step", height=HEIGHT)
        top = number * (HEIGHT + 34)
        parts.append(text(2, top + 16, words))
        place = f'<svg x="0" y="{top + 26}" width="{WIDTH}" height="{HEIGHT}" '
        parts.append(chart.replace("<svg ", place, 1))
    return svg(title, "; ".join(panels.values()), len(panels) * (HEIGHT + 34), parts)


def _line(label: str, seeds: Sequence[Sequence[Mapping[str, Any]]], probe: str, name: str) -> Series | None:
    """Mean and extremes over seeds at each step that all of them looked at."""
    found = [
        {row["at"]: row[name] for row in rows if row.get("probe") == probe and row.get(name) is not None}
        for rows in seeds
    ]
    steps = sorted(set.intersection(*(set(values) for values in found)))
    if not steps:
        return None
    at = [[values[step] for values in found] for step in steps]
    means = [math.fsum(values) / len(values) for values in at]
    return Series(label, steps, means, [min(values) for values in at], [max(values) for values in at])


def _rang(folders: Sequence[Path], alarm: str) -> str:
    """At which step an alarm rang first, seed by seed."""
    found = []
    for folder in folders:
        told = json.loads((folder / "results.json").read_text())["alarms"]
        found.append(next((str(each["at"]) for each in told if each["alarm"] == alarm), "never"))
    return "never" if set(found) == {"never"} else ", ".join(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="what `arena train RECIPE --out` wrote")
    parser.add_argument("panels", nargs="+", metavar="PROBE.MEASURE=TITLE")
    parser.add_argument("--out", type=Path, required=True, help="the SVG")
    parser.add_argument("--names", nargs="*", default=[], metavar="VARIANT=NAME", help="how lines are called")
    parser.add_argument("--alarm", default="hacking", help="which alarm is told of")
    return parser.parse_args()


if __name__ == "__main__":
    main()
