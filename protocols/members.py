"""What a template reads of each name: which fields of which nodes, seen through loops and places in lists.

The compiler asks this to know what a role would be shown. What cannot be told from the source counts as everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from jinja2 import nodes

__all__ = ["ITEM", "find_members"]

_Path: TypeAlias = tuple[str, ...]

ITEM = "*"
"""The step from a list to one of its items."""

_OF_ITEMS = ("default", "first", "last", "list", "reverse", "sort", "unique")
"""Filters whose result is what they are applied to, or an item of it."""

_PLACES = (nodes.Const, nodes.Slice, nodes.Add, nodes.Sub, nodes.Mul, nodes.FloorDiv, nodes.Mod, nodes.Neg)
"""What stands in brackets and is surely a place in a list."""


def find_members(tree: nodes.Template, names: Iterable[str]) -> set[tuple[str, ...]]:
    """The paths that a template reads, each from one of ``names`` (those that it needs); see `Template.paths`."""
    found: set[_Path] = set()
    _read(tree, {}, found)
    return found | {(name,) for name in set(names) - {path[0] for path in found}}


def _read(node: nodes.Node, local: Mapping[str, _Path], found: set[_Path]) -> None:
    """Collect the paths that a part of a template reads; ``local``: names of loops -> what they stand for."""
    if isinstance(node, nodes.For):
        path = _path(node.iter, local, found)
        inside = {**local, **dict.fromkeys(_targets(node.target), (*path, ITEM) if path else ()), "loop": ()}
        for child in (*node.body, *([node.test] if node.test else [])):
            _read(child, inside, found)
        for child in node.else_:
            _read(child, local, found)
    elif _is_step(node):
        if path := _path(node, local, found):
            found.add(path)
    else:
        for child in node.iter_child_nodes():
            _read(child, local, found)


def _is_step(node: nodes.Node) -> bool:
    """Whether `_path` goes through the node."""
    if isinstance(node, nodes.Filter):
        return node.name in _OF_ITEMS
    return isinstance(node, nodes.Name | nodes.Getattr | nodes.Getitem)


def _path(node: nodes.Node, local: Mapping[str, _Path], found: set[_Path]) -> _Path | None:
    """What an expression stands for: a path from a name, or None. What it reads on the way goes into ``found``."""
    if isinstance(node, nodes.Name):
        return local.get(node.name, (node.name,)) or None
    if not _is_step(node):
        _read(node, local, found)
        return None
    path = _path(node.node, local, found)  # type: ignore[attr-defined]
    if isinstance(node, nodes.Getattr):
        return (*path, node.attr) if path else None
    if isinstance(node, nodes.Filter):
        return (*path, ITEM) if path and node.name in ("first", "last") else path
    assert isinstance(node, nodes.Getitem)
    if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
        return (*path, node.arg.value) if path else None
    _read(node.arg, local, found)
    if path and not isinstance(node.arg, _PLACES):  # a name may hold any key
        found.add(path)
        return None
    return (*path, ITEM) if path and not isinstance(node.arg, nodes.Slice) else path


def _targets(node: nodes.Node) -> list[str]:
    if isinstance(node, nodes.Name):
        return [node.name]
    return [name for child in node.iter_child_nodes() for name in _targets(child)]
