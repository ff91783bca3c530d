"""The HTML report of training runs, made from what is in their directories."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from arena.charts import Series
from arena.protocols.draw import to_svg
from arena.protocols.errors import StoreError
from arena.protocols.records import Episode
from arena.ratings import CrossPlay, rating_of
from arena.report import Arm, Curve, ReportData, Section, Transcript, transcript_of, write_report
from arena.running import stored_protocol, stored_tasks
from arena.statistics import Interval
from arena.store import RunHandle, Store
from arena.training.recipe import Recipe
from arena.training.study import metrics_rows

__all__ = ["running_mean", "training_section", "write_combined_report"]

Plain = Mapping[str, Any]

SAME_JUDGE = (
    "The judge that rewarded training measured it as well (same_judge: true): these numbers cannot show that policies "
    "learned to please that one judge."
)


def write_combined_report(path: Path, runs: Sequence[Path], *, title: str, created: str) -> Path:
    """One page about one or several training runs.

    Args:
        path: where to write it.
        runs: run directories, finished.
        title: of the page.
        created: date and time to show.

    Raises:
        StoreError: a directory does not hold a finished training run.
    """
    sections, config = [], {}
    for run in runs:
        section, identity = training_section(run)
        sections.append(section)
        config[run.name] = identity
    facts = {
        "torch": version("torch"),
        "transformers": version("transformers"),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, one CPU thread for each game",
    }
    lead = (
        "Debaters were trained by self-play under a judge, with a KL penalty to where they began, and measured on "
        "held-out tasks by another judge. Accuracy is that of the judge that measures, against labels which neither "
        "debaters nor judge were shown."
    )
    return write_report(path, ReportData(title, lead, created, facts, config, sections))


def training_section(folder: Path) -> tuple[Section, Plain]:
    """What there is to say about one run, and its configuration.

    Raises:
        StoreError: the directory does not hold a finished training run.
    """
    try:
        identity = json.loads((folder / "config.json").read_text())
        results = json.loads((folder / "results.json").read_text())
    except FileNotFoundError as error:
        raise StoreError(f"{folder} holds no finished training run: {error.filename} is missing") from error
    recipe = Recipe.model_validate(identity["recipe"])
    with Store.open(folder, create=False) as store:
        protocol = stored_protocol(store.run())
        transcripts = _transcripts(recipe, store.run(), results)
    arms = results["arms"]
    section = Section(
        title=recipe.recipe,
        lead=_lead(recipe, results),
        protocol=protocol.name,
        graph_svg=to_svg(protocol),
        facts=_facts(recipe, results),
        arms=[_arm(name, row, baseline="_gen" not in name) for name, row in arms.items()],
        ratings=[rating_of(row) for row in results["ratings"]],
        anchor="gen0" if results["elo"] else None,
        cross_play=_cross_play(results),
        curves=[*_training_curves(list(metrics_rows(folder / "metrics.jsonl")), recipe), *_generation_curves(results)],
        transcripts=transcripts,
        notes=_notes(results),
    )
    return section, identity


def _lead(recipe: Recipe, results: Plain) -> str:
    rows = [row for name, row in results["arms"].items() if "_gen" in name and row["accuracy"] is not None]
    if len(rows) < 2:
        return recipe.summary
    first, last = rows[0]["accuracy"], rows[-1]["accuracy"]
    text = f"{recipe.summary[:1].upper()}{recipe.summary[1:]}. "
    text += f"From generation 0 to {len(rows) - 1} the judge's accuracy went from {first:.1%} to {last:.1%}"
    return f"{text}, and the debaters gained {results['elo'][-1]:+.0f} Elo." if results["elo"] else f"{text}."


def _facts(recipe: Recipe, results: Plain) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "seed": results["seed"],
        "tasks": str(recipe.tasks),
        "judge that rewards": results["judge"]["name"],
        "judge that measures": results["evaluation_judge"]["name"],
        "episodes a step": recipe.self_play.tasks * recipe.self_play.group,
        "steps": recipe.self_play.steps * recipe.self_play.generations,
        "largest KL, nats a turn": round(results["kl_peak"], 2),
        "seconds to trained": round(results["seconds"]["trained"], 1),
        "seconds in all": round(results["seconds"]["total"], 1),
    }
    if "best_response" in results:
        told = results["best_response"]
        won = (
            "not known" if told["value"] is None else f"{told['value']:+.3f} [{told['low']:+.3f}, {told['high']:+.3f}]"
        )
        facts[f"a trained response wins against {told['against']}, in units of the reward"] = won
    for title, key in (("rewards", "judge"), ("measures", "evaluation_judge")):
        if "accuracy" in results[key]:
            facts[f"accuracy of the judge that {title} in its own training"] = round(results[key]["accuracy"], 3)
    return facts


def _arm(name: str, row: Plain, *, baseline: bool) -> Arm:
    interval = None if row["accuracy"] is None else Interval(row["accuracy"], row["low"], row["high"], row["n"])
    return Arm(name, interval, row["decidable"], row["undecidable"], baseline)


def _cross_play(results: Plain) -> CrossPlay | None:
    table = results["cross_play"]
    if table is None:
        return None
    score = np.array([[np.nan if cell is None else cell for cell in row] for row in table["score"]])
    return CrossPlay(tuple(table["names"]), score, np.array(table["games"]))


def _training_curves(rows: Sequence[Plain], recipe: Recipe) -> list[Curve]:
    steps = [row for row in rows if row["phase"] == "self-play"]
    if not steps:
        return []
    per_generation = recipe.self_play.steps
    x = [(row["generation"] - 1) * per_generation + row["step"] for row in steps]
    curves = [
        Curve("Judge right, training episodes", [Series("accuracy", x, _smooth(steps, "accuracy"))], y_range=(0, 1)),
        Curve("Bad quotes, training episodes", [Series("share of turns", x, _smooth(steps, "bad_quotes"))]),
    ]
    if "kl_per_turn" in steps[0]:
        target = recipe.self_play.learner.kl.target
        reference = None if target is None else (target, "target")
        kl = [row["kl_per_turn"] for row in steps]
        at = recipe.self_play.reference.at
        origin = {
            "start": "generation 0",
            "generation": "the generation before",
            "steps": f"the policy at the last multiple of {recipe.self_play.reference.every} steps",
            "base": "the base without adapters",
        }[at]
        curves.append(Curve(f"KL to {origin}", [Series("KL", x, kl)], y_label="nats a turn", reference=reference))
    return [curve for curve in curves if any(np.isfinite(curve.series[0].y))]


def _smooth(rows: Sequence[Plain], key: str) -> list[float]:
    """Running mean of a column; NaN where a row lacks it."""
    return running_mean([row.get(key, np.nan) for row in rows])


def running_mean(values: Sequence[float], width: int = 9) -> list[float]:
    """Centred running mean over ``width`` values, an odd number; NaN wherever it meets one."""
    numbers, half = np.array(values, dtype=float), width // 2
    return [float(np.mean(numbers[max(0, i - half) : i + half + 1])) for i in range(len(numbers))]


def _generation_curves(results: Plain) -> list[Curve]:
    values = results["exploitability"]
    if not values:
        return []
    low, high = zip(*results["exploitability_intervals"], strict=True)
    series = [Series("self-play", list(range(len(values))), values, low=list(low), high=list(high))]
    if "control" in results:
        control = results["control"]["exploitability"]
        series.append(Series("shuffled advantages", list(range(len(control))), control))
    title = "Exploitability: score of a one-step greedy player minus one half"
    return [Curve(title, series, x_label="generation", reference=(0.0, "even"))]


def _transcripts(recipe: Recipe, run: RunHandle, results: Plain) -> list[Transcript]:
    """A few debates of the first and of the last generation about the same tasks."""
    names = [name for name in results["arms"] if "_gen" in name]
    count = recipe.evaluation.transcripts
    if not names or not count:
        return []
    tasks = stored_tasks(run)
    shown = []
    ends = [names[0], names[-1]] if len(names) > 1 else names
    for name in ends:
        episodes: list[Episode] = []
        for episode in run.episodes(f"arm/{name}"):
            episodes.append(episode)
            if len(episodes) == max(1, count // len(ends)):
                break
        for episode in episodes:
            fields = [
                field
                for field in tasks[episode.task].fields
                if field not in ("question", "answers", "candidates", "class")
            ]
            shown.append(transcript_of(tasks[episode.task], episode, f"{name}: {episode.task}", fields))
    return shown


def _notes(results: Plain) -> list[str]:
    notes = [
        "Intervals are 95 %, clustered by task: both seat orders of a task and all debates about it stay together."
    ]
    if results["same_judge"]:
        notes.append(SAME_JUDGE)
    trained = {name: row["training_judge"] for name, row in results["arms"].items() if "training_judge" in row}
    known = [f"{name} {row['accuracy']:.1%}" for name, row in trained.items() if row["accuracy"] is not None]
    if known:
        notes.append(f"The judge that rewarded training is right on the same debates: {', '.join(known)}.")
    if results["note"]:
        notes.append(f"Ratings: {results['note']}.")
    if "control" in results:
        elo = ", ".join(f"{value:+.0f}" for value in results["control"]["elo"])
        notes.append(f"Control with shuffled advantages, Elo by generation: {elo}.")
    return notes
