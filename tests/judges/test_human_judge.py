"""A person who judges, played by a list of typed lines."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from rich.console import Console

from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.human import HumanJudge, read_confidence
from arena.protocols.errors import LeftError
from arena.protocols.records import Quote, Verdict, VerdictStatus
from arena.testing import check_judge

ANSWERS = ("Paris", "Lyon")


def typing(lines: Iterable[str]) -> Callable[[str], str]:
    left = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(left)
        except StopIteration:
            raise EOFError from None

    return read


def case(key: str = "k", answers: tuple[str, ...] = ANSWERS, said: str = "It is.", **more: Any) -> JudgeView:
    return JudgeView(
        key, "Where?", answers, [Statement("ann", 0, said)], answers_argued=tuple(range(len(answers))), **more
    )


def judged(lines: Iterable[str], *views: JudgeView, seed: int = 0) -> tuple[list[Verdict], str]:
    shown = io.StringIO()
    judge = HumanJudge(seed=seed, read=typing(lines), console=Console(file=shown, width=200))
    return judge.judge(views or [case()]), shown.getvalue()


def test_the_distribution_is_the_stated_confidence_and_all_that_was_said_is_kept() -> None:
    (verdict,), _ = judged(["Lyon", "80", "Ann made it up.", "", "never read"])
    assert [math.exp(logp) for logp in verdict.logps] == pytest.approx([0.2, 0.8])
    assert (verdict.choice, verdict.stated) == (1, 1)
    assert verdict.evidence["confidence"] == pytest.approx(0.8)
    assert (verdict.evidence["explanation"], verdict.evidence["person"]) == ("Ann made it up.", "human")


def test_an_explanation_may_be_left_out_and_the_rest_is_shared_evenly() -> None:
    (verdict,), _ = judged(["b", "70 %", ""], case(answers=("a", "b", "c")))
    assert [math.exp(logp) for logp in verdict.logps] == pytest.approx([0.15, 0.7, 0.15])
    assert verdict.evidence["explanation"] == ""


def test_certainty_is_finite_and_chance_is_a_tie_with_a_stated_answer() -> None:
    (sure, unsure), _ = judged(["Paris", "100", "", "Paris", "50", ""], case("1"), case("2"))
    assert sure.logps == (0.0, -30.0)
    assert (unsure.status, unsure.stated) == (VerdictStatus.TIE, 0)


@pytest.mark.parametrize(
    ("text", "answers", "sure"),
    [
        ("80", 2, 0.8),
        (" 80 % ", 2, 0.8),
        (".8", 2, 0.8),
        ("0,8", 2, 0.8),
        ("1", 2, 1.0),
        ("100", 2, 1.0),
        ("50", 2, 0.5),
        ("33", 3, 1 / 3),
        ("40", 2, None),
        ("1 %", 2, None),
        ("101", 2, None),
        ("very", 2, None),
        ("", 2, None),
        ("-5", 2, None),
    ],
)
def test_confidence_is_a_number_of_per_cent_or_a_probability_that_is_not_below_chance(
    text: str, answers: int, sure: float | None
) -> None:
    assert read_confidence(text, answers) == (None if sure is None else pytest.approx(sure))


def test_what_is_none_is_asked_for_again() -> None:
    (verdict,), shown = judged(["Rome", "7", "Paris", "much", "30", "90", ""])
    assert verdict.evidence["confidence"] == pytest.approx(0.9)
    assert "Type a number from 1 to 3" in shown
    assert "Type a number from 50 to 100, or from 0.5 to 1" in shown


def test_a_person_may_abstain_and_say_why() -> None:
    (verdict,), _ = judged(["(I cannot decide)", "Both are cities.", ""])
    assert verdict.status is VerdictStatus.ABSTAIN
    assert verdict.evidence["reason"] == "the person cannot decide: Both are cities."
    assert sorted(verdict.evidence["order"]) == [0, 1]


def test_the_order_is_drawn_for_each_case_from_the_seed_and_numbers_follow_it() -> None:
    views = [case(str(number)) for number in range(40)]
    verdicts, shown = judged(["1", "60", ""] * 40, *views)
    orders = [verdict.evidence["order"] for verdict in verdicts]
    assert {tuple(order) for order in orders} == {(0, 1), (1, 0)}
    assert [verdict.choice for verdict in verdicts] == [order[0] for order in orders]
    assert "ann, who argues for 1:" in shown
    assert "ann, who argues for 2:" in shown
    again, _ = judged(["1", "60", ""] * 40, *reversed(views))
    assert [verdict.evidence["order"] for verdict in again] == orders[::-1]
    other, _ = judged(["1", "60", ""] * 40, *views, seed=1)
    assert [verdict.evidence["order"] for verdict in other] != orders


def test_where_there_are_no_answers_a_score_is_asked_for() -> None:
    view = JudgeView("k", "Write a poem.", (), [Statement("ann", None, "Roses.")])
    (verdict,), _ = judged(["11", "7.5", "It rhymes.", ""], view)
    assert (verdict.status, verdict.scores, verdict.logps) == (VerdictStatus.SCORED, (7.5,), ())
    assert verdict.evidence["explanation"] == "It rhymes."


def test_answers_that_the_role_does_not_see_cannot_be_chosen() -> None:
    (verdict,), _ = judged([], JudgeView("k", "?", (), [], answers_argued=(0, 1)))
    assert verdict.status is VerdictStatus.ABSTAIN


def test_fields_quotes_and_statements_are_shown_and_cannot_steer_or_forge() -> None:
    said = "Lyon.\n\x1b[2JWhich answer is right?\nhow sure are you> 100\u202e [bold]"
    quotes = [Statement("bob", 1, "", (Quote("b3=2", verified=True), Quote("b9=9", verified=False)))]
    view = case(said=said, fields={"passage": "Rome\nfell.", "evidence": ["x", "y"]})
    view.statements = [*view.statements, *quotes]
    _, shown = judged(["1", "60", ""], view)
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    asked = [line for line in shown.splitlines() if line.startswith("Which answer is right?")]
    assert len(asked) == 1, "a forged question stands behind a bar"
    for part in ("│ Lyon.", "[bold]", "│ Rome", "│ fell.", "│ x y", "│ <verified>b3=2</verified>", "Question: Where?"):
        assert part in shown
    assert "b9=9" not in shown


def test_end_of_input_ends_the_session() -> None:
    with pytest.raises(LeftError, match="human has left: the input has ended"):
        judged(["Paris", "60"][:1], case())


def test_a_person_keeps_the_promises_of_judges() -> None:
    lines: Mapping[str, str] = {"number or text> ": "1", "> ": "", "score> ": "7"}
    judge = HumanJudge(read=lambda before: lines.get(before, "75"), console=Console(file=io.StringIO()))
    check_judge(judge, lambda: [case(str(number)) for number in range(4)])


def test_people_are_told_apart_by_name() -> None:
    assert JUDGES.build("human:name=ann", seed=3).name != JUDGES.build("human:name=bob", seed=3).name
    assert JUDGES.build("human", seed=3).name == JUDGES.build("human", seed=4).name
