"""What a training will take, by hand."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from arena.cli.app import app
from arena.training.plan import plan_training
from arena.training.recipe import load_recipe


def test_a_plan_counts_what_will_be_played_and_held() -> None:
    recipe = load_recipe("facts", {"self_play.league.mix": {"mirror": 0.5, "history": 0.5}})
    plan = plan_training(recipe)
    config = recipe.self_play
    assert plan.steps == config.generations * config.steps
    assert plan.episodes == plan.steps * config.tasks * config.group
    # Two rounds of two debaters, one token a turn.
    assert (plan.turns, plan.tokens_a_step) == (4, 4 * config.tasks * config.group)
    assert plan.members == 1 + config.generations
    (policy,) = plan.policies.values()
    assert policy.trained == policy.parameters
    assert policy.roles == ["first", "second"]
    # Four bytes for each: the weight, gradient, two moments, three references, and six members.
    assert plan.megabytes == policy.parameters * 4 * 13 / 1e6


def test_of_an_adapter_the_adapter_alone_is_trained_and_the_base_held_once() -> None:
    two = {
        "policies.debater.binding": "adapter",
        "policies.other": {"model": {"kind": "tiny", "words": "a b"}, "binding": "adapter"},
    }
    base = load_recipe("facts", {"policies.debater.binding": "adapter"})
    words = base.policies["debater"].model
    both = load_recipe(
        "facts", {**two, "policies.other.model": words, "roles": {"first": "debater", "second": "other"}}
    )
    one, pair = plan_training(base), plan_training(both)
    adapter = one.policies["debater"].trained
    assert 0 < adapter < one.policies["debater"].parameters / 2
    assert pair.policies["other"].trained == adapter
    assert pair.policies["debater"].parameters == one.policies["debater"].parameters + adapter
    # A second adapter: its weight, gradient, two moments and three references.
    assert round((pair.megabytes - one.megabytes) * 1e6) == adapter * 4 * 7


def test_the_command_line_tells_the_plan_and_trains_nothing() -> None:
    told = CliRunner().invoke(app, ["train", "facts", "--dry-run"])
    assert told.exit_code == 0, told.output
    assert "most sampled tokens a step" in told.output
    plain = json.loads(CliRunner().invoke(app, ["train", "facts", "--dry-run", "--json"]).stdout)
    assert plain["recipe"] == "facts"
    assert plain["policies"]["debater"]["roles"] == ["first", "second"]
