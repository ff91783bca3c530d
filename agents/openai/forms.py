"""Holding an answer to a form, for servers that can: JSON schemas in ``response_format``, the one way that OpenAI,
vLLM, SGLang and llama.cpp share.

Only where the whole turn is the output: words around a tag are free. A choice is asked for as ``{"choice": TEXT}`` and
taken out again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from arena.protocols.outputs import OutputRule

__all__ = ["plain_choice", "response_format"]


def response_format(rule: OutputRule | None, options: Sequence[str]) -> dict[str, Any] | None:
    """What a request asks for; None where the form cannot be said so.

    Args:
        rule: what the turn must look like.
        options: the texts to choose from, for a choice.
    """
    if rule is None or rule.place:
        return None
    schema: Mapping[str, Any]
    if rule.kind == "json":
        schema = rule.schema
    elif rule.kind == "choice":
        texts = {"type": "string", "enum": list(options or rule.choices)}
        schema = {
            "type": "object",
            "properties": {"choice": texts},
            "required": ["choice"],
            "additionalProperties": False,
        }
    else:
        return None
    return {"type": "json_schema", "json_schema": {"name": "turn", "schema": dict(schema), "strict": _closed(schema)}}


def plain_choice(rule: OutputRule | None, text: str) -> str:
    """The choice out of ``{"choice": TEXT}``; any other text as it is."""
    if rule is None or rule.kind != "choice" or rule.place:
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    chosen = found.get("choice") if isinstance(found, dict) else None
    return chosen if isinstance(chosen, str) else text


def _closed(schema: Any) -> bool:
    """Whether all objects in a schema have their properties required and no others: only then OpenAI is strict."""
    if isinstance(schema, list):
        return all(map(_closed, schema))
    if not isinstance(schema, Mapping):
        return True
    if schema.get("type") == "object" or "properties" in schema:
        properties = set(schema.get("properties", ()))
        if schema.get("additionalProperties") is not False or set(schema.get("required", ())) != properties:
            return False
    return all(map(_closed, schema.values()))
