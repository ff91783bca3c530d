"""Checks: what passes, and what their readers are not told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from arena.agents.tools import CHECKS, run_check
from arena.agents.tools.unit_tests import program_in
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus


def check(spec: str, text: str, task: dict[str, Any] | None = None, **turn: Any) -> Outcome:
    return run_check(CHECKS.build(spec), Call(text, turn=turn, task=task or {}))


@pytest.mark.parametrize(
    ("said", "right", "passed"),
    [
        ("Paris", "Paris", True),
        (' "the  Eiffel\nTower". ', "The Eiffel Tower", True),
        ("In Paris", "Paris", False),
        ("", "Paris", False),
        ("42", 42, True),
        ("B", ("a", "b"), True),
    ],
)
def test_exact_compares_what_is_said(said: str, right: Any, passed: bool) -> None:
    assert check("exact:field=solution", said, {"solution": right}).fields == {
        "passed": passed,
        "score": float(passed),
    }


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ("1234.5", True),
        ("It is $1,234.50.", True),
        ("1.2345e3", True),
        ("1234.5000001", True),
        ("1234.6", False),
        ("-1234.5", False),
        ("1234.5 or 7", False),
        ("none", False),
        ("1e999", False),
        ("9" * 100_000, False),
        ("1," * 50_000, False),
    ],
)
def test_numeric_wants_one_number(said: str, passed: bool) -> None:
    assert check("numeric:field=solution", said, {"solution": "1234.5"}).fields["passed"] is passed


def test_numeric_tolerates_as_told() -> None:
    assert check("numeric:field=n,tolerance=0.1", "108", {"n": 100}).fields["passed"] is True
    assert check("numeric:field=n,tolerance=0.1", "111", {"n": 100}).fields["passed"] is False
    assert check("numeric:field=n,tolerance=0", "100", {"n": 100}).fields["passed"] is True


def test_a_value_that_was_read_from_the_turn_is_checked_in_place_of_its_text() -> None:
    assert check("exact:field=s,of=choice", "so I say b", {"s": "b"}, choice="b").fields["passed"] is True
    assert check("numeric:field=s,of=n", "7", {"s": 8}, n=8).fields["passed"] is True
    assert check("exact:field=s,of=choice", "b", {"s": "b"}, choice=None).fields == {"passed": False, "score": 0.0}


@pytest.mark.parametrize("spec", ["exact:field=solution", "numeric:field=solution", "unit_tests:field=solution"])
def test_a_check_without_its_field_decides_nothing(spec: str) -> None:
    outcome = check(spec, "7")
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert outcome.fields == {"passed": None, "score": None}
    assert "solution" in str(outcome.error)


def test_a_check_does_not_tell_what_is_right() -> None:
    for spec in ("exact:field=solution", "numeric:field=solution"):
        assert "41" not in check(spec, "7", {"solution": 41}).text


def test_regex_matches_the_whole() -> None:
    assert check(r"regex:pattern=\d+ apples", "12 apples").fields["passed"] is True
    assert check(r"regex:pattern=\d+ apples", "12 apples!").fields["passed"] is False
    assert check("regex:pattern=.", "\ud800").fields["passed"] is True
    with pytest.raises(ConfigError, match=r"check 'regex': .*not a regular expression"):
        CHECKS.build("regex:pattern=(")


class Broken:
    name = "broken"
    slow = False

    def check(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        raise KeyError(calls[0].task["secret"])


def test_a_check_that_fails_decides_nothing_and_tells_nothing() -> None:
    outcome = run_check(Broken(), Call("", task={"secret": "hush"}))
    assert (outcome.status, outcome.text) == (TurnStatus.TOOL_ERROR, "The check could not be made.")
    assert outcome.fields == {"passed": None, "score": None}


TESTS = {"tests": ("assert f(2) == 4", "assert f(-3) == 9", "f(0)")}
SPEC = "unit_tests:field=tests,seconds=0.3,memory=32"
PROCESS = "unit_tests:field=tests,sandbox=subprocess,seconds=20,memory=32"


@pytest.mark.parametrize(
    ("program", "results", "text"),
    [
        ("def f(x): return x * x", ["ok"] * 3, "3 of 3 tests passed."),
        (
            "def f(x): return 4",
            ["ok", "AssertionError", "ok"],
            "2 of 3 tests passed. Failed: AssertionError (1).",
        ),
        (
            "def f(x):\n    if x < 0: return 1 / 0\n    return x",
            ["AssertionError", "ZeroDivisionError", "ok"],
            "1 of 3 tests passed. Failed: AssertionError (1), ZeroDivisionError (1).",
        ),
        (
            "def f(x):\n    while x: pass\n    return 0",
            ["TimeoutError", "TimeoutError", "ok"],
            "1 of 3 tests passed. Failed: TimeoutError (2).",
        ),
        ("def g(x): return x", ["NameError"] * 3, "0 of 3 tests passed. Failed: NameError (3)."),
        ("while True: pass", ["TimeoutError"] * 3, "The program itself fails: TimeoutError."),
        ("def f(x) return", ["SyntaxError"] * 3, "The program itself fails: SyntaxError."),
        (" ", [], "There is no program."),
    ],
)
def test_unit_tests_count_what_passes_and_name_the_failures(program: str, results: list[str], text: str) -> None:
    outcome = check(SPEC, program, TESTS)
    assert outcome.status is TurnStatus.OK
    assert outcome.text == text
    assert outcome.fields["results"] == results
    share = results.count("ok") / 3
    assert (outcome.fields["passed"], outcome.fields["score"]) == (share == 1, share)


@pytest.mark.parametrize("spec", [SPEC, PROCESS])
def test_no_method_of_the_program_decides_what_is_equal(spec: str) -> None:
    program = "class Any:\n    def __eq__(self, other): return True\ndef f(x): return Any()"
    assert check(spec, program, TESTS).fields["results"] == ["AssertionError", "AssertionError", "ok"]


@pytest.mark.parametrize(
    ("program", "results"),
    [
        ("import fractions\ndef f(x): return int(fractions.Fraction(x) ** 2)", ["ok", "ok", "ok"]),
        ("def f(x): return 4", ["ok", "AssertionError", "ok"]),
        ("import os\ndef f(x): os._exit(0)", ["SystemError"] * 3),
        ("import sys\ndef f(x): sys.exit(0)", ["SystemExit"] * 3),
        ("def f(x): raise type('Leak' + str(x), (Exception,), {})", ["Exception"] * 3),
        ("import os\ndef f(x):\n    while True: os.fork()", ["BlockingIOError"] * 3),
    ],
)
def test_unit_tests_run_in_a_process_if_asked_to(program: str, results: list[str]) -> None:
    outcome = check(PROCESS, program, TESTS)
    assert outcome.status is TurnStatus.OK
    assert outcome.fields["results"] == results
    assert "Leak" not in repr(outcome)


def test_a_program_cannot_carry_the_tests_to_its_next_attempt() -> None:
    program = "def f(x):\n    print('input', x)\n    raise ValueError(f'input {x} of the test')"
    told = check(SPEC, program, {"tests": ["assert f(271828) == 314159"]})
    assert told.text == "0 of 1 tests passed. Failed: ValueError (1)."
    assert "271828" not in repr(told)
    assert "314159" not in repr(told)


def test_the_last_block_of_a_turn_is_the_program() -> None:
    turn = "First:\n```python\nold\n```\nBetter:\n```python\ndef f(x):\n    return x * x\n```\nThat is it."
    assert program_in(turn) == "def f(x):\n    return x * x"
    assert program_in("```\nopen") == "open"
    assert program_in("no block") == "no block"
    assert check(SPEC, turn, TESTS).fields["passed"] is True


def test_the_program_may_be_a_value_of_the_turn() -> None:
    assert check(SPEC + ",of=code", "see code", TESTS, code="def f(x): return x ** 2").fields["passed"] is True
    assert check(SPEC + ",of=code", "see code", TESTS, code=None).fields["passed"] is False


@pytest.mark.parametrize("tests", [[], ["assert f(1) =="], None, 5])
def test_tests_that_are_none_decide_nothing(tests: Any) -> None:
    assert check(SPEC, "x = 1", {"tests": tests}).status is TurnStatus.TOOL_ERROR
