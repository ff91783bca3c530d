"""An agent that says something of the right form at random."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest

from arena.agents import AGENTS
from arena.agents.random_agent import make_json
from arena.agents.tools import run_call, tools_of
from arena.agents.types import Ask, Context
from arena.protocols.outputs import OutputRule, read_output
from arena.protocols.programs import Call
from arena.protocols.records import Task, TurnStatus
from arena.testing import check_agent

AGENT = AGENTS.build("random")
TASK = Task("t", {"passage": "one two three four five six", "evidence": ("a+1", "b+2")})


def ask(seed: int, **more: Any) -> Ask:
    return Ask("e", "n", "a", 0, seed, Context(), (), None, None, TASK, (), **more)


def says(count: int = 200, **more: Any) -> list[str]:
    return [act.text for act in AGENT.act([ask(seed, **more) for seed in range(count)])]


def test_it_is_a_function_of_the_seed() -> None:
    check_agent(AGENT, lambda: [ask(seed) for seed in range(5)])
    assert len(set(says())) > 150


def test_it_keeps_to_the_limit_of_words() -> None:
    assert all(1 <= len(text.split()) <= 5 for text in says(max_words=5))
    assert all(len(text.split()) <= 4 for text in says(max_words=4, quote_field="passage"))


@pytest.mark.parametrize("tag", ["", "answer"])
def test_it_chooses(tag: str) -> None:
    rule = OutputRule("choice", choices=("yes", "no"), tag=tag)
    read = [read_output(rule, text, ("yes", "no")) for text in says(output=rule, options=("yes", "no"))]
    assert {fields["choice"] for fields, _ in read} == {"yes", "no"}
    assert {fault for _, fault in read} == {None}


def test_what_is_optional_is_left_out_half_of_the_time() -> None:
    rule = OutputRule("choice", choices=("yes", "no"), tag="answer", optional=True)
    without = sum("<answer>" not in text for text in says(400, output=rule, options=("yes", "no")))
    assert 160 < without < 240  # four standard errors


def test_it_calls_tools_that_come_with_the_package_rightly() -> None:
    tools = tools_of(["calculator", "lookup:field=passage", "python"])
    rule = OutputRule("call", tools=tuple(tools))
    for text in set(says(60, output=rule)):
        fields, fault = read_output(rule, text)
        assert fault is None
        call = Call(text, fields["arguments"], task=TASK.fields)
        assert run_call(tools, fields["tool"], call).status is TurnStatus.OK


def test_it_quotes_what_is_there() -> None:
    for text in says(quote_field="passage"):
        _, quoted = text.removesuffix("</quote>").split("<quote>")
        assert quoted in TASK.fields["passage"]
    assert set(says(quote_field="evidence")) == {"a+1", "b+2"}
    assert all(says(quote_field="missing"))


SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {
            "steps": {"type": "array", "items": {"type": "string", "maxLength": 9}, "minItems": 2, "maxItems": 3}
        },
        "required": ["steps"],
    },
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1, "maximum": 3},
            "x": {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
        },
        "required": ["n", "x"],
    },
    {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "sure": {"type": "boolean"},
            "none": {"type": "null"},
            "fixed": {"const": 7},
        },
        "required": ["kind", "sure", "none", "fixed"],
    },
    {
        "type": "object",
        "properties": {"who": {"$ref": "#/$defs/person"}},
        "required": ["who"],
        "$defs": {
            "person": {
                "type": "object",
                "properties": {"name": {"type": "string", "minLength": 40}},
                "required": ["name"],
            }
        },
    },
    {
        "type": "object",
        "properties": {"either": {"anyOf": [{"type": "string"}, {"type": ["integer", "null"]}]}},
        "required": ["either"],
    },
    {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "exclusiveMinimum": 5, "exclusiveMaximum": 7},
            "low": {"type": "integer", "maximum": -20},
        },
        "required": ["n", "low"],
    },
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_json_fits_its_schema(schema: dict[str, Any]) -> None:
    for text in says(50, output=OutputRule("json", schema=schema)):
        jsonschema.validate(json.loads(text), schema)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {
        "$ref": "#/$defs/tree",
        "$defs": {"tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "minItems": 1, "maxItems": 1}},
    }
    made = make_json(schema, random.Random(0))
    depth = 0
    while made:
        (made,), depth = made, depth + 1
    assert made is None, "no text fits the schema: where it is too deep, nothing stands"
    assert 0 < depth < 100


PATTERNS = [
    r"(?P<value>-?\d+)",
    r"(?P<a>[A-Z]{2,4})-(?P<b>\d{3})",
    r"(?P<x>[^a-z\s]+)",
    r"(?s)(?P<all>.*)",
    r"(?i)answer: (?P<x>yes|no)",
    r"(?P<amount>(?:\d+\.)?\d+) (?P<unit>kg|m)",
    r"(?P<x>.+?)\s+because\s+(?P<y>.+)",
    r"\A(?<x>[[:alpha:]]+)\z",
    r"(?P<x>\p{Lu}\pL*)",
    r"(?U)(?P<x>[\x{e0}-\x{fc}]+)",
    r"(?P<x>(?:a|(?:b|c){2,})+)",
]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("tag", ["", "answer"])
def test_a_text_matches_the_pattern(pattern: str, tag: str) -> None:
    rule = OutputRule("regex", pattern=pattern, tag=tag)
    said = says(50, output=rule)
    assert {fault for _, fault in (read_output(rule, text) for text in said)} == {None}
    assert len(set(said)) > 1


@pytest.mark.parametrize("pattern", [r"(?P<x>\Bfoo)", r"(?P<x>[^\x00-\x{10FFFF}])"])
def test_what_no_text_matches_is_answered_with_words(pattern: str) -> None:
    assert all(text.split() for text in says(3, output=OutputRule("regex", pattern=pattern)))
