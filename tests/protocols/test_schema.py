"""The JSON Schema that editors read: complete, described, and the same that ships."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from arena.protocols import read_document
from arena.protocols.compiler.sources import LIBRARY
from arena.protocols.schema import protocol_schema

SHIPPED = LIBRARY.parent / "protocol.schema.json"


def fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property anywhere, with its path."""
    for key, value in schema.items():
        if key == "properties":
            yield from ((f"{path}.{name}", part) for name, part in value.items())
        for number, part in enumerate(value if isinstance(value, list) else [value]):
            if isinstance(part, dict):
                yield from fields(part, f"{path}.{key}" + (f"[{number}]" if isinstance(value, list) else ""))


def test_the_shipped_file_is_what_the_code_says() -> None:
    """When this fails: arena schema protocol > protocols/protocol.schema.json"""
    assert json.loads(SHIPPED.read_text(encoding="utf-8")) == protocol_schema()


def test_every_field_is_described() -> None:
    schema = protocol_schema()
    bare = [path for path, part in fields(schema) if not part.get("description")]
    assert bare == []
    assert [name for name, part in schema["$defs"].items() if not part.get("description")] == []
    assert len(list(fields(schema))) > 70


@pytest.mark.parametrize("path", sorted(LIBRARY.glob("*.yaml")), ids=lambda path: path.stem)
def test_library_files_fit_it_and_point_at_it(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(protocol_schema())
    jsonschema.validate(read_document(path).data, protocol_schema())
    first = path.read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../protocol.schema.json"
    assert (path.parent / first.partition("=")[2]).resolve() == SHIPPED.resolve()


def test_a_file_that_extends_another_needs_a_name_only() -> None:
    jsonschema.validate({"name": "x", "extends": "debate", "nodes": {"pro": None}}, protocol_schema())
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"name": "x"}, protocol_schema())


def test_what_a_child_takes_away_is_no_fault_for_an_editor() -> None:
    removed = {"params": {"mode": None}, "lists": {"x": None}, "nodes": {"v": {"rule": None, "of": None}}}
    jsonschema.validate({"name": "x", "extends": "debate", "budget": None, **removed}, protocol_schema())
