"""Checks of turns that must have a form: one of the answers, JSON by a schema, quotes from a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from arena.agents.tools.calls import not_checked
from arena.agents.tools.checks import FunctionCheck, finding, subject, unread
from arena.protocols.composer import read_value
from arena.protocols.errors import ConfigError
from arena.protocols.json_schema import check_schema, schema_fault
from arena.protocols.json_values import read_json
from arena.protocols.programs import Call, Outcome
from arena.protocols.quotes import QuoteRule, QuoteSource, find_quotes
from arena.protocols.records import VerdictStatus
from arena.protocols.stated import PARSER, read_answer

__all__ = ["json_schema", "multiple_choice", "quotes"]


def multiple_choice(*, field: str, options: str = "answers", of: str = "") -> FunctionCheck:
    """Passes what states the right one of the options: its text or letter alone, or behind ``Answer:``.

    An option inside of a sentence states nothing, and who states two is not read (`arena.protocols.stated`).

    Args:
        field: task field with the text of the right option.
        options: task field that lists them.
        of: which value of the turn is read; its text if empty.
    """

    def check(call: Call) -> Outcome:
        listed, known = call.task.get(options), call.task.get(field)
        if isinstance(listed, str) or not isinstance(listed, Sequence) or known is None:
            return not_checked(f"the task has no list '{options}'" if known else f"the task has no '{field}'")
        texts = [str(option) for option in listed]
        if str(known) not in texts:
            return not_checked(f"'{field}' of the task is none of its '{options}'")
        said = subject(call, of)
        stated = read_answer("" if said is None else str(said), texts)
        if stated.value is None:  # its reason repeats what was said, which may be anything
            several = stated.status is VerdictStatus.CONTRADICTORY
            return unread("it states several answers" if several else "it states no answer")
        return finding(texts[stated.value] == str(known))

    return FunctionCheck("multiple_choice", check, (field, options), version=f"parser {PARSER}")


def json_schema(
    *, schema: Mapping[str, Any] | str | None = None, field: str = "", path: str = "", of: str = ""
) -> FunctionCheck:
    """Passes JSON, in a code fence or not, that keeps to a JSON Schema (2020-12) of an object.

    Args:
        schema: the schema.
        field: task field that holds it.
        path: file that holds it.
        of: which value of the turn is checked; its text if empty.

    Raises:
        ConfigError: not one of the three is given, or it holds no schema that can be checked in linear time.
    """
    if (schema is not None) + bool(field) + bool(path) != 1:
        raise ConfigError("check 'json_schema' needs one of schema={...}, field=NAME and path=FILE")
    given = None if field else _schema(_file(path) if schema is None else schema)
    if given is not None and (fault := check_schema(given)):
        raise ConfigError(f"check 'json_schema': {fault}")

    def check(call: Call) -> Outcome:
        wanted: Any = given if given is not None else call.task.get(field)
        fault = check_schema(wanted) if isinstance(wanted, Mapping) else "it is no mapping"
        if given is None and fault:
            return not_checked(f"'{field}' of the task is no schema: {fault}")
        said = subject(call, of)
        if isinstance(said, str):
            try:
                said = read_json(said)
            except ValueError as error:
                return finding(False, f"The check did not pass: the text is no JSON, {error!s:.200}.")
        fault = schema_fault(wanted, said)
        return finding(fault is None, f"The check did not pass: {fault!s:.200}." if fault else "")

    return FunctionCheck("json_schema", check, (field,) if field else ())


def _file(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"check 'json_schema' cannot read '{path}': {error}") from None


def _schema(text: Mapping[str, Any] | str) -> Mapping[str, Any]:
    found = read_value(text, nested=True) if isinstance(text, str) else text
    if not isinstance(found, Mapping):
        raise ConfigError(f"check 'json_schema': {str(text)[:60]!r} is no schema: write {{type: object, ...}}")
    return found


def quotes(
    *,
    field: str,
    minimum: Annotated[int, Field(ge=1, le=1000)] = 1,
    words: Annotated[int, Field(ge=1, le=1000)] = 1,
    share: Annotated[float, Field(ge=0, le=1)] = 1.0,
    of: str = "",
) -> FunctionCheck:
    """Passes a text whose ``<quote>...</quote>`` stand in a task field word for word.

    A quote is good if the field holds it, it is long enough, and it was not quoted before in the same text. ``score``
    is the share of good ones, of as many as there are or must be: good / max(quotes, minimum).

    Args:
        field: task field that is quoted.
        minimum: how many quotes must be good.
        words: how many words a quote must have.
        share: which share must be good.
        of: which value of the turn is checked; its text if empty.
    """
    rule = QuoteRule(field, once=True)

    def check(call: Call) -> Outcome:
        known = call.task.get(field)
        if not isinstance(known, str | Sequence):
            return not_checked(f"the task has no text '{field}'")
        said = subject(call, of)
        found = find_quotes(rule, "" if said is None else str(said), QuoteSource(known))
        good = sum(quote.good and len(quote.text.split()) >= words for quote in found)
        score = good / max(len(found), minimum)
        text = f"{good} of {len(found)} quotes are good."
        return finding(good >= minimum and score >= share, text, score, quotes=len(found), good=good)

    return FunctionCheck("quotes", check, (field,))
