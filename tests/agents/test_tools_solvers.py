"""Checks by libraries: mathematics (math-verify) and the tasks of reasoning-gym, also of hostile texts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest

from arena.agents.tools import CHECKS, run_check
from arena.agents.tools.math_answer import stated_expression
from arena.protocols.errors import MissingExtraError, UnknownNameError
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus

MATH = "math:field=solution,seconds=0.9"
GYM = "reasoning_gym:seconds=0.9"


def check(spec: str, text: str, task: dict[str, Any] | None = None) -> Outcome:
    return run_check(CHECKS.build(spec), Call(text, task=task or {}))


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("$\\frac12$", "\\frac12"),
        ("42.", "42"),
        ("It follows.\n**Answer: 7**", "7"),
        ("The final answer is \\(x^2\\).", "x^2"),
        ("\\boxed{\\frac{1}{2}} is larger than 0, not 3", "\\frac{1}{2}"),
        ("\\boxed{7}\nAnswer: 8", "7"),
        ("\\boxed{7} so \\boxed{ $7$ }", "7"),
    ],
)
def test_an_answer_is_found_where_it_is_marked(text: str, expression: str) -> None:
    assert stated_expression(text) == (expression, "")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "states no answer"),
        ("First 3,\nthen 4", "states no answer"),
        ("\\boxed{7", "states no answer"),
        ("\\boxed{7} or \\boxed{8}", "several answers that differ"),
        ("Answer: 7\nAnswer: 8", "several answers that differ"),
        ("$7$ and $8$", "not one expression"),
        ("3 1/2", "not one expression"),
        ("x" * 10_000, "at most 1,000"),
        ("x" * 100_001, "at most 100,000"),
    ],
)
def test_which_answer_is_meant_is_not_guessed(text: str, why: str) -> None:
    expression, reason = stated_expression(text)
    assert expression is None
    assert why in reason


math_verify = pytest.mark.skipif(
    find_spec("math_verify") is None, reason="needs math-verify: pip install 'debate-arena[verifiers]'"
)


@math_verify
@pytest.mark.parametrize(
    ("said", "right", "passed"),
    [
        ("0.5", "\\frac{1}{2}", True),
        ("\\boxed{x^2+2x+1}", "(x+1)^2", True),
        ("x = 5", 5, True),
        ("2,1", "\\{1,2\\}", True),
        ("\\frac{\\sqrt{2}}{2}", ["0", "1/\\sqrt{2}"], True),
        ("4", "42", False),
        ("(2,1)", "(1,2)", False),
        ("It is not 5", 5, False),
        ("4.9999999", 5, False),
        ("y", "x", False),
    ],
)
def test_expressions_are_compared_by_what_they_mean(said: str, right: Any, passed: bool) -> None:
    found = check(MATH, said, {"solution": right})
    assert (found.fields["passed"], found.unread) == (passed, "")


@math_verify
@pytest.mark.parametrize(
    "said",
    [
        "10^{10^{10^{10}}}",
        "(" * 400 + "1" + ")" * 400,
        "\\frac{" * 100 + "1" + "}{2}" * 20,
        "}}}{\\",
    ],
)
def test_hostile_expressions_end_in_time_and_pass_nothing(said: str) -> None:
    found = check(MATH, said, {"solution": 5})
    assert found.status is TurnStatus.OK
    assert found.fields["passed"] is False
    assert found.unread


@math_verify
def test_expressions_are_compared_in_threads() -> None:
    built = CHECKS.build(MATH)
    assert built.slow
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(
            lambda n: run_check(built, Call(f"{n}/2", task={"solution": f"{n / 2}"})).fields["passed"], range(8)
        )
        assert list(found) == [True] * 8


@math_verify
@pytest.mark.parametrize("task", [{}, {"solution": None}, {"solution": "}{"}, {"solution": []}])
def test_mathematics_without_a_solution_decides_nothing(task: dict[str, Any]) -> None:
    assert check(MATH, "5", task).status is TurnStatus.TOOL_ERROR


gym = pytest.mark.skipif(
    find_spec("reasoning_gym") is None,
    reason="needs reasoning-gym: pip install 'debate-arena[verifiers]', with a C compiler",
)

COUNTDOWN = {
    "question": "Using 6, 61, 4 and 94, reach 309.",
    "answer": "94*4 - 61 - 6",
    "metadata": {"source_dataset": "countdown", "numbers": [6, 61, 4, 94], "target": 309},
}
SUM = {"question": "3 - 7 =", "answer": "-4", "metadata": {"source_dataset": "basic_arithmetic"}}
QUEENS = {
    "question": "Place 4 queens.",
    "answer": "_ Q _ _\n_ _ _ Q\nQ _ _ _\n_ _ Q _",
    "metadata": {"source_dataset": "n_queens", "valid_answers": ["_ Q _ _\n_ _ _ Q\nQ _ _ _\n_ _ Q _"]},
}


@gym
def test_puzzles_are_scored_by_their_own_rules() -> None:
    for entry in (COUNTDOWN, SUM, QUEENS):
        assert check(GYM, f" {entry['answer']}\n", {"entry": entry}).fields["passed"] is True
    assert check(GYM, "-6 + 94*4 - 61", {"entry": COUNTDOWN}).fields["passed"] is True  # another way to 309
    assert check(GYM, "-61 + 94*4", {"entry": COUNTDOWN}).fields["passed"] is False


@gym
def test_a_dataset_that_the_library_does_not_have_is_refused_before_anything_is_checked() -> None:
    with pytest.raises(UnknownNameError, match=r"'countdwn' is no dataset of reasoning-gym\. Did you mean 'countdown'"):
        CHECKS.build("reasoning_gym:dataset=countdwn")
    CHECKS.build("reasoning_gym:dataset=countdown")


@gym
def test_marks_for_a_part_count_only_where_that_is_asked_for() -> None:
    near = "so -4"  # the library gives marks for a text that holds the answer
    assert check(GYM, near, {"entry": SUM}).fields == {"passed": False, "score": 0.0}
    assert check(f"{GYM},partial=true", near, {"entry": SUM}).fields["score"] == 2 / 5


@gym
@pytest.mark.parametrize(
    "said",
    ["__import__('os')._exit(0)", "S('1')", "().x", "9**9**9**9", "open\n('x')", "(lambda: 5)()", "sin\\\n.x(5)"],
)
def test_an_answer_that_is_a_program_is_not_run(said: str) -> None:
    found = check(GYM, said, {"entry": COUNTDOWN})
    assert found.fields["passed"] is False
    assert found.unread


@gym
def test_an_entry_that_is_none_decides_nothing() -> None:
    for task in ({}, {"entry": "no"}, {"entry": {"answer": "1", "metadata": {}}}):
        assert check(GYM, "1", task).status is TurnStatus.TOOL_ERROR
    unknown = check(GYM, "1", {"entry": {**COUNTDOWN, "metadata": {"source_dataset": "nope"}}})
    assert (unknown.status, unknown.fields["passed"]) == (TurnStatus.TOOL_ERROR, None)
    assert "nope" in str(unknown.error)


def test_what_is_missing_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for spec in (MATH, GYM):
        with pytest.raises(MissingExtraError, match=r"pip install 'debate-arena\[verifiers\]'"):
            CHECKS.build(spec)
