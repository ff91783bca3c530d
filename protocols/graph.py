"""A protocol after it was read: roles, nodes, edges and what is paid, ready to be walked by the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx

from arena.protocols.errors import ConfigError
from arena.protocols.expressions import Expression
from arena.protocols.flow import Flow, Routes
from arena.protocols.quotes import QuoteRule
from arena.protocols.records import Task
from arena.protocols.templates import Template

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["END", "START", "Edge", "Node", "Protocol", "Rewards", "Role"]

START, END = "start", "end"


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """A seat in a protocol."""

    name: str
    sees: tuple[str, ...]
    """Task fields that the role may be shown, in the order of the file."""
    argues: int | None = None
    """Seat k argues ``answers[sides[k]]`` of the episode; None for a role that argues nothing."""
    hears: Literal["turns", "quotes"] = "turns"
    """Of a judge: whole turns, or nothing but good quotes."""
    opening: Template | None = None
    """Instructions at the beginning of the role's context."""
    is_judge: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One kind of move by a role."""

    name: str
    kind: Literal["speak", "judge"]
    role: Role
    order: int
    """Place in the file; it orders the turns of one superstep."""
    prompt: Template | None = None
    """What the speaker is asked now."""
    cue: Template | None = None
    """Words put at the beginning of the speaker's own turn."""
    quote: QuoteRule | None = None
    max_words: int | None = None
    """More words than that are cut off (status ``over_limit``)."""
    max_tokens: int | None = None
    audience: tuple[str, ...] | None = None
    """Roles that read the turn, beside its speaker; None: everybody."""

    def reaches(self, role: str) -> bool:
        """Whether turns of this node may be read by ``role`` (a speaker always knows its own)."""
        return self.audience is None or role in self.audience or role == self.role.name


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Where an episode goes when all ``sources`` have finished."""

    sources: frozenset[str]
    targets: frozenset[str]
    times: int | None = None
    """How often it may be taken in an episode; None: no bound."""
    bound: str = ""
    """``times`` as written, for drawings."""
    when: Expression | None = None
    """Condition over ``round`` (how often the sources have run) and ``visits`` (turns and judgements so far)."""

    @property
    def guarded(self) -> bool:
        """Tried before, and taken instead of, the plain edges of the same sources."""
        return self.times is not None or self.when is not None


@dataclass(frozen=True, slots=True, eq=False)
class Rewards:
    """What a verdict is worth."""

    verdict: str
    """Judge node whose verdict pays."""
    value: Expression
    """Reward of the role that argues an answer, from ``margin`` (nats), ``p``, ``won`` and ``correct``."""
    pay: Literal["each_turn", "end"] = "end"
    """``each_turn``: a turn earns the change of ``value`` that it made; ``end``: every turn earns the final value."""
    bad_quote: float = 0.0
    """Paid to the speaker for each quote that is not verified or not new."""


@dataclass(frozen=True, eq=False)
class Protocol:
    """A compiled protocol. Nothing in it changes after it is made; episodes keep their state in a `Flow`."""

    name: str
    version: int
    summary: str
    paper: str
    params: dict[str, Any]
    """Values after overrides."""
    required_fields: tuple[str, ...]
    optional_fields: tuple[str, ...]
    roles: dict[str, Role]
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    message: Template
    """How a turn reads to the other roles: of ``role``, ``text``, ``answer``, ``cue`` and ``round``."""
    rewards: Rewards | None
    fingerprint: str
    """16 hex digits of everything that changes an episode; comments and layout do not count."""
    digraph: nx.MultiDiGraph[str]
    """The graph with ``start`` and ``end``; nodes have ``kind``, ``role``, ``order``, edges ``times``, ``when``."""
    rebuild: Callable[[], Protocol] = field(repr=False)
    """Compiles the same protocol again; used to pickle it."""

    @cached_property
    def seats(self) -> tuple[str, ...]:
        """Names of the roles that argue, by seat."""
        names = {role.argues: role.name for role in self.roles.values() if role.argues is not None}
        return tuple(names[seat] for seat in sorted(names))

    @cached_property
    def judge_nodes(self) -> tuple[str, ...]:
        """Names of the nodes that judge, in file order."""
        return tuple(node.name for node in self.nodes.values() if node.kind == "judge")

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """Names of the roles that speak, in the order of the file's nodes."""
        return tuple(dict.fromkeys(node.role.name for node in self.nodes.values() if node.kind == "speak"))

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.nodes, self.edges)

    def flow(self) -> Flow:
        """The walk of a new episode, before its first superstep."""
        return Flow(self._routes)

    def visible(self, role: Role, task: Task) -> dict[str, Any]:
        """What templates of ``role`` may name: task fields (absent optional ones are ''), params and ``role``."""
        names: dict[str, Any] = {**self.params, "role": role.name}
        for name in role.sees:
            value = task.fields.get(name)
            names[name] = "" if value is None else value
        return names

    def check_task(self, task: Task) -> None:
        """Whether the protocol can be run on ``task``.

        Raises:
            ConfigError: a field is missing or cannot be quoted from, or there are fewer answers than seats that argue.
        """
        for name in self.required_fields:
            if task.fields.get(name) is None:
                there = ", ".join(sorted(task.fields)) or "none"
                raise ConfigError(
                    f"task '{task.id}' lacks '{name}', which protocol '{self.name}' needs (its fields: {there})"
                )
        for quoted in {node.quote.field for node in self.nodes.values() if node.quote}:
            source: Any = task.fields.get(quoted)
            items = (source,) if isinstance(source, str) else source
            if items is not None and not (isinstance(items, list | tuple) and all(isinstance(i, str) for i in items)):
                raise ConfigError(
                    f"task '{task.id}': '{quoted}', which protocol '{self.name}' quotes from, must be a text or a list "
                    f"of texts, not {source!r:.80}"
                )
        answers: Any = task.fields.get("answers")
        if answers is None and not self.seats:
            return
        listed = hasattr(answers, "__len__") and not isinstance(answers, str)
        if not listed or not all(isinstance(answer, str) for answer in answers):
            raise ConfigError(f"task '{task.id}': 'answers' must be a list of texts, not {answers!r:.80}")
        if len(answers) < len(self.seats):
            roles = f"{len(self.seats)} roles of protocol '{self.name}' argue one"
            raise ConfigError(f"task '{task.id}' has {len(answers)} answers, but {roles}")

    def __reduce__(self) -> tuple[Callable[[], Protocol], tuple[()]]:
        return self.rebuild, ()
