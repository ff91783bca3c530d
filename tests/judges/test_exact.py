"""Programs that decide: one that knows the label, one that reads what is stated."""

import pytest

from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.verdicts import FLOOR, decide, normalise
from arena.protocols.records import VerdictStatus

ANSWERS = ("Paris", "a concrete wall", "con")


def view(text="", answers=ANSWERS, label=None):
    return JudgeView("k", "Where?", answers, [Statement("first", 0, text)], label=label)


def test_a_match_is_what_the_last_statement_states():
    judge = JUDGES.build("match")
    verdict = judge.judge([view("Answer: B")])[0]
    assert (verdict.choice, verdict.stated) == (1, 1)
    assert judge.judge([view("A\nB")])[0].status is VerdictStatus.CONTRADICTORY
    assert judge.judge([view("dunno")])[0].status is VerdictStatus.PARSE_ERROR
    assert judge.judge([JudgeView("k", "", ANSWERS)])[0].status is VerdictStatus.ABSTAIN


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
