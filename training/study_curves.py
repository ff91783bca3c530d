"""What the trainings of a study measured over their steps, as figures: one line a variant, its seeds as thin lines."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from arena.charts import Series
from arena.report import Curve, Figure, Part
from arena.report.figures import curve_figure
from arena.training.reporting import running_mean
from arena.training.study import metrics_rows
from arena.training.study_folder import Study

__all__ = ["Course", "Measured", "measured_by", "probe_parts", "steps_of", "training_part"]

Course = Mapping[int, float]
"""Optimizer step, counted over all generations -> value."""
Measured = Mapping[str, Mapping[str, Course]]
"""Probe, or empty for the rows of self-play -> measure -> course."""

_REWARDS = 6
"""Roles whose rewards are drawn."""
_POINTS = 200
"""Of one line; more cannot be told apart."""
_TRAINING = {
    "belief": "Belief of the judge in what is claimed",
    "claims_true": "Share of claims that are true",
    "accuracy": "Share of verdicts that are right",
    "bad_quotes": "Share of turns with a bad quote",
}
"""Measure of the rows of self-play -> what it is called."""
_PLACE = ("at", "step", "of", "generation")
"""Numbers of a row that say when it was, and measure nothing."""


def measured_by(folder: Path) -> Measured:
    """All that a training measured, by optimizer step."""
    found: dict[str, dict[str, dict[int, float]]] = {"": {}}
    for row in metrics_rows(folder / "metrics.jsonl"):
        if row.get("phase") == "probe":
            measures, step = found.setdefault(row["probe"], {}), row["at"]
        elif row.get("phase") == "self-play":
            measures, step = found[""], (row["generation"] - 1) * row["of"] + row["step"]
        else:
            continue
        for name, value in row.items():
            if name not in _PLACE and isinstance(value, int | float):
                measures.setdefault(name, {})[step] = float(value)
    return found


def steps_of(found: Measured) -> int:
    """The last step at which anything was measured."""
    return max((step for measures in found.values() for course in measures.values() for step in course), default=0)


def probe_parts(study: Study, measured: Mapping[str, Measured]) -> list[Part]:
    """One part a probe, one figure a measure.

    Args:
        study: finished.
        measured: name of a run -> what it measured.
    """
    names = dict.fromkeys(probe for found in measured.values() for probe in found if probe)
    parts = []
    for probe in names:
        measures = dict.fromkeys(name for found in measured.values() for name in found.get(probe, ()))
        figures = [
            _figure(f"{probe}.{measure}", f"{probe}.{measure}", _lines(study, measured, probe, measure))
            for measure in measures
        ]
        parts.append(Part(f"Probe {probe}", figures=figures))
    if parts:
        parts[0] = replace(parts[0], lead=_lines_told(study))
    return parts


def training_part(study: Study, measured: Mapping[str, Measured]) -> Part | None:
    """KL, rewards and what the judge made of the episodes, as training itself saw them; None where there is nothing."""
    names = list(dict.fromkeys(name for found in measured.values() for name in found[""]))
    kl = {name: _kl_title(name) for name in names if name.rpartition("/")[2] == "kl_per_turn"}
    roles = [name for name in names if name.startswith("reward/")] or [name for name in names if name == "reward"]
    rewards = {name: f"Reward {name.partition('/')[2]}".strip() for name in roles[:_REWARDS]}
    steps = max(map(steps_of, measured.values()))
    fine, coarse = steps // 100 | 1, max(9, steps // 30 | 1)
    figures = [_figure(f"train.{name}", title, _lines(study, measured, "", name, fine)) for name, title in kl.items()]
    for name, title in {**rewards, **_TRAINING}.items():
        lines = _lines(study, measured, "", name, coarse)
        if _has_value(lines):
            figures.append(_figure(f"train.{name}", title, lines))
    if not figures:
        return None
    cut = f" The first {_REWARDS} of {len(roles)} roles." * (len(roles) > _REWARDS)
    exact = "as measured" if fine == 1 else f"one over {fine}"
    note = (
        f"What training itself saw. Rewards and shares are running means over {coarse} steps, the KL is {exact}.{cut}"
    )
    return Part("Training", figures=figures, note=note)


def _kl_title(name: str) -> str:
    policy = name.rpartition("/")[0]
    return f"KL to the reference{f' of {policy}' if policy else ''}, nats a turn"


def _lines_told(study: Study) -> str:
    if len(study.seeds) == 1:
        return "One line a variant."
    return (
        "A line is the mean of a variant over its seeds, at steps where all of them have a value; thin lines are "
        "single seeds."
    )


def _figure(name: str, title: str, lines: Sequence[Series]) -> Figure:
    span = None if _has_value(lines) else (0.0, 1.0)
    return replace(curve_figure(Curve(title, lines, x_label="optimizer step", y_range=span)), name=name)


def _has_value(lines: Sequence[Series]) -> bool:
    """Whether anything but 0 is drawn; a mean may have no point where its seeds have some."""
    return any(value for line in lines for drawn in (line.y, *(y for _, y in line.courses)) for value in drawn)


def _lines(study: Study, measured: Mapping[str, Measured], probe: str, measure: str, width: int = 1) -> list[Series]:
    """One line a variant that has the measure, smoothed over ``width`` steps."""
    lines = []
    for variant in study.variants:
        runs = [run for run in study.runs if run.variant == variant]
        courses = [_course(measured[run.name], probe, measure, width) for run in runs]
        if any(courses):
            lines.append(_line(variant, courses))
    return lines


def _course(found: Measured, probe: str, measure: str, width: int) -> Course:
    course = found.get(probe, {}).get(measure, {})
    return dict(zip(course, running_mean(list(course.values()), width), strict=True))


def _line(name: str, courses: Sequence[Course]) -> Series:
    """The mean where every seed has a value, and the seeds."""
    shared = sorted(set.intersection(*(set(course) for course in courses)))
    steps = _thinned(shared)
    means = [statistics.fmean(course[step] for course in courses) for step in steps]
    single = [(kept, [course[step] for step in kept]) for course in courses if (kept := _thinned(sorted(course)))]
    return Series(name, steps, means, courses=single if len(courses) > 1 else ())


def _thinned(steps: Sequence[int]) -> list[int]:
    """At most about `_POINTS` of them, the last among them."""
    every = math.ceil(len(steps) / _POINTS)
    return [*steps[: -1 : every or 1], *steps[-1:]]
