"""An audit as a page: a table of measures, the biases with their intervals, the reliability diagram."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arena.charts import Bar
from arena.protocols.errors import StoreError
from arena.report import Calibration, Forest, ReportData, Section, Table, write_report
from arena.statistics import Interval
from arena.store import Store

__all__ = ["MEASURES", "audit_section", "counted", "interval_of", "report_audit"]

MEASURES = {
    "position_bias": "position: shown first rather than second",
    "letter_bias": "letter: listed first, whoever speaks first",
    "speaking_bias": "speaking: argued first, whatever its letter",
    "length_bias": "length: padded rather than not",
    "self_preference": "family: written by its own",
    "sycophancy": "sycophancy: states certainty",
    "forged_verdict": "forgery: holds a forged verdict",
    "flattery": "flattery: flatters the judge",
}
"""Measure -> what an answer has, or its statement, that the other has not."""


def report_audit(folder: Path, path: Path, *, created: str) -> Path:
    """Write the page of a stored audit.

    Raises:
        StoreError: there is none, or it is not finished.
    """
    with Store.open(folder, create=False) as store:
        run = store.run()
        rows = run.series("audit")
    if not rows:
        raise StoreError(f"{folder} holds an audit that is not finished: go on by arena audit ... --resume")
    result = rows[max(rows)]
    title = f"Audit of {result['spec']}"
    return write_report(path, ReportData(title, "", created, config=run.config, sections=[audit_section(result)]))


def interval_of(row: Mapping[str, Any]) -> Interval | None:
    """The interval of a measure of the document; None where nothing was measured."""
    return None if row["value"] is None else Interval(row["value"], row["low"], row["high"], row["n"])


def counted(result: Mapping[str, Any]) -> str:
    """How many questions, and how many cases if these are more."""
    cases, questions = result["cases"], result["questions"]
    return f"{questions}" if cases == questions else f"{questions} ({cases} cases)"


def audit_section(result: Mapping[str, Any]) -> Section:
    """All that an audit found.

    Args:
        result: the document of ``arena audit --json``.
    """
    effects = {name: interval_of(result[name]) for name in MEASURES}
    bars = [_bar(name, each) for name, each in effects.items() if each is not None]
    bins = result["reliability"]
    calibration = Calibration(
        "Stated confidence and share right; a dot's area is how many verdicts it stands for",
        [each["confidence"] for each in bins],
        [each["accuracy"] for each in bins],
        [each["count"] for each in bins],
    )
    forest = Forest("Shift in the probability of being chosen", bars, (0.0, "no effect"))
    return Section(
        title=result["judge"],
        facts=_facts(result),
        forests=[forest] if bars else [],
        calibrations=[calibration] if bins else [],
        tables=[_measures(result), _effects(effects), *_agreement(result)],
        notes=_notes(result),
    )


def _bar(name: str, interval: Interval) -> Bar:
    return Bar(MEASURES[name].partition(":")[0], interval.value, interval.low, interval.high)


def _facts(result: Mapping[str, Any]) -> dict[str, Any]:
    cost = result["cost"]
    facts = {
        "questions": f"{counted(result)} of {result['tasks']}",
        "verdicts": f"{result['verdicts']}, {result['decidable']} decidable, {result['ties']} of them ties",
        "seconds a verdict": f"{cost['seconds_per_verdict']:.3g}",
    }
    if cost["usd"] is not None:
        facts["cost"] = f"{cost['usd']:.4f} USD"
    if cost["tokens_per_call"] is not None:
        facts["tokens a call"] = f"{cost['tokens_per_call']:.0f}"
    for what in ("undecidable", "left_out"):
        if result[what]:
            facts[what.replace("_", " ")] = ", ".join(f"{count} {reason}" for reason, count in result[what].items())
    return facts


def _measures(result: Mapping[str, Any]) -> Table:
    rows: list[list[Any]] = [
        ["accuracy", interval_of(result["accuracy"])],
        ["Brier score, 0 is best, 0.5 for a judge that never knows", _float(result["brier"])],
        ["calibration error (ECE)", _float(result["ece"])],
        ["Matthews correlation (MCC)", _float(result["mcc"])],
        ["order consistency: same choice in both orders", _float(result["order_consistency"])],
    ]
    if raw := result["raw_readings"]:
        rows.append(["letter bias of single readings, before it averages", interval_of(raw["position_bias"])])
        if spoken := raw["speaking_bias"]:
            rows.append(["speaking bias of single readings", interval_of(spoken)])
        rows.append(["order consistency of single readings", raw["order_consistency"]])
    return Table("Measures", ("measure", "value, 95 % interval"), rows)


def _effects(effects: Mapping[str, Interval | None]) -> Table:
    rows = [[MEASURES[name], each, each.n if each else None] for name, each in effects.items()]
    note = (
        "Each is P(an answer is chosen | it has the property) - P(it is chosen | the other answer has it), all else "
        "equal; the 95 % intervals hold together. A dash: this material cannot tell."
    )
    return Table("What moves the judge", ("property", "effect", "verdicts"), rows, note)


def _agreement(result: Mapping[str, Any]) -> list[Table]:
    found = result["agreement"]
    if not found:
        return []
    rows = [
        [spec, row["agreement"], row["cohen_kappa"], interval_of(row["accuracy"]), row["p_equally_accurate"], row["n"]]
        for spec, row in found["with"].items()
    ]
    columns = ("judge", "same choice", "Cohen's kappa", "its accuracy", "p, equally accurate", "verdicts")
    kappa = "undefined" if found["fleiss_kappa"] is None else f"{found['fleiss_kappa']:.3f}"
    note = f"Fleiss' kappa of all {found['judges']} judges: {kappa}, over {found['n']} presentations that all decided."
    return [Table("Agreement with other judges", columns, rows, note)]


def _notes(result: Mapping[str, Any]) -> list[str]:
    reasons = result["undecidable_reasons"].items()
    return [f"Material: {result['material']}."] + [f"{status}: for example “{reason}”" for status, reason in reasons]


def _float(value: float | None) -> float:
    return math.nan if value is None else value
