"""The recipe critique_revise, cut down to seconds; and the weights of roles in a warm start."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from arena.protocols.errors import SourceError
from arena.training.launch import launch
from arena.training.learner import Learner
from arena.training.learner_config import OptimizerConfig
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.sequences import TrainingSequence
from arena.training.study import study_metrics
from arena.training.world import build_world

SMALL: dict[str, Any] = {
    "tasks": "sorting:train=200,test=40",
    "warm_start.steps": 4,
    "warm_start.tasks": 8,
    "warm_start.fresh": 2,
    "warm_start.learner.warmup": 0,
    "warm_start.learner.total_steps": 4,
    "self_play.steps": 2,
    "self_play.tasks": 4,
    "self_play.group": 4,
    "self_play.learner.total_steps": 2,
    "self_play.probes.self.tasks": 20,
    "self_play.probes.random_critic.tasks": 20,
    "evaluation.tasks": 10,
}


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


@pytest.mark.slow
def test_it_runs_from_recipe_to_metrics(tmp_path: Path) -> None:
    recipe = load_recipe("critique_revise", SMALL)
    folders = {}
    for name, change in {"seed3": {}, "shuffled-seed3": recipe.variants["shuffled"]}.items():
        folders[name] = tmp_path / name
        one = load_recipe("critique_revise", SMALL | change)
        launch(one, folders[name], seed=3, created="2026-01-31", on_event=ignore)
    found = study_metrics(recipe.metrics, [3], folders)
    assert {"before_gain", "after_gain", "revision_gain", "over_random_critic", "kl"} <= found.keys()
    assert all(isinstance(value, float) for (value,) in found.values())


@pytest.mark.slow
def test_the_channel_is_not_trained_and_the_same_network_plays_all_others(tmp_path: Path) -> None:
    world = build_world(load_recipe("critique_revise", SMALL), 0, ignore)
    play = SelfPlay(world, tmp_path, ignore)
    episodes = play.rollouts(0).episodes
    assert list(play.policies) == ["solver"]
    assert {turn.role for e in episodes for turn in e.turns if turn.tokens is not None} == {
        "proposer",
        "critic",
        "reviser",
    }
    assert all(turn.tokens is None for e in episodes for turn in e.turns if turn.node == "received")


def network(seed: int) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).double()


SHOWN = [
    TrainingSequence([1, 5, 6, 7, 8], [2, 3, 4], None, [0, 0, 0], "writer", "e", 2),
    TrainingSequence([1, 9, 4], [2], None, [0], "critic-1", "e", 2),
    TrainingSequence([1, 9, 5], [2], None, [0], "critic-2", "e", 2),
]


@pytest.mark.parametrize("weights", [{}, {"critic": 4.0}, {"critic-2": 0.5, "writer": 2.0}])
def test_the_loss_is_the_mean_weighted_by_role(weights: dict[str, float]) -> None:
    net = network(0)
    total = norm = 0.0
    for shown in SHOWN:
        weight = weights.get(shown.role, weights.get(shown.role.partition("-")[0], 1.0))
        logps = net(torch.tensor([shown.ids])).logits[0].detach().log_softmax(-1)
        for at in shown.positions:
            total -= weight * float(logps[at - 1, shown.ids[at]])
            norm += weight
    learner = Learner(SimpleNamespace(network=net), OptimizerConfig(lr=1e-3), seed=0)
    assert learner.sft(SHOWN, weights)["loss"] == pytest.approx(total / norm, rel=1e-9)


@pytest.mark.parametrize("role", ["critics", "channel", "checker"])
def test_a_weight_of_who_does_not_learn_is_a_fault(role: str) -> None:
    with pytest.raises(SourceError, match=f"warm_start.weights.{role}: '{role}' is no role that a policy plays"):
        load_recipe("critique_revise", {f"warm_start.weights.{role}": 2.0})


def test_a_weight_is_above_zero() -> None:
    with pytest.raises(SourceError, match=r"warm_start.weights.critic"):
        load_recipe("critique_revise", {"warm_start.weights.critic": 0})
