"""A protocol after it was read: roles, nodes, edges and what is paid, ready to be walked by the engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import networkx as nx

from arena.protocols.errors import ConfigError
from arena.protocols.expressions import Expression
from arena.protocols.flow import Flow, Routes
from arena.protocols.outputs import OutputRule
from arena.protocols.quotes import QuoteRule
from arena.protocols.records import Task
from arena.protocols.templates import Template

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

__all__ = [
    "END",
    "SPOKEN",
    "START",
    "BestOf",
    "Budget",
    "Edge",
    "Node",
    "NodeKind",
    "Protocol",
    "Reward",
    "Role",
    "Scope",
]

START, END = "start", "end"

NodeKind: TypeAlias = Literal[
    "speak", "critique", "revise", "human", "judge", "tool", "verify", "vote", "select", "compute"
]
SPOKEN = ("speak", "critique", "revise", "human")
"""Kinds of nodes at which an agent of the lineup acts. A ``use`` node is unfolded when the file is read."""


@dataclass(frozen=True, slots=True, eq=False)
class Scope:
    """A protocol, or one that is nested in it: what its templates and expressions mean by their names."""

    name: str
    """``""`` for the protocol itself; ``sub`` or ``sub.inner`` for what a ``use`` node unfolds to."""
    params: dict[str, Any]
    """Values after overrides."""
    fields: tuple[str, ...]
    """Task fields, optional ones included."""
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What nodes may draw from, beside task fields, and templates may show."""
    bound: dict[str, Template | tuple[Template, ...]] = field(default_factory=dict)
    """Field -> how it is made when the scope is entered, from names of ``parent``; other fields are the parent's."""
    parent: Scope | None = None
    group: str = ""
    """Name of the ``use`` node in the file, with its scope; several scopes share it where counted roles play it."""
    number: int = 0
    """Among the scopes of its group, from 1, as ``bound`` may show it; 0 where no counted role plays it."""
    count: int = 0
    """How many scopes its group has; 0 where no counted role plays it."""
    absent: dict[str, Any] = field(default_factory=dict)
    """Names of nodes that the params rule out -> what templates see of them: as of nodes that have not run."""

    def __post_init__(self) -> None:
        if not self.group:
            object.__setattr__(self, "group", self.name)

    def binds(self, field: str) -> bool:
        """Whether ``field`` is made here or in a scope around this one, and so is not the task's."""
        return field in self.bound or (self.parent is not None and self.parent.binds(field))


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """A role in its scope: what it sees, and which seat of the lineup plays it."""

    name: str
    """Unique in the protocol; with the name of its scope before it, if it is nested: ``sub.proponent``."""
    sees: tuple[str, ...]
    """Fields of its scope that the role may be shown, in the order of the file."""
    argues: int | None = None
    """Seat k argues ``answers[sides[k]]`` of the episode; None for a role that argues nothing."""
    hears: Literal["turns", "quotes"] = "turns"
    """Of a judge: whole turns, or nothing but good quotes."""
    opening: Template | None = None
    """Instructions, shown before the first turn of the role in this scope."""
    is_judge: bool = False
    """Some node judges by it."""
    seat: str = ""
    """Who plays it: key of lineups, judges, contexts, audiences and turns. The name, unless it is nested."""
    group: str = ""
    """Name in the file; several roles share it where ``count`` makes many."""
    number: int = 0
    """Among the seats of its group, from 1; 0 for a role without ``count``."""
    count: int = 0
    """How many seats its group has; 0 for a role without ``count``."""
    tools: tuple[str, ...] = ()
    """Specs of the programs of a toolbox."""
    check: str | None = None
    """Spec of the program of a checker."""
    scope: Scope | None = None

    def __post_init__(self) -> None:
        if not self.seat:
            object.__setattr__(self, "seat", self.name)
        if not self.group:
            object.__setattr__(self, "group", self.name)


@dataclass(frozen=True, slots=True, eq=False)
class BestOf:
    """Several candidates for one turn, of which one is said."""

    n: int
    by: Role | None
    """Judge or checker that rates them."""
    value: Expression
    """Largest for the best."""


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One kind of move by a role."""

    name: str
    """Unique in the protocol, such as ``pro``, ``answer-2`` (of a counted role) or ``sub.pro`` (nested)."""
    kind: NodeKind
    role: Role
    """Who acts. Votes, selections and computations have a role of their own, named after the node."""
    order: int
    """Place in the file; it orders the turns of one superstep."""
    prompt: Template | None = None
    """What the speaker is asked now."""
    cue: Template | None = None
    """Words put at the beginning of the speaker's own turn."""
    quote: QuoteRule | None = None
    max_words: int | None = None
    max_tokens: int | None = None
    """Of the visible text."""
    max_thinking: int | None = None
    """Tokens of hidden thinking."""
    refuses: bool = False
    """A turn over a limit is refused, not cut."""
    audience: tuple[str, ...] | None = None
    """Seats that read the turn, beside its speaker; None: everybody."""
    ephemeral: bool = False
    """Not even its speaker has the turn in mind later (``to: nobody``)."""
    group: str = ""
    """Name in the file, with its scope; several nodes share it where a counted role acts."""
    in_turn: bool = False
    """The nodes of its group act one after the other, each after the one before it."""
    about: tuple[str, ...] = ()
    """Nodes that a critique, revision, tool, check, vote or selection is about."""
    about_many: bool = False
    """``of`` is a list in templates, be it of one: the node is about a group, or about several nodes."""
    output: OutputRule | None = None
    retries: int = 0
    claims: bool = False
    """The chosen answer becomes the one that the role argues."""
    draws: dict[str, str] = field(default_factory=dict)
    """Name -> list of the scope, or task field, of which an item is drawn."""
    best_of: BestOf | None = None
    reads: tuple[str, ...] | None = None
    """Nodes whose turns a judge reads; None: all of its scope."""
    run: str = ""
    """Tool that is run with ``arguments``; empty: the call in the turn that the node is about."""
    arguments: Mapping[str, Template | bool | int | float] = field(default_factory=dict)
    """Of ``run``: name -> how its value is made."""
    fields: Mapping[str, Template | tuple[Template, ...]] = field(default_factory=dict)
    """Of a check: field that it finds beside those of the task -> how it is made."""
    say: Template | None = None
    """How the result of a program, vote or computation reads."""
    count: str = "choice"
    """Field that a vote counts."""
    rule: Literal["plurality", "majority", "unanimous", "mean"] = "plurality"
    by: Role | None = None
    """Judge or checker that rates what a selection picks from."""
    value: Expression | None = None
    """Largest for the turn that a selection picks."""
    votes_on_answers: bool = False
    """A vote whose result is a verdict: the choices are the task's ``answers``, or judges are combined."""
    computes: dict[str, Expression] = field(default_factory=dict)
    message: Template | None = None
    """How the turn reads to other roles: the ``message`` of its scope."""
    scope: Scope | None = None

    def __post_init__(self) -> None:
        if not self.group:
            object.__setattr__(self, "group", self.name)

    @property
    def speaks(self) -> bool:
        """Whether an agent of the lineup acts here."""
        return self.kind in SPOKEN

    @property
    def given(self) -> tuple[Template, ...]:
        """The templates of what a program is given."""
        made = [how if isinstance(how, tuple) else (how,) for how in (*self.arguments.values(), *self.fields.values())]
        return tuple(how for several in made for how in several if isinstance(how, Template))

    @property
    def gives_verdict(self) -> bool:
        """Whether the node ends in a verdict on the answers of its scope: judges, and votes over answers or judges."""
        return self.kind == "judge" or (self.kind == "vote" and self.votes_on_answers)

    def reaches(self, seat: str) -> bool:
        """Whether turns of this node may be read by ``seat`` (a speaker knows its own, unless they are ephemeral)."""
        if self.ephemeral:
            return False
        return self.audience is None or seat in self.audience or seat == self.role.seat


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """Where an episode goes when all ``sources`` have finished."""

    sources: frozenset[str]
    """Nodes, and nested scopes, that must have finished."""
    targets: frozenset[str]
    """Nodes that act next (of a nested scope those that begin it), or ``end``."""
    times: int | None = None
    """How often it may be taken in an episode; None: no bound."""
    bound: str = ""
    """``times`` as written, for drawings."""
    when: Expression | None = None
    """Condition over ``round`` (how often the sources have run), ``visits`` (turns and judgements so far) and what
    was said and decided, as ``NODE.field``."""
    stop: str = ""
    """Stop reason of an episode that ends here."""
    origin: int = 0
    """Edges of one line of the file share a number, and with it the count that ``times`` bounds (``a | b -> c``)."""
    enters: tuple[str, ...] = ()
    """Nested scopes that begin anew when the edge is taken."""
    exits: str = ""
    """Nested scope that has finished when the edge is taken; it has no targets then."""

    @property
    def guarded(self) -> bool:
        """Tried before, and taken instead of, the plain edges of the same sources."""
        return self.times is not None or self.when is not None


@dataclass(frozen=True, slots=True, eq=False)
class Reward:
    """What roles are paid."""

    roles: tuple[str, ...]
    """Seats that are paid."""
    verdict: str | None
    """Node whose verdict pays, where ``values`` speak of one."""
    values: dict[str, Expression]
    """Seat -> reward, from ``margin`` (nats), ``p``, ``won``, ``correct``, ``NODE.field`` and, paid by turn, ``words``,
    ``tokens``, ``bad_quotes``, ``ok`` and fields of the turn."""
    pay: Literal["each_turn", "end", "next", "turn"] = "end"
    """``end``: every turn earns the final value; ``each_turn``: a turn earns the change of the value that it made;
    ``next``: the value when a node that ``values`` name (or the verdict) has run next; ``turn``: the turn's own
    value."""
    bad_quote: float = 0.0
    """Paid to the speaker for each quote that is not verified or not new."""
    zero_sum: bool = False
    """The values of all ``roles`` add up to 0."""


@dataclass(frozen=True, slots=True)
class Budget:
    """When an episode, or a run, is stopped at the latest; None sets no bound."""

    turns: int | None = None
    tokens: int | None = None
    """Sampled tokens, hidden thinking included."""
    seconds: float | None = None
    """Wall time."""


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
    """All roles of all scopes by name, counted ones one by one; those of votes and computations are not among them."""
    nodes: dict[str, Node]
    edges: tuple[Edge, ...]
    message: Template
    """How a turn reads to the other roles: of ``role``, ``text``, ``answer``, ``cue`` and ``round``."""
    rewards: tuple[Reward, ...]
    budget: Budget
    """Of an episode."""
    scope: Scope
    scopes: dict[str, Scope]
    """All scopes by name; the protocol's own is ``""``."""
    fingerprint: str
    """16 hex digits of everything that changes an episode; comments and layout do not count."""
    digraph: nx.MultiDiGraph[str]
    """The graph with ``start`` and ``end``; nodes have ``kind``, ``role``, ``order``, edges ``times``, ``when``."""
    rebuild: Callable[[], Protocol] = field(repr=False)
    """Compiles the same protocol again; used to pickle it."""

    @cached_property
    def groups(self) -> dict[str, tuple[str, ...]]:
        """Name of a node in the file -> its nodes; more than one where a counted role acts. For a counted ``use``, also
        the name behind that of the ``use``: ``work.step`` -> ``work-1.step``, ``work-2.step``."""
        found: dict[str, tuple[str, ...]] = {}
        for node in self.nodes.values():
            for name in dict.fromkeys((node.group, *self._over_scopes(node))):
                found[name] = (*found.get(name, ()), node.name)
        return found

    def _over_scopes(self, node: Node) -> Iterator[str]:
        """``work.step`` for a node of ``work-2``: what the file around a counted ``use`` calls it."""
        scope, own = node.scope, node.group.rpartition(".")[2]
        while scope and scope.name:
            if scope.number:
                yield f"{scope.group}.{own}"
            own = f"{scope.name.rpartition('.')[2]}.{own}"
            scope = scope.parent

    @cached_property
    def steered(self) -> bool:
        """Whether a verdict can change what is said: judges must then be asked while it is played."""
        judged = {node.name for node in self.nodes.values() if self._asks_judges(node)}
        rated = any(
            (node.best_of and node.best_of.by and node.best_of.by.is_judge) or (node.by and node.by.is_judge)
            for node in self.nodes.values()
        )
        return rated or any(self._speaks_of(judged))

    def _asks_judges(self, node: Node) -> bool:
        """Whether a verdict comes from judges: their own, or combined by a vote."""
        over = (self.nodes[name] for name in node.about) if node.kind == "vote" and node.gives_verdict else ()
        return node.kind == "judge" or any(self._asks_judges(each) for each in over)

    def _speaks_of(self, judged: Collection[str]) -> Iterator[bool]:
        """Whether conditions, templates and computations name a verdict."""
        keys = tuple(f"{name.replace('-', '_')}." for name in judged)
        for edge in self.edges:
            yield edge.when is not None and any(name.startswith(keys) for name in edge.when.names)
        for node in self.nodes.values():
            for expression in node.computes.values():
                yield any(name.startswith(keys) for name in expression.names)
            for template in (node.prompt, node.cue, node.say, *node.given):
                yield template is not None and any(f"{name}." in keys for name in template.names)

    @cached_property
    def seats(self) -> tuple[str, ...]:
        """Names of the roles that argue, by seat."""
        own = [role for role in self.roles.values() if role.argues is not None and role.scope is self.scope]
        return tuple(role.seat for role in sorted(own, key=lambda role: role.argues or 0))

    @cached_property
    def judge_nodes(self) -> tuple[str, ...]:
        """Names of the nodes by which a judge decides, in file order."""
        return tuple(node.name for node in self.nodes.values() if node.kind == "judge")

    @cached_property
    def speakers(self) -> tuple[str, ...]:
        """Seats that agents of the lineup fill, in the order of the file's nodes."""
        return tuple(dict.fromkeys(node.role.seat for node in self.nodes.values() if node.speaks))

    @cached_property
    def judging_seats(self) -> tuple[str, ...]:
        """Seats that judges fill: of judge nodes, and of what rates candidates."""
        rating = [role for node in self.nodes.values() for role in (node.by, node.best_of and node.best_of.by) if role]
        judging = [node.role for node in self.nodes.values() if node.kind == "judge"]
        return tuple(dict.fromkeys(role.seat for role in (*judging, *rating) if role.check is None))

    @cached_property
    def _routes(self) -> Routes:
        return Routes(self.nodes, self.edges)

    def flow(self) -> Flow:
        """The walk of a new episode, before its first superstep."""
        return Flow(self._routes)

    def course(self) -> list[Node] | None:
        """The nodes of an episode in the order in which they run; None where that depends on what is said."""
        if any("." in name for edge in self.edges if edge.when is not None for name in edge.when.names):
            return None
        flow, nodes = self.flow(), list[Node]()
        while flow.ready:
            nodes += flow.ready
            flow.advance()
        return nodes

    def check_task(self, task: Task) -> None:
        """Whether the protocol can be run on ``task``.

        Raises:
            ConfigError: a field is missing, or no text or list where it is quoted, drawn or chosen from; or there are
                fewer answers than seats that argue.
        """
        for name in self.required_fields:
            if task.fields.get(name) is None:
                there = ", ".join(sorted(task.fields)) or "none"
                raise ConfigError(
                    f"task '{task.id}' lacks '{name}', which protocol '{self.name}' needs (its fields: {there})"
                )
        for name in self._quoted:
            value: Any = task.fields.get(name)
            if value is not None and not isinstance(value, str) and not _is_texts(value):
                raise ConfigError(
                    f"task '{task.id}': '{name}', which protocol '{self.name}' quotes from, must be a text or a list "
                    f"of texts, not {value!r:.80}"
                )
        for name, use in self._listed.items():
            value = task.fields.get(name)
            if value is not None and not (_is_texts(value) and value):
                raise ConfigError(
                    f"task '{task.id}': '{name}', which protocol '{self.name}' {use}, must be a list of texts, not "
                    f"{value!r:.80}"
                )
        self._check_answers(task)

    def _check_answers(self, task: Task) -> None:
        answers: Any = task.fields.get("answers")
        own = [role for role in self.roles.values() if role.scope is None or not role.scope.binds("answers")]
        seats = max((role.argues + 1 for role in own if role.argues is not None), default=0)
        if answers is None and not seats:
            return
        if not _is_texts(answers):
            raise ConfigError(f"task '{task.id}': 'answers' must be a list of texts, not {answers!r:.80}")
        if len(answers) < seats:
            roles = f"{seats} roles of protocol '{self.name}' argue one"
            raise ConfigError(f"task '{task.id}' has {len(answers)} answers, but {roles}")

    @cached_property
    def _quoted(self) -> tuple[str, ...]:
        """Task fields of which passages are quoted."""
        rules = [(node.quote, node) for node in self.nodes.values() if node.quote and node.quote.form == "tagged"]
        return tuple(dict.fromkeys(rule.field for rule, node in rules if not _bound(node, rule.field)))

    @cached_property
    def _listed(self) -> dict[str, str]:
        """Task fields of which items are taken -> what for."""
        found: dict[str, str] = {}
        for node in self.nodes.values():
            uses = {
                source: "draws from"
                for source in node.draws.values()
                if node.scope is None or source in node.scope.fields
            }
            if node.output is not None and node.output.choices_field:
                uses[node.output.choices_field] = "chooses from"
            if node.quote is not None and node.quote.form == "whole":
                uses[node.quote.field] = "quotes the items of"
            found |= {name: use for name, use in uses.items() if name != "answers" and not _bound(node, name)}
        return found

    def __reduce__(self) -> tuple[Callable[[], Protocol], tuple[()]]:
        return self.rebuild, ()


def _bound(node: Node, field: str) -> bool:
    return node.scope is not None and node.scope.binds(field)


def _is_texts(value: Any) -> bool:
    listed = hasattr(value, "__len__") and hasattr(value, "__iter__") and not isinstance(value, str | dict)
    return listed and all(isinstance(item, str) for item in value)
