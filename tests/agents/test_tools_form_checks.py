"""Checks of form: one of the answers, JSON by a schema, quotes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from arena.agents.tools import CHECKS, run_check
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus

CAPITAL = {"answers": ("Paris", "a concrete wall", "con"), "solution": "con"}
PERSON = "{type: object, properties: {age: {type: integer}}, required: [age]}"
PASSAGE = {"passage": "The ferry leaves at nine. It costs 4.50 euros, and children travel free."}


def check(spec: str | dict[str, Any], text: str, task: dict[str, Any] | None = None, **turn: Any) -> Outcome:
    return run_check(CHECKS.build(spec), Call(text, turn=turn, task=task or {}))


@pytest.mark.parametrize(
    ("said", "passed", "unread"),
    [
        ("con", True, ""),
        ("Answer: C", True, ""),
        ("It is hard.\nThe answer is (c)", True, ""),
        ("Paris", False, ""),
        ("B) a concrete wall", False, ""),
        ("concrete", False, "it states no answer"),
        ("I concur with con", False, "it states no answer"),
        ("A\nC", False, "it states several answers"),
        ("", False, "it states no answer"),
    ],
)
def test_multiple_choice_wants_one_stated_answer(said: str, passed: bool, unread: str) -> None:
    found = check("multiple_choice:field=solution", said, CAPITAL)
    assert (found.fields["passed"], found.unread) == (passed, unread)


@pytest.mark.parametrize("task", [{}, {"solution": "con"}, {**CAPITAL, "solution": "c"}, {**CAPITAL, "answers": "con"}])
def test_multiple_choice_without_options_decides_nothing(task: dict[str, Any]) -> None:
    assert check("multiple_choice:field=solution", "con", task).status is TurnStatus.TOOL_ERROR


def test_a_choice_that_was_read_from_the_turn_counts() -> None:
    assert (
        check("multiple_choice:field=solution,of=choice", "I say con", CAPITAL, choice="con").fields["passed"] is True
    )


@pytest.mark.parametrize(
    ("said", "passed"),
    [
        ('{"age": 7}', True),
        ('```json\n{"age": 7}\n```', True),
        ('{"age": "7"}', False),
        ("{}", False),
        ("[7]", False),
        ('{"age": 7, "age": 8}', False),
        ('Here: {"age": 7}', False),
        ('{"age": 7', False),
        ("[" * 10_000, False),
        ("", False),
    ],
)
def test_json_schema_is_kept_or_not(said: str, passed: bool) -> None:
    assert check(f"json_schema:schema='{PERSON}'", said).fields["passed"] is passed


def test_a_schema_comes_from_a_mapping_a_file_or_the_task(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    (tmp_path / "person.yaml").write_text(PERSON)
    said = '{"age": 7}'
    assert check({"kind": "json_schema", "schema": schema}, said).fields["passed"] is True
    assert check(f"json_schema:path={tmp_path}/person.yaml", said).fields["passed"] is True
    assert check("json_schema:field=wanted", said, {"wanted": schema}).fields["passed"] is True
    assert check("json_schema:field=wanted", said, {"wanted": "no"}).status is TurnStatus.TOOL_ERROR
    assert check("json_schema:field=wanted", said).status is TurnStatus.TOOL_ERROR


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ("json_schema", "one of schema"),
        ("json_schema:schema={}", "the schema must be of an object"),
        ("json_schema:schema={},field=x", "one of schema"),
        ("json_schema:path=none.yaml", "cannot read 'none.yaml'"),
        ("json_schema:schema='{type: object, propertys: {}}'", "properties"),
    ],
)
def test_a_schema_that_is_none_is_a_mistake(spec: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        CHECKS.build(spec)


@pytest.mark.parametrize(
    ("said", "score", "good"),
    [
        ("<quote>leaves at nine</quote>", 1.0, 1),
        ("<quote>leaves at nine</quote> and <quote>children pay</quote>", 0.5, 1),
        ("<quote>Leaves at NINE!</quote> <quote>leaves at nine</quote>", 0.5, 1),  # the same passage twice
        ("<quote>eave</quote>", 0.0, 0),
        ("<quote>costs 4</quote>", 0.0, 0),  # 4.50 is one word
        ("leaves at nine", 0.0, 0),
        ("<quote></quote>", 0.0, 0),
    ],
)
def test_quotes_count_what_the_field_really_holds(said: str, score: float, good: int) -> None:
    fields = check("quotes:field=passage", said, PASSAGE).fields
    assert (fields["score"], fields["good"], fields["passed"]) == (score, good, score == 1.0)


def test_quotes_can_be_asked_for_in_number_length_and_share() -> None:
    one, two = "<quote>the ferry</quote>", "<quote>the ferry</quote> <quote>children travel free</quote>"
    assert check("quotes:field=passage,minimum=2", one, PASSAGE).fields["score"] == 0.5
    assert check("quotes:field=passage,minimum=2", two, PASSAGE).fields["passed"] is True
    assert check("quotes:field=passage,words=3", two, PASSAGE).fields["score"] == 0.5
    assert check("quotes:field=passage,words=3,share=0.5", two, PASSAGE).fields["passed"] is True
    assert check("quotes:field=passage", one).status is TurnStatus.TOOL_ERROR
