"""The edges of a file as they are written, and what the params rule out."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from arena.protocols.checks import Step, check_graph, reach
from arena.protocols.compiler.scope import Link, Unit
from arena.protocols.compiler.values import constant, whole
from arena.protocols.documents import KeyPath
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.expressions import Expression
from arena.protocols.graph import END, START
from arena.protocols.schema import EdgeFile

__all__ = ["read_links"]

MAX_TIMES = 10_000


def read_links(unit: Unit) -> None:
    """Fill ``unit.links``, without those that the params rule out, and mark the nodes that are left."""
    raw = unit.document.get(("edges",))
    complete = True
    everything: list[Link] = []
    for index, item in enumerate(raw if isinstance(raw, list) else ()):
        path: KeyPath = ("edges", index)
        unit.work.origins += 1
        before = len(unit.work.faults)
        if isinstance(item, str):
            found = _read_chain(unit, path, item)
        else:
            file = unit.work.part(unit.document, EdgeFile, path)[0] if isinstance(item, dict) else None
            found = [_read_guarded(unit, path, file)] if file else []
        complete = complete and bool(found) and len(unit.work.faults) == before
        everything += [link for link in found if link is not None]
    unit.links = _decide(everything)
    _check_stops(unit)
    unit.edges_sound = complete
    reached = reach([step for link in unit.links for step in _steps(link)])
    every = reach([step for link in everything for step in _steps(link)])
    for name, move in unit.moves.items():
        # What nothing leads to at all is a mistake, and still checked.
        move.alive = name in reached or name not in every
    unit.links = [link for link in (_kept(link, reached) for link in unit.links) if link]
    if complete and everything and unit.sound:
        steps = [step for link in everything for step in _steps(link)]
        kept = [step for link in unit.links for step in _steps(link)]
        for where, what in check_graph(unit.node_names, steps, kept):
            unit.add(where, what, key=where[0] == "nodes")


def _check_stops(unit: Unit) -> None:
    """Where an edge always stops everything, others from the same nodes are never taken."""
    plain = [(frozenset(sources), link) for link in unit.links if not link.guarded for sources in link.sources]
    stopping = {sources for sources, link in plain if link.file is not None and link.file.stop}
    for sources, link in plain:
        if sources in stopping and (link.file is None or not link.file.stop):
            unit.add(link.path, "this is never taken: an edge with 'stop' and no condition leads from there too")


def _steps(link: Link) -> list[Step]:
    bounded = link.file is not None and link.file.times is not None
    return [Step(sources, link.targets, link.path, bounded, link.guarded) for sources in link.sources]


def _kept(link: Link, reached: set[str]) -> Link | None:
    """The link from what can be reached."""
    sources = tuple(names for names in link.sources if reached.issuperset(names))
    if not sources:
        return None
    return Link(link.path, link.origin, sources, link.targets, link.file, link.times, link.when, link.decided)


# -- reading


def _read_chain(unit: Unit, path: KeyPath, text: str) -> list[Link | None]:
    groups = _read_groups(unit, path, text, arrows=True)
    links: list[Link | None] = []
    for index, (before, after) in enumerate(itertools.pairwise(groups)):
        # A chain is several edges of one line; each counts for itself.
        unit.work.origins += bool(index)
        links.append(_link(unit, path, before, after))
    return links


def _read_guarded(unit: Unit, path: KeyPath, file: EdgeFile) -> Link | None:
    groups = [
        _read_groups(unit, (*path, key), text, arrows=False) for key, text in (("from", file.from_), ("to", file.to))
    ]
    link = _link(unit, path, groups[0][0], groups[1][0], file)
    if link is None:
        return None
    link.times = whole(unit, (*path, "times"), file.times, 0, MAX_TIMES)
    if file.times is not None and link.times is None:
        link.times = 0  # its fault is told
    link.when = file.when
    if file.when is not None:
        link.decided = _decided(unit, (*path, "when"), file.when)
    if START in link.sources[0] and (file.times is not None or (file.when is not None and link.decided is None)):
        unit.add(path, "an edge from 'start' may have a condition over params, and no bound")
    if file.stop is not None and file.to.strip() != END:
        unit.add((*path, "stop"), "'stop' does nothing here: only an edge to 'end' stops the episode", key=True)
    return link


def _decided(unit: Unit, path: KeyPath, when: str | bool) -> bool | None:
    """The value of a condition over params only; None for any other."""
    try:
        compiled = Expression(when, unit.params)
    except ConfigError:
        return None  # told when the edge is made
    if compiled.names:
        return None
    value = constant(unit, path, when)
    return None if value is None else bool(value)


def _link(
    unit: Unit, path: KeyPath, before: list[list[str]], after: list[list[str]], file: EdgeFile | None = None
) -> Link | None:
    if not before or not after:
        return None
    if len(after) > 1:
        unit.add((*path, "to") if file else path, "'|' joins what must have finished; what acts next is joined by '&'")
        return None
    return Link(path, unit.work.origins, tuple(map(tuple, before)), tuple(after[0]), file)


def _read_groups(unit: Unit, path: KeyPath, text: str, *, arrows: bool) -> list[list[list[str]]]:
    """``a & b | c -> d`` as [[[a, b], [c]], [[d]]]."""
    links = text.split("->")
    if arrows and len(links) < 2:
        unit.add(path, f"{text!r} has no arrow: write 'a & b -> c'")
        return []
    if not arrows and len(links) > 1:
        unit.add(path, f"{text!r} has an arrow: name only nodes here, joined by '&'")
    groups: list[list[list[str]]] = []
    offset = 0
    for number, link in enumerate(links):
        alternatives: list[list[str]] = []
        for part in link.split("|"):
            names: list[str] = []
            for word in part.split("&"):
                name = word.strip()
                at = offset + len(word) - len(word.lstrip())
                _check_stop(unit, path, name, at, first=number == 0, last=number == len(links) - 1)
                if name in names:
                    unit.add(path, f"'{name}' is named twice", offset=at)
                names.append(name)
                offset += len(word) + 1
            for alone in (START, END):
                if alone in names and len(names) > 1:
                    unit.add(path, f"'{alone}' stands alone: it cannot be joined with '&'")
            alternatives.append(names)
        offset += 1
        if len({frozenset(names) for names in alternatives}) < len(alternatives):
            unit.add(path, "two of what is joined by '|' are the same", offset=0)
        if len(alternatives) > 1 and [START] in alternatives:
            unit.add(path, f"'{START}' stands alone: it cannot be joined with '|'")
        groups.append(alternatives)
    return groups


def _check_stop(unit: Unit, path: KeyPath, name: str, offset: int, *, first: bool, last: bool) -> None:
    key = path[-1]
    if not name:
        unit.add(path, "a node is missing: write 'a & b -> c'", offset=offset)
    elif name == START and (not first or key == "to"):
        unit.add(path, "nothing can lead to 'start'", offset=offset)
    elif name == END and (not last or key == "from"):
        unit.add(path, "nothing can follow 'end'", offset=offset)
    elif name not in (START, END) and name not in unit.node_names:
        known = unit.known_stops()
        group, _, number = name.rpartition("-")
        if group in unit.node_names and number.isdecimal():
            what = (
                f"an edge names all of '{group}', not '{name}' alone: write '{group}'; where its seats shall act one "
                "after the other, give the node 'in_turn: true'"
            )
            unit.add(path, what, offset=offset)
            return
        unit.add(path, f"'{name}' is not a node of this protocol.{suggest(name, known)}", offset=offset)


# -- what the params decide


def _decide(links: Sequence[Link]) -> list[Link]:
    """The links without those whose condition is false, or that come after one that is always taken."""
    groups: dict[frozenset[str], list[tuple[Link, tuple[str, ...]]]] = {}
    for link in links:
        for sources in link.sources:
            groups.setdefault(frozenset(sources), []).append((link, sources))
    kept: dict[int, list[tuple[str, ...]]] = {}
    for members in groups.values():
        for link, sources in _taken(members):
            kept.setdefault(id(link), []).append(sources)
    found = []
    for link in links:
        if sources_left := kept.get(id(link)):
            when = None if link.decided is not None else link.when
            found.append(
                Link(
                    link.path, link.origin, tuple(sources_left), link.targets, link.file, link.times, when, link.decided
                )
            )
    return found


def _taken(members: Sequence[tuple[Link, tuple[str, ...]]]) -> list[tuple[Link, tuple[str, ...]]]:
    """Of the links with the same sources, those that can be taken."""
    found = []
    for link, sources in members:
        if not link.guarded or link.decided is False:
            continue
        found.append((link, sources))
        if link.decided and link.times is None:
            return found
    return found + [(link, sources) for link, sources in members if not link.guarded]
