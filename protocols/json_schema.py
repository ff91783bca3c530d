"""JSON Schema (2020-12) for the output of turns: the part of it that can be checked in linear time.

Patterns are RE2, references lead to ``#/$defs/NAME`` only and never in a circle, formats are not checked, and keywords
that are not in `KEYWORDS` are refused, so that a misspelt one does not let everything pass.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from arena.protocols.errors import suggest
from arena.protocols.patterns import compile_pattern, pattern_fault

if TYPE_CHECKING:
    from jsonschema import ValidationError
    from jsonschema.protocols import Validator

__all__ = ["KEYWORDS", "check_schema", "schema_fault"]

_PLAIN = (
    *("type", "enum", "const", "required", "title", "description", "default", "examples", "format", "$comment"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"),
    *("minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties"),
    *("dependentRequired", "$ref", "$schema"),
)
_ONE = ("items", "contains", "additionalProperties", "propertyNames", "not", "if", "then", "else")
_MANY = ("allOf", "anyOf", "oneOf", "prefixItems")
_NAMED = ("properties", "dependentSchemas", "$defs")

KEYWORDS = frozenset({*_PLAIN, *_ONE, *_MANY, *_NAMED})
"""What a schema may hold."""

_MAX_DEPTH = 20
_MAX_SIZE = 2_000
_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _SchemaFaultError(Exception):
    """What is wrong with a schema."""


def check_schema(schema: Mapping[str, Any]) -> str | None:
    """What is wrong with the schema of a turn's output; None if nothing is."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        _check_size(schema)
        Draft202012Validator.check_schema(schema, format_checker=None)  # type: ignore[arg-type]
        _check_root(schema)
        for place, part in _parts(schema, "#"):
            _check_part(place, part, schema)
        _unrolled(schema, schema, ())
    except _SchemaFaultError as error:
        return str(error)
    except SchemaError as error:
        return f"{_place(error)}: {error.message:.200}"
    return None


def schema_fault(schema: Mapping[str, Any], value: Any) -> str | None:
    """How a value breaks a schema that `check_schema` found good, in words for its writer; None if it keeps to it.

    What is repeated of the value is at most 80 characters, which are not inert yet.
    """
    validator = _validator(json.dumps(schema))
    error = next(iter(validator.iter_errors(value)), None)
    return None if error is None else _say(error)


@functools.lru_cache(maxsize=256)
def _validator(schema: str) -> Validator:
    from referencing import Registry

    made: Validator = _validator_class()(json.loads(schema), registry=Registry())  # empty: nothing is ever fetched
    return made


@functools.cache
def _validator_class() -> Any:
    from jsonschema import Draft202012Validator, ValidationError
    from jsonschema.validators import extend

    def pattern(validator: Any, source: str, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if isinstance(instance, str) and not compile_pattern(source).search(instance):
            yield ValidationError("it does not match")

    def unique_items(validator: Any, wanted: bool, instance: Any, schema: Any) -> Iterator[ValidationError]:
        if wanted and isinstance(instance, list):
            keys = {json.dumps(item, sort_keys=True) for item in instance}
            if len(keys) < len(instance):
                yield ValidationError("it has an item twice")

    rules = {"pattern": pattern, "uniqueItems": unique_items}
    return extend(Draft202012Validator, rules)  # type: ignore[no-untyped-call]  # so in types-jsonschema


def _say(error: Any) -> str:
    keyword, wanted, value = error.validator, error.validator_value, error.instance
    where = f"'{_place(error)}'" if error.absolute_path else "the object"
    if keyword is None:
        return f"a part is there that must not be: {_shown(value)}"
    if keyword == "required":
        missing = next(name for name in wanted if name not in value)
        return f"{where} lacks '{missing}'"
    if keyword == "additionalProperties" and wanted is False:
        extra = next(name for name in value if name not in error.schema.get("properties", {}))
        return f"{where} must not have '{extra:.80}'"
    shown = _shown(value)
    if keyword == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        return f"{where} must be of type {' or '.join(kinds)}, not {shown}"
    rule = json.dumps(wanted, ensure_ascii=False)
    rule = rule if len(rule) <= 300 else f"{rule[:297]}..."
    if keyword in ("enum", "const"):
        return f"{where} must be {'one of ' if keyword == 'enum' else ''}{rule}, not {shown}"
    return f"{where} must keep to {keyword}: {rule}, which {shown} does not"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _place(error: Any) -> str:
    place = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in error.absolute_path)
    return place.removeprefix(".")[:80] or "the schema"


def _check_size(value: Any) -> None:
    """Depth, count and kinds of values, before anything walks through them."""
    stack, seen = [(value, 0)], 0
    while stack:
        part, depth = stack.pop()
        seen += 1
        if depth > _MAX_DEPTH or seen > _MAX_SIZE:
            raise _SchemaFaultError(f"the schema is too large: at most {_MAX_DEPTH} levels and {_MAX_SIZE:,} values")
        if isinstance(part, Mapping):
            if odd := [key for key in part if not isinstance(key, str)]:
                raise _SchemaFaultError(f"the key {odd[0]!r:.40} of the schema is not a text")
            stack += [(item, depth + 1) for item in part.values()]
        elif isinstance(part, list | tuple):
            stack += [(item, depth + 1) for item in part]
        elif isinstance(part, float) and not math.isfinite(part):
            raise _SchemaFaultError("the schema holds a number that is not finite")
        elif not isinstance(part, str | int | float | None):
            raise _SchemaFaultError(f"{part!r:.40} in the schema is not a value of JSON")


def _check_root(schema: Mapping[str, Any]) -> None:
    if schema.get("type") != "object" or not schema.get("properties"):
        raise _SchemaFaultError("the schema must be of an object with properties: {type: object, properties: {...}}")
    for name in schema["properties"]:
        if not _NAME.fullmatch(name) or len(name) > 60:
            raise _SchemaFaultError(f"property '{name:.60}' cannot be named in conditions: use letters, digits and _")
    if schema.get("$schema", _DRAFT) != _DRAFT:
        raise _SchemaFaultError(f"'$schema' must be {_DRAFT}")


def _parts(schema: Any, place: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schema and all schemas inside it."""
    if not isinstance(schema, Mapping):
        return
    yield place, schema
    for keyword, value in schema.items():
        inner = f"{place}/{keyword}"
        if keyword in _ONE:
            yield from _parts(value, inner)
        elif keyword in _MANY:
            for number, item in enumerate(value):
                yield from _parts(item, f"{inner}/{number}")
        elif keyword in _NAMED:
            for name, item in value.items():
                yield from _parts(item, f"{inner}/{name}")


def _check_part(place: str, part: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    for keyword in part:
        if keyword not in KEYWORDS:
            raise _SchemaFaultError(
                f"{place}: '{keyword:.60}' is not a keyword that is checked here.{suggest(keyword, KEYWORDS)}"
            )
    if place != "#" and (found := {"$defs", "$schema"} & part.keys()):
        raise _SchemaFaultError(f"{place}: '{min(found)}' stands at the root of the schema only")
    if "pattern" in part and (fault := pattern_fault(part["pattern"])):
        raise _SchemaFaultError(f"{place}/pattern: {fault}")
    if "$ref" in part and _target(part["$ref"], root) is None:
        known = ", ".join(f"#/$defs/{name}" for name in root.get("$defs", {})) or "none"
        raise _SchemaFaultError(
            f"{place}: '$ref' {part['$ref']!r:.80} leads nowhere in the schema. There is: {known:.200}"
        )


def _target(ref: str, root: Mapping[str, Any]) -> Any:
    return root.get("$defs", {}).get(ref.removeprefix("#/$defs/")) if ref.startswith("#/$defs/") else None


def _unrolled(part: Any, root: Mapping[str, Any], path: tuple[str, ...]) -> int:
    """Count of schemas with references followed: what a value may cost."""
    if len(path) > _MAX_DEPTH:
        raise _SchemaFaultError(f"'$ref' leads over more than {_MAX_DEPTH} other references")
    size = 0
    for _, inner in _parts(part if part is not root else {**root, "$defs": {}}, ""):
        size += 1
        if ref := inner.get("$ref"):
            if ref in path:
                raise _SchemaFaultError(f"'$ref' leads in a circle: {' -> '.join((*path, ref)):.200}")
            size += _unrolled(_target(ref, root), root, (*path, ref))
        if size > _MAX_SIZE:
            raise _SchemaFaultError(
                f"the schema is too large: more than {_MAX_SIZE:,} parts with its references followed"
            )
    return size
