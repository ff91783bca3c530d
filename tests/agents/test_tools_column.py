"""The tool that reckons digit by digit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.agents.tools import TOOLS, Call, run_call, tools_of
from arena.protocols.errors import ConfigError
from arena.protocols.records import TurnStatus


def reckon(expression: str, spec: str = "column") -> tuple[str, TurnStatus]:
    outcome = run_call(tools_of([spec]), "column", Call("", {"expression": expression}))
    return outcome.text, outcome.status


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        ("1 2 3 + 4 5 6", "5 7 9"),
        ("9 9 9 + 0 0 2", "0 0 1"),
        ("0 0 1 - 0 0 2", "9 9 9"),
        ("1 2 3 * 4 5 6", "0 8 8"),  # 56088
        ("0 0 0 * 4 5 6", "0 0 0"),
        ("  1 2 3\n+ 4 5 6 ", "5 7 9"),
    ],
)
def test_it_reckons_modulo_a_thousand(expression: str, result: str) -> None:
    assert reckon(expression) == (result, TurnStatus.OK)


@given(st.integers(0, 99), st.sampled_from("+-*"), st.integers(0, 99), st.integers(1, 100))
def test_it_is_python_modulo_the_modulus(left: int, sign: str, right: int, modulus: int) -> None:
    said = f"{left // 10} {left % 10} {sign} {right // 10} {right % 10}"
    wanted = eval(f"({left} {sign} {right}) % {modulus}")  # the independent reckoner
    text, status = reckon(said, f"column:digits=2,modulus={modulus}")
    assert (int(text.replace(" ", "")), len(text), status) == (wanted, 3, TurnStatus.OK)


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "5 7 9",
        "1 2 + 4 5 6",
        "1 2 3 4 + 4 5 6",
        "1 2 3 / 4 5 6",
        "? ? ? + 4 5 6",
        "123 + 456",
        "1 2 3 + 4 5 6 + 1 1 1",
        "١ 2 3 + 4 5 6",
    ],
)
def test_a_call_that_is_none_fails_and_reads_as_question_marks(expression: str) -> None:
    assert reckon(expression) == ("? ? ?", TurnStatus.TOOL_ERROR)


def test_what_was_wrong_is_for_the_record_alone() -> None:
    outcome = run_call(tools_of(["column:digits=2"]), "column", Call("", {"expression": "1 + 2"}))
    assert outcome.text == "? ?"
    assert outcome.error == "'1 + 2' is not two numbers of 2 digits with +, - or * between them"


@pytest.mark.parametrize(
    "spec", ["column:digits=0", "column:digits=19", "column:digits=2,modulus=101", "column:modulus=0"]
)
def test_numbers_that_do_not_fit_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match="must be from 1 to"):
        TOOLS.build(spec)
