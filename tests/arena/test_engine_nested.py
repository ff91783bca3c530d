"""Nested protocols: scopes with fields of their own, entered again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.agents.scripted import fixed
from arena.engine import Engine, Plan
from arena.protocols import Protocol, load_protocol, parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Task

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
  close: {speak: host, prompt: "{{ sub.verdict.choice }} after {{ sub.say.text }}"}
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


def test_a_claim_among_answers_of_its_own_reaches_the_judge(play, tmp_path: Path) -> None:
    (tmp_path / "inner.yaml").write_text("""
name: inner
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  first: {speak: con, prompt: Begin.}
  claim: {speak: pro, output: {choice: answers}, claims: true}
  last: {speak: con, prompt: "You argue {{ answer }}."}
  verdict: {judge: judge}
edges: [start -> first -> claim -> last -> verdict -> end]
""")
    (tmp_path / "outer.yaml").write_text("""
name: outer
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  sub: {use: inner.yaml, fields: {answers: ["yes", "no"]}}
  final: {judge: judge}
edges: [start -> sub -> final -> end]
""")
    says = {"pro": ["no"], "con": ["for no", "for yes"]}
    played = play(load_protocol(tmp_path / "outer.yaml"), says, sides=(1, 0))
    inner, outer = played.views
    # pro claims "no", which con held until then; from there on con argues "yes".
    assert [(said.role, said.answer, said.text) for said in inner.statements] == [
        ("con", 1, "for no"),
        ("pro", 1, "no"),
        ("con", 0, "for yes"),
    ]
    assert inner.answers_argued == (1, 0)
    assert played.told("con")[-1] == "You argue yes."
    assert [said.answer for said in outer.statements] == [None] * 3
    assert outer.answers_argued == (1, 0)


def test_a_verdict_can_be_compared_with_what_a_turn_chose() -> None:
    text = """\
name: jury
fields: [question, answers]
roles: {juror: {count: 3, sees: [question, answers]}}
nodes:
  ballot: {speak: juror, output: {choice: answers}}
  verdict: {vote: ballot}
  kept: {compute: {place: verdict.index}}
edges:
  - start -> ballot -> verdict -> kept -> end
  - {from: verdict, to: end, when: verdict.choice == ballot_1.choice, stop: as the first}
"""
    protocol = compile_document(parse_document(text, "g"))
    for said, stop in ((("x", "x", "y"), "as the first"), (("x", "y", "y"), "end")):
        lineup = {f"juror-{number}": fixed(choice) for number, choice in enumerate(said, 1)}
        task = Task("t", {"question": "?", "answers": ("x", "y")})
        (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", task, lineup)])
        assert episode.stop == stop
    assert episode.turns[-1].fields == {"place": 1}
