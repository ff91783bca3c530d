"""What ``NODE`` and ``NODE.field`` mean in templates and expressions.

Templates are written in the terms of their own scope: ``draft`` is the node ``sub.draft`` for a template of scope
``sub``. They are given nested mappings. Expressions have absolute keys, ``sub.draft.choice``; an episode keeps the
values of those that some expression needs in one flat dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, Union

from arena.protocols import Expression, Node, Protocol
from arena.protocols.inert import Said, inert
from arena.values import VERDICT_FIELDS

__all__ = ["Named", "Names", "Tracked", "blank", "fill", "inert_fields", "key_of", "own_words", "tracked_values"]

Named: TypeAlias = Union[str, "tuple[Named, ...]", "dict[str, Named]"]
"""A node, a group of them (or of scopes), or what a nested scope holds."""

_TURN = {"text": "", "words": 0, "visits": 0, "ok": None, "status": None, "bad_quotes": None}
_FIELDS: Mapping[str, tuple[str, ...]] = {
    "tool": ("tool",),
    "verify": ("passed", "score"),
    "vote": ("choice", "index", "votes", "share", "cast", "agreed", "value"),
    "select": ("picked", "value"),
}


def key_of(name: str) -> str:
    """The name as expressions and templates write it."""
    return name.replace("-", "_")


class Names:
    """What the names of nodes mean in each scope."""

    def __init__(self, protocol: Protocol) -> None:
        self._inside: dict[str, dict[str, Named]] = {name: {} for name in protocol.scopes}
        for node in protocol.nodes.values():
            scope = node.scope.name if node.scope else ""
            prefix = f"{scope}." if scope else ""
            own = self._inside[scope]
            own[key_of(node.name.removeprefix(prefix))] = node.name
            if node.group != node.name:
                own[key_of(node.group.removeprefix(prefix))] = protocol.groups[node.group]
        self._nest(protocol)

    def _nest(self, protocol: Protocol) -> None:
        """Put every scope into its parent, and counted ones into one group as well."""
        groups: dict[tuple[str, str], list[Named]] = {}
        for scope in protocol.scopes.values():
            if scope.parent is None:
                continue
            outer = scope.parent.name
            prefix = f"{outer}." if outer else ""
            self._inside[outer][key_of(scope.name.removeprefix(prefix))] = self._inside[scope.name]
            if scope.number:
                groups.setdefault((outer, scope.group.removeprefix(prefix)), []).append(self._inside[scope.name])
        for (outer, group), members in groups.items():
            self._inside[outer][key_of(group)] = tuple(members)

    def of(self, scope: str, names: Iterable[str]) -> dict[str, Named]:
        """Those of ``names`` that are nodes or nested scopes, as a template of ``scope`` means them."""
        inside = self._inside[scope]
        return {name: inside[name] for name in sorted(names) if name in inside}

    def nodes(self, path: str) -> Named | None:
        """The node, or group of nodes, with an absolute path such as ``sub.draft``; None if there is none."""
        found: Named = self._inside[""]
        for part in path.split("."):
            found = _step(found, part)
            if found is None:
                return None
        return found


def _step(found: Named, part: str) -> Any:
    if isinstance(found, tuple):
        inner = [_step(member, part) for member in found]
        return None if None in inner else tuple(inner)
    return found.get(part) if isinstance(found, dict) else None


def fill(named: Named, show: Callable[[str], Any]) -> Any:
    """The nested mappings and lists that a template is given; ``show`` gives those of one node."""
    if isinstance(named, str):
        return show(named)
    if isinstance(named, tuple):
        return [fill(member, show) for member in named]
    return {name: fill(inner, show) for name, inner in named.items()}


Tracked: TypeAlias = "tuple[str, str, int | None]"
"""Key, field, and place in the tuple of a group (None: the node alone)."""


def tracked_values(protocol: Protocol, names: Names) -> tuple[dict[str, list[Tracked]], dict[str, Any]]:
    """What must be kept for expressions: node -> keys to set when it has run, and all keys with their first values."""
    places: dict[str, list[Tracked]] = {}
    first: dict[str, Any] = {}
    for key in sorted({name for expression in _expressions(protocol) for name in expression.names if "." in name}):
        path, _, field = key.rpartition(".")
        nodes = names.nodes(path)
        blank = 0 if field in ("visits", "words") else None
        if isinstance(nodes, dict):
            # How often a nested scope was entered.
            first[key] = 0
        elif isinstance(nodes, str):
            places.setdefault(nodes, []).append((key, field, None))
            first[key] = blank
        elif isinstance(nodes, tuple):
            members = list(_flat(nodes))
            for place, node in enumerate(members):
                places.setdefault(node, []).append((key, field, place))
            first[key] = (blank,) * len(members)
    return places, first


def _flat(named: Named) -> Iterator[str]:
    if isinstance(named, str):
        yield named
    else:
        for member in named:
            yield from _flat(member)


def _expressions(protocol: Protocol) -> Iterator[Expression]:
    for edge in protocol.edges:
        if edge.when is not None:
            yield edge.when
    for node in protocol.nodes.values():
        yield from node.computes.values()
        if node.value is not None:
            yield node.value
        if node.best_of is not None:
            yield node.best_of.value


def _field_names(node: Node, nodes: Mapping[str, Node]) -> tuple[str, ...]:
    """What a turn of the node has in `Turn.fields`, as far as that is known before it has run."""
    own = (*node.draws, *(node.output.fields if node.output else ()), *node.computes, *_FIELDS.get(node.kind, ()))
    if node.kind != "select":
        return own
    return (*own, *(name for source in node.about for name in _field_names(nodes[source], nodes)))


def blank(node: Node, nodes: Mapping[str, Node]) -> dict[str, Any]:
    """What templates are told of a node that has not run."""
    shown: dict[str, Any] = {"role": node.role.seat}
    if node.kind != "judge":
        shown |= {**_TURN, **dict.fromkeys(_field_names(node, nodes))}
    if node.gives_verdict:
        shown |= {"visits": 0, **dict.fromkeys(VERDICT_FIELDS)}
    return shown


def own_words(node: Node) -> bool:
    """Whether texts in the fields of the node's turns are those of the file or of the task, and no speaker's."""

    def given(field: str) -> bool:
        return node.scope is None or not node.scope.binds(field)

    if node.kind == "vote":
        return node.votes_on_answers and given("answers")
    rule = node.output
    return rule is not None and rule.kind == "choice" and not node.draws and given(rule.choices_field)


def inert_fields(fields: Mapping[str, Any], *, own: bool) -> dict[str, Any]:
    """Fields of a turn as templates may show them: texts in them are made inert; ``own``: nobody has said them."""
    if own:
        return {name: inert(value) if isinstance(value, str) else value for name, value in fields.items()}
    return {name: _inert(value) for name, value in fields.items()}


def _inert(value: Any) -> Any:
    if isinstance(value, str):
        return Said(inert(value))
    if isinstance(value, Mapping):
        return {Said(inert(str(key))): _inert(item) for key, item in value.items()}
    return [_inert(item) for item in value] if isinstance(value, list | tuple) else value
