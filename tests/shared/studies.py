"""Studies as `arena train` leaves them, written in no time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.training.study import MAIN, runs_of, study_metrics
from arena.training.study_folder import begin_study, finish_study

VARIANTS: dict[str, dict[str, Any]] = {"no_kl": {"self_play.learner.kl.beta": 0}}
METRICS = {
    "nash_conv": "exact.nash_conv.last",
    "over_no_kl": "no_kl: exact.nash_conv.last - exact.nash_conv.last",
    "rang": "no_kl: results.alarms.kl.at",
}


def write_run(folder: Path, values: Sequence[float | None], **results: Any) -> None:
    """A finished training: its probe ``exact`` saw ``values`` at steps 0, 2, 4, ...; its rewards rise by 0.1 a step."""
    folder.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = [
        {"phase": "probe", "probe": "exact", "at": 2 * n, "nash_conv": value} for n, value in enumerate(values)
    ]
    rows += [
        {
            "phase": "self-play",
            "generation": 1 + n // 2,
            "step": 1 + n % 2,
            "of": 2,
            "reward/ann": n / 10,
            "bad_quotes": 0.0,
        }
        | {"p/kl_per_turn": n / 100, "q/kl_per_turn": n / 50}
        for n in range(4)
    ]
    rows.append({"phase": "alarm", "generation": 1, "alarm": "kl", "at": 3, "why": "too much"})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "config.json").write_text(json.dumps({"recipe": {"summary": "a small game"}}))
    (folder / "report.html").write_text("<p>of its own")
    plain = {"alarms": [], "seconds": {"total": 2.0}, **results}
    (folder / "results.json").write_text(json.dumps(plain))


def write_study(
    folder: Path, values: Mapping[str, Sequence[float | None]], seeds: Sequence[int] = (0, 1, 2), **more: Any
) -> None:
    """A study with two variants; ``values`` by the name of a run, as `write_run` takes them."""
    runs = runs_of(seeds, VARIANTS)
    begun = {
        "recipe": "poker",
        "summary": "bluffing, with and without a KL",
        "source": "poker.yaml",
        "overrides": ["self_play.steps=2"],
        "seeds": list(seeds),
        "variants": VARIANTS,
        "definitions": METRICS,
        "runs": [{"variant": run.variant, "seed": run.seed, "out": str(folder / run.name)} for run in runs],
    }
    begin_study(folder, begun, resume=False)
    for run in runs:
        alarms = [] if run.variant == MAIN else [{"alarm": "kl", "at": 3 + run.seed, "why": "<b>too</b> much"}]
        write_run(folder / run.name, values.get(run.name, [1.0, 1.0]), alarms=alarms)
    metrics = study_metrics(METRICS, seeds, {run.name: folder / run.name for run in runs})
    finish_study(folder, {"metrics": metrics, "seconds": [4.0] * len(seeds), "elapsed": 5.0, **more})
