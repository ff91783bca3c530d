"""Verifiers: checks as judges of what was said for each answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from arena.engine import Engine, Plan
from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.asking import ask_judge, is_async
from arena.judges.verdicts import FLOOR
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.programs import CHECKS, Call, Outcome
from arena.protocols.records import Quote, Task, Verdict, VerdictStatus
from arena.testing import check_judge


def view(*said: str, fields: dict[str, Any] | None = None, label: int | None = None, key: str = "k") -> JudgeView:
    """A debate between '41' and '42', in which the statements argue one after the other."""
    statements = [Statement("first" if n % 2 == 0 else "second", n % 2, text, said=text) for n, text in enumerate(said)]
    return JudgeView(key, "6 * 7?", ("41", "42"), statements, fields or {}, label, (0, 1))


def alone(*said: str, fields: dict[str, Any] | None = None) -> JudgeView:
    """A view without answers."""
    return JudgeView("k", "6 * 7?", (), [Statement("solver", None, text, said=text) for text in said], fields or {})


def judged(spec: str | dict[str, Any], one: JudgeView) -> Verdict:
    (verdict,) = ask_judge(JUDGES.build(spec), [one])  # type: ignore[arg-type]
    return verdict


def test_what_was_said_for_an_answer_is_what_it_is_worth() -> None:
    verdict = judged("verifier:check='numeric:field=result'", view("41", "It is 42.", fields={"result": 42}))
    assert verdict.status is VerdictStatus.SCORED
    assert verdict.scores == (0.0, 1.0)
    assert verdict.choice == 1
    assert verdict.logps == pytest.approx((FLOOR, 0.0))
    assert verdict.evidence["checks"] == [[{"passed": False, "score": 0.0}], [{"passed": True, "score": 1.0}]]


def test_a_number_inside_of_another_is_another_number() -> None:
    verdict = judged("verifier:check='numeric:field=result'", view("4", "42", fields={"result": 4}))
    assert verdict.scores == (1.0, 0.0)
    concrete = judged("verifier:check='exact:field=result'", view("pro", "concrete", fields={"result": "pro"}))
    assert concrete.scores == (1.0, 0.0)


def test_the_label_is_a_field_for_checks_that_ask_for_it() -> None:
    judge = JUDGES.build("verifier:check='multiple_choice:field=label'")
    assert judge.sees_label
    assert not JUDGES.build("verifier:check='numeric:field=result'").sees_label
    first, second = ask_judge(judge, [view("Answer: A", "Answer: B", label=1), view("Answer: A", "Answer: B")])
    assert first.scores == (0.0, 1.0)
    assert second.status is VerdictStatus.ABSTAIN
    assert second.evidence["reason"] == "the task has no label"


def test_equal_scores_are_a_tie() -> None:
    assert (
        judged("verifier:check='numeric:field=result'", view("1", "2", fields={"result": 3})).status
        is VerdictStatus.TIE
    )


def test_without_answers_the_last_statement_has_the_only_score() -> None:
    verdict = judged("verifier:check='numeric:field=result'", alone("42", "41", fields={"result": 42}))
    assert (verdict.status, verdict.scores, verdict.logps) == (VerdictStatus.SCORED, (0.0,), ())
    assert judged("verifier:check='numeric:field=result'", alone(fields={"result": 42})).evidence["reason"] == (
        "nothing was said"
    )


def test_last_all_or_the_answer_itself_is_checked() -> None:
    one = view("41", "42", "42", "40", fields={"result": 42})
    assert judged("verifier:check='numeric:field=result'", one).scores == (1.0, 0.0)
    assert judged("verifier:check='numeric:field=result',of=all", one).scores == (0.5, 0.5)
    assert judged("verifier:check='numeric:field=result',of=answer", one).scores == (0.0, 1.0)


def test_only_what_stands_in_the_tag_is_checked() -> None:
    one = view("7 * 6 <answer>41</answer>", "6 and <answer>5</answer>, no: <answer>42</answer>", fields={"result": 42})
    assert judged("verifier:check='numeric:field=result',tag=answer", one).scores == (0.0, 1.0)
    missing = judged(
        "verifier:check='numeric:field=result',tag=answer", view("41", "<answer>42", fields={"result": 42})
    )
    assert missing.status is VerdictStatus.PARSE_ERROR
    assert missing.evidence["reason"] == "answer 0: there is no <answer>...</answer> in what was said"


def test_what_cannot_be_read_is_no_false_answer() -> None:
    one = view("41 or 42", "42", fields={"result": 42})
    verdict = judged("verifier:check='numeric:field=result'", one)
    assert (verdict.status, verdict.scores) == (VerdictStatus.PARSE_ERROR, ())
    assert verdict.evidence["reason"] == "answer 0: it needs one number"
    assert judged("verifier:check='numeric:field=result',unread=wrong", one).scores == (0.0, 1.0)


def test_a_field_that_is_not_seen_makes_no_answer_false() -> None:
    verdict = judged("verifier:check='numeric:field=result',unread=wrong", view("41", "42"))
    assert verdict.status is VerdictStatus.ABSTAIN
    assert "reads 'result', which the task does not have or the judge's role does not see" in verdict.evidence["reason"]
    silent = judged("verifier:check='numeric:field=result'", view("41", fields={"result": 42}))
    assert silent.evidence["reason"] == "nobody argued for answer 1"


def test_a_judge_that_hears_quotes_alone_has_no_text_to_check() -> None:
    heard = [Statement("first", 0, "", (Quote("x", True),)), Statement("second", 1, "", (Quote("y", True),))]
    one = JudgeView("k", "", ("a", "b"), heard, {"passage": "x y"}, None, (0, 1))
    verdict = judged("verifier:check='quotes:field=passage'", one)
    assert verdict.evidence["reason"] == "answer 0: the judge hears quotes alone, and checks read texts"


def test_shares_of_checks_are_scores() -> None:
    said = ("<quote>ann</quote> <quote>zoe</quote>", "<quote>bob</quote>")
    verdict = judged("verifier:check='quotes:field=passage'", view(*said, fields={"passage": "ann and bob"}))
    assert verdict.scores == (0.5, 1.0)
    assert verdict.margin(1) == pytest.approx(-FLOOR / 2)


PROTOCOL = """
name: sums
fields: [question, result]
roles:
  solver: {sees: [question], opening: "{{ question }}"}
  judge: {sees: [question, result]}
nodes:
  answer: {speak: solver}
  verdict: {judge: judge}
edges: [start -> answer -> verdict -> end]
rewards: {roles: [solver], verdict: verdict, value: score}
"""


def test_a_program_is_run_as_it_was_said(tmp_path: Any) -> None:
    from arena.agents import AGENTS

    (tmp_path / "sums.yaml").write_text(PROTOCOL.replace("result", "tests"))
    protocol = load_protocol(tmp_path / "sums.yaml")
    task = Task("square", {"question": "Square a number.", "tests": ["assert f(3) == 9", "assert f(2) == 5"]})
    # The second line begins where readers of a transcript would have it moved right.
    agent = AGENTS.build({"kind": "fixed", "text": "import math\ndef f(x):\n  return x ** 2"})
    judge = JUDGES.build("verifier:check=unit_tests")
    assert is_async(judge)
    (episode,) = Engine(protocol, judge, seed=0).play([Plan("a", task, {"solver": agent})])
    assert episode.verdict is not None
    assert episode.verdict.scores == (0.5,), episode.verdict.evidence


class Waiting:
    """Two calls that wait for each other."""

    name, slow, reads = "waiting", True, ()

    def __init__(self) -> None:
        self.barrier = threading.Barrier(4)

    def check(self, calls: Sequence[Call]) -> list[Outcome]:
        self.barrier.wait(20)
        return [Outcome(fields={"passed": True, "score": float(call.text)}) for call in calls]


def test_slow_checks_of_several_episodes_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CHECKS, "_own", {**CHECKS._own})
    CHECKS.register("waiting", summary="for this test")(Waiting)
    judge = JUDGES.build("verifier:check=waiting")
    began = time.monotonic()
    verdicts = ask_judge(judge, [JudgeView(f"{n}", "", (), [Statement("a", None, f"{n}")]) for n in range(4)])
    assert [verdict.scores for verdict in verdicts] == [(0.0,), (1.0,), (2.0,), (3.0,)]
    assert time.monotonic() - began < 20


@pytest.mark.parametrize(
    "check", ["numeric:field=result", "exact:field=label", "regex:pattern=[0-9]+", "unit_tests:field=tests"]
)
def test_verifiers_keep_what_judges_promise(check: str) -> None:
    fields = {"result": 42, "tests": ["assert True"]}
    check_judge(
        JUDGES.build({"kind": "verifier", "check": check}),
        lambda: [
            view("41", "42", fields=fields, label=1),
            view("42", "42", fields=fields, label=0, key="l"),
            view("", "none", fields=fields, key="m"),
            alone("42", fields=fields),
            alone(),
        ],
    )


def test_another_check_is_another_instrument() -> None:
    specs = ["numeric:field=a", "numeric:field=b", "numeric:field=a,tolerance=0.1", "exact:field=a"]
    judges = [JUDGES.build({"kind": "verifier", "check": spec}) for spec in specs]
    judges += [JUDGES.build({"kind": "verifier", "check": specs[0], "tag": "answer"})]
    assert len({judge.name for judge in judges}) == 5
    assert judges[0].name == JUDGES.build("verifier:check={kind: numeric, field: a}").name


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("verifier", "needs 'check'"),
        ("verifier:check=nummeric", "Did you mean 'numeric'"),
        ("verifier:check='numeric:feld=x'", "Did you mean 'field'"),
        ("verifier:check='numeric:field=x,of=value'", "give the judge a 'tag'"),
        ("verifier:check='numeric:field=x',of=first", "'last', 'answer'|'all'"),
        ("verifier:check='numeric:field=x',tag=<b>", "'tag' of judge 'verifier'"),
    ],
)
def test_mistakes_are_told(spec: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        JUDGES.build(spec)
