"""Recipes that train judges: what is wrong with one is told at once, at its place and with the way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from arena.protocols.errors import SourceError
from arena.training.judge_data import DATA
from arena.training.judge_methods import METHODS
from arena.training.judge_recipes import (
    JudgeTraining,
    judge_recipe_schema,
    load_any_recipe,
    load_judge_recipe,
)
from arena.training.recipe import Recipe, load_recipe

SOUND = """\
recipe: sound
trains: judge
judge: {kind: llm, args: {model: {kind: tiny, words: a b}, prompt: "{{ answers }} a"}}
data: {kind: quotes, tasks: facts}
labels: {by: truth}
train:
  kind: policy-gradient
  learner: {lr: 3e-3}
"""


def told(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    """The faults of the sound recipe after replacements, without the name of the file."""
    text = SOUND
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(SourceError) as caught:
        load_judge_recipe(file)
    return [line.removeprefix(f"{file}:") for line in str(caught.value).splitlines()]


def test_a_sound_recipe_loads_and_is_told_from_one_of_self_play(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text(SOUND)
    recipe = load_any_recipe(tmp_path / "r.yaml", ["train.samples=4"])
    assert isinstance(recipe, JudgeTraining)
    assert recipe.method.model_dump()["samples"] == 4
    assert isinstance(load_any_recipe("facts"), Recipe)
    with pytest.raises(SourceError, match=r"r\.yaml:2:1: trains: this recipe trains a judge"):
        load_recipe(tmp_path / "r.yaml")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("trains: judge", "trains: cat", "2:9: trains: 'cat' is not one of 'judge'"),
        ("kind: llm", "kind: lm", "3:15: judge.kind: 'lm' is not a known judge. Did you mean 'llm'?"),
        ("kind: llm", "kind: exact", "7:9: train.kind: 'policy-gradient' trains llm, not a judge 'exact'"),
        ("words: a b", "wrods: a b", "3:34: judge.args.model: model 'tiny' needs 'words'"),
        ("{{ answers }}", "{{ answrs }}", "3:68: judge.args.prompt: 'answrs' in the judge's prompt is nothing"),
        ("model: {kind: tiny, words: a b}, ", "", "3:26: judge.args: a judge that is trained begins with either model"),
        ("kind: quotes", "kind: quots", "4:7: data: 'quots' is not a known judge data. Did you mean 'quotes'?"),
        ("tasks: facts", "tasks: fact", "4:29: data.tasks: 'fact' is not a known task set. Did you mean 'facts'?"),
        ("tasks: facts", "tasks: facts, siz: 3", "4:36: data.siz: 'siz' is not an argument of judge data 'quotes'"),
        ("by: truth", "by: trooth", "5:14: labels.by: 'trooth' is neither truth nor self nor a known judge."),
        ("by: truth", "rounds: 2", "5:10: labels.rounds: 'rounds' has no effect unless the judge labels itself"),
        ("by: truth", "soft: true", "5:10: labels.soft: 'soft' has no effect on labels of the data"),
        ("kind: policy-gradient", "kind: ppo", "7:9: train.kind: 'ppo' is no way to train a judge"),
        ("lr: 3e-3", "lr: -1", "8:17: train.learner.lr: "),
        ("lr: 3e-3", "lr: .inf", "8:17: train.learner.lr: inf is no finite number"),
        ("lr: 3e-3", "lr: .nan", "8:17: train.learner.lr: nan is no finite number"),
        ("lr: 3e-3", "lr: 1e9", "8:17: train.learner.lr: 1000000000.0 is not less than or equal to"),
        ("lr: 3e-3}", "lr: 3e-3}\n  steps: 1000000000000000000000", "9:10: train.steps: "),
        ("tasks: facts", "tasks: facts, drop: .inf", "4:42: data.drop: inf is no finite number"),
        ("tasks: facts", "tasks: facts, drop: 2", "4:42: data.drop: 'drop' of judge data 'quotes' must be less than"),
        (
            "kind: llm, args: {",
            "kind: llm, args: {temperature: .nan, ",
            "3:40: judge.args.temperature: nan is no finite",
        ),
        ("kind: llm, args: {", "kind: llm, args: {compare: al, ", "3:36: judge.args.compare: 'compare' of judge 'llm'"),
        ("kind: llm, args: {", "kind: llm, args: {comparre: all, ", "3:27: judge.args.comparre: 'comparre' is not an"),
        ("by: truth", "by: 'llm:modl=smollm2'", "5:14: labels.by: 'modl' is not an argument of judge 'llm'"),
        (
            "by: truth",
            "by: {kind: panel, judges: [exact, 'biased:acuracy=1']}",
            "5:44: labels.by.judges[1]: 'judges' of judge 'panel', number 2: 'acuracy' is not an argument",
        ),
        ("lr: 3e-3", "epochs: 2", "8:13: train.learner.epochs: 'epochs' must be 1 with samples: exact"),
        ("lr: 3e-3}", "lr: 3e-3}\n  lora: {r: 4}", "9:3: train.lora: 'lora' has no effect with binding 'full'"),
        ("lr: 3e-3}", "lr: 3e-3}\n  rewards: {correct: 0}", "9:12: train.rewards: nothing is paid for"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (fault,) = told(tmp_path, (old, new))
    assert fault.startswith(expected)


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    found = told(tmp_path, ("tasks: facts", "tasks: fact"), ("by: truth", "by: trooth"), ("lr: 3e-3", "lr: 0"))
    assert [line.partition(":")[0] for line in found] == ["4", "5", "8"]


def test_labels_of_which_nothing_is_paid_are_a_fault(tmp_path: Path) -> None:
    changes = ("by: truth", "by: self"), ("lr: 3e-3}", "lr: 3e-3}\n  rewards: {correct: 0, consistent: 1}")
    assert told(tmp_path, *changes)[0].startswith("5:1: labels: 'policy-gradient' pays for nothing that a label says")


def test_a_protocol_and_its_agents_are_looked_up(tmp_path: Path) -> None:
    played = "{kind: played, tasks: facts, protocol: evidence-debat, agents: random-quots}"
    found = told(tmp_path, ("{kind: quotes, tasks: facts}", played))
    assert "4:46: data.protocol: there is no protocol" in found[0]
    assert "data.agents: 'random-quots' is not a known agent" in found[1]


def test_checking_needs_no_torch() -> None:
    code = "import sys; from arena.training.judge_recipes import load_judge_recipe as load; "
    code += "load('judge_sft'); load('judge_pg'); load('judge_rlaif'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_every_source_and_method_is_there() -> None:
    assert {"quotes", "played", "run"} <= set(DATA.names())
    for name in METHODS.names():
        method = METHODS.factory(name)
        assert method.model_fields["kind"].default == name  # type: ignore[attr-defined]
    for name in DATA.names():
        assert callable(DATA.factory(name))


def test_the_schema_has_the_settings_of_every_method() -> None:
    kinds = {each["properties"]["kind"]["const"] for each in judge_recipe_schema()["properties"]["train"]["oneOf"]}
    assert kinds == set(METHODS.names())
