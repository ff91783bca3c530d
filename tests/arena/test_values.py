"""What turns and verdicts say to expressions."""

from __future__ import annotations

import math

import pytest

from arena.protocols.records import Quote, Turn, TurnStatus, Verdict, VerdictStatus
from arena.values import TOKEN, VERDICT_FIELDS, turn_value, verdict_value


def test_a_turn_says_its_own_and_what_was_read_from_it() -> None:
    turn = Turn(0, 0, "a", "ann", 2, "ann", None, "two words", fields={"choice": "x"}, quotes=(Quote("q", False),))
    told = {
        name: turn_value(turn, name) for name in ("text", "words", "ok", "status", "bad_quotes", "visits", "choice")
    }
    assert told == {
        "text": "two words",
        "words": 2,
        "ok": True,
        "status": "ok",
        "bad_quotes": 1,
        "visits": 3,
        "choice": "x",
    }
    assert turn_value(turn, "other") is None


@pytest.mark.parametrize(
    ("status", "ok"),
    [
        (TurnStatus.TRUNCATED, True),
        (TurnStatus.OVER_LIMIT, True),
        (TurnStatus.REFUSED, False),
        (TurnStatus.PARSE_ERROR, False),
        (TurnStatus.TOOL_ERROR, False),
    ],
)
def test_ok_is_what_could_be_read(status: TurnStatus, ok: bool) -> None:
    assert turn_value(Turn(0, 0, "a", "ann", 0, "ann", None, "", status), "ok") is ok


def told(verdict: Verdict) -> dict[str, object]:
    return {name: verdict_value(verdict, name, ("x", "y", "z"), (1, 2, 0), ("pro", "con")) for name in VERDICT_FIELDS}


def test_a_verdict_says_who_won_and_how_clearly() -> None:
    verdict = Verdict(VerdictStatus.SCORED, "j", (math.log(0.2), math.log(0.7), math.log(0.1)))
    assert told(verdict) == {
        "choice": "y",
        "index": 1,
        "p": pytest.approx(0.7),
        "margin": pytest.approx(math.log(3.5)),
        "score": None,
        "status": "scored",
        "decidable": True,
        "winner": "pro",
    }


def test_an_answer_that_nobody_argues_has_no_winner() -> None:
    verdict = Verdict(VerdictStatus.SCORED, "j", (0.0, -math.inf, -math.inf))
    assert told(verdict)["winner"] is None
    assert told(verdict)["margin"] == math.inf


def test_a_tie_has_a_margin_of_nothing_and_no_choice() -> None:
    tie = Verdict(VerdictStatus.TIE, "j", (math.log(0.5), math.log(0.5), -math.inf))
    assert told(tie) == dict.fromkeys(VERDICT_FIELDS) | {"status": "tie", "decidable": True, "margin": 0.0}
    none = Verdict(VerdictStatus.ABSTAIN, "j")
    assert told(none) == dict.fromkeys(VERDICT_FIELDS) | {"status": "abstain", "decidable": False}


@pytest.mark.parametrize(("text", "count"), [("b9=4", 1), ("don't", 1), ("Yes, I do.", 5), ("a!!", 3), ("", 0)])
def test_tokens_are_words_and_marks(text: str, count: int) -> None:
    assert len(TOKEN.findall(text)) == count
