import pytest
import torch

from arena.judges import JudgeView, Statement
from arena.protocols.errors import ConfigError, UnknownNameError
from arena.protocols.records import Quote, Task
from arena.tasks import TaskSet
from arena.tasks.facts import facts
from arena.training.judge_training import build_judge, train_classifier_judge, train_llm_judge

PROMPT = "claims {{ answers | join(' ') }} evidence {{ items | join(' ') }} verdict"
TINY = {"kind": "tiny", "words": "claims evidence verdict ann bob {ann,bob}+{1..9}", "hidden": 16, "intermediate": 32}


def coloured(count: int) -> list[Task]:
    """The first word tells the class, the second nothing."""
    return [
        Task(f"t{i}", {"class": f"c{i % 3}", "answers": (f"c{i % 3}", "c9"), "evidence": [f"k{i % 3}", f"n{i % 5}"]}, 0)
        for i in range(count)
    ]


def test_a_classifier_learns_what_the_evidence_tells_and_no_more():
    steps = []
    judge = train_classifier_judge(
        coloured(60),
        items="k{0..2} n{0..4}",
        labels="c{0..2} c9",
        size=(1, 1),
        steps=150,
        batch=64,
        hidden=16,
        test=coloured(30),
        progress=lambda step, of, metrics: steps.append((step, of)),
    )
    # one of two words is shown: the class is certain half of the time, and one third otherwise
    assert judge.report["accuracy"] == pytest.approx(0.5 + 0.5 / 3, abs=0.03)
    said = Statement("", 0, "", (Quote("k2", verified=True),))
    assert judge.judge([JudgeView("", "", ("c0", "c2"), [said])])[0].logps[1] > -0.2  # certain but for weight decay
    assert steps == [(50, 150), (100, 150), (150, 150)]


def test_a_language_model_learns_to_answer_from_quotes():
    state = torch.random.get_rng_state()
    tasks = facts(seed=1, train=3000, test=300)
    judge, report = build_judge(
        "llm", {"model": TINY, "prompt": PROMPT}, {"size": [6, 8], "steps": 150, "batch": 64}, tasks, seed=0
    )
    assert report["accuracy"] > 0.65  # four standard errors above chance are 0.54
    view = JudgeView("", "", ("bob", "ann"), [Statement("", 0, "", (Quote("ann+9", True), Quote("bob+1", True)))])
    assert judge.judge([view])[0].choice == 1
    assert torch.equal(state, torch.random.get_rng_state())


def test_the_same_seed_gives_the_same_instrument():
    tasks = coloured(30)
    names = [
        train_classifier_judge(tasks, items="k{0..2} n{0..4}", labels="c{0..9}", steps=5, hidden=8, seed=seed).name
        for seed in (0, 0, 1)
    ]
    assert names[0] == names[1] != names[2]
    small = facts(train=50, test=0).train
    names = [train_llm_judge(small, model=TINY, prompt=PROMPT, steps=3, batch=16, seed=seed).name for seed in (0, 0, 1)]
    assert names[0] == names[1] != names[2]


def test_mistakes_are_told_before_anything_is_trained():
    tasks = TaskSet("t", coloured(6), [])
    args = {"items": "k{0..2} n{0..4}", "labels": "c{0..9}"}
    with pytest.raises(ConfigError, match=r"'step' is not an argument of training a judge 'classifier'.*'steps'"):
        build_judge("classifier", args, {"step": 1}, tasks)
    for wrong in ({"steps": "abc"}, {"steps": 0}, {"batch": 0}, {"lr": -1}, {"size": "x"}, {"size": [1, 2, 3]}):
        with pytest.raises(ConfigError, match=f"'{min(wrong)}' of training a judge 'classifier' must be"):
            build_judge("classifier", args, wrong, tasks)
    with pytest.raises(ConfigError, match="'exact' cannot be trained"):
        build_judge("exact", {}, {}, tasks)
    with pytest.raises(UnknownNameError, match="Did you mean 'classifier'"):
        build_judge("classifer", args, {}, tasks)
    with pytest.raises(ConfigError, match="needs 'items'"):
        build_judge("classifier", {}, {}, tasks)
    with pytest.raises(ConfigError, match="class 'c2' is none of the 2 labels"):
        build_judge("classifier", {**args, "labels": "c0 c1"}, {}, tasks)
    with pytest.raises(ConfigError, match="matches none of the 8 items"):
        build_judge("classifier", args, {"prefer": "zz"}, tasks)
    with pytest.raises(ConfigError, match="not a regular expression"):
        build_judge("classifier", args, {"prefer": "("}, tasks)
    with pytest.raises(ConfigError, match="no tasks to train"):
        build_judge("classifier", args, {}, TaskSet("t", [], []))
    with pytest.raises(ConfigError, match="'c0' is not in the model's vocabulary"):
        build_judge("llm", {"model": TINY, "prompt": PROMPT}, {"steps": 1}, tasks)


def test_a_judge_that_is_not_trained_is_built_as_it_is():
    judge, report = build_judge("exact", {}, None, TaskSet("t", [], []))
    assert judge.sees_label
    assert report == {}
