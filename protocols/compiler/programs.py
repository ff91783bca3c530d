"""What programs are given beside the turn that they are about: the arguments of a tool, more fields for a check."""

from __future__ import annotations

from typing import Any

from arena.protocols.compiler.prompts import check_given
from arena.protocols.compiler.scope import Move
from arena.protocols.compiler.speech import read_limits
from arena.protocols.documents import KeyPath
from arena.protocols.templates import Template

__all__ = ["read_check", "read_tool"]


def read_tool(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a tool has: the call in ``of`` is run, or ``run`` with ``arguments``."""
    file, unit = move.file, move.unit
    if file.run is None:
        unit.refuse_keys(move.path, ("arguments",), "they belong to 'run: TOOL'; in 'of', the speaker writes them")
        return read_limits(move)
    unit.refuse_keys(move.path, ("of",), "'run' says what is run, and 'arguments' on what")
    given: dict[str, Any] = {
        name: _given(move, ("arguments", name), value) if isinstance(value, str) else value
        for name, value in file.arguments.items()
    }
    return {**read_limits(move), "run": file.run, "arguments": given}


def read_check(move: Move) -> dict[str, Any]:
    """The fields of a `Node` that only a check has."""
    made: dict[str, Any] = {}
    for name, value in move.file.fields.items():
        path = ("fields", name)
        if name in move.unit.fields:
            what = f"'{name}' is already a field of the tasks: choose another name"
            move.unit.add((*move.path, *path), what, key=True)
        several = [_given(move, (*path, index), each) for index, each in enumerate(value) if isinstance(value, list)]
        made[name] = tuple(several) if isinstance(value, list) else _given(move, path, value)
    return {"fields": made}


def _given(move: Move, key: KeyPath, source: str) -> Template | None:
    path = (*move.path, *key)
    template = move.unit.template(path, source)
    if template is not None and move.roles:
        check_given(move, path, template)
    return template
