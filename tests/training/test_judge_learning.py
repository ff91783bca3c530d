"""Language models that learn to judge: what is trained, and that it is trained towards what is paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from arena.judges.llm import LLMJudge
from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote
from arena.protocols.registry import Spec
from arena.training.judge_data import Example
from arena.training.judge_learning import Reading, check_apart, readings
from arena.training.judge_learning_config import SFT, PolicyGradient
from arena.training.judge_policy_gradient import (
    PolicyGradientTrainer,
    Presented,
    _by_token,
    _sequences,
    agreement,
)
from arena.training.judge_sft import SFTTrainer

WORDS = "x verdict red blue {red,blue}+{1..3}"
TINY = {"kind": "tiny", "words": WORDS, "hidden": 16, "intermediate": 16, "layers": 1, "heads": 2}
START = Spec("llm", {"model": TINY, "prompt": "x {{ answers | join(' ') }} {{ items | join(' ') }} verdict"})


def example(number: int, *quotes: str, label: int | None = 0) -> Example:
    said = Statement("", None, "", tuple(Quote(word, verified=True) for word in quotes))
    view = JudgeView(f"v{number}", "", ("red", "blue"), [said], answers_argued=(0, 1))
    return Example(view, label, f"q{number}")


def coloured() -> list[Example]:
    """The answer is the colour of the only marble."""
    pairs = [(f"{colour}+{n}", label) for label, colour in enumerate(("red", "blue")) for n in (1, 2, 3)]
    return [example(number, word, label=label) for number, (word, label) in enumerate(pairs)]


def method(kind: type[Any], **settings: Any) -> Any:
    return kind.model_validate({"kind": kind.model_fields["kind"].default, **settings})


def right(judge: LLMJudge, examples: Sequence[Example]) -> float:
    verdicts = judge.judge([each.view for each in examples])
    return sum(v.choice == each.label for v, each in zip(verdicts, examples, strict=True)) / len(examples)


# What is trained


def test_a_judge_is_trained_on_the_ids_that_it_is_read_by() -> None:
    judge = SFTTrainer(method(SFT), START, seed=0).judge()
    first, second = readings(judge, example(0, "red+1").view)
    encode = judge.model.encoder.encode_turn
    red, blue = (tuple(encode(word, end=False)) for word in ("red", "blue"))
    assert first.prompt[-2:] == second.prompt[-2:]
    assert first.prompt != second.prompt  # the other order of the answers
    assert dict(zip(first.forms, first.answers, strict=True)) == {red: 0, blue: 1}
    sequence = first.sequence(first.forms.index(blue), "k")
    assert sequence.ids == [*first.prompt, *blue]
    assert [sequence.ids[at] for at in sequence.positions] == list(blue)


def test_a_step_is_a_function_of_seed_and_number_alone() -> None:
    def run(skip: bool) -> str:
        trainer = SFTTrainer(method(SFT, batch=2), START, seed=1)
        trainer.begin(coloured())
        trainer.step(0)
        if skip:
            state = trainer.state_dict()
            trainer = SFTTrainer(method(SFT, batch=2), START, seed=1)
            trainer.load_state_dict(state)
            trainer.begin(coloured())
        trainer.step(1)
        return trainer.judge().name

    assert run(skip=False) == run(skip=True)


def test_a_judge_that_was_taken_is_not_changed_by_later_steps() -> None:
    trainer = SFTTrainer(method(SFT, batch=6), START, seed=1)
    trainer.begin(coloured())
    judge = trainer.judge()
    before = [v.logps for v in judge.judge([each.view for each in coloured()])]
    trainer.step(0)
    fresh = LLMJudge(judge.model, START.args["prompt"])
    assert [v.logps for v in fresh.judge([each.view for each in coloured()])] == before
    assert trainer.judge().name != judge.name


def test_an_adapter_leaves_the_base_as_it_is() -> None:
    trainer = SFTTrainer(method(SFT, batch=6, binding="adapter", lora={"r": 2}), START, seed=1)
    frozen = {n: p.clone() for n, p in trainer.model.network.named_parameters() if not p.requires_grad}
    trainer.begin(coloured())
    trainer.step(0)
    after = dict(trainer.model.network.named_parameters())
    assert frozen
    assert all(torch.equal(after[name], tensor) for name, tensor in frozen.items())


def test_what_the_model_cannot_read_is_told_with_its_key() -> None:
    trainer = SFTTrainer(method(SFT), START, seed=0)
    with pytest.raises(ConfigError, match="'v3' cannot be learned from: "):
        trainer.begin([example(3, "green+1")])


# Imitation and rewards


@pytest.mark.parametrize("kind", [SFT, PolicyGradient])
def test_a_judge_learns_what_the_labels_say(kind: type[Any]) -> None:
    rate = {"lr": 1e-2} if kind is SFT else {"lr": 1e-2, "kl": {"beta": 0.0}}
    config = method(kind, batch=6, learner=rate)
    trainer = config.build(START, seed=2)
    trainer.begin(coloured())
    assert right(trainer.judge(), coloured()) < 0.9
    for number in range(40):
        trainer.step(number)
    assert right(trainer.judge(), coloured()) == 1.0


def test_sampled_verdicts_teach_as_the_expectation_does() -> None:
    config = method(PolicyGradient, batch=6, samples=4, learner={"lr": 1e-2, "kl": {"beta": 0.0}})
    trainer = config.build(START, seed=2)
    trainer.begin(coloured())
    for number in range(50):
        trainer.step(number)
    assert right(trainer.judge(), coloured()) == 1.0


def test_a_judge_paid_for_consistency_alone_needs_no_labels() -> None:
    rewards = {"correct": 0.0, "consistent": 1.0}
    config = method(PolicyGradient, batch=6, rewards=rewards, learner={"lr": 1e-2, "kl": {"beta": 0.0}})
    assert not config.needs_labels
    trainer = config.build(START, seed=2)
    trainer.begin([example(number, word, label=None) for number, word in enumerate(("red+1", "blue+1", "red+2"))])
    rows = [trainer.step(number) for number in range(40)]
    assert rows[0]["agreement"] < 0.8 < rows[-1]["agreement"]
    assert "accuracy" not in rows[0]


# The gradient, by hand


def presented(question: int, probs: Sequence[float], answers: Sequence[int] = (0, 1), label: int = 0) -> Presented:
    reading = Reading((7,), tuple((n,) for n in range(len(answers))), tuple(answers))
    logps = [[math.log(p) if p else -math.inf] for p in probs]
    return Presented(question, example(question, label=label), reading, logps, np.array(probs))


def test_verdicts_agree_with_those_of_the_other_orders_of_their_question() -> None:
    found = agreement([presented(0, (0.9, 0.1)), presented(0, (0.3, 0.7)), presented(1, (1.0, 0.0))])
    assert found[0] == pytest.approx([0.3, 0.7])
    assert found[1] == pytest.approx([0.9, 0.1])
    assert found[2] == pytest.approx([0.0, 0.0])  # one order only


def test_advantages_are_those_of_the_expected_reward() -> None:
    probs, rewards = np.array([0.6, 0.3, 0.1]), np.array([1.0, 0.0, 1.0])
    one = presented(0, probs, answers=(0, 1, 0))
    made = _sequences([one], [rewards])
    # loss = -(1/3) sum A_f log p_f; its gradient at logit k of a softmax is p_k (E r - r_k).
    weights = np.array([sequence.advantages[0] for sequence in made]) / 3
    gradient = -(weights - probs * weights.sum())
    assert gradient == pytest.approx(probs * (probs @ rewards - rewards))


def test_a_verdict_that_was_not_sampled_is_not_trained() -> None:
    one = presented(0, (0.0, 1.0))
    assert [sequence.ids[-1] for sequence in _sequences([one], [np.array([1.0, 0.0])])] == [1]


def test_verdicts_are_drawn_among_the_forms_token_by_token() -> None:
    reading = Reading((7,), ((1,), (2, 3), (2, 4)), (0, 0, 1))
    sums = [math.log(0.2), math.log(0.1), math.log(0.03), math.log(0.1), math.log(0.01)]
    logps = _by_token(reading, sums)
    assert np.exp(logps[0]) == pytest.approx([2 / 3])
    assert np.exp(logps[1]) == pytest.approx([1 / 3, 0.75])
    assert np.exp(logps[2]) == pytest.approx([1 / 3, 0.25])
    assert reading.choices(1) == [(1, 2), (3, 4)]


def test_one_answer_that_begins_with_another_cannot_be_sampled() -> None:
    with pytest.raises(ConfigError, match="one answer begins with another"):
        check_apart(Reading((7,), ((1,), (1, 2)), (0, 1)))


def test_the_first_step_checks_that_what_is_trained_is_what_was_read() -> None:
    trainer = PolicyGradientTrainer(method(PolicyGradient, batch=6), START, seed=0)
    trainer.begin(coloured())
    metrics = trainer.step(0)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-4)
    assert metrics["kl_per_turn"] == pytest.approx(0.0, abs=1e-6)
