"""Recipes: what is wrong with one is told at once, all of it, at its place and with the way out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from arena.protocols.errors import ConfigError, SourceError
from arena.training.judge_recipes import load_any_recipe
from arena.training.recipe import Recipe, load_recipe, recipes
from arena.training.recipe_checks import check_recipe
from arena.training.trainers import TRAINERS

SOUND = """\
recipe: sound
tasks: facts
protocol: evidence-debate
roles: {first: debater, second: debater}
judge: {kind: exact}
policies:
  debater: {model: {kind: tiny, words: a b}}
warm_start:
  steps: 5
  learner: {lr: 5e-3}
  demonstrations:
    - {protocol: evidence-debate, agent: random-quotes}
self_play:
  learner: {lr: 3e-3}
evaluation:
  arms:
    debate: {protocol: evidence-debate, lineup: generations}
    full: {protocol: evidence-oracle}
  exploiter: greedy-quotes
  same_judge: true
"""


def faults(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    """The faults of the sound recipe after replacements, without the name of the file."""
    text = SOUND
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file = tmp_path / "r.yaml"
    file.write_text(text)
    with pytest.raises(SourceError) as caught:
        load_recipe(file)
    return [line.removeprefix(f"{file}:") for line in str(caught.value).splitlines()]


def test_shipped_recipes_load_and_say_what_they_are(tmp_path: Path) -> None:
    assert {"digits", "facts"} <= set(recipes())
    assert all(recipes().values())
    for name in recipes():
        assert load_any_recipe(name).recipe == name
    (tmp_path / "r.yaml").write_text(SOUND)
    assert load_recipe(tmp_path / "r.yaml").recipe == "sound"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("tasks: facts", "tasks: fact", "2:8: tasks: 'fact' is not a known task set. Did you mean 'facts'?"),
        ("tasks: facts", "tasks: 'facts:sed=1'", "2:8: tasks: 'sed' is not an argument of task set 'facts'."),
        ("tasks: facts", "tasks: 'facts:seed=x'", "2:8: tasks: 'seed' of task set 'facts' must be a whole number"),
        ("tasks: facts", "tasks: none.jsonl", "2:8: tasks: there is no file"),
        ("protocol: evidence-debate\nroles", "protocol: evidence-debat\nroles", "3:11: protocol: there is no protocol"),
        ("protocol: evidence-debate\nroles", "protocol: none.yaml\nroles", "3:11: protocol: "),
        ("roles:", "params: {round: 3}\nroles:", "4:17: params.round: 'round' is not a param of"),
        ("second: debater}", "second: debater, thrid: silent}", "4:42: roles.thrid: 'thrid' is a role of no protocol"),
        ("second: debater}", "second: debater, judge: silent}", "4:42: roles.judge: 'judge' does not speak"),
        (", second: debater}", "}", "4:1: roles: nobody plays 'second', who speaks in protocol 'evidence-debate'"),
        (
            "second: debater}",
            "second: debatr}",
            "4:33: roles.second: 'debatr' is neither a policy of this recipe nor a",
        ),
        ("second: debater}", "second: 'fixed:txt=a'}", "4:33: roles.second: 'txt' is not an argument of agent 'fixed'"),
        ("kind: exact", "kind: exakt", "5:15: judge.kind: 'exakt' is not a known judge. Did you mean 'exact'?"),
        (
            "{kind: exact}",
            "{kind: exact, args: {a: 1}}",
            "5:29: judge.args.a: 'a' is not an argument of judge 'exact'.",
        ),
        ("{kind: exact}", "{kind: exact, train: {steps: 1}}", "5:22: judge.train: judge 'exact' cannot be trained"),
        ("{kind: exact}", "{kind: llm, args: {model: smolm2}}", "5:34: judge.args.model: 'smolm2' is neither"),
        ("policies:", "distractors: {train: 2}\npolicies:", "6:1: distractors: judge 'exact' does not tell"),
        ("words: a b}}", "words: a b}}\n  idle: {model: smollm2}", "8:3: policies.idle: no role plays 'idle'"),
        ("kind: tiny", "kind: tinny", "7:20: policies.debater.model: 'tinny' is not a kind of model."),
        ("words: a b}}", "words: a b}, lora: {r: 4}}", "7:46: policies.debater.lora: 'lora' has no effect"),
        ("words: a b}}", "words: a b}, binding: adapter, lora: {rank: 4}}", "'rank' is not an argument of a LoRA."),
        ("agent: random-quotes", "agent: random-quote", "12:42: warm_start.demonstrations[0].agent: 'random-quote'"),
        (
            "{protocol: evidence-debate, agent",
            "{protocol: evidence-oracle, agent",
            "warm_start.demonstrations[0].protocol: nobody speaks in protocol 'evidence-oracle'",
        ),
        (", lineup: generations", "", "17:5: evaluation.arms.debate: who plays first, second of protocol"),
        (
            "lineup: generations",
            "lineup: generation",
            "write generation:path=... Did you mean 'generations'?",
        ),
        ("lineup: generations", "lineup: lats", "is neither 'last' nor 'generations' nor a known agent. Did you mean"),
        ("evidence-oracle}", "evidence-oracle, lineup: last}", "18:39: evaluation.arms.full.lineup: nobody speaks in"),
        ("evidence-oracle", "evidence-oracel", "18:22: evaluation.arms.full.protocol: there is no protocol"),
        ("evidence-oracle}", "evidence-oracle, params: {a: 1}}", "18:51: evaluation.arms.full.params.a: 'a' is not a"),
        ("greedy-quotes", "gredy-quotes", "19:14: evaluation.exploiter: 'gredy-quotes' is not a known agent."),
        ("exploiter: greedy-quotes", "exploiter_tasks: 3", "19:3: evaluation.exploiter_tasks: there is no exploiter"),
    ],
)
def test_what_is_named_must_exist_and_fit(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = faults(tmp_path, (old, new))
    assert expected in found[0]
    assert len(found) == 1


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{lr: 5e-3}", "{kl: {beta: 0.1}}", "10:13: warm_start.learner.kl: 'kl' is not a key here."),
        ("{lr: 5e-3}", "{epochs: 2}", "10:13: warm_start.learner.epochs: 'epochs' is not a key here."),
        ("{lr: 5e-3}", "{final: 0.1}", "10:13: warm_start.learner.final: 'final' has no effect with a constant"),
        ("{lr: 3e-3}", "{total_steps: 9}", "14:13: self_play.learner.total_steps: 'total_steps' has no effect"),
        ("{lr: 3e-3}", "{kl: {form: additive}}", "14:18: self_play.learner.kl.form: 'form' has no effect while beta"),
        ("{lr: 3e-3}", "{kl: {floor: 0.0}}", "14:18: self_play.learner.kl.floor: 'floor' has no effect while beta"),
        ("{lr: 3e-3}", "{max_kl: 1, kl: {beta: 0}}", "14:12: self_play.learner: max_kl pulls back to the reference"),
        ("{lr: 3e-3}", "{objective: {clip_low: 0.1}}", "14:25: self_play.learner.objective.clip_low: it has no effect"),
        ("{lr: 3e-3}", "{}\n  league: {sides: [[first], [second]]}", "15:12: self_play.league.sides: it has no effect"),
        ("{lr: 3e-3}", "{}\n  alarms: {anchors: 0.2}", "15:12: self_play.alarms.anchors: it has no effect"),
        (
            "{lr: 3e-3}",
            "{}\n  generations: 1\n  reference: {at: generation}",
            "16:15: self_play.reference.at: it has no effect: with one generation that is start",
        ),
    ],
)
def test_a_key_that_would_change_nothing_is_a_fault(tmp_path: Path, old: str, new: str, expected: str) -> None:
    (found,) = faults(tmp_path, (old, new))
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ("first: debater", "first: 'openai:model=m,cache=kept'", "roles.first"),
        ("first: debater", "first: {kind: hf, model: a/b, cache: kept}", "roles.first"),
        ("agent: random-quotes", "agent: 'smollm2:cache=kept'", "warm_start.demonstrations[0].agent"),
    ],
)
def test_no_turn_of_training_comes_from_a_cache(tmp_path: Path, old: str, new: str, place: str) -> None:
    (found,) = faults(tmp_path, (old, new))
    assert f"{place}: training draws every turn anew, and none comes from a cache: remove 'cache'" in found


def test_what_is_measured_after_training_may_come_from_a_cache(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    file.write_text(SOUND.replace("exploiter: greedy-quotes", "exploiter: 'smollm2:cache=kept'"))
    assert load_recipe(file).evaluation.exploiter == "smollm2:cache=kept"


def test_keys_that_do_something_are_not_faults(tmp_path: Path) -> None:
    text = SOUND.replace("{lr: 5e-3}", "{schedule: linear, final: 0.2, total_steps: 5}")
    text = text.replace(
        "{lr: 3e-3}", "{max_kl: 1, kl: {target: 0.5, form: additive, gain: 0.2, floor: 0.01, ceiling: 9}}"
    )
    (tmp_path / "r.yaml").write_text(text)
    assert load_recipe(tmp_path / "r.yaml").self_play.learner.kl.gain == 0.2


def test_all_faults_are_told_at_once_in_the_order_of_the_file(tmp_path: Path) -> None:
    found = faults(
        tmp_path, ("tasks: facts", "tasks: fact"), ("kind: exact", "kind: exakt"), ("greedy-quotes", "gredy-quotes")
    )
    assert [line.split(":")[0] for line in found] == ["2", "5", "19"]


def test_faults_of_a_protocol_file_are_told_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text("name: p\nfields: [answers]\n")
    found = faults(tmp_path, ("protocol: evidence-debate\nroles", "protocol: p.yaml\nroles"))
    assert any("p.yaml:1:1" in line and "'roles' is missing" in line for line in found)


def test_a_protocol_that_pairings_cannot_be_made_of(tmp_path: Path) -> None:
    """evidence-consultancy has one role that argues: generations cannot be paired there, nor exploited."""
    found = faults(
        tmp_path,
        ("protocol: evidence-debate\nroles", "protocol: evidence-consultancy\nroles"),
        (", second: debater}", "}"),
        ("{protocol: evidence-debate, agent", "{protocol: evidence-consultancy, agent"),
        ("debate: {protocol: evidence-debate, lineup", "debate: {protocol: evidence-consultancy, lineup"),
    )
    assert len(found) == 1
    assert found[0].startswith("19:3: evaluation.exploiter: it needs two roles that argue")


def test_a_protocol_without_rewards_cannot_be_trained_on(tmp_path: Path) -> None:
    found = faults(tmp_path, ("protocol: evidence-debate\nroles", "protocol: evidence-oracle\nroles"))
    assert any(line.startswith("3:11: protocol: protocol 'evidence-oracle' has no 'rewards:'") for line in found)


def test_a_policy_that_nothing_shows_or_rewards(tmp_path: Path) -> None:
    found = faults(
        tmp_path,
        ("second: debater}", "second: other}"),
        ("words: a b}}", "words: a b}}\n  other: {model: smollm2}"),
        ("{protocol: evidence-debate, agent", "{protocol: evidence-consultancy, agent"),
    )
    assert [line.split(":")[2].strip() for line in found] == ["warm_start.demonstrations"]
    assert "no demonstration shows a role of policy 'other'" in found[0]


def test_a_recipe_that_was_not_read_from_a_file_is_checked_without_places() -> None:
    recipe = load_recipe("facts")
    check_recipe(recipe)
    # As a run directory keeps it: every key is written out there.
    check_recipe(Recipe.model_validate(recipe.model_dump(exclude_unset=True)))
    with pytest.raises(SourceError, match="recipe 'facts':0:0: tasks: 'fact' is not"):
        check_recipe(recipe.model_copy(update={"tasks": "fact"}))


def test_what_a_recipe_can_train_is_there() -> None:
    assert all(callable(TRAINERS.factory(name)) for name in TRAINERS.names())


def test_values_on_the_command_line_are_read_as_in_files() -> None:
    recipe = load_recipe(
        "facts",
        [
            "self_play.learner.lr=3e-3",
            "self_play.learner.clip_norm=null",
            "self_play.reference.at=generation",
            "judge.train.size=[0, 1]",
            "summary='3'",
            "tasks={kind: facts, seed: 4}",
            "evaluation.arms.random.lineup=fixed:text=12:30",
        ],
    )
    learner = recipe.self_play.learner
    assert (learner.lr, learner.clip_norm, recipe.self_play.reference.at) == (0.003, None, "generation")
    assert recipe.judge.train is not None
    assert recipe.judge.train["size"] == [0, 1]
    assert (recipe.summary, recipe.tasks) == ("3", {"kind": "facts", "seed": 4})
    assert recipe.evaluation.arms["random"].lineup == "fixed:text=12:30"


@pytest.mark.parametrize(
    ("overrides", "error", "message"),
    [
        (["self_play.stepz=3"], SourceError, r":0:0: self_play.stepz: 'stepz' is not a key here"),
        (["self_play.lerner.lr=3"], SourceError, r":0:0: self_play.lerner: 'lerner' is not a key here"),
        (["self_play.learner.lr=fast"], SourceError, r":0:0: self_play.learner.lr: 'fast' is not a number"),
        (["evaluation.exploiter=gredy-quotes"], SourceError, r":0:0: evaluation.exploiter: 'gredy-quotes' is not a"),
        (["recipe.x=1"], SourceError, "'recipe' is not a mapping"),
        (["self_play.steps"], ConfigError, "is not key=value"),
        (["judge.train.size=[0, 1"], ConfigError, "is no list or mapping"),
        ({"roles": {"first": "random-quotes", "second": "silent"}}, SourceError, "no role plays a trained policy"),
    ],
)
def test_overrides_that_cannot_be_are_told_by_their_name(overrides: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        load_recipe("facts", overrides)


def test_a_recipe_that_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'digits'"):
        load_recipe("digit")


def test_validating_a_recipe_needs_no_torch() -> None:
    code = "import sys; from arena.cli.validate import check; from arena.training.recipe import LIBRARY; "
    code += "print(check(LIBRARY / 'digits.yaml'), check(LIBRARY / 'facts.yaml'), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "recipe digits recipe facts False\n"


def test_a_judge_prompt_is_compiled_before_anything_is_trained(tmp_path: Path) -> None:
    judge = "{kind: llm, args: {model: smollm2, prompt: \"{{ evidence | join(' ') }}\"}}"
    (fault,) = faults(tmp_path, ("{kind: exact}", judge))
    assert fault.startswith("5:")
    assert "judge.args.prompt: 'evidence' in the judge's prompt is nothing that a judge knows" in fault


SOCIETY = """\
name: society
fields: [answers, evidence]
roles:
  debater: {argues: 0, count: 2, sees: [answers, evidence]}
  helper: {sees: [answers]}
  judge: {sees: [answers]}
nodes:
  speech: {speak: debater}
  help: {speak: helper}
  verdict: {judge: judge}
edges: [start -> speech -> help -> verdict -> end]
rewards: {verdict: verdict, value: margin}
"""


def society(tmp_path: Path, roles: str) -> Path:
    (tmp_path / "society.yaml").write_text(SOCIETY)
    text = SOUND.replace("protocol: evidence-debate", "protocol: society.yaml")
    text = text.replace("{first: debater, second: debater}", roles).replace("  exploiter: greedy-quotes\n", "")
    (tmp_path / "r.yaml").write_text(f"{text}  tournament: 0\n")
    return tmp_path / "r.yaml"


def test_a_counted_role_is_filled_as_a_whole_or_seat_by_seat(tmp_path: Path) -> None:
    recipe = load_recipe(society(tmp_path, "{debater: debater, helper: silent}"))
    assert [recipe.policy_of(role) for role in ("debater-1", "debater-2", "helper")] == ["debater", "debater", None]
    recipe = load_recipe(society(tmp_path, "{debater: debater, debater-2: silent, helper: silent}"))
    assert [recipe.policy_of(role) for role in ("debater-1", "debater-2")] == ["debater", None]
    assert recipe.filler_of("debater-2") == "silent"
    with pytest.raises(SourceError, match=r"roles: nobody plays 'debater-2', who speaks in protocol 'society'"):
        load_recipe(society(tmp_path, "{debater-1: debater, helper: silent}"))
    with pytest.raises(ConfigError, match="recipe 'sound' does not say who plays 'judge'"):
        recipe.policy_of("judge")


def test_a_policy_in_roles_that_earn_nothing_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="protocol 'society' pays no role of 'debater', so no reward trains it"):
        load_recipe(society(tmp_path, "{debater: silent, helper: debater}"))


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (
            "",
            "15:1: evaluation: the judge that rewards must not report the result: name another one in evaluation.judge",
        ),
        (
            "judge: {kind: exact}",
            "20:3: evaluation.judge: this is the judge 'exact' that rewards training: name another",
        ),
        ("judge: {kind: macth}", "20:17: evaluation.judge.kind: 'macth' is not a known judge. Did you mean 'match'?"),
        (
            "same_judge: true\n  judge: {kind: match}",
            "20:3: evaluation.same_judge: it contradicts evaluation.judge: remove one of the two",
        ),
        (
            "judge: {kind: panel, judges: [exact]}",
            "20:24: evaluation.judge.judges: 'judges' is not a key here.",
        ),
        (
            "judge: {kind: panel, args: {judges: [match, 'biased:acuracy=1']}}",
            "20:47: evaluation.judge.args.judges[1]: 'judges' of judge 'panel', number 2: 'acuracy' is not an argument",
        ),
        (
            "judge: {kind: rubric, args: {model: smollm2, criteria: [a], temprature: 1}}",
            "20:63: evaluation.judge.args.temprature: 'temprature' is not an argument of judge 'rubric'.",
        ),
        (
            "judge: {kind: llm, args: {model: smollm2}, train: {prompt: a, lr: -1}}",
            "20:69: evaluation.judge.train.lr: 'lr' of training a judge 'llm' must be greater than 0",
        ),
    ],
)
def test_the_judge_that_rewards_does_not_report(tmp_path: Path, new: str, expected: str) -> None:
    (fault,) = faults(tmp_path, ("same_judge: true", new))
    assert fault.startswith(expected)


def test_another_judge_or_a_twin_trained_from_another_seed_may_report(tmp_path: Path) -> None:
    judge = "judge: {kind: match, max_undecidable: 0.1}"
    (tmp_path / "r.yaml").write_text(SOUND.replace("same_judge: true", judge))
    assert load_recipe(tmp_path / "r.yaml").evaluation.judge is not None
    facts = load_recipe("facts")
    assert facts.evaluation.judge == facts.judge
    with pytest.raises(SourceError, match="must not report"):
        load_recipe("facts", {"evaluation.judge": None})
