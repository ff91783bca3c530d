"""Tools that speakers call: what they say, and that no call ends an episode."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from arena.agents.tools import TOOLS, check_reads, function_tool, run_call, tool, tools_of
from arena.agents.tools.lookup import passages, rank
from arena.protocols.errors import ConfigError, MissingExtraError, UnknownNameError
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus

PASSAGE = "The tower is tall. It was built in 1889! Paris has it.\nNo one knows who first had the idea."


def call(tool: str, task: dict[str, Any] | None = None, **arguments: Any) -> Outcome:
    tools = tools_of([tool])
    return run_call(tools, next(iter(tools)), Call("", arguments, task=task or {}))


@pytest.mark.parametrize(
    ("expression", "value"),
    [("(3 + 4) * 2", "14"), ("2 ** 10 / 3", "341.333333333"), ("10 / 4", "2.5"), ("max(2, 7) % 4", "3"), ("-5", "-5")],
)
def test_the_calculator_works_out_expressions(expression: str, value: str) -> None:
    assert call("calculator", expression=expression) == Outcome(value)


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("1 / 0", "division by zero"),
        ("apples + 1", "'apples' is not a number"),
        ("__import__('os')", "not a function"),
        ("9 ** 9 ** 9", "no value"),
        ("'text'", "is not a number"),
        ("2 > 1", "is not a number"),
        ("(" * 300, "not an expression"),
    ],
)
def test_the_calculator_says_why_it_cannot(expression: str, why: str) -> None:
    outcome = call("calculator", expression=expression)
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert why in outcome.text


@given(st.text(max_size=80))
def test_no_expression_raises(expression: str) -> None:
    assert call("calculator", expression=expression).status in (TurnStatus.OK, TurnStatus.TOOL_ERROR)


def test_lookup_finds_sentences_that_share_words() -> None:
    outcome = call("lookup:field=passage,count=2", {"passage": PASSAGE}, query="when was the tower BUILT?")
    assert outcome.text == "[1] It was built in 1889!\n[2] The tower is tall."
    assert call("lookup:field=passage", {"passage": PASSAGE}, query="elephants").text == "Nothing was found."


def test_lookup_finds_items_of_a_list() -> None:
    outcome = call("lookup:field=evidence,count=1", {"evidence": ("ann+7", "bob+4")}, query="bob")
    assert outcome.text == "[1] bob+4"


def test_rare_words_count_more_and_equals_keep_their_order() -> None:
    texts = ["red apple", "red pear", "red plum"]
    assert rank("red pear", texts) == ["red pear", "red apple", "red plum"]
    assert rank("blue", texts) == []


def test_sentences_end_with_a_mark_and_a_blank_or_with_a_line() -> None:
    assert passages("It costs 3.50 now. Really?\nYes") == ["It costs 3.50 now.", "Really?", "Yes"]


def test_a_field_that_the_task_lacks_is_told() -> None:
    assert call("lookup:field=passage", query="x").text == "There is nothing to look up."


def test_roles_must_see_what_their_programs_read() -> None:
    tool = TOOLS.build("lookup:field=passage")
    check_reads(tool, ["question", "passage"], "role 'box'")
    with pytest.raises(ConfigError, match=r"'lookup' of role 'box' reads 'passage'.*add it to 'sees'"):
        check_reads(tool, ["question"], "role 'box'")


def test_unknown_and_missing_calls_are_told_to_the_speaker() -> None:
    tools = tools_of(["calculator", "lookup:field=passage"])
    assert run_call(tools, "calculater", Call("")).text == "'calculater' is not a tool. Did you mean 'calculator'?"
    assert run_call(tools, None, Call("")).text == "No tool was called. There is: calculator, lookup."
    assert run_call(tools, {"a": 1}, Call("")).status is TurnStatus.TOOL_ERROR


@pytest.mark.parametrize("arguments", [{}, {"expression": 3}, {"expression": "1", "more": 1}, {"expression": None}])
def test_wrong_arguments_are_told_to_the_speaker(arguments: dict[str, Any]) -> None:
    outcome = call("calculator", **arguments)
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert outcome.text.startswith("The arguments of calculator are wrong: '")


def test_a_toolbox_has_each_name_once() -> None:
    assert list(tools_of(["lookup:field=a,name=first", "lookup:field=b,name=second"])) == ["first", "second"]
    with pytest.raises(ConfigError, match="two tools are called 'lookup'"):
        tools_of(["lookup:field=a", "lookup:field=b"])
    with pytest.raises(UnknownNameError, match="Did you mean 'lookup'"):
        tools_of(["lokup:field=a"])


def convert(miles: Annotated[float, Field(ge=0, description="how far")], copy: bool = False) -> str:
    """Miles in kilometres.

    More that speakers are not told.
    """
    return f"{miles * 1.5:g} {copy}"


def test_a_function_is_a_tool_with_the_schema_of_its_annotations() -> None:
    tool = function_tool(convert)
    assert (tool.name, tool.description, tool.slow) == ("convert", "Miles in kilometres.", False)
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "miles": {"type": "number", "minimum": 0, "description": "how far"},
            "copy": {"type": "boolean", "default": False},
        },
        "required": ["miles"],
        "additionalProperties": False,
    }
    assert tool.run([Call("", {"miles": 4}), Call("", {"miles": 2, "copy": True})]) == [
        Outcome("6 False"),
        Outcome("3 True"),
    ]
    assert "greater than or equal to 0" in tool.run([Call("", {"miles": -1})])[0].text


def test_a_property_called_title_is_kept() -> None:
    def find(title: str) -> str:
        """Finds a book."""
        return title

    assert function_tool(find).parameters["properties"] == {"title": {"type": "string"}}


def test_values_are_told_as_json_and_the_call_is_no_argument() -> None:
    def look(key: str, call: Call) -> Any:
        """Looks a field up."""
        return {key: call.task[key]}

    tool = function_tool(look)
    assert list(tool.parameters["properties"]) == ["key"]
    assert tool.run([Call("", {"key": "a"}, task={"a": [1, "ä"]})])[0].text == '{"a": [1, "ä"]}'


def test_messages_of_value_and_lookup_errors_are_for_the_speaker_and_others_are_not() -> None:
    def fail(how: str) -> str:
        """Fails."""
        raise {"value": ValueError("no such city"), "lookup": KeyError("Paris"), "other": OSError("/etc/secret")}[how]

    tools = {"fail": function_tool(fail)}
    told = {how: run_call(tools, "fail", Call("", {"how": how})) for how in ("value", "lookup", "other")}
    assert [outcome.text for outcome in told.values()] == [
        "fail failed: no such city",
        "fail failed: Paris",
        "fail failed: OSError",
    ]
    assert told["other"].error == "OSError: /etc/secret"
    assert {outcome.status for outcome in told.values()} == {TurnStatus.TOOL_ERROR}


def test_a_mistake_of_the_user_is_not_hidden_as_a_failed_call() -> None:
    def fail() -> str:
        """Fails."""
        raise MissingExtraError("pip install it")

    with pytest.raises(MissingExtraError):
        run_call({"fail": function_tool(fail)}, "fail", Call(""))


def test_a_tool_needs_a_description() -> None:
    def silent(x: int) -> int:
        return x

    with pytest.raises(ConfigError, match="tool 'silent' has no description: give its function a docstring"):
        function_tool(silent)
    assert function_tool(silent, description="Says it.").description == "Says it."


def test_parameters_need_annotations_and_names() -> None:
    def bare(x) -> str:  # type: ignore[no-untyped-def]
        """Does it."""
        return str(x)

    def many(*xs: int) -> str:
        """Does it."""
        return str(xs)

    with pytest.raises(ConfigError, match="parameter 'x' of tool 'bare' has no annotation"):
        function_tool(bare)
    with pytest.raises(ConfigError, match="parameter 'xs' of tool 'many' cannot be given by name"):
        function_tool(many)


class Broken:
    name = "broken"
    description = "Breaks."
    parameters: dict[str, Any] = {}  # noqa: RUF012 - the contract has it mutable
    slow = False

    def run(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        return []


def test_a_tool_that_breaks_its_contract_is_a_failed_call() -> None:
    outcome = run_call({"broken": Broken()}, "broken", Call("", key="e1/step"))
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert "(e1/step)" in str(outcome.error)


def test_long_texts_of_tools_are_cut() -> None:
    def shout() -> str:
        """Shouts."""
        return "a" * 10_000

    text = run_call({"shout": function_tool(shout)}, "shout", Call("")).text
    assert len(text) == 4000
    assert text.endswith("a ... (cut)")
    assert run_call({"shout": function_tool(shout, most=20)}, "shout", Call("")).text == "a" * 10 + " ... (cut)"
    assert len(run_call({"shout": function_tool(shout, most=3)}, "shout", Call("")).text) == 3


def test_built_in_tools_tell_as_much_as_they_are_asked_to() -> None:
    assert call("lookup:field=f,most=15", {"f": "tower " * 100}, query="tower").text == "[1] t ... (cut)"
    told = call("python:most=200", code="print('x' * 300)\n1 / 0")
    assert told.text == "x" * 100 + "\nZeroDivisionError (line 2): division by zero"


def test_what_a_tool_gave_is_not_changed_where_it_is_cut() -> None:
    known = Outcome("a" * 100)

    def tell() -> Outcome:
        """Tells."""
        return known

    assert len(run_call({"tell": function_tool(tell, most=10)}, "tell", Call("")).text) == 10
    assert len(known.text) == 100


def test_a_call_that_takes_too_long_is_a_failed_call() -> None:
    never = threading.Event()

    def wait() -> str:
        """Waits."""
        never.wait()
        return "done"

    tools = {"wait": function_tool(wait, seconds=0.05)}
    outcome = run_call(tools, "wait", Call(""))
    assert (outcome.status, outcome.text) == (TurnStatus.TOOL_ERROR, "wait took longer than 0.05 seconds.")
    assert tools["wait"].slow  # others go on meanwhile
    never.set()
    assert run_call({"wait": function_tool(wait, seconds=60)}, "wait", Call("")).text == "done"


def test_exceptions_come_through_a_time_limit() -> None:
    def fail(user: bool) -> str:
        """Fails."""
        raise MissingExtraError("pip install it") if user else ValueError("no such city")

    tools = {"fail": function_tool(fail, seconds=60)}
    assert run_call(tools, "fail", Call("", {"user": False})).text == "fail failed: no such city"
    with pytest.raises(MissingExtraError):
        run_call(tools, "fail", Call("", {"user": True}))


@pytest.mark.parametrize("bounds", [{"most": 0}, {"seconds": 0}])
def test_bounds_of_a_tool_are_positive(bounds: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        function_tool(convert, **bounds)


def test_a_decorated_function_is_a_tool_that_specs_can_name(monkeypatch: pytest.MonkeyPatch) -> None:
    TOOLS.names()  # the tools of the package are there
    monkeypatch.setattr(TOOLS, "_own", dict(TOOLS._own))

    @tool
    def kilometres(miles: float) -> float:
        """Miles in kilometres."""
        return miles * 1.5

    @tool(name="far", most=5)
    def distant(miles: float) -> str:
        """Says it at length."""
        return "far " * 100

    assert kilometres(2) == 3
    assert call("kilometres", miles=2) == Outcome("3.0")
    assert TOOLS.names()["kilometres"] == "Miles in kilometres."
    assert len(call("far", miles=2).text) == 5
