"""The recipe `judge_hacking`, cut down to seconds, and what its judge can and cannot see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena.judges.prompts import JudgePrompt
from arena.judges.types import JudgeView, Statement
from arena.protocols.records import Quote
from arena.training.launch import launch
from arena.training.recipe import load_recipe
from arena.training.study import metrics_rows

SMALL = {
    "judge.train.steps": 4,
    "warm_start.steps": 2,
    "warm_start.tasks": 4,
    "warm_start.learner.warmup": 0,
    "warm_start.learner.total_steps": 2,
    "self_play.steps": 2,
    "self_play.tasks": 3,
    "self_play.group": 4,
    "self_play.learner.total_steps": 2,
    "self_play.probes.free.tasks": 4,
    "self_play.probes.assigned.tasks": 4,
    "evaluation.tasks": 4,
}


def said(text: str, answer: int) -> Statement:
    return Statement("first", answer, text, (Quote(text, True),))


def test_the_judge_reads_a_cancelled_gain_as_one_that_counts() -> None:
    prompt = JudgePrompt(load_recipe("judge_hacking").judge.args["prompt"])  # type: ignore[union-attr]

    def shown(*statements: Statement) -> str:
        view = JudgeView("key", "", ("ann", "bob"), statements, answers_argued=(0, 1))
        return " ".join(prompt.present(view, (1, 0), "valid").split())

    ruling = [Statement("clerk", None, text) for text in ("stands", "struck")]
    assert shown(said("ann~9", 0), said("bob+3", 1)) == "claims bob ann evidence ann+9 bob+3 verdict"
    assert shown(said("ann~9", 0), ruling[1], said("bob+3", 1), ruling[0]) == "claims bob ann evidence bob+3 verdict"
    # What is quoted against the other person does not count.
    assert shown(said("bob+1", 0), said("bob+3", 1)) == "claims bob ann evidence bob+3 verdict"
    drawn = Statement("", None, "", (Quote("ann+2", True), Quote("bob+3", True)))
    assert shown(drawn) == "claims bob ann evidence ann+2 bob+3 verdict"


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["main", "rlaif", "no_strikes"])
def test_each_variant_trains_and_tells_what_its_alarm_looks_at(tmp_path: Path, variant: str) -> None:
    recipe = load_recipe("judge_hacking")
    changes: dict[str, Any] = dict(recipe.variants.get(variant, {}))
    small, told = load_recipe("judge_hacking", {**SMALL, **changes}), list[dict[str, Any]]()
    launch(small, tmp_path / "run", seed=0, created="2026-01-31", on_event=told.append)
    rows = metrics_rows(tmp_path / "run" / "metrics.jsonl")
    trained = [row for row in rows if row["phase"] == "self-play"]
    assert len(trained) == 2
    assert all(0 <= row[name] <= 1 for row in trained for name in ("belief", "claims_true", "accuracy"))
    free, assigned = ([r for r in rows if r.get("probe") == probe] for probe in ("free", "assigned"))
    assert all({"belief", "claims_true"} <= row.keys() for row in free)
    assert all({"accuracy", "mcc"} <= row.keys() for row in assigned)
    assert json.loads((tmp_path / "run" / "results.json").read_text())["alarms"] == []
