"""The form that a turn must have, and what is read from it.

A rule reads a text into named fields or says what is wrong with it. Model output is hostile: reading takes time linear
in the text (regular expressions are RE2), and what cannot be read is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from arena.protocols.inert import inert_line
from arena.protocols.json_schema import check_schema, schema_fault
from arena.protocols.json_values import MAX_TEXT, read_json
from arena.protocols.patterns import compile_pattern, pattern_fault

__all__ = ["OutputRule", "check_rule", "read_output"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTES = " \"'`*\u2018\u2019\u201c\u201d"


@dataclass(frozen=True, slots=True)
class OutputRule:
    """What a turn must look like."""

    kind: Literal["choice", "regex", "json", "call"]
    choices: tuple[str, ...] = ()
    """Texts to choose from; empty where ``choices_field`` names the task field that lists them."""
    choices_field: str = ""
    pattern: str = ""
    """RE2; its named groups are the fields."""
    schema: Mapping[str, Any] = field(default_factory=dict)
    """JSON Schema of an object; its properties are the fields."""
    tools: tuple[str, ...] = ()
    """Tools that may be called."""
    tag: str = ""
    """Only what stands in the last ``<tag>...</tag>`` is read; empty: the whole text, or ``<call>`` for a call."""
    optional: bool = False
    """A text without the tag gives fields that are all None."""

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of what a turn gives."""
        if self.kind == "choice":
            return ("choice", "index")
        if self.kind == "call":
            return ("tool", "arguments")
        if self.kind == "json":
            properties = self.schema.get("properties")
            return tuple(map(str, properties)) if isinstance(properties, Mapping) else ()
        if pattern_fault(self.pattern):
            return ()
        groups = compile_pattern(self.pattern).groupindex
        return tuple(sorted(groups, key=groups.__getitem__))

    @property
    def place(self) -> str:
        """The tag in which the output stands; empty: the whole text is it."""
        return self.tag or ("call" if self.kind == "call" else "")


def check_rule(rule: OutputRule) -> str | None:
    """What is wrong with a rule, in words for the author of the protocol; None if nothing is."""
    if rule.optional and not rule.place:
        return "'optional' needs a 'tag': without one the whole text is read"
    if rule.kind == "json":
        return check_schema(rule.schema)
    if rule.kind == "regex":
        return pattern_fault(rule.pattern) or _group_fault(rule)
    if rule.kind == "call":
        return None if rule.tools else "'call' needs the name of a tool at least"
    if rule.choices_field:
        return None
    texts = [choice.strip() for choice in rule.choices]
    if len(texts) < 2 or len(set(texts)) < len(texts) or not all(texts):
        return "'choice' needs two texts or more, all different and none empty"
    return None


def _group_fault(rule: OutputRule) -> str | None:
    if not rule.fields:
        return f"{rule.pattern!r:.80} has no named group, so nothing is read: write (?P<NAME>...)"
    odd = [name for name in rule.fields if not _NAME.fullmatch(name)]
    return f"the group '{odd[0]}' cannot be named in conditions: use letters, digits and _" if odd else None


class _UnreadableError(Exception):
    """What is wrong with a turn."""


def read_output(rule: OutputRule, text: str, options: Sequence[str] = ()) -> tuple[dict[str, Any], str | None]:
    """Read a turn.

    Args:
        rule: what it must look like.
        text: the visible text.
        options: what can be chosen, for a choice; by default the ``choices`` of the rule.

    Returns:
        The fields (all None if it cannot be read), and what is wrong, in words for the speaker; None if nothing is.
    """
    options = options or rule.choices
    nothing: dict[str, Any] = dict.fromkeys(rule.fields)
    try:
        inside = _inside(rule.place, text)
        if inside is None:
            if rule.optional:
                return nothing, None
            raise _UnreadableError(f"There is no <{rule.place}>...</{rule.place}>.")
        if len(inside) > MAX_TEXT:
            raise _UnreadableError(f"It has {len(inside):,} characters, and at most {MAX_TEXT:,} are read.")
        return _read(rule, inside, options), None
    except _UnreadableError as fault:
        return nothing, f"{_wanted(rule, options)} {fault}"


def _inside(tag: str, text: str) -> str | None:
    """What stands in the last complete ``<tag>...</tag>``; None if there is none.

    Raises:
        _UnreadableError: there is none, but one was begun.
    """
    if not tag:
        return text
    found, start = None, None
    for mark in re.finditer(f"<(/?){re.escape(tag)}>", text, re.IGNORECASE | re.ASCII):
        if not mark[1]:
            start = mark.end()
        elif start is not None:
            found, start = text[start : mark.start()], None
    if found is None and start is not None:
        raise _UnreadableError(f"<{tag}> is not closed by </{tag}>.")
    return found


def _read(rule: OutputRule, text: str, options: Sequence[str]) -> dict[str, Any]:
    if rule.kind == "choice":
        return _read_choice(text, options)
    if rule.kind == "regex":
        return _read_groups(rule, text)
    try:
        value = read_json(text)
    except ValueError as error:
        raise _UnreadableError(f"It cannot be read as JSON: {_cut(str(error), 200)}.") from None
    if not isinstance(value, dict):
        raise _UnreadableError(f"You wrote {_quoted(text)}, which is no object.")
    return _read_call(rule, value) if rule.kind == "call" else _read_object(rule, value)


def _read_choice(text: str, options: Sequence[str]) -> dict[str, Any]:
    """By the exact text first, then without case, quotes and final punctuation, if only one option is meant then."""
    plain = text.strip()
    meant = [index for index, option in enumerate(options) if option.strip() == plain]
    if not meant and (key := _choice_key(plain)):
        meant = [index for index, option in enumerate(options) if _choice_key(option) == key]
        if len(meant) > 1:
            raise _UnreadableError(f"You wrote {_quoted(text)}, which may mean several: give the exact text.")
    if not meant:
        raise _UnreadableError(f"You wrote {_quoted(text)}.")
    return {"choice": options[meant[0]], "index": meant[0]}


def _choice_key(text: str) -> str:
    return " ".join(text.split()).lstrip(_QUOTES).rstrip(_QUOTES + ".,:;!?").casefold()


def _read_groups(rule: OutputRule, text: str) -> dict[str, Any]:
    try:
        match = compile_pattern(rule.pattern).fullmatch(text.strip())
    except UnicodeEncodeError:
        raise _UnreadableError("It holds half of a surrogate pair.") from None
    if match is None:
        raise _UnreadableError(f"You wrote {_quoted(text)}.")
    return {name: match[name] for name in rule.fields}


def _read_object(rule: OutputRule, value: dict[str, Any]) -> dict[str, Any]:
    if fault := schema_fault(rule.schema, value):
        raise _UnreadableError(f"In what you wrote, {_cut(fault, 500)}.")
    return {name: value.get(name) for name in rule.fields}


def _read_call(rule: OutputRule, value: dict[str, Any]) -> dict[str, Any]:
    if odd := value.keys() - {"tool", "arguments"}:
        raise _UnreadableError(f"{_quoted(min(odd))} has no place in a call.")
    tool, arguments = value.get("tool"), value.get("arguments", {})
    if tool not in rule.tools:
        raise _UnreadableError(f"{_quoted(str(tool))} is not a tool.")
    if not isinstance(arguments, dict):
        raise _UnreadableError(f"The arguments must be an object, not {_quoted(str(arguments))}.")
    return {"tool": tool, "arguments": arguments}


def _wanted(rule: OutputRule, options: Sequence[str]) -> str:
    """The form that is wanted."""
    where = f" in <{rule.place}>...</{rule.place}>" if rule.place else ", and nothing else"
    if rule.kind == "choice":
        listed = ", ".join(_quoted(option) for option in options[:20]) + (", ..." if len(options) > 20 else "")
        return f"Answer with exactly one of {listed}{where}."
    if rule.kind == "regex":
        return f"Write text that matches the pattern {_cut(rule.pattern, 300)} as a whole{where}."
    if rule.kind == "call":
        form = '{"tool": NAME, "arguments": {...}}'
        return f"Write a call {form}{where}, where NAME is {_cut(' or '.join(rule.tools), 300)}."
    names = ", ".join(f'"{name}"' for name in rule.fields)
    return f"Write one JSON object with {_cut(names, 300)}{where}."


def _quoted(text: str) -> str:
    return f'"{_cut(text, 80)}"'


def _cut(text: str, most: int) -> str:
    text = inert_line(text[: 4 * most])
    return text if len(text) <= most else f"{text[: most - 3]}..."
