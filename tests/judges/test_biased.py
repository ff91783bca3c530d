"""A judge with planted biases: what it is planted with is what a randomised experiment finds."""

from __future__ import annotations

import itertools
import math

import pytest

from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.biased import BiasedJudge
from arena.protocols import ConfigError
from arena.protocols.records import Quote, VerdictStatus
from arena.testing import check_judge

SPEC = "biased:accuracy=.8,position=.15,length=.1,self=.1"


def case(
    right: int = 0,
    longer: int | None = None,
    own: int | None = None,
    *,
    key: str = "k",
    answers: tuple[str, ...] = ("x", "y"),
) -> JudgeView:
    statements = [
        Statement(
            "ann",
            answer,
            "because" * (2 if answer == longer else 1),
            family="biased" if answer == own else "other",
        )
        for answer in range(len(answers))
    ]
    return JudgeView(key, "?", answers, statements, label=right, answers_argued=tuple(range(len(answers))))


def exchanged(view: JudgeView) -> JudgeView:
    """The same case with its two answers presented in the other order."""
    statements = [
        Statement(said.role, 1 - (said.answer or 0), said.text, family=said.family) for said in view.statements
    ]
    answers = (view.answers[1], view.answers[0])
    return JudgeView(view.key, "?", answers, statements[::-1], label=1 - (view.label or 0), answers_argued=(0, 1))


@pytest.mark.parametrize(
    ("view", "chance"),
    [
        (case(), 0.8 + 0.075),
        (case(right=1), 0.8 - 0.075),
        (case(longer=0), 0.8 + 0.075 + 0.05),
        (case(longer=1, own=1), 0.8 + 0.075 - 0.05 - 0.05),
        (case(right=1, longer=1, own=1), 0.8 - 0.075 + 0.05 + 0.05),
        (case(right=1, longer=0, own=0), 0.8 - 0.075 - 0.05 - 0.05),
    ],
)
def test_the_chance_of_the_right_answer_is_the_sum_of_accuracy_and_half_of_each_bias(
    view: JudgeView, chance: float
) -> None:
    (verdict,) = JUDGES.build(SPEC).judge([view])
    assert verdict.evidence["p_right"] == pytest.approx(chance)


def test_each_bias_is_the_difference_that_having_the_feature_makes() -> None:
    judge = BiasedJudge(0.5, position=0.15, length=-0.2, self_preference=0.1)
    for right in (0, 1):
        assert judge.chances(case(right))[0] - judge.chances(exchanged(case(right)))[1] == pytest.approx(0.15)
        assert judge.chances(case(right, longer=0))[0] - judge.chances(case(right, longer=1))[0] == pytest.approx(-0.2)
        assert judge.chances(case(right, own=0))[0] - judge.chances(case(right, own=1))[0] == pytest.approx(0.1)


def test_with_more_answers_a_bias_is_taken_evenly_from_the_others() -> None:
    judge = BiasedJudge(0.4, position=0.2, length=0.1)
    first, second, third, fourth = judge.chances(case(right=1, longer=2, answers=("a", "b", "c", "d")))
    assert (first, second) == (pytest.approx(0.2 + 0.15 - 0.025), pytest.approx(0.4 - 0.05 - 0.025))
    assert (third, fourth) == (pytest.approx(0.2 - 0.05 + 0.075), pytest.approx(0.2 - 0.05 - 0.025))


def test_drawn_choices_have_the_planted_chances() -> None:
    judge = JUDGES.build(SPEC, seed=1)
    views = [case(right=1, longer=1, own=0, key=str(number)) for number in range(4000)]
    right = sum(verdict.choice == 1 for verdict in judge.judge(views)) / 4000
    assert right == pytest.approx(0.8 - 0.075 + 0.05 - 0.05, abs=4 * math.sqrt(0.2 / 4000))


def test_presentations_of_a_case_share_their_coin_so_that_a_bias_flips_its_share_of_them() -> None:
    judge = JUDGES.build("biased:accuracy=.7,position=.2")
    views = [case(right=number % 2, key=str(number)) for number in range(4000)]
    here, there = judge.judge(views), judge.judge([exchanged(view) for view in views])
    flipped = [one.choice == two.choice for one, two in zip(here, there, strict=True)]  # the same place, not answer
    assert sum(flipped) / 4000 == pytest.approx(0.2, abs=4 * math.sqrt(0.16 / 4000))
    kept = [one.choice for one, flip in zip(here, flipped, strict=True) if flip]
    assert set(kept) == {0}, "whatever the bias flips, it chooses the first answer in both orders"


def test_another_seed_or_key_throws_another_coin() -> None:
    views = [case(key=str(number)) for number in range(50)]
    choices = [
        [verdict.choice for verdict in JUDGES.build("biased:accuracy=.5", seed=seed).judge(views)] for seed in (0, 1)
    ]
    assert choices[0] != choices[1]
    assert set(choices[0]) == {0, 1}
    assert JUDGES.build(SPEC, seed=0).name != JUDGES.build(SPEC, seed=1).name
    assert JUDGES.build(f"{SPEC},seed=1", seed=0).name == JUDGES.build(SPEC, seed=1).name


@pytest.mark.parametrize(
    ("spec", "confidence"),
    [("biased:accuracy=.8", 0.8), ("biased:accuracy=.8,confidence=.95", 0.95), ("biased:accuracy=.3", 0.51)],
)
def test_the_choice_has_the_accuracy_as_its_probability_or_the_confidence_that_is_given(
    spec: str, confidence: float
) -> None:
    (verdict,) = JUDGES.build(spec).judge([case()])
    assert verdict.choice is not None
    assert math.exp(verdict.logps[verdict.choice]) == pytest.approx(confidence)


def test_quotes_count_for_the_length_where_nothing_else_is_heard() -> None:
    statements = [
        Statement("ann", 0, "", (Quote("b3=2", verified=True),)),
        Statement("bob", 1, "", (Quote("b3=2 c4=1", verified=True),)),
    ]
    view = JudgeView("k", "?", ("x", "y"), statements, label=1, answers_argued=(0, 1))
    assert BiasedJudge(0.8, length=0.2).chances(view)[1] == pytest.approx(0.9)


def test_biases_without_room_are_refused_with_the_way_out() -> None:
    with pytest.raises(ConfigError, match=r"accuracy=0.9 has no room .* add up to 0.35: .* at most 0.2"):
        JUDGES.build("biased:accuracy=.9,position=.15,length=.1,self=.1")
    with pytest.raises(ConfigError, match=r"confidence=0\.5 is that of no choice"):
        BiasedJudge(confidence=0.5)
    (verdict,) = JUDGES.build(SPEC).judge([case(right=1, longer=0, own=0, answers=tuple("abcde"))])
    assert verdict.status is VerdictStatus.ABSTAIN
    assert "below 0" in verdict.evidence["reason"]


def test_without_a_label_it_abstains_and_it_is_certain_where_it_is_always_right() -> None:
    unknown = case()
    unknown.label = None
    assert JUDGES.build(SPEC).judge([unknown])[0].evidence["reason"] == "the task has no label"
    (verdict,) = JUDGES.build("biased:accuracy=1").judge([case(right=1)])
    assert verdict.logps == (-30.0, 0.0)


def test_it_keeps_the_promises_of_judges() -> None:
    check_judge(
        JUDGES.build(SPEC),
        lambda: [
            case(right, longer, own, key=f"{number}")
            for number, (right, longer, own) in enumerate(itertools.product((0, 1), (None, 0, 1), (None, 0, 1)))
        ],
    )
