"""What must hold of a protocol's graph: entry, exit, reachability, dead ends, bounded cycles.

Works on names and `Step`s, so that it can run on a file in which other things are still wrong. Every check returns
all its findings, each with the key path that it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import networkx as nx

from arena.protocols.documents import KeyPath

__all__ = ["Step", "check_graph", "reach"]

START, END = "start", "end"

Finding: TypeAlias = tuple[KeyPath, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One arrow of the file."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    path: KeyPath
    bounded: bool
    """It has ``times``."""
    conditional: bool
    """It has ``times`` or ``when``."""


def check_graph(nodes: Iterable[str], steps: Sequence[Step], kept: Sequence[Step] | None = None) -> list[Finding]:
    """All that is wrong with how ``nodes`` are joined; names in steps must exist.

    Args:
        nodes: names.
        steps: all arrows.
        kept: those that the params leave; None: all. What only others lead to is left out, and not missed.
    """
    names = list(nodes)
    every = reach(steps)
    left = steps if kept is None else kept
    reached = reach(left)
    findings = [
        *_check_ends(steps, left, every, reached),
        *_check_reached(names, steps, every),
        *_check_exits(names, left, reached),
    ]
    return findings + _check_cycles(left)


def reach(steps: Sequence[Step]) -> set[str]:
    """What can run: a join needs all its sources."""
    reached, before = {START}, 0
    while len(reached) > before:
        before = len(reached)
        for step in steps:
            if reached.issuperset(step.sources):
                reached.update(step.targets)
    return reached


def _check_ends(steps: Sequence[Step], left: Sequence[Step], every: set[str], reached: set[str]) -> list[Finding]:
    if not any(START in step.sources for step in steps):
        return [(("edges",), "nothing begins: write an edge 'start -> NODE'")]
    if not any(START in step.sources for step in left):
        return [(("edges",), "nothing begins with these params: no edge from 'start' has a condition that holds")]
    if END not in every:
        return [(("edges",), "'end' is never reached: write an edge 'NODE -> end'")]
    if END not in reached:
        return [(("edges",), "'end' is never reached with these params: their conditions leave no way to it")]
    return []


def _check_reached(names: Sequence[str], steps: Sequence[Step], reached: set[str]) -> list[Finding]:
    if not any(START in step.sources for step in steps):
        return []
    findings: list[Finding] = []
    for name in names:
        if name in reached:
            continue
        missing = {source for step in steps if name in step.targets for source in step.sources} - reached
        if missing == {name}:
            reason = "only an edge from itself leads to it"
        else:
            waits = f"it waits for {_and(missing - {name})}, which never runs"
            reason = waits if missing else "no edge leads to it"
        findings.append((("nodes", name), f"'{name}' is never reached: {reason}"))
    return findings


def _check_exits(names: Sequence[str], steps: Sequence[Step], reached: set[str]) -> list[Finding]:
    findings: list[Finding] = []
    graph = nx.DiGraph([(source, target) for step in steps for source in step.sources for target in step.targets])
    finishing = nx.ancestors(graph, END) if END in graph else set()
    leaving = {source for step in steps for source in step.sources}
    for name in names:
        if name in reached and name not in leaving:
            findings.append((("nodes", name), f"'{name}' is a dead end: write where it leads, such as '{name} -> end'"))
        elif name in reached and END in reached and name not in finishing:
            findings.append((("nodes", name), f"'end' cannot be reached from '{name}'"))
    plain = {frozenset(step.sources) for step in steps if not step.conditional}
    for step in steps:
        if step.conditional and frozenset(step.sources) not in plain:
            plain.add(frozenset(step.sources))
            source = " & ".join(step.sources)
            what = f"nothing follows '{source}' once this edge may not be taken: add a plain edge '{source} -> ...'"
            findings.append((step.path, what))
    return findings


def _check_cycles(steps: Sequence[Step]) -> list[Finding]:
    """Cycles in which no edge has ``times``."""
    findings: list[Finding] = []
    graph: nx.DiGraph[str] = nx.DiGraph()
    path_of: dict[tuple[str, str], KeyPath] = {}
    for step in steps:
        for source in step.sources if not step.bounded else ():
            for target in step.targets:
                graph.add_edge(source, target)
                path_of[source, target] = step.path
    for part in nx.strongly_connected_components(graph):
        inside = graph.subgraph(part)
        if len(part) == 1 and not inside.number_of_edges():
            continue
        cycle = nx.find_cycle(inside)
        walk = " -> ".join([cycle[0][0], *(edge[1] for edge in cycle)])
        last = max((path_of[edge[0], edge[1]] for edge in cycle), key=str)
        way_out = f"bound one of its edges, as in {{from: {cycle[-1][0]}, to: {cycle[-1][1]}, times: 2}}"
        findings.append((last, f"the cycle {walk} never ends: {way_out}"))
    return findings


def _and(names: Iterable[str]) -> str:
    return " and ".join(f"'{name}'" for name in sorted(names))
