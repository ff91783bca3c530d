import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arena.protocols.inert import inert_line
from arena.protocols.outputs import OutputRule, check_rule, read_output

YES_NO = OutputRule("choice", choices=("yes", "no"))
TAGGED = OutputRule("choice", choices=("yes", "no"), tag="answer")
SCORE = OutputRule("regex", pattern=r"(?P<name>\w+): (?P<score>\d+)(?: of (?P<most>\d+))?")
PLAN = OutputRule(
    "json",
    schema={
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"type": "string"}},
            "sure": {"type": "number", "maximum": 1},
        },
        "required": ["steps"],
        "additionalProperties": False,
    },
)
CALL = OutputRule("call", tools=("add", "look-up"))


def fault(rule: OutputRule, text: str, options: tuple[str, ...] = ()) -> str:
    fields, what = read_output(rule, text, options)
    assert what is not None
    assert fields == dict.fromkeys(rule.fields)
    return what


@pytest.mark.parametrize(
    "text", ["no", " No\n", "NO.", '"no"', "`no`", "'No'!", "**no**", "\u201cno\u201d.", "no?", "No;"]
)
def test_a_choice_is_read_without_case_quotes_and_final_punctuation(text: str) -> None:
    assert read_output(YES_NO, text) == ({"choice": "no", "index": 1}, None)


@pytest.mark.parametrize("text", ["", "nope", "no, yes", "yes no", "n o", "I say no", "!no", "."])
def test_a_choice_is_never_guessed(text: str) -> None:
    assert fault(YES_NO, text) == (f'Answer with exactly one of "yes", "no", and nothing else. You wrote "{text}".')


def test_options_may_come_with_the_turn() -> None:
    rule = OutputRule("choice", choices_field="answers")
    assert read_output(rule, "The  cat", ("the dog", "the cat")) == ({"choice": "the cat", "index": 1}, None)


def test_options_that_differ_only_in_case_need_the_exact_text() -> None:
    rule = OutputRule("choice", choices=("US", "us", "EU"))
    assert read_output(rule, "us")[0]["index"] == 1
    assert read_output(rule, "eu.")[0]["index"] == 2
    assert "may mean several: give the exact text" in fault(rule, "Us")


def test_options_of_nothing_but_punctuation_need_the_exact_text() -> None:
    rule = OutputRule("choice", choices=("?", "!"))
    assert read_output(rule, " ! ")[0]["index"] == 1
    assert fault(rule, ".")


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("I think <answer>yes</answer>, or rather <answer>No.</answer> Done.", "no"),
        ("<ANSWER>\nyes\n</Answer>", "yes"),
        ("<answer>no<answer>yes</answer>", "yes"),
        ("<answer>yes</answer> <answer>no", "yes"),
    ],
)
def test_the_last_tag_is_read(text: str, choice: str) -> None:
    assert read_output(TAGGED, text)[0]["choice"] == choice


def test_a_missing_tag_is_a_fault_unless_it_is_optional() -> None:
    wanted = 'Answer with exactly one of "yes", "no" in <answer>...</answer>.'
    assert fault(TAGGED, "yes") == f"{wanted} There is no <answer>...</answer>."
    assert fault(TAGGED, "<answer>yes") == f"{wanted} <answer> is not closed by </answer>."
    optional = OutputRule("choice", choices=("yes", "no"), tag="answer", optional=True)
    assert read_output(optional, "yes") == ({"choice": None, "index": None}, None)
    assert fault(optional, "<answer>perhaps</answer>")
    assert fault(optional, "<answer>yes")


def test_groups_of_a_pattern_are_the_fields() -> None:
    assert SCORE.fields == ("name", "score", "most")
    assert read_output(SCORE, " ann: 3 of 5\n") == ({"name": "ann", "score": "3", "most": "5"}, None)
    assert read_output(SCORE, "ann: 3") == ({"name": "ann", "score": "3", "most": None}, None)
    assert "matches the pattern" in fault(SCORE, "so, ann: 3")
    assert "surrogate" in fault(SCORE, "ann: \ud800")


def test_a_pattern_takes_linear_time() -> None:
    rule = OutputRule("regex", pattern=r"(?P<all>(a+)+)b")
    began = time.perf_counter()
    assert fault(rule, "a" * 90_000)
    assert time.perf_counter() - began < 2


@pytest.mark.parametrize(
    "text",
    [
        '{"steps": ["a", "b"]}',
        ' \n{"steps":["a","b"]}\n',
        '```json\n{"steps": ["a", "b"]}\n```',
        '```\n{"steps": ["a",\n "b"]}\n```\n',
    ],
)
def test_an_object_is_the_whole_text(text: str) -> None:
    assert read_output(PLAN, text) == ({"steps": ["a", "b"], "sure": None}, None)


def test_an_object_may_stand_in_a_tag() -> None:
    rule = OutputRule("json", schema=PLAN.schema, tag="plan")
    assert read_output(rule, 'So <plan>```json\n{"steps": []}\n```</plan>')[0]["steps"] == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value (line 1, column 1)"),
        ('Here: {"steps": []}', "Expecting value"),
        ('{"steps": []} Done.', "Extra data"),
        ("{'steps': []}", "Expecting property name"),
        ('{"steps": [], "steps": []}', "'steps' stands there twice"),
        ('{"steps": [], "sure": NaN}', "NaN is not a number of JSON"),
        ('{"steps": [], "sure": -Infinity}', "-Infinity is not a number of JSON"),
        ('{"steps": [], "sure": 1e999}', "1e999 is too large"),
        ('{"steps": [], "sure": ' + "9" * 400 + "}", "is too large"),
        ('{"steps": ["\\ud800"]}', "half of a surrogate pair"),
        ('{"steps": ' + "[" * 60 + "]" * 60 + "}", "nested deeper than 50"),
        ("[" * 90_000, "nested deeper than 50"),
        ('{"steps": ["' + "a" * 100_000 + '"]}', "at most 100,000 are read"),
        ("[1]", 'You wrote "[1]", which is no object'),
        ("{}", "the object lacks 'steps'"),
        ('{"steps": "a"}', "'steps' must be of type array, not \"a\""),
        ('{"steps": ["a", 1]}', "'steps[1]' must be of type string, not 1"),
        ('{"steps": [], "sure": 2}', "'sure' must keep to maximum: 1, which 2 does not"),
        ('{"steps": [], "stops": 2}', "the object must not have 'stops'"),
    ],
)
def test_what_is_wrong_with_an_object_is_told(text: str, why: str) -> None:
    what = fault(PLAN, text)
    assert what.startswith('Write one JSON object with "steps", "sure", and nothing else.')
    assert why in what
    assert len(what) < 700


def test_only_properties_of_the_schema_are_fields() -> None:
    rule = OutputRule("json", schema={"type": "object", "properties": {"a": {}, "b": {}}})
    assert read_output(rule, '{"c": 1, "b": 2}') == ({"a": None, "b": 2}, None)


@pytest.mark.parametrize(
    "text",
    [
        '<call>{"tool": "add", "arguments": {"a": 1}}</call>',
        'First <call>{"tool": "look-up"}</call>, then <call>{"arguments": {"a": 1}, "tool": "add"}</call>.',
    ],
)
def test_a_call_stands_in_its_tag(text: str) -> None:
    assert read_output(CALL, text) == ({"tool": "add", "arguments": {"a": 1}}, None)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"tool": "add"}', "There is no <call>...</call>."),
        ('<call>{"tool": "sub"}</call>', '"sub" is not a tool.'),
        ('<call>{"tool": ["add"]}</call>', "is not a tool."),
        ("<call>{}</call>", '"None" is not a tool.'),
        ('<call>{"tool": "add", "arguments": [1]}</call>', 'must be an object, not "[1]"'),
        ('<call>{"tool": "add", "args": {}}</call>', '"args" has no place in a call'),
        ('<call>["add"]</call>', "which is no object"),
        ("<call>add(1)</call>", "cannot be read as JSON"),
    ],
)
def test_what_is_wrong_with_a_call_is_told(text: str, why: str) -> None:
    what = fault(CALL, text)
    assert what.startswith('Write a call {"tool": NAME, "arguments": {...}} in <call>...</call>')
    assert "where NAME is add or look-up." in what
    assert why in what


def test_a_call_without_arguments_has_none() -> None:
    assert read_output(CALL, '<call>{"tool": "add"}</call>')[0] == {"tool": "add", "arguments": {}}


@given(st.sampled_from([YES_NO, TAGGED, SCORE, PLAN, CALL]), st.text(max_size=300))
@example(YES_NO, "no\n\x1b[2J\u202e" + "x" * 500)
@example(CALL, '<call>{"tool": "' + "\u2028judge: x" * 90 + '"}</call>')
@example(PLAN, '{"\u202e' + "x" * 200 + '": 1, "steps": []}')
def test_any_text_is_read_or_told_in_one_short_inert_line(rule: OutputRule, text: str) -> None:
    fields, what = read_output(rule, text)
    assert tuple(fields) == rule.fields
    if what is not None:
        assert what == inert_line(what)
        assert len(what) < 400
        assert text[:100] not in what or len(text) <= 80


@pytest.mark.parametrize(
    "text",
    [
        '"' + '\\"' * 49_000,
        "```\n" * 25_000,
        "." * 99_000 + "x",
        "<answer>" * 12_000,
        "{" + '"a":{' * 16_000,
        "\n " * 49_000,
    ],
)
def test_reading_takes_linear_time(text: str) -> None:
    began = time.perf_counter()
    for rule in (YES_NO, TAGGED, SCORE, PLAN, OutputRule("call", tools=("a",), tag="answer")):
        fault(rule, text)
    assert time.perf_counter() - began < 2


def test_a_repeated_item_is_found_in_linear_time() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}
    items = ",".join('1,"1"' if index == 0 else f'{index},"{index}"' for index in range(2, 8000))
    began = time.perf_counter()
    assert read_output(OutputRule("json", schema=schema), f'{{"a": [{items}]}}')[1] is None
    assert "keep to uniqueItems" in fault(
        OutputRule("json", schema=schema), f'{{"a": [{items}, {{"x": 1}}, {{"x": 1}}]}}'
    )
    assert time.perf_counter() - began < 2


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (YES_NO, None),
        (TAGGED, None),
        (SCORE, None),
        (PLAN, None),
        (CALL, None),
        (OutputRule("choice", choices_field="answers"), None),
        (OutputRule("call", tools=("a",), optional=True), None),
        (OutputRule("choice", choices=("a", "b"), optional=True), "'optional' needs a 'tag'"),
        (OutputRule("choice", choices=("a",)), "needs two texts or more"),
        (OutputRule("choice", choices=("a", " a")), "all different"),
        (OutputRule("choice", choices=("a", " ")), "none empty"),
        (OutputRule("call"), "needs the name of a tool"),
        (OutputRule("regex", pattern="(a"), "is not a regular expression of RE2: missing )"),
        (OutputRule("regex", pattern="(?P<x>a)(?=b)"), "is not a regular expression of RE2"),
        (OutputRule("regex", pattern=r"(?P<x>a)\1"), "is not a regular expression of RE2"),
        (OutputRule("regex", pattern="(?P<x>a{2000})"), "invalid repetition size"),
        (OutputRule("regex", pattern="(a|b)"), "has no named group"),
        (OutputRule("regex", pattern="(?P<x>a)|(?P<x>b)"), "'x' stands twice"),
        (OutputRule("regex", pattern="(?P<\u00e9>a)"), "cannot be named in conditions"),
        (OutputRule("regex", pattern="(?P<x>\ud800)"), "surrogate"),
        (OutputRule("regex", pattern="a" * 1001), "1,001 characters"),
        (OutputRule("json", schema={}), "must be of an object with properties"),
        (OutputRule("json", schema={"type": "array"}), "must be of an object with properties"),
        (OutputRule("json", schema=schema()), "must be of an object with properties"),
        (OutputRule("json", schema={"type": "objct", "properties": {"a": {}}}), "type: 'objct' is not valid"),
        (OutputRule("json", schema={"type": "object", "properties": {"a-b": {}}}), "'a-b' cannot be named"),
        (OutputRule("json", schema={**schema(a={}), "requird": ["a"]}), "Did you mean 'required'"),
        (OutputRule("json", schema=schema(a={"minimum": "3"})), "properties.a.minimum: '3' is not of type 'number'"),
        (OutputRule("json", schema=schema(a={"pattern": "(?=x)"})), "#/properties/a/pattern: '(?=x)' is not"),
        (OutputRule("json", schema=schema(a={"patternProperties": {"a": {}}})), "'patternProperties' is not a keyword"),
        (OutputRule("json", schema=schema(a={"$ref": "http://x.org/s"})), "'http://x.org/s' leads nowhere"),
        (OutputRule("json", schema=schema(a={"$ref": "#/$defs/b"})), "There is: none"),
        (OutputRule("json", schema=schema(a={"$ref": "#"})), "leads nowhere"),
        (OutputRule("json", schema=schema(a={"$defs": {}})), "stands at the root"),
        (
            OutputRule("json", schema={**schema(a={}), "$schema": "http://json-schema.org/draft-07/schema#"}),
            "'$schema'",
        ),
        (OutputRule("json", schema=schema(a={"const": math.inf})), "not finite"),
        (OutputRule("json", schema=schema(a={"const": {1: 2}})), "key 1 of the schema is not a text"),
        (OutputRule("json", schema=schema(a={"const": object})), "is not a value of JSON"),
        (OutputRule("json", schema=schema(a={"enum": list(range(3000))})), "too large"),
    ],
)
def test_rules_are_checked_when_they_are_read(rule: OutputRule, why: str | None) -> None:
    what = check_rule(rule)
    if why is None:
        assert what is None
    else:
        assert what is not None
        assert why in what


def test_definitions_may_be_shared_but_lead_in_no_circle() -> None:
    shared = {**schema(a={"$ref": "#/$defs/n"}, b={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer"}}}
    rule = OutputRule("json", schema=shared)
    assert check_rule(rule) is None
    assert read_output(rule, '{"a": 1}')[1] is None
    assert "'b' must be of type integer" in fault(rule, '{"b": "1"}')
    circle = {**schema(a={"$ref": "#/$defs/n"}), "$defs": {"n": {"items": {"$ref": "#/$defs/n"}}}}
    assert "in a circle" in str(check_rule(OutputRule("json", schema=circle)))
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(18)} | {"d18": {}}
    assert "too large" in str(
        check_rule(OutputRule("json", schema={**schema(a={"$ref": "#/$defs/d0"}), "$defs": doubled}))
    )
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(400)} | {"d400": {}}
    long = OutputRule("json", schema={**schema(a={"$ref": "#/$defs/d0"}), "$defs": chain})
    assert "more than 20 other references" in str(check_rule(long))


def test_a_part_may_be_forbidden() -> None:
    rule = OutputRule("json", schema=schema(a=False, b={}))
    assert check_rule(rule) is None
    assert "a part is there that must not be: 1" in fault(rule, '{"a": 1}')


def test_a_schema_that_is_too_deep_is_told() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"items": deep}
    assert "too large" in str(check_rule(OutputRule("json", schema=schema(a=deep))))


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"pattern": "^a+$"}, '"aa"', '"ab"'),
        ({"enum": ["x", 1]}, "1", '"y"'),
        ({"const": None}, "null", "0"),
        ({"anyOf": [{"type": "string"}, {"minimum": 3}]}, "4", "2"),
        ({"not": {"type": "string"}}, "1", '"1"'),
        ({"format": "email"}, '"no email"', None),
        ({"type": ["integer", "null"]}, "null", "0.5"),
        ({"multipleOf": 0.5}, "1.5", "0.7"),
    ],
)
def test_schemas_mean_what_json_schema_says(part: Any, good: str | None, bad: str | None) -> None:
    rule = OutputRule("json", schema=schema(a=part))
    assert check_rule(rule) is None
    if good is not None:
        assert read_output(rule, f'{{"a": {good}}}')[1] is None
    if bad is not None:
        assert "'a' " in fault(rule, f'{{"a": {bad}}}')
