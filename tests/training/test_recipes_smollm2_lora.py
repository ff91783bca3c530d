"""The recipe `smollm2_lora` with a small chat model: what its check pays, and both adapters arrive at the sampler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import letters
import numpy as np
import pytest

from arena.agents.scripted import from_script
from arena.engine import Engine, Plan
from arena.judges.nobody import NoJudge
from arena.protocols import load_protocol
from arena.rewards import pay
from arena.tasks import open_tasks
from arena.training.demonstrations import sequences_by_policy
from arena.training.launch import launch
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.study import metrics_rows, runs_of, study_metrics
from arena.training.world import build_world

SMALL = {
    "tasks": "larger:train=20,test=10",
    "params": {"rounds": 1, "tokens": 4},
    "self_play.steps": 2,
    "self_play.tasks": 1,
    "self_play.group": 4,
    "self_play.learner.lr": 0.05,
    "evaluation.tasks": 2,
}
LETTERS = """
name: letters-debate
extends: checked-debate
roles: {checker: {check: "regex:pattern=.*a.*"}}
"""


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


def small(folder: Path, sampler: str = "hf") -> dict[str, Any]:
    """The recipe's keys for a model of a few thousand weights."""
    base = str(letters.letters().save(folder / "base"))
    protocol = folder / "letters-debate.yaml"
    protocol.write_text(LETTERS)
    heat = 2.0 if sampler == "vllm" else 4.0  # vLLM takes no more
    changed = {f"policies.{name}.{key}": value for name in ("proposer", "challenger") for key, value in
               (("model", base), ("sampler", sampler), ("temperature", heat))}  # fmt: skip
    return SMALL | changed | {"protocol": str(protocol)}


@pytest.mark.slow
def test_two_adapters_of_one_base_are_trained_and_each_row_says_what_it_took(tmp_path: Path) -> None:
    recipe = load_recipe("smollm2_lora", small(tmp_path))
    launch(recipe, tmp_path / "run", seed=0, created="2026-01-31", on_event=ignore)
    rows = [row for row in metrics_rows(tmp_path / "run" / "metrics.jsonl") if row["phase"] == "self-play"]
    assert len(rows) == 2
    for row in rows:
        assert row["seconds_per_step"] >= row["play_seconds"] > 0
        # More than the interpreter, less than any machine has.
        assert 50 < row["peak_memory_mb"] < 1e6
        assert {"proposer/kl_per_turn", "challenger/kl_per_turn", "reward/first", "reward/second"} <= row.keys()
    (run,) = runs_of([0], {})
    numbers = study_metrics(recipe.metrics, [0], {run.name: tmp_path / "run"})
    assert {name for name, values in numbers.items() if values == [None]} == set()
    assert numbers["peak_memory_mb"] == [max(row["peak_memory_mb"] for row in rows)]


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["hf", pytest.param("vllm", marks=pytest.mark.vllm)])
def test_after_steps_the_sampler_draws_from_the_trained_adapters_of_both_roles(tmp_path: Path, sampler: str) -> None:
    recipe = load_recipe("smollm2_lora", small(tmp_path, sampler))
    player = SelfPlay(build_world(recipe, 0, ignore), tmp_path / "run", ignore)
    player.run()
    try:
        assert player.policies["proposer"].model.network is player.policies["challenger"].model.network
        learners = player._learners()
        for name, sequences in sequences_by_policy(recipe, player.rollouts(2).episodes).items():
            assert {sequence.policy for sequence in sequences} == {f"{name}@v2"}
            learners[name].set_reference(adapter_off=True)
            scores = learners[name].score(sequences)
            drawn = [logp for sequence in sequences for logp in sequence.logps or ()]
            np.testing.assert_allclose(drawn, scores.logps, atol=1e-3)
            assert scores.ref_logps is not None
            assert np.abs(scores.ref_logps - scores.logps).max() > 0.01, "the adapter has learnt something"
    finally:
        if sampler == "vllm":
            backend: Any = player.policies["proposer"]._backend
            letters.close_engine(backend.engine)


@pytest.mark.parametrize(
    ("said", "paid"),
    [("417", 1.0), ("The answer is 417.", 1.0), ("82", 0.0), ("417 is larger than 82", 0.0), ("the first", 0.0)],
)
def test_a_turn_is_paid_for_the_one_right_number_and_nothing_else(said: str, paid: float) -> None:
    protocol = load_protocol("checked-debate", {"rounds": 1})
    (task,) = open_tasks("larger:train=1,test=0", seed=0).train
    wanted = {"417": task.fields["solution"], "82": min(task.fields["answers"], key=int)}
    for old, new in wanted.items():
        said = said.replace(old, str(new))
    lineup = {"first": from_script({"first": [said]}), "second": from_script({"second": ["none"]})}
    (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", task, lineup)])
    (payoff,) = pay(protocol, NoJudge(), [episode], {task.id: task})
    rewards = {turn.role: reward for turn, reward in zip(episode.turns, payoff.rewards, strict=True)}
    assert rewards["first"] == paid
    assert rewards["second"] == 0.0
