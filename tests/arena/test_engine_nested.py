"""Nested protocols: scopes with fields of their own, entered again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.protocols import Protocol, load_protocol

INNER = """
name: inner
fields: [question, answers, passage]
roles:
  pro: {argues: 0, sees: [question, answers, passage], opening: "For {{ answer }}: {{ question }} ({{ passage }})"}
  judge: {sees: [question, answers]}
nodes:
  say: {speak: pro, prompt: "Round {{ round }}."}
  verdict: {judge: judge}
edges:
  - start -> say
  - {from: say, to: say, times: 1}
  - say -> verdict -> end
"""

OUTER = """
name: outer
fields: [question, answers, passage]
roles:
  host: {sees: [question, answers], opening: "Host."}
  pro: {argues: 0, sees: [question, answers, passage]}
  judge: {sees: [question, answers]}
nodes:
  ask: {speak: host, prompt: "Ask about {{ question }}.", to: [pro, judge]}
  sub: {use: inner.yaml, fields: {FIELDS}}
  close: {speak: host, prompt: "{{ sub.verdict.answer }} after {{ sub.say.text }}"}
  final: {judge: judge}
edges:
  - start -> ask -> sub
  - {from: sub, to: ask, when: sub.visits < 2, times: 1}
  - sub -> close -> final -> end
"""


@pytest.fixture
def outer(tmp_path: Path):
    def load(fields: str) -> Protocol:
        (tmp_path / "inner.yaml").write_text(INNER)
        (tmp_path / "outer.yaml").write_text(OUTER.replace("FIELDS", fields))
        return load_protocol(tmp_path / "outer.yaml")

    return load


SAYS = {"host": ["q1", "q2", "bye"], "pro": ["s1", "s2", "s3", "s4"]}
BOUND = 'question: "Is it {{ ask.text }}?", answers: ["yes {{ ask.text }}", "no"]'


def test_bound_fields_are_made_when_the_scope_is_entered(play, outer) -> None:
    played = play(outer(BOUND), SAYS)
    openings = [m.text for ask in played.asks if ask.role == "pro" for m in ask.new if m.kind == "opening"]
    assert openings == [
        "For yes q1: Is it q1? (Canberra is the capital.)",
        "For yes q2: Is it q2? (Canberra is the capital.)",
    ]
    assert [ask.task.fields["answers"] for ask in played.asks if ask.role == "pro"][::2] == [
        ("yes q1", "no"),
        ("yes q2", "no"),
    ]
    assert [ask.answer for ask in played.asks if ask.role == "pro"] == [0] * 4


def test_a_scope_entered_again_counts_rounds_anew_and_its_judge_reads_only_what_came_since(play, outer) -> None:
    played = play(outer(BOUND), SAYS)
    assert [played.told("pro", number)[-1] for number in range(4)] == ["Round 1.", "Round 2."] * 2
    assert [[said.text for said in view.statements] for view in played.views[:2]] == [["s1", "s2"], ["s3", "s4"]]
    assert [view.answers for view in played.views] == [("yes q1", "no"), ("yes q2", "no"), ("Canberra", "Sydney")]
    assert [turn.visit for turn in played.turns if turn.node == "sub.say"] == [0, 1, 2, 3]
    assert len({ask.seed for ask in played.asks}) == len(played.asks)


def test_verdicts_on_answers_of_its_own_are_kept_apart(play, outer) -> None:
    played = play(outer(BOUND), SAYS, sides=(1, 0))
    assert list(played.episode.verdicts) == ["final"]
    assert list(played.episode.inner_verdicts) == ["sub.verdict"]
    assert [turn.answer for turn in played.turns if turn.node == "sub.say"] == [None] * 4
    assert played.told("host")[-1] == "yes q2 after s4"


def test_a_scope_on_the_tasks_own_answers_takes_the_sides_of_the_episode(play, outer) -> None:
    played = play(outer('question: "Is it {{ ask.text }}?"'), SAYS, sides=(1, 0))
    assert list(played.episode.verdicts) == ["sub.verdict", "final"]
    assert [turn.answer for turn in played.turns if turn.node == "sub.say"] == [1] * 4
    assert played.told("pro", 0)[0].startswith("For Sydney")
    assert played.views[0].label is None


def test_turns_are_by_the_seat_that_plays_the_nested_role(play, outer) -> None:
    played = play(outer(BOUND), SAYS)
    assert {turn.role for turn in played.turns} == {"host", "pro"}
    assert played.told("pro", 2)[0].startswith("For yes q2")
    assert played.told("pro", 2)[1] == "host: q2"
