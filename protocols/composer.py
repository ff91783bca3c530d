"""YAML text to a tree of values with their places: no recursion, no YAML constructors, no code from tags."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import yaml

from arena.protocols.errors import ConfigError, Fault, SourceError

__all__ = [
    "KeyPath",
    "Mark",
    "SourceNode",
    "SourceText",
    "compose",
    "read_scalar",
    "read_value",
    "source_error",
    "spell",
]

KeyPath: TypeAlias = tuple[str | int, ...]
"""Keys and list indices from the root of a document to a value."""

MAX_BYTES = 1_000_000
_MAX_DEPTH = 100
_MAX_NODES = 10_000
_MAX_DIGITS = 300
_SPELLED = 12
BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_INT = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_scalar(text: str) -> Any:
    """The value of an unquoted YAML scalar: number, boolean, None or text.

    Raises:
        ValueError: a number with more than 300 digits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if len(text) > _MAX_DIGITS and (_INT.fullmatch(text) or _FLOAT.fullmatch(text) or _BASED.fullmatch(text)):
        raise ValueError(f"a number of {len(text)} characters is too long")
    if _INT.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text


def read_value(text: str, *, nested: bool = False) -> Any:
    """What a text from a command line stands for, by the rules of files: a scalar, or a text in quotes.

    ``5``, ``3e-3``, ``true`` and ``null`` are what they look like, ``yes``, ``12:30`` and ``2020-01-01`` are texts, and
    so is ``'5'``. Blanks at the ends do not count outside of quotes.

    Args:
        text: what stands behind the equals sign.
        nested: read lists and mappings too: ``[0, 1]``, ``{kind: exact}``.

    Raises:
        ConfigError: a number with more than 300 digits, or brackets that hold no list or mapping.
    """
    text = text.strip()
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    if quoted or (nested and text[:1] in ("[", "{")):
        try:
            return compose(text, "").plain()
        except SourceError as error:
            if not quoted:
                what = error.faults[0].what
                raise ConfigError(f"{text!r} is no list or mapping ({what}); for a text write it in quotes") from None
            return text  # such as 'a' and 'b'
    try:
        return read_scalar(text)
    except ValueError as error:
        raise ConfigError(str(error)) from None


class SourceText:
    """A file as it was read."""

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends."""
        return BREAK.split(self.text)

    def line(self, number: int) -> str:
        """A line by its 1-based number; empty if there is none."""
        return self.lines[number - 1] if 0 < number <= len(self.lines) else ""


class Mark(NamedTuple):
    """A place in a file; line and column are 1-based."""

    source: SourceText
    line: int
    column: int


@dataclass(slots=True)
class SourceNode:
    """A value with its place; line and column are 1-based."""

    source: SourceText
    line: int
    column: int
    value: Any = None
    """Scalar, ``dict[str, SourceNode]`` or ``list[SourceNode]``."""
    keys: dict[str, Mark] = field(default_factory=dict)
    """Places of the keys of a mapping."""
    style: str | None = None
    size: int = 1
    height: int = 0
    open: bool = False

    def plain(self) -> Any:
        """The value without places; every call makes new containers."""
        if isinstance(self.value, dict):
            return {key: child.plain() for key, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value


def compose(text: str, file: str) -> SourceNode:
    """The tree of a YAML text.

    Raises:
        SourceError: it is no YAML, or breaks the rules at the top of `documents`.
    """
    if len(text) > MAX_BYTES:
        raise source_error(file, 0, 0, f"the text is longer than {MAX_BYTES:,} characters")
    if found := _UNPRINTABLE.search(text):
        lines = BREAK.split(text[: found.start()])
        what = f"character U+{ord(found[0]):04X} is not allowed in YAML"
        raise source_error(file, len(lines), len(lines[-1]) + 1, what)
    try:
        return _Composer(text, file).compose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        raise source_error(file, line, column, f"not valid YAML: {_explain(error)}") from None
    except yaml.YAMLError as error:
        raise source_error(file, 0, 0, f"not valid YAML: {' '.join(str(error).split())}") from None


def _explain(error: yaml.MarkedYAMLError) -> str:
    problem = " ".join((error.problem or "cannot be parsed").split())
    if error.context:
        problem += f" ({' '.join(error.context.split())})"
    if "cannot start any token" in problem:
        problem += ". Indent with spaces, not tabs, and quote text that begins with a special character"
    elif "mapping values are not allowed" in problem:
        problem += ". Quote text that contains ': '"
    return problem


def source_error(file: str, line: int, column: int, what: str, where: str = "") -> SourceError:
    """One fault as an error."""
    return SourceError([Fault(file, line, column, where, what)])


def spell(path: KeyPath) -> str:
    """``("edges", 0, "to")`` -> ``edges[0].to``."""
    text = ""
    for step in path[:_SPELLED]:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return f"{text}..." if len(path) > _SPELLED else text


class _Composer:
    """Builds nodes from parser events with a stack of its own: no recursion, no YAML constructors."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.source = SourceText(file, text)
        self.loader = _Loader(text)
        self.anchors: dict[str, SourceNode] = {}
        self.stack: list[tuple[SourceNode, str | None]] = []
        """Open containers, each with the key that waits for its value."""
        self.count = 0
        self.root: SourceNode | None = None
        self.faults: list[Fault] = []

    def compose(self) -> SourceNode:
        """The root node of the only document."""
        try:
            while not isinstance(event := self.loader.get_event(), yaml.StreamEndEvent):
                self.take(event)
        finally:
            self.loader.dispose()
        if self.faults:
            raise SourceError(self.faults)
        return self.root or SourceNode(self.source, 1, 1)

    def take(self, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if isinstance(event, yaml.DocumentStartEvent):
            if self.root is not None:
                raise source_error(self.file, line, column, "a second document begins here: write one document a file")
        elif isinstance(event, yaml.ScalarEvent):
            self.scalar(event, line, column)
        elif isinstance(event, yaml.AliasEvent):
            self.alias(event.anchor or "", line, column)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self.refuse_tag(event.tag, line, column)
            if len(self.stack) >= _MAX_DEPTH:
                raise self.error(line, column, f"nested deeper than {_MAX_DEPTH} levels")
            empty: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
            node = SourceNode(self.source, line, column, empty, open=True)
            self.refuse_key(node)
            self.remember(event.anchor, node)
            self.stack.append((node, None))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node, _ = self.stack.pop()
            node.open = False
            self.place(node)

    def scalar(self, event: yaml.ScalarEvent, line: int, column: int) -> None:
        self.refuse_tag(event.tag, line, column)
        node = SourceNode(self.source, line, column, event.value, style=event.style)
        if event.implicit[0] and not self.waits_for_key():
            try:
                node.value = read_scalar(event.value)
            except ValueError as error:
                raise self.error(line, column, str(error)) from None
        self.remember(event.anchor, node)
        self.place(node)

    def alias(self, name: str, line: int, column: int) -> None:
        node = self.anchors.get(name)
        if node is None:
            raise self.error(line, column, f"'*{name}' has no anchor '&{name}' before it")
        if node.open:
            raise self.error(line, column, f"'*{name}' contains itself")
        if self.waits_for_key():
            raise self.error(line, column, f"'*{name}' cannot be a key: write the key out")
        if len(self.stack) + node.height > _MAX_DEPTH:
            raise self.error(line, column, f"'*{name}' nests deeper than {_MAX_DEPTH} levels")
        self.place(node)

    def place(self, node: SourceNode) -> None:
        """Put a finished node where it belongs."""
        if not self.stack:
            self.root = node
            return
        parent, key = self.stack[-1]
        if isinstance(parent.value, list):
            parent.value.append(node)
        elif key is None:
            self.refuse_key(node)
            name = str(node.value)
            if name in parent.value:
                at = parent.keys[name].line
                fault = self.error(node.line, node.column, f"key '{name}' is written twice (first in line {at})").faults
                self.faults += fault
            self.stack[-1] = (parent, name)
            parent.keys.setdefault(name, Mark(self.source, node.line, node.column))
            return
        else:
            parent.value.setdefault(key, node)
            self.stack[-1] = (parent, None)
        parent.size += node.size
        parent.height = max(parent.height, node.height + 1)
        if parent.size > _MAX_NODES:
            raise self.error(node.line, node.column, f"the document expands to more than {_MAX_NODES:,} values")

    def waits_for_key(self) -> bool:
        """Whether the next scalar is a key of the innermost mapping."""
        return bool(self.stack) and isinstance(self.stack[-1][0].value, dict) and self.stack[-1][1] is None

    def refuse_key(self, node: SourceNode) -> None:
        """A key must be a scalar."""
        if self.waits_for_key():
            if isinstance(node.value, dict | list):
                raise self.error(
                    node.line, node.column, "a key must be a word, not a list or a mapping: quote '{{ ... }}'"
                )
            if node.value == "<<":
                raise self.error(node.line, node.column, "merge keys '<<' are not supported: write the keys out")

    def refuse_tag(self, tag: str | None, line: int, column: int) -> None:
        if tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise self.error(line, column, f"tag '{tag}' is not supported: remove it")

    def remember(self, anchor: str | None, node: SourceNode) -> None:
        if anchor is not None:
            self.anchors[anchor] = node

    def error(self, line: int, column: int, what: str) -> SourceError:
        path = [len(node.value) if isinstance(node.value, list) else key for node, key in self.stack]
        return source_error(self.file, line, column, what, spell(tuple(step for step in path if step is not None)))
