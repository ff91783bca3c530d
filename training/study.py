"""Studies: one recipe, several seeds and variants, and the numbers that it is about.

    seeds: [0, 1, 2]
    variants:
      no_kl: {self_play.learner.kl.beta: 0}
    metrics:
      nash_conv: exact.nash_conv.last
      nash_conv_no_kl: "no_kl: exact.nash_conv.last"
      rise: judged.belief.last - judged.belief.first

A variant is the recipe with other values. A metric is arithmetic over what runs wrote down, each written as
``[VARIANT:] SOURCE.MEASURE.STATISTIC``:

    SOURCE      a probe, or ``train`` for the rows of self-play, or ``results`` for ``results.json``
    STATISTIC   first, last, min, max, mean, last_quarter, lastN, firstN; none for ``results``, which has plain values:
                of lists by number, or by what an entry is called, as in results.alarms.hacking.at
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.protocols.errors import ArenaError, ConfigError, LanguageError, StoreError, suggest
from arena.protocols.expressions import Expression

__all__ = ["MAIN", "Metric", "Records", "Run", "check_metrics", "metrics_rows", "runs_of", "study_metrics"]

MAIN = "main"
"""Name of the recipe as it stands among its variants."""

_REFERENCE = re.compile(r"(?:(?P<variant>\w+):\s*)?(?P<source>[A-Za-z_]\w*)\.(?P<path>[\w/]+(?:\.\w+)*)")
_STATISTIC = re.compile(r"first|last|min|max|mean|last_quarter|(first|last)[1-9]\d*")


@dataclass(frozen=True, slots=True)
class Run:
    """One training of a study."""

    variant: str
    """`MAIN`, or the name of a variant."""
    seed: int
    overrides: Mapping[str, Any]
    """Dotted key -> value."""

    @property
    def name(self) -> str:
        """For folders and progress: ``no_kl-seed1``."""
        return f"seed{self.seed}" if self.variant == MAIN else f"{self.variant}-seed{self.seed}"


@dataclass(frozen=True, slots=True)
class Reference:
    """A number of one run."""

    variant: str
    source: str
    measure: str
    statistic: str
    """Empty for ``results``."""


class Metric:
    """A named number of a study.

    Args:
        name: for messages.
        text: see the module.

    Raises:
        ConfigError: it does not speak of runs in that form.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.references: dict[str, Reference] = {}
        body = _REFERENCE.sub(self._named, text)
        try:
            self._expression = Expression(body)
        except LanguageError as error:
            raise ConfigError(f"'{text}' is no metric: {error}") from None
        if not self.references or self._expression.names - self.references.keys():
            raise ConfigError(f"'{text}' is no metric: write SOURCE.MEASURE.STATISTIC, such as exact.nash_conv.last")

    def _named(self, match: re.Match[str]) -> str:
        source, path = match["source"], match["path"]
        measure, _, statistic = path.rpartition(".")
        if source == "results":
            measure, statistic = path, ""
        elif not _STATISTIC.fullmatch(statistic) or not measure:
            known = ["first", "last", "min", "max", "mean", "last_quarter"]
            what = "names no statistic" if not measure else f"'{statistic}' is no statistic"
            raise ConfigError(f"'{match[0]}': {what}.{suggest(statistic, known)}")
        name = f"m{len(self.references)}"
        self.references[name] = Reference(match["variant"] or MAIN, source, measure, statistic)
        return name

    def __call__(self, runs: Mapping[str, Records]) -> float | None:
        """The value, from the runs of one seed by variant; None where one of its numbers is missing."""
        values = {name: runs[r.variant].value(r) for name, r in self.references.items()}
        if any(value is None for value in values.values()):
            return None
        found = self._expression(values)
        return float(found) if isinstance(found, int | float) and math.isfinite(found) else None


class Records:
    """What one run wrote down.

    Args:
        folder: of the run.

    Raises:
        StoreError: it is not finished.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            self.results: dict[str, Any] = json.loads((folder / "results.json").read_text())
        except FileNotFoundError as error:
            raise StoreError(f"{folder} holds no finished training run: {error.filename} is missing") from error
        self._rows: dict[str, list[dict[str, Any]]] = {}
        for row in metrics_rows(folder / "metrics.jsonl"):
            source = row["probe"] if row.get("phase") == "probe" else "train" if row.get("phase") == "self-play" else ""
            self._rows.setdefault(source, []).append(row)

    def series(self, source: str, measure: str) -> list[float]:
        """The values of a measure in the order of time; rows without it are left out."""
        found = [row.get(measure) for row in self._rows.get(source, [])]
        return [float(value) for value in found if isinstance(value, int | float)]

    def value(self, reference: Reference) -> float | None:
        """The number that a reference means; None where there is none."""
        if reference.source == "results":
            return self._result(reference.measure)
        values = self.series(reference.source, reference.measure)
        return _statistic(values, reference.statistic) if values else None

    def _result(self, path: str) -> float | None:
        value: Any = self.results
        for step in path.split("."):
            if isinstance(value, Mapping) and step in value:
                value = value[step]
            elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
                value = value[int(step)]
            elif isinstance(value, list) and step == "last" and value:
                value = value[-1]
            elif isinstance(value, list):
                value = next((each for each in value if isinstance(each, Mapping) and step in each.values()), None)
            else:
                return None
        return float(value) if isinstance(value, int | float) else None


def _statistic(values: Sequence[float], statistic: str) -> float:
    plain = {"first": values[0], "last": values[-1], "min": min(values), "max": max(values)}
    if statistic in plain:
        return plain[statistic]
    if statistic == "last_quarter":
        part = values[-max(1, len(values) // 4) :]
    elif statistic == "mean":
        part = values
    else:
        count = int(statistic.lstrip("firstla"))
        part = values[:count] if statistic.startswith("first") else values[-count:]
    return math.fsum(part) / len(part)


def runs_of(seeds: Sequence[int], variants: Mapping[str, Mapping[str, Any]]) -> list[Run]:
    """All trainings of a study, seed by seed, the recipe as it stands first."""
    return [Run(variant, seed, overrides) for seed in seeds for variant, overrides in {MAIN: {}, **variants}.items()]


def check_metrics(
    metrics: Mapping[str, str], variants: Mapping[str, Any], probes: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Faults of the metrics of a recipe, each as (name, what)."""
    faults = []
    for name, text in metrics.items():
        try:
            metric = Metric(name, text)
        except ConfigError as error:
            faults.append((name, str(error)))
            continue
        for reference in metric.references.values():
            if reference.variant != MAIN and reference.variant not in variants:
                what = f"'{reference.variant}' is no variant.{suggest(reference.variant, variants)}"
                faults.append((name, what))
            sources = {*probes, "train", "results"}
            if reference.source not in sources:
                faults.append((name, f"'{reference.source}' is no probe.{suggest(reference.source, sources)}"))
    return faults


def study_metrics(metrics: Mapping[str, str], seeds: Sequence[int], folders: Mapping[str, Path]) -> dict[str, Any]:
    """Metric -> one value a seed, None where a run has no such number.

    Args:
        metrics: of the recipe.
        seeds: in order.
        folders: `Run.name` -> its folder; of variants that no metric speaks of, none are needed.

    Raises:
        StoreError: a run is not finished.
    """
    compiled = [Metric(name, text) for name, text in metrics.items()]
    wanted = {reference.variant for metric in compiled for reference in metric.references.values()}
    found: dict[str, list[float | None]] = {metric.name: [] for metric in compiled}
    for seed in seeds:
        runs = {variant: Records(folders[Run(variant, seed, {}).name]) for variant in wanted}
        for metric in compiled:
            found[metric.name].append(metric(runs))
    return found


def metrics_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a ``metrics.jsonl``.

    Raises:
        ArenaError: a line is not JSON.
    """
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise ArenaError(f"{path}:{number}:{error.colno}: not a metrics row: {error.msg}") from error
    return rows
