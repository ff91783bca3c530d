import pytest

from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.exact import stated_answer
from arena.judges.verdicts import FLOOR, decide, normalise
from arena.protocols.records import VerdictStatus

ANSWERS = ("Paris", "a concrete wall", "con")


def view(text="", answers=ANSWERS, label=None):
    return JudgeView("k", "Where?", answers, [Statement("first", 0, text)], label=label)


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("Paris", 0),
        ("  paris. ", 0),
        ("**A Concrete   Wall**", 1),
        ("B", 1),
        ("(b)", 1),
        ("C)", 2),
        ("A) Paris", 0),
        ("Answer: B", 1),
        ("The final answer is: Con!", 2),
        ("It is in France.\nAnswer: A", 0),
        ("A\nParis", 0),
        ("\uff21", 0),  # full-width A
    ],
)
def test_a_stated_answer_is_read(text, index):
    assert stated_answer(text, ANSWERS) == (index, "")


@pytest.mark.parametrize(
    "text",
    [
        "concrete",  # begins with 'con'
        "I concur with the economist",  # 'con' in words
        "con and pro",
        "Paris is not the answer",
        "A wall",
        "A) con",  # letter and text disagree
        "D",
        "",
        "a is for apple",
    ],
)
def test_nothing_is_guessed(text):
    assert stated_answer(text, ANSWERS)[0] is None


def test_two_stated_answers_contradict_and_letters_yield_to_answers_that_are_letters():
    judge = JUDGES.build("match")
    assert judge.judge([view("A\nB")])[0].status is VerdictStatus.CONTRADICTORY
    assert judge.judge([view("dunno")])[0].status is VerdictStatus.PARSE_ERROR
    assert judge.judge([JudgeView("k", "", ANSWERS)])[0].status is VerdictStatus.ABSTAIN
    assert stated_answer("B", ("B", "A")) == (0, "")
    assert stated_answer("Straße", ("STRASSE", "x y")) == (0, "")


def test_exact_knows_the_label_and_abstains_without_one():
    judge = JUDGES.build("exact")
    assert judge.sees_label
    right, unknown, outside = judge.judge([view(label=2), view(), view(label=3)])
    assert right.choice == 2
    assert right.logps == (FLOOR, FLOOR, 0.0)
    assert right.margin(2) == -FLOOR
    assert unknown.status is outside.status is VerdictStatus.ABSTAIN
    assert "no label" in unknown.evidence["reason"]


def test_numbers_become_verdicts_by_the_same_rules_everywhere():
    assert normalise([1000.0, 1000.0]) == pytest.approx((-0.6931471805599453,) * 2)
    assert decide("j", (-0.5, -0.5), {}).status is VerdictStatus.TIE
    assert decide("j", (-0.1, -2.0), {}).choice == 0
    assert decide("j", (float("nan"), -2.0), {}).status is VerdictStatus.ABSTAIN
