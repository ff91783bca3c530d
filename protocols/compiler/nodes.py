"""The nodes that the engine walks, made from those of the file."""

from __future__ import annotations

from typing import Any

from arena.protocols.compiler.decisions import read_computation, read_selection, read_vote
from arena.protocols.compiler.programs import read_check, read_tool
from arena.protocols.compiler.prompts import check_prompt, check_result, check_say
from arena.protocols.compiler.scope import Move
from arena.protocols.compiler.speech import read_speech
from arena.protocols.compiler.targets import (
    about_many,
    about_of,
    check_about,
    check_reader,
    check_selected,
    read_reads,
)
from arena.protocols.graph import Node, Role
from arena.protocols.templates import Template

__all__ = ["make_nodes"]


def make_nodes(move: Move) -> tuple[Node, ...]:
    """The nodes of a move, in order of its seats; what is wrong with it is reported."""
    check_about(move)
    common = _common(move)
    say = move.unit.template((*move.path, "say"), move.file.say)
    if say:
        check_say(move.unit, move, say)
    if move.kind == "vote" and (say is None or "text" in say.names):
        check_result(move.unit, move)
    elif move.kind == "select":
        check_selected(move)
    return tuple(_node(move, index, name, {**common, "say": say}) for index, name in enumerate(move.names))


def _common(move: Move) -> dict[str, Any]:
    """What all nodes of a move have in common."""
    if move.speaks:
        return read_speech(move)
    if move.kind == "tool":
        return read_tool(move)
    if move.kind == "verify":
        return read_check(move)
    if move.kind == "vote":
        return read_vote(move)
    if move.kind == "select":
        return read_selection(move)
    if move.kind == "compute":
        return read_computation(move)
    return {"reads": read_reads(move)} if move.kind == "judge" else {}


def _node(move: Move, index: int, name: str, common: dict[str, Any]) -> Node:
    unit, full = move.unit, move.unit.full(move.name)
    role = move.roles[index if move.counted else 0] if move.roles else Role(full, (), scope=unit.scope)
    about = about_of(move, index)
    check_reader(move, role, about)
    audience = unit.work.audiences[name]
    return Node(
        name=name,
        kind=move.kind or "speak",
        role=role,
        order=0,  # when all nodes are there
        prompt=_shown(move, "prompt", role),
        cue=_shown(move, "cue", role),
        audience=None if move.kind == "judge" else audience.seats,
        ephemeral=audience.ephemeral,
        group=full,
        in_turn=move.in_turn,
        about=about,
        about_many=about_many(move),
        message=unit.message,
        scope=unit.scope,
        **common,
    )


def _shown(move: Move, key: str, role: Role) -> Template | None:
    """A template of the node, which may show what its role may see."""
    path = (*move.path, key)
    template = move.unit.template(path, getattr(move.file, key))
    if template and move.roles:
        check_prompt(move.unit, path, template, role, move)
    return template
