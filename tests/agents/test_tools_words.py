"""Tools and checks that look at a text word by word."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.agents.tools import CHECKS, Call, Outcome, check_reads, run_call, run_check, tools_of
from arena.protocols.errors import ConfigError
from arena.protocols.records import TurnStatus

WORDS = st.lists(st.sampled_from("abc"), max_size=6)


def put(text: str, place: Any, word: str = "9") -> Outcome:
    return run_call(tools_of(["substitute"]), "substitute", Call("", {"text": text, "place": place, "word": word}))


def check(spec: str, text: str, task: dict[str, Any], **turn: Any) -> Outcome:
    return run_check(CHECKS.build(spec), Call(text, turn=turn, task=task))


@pytest.mark.parametrize(
    ("text", "place", "result"),
    [("3 1 4", 2, "3 9 4"), ("3 1 4", "3", "3 1 9"), (" 3  1 4", 1, "9 1 4"), ("3", 1, "9")],
)
def test_a_word_is_put_in_the_place_of_another(text: str, place: int | str, result: str) -> None:
    assert put(text, place) == Outcome(result)


@pytest.mark.parametrize(("text", "place"), [("3 1 4", 0), ("3 1 4", 4), ("3 1 4", -1), ("", 1)])
def test_a_text_without_the_place_stays_as_it_is(text: str, place: int) -> None:
    outcome = put(text, place)
    assert (outcome.text, outcome.status) == (text, TurnStatus.TOOL_ERROR)
    assert f"no word {place}" in str(outcome.error)


@pytest.mark.parametrize("place", ["P2", "", "1.5", None])
def test_a_place_is_a_number(place: Any) -> None:
    assert put("3 1 4", place).status is TurnStatus.TOOL_ERROR


@pytest.mark.parametrize(
    ("said", "passed", "score"),
    [
        ("1 2 3 4", True, 1.0),
        (" 1 2\n3 4", True, 1.0),
        ("1 2 3 5", False, 0.75),
        ("4 3 2 1", False, 0.0),
        ("1 2 3", False, 0.75),
        ("1 2 3 4 4", False, 0.8),
        ("", False, 0.0),
    ],
)
def test_the_score_is_the_share_of_places_with_the_right_word(said: str, passed: bool, score: float) -> None:
    outcome = check("aligned:field=solution", said, {"solution": "1 2 3 4"})
    assert outcome.fields == {"passed": passed, "score": score}
    assert check("aligned:field=solution", said, {"solution": ("1", "2", "3", "4")}) == outcome


@given(WORDS, WORDS)
def test_it_passes_what_is_the_same_and_nothing_else(right: list[str], said: list[str]) -> None:
    outcome = check("aligned:field=s", " ".join(said), {"s": right})
    assert outcome.fields["passed"] == (right == said)
    assert 0.0 <= outcome.fields["score"] <= 1.0
    if right:
        assert (outcome.fields["score"] == 1.0) == (right == said)


@given(WORDS, WORDS, st.integers(0, 6))
def test_a_place_is_wrong_where_the_texts_differ(right: list[str], found: list[str], place: int) -> None:
    outcome = check("misplaced:field=s,text=t", "", {"s": " ".join(right), "t": " ".join(found)}, index=place)
    padded = [[*words, *["-"] * 7] for words in (right, found)]
    assert outcome.fields["passed"] == (padded[0][place] != padded[1][place])


@pytest.mark.parametrize("place", [None, "P1", True, 1.0, -1, 4])
def test_who_names_no_place_has_not_found_one(place: Any) -> None:
    outcome = check("misplaced:field=s,text=t", "", {"s": "1 2 3 4", "t": "4 3 2 1"}, index=place)
    assert outcome.fields == {"passed": False, "score": 0.0}
    assert outcome.unread


@pytest.mark.parametrize("spec", ["aligned:field=s", "misplaced:field=s,text=t", "misplaced:field=t,text=s"])
@pytest.mark.parametrize("value", [None, 7])
def test_without_its_field_a_check_decides_nothing(spec: str, value: Any) -> None:
    outcome = check(spec, "1 2", {"s": value, "t": "1 2"}, index=0)
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert outcome.fields == {"passed": None, "score": None}
    assert "'s'" in str(outcome.error)


def test_their_fields_must_be_seen() -> None:
    with pytest.raises(ConfigError, match="reads 's'"):
        check_reads(CHECKS.build("misplaced:field=s,text=t"), ["t"], "checker")


def test_they_do_not_tell_what_is_right() -> None:
    for spec in ("aligned:field=s", "misplaced:field=s,text=t"):
        assert "7" not in check(spec, "1", {"s": "7", "t": "1"}, index=0).text
