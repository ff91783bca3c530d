"""Training a judge from recipe to results, in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from arena.cli.app import app
from arena.judges import JUDGES
from arena.protocols.errors import ConfigError, ResumeError, UndecidedError
from arena.testing import check_judge
from arena.training.judge_launch import JudgeOutcome, launch_judge
from arena.training.judge_recipes import load_judge_recipe

SMALL = {
    "judge.args.model.hidden": 16,
    "judge.args.model.intermediate": 16,
    "judge.args.model.layers": 1,
    "data.tasks": "facts:train=200,test=60",
    "data.size": [3, 4],
    "train.steps": 12,
    "train.batch": 16,
    "train.learner.warmup": 0,
    "train.learner.total_steps": 100,
}


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


def train(out: Path, name: str = "judge_sft", *, seed: int = 1, resume: bool = False, **changes: Any) -> JudgeOutcome:
    recipe = load_judge_recipe(name, {**SMALL, **{key.replace("__", "."): value for key, value in changes.items()}})
    return launch_judge(recipe, out, seed=seed, created="2026-01-31", on_event=ignore, resume=resume)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> JudgeOutcome:
    return train(tmp_path_factory.mktemp("sft") / "run")


def test_the_trained_judge_is_kept_and_is_the_one_that_was_measured(outcome: JudgeOutcome) -> None:
    judge = JUDGES.build(f"llm:path={outcome.out / 'judge'}")
    assert judge.name == outcome.after.judge != outcome.before.judge
    check_judge(judge, lambda: [example.view for example in outcome.data.held_out[:20]])


def test_results_have_before_and_after_with_intervals(outcome: JudgeOutcome) -> None:
    results = json.loads((outcome.out / "results.json").read_text())
    for part in ("before", "after"):
        for figure in ("accuracy", "log_loss", "brier", "ece", "order_consistency"):
            row = results[part][figure]
            assert row["low"] <= row["value"] <= row["high"]
            assert row["n"] == 60
    assert results["data"] == {"train": 200, "held_out": 60}
    assert results["labels"] == [{"by": "truth", "used": 200, "left_out": {}, "right": None}]


def test_a_run_is_a_function_of_recipe_and_seed(outcome: JudgeOutcome, tmp_path: Path) -> None:
    assert train(tmp_path / "same").after.judge == outcome.after.judge
    assert train(tmp_path / "other", seed=2).after.judge != outcome.after.judge


@pytest.mark.parametrize("name", ["judge_sft", "judge_pg"])
def test_a_stopped_run_goes_on_to_the_same_end(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.training.judge_launch._SAVED", 5)
    whole = train(tmp_path / "whole", name)

    def stop(event: dict[str, Any]) -> None:
        if event.get("step") == 7:
            raise KeyboardInterrupt

    monkeypatch.setattr("arena.training.judge_launch._LOGGED", 7)
    recipe = load_judge_recipe(name, SMALL)
    with pytest.raises(KeyboardInterrupt):
        launch_judge(recipe, tmp_path / "part", seed=1, created="2026-01-31", on_event=stop)
    assert train(tmp_path / "part", name, resume=True).after == whole.after


def test_a_run_is_not_resumed_under_another_recipe(outcome: JudgeOutcome) -> None:
    with pytest.raises(ResumeError, match="batch"):
        train(outcome.out, resume=True, train__batch=8)


def test_labels_of_a_judge_are_counted_and_compared(tmp_path: Path) -> None:
    found = train(tmp_path, "judge_rlaif", labels__by="biased:accuracy=.9")
    (labels,) = found.labels
    assert labels.by == JUDGES.build("biased:accuracy=.9", seed=1).name
    assert (labels.used, labels.left_out) == (200, {})
    assert labels.right == pytest.approx(0.9, abs=0.07)  # three standard errors
    assert found.teacher is not None
    assert found.teacher.accuracy.value == pytest.approx(0.9, abs=0.13)


def test_soft_labels_are_drawn_as_the_teacher_is_sure(tmp_path: Path) -> None:
    found = train(tmp_path, "judge_rlaif", labels__by="exact", labels__soft=True)
    assert found.labels[0].right == 1.0  # a teacher without doubt
    unsure = train(tmp_path / "unsure", "judge_rlaif", labels__by="biased:accuracy=1,confidence=.7", labels__soft=True)
    assert unsure.labels[0].right == pytest.approx(0.7, abs=0.1)  # three standard errors


def test_what_the_teacher_cannot_decide_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to learn from: match"):
        train(tmp_path, "judge_rlaif", labels__by="match", max_undecidable=1)  # nobody states an answer


def test_training_stops_when_too_many_verdicts_cannot_be_used_and_goes_on_with_another_limit(tmp_path: Path) -> None:
    partly = "panel:judges=[exact, 'biased:accuracy=1'],quorum=2"
    whole = train(tmp_path / "whole", "judge_rlaif", labels__by=partly)
    assert whole.labels[0].used == 200
    told = r"match@\w+, which labels: .*max_undecidable is 0\.2.*100\.0% of 200: 200 parse_error .*by --resume"
    with pytest.raises(UndecidedError, match=told):
        train(tmp_path / "run", "judge_rlaif", labels__by="match")
    with pytest.raises(ConfigError, match="nothing to learn from"):  # the limit may change, all else may not
        train(tmp_path / "run", "judge_rlaif", labels__by="match", max_undecidable=1, resume=True)
    with pytest.raises(ResumeError):
        train(tmp_path / "run", "judge_rlaif", labels__by="exact", resume=True)


def test_a_judge_that_decides_too_little_is_not_trained(tmp_path: Path) -> None:
    """Nobody argued the answers of these views, and a reward model by default scores nothing unsaid."""
    changes = {"judge.kind": "reward-model", "judge.args.prompt": None, "train.kind": "bradley-terry"}
    recipe = load_judge_recipe("judge_sft", {**SMALL, **changes})
    with pytest.raises(UndecidedError, match=r"measured before: .*100\.0% of 60: 60 abstain \(nobody argued"):
        launch_judge(recipe, tmp_path / "run", seed=1, created="x", on_event=ignore)


def test_a_judge_that_labels_itself_is_frozen_and_taken_anew_each_round(tmp_path: Path) -> None:
    found = train(tmp_path / "self", "judge_rlaif", labels__by="self", labels__rounds=2, train__steps=5)
    first, second = found.labels
    assert first.by == found.before.judge
    assert second.by not in (found.before.judge, found.after.judge)
    assert first.used + sum(first.left_out.values()) == 200
    assert found.teacher is None
    rows = [json.loads(line) for line in (tmp_path / "self" / "metrics.jsonl").read_text().splitlines()]
    assert [(row["round"], row["step"], row["of"]) for row in rows] == [(1, 5, 10), (2, 10, 10)]


def test_the_command_prints_before_and_after(tmp_path: Path) -> None:
    options = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]
    done = CliRunner().invoke(app, ["train", "judge_sft", *options, "--out", str(tmp_path / "run")])
    assert done.exit_code == 0, done.output
    assert "before" in done.output
    assert "after" in done.output
    assert "accuracy rose by" in done.output
    assert f"judge: llm:path={tmp_path / 'run' / 'judge'}" in done.output


def test_the_command_prints_json_for_several_seeds(tmp_path: Path) -> None:
    options = [f"{key}={json.dumps(value)}" for key, value in SMALL.items()]
    done = CliRunner().invoke(app, ["train", "judge_pg", *options, "--seeds", "0,1", "--json", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    runs = json.loads(done.stdout)["runs"]
    assert [run["seed"] for run in runs] == [0, 1]
    assert runs[0]["after"]["accuracy"]["n"] == 60


def test_a_control_is_for_self_play_only(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["train", "judge_sft", "--control", "--out", str(tmp_path)])
    assert done.exit_code == 2
    assert "--control is for self-play" in done.output
