"""The HTML report of a study: metrics over seeds, what was measured over steps, alarms, and links to its trainings."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.charts import number
from arena.report import Link, Part, ReportData, Section, Table, write_report
from arena.training.study import MAIN, Run
from arena.training.study_curves import measured_by, probe_parts, steps_of, training_part
from arena.training.study_folder import Study, read_study

__all__ = ["study_section", "write_study_report"]

Plain = Mapping[str, Any]
_MOST_ALARMS = 200
"""Rows of the table of alarms."""
_FEW = 10
"""Seeds; with fewer of them the page says how little they tell."""


def write_study_report(path: Path, folder: Path, *, created: str) -> Path:
    """One page about a study.

    Args:
        path: where to write it; links to the pages of its trainings are seen from there.
        folder: of the study.
        created: date and time to show.

    Raises:
        StoreError: the study is not finished, with what is missing; or the page cannot be written.
    """
    study = read_study(folder)
    identity = json.loads((study.place(study.runs[0]) / "config.json").read_text(encoding="utf-8"))
    lead = study.summary or str(identity["recipe"]["summary"])
    lead = f"{lead[:1].upper()}{lead[1:]}." if lead else ""
    section = study_section(study, path.parent)
    return write_report(path, ReportData(study.recipe, lead, created, config=identity, sections=[section]))


def study_section(study: Study, beside: Path) -> Section:
    """What there is to say about a study.

    Args:
        study: finished.
        beside: folder from which its trainings are linked to.
    """
    measured = {run.name: measured_by(study.place(run)) for run in study.runs}
    results = {
        run.name: json.loads((study.place(run) / "results.json").read_text(encoding="utf-8")) for run in study.runs
    }
    parts = [
        _metrics_part(study),
        _variants_part(study),
        *probe_parts(study, measured),
        training_part(study, measured),
        _alarms_part(study, results),
        _runs_part(study, results, beside),
    ]
    return Section(
        title="Study",
        lead=f"{_counted(len(study.runs), 'training')}: {_counted(len(study.variants), 'variant')}, each with "
        f"{_counted(len(study.seeds), 'seed')}.",
        facts={
            "seeds": ", ".join(map(str, study.seeds)),
            "variants": ", ".join(study.variants),
            "optimizer steps of each": max(map(steps_of, measured.values())),
            "seconds by the clock": round(study.elapsed),
            "seconds of all trainings": round(math.fsum(study.seconds)),
        },
        parts=[part for part in parts if part is not None],
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _metrics_part(study: Study) -> Part | None:
    if not study.metrics:
        return None
    several = len(study.seeds) > 1
    columns = [*(f"seed {seed}" for seed in study.seeds), *(["mean", "standard deviation"] if several else [])]
    rows = [[name, *_cells(values, several=several)] for name, values in study.metrics.items()]
    rows.append(["seconds", *_cells(study.seconds, several=several)])
    said = [[name, text] for name, text in study.definitions.items()]
    tables = [Table("", ["metric", *columns], rows, _spread_told(study), numbers=columns)]
    if said:
        tables.append(Table("How metrics are computed", ["metric", "of what its trainings wrote down"], said))
    return Part("Metrics", tables=tables)


def _cells(values: Sequence[float | None], *, several: bool) -> list[str]:
    known = [value for value in values if value is not None]
    shown = ["–" if value is None else number(value) for value in values]
    if several:
        shown.append(number(statistics.fmean(known)) if known else "–")
        shown.append(number(statistics.stdev(known)) if len(known) > 1 else "–")
    return shown


def _spread_told(study: Study) -> str:
    """What mean and deviation are, how much so many seeds can tell, and which metrics have fewer."""
    count = len(study.seeds)
    if count == 1:
        return "One seed: how much these numbers depend on chance is not known."
    from scipy.stats import chi2, t

    told = [f"Mean and sample standard deviation (n - 1) over {count} seeds."]
    if count < _FEW:
        wide = t.ppf(0.975, count - 1) / math.sqrt(count)
        low, high = (math.sqrt((count - 1) / chi2.ppf(q, count - 1)) for q in (0.975, 0.025))
        told.append(
            f"{count} seeds are few: were values normal, the 95 % interval of a mean would reach {wide:.1f} deviations "
            f"to either side, and that of the deviation itself from {low:.2f} to {high:.1f} times what is shown."
        )
    gaps = [name for name, values in study.metrics.items() if None in values]
    if gaps:
        told.append(f"A dash is a training without that number, and counts in no mean ({', '.join(gaps)}).")
    return " ".join(told)


def _variants_part(study: Study) -> Part | None:
    changed = {run.variant: run.overrides for run in study.runs if run.variant != MAIN}
    if not any(changed.values()):
        return None
    rows = [
        [variant, key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)]
        for variant, overrides in changed.items()
        for key, value in overrides.items()
    ]
    lead = f"{MAIN} is the recipe as it stands; each other variant is the recipe with these values."
    return Part("Variants", lead, [Table("", ["variant", "key", "value"], rows)])


def _alarms_part(study: Study, results: Mapping[str, Plain]) -> Part:
    rows = [
        [run.variant, run.seed, alarm["at"], alarm["alarm"], alarm["why"]]
        for run in _by_variant(study)
        for alarm in results[run.name].get("alarms") or ()
    ]
    if not rows:
        return Part("Alarms", "No alarm rang in any training.")
    rang = len({tuple(row[:2]) for row in rows})
    lead = f"Alarms rang in {rang} of {_counted(len(study.runs), 'training')}."
    cut = f"The first {_MOST_ALARMS} of {len(rows)}." * (len(rows) > _MOST_ALARMS)
    return Part("Alarms", lead, [Table("", ["variant", "seed", "step", "alarm", "why"], rows[:_MOST_ALARMS], cut)])


def _runs_part(study: Study, results: Mapping[str, Plain], beside: Path) -> Part:
    rows = [
        [
            run.variant,
            run.seed,
            _seconds(results[run.name]),
            len(results[run.name].get("alarms") or ()),
            _page(study.place(run), beside),
        ]
        for run in _by_variant(study)
    ]
    return Part("Trainings", "", [Table("", ["variant", "seed", "seconds", "alarms", "page"], rows)])


def _by_variant(study: Study) -> list[Run]:
    return sorted(study.runs, key=lambda run: study.variants.index(run.variant))


def _seconds(results: Plain) -> int | None:
    total = (results.get("seconds") or {}).get("total")
    return None if total is None else round(total)


def _page(run: Path, beside: Path) -> Link | str:
    """The page of a training, or its folder's name where there is none."""
    page = run / "report.html"
    return Link(f"{run.name}/{page.name}", os.path.relpath(page, beside)) if page.is_file() else run.name
