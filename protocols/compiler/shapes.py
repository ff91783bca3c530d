"""One node, or several: templates loop over groups, and read the fields of single nodes."""

from __future__ import annotations

from collections.abc import Sequence

from arena.protocols.compiler.references import node_named
from arena.protocols.compiler.scope import Move, Unit, key_of
from arena.protocols.compiler.targets import about_many
from arena.protocols.members import ITEM
from arena.protocols.templates import Template

__all__ = ["about_shape", "nested_shape", "node_shape"]


def node_shape(unit: Unit, template: Template, name: str) -> str:
    """What is wrong where a template loops over one node, or reads a field of several; empty if nothing is."""
    faults = (_node_fault(unit, path) for path in sorted(template.paths) if path[0] == name)
    return next((fault for fault in faults if fault), "")


def nested_shape(move: Move, name: str, *, many: bool, inside: Sequence[str] = ()) -> str:
    """What is wrong where a template shows a nested protocol, or several, instead of their nodes.

    Args:
        move: the ``use`` node.
        name: as the template writes it.
        many: a counted role plays it.
        inside: the steps behind it, if any.
    """
    keys = [key_of(each.name) for unit in move.inner[:1] for each in unit.live_moves()]
    node = next((step for step in inside if step in keys), keys[-1] if keys else "NODE")
    if many:
        loop = f"{{% for each in {name} %}}{{{{ each.{node}.text }}}}{{% endfor %}}"
        return f"'{name}' are several nested protocols: write {loop}"
    return f"'{name}' is a nested protocol: name a node of it, as {name}.{node}.text"


def about_shape(move: Move, template: Template) -> str:
    """What is wrong in that way with ``of``."""
    many = about_many(move)
    faults = (_fault("of", path[1:], many=many) for path in sorted(template.paths) if path[0] == "of")
    return next((fault for fault in faults if fault), "")


def _node_fault(unit: Unit, path: tuple[str, ...]) -> str:
    steps, read = list(path), list[str]()
    while steps and (found := node_named(unit, steps[0])):
        move, many = found
        read.append(steps.pop(0))
        if fault := _fault(".".join(read), tuple(steps), many=many):
            return nested_shape(move, ".".join(read), many=True, inside=steps) if many and move.kind is None else fault
        if steps[:1] == [ITEM]:
            steps.pop(0)
        if not move.inner:
            break
        unit = move.inner[0]
    return ""


def _fault(name: str, rest: tuple[str, ...], *, many: bool) -> str:
    if not rest or many == (rest[0] == ITEM):
        return ""
    if many:
        return f"'{name}' are several nodes: write {{% for each in {name} %}}{{{{ each.text }}}}{{% endfor %}}"
    return f"'{name}' is one node, not a list: name a field of it, as {name}.text"
