"""docs/objectives.md and `arena ls objectives` name what there is, and the lines of recipes that they name work."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app
from arena.training.judge_methods import METHODS
from arena.training.objectives.catalogue import OBJECTIVES
from arena.training.recipe import LIBRARY, load_recipe

TEXT = (Path(__file__).parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
FUNCTIONS = TEXT.partition("## From the survey")[2].partition("## Where the survey")[0]
TABLE = FUNCTIONS.partition("## Large vocabularies")[0]
ERRATA = TEXT.partition("## Where the survey")[2].partition("## Choices")[0]
OBJECTIVE_FILES = Path(importlib.import_module("arena.training.objectives").__file__ or "").parent
NAMED = sorted(set(re.findall(r"`([a-z_]+)\.([A-Za-z_]+)`", FUNCTIONS)))
PLUMBING = {
    "actor_critic.entropy", "aggregate.aggregate", "aggregate.masked_sum", "aggregate.token_weights",
    "catalogue.OBJECTIVES", "catalogue.Objective", "kl.kl_from_logps", "policy_gradient.PolicyLoss",
    "policy_gradient.policy_loss", "precision.wide", "precision.widened", "preference.Pairs", "preference.Replies",
    "supervised.IGNORE", "supervised.nll_from_logits", "supervised.whiten", "value_based.expectile",
}  # fmt: skip
"""Parts of objectives."""
LINE = re.compile(r"[a-z_]+(?:\.[a-z_]+)+: .+")


def found(module: str, name: str) -> bool:
    folder = "objectives." if (OBJECTIVE_FILES / f"{module}.py").is_file() else ""
    return name in importlib.import_module(f"arena.training.{folder}{module}").__all__


def public() -> set[str]:
    files = sorted(OBJECTIVE_FILES.glob("[a-z]*.py"))
    modules = {path.stem: importlib.import_module(f"arena.training.objectives.{path.stem}") for path in files}
    return {f"{stem}.{name}" for stem, module in modules.items() for name in module.__all__}


def accept(line: str) -> None:
    """A line of a recipe, tried on one."""
    key, _, value = line.partition(": ")
    if key == "train.kind":
        assert value in METHODS
        return
    more = {"self_play.learner.objective.norm_const": 64.0} if value == "dr_grpo" else {}
    if "clip" in key:
        more["self_play.learner.epochs"] = 2  # with one step a rollout the ratio is 1, and a clip has no effect
    recipe = load_recipe("facts", [f"{key}={value}", *(f"{name}={number}" for name, number in more.items())])
    assert recipe != load_recipe("facts") or value == "ppo" or line in DEFAULTS


DEFAULTS = {
    "self_play.credit.estimator: group",
    "self_play.credit.scale: batch",
    "self_play.learner.kl.estimator: exact",
}
"""Lines that say what holds anyhow."""


# -- the document


@pytest.mark.parametrize(("module", "name"), NAMED, ids=[".".join(each) for each in NAMED])
def test_functions_exist(module: str, name: str) -> None:
    assert found(module, name)


def test_every_public_function_of_the_objectives_is_in_the_table() -> None:
    assert not public() - {f"{module}.{name}" for module, name in NAMED} - PLUMBING


def test_recipes_exist() -> None:
    known = {path.stem for path in LIBRARY.glob("*.yaml")}
    lines = 0
    for row in TABLE.splitlines():
        cell = row.rpartition("|")[0].rpartition("|")[2]
        for name in re.findall(r"`([^`]+)`", re.sub(r"(?:protocol|judge) `[^`]+`", "", cell)):
            if LINE.fullmatch(name):
                accept(name)
                lines += 1
            else:
                assert name in known, name
    assert lines >= 15


def test_every_erratum_is_told_and_used() -> None:
    told = set(re.findall(r"^\| (E\d+) \|", ERRATA, re.M))
    assert told == {f"E{number}" for number in range(1, 15)}
    assert set(re.findall(r"\bE\d+\b", TABLE)) - {"E3"} <= told
    assert told <= set(re.findall(r"\bE\d+\b", TABLE))


def test_every_choice_is_told() -> None:
    choices = TEXT.partition("## Choices")[2].partition("## Beside")[0]
    assert re.findall(r"^(\d+)\. ", choices, re.M) == [str(number) for number in range(1, 16)]


# -- the list


@pytest.mark.parametrize("objective", OBJECTIVES, ids=[one.name for one in OBJECTIVES])
def test_what_is_listed_exists(objective: tuple[str, ...]) -> None:
    _, _, paper, function, recipe = objective
    module, _, name = function.partition(".")
    assert found(module, name)
    assert paper
    if recipe:
        accept(recipe)


def test_names_are_listed_once() -> None:
    names = [one.name for one in OBJECTIVES]
    assert len(set(names)) == len(names)


def test_every_public_function_of_the_objectives_is_listed() -> None:
    parts = PLUMBING | {"token_logps.token_logps", "token_logps.token_logps_and_entropy", "policy_gradient.score_loss"}
    assert not public() - {one.function for one in OBJECTIVES} - parts


def test_the_command_prints_them_without_torch() -> None:
    result = CliRunner().invoke(app, ["ls", "objectives", "--json"])
    rows = json.loads(result.stdout)
    assert rows[0] == {
        "name": "ppo",
        "family": "policy gradient",
        "paper": "Schulman et al. 2017, 1707.06347",
        "function": "policy_gradient.ppo_policy",
        "recipe": "self_play.objective: ppo",
    }
    assert len(rows) == len(OBJECTIVES)
    table = CliRunner().invoke(app, ["ls", "objectives"])
    assert table.exit_code == 0
    assert table.stdout.split()[:3] == ["name", "family", "paper"]
    code = "import sys, arena.cli.ls as ls; ls.names(ls.Kind.OBJECTIVES); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
