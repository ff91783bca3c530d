"""An agent that says something of the right form at random: for tests, and for a quick look at a protocol.

It obeys `Ask.output`: picks a choice, makes JSON of the schema or a text of the pattern, or calls a tool; it quotes
where a turn is to quote, and says a few plain words otherwise. What it says is a function of `Ask.seed` alone.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from arena.agents.random_text import make_match
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.outputs import OutputRule
from arena.protocols.words import expand_words

__all__ = ["make_json", "random_agent"]

_WORDS = tuple(
    expand_words(
        "the claim evidence shows that this holds because no other reading fits and both facts agree yet one step is "
        "weak so we should look again at what was said before"
    )
)
_LONGEST = 20
"""Words of a free turn."""
_DEPTH = 8
_ARGUMENTS: Mapping[str, Sequence[dict[str, Any]]] = {
    "calculator": ({"expression": "(3 + 4) * 2"}, {"expression": "10 / 4"}),
    "lookup": ({"query": "evidence"}, {"query": "what was said"}),
    "search": ({"query": "evidence"}, {"query": "what was said"}),
    "python": ({"code": "sum(range(10))"}, {"code": "print('hello')"}),
}
"""Arguments for the tools that come with the package; others are called with none."""


def random_agent(*, name: str = "random") -> ScriptedAgent:
    """Says something of the form that is asked for."""
    return ScriptedAgent(name, _say)


def _say(ask: Ask) -> str:
    rng = random.Random(ask.seed)
    rule = ask.output
    if rule is None:
        return _free(ask, rng)
    if rule.optional and rng.random() < 0.5:
        return _words(rng, ask.max_words)
    said = _formed(rule, ask, rng)
    return f"<{rule.place}>{said}</{rule.place}>" if rule.place else said


def _formed(rule: OutputRule, ask: Ask, rng: random.Random) -> str:
    if rule.kind == "choice" and ask.options:
        return rng.choice(ask.options)
    if rule.kind == "json":
        return json.dumps(make_json(rule.schema, rng))
    if rule.kind == "call":
        tool = rng.choice(rule.tools)
        return json.dumps({"tool": tool, "arguments": rng.choice(_ARGUMENTS.get(tool, ({},)))})
    made = make_match(rule.pattern, rng)
    return _words(rng, ask.max_words) if made is None else made


def _free(ask: Ask, rng: random.Random) -> str:
    source = ask.task.fields.get(ask.quote_field) if ask.quote_field else None
    if isinstance(source, str) and source.split():
        words = source.split()
        start = rng.randrange(len(words))
        most = _LONGEST // 2 if ask.max_words is None else max(1, ask.max_words // 2)
        quoted = f"<quote>{' '.join(words[start : start + min(5, most)])}</quote>"
        left = None if ask.max_words is None else ask.max_words - most
        return f"{_words(rng, left)} {quoted}".strip()
    if isinstance(source, Sequence) and source:
        return str(rng.choice(source))
    return _words(rng, ask.max_words)


def _words(rng: random.Random, most: int | None) -> str:
    count = rng.randint(3, _LONGEST)
    return " ".join(rng.choices(_WORDS, k=count if most is None else min(count, max(0, most))))


def make_json(schema: Any, rng: random.Random) -> Any:
    """A value that fits a JSON Schema of the usual kind (types, enum, const, bounds, items, local ``$ref``, anyOf)."""
    return _Maker(schema, rng).make(schema, 0)


class _Maker:
    """Makes values; ``$ref`` needs the whole schema at hand."""

    def __init__(self, root: Any, rng: random.Random) -> None:
        self.root = root
        self.rng = rng

    def make(self, schema: Any, depth: int) -> Any:
        if not isinstance(schema, Mapping) or depth > _DEPTH:
            return None
        if "$ref" in schema:
            return self.make(self.find(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.rng.choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self.make(self.rng.choice(schema[key]), depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = self.rng.choice(kind) if isinstance(kind, list) else kind
        return getattr(self, f"make_{kind}", self.make_null)(schema, depth)

    def find(self, reference: str) -> Any:
        found = self.root
        for part in reference.removeprefix("#").strip("/").split("/"):
            if part and isinstance(found, Mapping):
                found = found.get(part.replace("~1", "/").replace("~0", "~"))
        return found

    def make_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties: Mapping[str, Any] = schema.get("properties", {})
        wanted = [
            key
            for key in properties
            if key in schema.get("required", ()) or (depth < _DEPTH // 2 and self.rng.random() < 0.5)
        ]
        return {key: self.make(properties[key], depth + 1) for key in wanted}

    def make_array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", max(least, 3)))
        return [self.make(schema.get("items", {}), depth + 1) for _ in range(self.rng.randint(least, max(least, most)))]

    def make_string(self, schema: Mapping[str, Any], depth: int) -> str:
        text = _words(self.rng, 6)
        while len(text) < int(schema.get("minLength", 0)):
            text += f" {_words(self.rng, 6)}"
        return text[: int(schema["maxLength"])] if "maxLength" in schema else text

    def make_integer(self, schema: Mapping[str, Any], depth: int) -> int:
        low, high = _bounds(schema, 1)
        return self.rng.randint(math.ceil(low), math.floor(high))

    def make_number(self, schema: Mapping[str, Any], depth: int) -> float:
        low, high = _bounds(schema, 0)
        return low + (high - low) * self.rng.uniform(0.25, 0.75)

    def make_boolean(self, schema: Mapping[str, Any], depth: int) -> bool:
        return self.rng.random() < 0.5

    def make_null(self, schema: Mapping[str, Any], depth: int) -> None:
        return None


def _bounds(schema: Mapping[str, Any], step: int) -> tuple[float, float]:
    """Between which numbers to draw: an exclusive bound is ``step`` off, an open side ten away."""
    low = schema.get("minimum", schema["exclusiveMinimum"] + step if "exclusiveMinimum" in schema else None)
    high = schema.get("maximum", schema["exclusiveMaximum"] - step if "exclusiveMaximum" in schema else None)
    if low is None:
        low = 0 if high is None else min(0, high - 10)
    return low, max(low, low + 10 if high is None else high)
