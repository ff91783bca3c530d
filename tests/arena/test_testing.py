"""The conformance checks accept what keeps its promises and name what is broken."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena.judges import JudgeView, Statement
from arena.judges.exact import ExactJudge, MatchJudge
from arena.protocols import library, load_protocol
from arena.protocols.errors import ConfigError, SourceError
from arena.protocols.records import Task, Verdict, VerdictStatus
from arena.testing import check_judge, check_protocol, made_up_tasks
from arena.testing.protocols import _Trial

PRIVATE = """
name: private
fields: [question, answers, passage, hint?]
roles:
  ann: {argues: 0, sees: [question, answers, passage]}
  bob: {argues: 1, sees: [question, answers, hint]}
  judge: {sees: [question, answers]}
nodes:
  note: {speak: ann, prompt: "{{ passage }}", to: [judge]}
  reply: {speak: bob, limit: {words: 5}}
  close: {speak: ann, quote: passage}
  verdict: {judge: judge}
edges:
  - start -> note -> reply & close -> verdict -> end
rewards: {verdict: verdict, value: margin, zero_sum: true}
"""


@pytest.fixture
def private(tmp_path: Path) -> Path:
    path = tmp_path / "private.yaml"
    path.write_text(PRIVATE)
    return path


@pytest.mark.parametrize("name", library())
def test_shipped_protocols_keep_their_promises(name: str) -> None:
    check_protocol(name)


def test_a_file_can_be_checked_and_its_faults_are_told(private: Path) -> None:
    check_protocol(private, seed=5)
    private.write_text(PRIVATE.replace("speak: bob", "speak: bop"))
    with pytest.raises(SourceError, match="bop"):
        check_protocol(private)


def test_tasks_are_made_up_by_what_a_protocol_does_with_their_fields(private: Path) -> None:
    first, second = made_up_tasks(load_protocol(private), 2)
    assert first.fields.keys() == {"question", "answers", "passage", "hint"}
    assert second.fields.keys() == {"question", "answers", "passage"}
    assert (len(first.answers), first.label) == (2, 0)
    assert first.fields["passage"] != second.fields["passage"]
    (task,) = made_up_tasks(load_protocol("evidence-debate"), 1)
    assert isinstance(task.fields["evidence"], list)


def test_tasks_that_do_not_fit_are_told(private: Path) -> None:
    with pytest.raises(ConfigError, match="task 't' lacks 'passage'"):
        check_protocol(private, [Task("t", {"question": "?", "answers": ["x", "y"]})])


@pytest.fixture
def trial(private: Path) -> _Trial:
    protocol = load_protocol(private)
    made = _Trial(protocol, made_up_tasks(protocol), 0)
    made.play(concurrency=3)
    made.check()
    return made


def mark(trial: _Trial, node: str) -> str:
    """The mark in what was said at a node in the first episode."""
    return next(turn for turn in trial.episodes[0].turns if turn.node == node).text.split()[0]


def told(trial: _Trial, node: str) -> list[str]:
    """The texts that were shown at a node in the first episode, to be tampered with."""
    key = trial.episodes[0].key
    return next(texts for ask, texts in trial.asks if (ask.episode, ask.node) == (key, node))


def test_a_turn_that_was_for_others_is_found(trial: _Trial) -> None:
    told(trial, "reply").append(f"ann: {mark(trial, 'note')}")
    with pytest.raises(AssertionError, match="'bob' was shown at 'reply' turn 0 of 'ann', which is not for it"):
        trial.check()


def test_a_turn_of_the_same_superstep_is_found(trial: _Trial) -> None:
    told(trial, "close").append(f"bob: {mark(trial, 'reply')}")
    with pytest.raises(AssertionError, match="'ann' was shown at 'close' turn 1 of 'bob'"):
        trial.check()


def test_a_field_that_is_not_for_the_role_is_found(trial: _Trial) -> None:
    passage = trial.tasks[trial.episodes[0].task].fields["passage"]
    told(trial, "reply").append(passage)
    with pytest.raises(AssertionError, match="'bob' was shown at 'reply' the field 'passage', which it does not see"):
        trial.check()


def test_what_a_judge_must_not_know_is_found(trial: _Trial) -> None:
    seat, view = trial.views[0]
    trial.views[0] = (seat, replace(view, fields={"passage": "?"}))
    with pytest.raises(AssertionError, match="judge 'judge' was shown the field 'passage'"):
        trial.check()


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda e: setattr(e, "stop", ""), "ended without a reason"),
        (lambda e: setattr(e, "error", "note: down"), "ended in an error: note: down"),
        (lambda e: setattr(e.turns[1], "text", "one two three four five six"), "6 words, 5 are allowed"),
        (lambda e: setattr(e.turns[0], "superstep", 7), "supersteps are mixed"),
    ],
)
def test_what_an_episode_must_not_be_is_found(trial: _Trial, change: Callable[[Any], None], broken: str) -> None:
    change(trial.episodes[0])
    with pytest.raises(AssertionError, match=broken):
        trial.check()


def views() -> list[JudgeView]:
    said = Statement("ann", 0, "Paris")
    return [
        JudgeView("one", "?", ("Paris", "Rome"), [said], answers_argued=(0, 1)),
        JudgeView("two", "?", ("Rome", "Paris", "Bern"), [said], answers_argued=(0, 1, 2)),
        JudgeView("three", "?", ("Rome", "Oslo"), [said], answers_argued=(0, 1)),
    ]


@pytest.mark.parametrize("judge", [MatchJudge(), ExactJudge()])
def test_shipped_judges_keep_their_promises(judge: MatchJudge | ExactJudge) -> None:
    check_judge(judge, views)


class Judge:
    """Gives the same verdict on every view, but for the place in the batch if it is ``unfair``."""

    name = "test"
    sees_label = False

    def __init__(self, verdict: Verdict, *, unfair: bool = False) -> None:
        self.verdict_ = verdict
        self.unfair = unfair

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        other = Verdict(VerdictStatus.ABSTAIN, self.name, evidence={"reason": "late"})
        return [self.verdict_ if place == 0 or not self.unfair else other for place in range(len(views))]


HALF = (math.log(0.5), math.log(0.5))
CLEAR = (math.log(0.9), math.log(0.1))


@pytest.mark.parametrize(
    ("judge", "broken"),
    [
        (Judge(Verdict(VerdictStatus.SCORED, "test", HALF)), "is a tie"),
        (Judge(Verdict(VerdictStatus.TIE, "test", CLEAR)), "has one best answer"),
        (Judge(Verdict(VerdictStatus.SCORED, "test", CLEAR, stated=4)), "answer 4 is stated"),
        (Judge(Verdict(VerdictStatus.ABSTAIN, "test")), "gives its reason"),
        (Judge(Verdict(VerdictStatus.SCORED, "test", CLEAR), unfair=True), "the views in reverse order: status"),
    ],
)
def test_a_judge_that_breaks_a_promise_is_named(judge: Judge, broken: str) -> None:
    with pytest.raises(AssertionError, match=broken):
        check_judge(judge, lambda: [views()[0], views()[2]])
