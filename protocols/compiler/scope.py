"""A protocol file in its place: alone, or unfolded where a ``use`` node of another file stands."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import networkx as nx
from pydantic import BaseModel

from arena.protocols.compiler.sources import Sources
from arena.protocols.documents import Document, KeyPath, find_faults
from arena.protocols.errors import Fault, LanguageError, SourceError
from arena.protocols.graph import END, START, Edge, Node, NodeKind, Role, Scope
from arena.protocols.outputs import OutputRule, check_rule
from arena.protocols.schema import EdgeFile, NodeFile, ProtocolFile, RoleFile
from arena.protocols.templates import Template

if TYPE_CHECKING:
    from arena.protocols.compiler.given import Given

__all__ = ["Audience", "Compilation", "Link", "Move", "Unit", "key_of"]

Part = TypeVar("Part", bound=BaseModel)

MAX_NODES = 500
MAX_LEVELS = 8


_template = lru_cache(maxsize=512)(Template)
"""Templates never change, so protocols that are loaded again share them."""


def key_of(name: str) -> str:
    """A name as expressions and templates write it: ``after-bet`` -> ``after_bet``."""
    return name.replace("-", "_")


@dataclass(eq=False)
class Move:
    """A node of a file: several nodes where a counted role acts, and the nodes of another file at a ``use``."""

    unit: Unit
    name: str
    kind: NodeKind | None
    """None for a ``use``."""
    file: NodeFile
    roles: tuple[Role, ...] = ()
    """Who acts, one for each node; a role that is not counted acts at all of them."""
    names: tuple[str, ...] = ()
    """Of its nodes; empty for a ``use``."""
    counted: bool = False
    """Its fields are those of several nodes, be it only one."""
    alive: bool = True
    """The params let it be reached."""
    inner: tuple[Unit, ...] = ()
    """What a ``use`` unfolds to."""
    nodes: tuple[Node, ...] = ()
    """When they are made."""

    @property
    def path(self) -> KeyPath:
        """Where it stands in its file."""
        return ("nodes", self.name)

    @property
    def speaks(self) -> bool:
        """Whether an agent acts."""
        return self.kind in ("speak", "critique", "revise", "human")

    @property
    def in_turn(self) -> bool:
        """Its seats act one after the other, from the first to the last."""
        return self.file.in_turn and self.counted

    @property
    def empty(self) -> bool:
        """Ruled out by the params, or a ``use`` of a file that has faults: nothing is known of its nodes."""
        return not self.alive or (self.kind is None and not self.inner)

    def has(self, key: str) -> bool:
        """Whether the file writes the key."""
        return self.unit.document.has((*self.path, key))


@dataclass(eq=False)
class Link:
    """An arrow of a file, between names of the file."""

    path: KeyPath
    origin: int
    sources: tuple[tuple[str, ...], ...]
    """Any of these; of each, all."""
    targets: tuple[str, ...]
    file: EdgeFile | None = None
    """Guards, if it is a mapping."""
    times: int | None = None
    when: str | bool | None = None
    decided: bool | None = None
    """What the condition is, if it speaks of params only."""

    @property
    def guarded(self) -> bool:
        """Tried before the plain ones of the same sources."""
        return self.times is not None or self.when is not None


@dataclass(frozen=True)
class Audience:
    """Who reads the turns of a node."""

    seats: tuple[str, ...] | None
    """None: everybody."""
    ephemeral: bool
    speaker: str
    """Seat of who acts, who reads its own turns."""


@dataclass(eq=False)
class Compilation:
    """What all files of one protocol share."""

    sources: Sources
    faults: dict[tuple[str, int, int, str], Fault] = field(default_factory=dict)
    units: list[Unit] = field(default_factory=list)
    origins: int = 0
    """Edges counted so far."""
    nodes: int = 0
    """Nodes counted so far, the ``use`` nodes included."""
    audiences: dict[str, Audience] = field(default_factory=dict)
    """Node -> who reads it."""
    revisions: dict[str, set[str]] = field(default_factory=dict)
    """Node -> nodes that revise it."""
    revising: dict[str, Move] = field(default_factory=dict)
    """Those by name."""
    visible: dict[str, frozenset[str]] = field(default_factory=dict)
    """Seat of the protocol itself -> task fields that its role sees."""
    programs: set[str] = field(default_factory=set)
    """Seats of programs, which may be given anything that their role sees."""
    deaf: set[str] = field(default_factory=set)
    """Seats that judge by quotes: they hear no turns."""
    _rules: dict[int, tuple[NodeFile, str | None]] = field(default_factory=dict)
    _parts: dict[tuple[int, KeyPath, type[BaseModel]], tuple[Any, list[Fault]]] = field(default_factory=dict)

    def template(self, source: str) -> Template:
        """Compile a template.

        Raises:
            LanguageError: see `Template`.
        """
        return _template(source)

    def part(self, document: Document, model: type[Part], path: KeyPath = ()) -> tuple[Part | None, list[Fault]]:
        """Check a part of a document once, however often it is unfolded."""
        key = (id(document), path, model)
        if key not in self._parts:
            self._parts[key] = find_faults(document, model, path)
        return self._parts[key]

    def rule_fault(self, file: NodeFile, rule: OutputRule) -> str | None:
        """What is wrong with the output of a node, found out once, however often its file is unfolded."""
        if id(file) not in self._rules:
            self._rules[id(file)] = (file, check_rule(rule))
        return self._rules[id(file)][1]

    def connect(self, edges: Sequence[Edge]) -> None:
        """Take in how the nodes of all files are joined."""
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        for edge in edges:
            targets = [edge.exits] if edge.exits else edge.targets
            self.graph.add_edges_from((source, target) for source in edge.sources for target in targets)
        self._later: dict[str, set[str]] = {}

    def later(self, name: str) -> set[str]:
        """What can run after a node, itself left out."""
        if name not in self._later:
            self._later[name] = nx.descendants(self.graph, name) if name in self.graph else set()
        return self._later[name]

    def before(self, names: Iterable[str], than: Iterable[str]) -> bool:
        """Whether any of ``names`` can have run before one of ``than``: not if they can only follow it."""
        others = list(than)
        return any(
            name == other or name not in self.later(other) or other in self.later(name)
            for name in names
            for other in others
        )

    def versions(self, names: Iterable[str], at: Collection[str]) -> list[str]:
        """What may stand for turns of ``names`` when one of ``at`` acts: revisions, and revisions of these."""
        found, todo = list[str](), sorted(names)
        while todo:
            for name in sorted(self.revisions.get(todo.pop(), ())):
                if name not in found and self.before([name], at):
                    found.append(name)
                    todo.append(name)
        return found

    def raise_faults(self) -> None:
        """Report.

        Raises:
            SourceError: there are faults.
        """
        if self.faults:
            raise SourceError(
                sorted(self.faults.values(), key=lambda fault: (fault.file, fault.line, fault.column, fault.what))
            )


class Unit:
    """One file in one place, while it is compiled."""

    def __init__(
        self, work: Compilation, document: Document, name: str = "", *, parent: Move | None = None, number: int = 0
    ) -> None:
        self.work = work
        self.document = document
        self.name = name
        """Name of its scope."""
        self.parent = parent
        """The ``use`` node of the file around it."""
        self.number = number
        self.whole: ProtocolFile | None = None
        self.params: dict[str, Any] = {}
        self.used_params: set[str] = set()
        self.fields: dict[str, bool] = {}
        """Task field -> whether a task must have it."""
        self.used_fields: set[str] = set()
        """Those that computations read."""
        self.lists: dict[str, tuple[str, ...]] = {}
        self.used_lists: set[str] = set()
        self.role_names: list[str] = []
        self.role_files: dict[str, RoleFile] = {}
        self.roles: dict[str, tuple[Role, ...]] = {}
        """Role of the file -> its seats."""
        self.outer: dict[str, Role] = {}
        """Of a nested role, by its full name: who plays it in the file around."""
        self.unplayed: tuple[str, ...] = ()
        """Of a nested file: roles that nobody around it plays."""
        self.node_names: list[str] = []
        self.node_files: dict[str, NodeFile] = {}
        self.moves: dict[str, Move] = {}
        self.keys: dict[str, Move] = {}
        """The nodes by their names in expressions and templates."""
        self.outputs: dict[str, OutputRule] = {}
        """Node of the file -> what its turns must look like."""
        self.computes: dict[tuple[str, str], Given] = {}
        """Node of the file and name -> what it computes."""
        self.bound: dict[str, tuple[Template, ...]] = {}
        """Of a nested file: field -> what it is made from, in names of the file around."""
        self.links: list[Link] = []
        self.edges_sound = True
        """No edge is missing because of a fault in it."""
        self.sound = True
        """No part of the file is missing because of a fault in it."""
        self.everyone: tuple[str, ...] | None = None
        """Seats that read what is said to everyone; None: all."""
        self.message: Template
        self.scope: Scope
        work.units.append(self)

    @property
    def main(self) -> bool:
        """Whether it is the protocol itself, not nested in another."""
        return self.parent is None

    @property
    def key(self) -> str:
        """The scope in the keys of expressions."""
        return key_of(self.name)

    def full(self, name: str) -> str:
        """A name of the file, unique in the protocol."""
        return f"{self.name}.{name}" if self.name else name

    def chain(self) -> list[Unit]:
        """This unit and those around it, innermost first."""
        found: list[Unit] = [self]
        while found[-1].parent is not None:
            found.append(found[-1].parent.unit)
        return found

    def add(self, path: KeyPath, what: str, *, key: bool = False, offset: int | None = None) -> None:
        """Report a fault of this file; one of a nested file names the node that uses it, and one in what the file
        extends tells the way out in the file itself."""
        fault, document = self.document.fault(path, what, key=key, offset=offset), self.document
        own = Path(document.file).name
        elsewhere = fault.file != document.file
        if "remove it" in what and document.inherits(path) and all(isinstance(step, str) for step in path):
            taken = ": {".join(map(str, path)) + ": " + "}" * (len(path) - 1)
            way_out = f"take it away with {taken}{f' in {own}' if elsewhere else ''}"
            fault = replace(fault, what=what.replace("remove it", way_out, 1))
        elif elsewhere:
            fault = replace(fault, what=f"{what} (inherited by {own})")
        self.report(fault)

    def report(self, fault: Fault) -> None:
        """Report a fault once, however often the file is unfolded."""
        key = (fault.file, fault.line, fault.column, fault.what)
        if self.parent is not None:
            user = self.parent.unit.document.fault((*self.parent.path, "use"), "")
            where = f"used by {user.where.removesuffix('.use')}, {user.file}:{user.line}"
            fault = Fault(fault.file, fault.line, fault.column, fault.where, f"{fault.what} ({where})")
        self.work.faults.setdefault(key, fault)

    def declared(self, section: str) -> list[str]:
        """All names of a section, those of faulty parts included."""
        found = self.document.get((section,))
        return list(found) if isinstance(found, dict) else []

    def parts(self, section: str, model: type[Part]) -> dict[str, Part]:
        """The parts of a section that are well formed; faults of the others are known from the whole file."""
        found = {name: self.work.part(self.document, model, (section, name))[0] for name in self.declared(section)}
        return {name: part for name, part in found.items() if part is not None}

    def template(self, path: KeyPath, source: str | None) -> Template | None:
        """Compile a template; its faults are reported."""
        if source is None:
            return None
        try:
            template = self.work.template(source)
        except LanguageError as error:
            self.add(path, error.what, offset=error.offset)
            return None
        self.used_params |= template.names & self.params.keys()
        self.used_lists |= template.names & self.lists.keys()
        return template

    def refuse_keys(self, path: KeyPath, keys: Iterable[str], reason: str) -> None:
        """Keys that are written and change nothing are faults."""
        written = self.document.get(path)
        for key in keys:
            if isinstance(written, dict) and key in written:
                self.add((*path, key), f"'{key}' does nothing here: {reason}", key=True)

    def all_names(self) -> list[str]:
        """The nodes of the unit and of those inside it."""
        found: list[str] = []
        for move in self.live_moves():
            found += [*move.names, *(name for inner in move.inner for name in inner.all_names())]
        return found

    def live_moves(self) -> list[Move]:
        """The nodes that can be reached."""
        return [move for move in self.moves.values() if move.alive]

    def known_stops(self) -> list[str]:
        """What edges may name."""
        return [*self.node_names, START, END]
