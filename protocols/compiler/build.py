"""A protocol file, with all that it names, to a `Protocol`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx

from arena.protocols.compiler.audience import read_audiences
from arena.protocols.compiler.edges import add_conditions, make_edges
from arena.protocols.compiler.given import gives
from arena.protocols.compiler.links import read_links
from arena.protocols.compiler.moves import check_conflicts, name_nodes, read_moves
from arena.protocols.compiler.nesting import bind_fields, check_nested, check_played, overrides, unfold
from arena.protocols.compiler.nodes import make_nodes
from arena.protocols.compiler.prompts import check_message, read_message
from arena.protocols.compiler.references import Ref
from arena.protocols.compiler.rewards import read_rewards
from arena.protocols.compiler.roles import check_roles, read_roles
from arena.protocols.compiler.scope import Compilation, Link, Move, Unit, key_of
from arena.protocols.compiler.settings import check_unused, read_settings
from arena.protocols.compiler.sources import Sources
from arena.protocols.compiler.targets import find_revisions
from arena.protocols.compiler.values import read_computes, whole
from arena.protocols.compiler.walk import explore
from arena.protocols.documents import Document, parse_document
from arena.protocols.errors import SourceError
from arena.protocols.graph import END, START, Budget, Edge, Node, Protocol, Reward, Scope
from arena.protocols.schema import NodeFile, ProtocolFile, RoleFile

__all__ = ["build", "rebuild"]

MAX_BUDGET = 1_000_000_000


def build(document: Document, params: Mapping[str, Any], sources: Sources) -> Protocol:
    """Compile a document.

    Raises:
        SourceError: it, or a file that it names, has faults.
        ConfigError: ``params`` do not fit.
    """
    main = sources.extend(document)
    work = Compilation(sources)
    root = Unit(work, main)
    root.whole, faults = work.part(main, ProtocolFile)
    for fault in faults:
        root.report(fault)
    if not isinstance(main.data, dict):
        raise SourceError(faults)
    _read(root, params)
    found = make_edges(root)
    work.connect([edge for edge, _, _ in found])
    for unit in work.units:
        read_audiences(unit)
    find_revisions(work)
    read_computes(work.units)
    edges = add_conditions(found)
    _make_nodes(work)
    for unit in work.units:
        check_message(unit)
        check_roles(unit)
        check_conflicts(unit)
        if unit.parent is not None:
            check_nested(unit)
    rewards = read_rewards(root)
    budget = _read_budget(root)
    if root.whole is not None and not work.faults:
        _check_walk(root, edges, found)
    if not work.faults:
        check_unused(root)
    work.raise_faults()
    assert root.whole is not None
    kept = partial(rebuild, document.file, document.text, dict(sources.texts), dict(params))
    return _protocol(root, root.whole, edges, rewards, budget, kept)


def rebuild(file: str, text: str, texts: Mapping[str, tuple[str, str]], params: Mapping[str, Any]) -> Protocol:
    """Compile again from kept texts."""
    return build(parse_document(text, file), params, Sources(texts))


def _read(unit: Unit, params: Mapping[str, Any]) -> None:
    """Read a file in its place, and what it uses."""
    read_settings(unit, params)
    outer = unit.parent.unit.scope if unit.parent else None
    unit.scope = Scope(
        name=unit.name,
        params=unit.params,
        fields=tuple(unit.fields),
        lists=unit.lists,
        parent=outer,
        group=unit.parent.unit.full(unit.parent.name) if unit.parent else "",
        number=unit.number,
        count=len(unit.parent.inner) if unit.parent and unit.number else 0,
    )
    if unit.parent is not None:
        bind_fields(unit)
    unit.role_names, unit.node_names = unit.declared("roles"), unit.declared("nodes")
    unit.role_files, unit.node_files = unit.parts("roles", RoleFile), unit.parts("nodes", NodeFile)
    unit.sound = len(unit.role_files) == len(unit.role_names) and len(unit.node_files) == len(unit.node_names)
    _check_names(unit)
    read_message(unit)
    read_roles(unit)
    _note_seats(unit)
    read_moves(unit)
    read_links(unit)
    for move in unit.live_moves():
        if move.kind is None:
            unfold(move)
            for inner in move.inner:
                _read(inner, overrides(inner))
            check_played(move)
    name_nodes(unit)


def _check_names(unit: Unit) -> None:
    for section in ("roles", "nodes"):
        for name in unit.declared(section):
            if not _is_name(name):
                unit.add((section, name), f"'{name}' is not a name: use letters, digits, _ and -", key=True)


def _is_name(name: str) -> bool:
    parts = name.split("-")
    plain = all(part.isascii() and part.replace("_", "a").isalnum() for part in parts)
    return plain and not name[0].isdecimal() and len(name) <= 60


def _note_seats(unit: Unit) -> None:
    """What is known of seats when all checks look for readers."""
    work = unit.work
    for name, roles in unit.roles.items():
        file = unit.role_files[name]
        for role in roles:
            if file.tools or file.check is not None:
                work.programs.add(role.seat)
            elif unit.main:
                work.visible[role.seat] = frozenset(role.sees)
            if unit.main and role.hears == "quotes":
                work.deaf.add(role.seat)


def _make_nodes(work: Compilation) -> None:
    for unit in work.units:
        for move in unit.live_moves():
            move.nodes = make_nodes(move)
        for move in unit.moves.values():
            if not move.alive:
                unit.scope.absent[key_of(move.name)] = _absent(move)


class _Nothing(dict[str, Any]):
    """A nested protocol that the params rule out: whatever is named of it is empty."""

    def __missing__(self, key: str) -> _Nothing:
        return self

    def __str__(self) -> str:
        return ""


def _absent(move: Move) -> Any:
    """What templates see of a node that the params rule out."""
    if move.kind is None:
        return _Nothing()
    fields: dict[str, Any] = dict.fromkeys(gives(Ref([move])))
    values = {**fields, "role": "", **({"text": "", "words": 0} if "text" in fields else {}), "visits": 0}
    return [] if move.counted else values


def _read_budget(unit: Unit) -> Budget:
    file, path = (unit.whole.budget if unit.whole else None), ("budget",)
    if file is None:
        return Budget()
    bounds = {
        name: whole(unit, (*path, name), getattr(file, name), 1, MAX_BUDGET) for name in ("turns", "tokens", "seconds")
    }
    if not any(bounds.values()):
        unit.add(path, "a budget has at least one of 'turns', 'tokens' and 'seconds'", key=True)
    return Budget(**bounds)


# -- the graph as a whole


def _check_walk(root: Unit, edges: Sequence[Edge], found: Sequence[tuple[Edge, Link, Unit]]) -> None:
    """Who would meet whom, in any order of events."""
    walk = explore(edges)
    speakers = {
        name: node
        for unit in root.work.units
        for move in unit.live_moves()
        for name, node in zip(move.names, move.nodes, strict=True)
        if node.speaks
    }
    places = {name: place for place, name in enumerate(speakers)}
    told: set[tuple[Unit, frozenset[str]]] = set()
    for ready in walk.together:
        by_seat: dict[str, str] = {}
        for name in sorted(ready & speakers.keys(), key=places.__getitem__):
            other = by_seat.setdefault(speakers[name].role.seat, name)
            if other != name:
                unit, moves = _meeting(root, (speakers[other], speakers[name]))
                if (unit, frozenset(moves)) not in told:
                    told.add((unit, frozenset(moves)))
                    _blame_meeting(unit, moves, speakers[name].role.seat)
    if walk.complete:
        for edge, link, unit in found:
            if edge.sources not in walk.fired and edge.sources != {START} and len(edge.sources) > 1:
                join = " & ".join(sorted(edge.sources))
                unit.add(link.path, f"'{join}' is never complete: not all of them run on any way")


def _meeting(root: Unit, nodes: Sequence[Node]) -> tuple[Unit, tuple[str, ...]]:
    """The innermost file around nodes, and which of its own nodes they are or lie in."""
    chains = []
    for node in nodes:
        unit = next(unit for unit in root.work.units if unit.scope is node.scope)
        inside = [(each.parent.unit, each.parent.name) for each in unit.chain() if each.parent]
        chains.append([(unit, node.group.rpartition(".")[2]), *inside][::-1])
    # The last step that is in one file: behind it, both lie in different files, or nowhere deeper.
    step = [step for step in zip(*chains, strict=False) if step[0][0] is step[1][0]][-1]
    return step[0][0], tuple(name for _, name in step)


def _blame_meeting(unit: Unit, moves: Sequence[str], seat: str) -> None:
    both = " and ".join(f"'{name}'" for name in moves) if len(set(moves)) > 1 else f"nodes of '{moves[0]}'"
    what = f"{both} may act at the same time, and '{seat}' speaks at both: one after the other, or by two roles"
    unit.add(("nodes", moves[-1]), what, key=True)


# -- the result


def _protocol(
    root: Unit,
    whole_file: ProtocolFile,
    edges: tuple[Edge, ...],
    rewards: tuple[Reward, ...],
    budget: Budget,
    kept: Any,
) -> Protocol:
    units = root.work.units
    nodes = {node.name: replace(node, order=order) for order, node in enumerate(_in_order(root))}
    return Protocol(
        name=whole_file.name,
        version=whole_file.version,
        summary=whole_file.summary,
        paper=whole_file.paper,
        params=root.params,
        required_fields=tuple(name for name, required in root.fields.items() if required),
        optional_fields=tuple(name for name, required in root.fields.items() if not required),
        roles={role.name: role for unit in units for roles in unit.roles.values() for role in roles},
        nodes=nodes,
        edges=edges,
        message=root.message,
        rewards=rewards,
        budget=budget,
        scope=root.scope,
        scopes={unit.name: unit.scope for unit in units},
        fingerprint=_fingerprint(units),
        digraph=_digraph(nodes, edges, [unit.name for unit in units if unit.name]),
        rebuild=kept,
    )


def _in_order(unit: Unit) -> Iterator[Node]:
    """The nodes as the files have them, nested ones in place of the node that uses them."""
    for move in unit.live_moves():
        yield from move.nodes
        for inner in move.inner:
            yield from _in_order(inner)


def _fingerprint(units: Iterable[Unit]) -> str:
    """16 hex digits of what all files say and the params are."""
    content = []
    for unit in units:
        assert unit.whole is not None or unit.parent is not None
        whole_file = unit.whole or unit.work.part(unit.document, ProtocolFile)[0]
        assert whole_file is not None
        part = whole_file.model_dump(mode="json", exclude={"summary", "paper", "extends"})
        for section in ("roles", "nodes"):
            # Order counts: it is the order of turns inside a superstep.
            part[section] = list(part[section].items())
        part["params"] = unit.params
        content.append([unit.name, part])
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def _digraph(nodes: Mapping[str, Node], edges: Iterable[Edge], scopes: Iterable[str]) -> nx.MultiDiGraph[str]:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    graph.add_node(START, kind=START)
    for node in nodes.values():
        graph.add_node(node.name, kind=node.kind, role=node.role.name, order=node.order)
    for scope in scopes:
        graph.add_node(scope, kind="scope")
    graph.add_node(END, kind=END)
    for index, edge in enumerate(edges):
        when = edge.when.source if edge.when else None
        for source in sorted(edge.sources):
            for target in sorted(edge.targets or {edge.exits}):
                graph.add_edge(source, target, edge=index, times=edge.times, bound=edge.bound, when=when)
    return graph
