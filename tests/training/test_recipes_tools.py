"""The recipe `tools`, in a few steps, and what its protocol pays."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.agents import AGENTS
from arena.engine import Engine, Plan
from arena.judges.nobody import NoJudge
from arena.protocols import load_protocol
from arena.protocols.records import Episode, Task
from arena.rewards import pay
from arena.tasks import open_tasks
from arena.training.launch import launch
from arena.training.recipe import load_recipe
from arena.training.study import runs_of, study_metrics

SMALL = {
    "tasks": "chains:train=50,test=20",
    "warm_start.steps": 3,
    "warm_start.fresh": 2,
    "warm_start.tasks": 8,
    "warm_start.learner.total_steps": 3,
    "warm_start.learner.warmup": 1,
    "self_play.steps": 2,
    "self_play.tasks": 3,
    "self_play.group": 2,
    "self_play.learner.total_steps": 2,
    "self_play.learner.warmup": 1,
    "evaluation.transcripts": 1,
}


def played(agent: str, params: dict[str, float]) -> tuple[Episode, list[float | None]]:
    protocol = load_protocol("column-arithmetic", params)
    (task,) = open_tasks("chains:train=0,test=1", seed=1).test
    (episode,) = Engine(protocol, {}, seed=0).play(
        [Plan("k", task, dict.fromkeys(protocol.speakers, AGENTS.build(agent)))]
    )
    (payoff,) = pay(protocol, NoJudge(), [episode], {task.id: task})
    return episode, payoff.rewards


def paid(agent: str, role: str, **params: float) -> list[float | None]:
    episode, rewards = played(agent, params)
    return [reward for turn, reward in zip(episode.turns, rewards, strict=True) if turn.role == role]


RIGHT = "chains-demonstrator:pair=1,sign=1,stop=0,slip=0"
MISLED = "chains-demonstrator:pair=1,sign=0,stop=0,slip=0"
SLIPS = "chains-demonstrator:pair=1,sign=1,stop=0,slip=1"


def test_the_planner_earns_the_answer_less_the_calls_and_the_executor_its_own_calls() -> None:
    assert paid(RIGHT, "planner") == pytest.approx([0.8, 0.8, 0.8])
    assert paid(RIGHT, "executor") == [1, 1, 1]
    assert paid(SLIPS, "planner") == [0, 0, 0]
    assert paid(SLIPS, "executor") == [0, 0, 0]
    assert paid(MISLED, "planner") == [0, 0, 0]
    assert paid(MISLED, "executor") == [1, 1, 1]  # as planned, whatever comes of it


def test_flat_pay_is_the_same_for_both() -> None:
    assert paid(RIGHT, "executor", high=1, low=0) == pytest.approx([0.8, 0.8, 0.8])
    assert paid(SLIPS, "executor", high=1, low=0) == [0, 0, 0]


def test_without_the_tool_every_call_fails_and_the_episode_goes_on() -> None:
    episode, rewards = played(RIGHT, {"aided": False})
    assert [(t.text, t.status.value) for t in episode.turns if t.node == "result"] == [("? ? ?", "tool_error")] * 2
    assert {reward for turn, reward in zip(episode.turns, rewards, strict=True) if turn.role == "planner"} == {0.0}
    assert episode.stop == "end"


def test_who_finds_no_answer_in_time_is_paid_nothing() -> None:
    _, rewards = played(RIGHT, {"steps": 2})
    assert [reward for reward in rewards if reward is not None] == [0, 1, 0, 1]


def test_every_arm_trains_and_gives_the_numbers_that_the_recipe_is_about(tmp_path: Path) -> None:
    recipe = load_recipe("tools")
    folders = {}
    for run in runs_of([0], recipe.variants):
        longer = {"tasks": "chains:train=50,test=20,operands=5"} if run.variant.startswith("long") else {}
        arm = load_recipe("tools", {**run.overrides, **SMALL, **longer})
        launch(arm, tmp_path / run.name, seed=0, created="2026-01-31", on_event=lambda event: None)
        folders[run.name] = tmp_path / run.name
    values = study_metrics(recipe.metrics, [0], folders)
    assert {"before", "sampled", "greedy", "calls_correct", "unaided", "kl"} <= values.keys()
    assert all(value is not None for (value,) in values.values())


def test_only_what_a_role_said_itself_is_trained(tmp_path: Path) -> None:
    """The tool's words are in the stream of both policies and train neither; failed calls are trained like others."""
    from arena.agents.encoders import WordEncoder
    from arena.protocols.words import expand_words
    from arena.training.sequences import sequences_of

    recipe = load_recipe("tools")
    words = str(recipe.policies["executor"].model["words"])  # type: ignore[index]
    encoder = WordEncoder(expand_words(words))
    protocol = load_protocol("column-arithmetic")
    (task,) = open_tasks("chains:train=0,test=1", seed=1).test
    agent = AGENTS.build(SLIPS).encode_with(encoder, "p")  # type: ignore[attr-defined]
    (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", task, dict.fromkeys(protocol.speakers, agent))])
    for role, nodes in (("planner", {"plan"}), ("executor", {"call"})):
        (sequence,) = sequences_of(episode, {role}, demonstrations=True, train_thinking=False)
        trained = [sequence.ids[position] for position in sequence.positions]
        said = " ".join(turn.text for turn in episode.turns if turn.node in nodes)
        assert encoder.decode(trained) == said
        assert len(sequence.ids) > len(trained)


def test_a_task_of_the_recipe_fits_the_words_of_its_policies() -> None:
    from arena.protocols.words import expand_words

    recipe = load_recipe("tools")
    known = set(expand_words(str(recipe.policies["planner"].model["words"])))  # type: ignore[index]
    task: Task = open_tasks(recipe.tasks, seed=0).test[0]
    shown = [task.fields["question"], *task.fields["moves"], task.fields["solution"], "? ? ?"]
    assert {word for text in shown for word in text.split()} <= known
