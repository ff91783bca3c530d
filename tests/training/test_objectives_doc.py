"""The table of docs/objectives.md names what there is."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from arena.training.recipe import LIBRARY

TEXT = (Path(__file__).parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
TABLE = TEXT.partition("## From the survey")[2].partition("## Where the survey")[0]
OBJECTIVES = Path(importlib.import_module("arena.training.objectives").__file__ or "").parent
NAMED = sorted(set(re.findall(r"`([a-z_]+)\.([A-Za-z_]+)`", TABLE)))


@pytest.mark.parametrize(("module", "name"), NAMED, ids=[".".join(each) for each in NAMED])
def test_functions_exist(module: str, name: str) -> None:
    if (module, name) == ("self_play", "learner"):
        return
    folder = "objectives." if (OBJECTIVES / f"{module}.py").is_file() else ""
    found = importlib.import_module(f"arena.training.{folder}{module}")
    assert name in found.__all__


def test_every_public_function_of_the_objectives_is_in_the_table() -> None:
    plumbing = {"aggregate", "policy_gradient.policy_loss", "supervised.nll_from_logits", "supervised.whiten"}
    plumbing |= {"actor_critic.entropy", "kl.kl_from_logps", "value_based.expectile", "preference.Pairs"}
    plumbing |= {"preference.Replies", "policy_gradient.PolicyLoss", "supervised.IGNORE"}
    told = {f"{module}.{name}" for module, name in NAMED}
    for path in sorted(OBJECTIVES.glob("[a-z]*.py")):
        module = importlib.import_module(f"arena.training.objectives.{path.stem}")
        missing = {f"{path.stem}.{name}" for name in module.__all__} - told - plumbing
        assert path.stem in plumbing or not missing, missing


def test_recipes_exist() -> None:
    for row in TABLE.splitlines():
        cell = row.rpartition("|")[0].rpartition("|")[2]
        for name in re.findall(r"`([a-z_]+)`", cell.partition("protocol")[0]):
            known = {path.stem for path in LIBRARY.glob("*.yaml")}
            assert name in known | {"aggregate", "clip_high", "level"}, name
