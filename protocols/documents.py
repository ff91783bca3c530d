"""YAML files with the place of every key and value, so that each fault can be shown as FILE:LINE:COL.

Scalars follow YAML 1.2: only ``true`` and ``false`` are booleans (``yes``, ``no``, ``on``, ``off`` stay text) and
``3e-3`` is a number. Refused before anything is built: duplicate keys, tags, files over 1 MB, nesting over 100
levels, and aliases that grow a document over 10,000 values or contain themselves.
"""

from __future__ import annotations

import json
import math
import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from arena.protocols.composer import (
    MAX_BYTES,
    KeyPath,
    Mark,
    SourceNode,
    compose,
    read_scalar,
    read_value,
    source_error,
    spell,
)
from arena.protocols.errors import Fault, SourceError, suggest

__all__ = [
    "Document",
    "KeyPath",
    "find_faults",
    "parse_document",
    "read_document",
    "read_scalar",
    "read_value",
    "validate_model",
]

Model = TypeVar("Model", bound=BaseModel)


class Document:
    """A parsed YAML file: ``data`` is plain Python, ``fault`` says where in the file a value stands."""

    def __init__(self, file: str, text: str, root: SourceNode, base: SourceNode | None = None) -> None:
        self.file = file
        self.text = text
        self.data: Any = root.plain()
        self.root = root
        """The values with their places; those that another file brings (``extends``) know their file."""
        self._base = base
        self._changed: set[KeyPath] = set()

    def inherits(self, path: KeyPath) -> bool:
        """Whether what the document extends has a value at ``path`` too."""
        return self._base is not None and _find(self._base, path)[1] == len(path)

    def has(self, path: KeyPath) -> bool:
        """Whether there is a value at ``path``."""
        *parents, last = path or (None,)
        inside = self.get(tuple(step for step in parents if step is not None)) if path else None
        if isinstance(inside, dict):
            return last in inside
        return not path or (isinstance(inside, list) and isinstance(last, int) and 0 <= last < len(inside))

    def get(self, path: KeyPath) -> Any:
        """The plain value at ``path``; None if there is none."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def change(self, path: KeyPath, value: Any) -> None:
        """Put another value at ``path``, and mappings on the way to it; faults in it have no place in the file.

        Raises:
            SourceError: a value on the way is not a mapping.
        """
        inside, new = self.data, path
        for depth, step in enumerate(path):
            if not isinstance(inside, dict):
                above, whole = spell(path[:depth]) or "the document", spell(path)
                raise source_error(self.file, 0, 0, f"'{above}' is not a mapping, so '{whole}' cannot be set", whole)
            if step not in inside:
                new = min(new, path[: depth + 1], key=len)
            if depth < len(path) - 1:
                inside = inside.setdefault(step, {})
        inside[path[-1]] = value
        self._changed.add(new)

    def position(self, path: KeyPath, *, key: bool = False, offset: int | None = None) -> tuple[int, int]:
        """1-based line and column of the value at ``path``, or of the nearest value around it.

        Args:
            path: keys and indices from the root.
            key: the place of the key instead of its value.
            offset: count of characters into a text value; None is the beginning of the value, its quote included.

        Returns:
            (0, 0) for a value that `change` has put there.
        """
        mark = self._mark(path, key=key, offset=offset)
        return (mark.line, mark.column) if mark else (0, 0)

    def _mark(self, path: KeyPath, *, key: bool, offset: int | None) -> Mark | None:
        if any(path[: len(changed)] == changed for changed in self._changed):
            return None
        node, depth = _find(self.root, path)
        if key and depth == len(path) and path:
            parent, _ = _find(self.root, path[:-1])
            if path[-1] in parent.keys:
                return parent.keys[str(path[-1])]
        if depth < len(path):
            return Mark(node.source, node.line, node.column)
        return _inside(node, offset)

    def fault(self, path: KeyPath, what: str, *, key: bool = False, offset: int | None = None) -> Fault:
        """A fault at ``path``; see `position`."""
        mark = self._mark(path, key=key, offset=offset)
        if mark is None:
            return Fault(self.file, 0, 0, spell(path), what)
        return Fault(mark.source.file, mark.line, mark.column, spell(path), what)


def _find(root: SourceNode, path: KeyPath) -> tuple[SourceNode, int]:
    """The deepest existing node along ``path`` and how many steps lead to it."""
    node = root
    for depth, step in enumerate(path):
        children = node.value
        inside = isinstance(children, dict) and step in children
        if not inside and not (isinstance(children, list) and isinstance(step, int) and 0 <= step < len(children)):
            return node, depth
        node = children[step]
    return node, len(path)


def _inside(node: SourceNode, offset: int | None) -> Mark:
    """Place of a character of a text; exact in one-line scalars and ``|`` blocks, else the value's place."""
    text, source = node.value, node.source
    if not isinstance(text, str) or offset is None or not 0 <= offset <= len(text):
        return Mark(source, node.line, node.column)
    if node.style == "|":
        above = text[:offset].count("\n")
        wanted = text.split("\n")[above]
        line = node.line + 1 + above
        start = source.line(line).find(wanted)
        if wanted and start >= 0:
            return Mark(source, line, start + 1 + offset - (text.rfind("\n", 0, offset) + 1))
    elif source.line(node.line).startswith(text, node.column - 1 + (node.style in ("'", '"'))):
        return Mark(source, node.line, node.column + (node.style in ("'", '"')) + offset)
    return Mark(source, node.line, node.column)


def read_document(path: str | Path) -> Document:
    """Read a YAML file.

    Raises:
        SourceError: it cannot be read, is not UTF-8 or not the YAML described at the top of this module.
    """
    path = Path(path)
    try:
        with path.open("rb") as stream:  # a pipe or a device has no size to ask for
            raw = stream.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise source_error(str(path), 0, 0, "there is no such file") from None
    except (OSError, ValueError) as error:
        raise source_error(str(path), 0, 0, f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(raw) > MAX_BYTES:
        raise source_error(str(path), 0, 0, f"the file is larger than {MAX_BYTES:,} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = error.start - (before.rfind(b"\n") + 1) + 1
        raise source_error(
            str(path), before.count(b"\n") + 1, column, "not UTF-8 text: save the file as UTF-8"
        ) from None
    return parse_document(text, str(path))


def parse_document(text: str, file: str = "<text>") -> Document:
    """Parse YAML text; ``file`` is the name for messages.

    Raises:
        SourceError: as `read_document`.
    """
    return Document(file, text, compose(text, file))


def validate_model(document: Document, model: type[Model]) -> Model:
    """Check a whole document against a pydantic model, strictly: no text passes for a number.

    Raises:
        SourceError: with every fault and its place.
    """
    value, faults = find_faults(document, model)
    if value is None:
        raise SourceError(faults)
    return value


def find_faults(document: Document, model: type[Model], path: KeyPath = ()) -> tuple[Model | None, list[Fault]]:
    """Check the part of a document at ``path``: the model, or the faults. No number may be infinite or NaN."""
    data = document.get(path)
    if not isinstance(data, dict):
        return None, [document.fault(path, f"{_show(data)} is not a mapping: write key: value lines")]
    endless = {
        place: document.fault(place, f"{number} is no finite number: write one with digits")
        for place, number in _endless(data, path)
    }
    try:
        value = model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        others = [each for each in error.errors(include_url=False) if _real_path(document, path, each) not in endless]
        return None, _in_order([*endless.values(), *_translate(document, model, path, others)])
    return (None, _in_order([*endless.values()])) if endless else (value, [])


def _endless(data: Any, path: KeyPath) -> Iterator[tuple[KeyPath, float]]:
    """The numbers inside of ``data`` that are infinite or NaN, with their paths."""
    if isinstance(data, float) and not math.isfinite(data):
        yield path, data
    elif isinstance(data, dict | list):
        for step, value in data.items() if isinstance(data, dict) else enumerate(data):
            yield from _endless(value, (*path, step))


def _in_order(faults: list[Fault]) -> list[Fault]:
    return sorted(faults, key=lambda fault: (fault.line, fault.column))


_EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a mapping (key: value)",
    "model_type": "a mapping (key: value)",
    "model_attributes_type": "a mapping (key: value)",
    "none_required": "empty",
}


def _translate(document: Document, model: type[BaseModel], base: KeyPath, errors: list[ErrorDetails]) -> list[Fault]:
    """Pydantic's errors as faults, one for each place, in file order."""
    places: dict[KeyPath, list[ErrorDetails]] = {}
    for error in errors:
        path = _real_path(document, base, error)
        places.setdefault(path, []).append(error)
    return _in_order([_fault(document, model, base, path, found) for path, found in places.items()])


def _real_path(document: Document, base: KeyPath, error: ErrorDetails) -> KeyPath:
    """The error's location without the names of union branches; a missing key stays as last step."""
    path = base
    for number, step in enumerate(error["loc"]):
        last = number == len(error["loc"]) - 1
        if document.has((*path, step)) or (last and error["type"] == "missing"):
            path = (*path, step)
    return path


def _fault(
    document: Document, model: type[BaseModel], base: KeyPath, path: KeyPath, errors: list[ErrorDetails]
) -> Fault:
    error, value = errors[0], document.get(path)
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return document.fault(path[:-1], f"'{path[-1]}' is missing")
    if kind == "extra_forbidden":
        known = _known_keys(model, path[len(base) : -1])
        return document.fault(path, f"'{path[-1]}' is not a key here.{suggest(str(path[-1]), known)}", key=True)
    expected = []
    for each in errors:
        if each["type"] in ("literal_error", "enum"):
            expected.append(f"one of {each.get('ctx', {}).get('expected', '').replace(' or ', ', ')}")
        elif each["type"] in _EXPECTED:
            expected.append(_EXPECTED[each["type"]])
    if len(expected) == len(errors):
        if "a number" in expected:
            expected = [each for each in expected if each != "a whole number"]
        example = _example(model, path[len(base) :], value) if expected == [_EXPECTED["model_type"]] else ""
        return document.fault(path, f"{_show(value)} is not {' or '.join(dict.fromkeys(expected))}{example}")
    if kind in ("value_error", "assertion_error"):
        what = str(context.get("error", error["msg"]))
    elif kind == "string_pattern_mismatch":
        what = f"{_show(value)} is not a name: use letters, digits and _{_as_list(value)}"
    elif kind in ("too_short", "string_too_short"):
        what = f"it needs at least {context.get('min_length', 1)} of them"
    else:
        message = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
        what = f"{_show(value)} is not {message}" if error["msg"].startswith("Input should be ") else message
    return document.fault(path, what)


def _as_list(value: Any) -> str:
    """What was meant by names that are joined."""
    names = re.split(r"\s*[&,|]\s*|\s+", value.strip()) if isinstance(value, str) and len(value) <= 200 else []
    return f" (several names are a list: [{', '.join(names)}])" if len(names) > 1 and all(names) else ""


def _show(value: Any) -> str:
    if value is None:
        return "an empty value"
    text = repr(value) if not isinstance(value, bool) else str(value).lower()
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """The keys that models have at ``path``, found by walking the annotations."""
    kinds: list[Any] = [model]
    for step in path:
        kinds = [inner for kind in kinds for inner in _step_into(kind, step)]
    return sorted(
        {field.alias or name for kind in kinds if _is_model(kind) for name, field in kind.model_fields.items()}
    )


def _example(model: type[BaseModel], path: KeyPath, value: Any) -> str:
    """How a plain value may be meant where a mapping is wanted: as its first key."""
    kinds: list[Any] = [model]
    for step in path:
        kinds = [inner for kind in kinds for inner in _step_into(kind, step)]
    models = (kind for kind in kinds if _is_model(kind))
    first = next((field.alias or name for found in models for name, field in found.model_fields.items()), "")
    plain = isinstance(value, int | float | str) and not isinstance(value, bool)
    return f": write {{{first}: {value}}}" if first and plain and len(str(value)) <= 40 else ""


def _step_into(kind: Any, step: str | int) -> list[Any]:
    if _is_model(kind):
        for name, field in kind.model_fields.items():
            if step in (field.alias or name, name):
                return _alternatives(field.annotation)
        return []
    arguments = typing.get_args(kind)
    return _alternatives(arguments[-1] if isinstance(step, str) else arguments[0]) if arguments else []


def _alternatives(annotation: Any) -> list[Any]:
    """The members of unions inside an annotation."""
    origin = typing.get_origin(annotation)
    if origin is Annotated:
        return _alternatives(typing.get_args(annotation)[0])
    if origin in (Union, types.UnionType):
        return [kind for part in typing.get_args(annotation) for kind in _alternatives(part)]
    return [annotation]


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
