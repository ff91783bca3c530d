"""Params, task fields and lists of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from arena.protocols.compiler.scope import Unit
from arena.protocols.composer import read_scalar
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.expressions import FUNCTIONS, GROUPS

__all__ = ["EDGE_NAMES", "MESSAGE_NAMES", "REWARD_NAMES", "TURN_NAMES", "check_unused", "convert", "read_settings"]

TURN_NAMES = ("role", "round", "answer", "other", "sides", "number", "count", "of", "tools")
"""What templates may name beside fields, params, draws and nodes."""
MESSAGE_NAMES = ("role", "text", "answer", "cue", "round")
REWARD_NAMES = ("margin", "p", "won", "correct", "score")
EDGE_NAMES = ("round", "visits")
RESERVED = frozenset(
    {*TURN_NAMES, *MESSAGE_NAMES, *REWARD_NAMES, *EDGE_NAMES, *FUNCTIONS, *GROUPS, "true", "false", "none", "loop"}
)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def read_settings(unit: Unit, overrides: Mapping[str, Any]) -> None:
    """Fill ``unit.params``, ``fields`` and ``lists``.

    Raises:
        ConfigError: an override names no param, or has another type.
    """
    _read_params(unit, overrides)
    _read_fields(unit)
    _read_lists(unit)


def _read_params(unit: Unit, overrides: Mapping[str, Any]) -> None:
    for name in unit.declared("params"):
        default = unit.document.get(("params", name))
        if not _PLAIN_NAME.fullmatch(name):
            unit.add(("params", name), f"'{name}' is not a name: use letters, digits and _", key=True)
        elif name in RESERVED:
            unit.add(("params", name), f"'{name}' has a meaning of its own: choose another name", key=True)
        else:
            # A faulty default is known from the whole file; any value keeps its users from being blamed too.
            unit.params[name] = default if isinstance(default, int | float | str) else 1
    for name, value in overrides.items():
        if name not in unit.params:
            raise ConfigError(f"'{name}' is not a param of {unit.document.file}.{suggest(name, unit.params)}")
        unit.params[name] = convert(name, value, unit.params[name])


def _read_fields(unit: Unit) -> None:
    raw = unit.document.get(("fields",))
    for index, text in enumerate(raw if isinstance(raw, list) else ()):
        name = str(text).removesuffix("?")
        if name in unit.fields:
            unit.add(("fields", index), f"field '{name}' is listed twice")
        elif name in RESERVED:
            unit.add(("fields", index), f"'{name}' has a meaning of its own: choose another name for the field")
        elif name in unit.params:
            unit.add(("params", name), f"param '{name}' hides the field of that name: rename it", key=True)
        unit.fields[name] = not str(text).endswith("?")


def _read_lists(unit: Unit) -> None:
    for name in unit.declared("lists"):
        items = unit.document.get(("lists", name))
        if name in unit.fields:
            unit.add(("lists", name), f"list '{name}' hides the field of that name: rename it", key=True)
        elif name in RESERVED:
            unit.add(("lists", name), f"'{name}' has a meaning of its own: choose another name", key=True)
        elif name in unit.params:
            unit.add(("params", name), f"param '{name}' hides the list of that name: rename it", key=True)
        if not items and isinstance(items, list):
            unit.add(("lists", name), f"list '{name}' is empty: nothing can be drawn from it")
        unit.lists[name] = tuple(map(str, items)) if isinstance(items, list) else ("",)


def convert(name: str, value: Any, default: Any) -> Any:
    """An override in the type of the default.

    Raises:
        ConfigError: it has another type.
    """
    if isinstance(value, str) and not isinstance(default, str):
        try:
            value = read_scalar(value.strip())
        except ValueError as error:
            raise ConfigError(f"param '{name}': {error}") from None
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(default):
        kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
        raise ConfigError(f"param '{name}' is {kinds[type(default)]} (default {default!r}), not {value!r}")
    return value


def check_unused(unit: Unit) -> None:
    """Settings that change nothing are mistakes."""
    for name in unit.params:
        if name not in unit.used_params:
            unit.add(("params", name), f"param '{name}' is used nowhere: remove it", key=True)
    for name in unit.lists:
        if name not in unit.used_lists:
            what = f"no node draws from list '{name}', and no template shows it: remove it"
            unit.add(("lists", name), what, key=True)
    seen = {field for file in unit.role_files.values() for field in file.sees} | unit.used_fields
    for index, name in enumerate(unit.fields):
        if name not in seen:
            what = f"no role sees field '{name}': add it to a role's 'sees', or remove it"
            unit.add(("fields", index), what)
