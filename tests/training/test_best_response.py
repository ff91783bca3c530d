"""A trained best response beside the exact one, and what a recipe may ask of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from arena.protocols.errors import SourceError
from arena.running import stored_tasks
from arena.store import Store
from arena.training.best_response import _of, responding
from arena.training.launch import Outcome, launch
from arena.training.recipe import BestResponseRecipe, load_recipe
from arena.training.study import metrics_rows

RPS: dict[str, Any] = {
    "self_play.steps": 1, "self_play.group": 64, "self_play.probes": {"exact": {"kind": "nash_conv"}},
    "self_play.learner.lr": 1e-2, "metrics": {}, "variants": {},
}  # fmt: skip


def train(tmp_path: Path, changed: dict[str, Any] | None = None, **response: Any) -> Outcome:
    recipe = load_recipe("rps", {**RPS, **(changed or {}), "evaluation.best_response": response})
    return launch(recipe, tmp_path, seed=0, created="now", on_event=lambda event: None)


def test_a_trained_response_wins_what_the_exact_one_wins(tmp_path: Path) -> None:
    found = train(tmp_path, steps=40, held_out=1, samples=4000).response
    assert found is not None
    (*_, exact) = [row["nash_conv"] for row in metrics_rows(tmp_path / "metrics.jsonl") if row["phase"] == "probe"]
    assert exact > 0.5  # a biased player: paper wins most of the time
    assert found.gain.value == pytest.approx(exact, abs=0.05)
    assert found.gain.value == pytest.approx(sum(side.value for side in found.sides.values()))
    assert found.gain.low < found.gain.value < found.gain.high
    assert set(found.sides) == {"left", "right"}
    assert found.against == "gen1"


def test_a_strong_pull_to_the_champion_finds_little(tmp_path: Path) -> None:
    found = train(tmp_path, steps=10, kl=1e4, held_out=1, samples=4000).response
    assert found is not None
    assert abs(found.gain.value) < 0.2


def test_the_response_meets_the_champion_alone_and_nothing_stops_it() -> None:
    recipe = load_recipe("digits")
    own = responding(recipe, BestResponseRecipe(steps=30))
    play = own.self_play
    assert play.league.mix == {"latest": 1.0}
    assert (play.generations, play.steps, play.learner.total_steps) == (1, 30, 30)
    assert (play.learner.kl.beta, play.learner.kl.target, play.learner.max_kl) == (0.0, None, None)
    assert play.gate is None
    assert own.warm_start is None
    assert (play.credit, play.objective, play.group) == (
        recipe.self_play.credit,
        recipe.self_play.objective,
        recipe.self_play.group,
    )


def test_the_schedule_is_of_the_response_and_a_ceiling_of_the_champion_does_not_bind_it() -> None:
    learner = {"epochs": 2, "minibatches": 3, "schedule": "linear", "warmup": 20, "total_steps": 5000}
    learner |= {"kl": {"beta": 0.1, "target": 0.5, "ceiling": 1.0}}
    recipe = load_recipe("rps", {"self_play.learner": learner})
    own = responding(recipe, BestResponseRecipe(steps=30, kl=2.0)).self_play.learner
    assert (own.total_steps, own.warmup, own.schedule) == (180, 18, "linear")
    assert (own.kl.beta, own.kl.target) == (2.0, None)


def test_a_role_that_no_reward_pays_wins_nothing_and_hides_nothing() -> None:
    won: dict[str, float | None] = {"left": 0.5, "right": None}
    assert _of(frozenset({"left", "helper"}), won) == 0.5
    assert _of(frozenset({"helper"}), won) == 0.0
    assert math.isnan(_of(frozenset({"left", "right"}), won))


def test_the_tasks_of_all_its_games_are_kept_beside_them(tmp_path: Path) -> None:
    train(tmp_path, {"tasks": "blank:test=3", "evaluation.tasks": 1}, steps=1, held_out=3)
    with Store.open(tmp_path, create=False) as store:
        run = store.run()
        played = {episode.task for stage in run.stages() for episode in run.episodes(stage)}
        assert len(played) == 3
        assert played == stored_tasks(run).keys()


def test_where_one_side_plays_nobody_can_respond() -> None:
    with pytest.raises(SourceError, match=r"evaluation\.best_response: one side only is trained"):
        load_recipe(
            "critique_revise",
            {
                "evaluation.best_response": {"steps": 1},
                "self_play.league": {"sides": [["proposer", "critic", "reviser"]]},
            },
        )
