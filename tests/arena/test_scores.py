"""Judges that say what something is worth by itself: with answers to compare, or alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from arena.agents import ScriptedAgent, from_list
from arena.engine import Engine, Plan
from arena.judges import JudgeView
from arena.judges.verdicts import scored
from arena.protocols import Protocol
from arena.protocols.errors import SourceError
from arena.protocols.records import Episode, Task, Verdict, VerdictStatus
from arena.protocols.votes import combine_verdicts
from arena.records_json import from_json, to_json
from arena.rewards import pay
from arena.running import accuracy
from arena.transcripts import format_episode

ALONE = """
name: alone
roles:
  writer: {sees: [question]}
  critic: {sees: [question]}
nodes:
  draft: {speak: writer, prompt: Write., best_of: {n: 3, by: critic, value: score}}
  grade: {judge: critic}
  again: {speak: writer, prompt: Once more.}
edges:
  - start -> draft -> grade -> end
  - {from: grade, to: again, when: grade.score < 6}
  - again -> end
rewards: {verdict: grade, roles: [writer], value: score / 10, pay: end}
"""
TASK = Task("t", {"question": "Why?"})


class Lengths:
    """The worth of the last statement, or of each answer, is the length of what was said for it."""

    name = "lengths"
    sees_label = False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        if not view.answers:
            return scored(self.name, [float(len(view.statements[-1].text))], {}, answers=0)
        said = [[s.text for s in view.statements if s.answer == index] for index in range(len(view.answers))]
        return scored(self.name, [float(sum(map(len, texts))) for texts in said], {}, answers=len(said), scale=0.5)


def played(protocol: Protocol, texts: list[str], task: Task = TASK) -> Episode:
    agent = ScriptedAgent("writer", lambda ask: texts[-1 if ask.visit or ask.node == "again" else ask.sample])
    lineup = dict.fromkeys(protocol.speakers, agent)
    return Engine(protocol, Lengths(), seed=0).play([Plan("e", task, lineup)])[0]


def test_scores_become_a_distribution_by_their_softmax() -> None:
    verdict = scored("j", [1.0, 3.0], {}, answers=2, scale=0.5)
    assert verdict.scores == (1.0, 3.0)
    assert math.exp(verdict.logps[1]) == pytest.approx(1 / (1 + math.exp(-1.0)))
    assert verdict.choice == 1
    assert [verdict.worth(index) for index in (0, 1)] == [1.0, 3.0]


def test_equal_scores_tie_and_a_score_that_is_no_number_decides_nothing() -> None:
    assert scored("j", [2.0, 2.0], {}, answers=2).status is VerdictStatus.TIE
    broken = scored("j", [math.nan, 2.0], {}, answers=2)
    assert (broken.status, broken.scores) == (VerdictStatus.ABSTAIN, ())
    assert "not finite" in broken.evidence["reason"]


def test_one_score_is_compared_with_nothing() -> None:
    verdict = scored("j", [7.5], {}, answers=0)
    assert (verdict.status, verdict.logps, verdict.choice, verdict.worth(None)) == (VerdictStatus.SCORED, (), None, 7.5)
    with pytest.raises(ValueError, match="without answers has no margin"):
        verdict.margin(0)
    with pytest.raises(ValueError, match="without answers has no score"):
        verdict.score(0)


def test_a_protocol_without_answers_is_steered_and_paid_by_scores(compiled: Callable[..., Protocol]) -> None:
    protocol = compiled(ALONE)
    episode = played(protocol, ["abc", "abcdefg", "abcde", "x"])
    assert [turn.text for turn in episode.turns if turn.kept] == ["abcdefg"]  # the longest; 7 is not below 6
    assert pay(protocol, Lengths(), [episode], {"t": TASK})[0].rewards == [None, pytest.approx(0.7), None]
    short = played(protocol, ["a", "bb", "c", "more"])
    assert [turn.text for turn in short.turns if turn.kept] == ["bb", "more"]


def test_scores_are_shown_and_stored(compiled: Callable[..., Protocol]) -> None:
    protocol = compiled(ALONE)
    episode = played(protocol, ["abc", "abcdefg", "abcde", "x"])
    assert "scored by lengths: score 7" in format_episode(episode, protocol, TASK)
    assert from_json(to_json(episode)).verdicts == episode.verdicts
    compared = Verdict(VerdictStatus.SCORED, "j", (0.0, -30.0))
    assert "scores" not in to_json(Episode("e", "p", "t", {}, (), verdicts={"v": compared}))


def test_what_has_no_answers_is_decidable_and_neither_right_nor_wrong(compiled: Callable[..., Protocol]) -> None:
    found = accuracy([played(compiled(ALONE), ["abc", "abcdefg", "abcde", "x"])], {"t": TASK})
    assert (found.interval, found.decidable, found.ties) == (None, 1, 0)


def test_a_side_is_paid_the_score_of_the_answer_that_it_argues(compiled: Callable[..., Protocol]) -> None:
    protocol = compiled(
        "name: two\nroles:\n  a: {argues: 0, sees: [answers]}\n  b: {argues: 1, sees: [answers]}\n"
        "  judge: {sees: [answers]}\nnodes:\n  one: {speak: a, prompt: Go.}\n  two: {speak: b, prompt: Go.}\n"
        "  verdict: {judge: judge}\nedges: [start -> one -> two -> verdict -> end]\n"
        "rewards: {verdict: verdict, value: score, pay: end}\n"
    )
    task = Task("t", {"answers": ("x", "y")}, 0)
    episode = Engine(protocol, Lengths(), seed=0).play(
        [Plan("e", task, {"a": from_list(["abc"]), "b": from_list(["abcde"])}, (1, 0))]
    )[0]
    assert pay(protocol, Lengths(), [episode], {"t": task})[0].rewards == [3.0, 5.0]
    assert episode.verdict is not None
    assert episode.verdict.scores == (5.0, 3.0)  # in task order: b argues the first answer here


def test_a_field_called_score_is_the_turns_own_where_turns_are_paid_one_by_one(
    compiled: Callable[..., Protocol],
) -> None:
    protocol = compiled(
        "name: own\nroles: {a: {sees: [question]}}\n"
        "nodes:\n  one: {speak: a, prompt: Go., output: {json: {type: object, properties: {score: {type: integer}}, "
        "required: [score]}}}\nedges: [start -> one -> end]\nrewards: {roles: [a], value: score / 2, pay: turn}\n"
    )
    assert pay(protocol, Lengths(), [played(protocol, ['{"score": 5}'])], {"t": TASK})[0].rewards == [2.5]


def test_scores_of_several_judges_are_averaged_where_there_is_nothing_to_vote_on() -> None:
    mean = combine_verdicts([scored("a", [4.0], {}, answers=0), scored("b", [7.0], {}, answers=0)], "mean", "panel")
    assert (mean.status, mean.scores) == (VerdictStatus.SCORED, (5.5,))
    assert combine_verdicts([scored("a", [4.0], {}, answers=0)], "majority", "panel").status is VerdictStatus.ABSTAIN
    two = combine_verdicts(
        [scored("a", [4.0, 2.0], {}, answers=2), scored("b", [6.0, 0.0], {}, answers=2)], "mean", "panel"
    )
    assert two.scores == (5.0, 1.0)


def test_what_is_best_by_a_margin_must_argue_an_answer(compiled: Callable[..., Protocol]) -> None:
    text = ALONE.replace("value: score}}", "value: margin}}")
    with pytest.raises(SourceError, match="the speaker argues none"):
        compiled(text)
