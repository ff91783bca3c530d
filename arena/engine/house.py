"""A protocol made ready to be played: what all its episodes share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from arena.agents.types import Message
from arena.engine.names import Named, Names, blank, own_words, tracked_values
from arena.engine.tables import Table
from arena.judges.types import AnyJudge
from arena.judging import Bench
from arena.protocols import Node, Protocol, Role, Scope
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.programs import CHECKS, Check, Tool
from arena.protocols.records import Task
from arena.seeds import Seeds

__all__ = ["House", "Station"]


class Station:
    """A node made ready."""

    __slots__ = (
        "bench",
        "by_round",
        "changing",
        "check",
        "combines",
        "constants",
        "given_named",
        "home",
        "message",
        "named",
        "node",
        "own_words",
        "owner",
        "passed_over",
        "quote",
        "rater",
        "rendered",
        "role",
        "say_named",
        "scope",
        "seat",
        "shared",
        "speaks",
        "told",
        "tools",
        "tracked",
        "voice",
    )

    def __init__(self, house: House, node: Node) -> None:
        self.node = node
        self.role = node.role
        self.seat = node.role.seat
        self.voice = self.seat.rpartition(".")[2]
        """What readers are told the speaker is called: programs of a nested protocol have no seat outside of it."""
        self.speaks = node.speaks
        self.scope = node.scope.name if node.scope else ""
        self.home = house.homes[self.scope]
        """The innermost scope around the node that binds fields, or ``""``: key of its table."""
        self.owner = house.owners[self.scope]
        """The innermost scope around the node that binds ``answers``, or ``""``."""
        asked = frozenset().union(*(template.names for template in (node.prompt, node.cue) if template))
        self.named: dict[str, Named] = house.names.of(self.scope, asked)
        """Nodes that prompt or cue name."""
        self.changing = frozenset(asked & {"of", *node.draws, *self.named})
        """Names in prompt or cue whose values change in an episode, beside ``round``."""
        self.by_round = "round" in asked
        self.shared = not (asked & {*node.role.sees, "answer", "other", "sides"})
        """Prompt and cue name nothing of the task: they read the same for all tasks."""
        self.rendered: dict[tuple[str, int], tuple[Message, ...]] = {}
        self.say_named: dict[str, Named] = house.names.of(self.scope, node.say.names) if node.say else {}
        """Nodes that ``say`` names."""
        given = frozenset().union(*(template.names for template in node.given))
        self.given_named: dict[str, Named] = house.names.of(self.scope, given)
        """Nodes whose turns a program is given beside the one that it is about."""
        self.message = node.message or house.protocol.message
        self.told = tuple(self.message.names & {"answer", "cue", "round"})
        """Names in the message beside role and text."""
        sources = [house.protocol.nodes[name].quote for name in node.about] if node.kind == "select" else []
        self.quote = node.quote or next((rule for rule in sources if rule), None)
        self.own_words = own_words(node)
        self.tracked = house.places.get(node.name, ())
        self.combines = node.kind == "vote" and any(house.protocol.nodes[name].gives_verdict for name in node.about)
        """A vote that combines verdicts."""
        at_top = not house.judged and self.scope == ""
        self.passed_over = at_top and (node.kind == "judge" or self.combines)
        """Its verdict is not wanted now, and can change nothing."""
        self.tools: dict[str, Tool] = house.toolbox(node.role) if node.kind == "tool" else {}
        if node.run and node.run not in self.tools:
            raise ConfigError(
                f"node '{node.name}' runs '{node.run}', no tool of '{node.role.name}'.{suggest(node.run, self.tools)}"
            )
        absent = node.scope.absent if node.scope else {}
        self.constants: dict[str, Any] = {name: absent[name] for name in asked if name in absent}
        """Values of names in prompt and cue that depend on the node alone."""
        if "tools" in asked and node.output is not None:
            self.constants["tools"] = house.listing(node.output.tools)
        rater = node.by or (node.best_of.by if node.best_of else None)
        self.bench: Bench | None = None
        if (node.kind == "judge" and not self.passed_over) or (rater is not None and rater.check is None):
            reader = node.role if rater is None else rater
            self.bench = Bench(house.protocol, node, house.judges[reader.seat], rater)
        self.check: Check | None = None
        if node.kind == "verify":
            self.check = house.checker(node.role, node.fields)
        elif rater is not None and rater.check is not None:
            self.check = house.checker(rater)
        self.rater = rater


class House:
    """What all episodes of an engine share.

    Args:
        protocol: the compiled protocol.
        judges: by seat, or one for all.
        seeds: all random streams.
        judging: False passes the protocol's own judges over, where nothing that is said depends on their verdicts.
        clock: seconds, for budgets.

    Raises:
        ConfigError: a judge is missing, or a program cannot be built.
    """

    def __init__(
        self,
        protocol: Protocol,
        judges: Mapping[str, AnyJudge] | AnyJudge,
        seeds: Seeds,
        *,
        judging: bool,
        clock: Callable[[], float],
    ) -> None:
        self.protocol = protocol
        self.seeds = seeds
        self.clock = clock
        self.judged = judging or protocol.steered
        self.speakers = frozenset(protocol.speakers)
        self.names = Names(protocol)
        self.places, self.first_values = tracked_values(protocol, self.names)
        self.blanks = {name: blank(node, protocol.nodes) for name, node in protocol.nodes.items()}
        self._lay_scopes_out()
        self._toolboxes: dict[str, dict[str, Tool]] = {}
        self._checkers: dict[str, Check] = {}
        self.judges = self._seat_judges(judges)
        self.stations = {name: Station(self, node) for name, node in protocol.nodes.items()}
        self.quotes = any(node.quote for node in protocol.nodes.values())
        self.claims = any(node.claims for node in protocol.nodes.values())
        budget = protocol.budget
        self.budgeted = any(bound is not None for bound in (budget.turns, budget.tokens, budget.seconds))
        self._tables: dict[tuple[int, tuple[int, ...]], Table] = {}
        self.turns = 0
        """Turns that were written down in this run, whatever became of their episodes."""
        self.tokens = 0
        """Tokens that were sampled for them."""
        self.cancelled = ""
        """Why an agent gave up, and with it the run."""
        self.began = clock()
        """When this run began, by the clock."""

    def _lay_scopes_out(self) -> None:
        protocol = self.protocol
        self.homes: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        for scope in sorted(protocol.scopes.values(), key=lambda scope: scope.name.count(".") if scope.name else -1):
            outer = scope.parent.name if scope.parent else ""
            self.homes[scope.name] = scope.name if scope.bound else self.homes.get(outer, "")
            self.owners[scope.name] = scope.name if "answers" in scope.bound else self.owners.get(outer, "")
        roles = {role.name: role for role in (*protocol.roles.values(), *(n.role for n in protocol.nodes.values()))}
        self.roles_in = {name: _inside(name, roles.values()) for name in protocol.scopes}
        """Scope -> names of its roles, those of inner scopes included."""
        self.nodes_in = {name: _inside(name, protocol.nodes.values()) for name in protocol.scopes}
        of_scope = [(role, role.scope.name if role.scope else "") for role in roles.values()]
        self.arguing = Counter(scope for role, scope in of_scope if role.argues is not None)
        sizes = Counter((scope, role.group) for role, scope in of_scope if role.number)
        self.counts = {role.name: sizes[scope, role.group] for role, scope in of_scope if role.number}
        self.bound_names = {
            name: self.names.of(scope.parent.name, _names_of(scope))
            for name, scope in protocol.scopes.items()
            if scope.parent
        }
        """Scope -> nodes that the templates of its bound fields name."""
        self.seats_in: dict[str, tuple[str, ...]] = {}
        """Scope -> who argues the answers that it binds, by seat."""
        for name in protocol.scopes:
            arguing = [r for r, scope in of_scope if r.argues is not None and self.owners[scope] == name]
            own = [r for r in arguing if (r.scope.name if r.scope else "") == name] or arguing
            self.seats_in[name] = tuple(role.seat for role in sorted(own, key=lambda role: role.argues or 0))

    def _seat_judges(self, judges: Mapping[str, AnyJudge] | AnyJudge) -> dict[str, AnyJudge]:
        protocol = self.protocol
        needed = list(protocol.judging_seats)
        if not self.judged:
            nested = {node.role.seat for node in protocol.nodes.values() if node.kind == "judge" and node.scope}
            needed = [seat for seat in needed if seat in nested and self._judged_inside(seat)]
        given = dict(judges) if isinstance(judges, Mapping) else dict.fromkeys(needed, judges)
        if missing := [seat for seat in needed if seat not in given]:
            raise ConfigError(
                f"protocol '{protocol.name}' needs a judge for role '{missing[0]}': give --judge {missing[0]}=SPEC"
            )
        return given

    def _judged_inside(self, seat: str) -> bool:
        nodes = self.protocol.nodes.values()
        return any(node.kind == "judge" and node.role.seat == seat and node.scope and node.scope.name for node in nodes)

    def toolbox(self, role: Role) -> dict[str, Tool]:
        """The tools of a role, by name; built once."""
        from arena.agents.tools import check_reads, tools_of

        found = self._toolboxes.get(role.name)
        if found is None:
            found = self._toolboxes[role.name] = tools_of(role.tools)
            for tool in found.values():
                check_reads(tool, role.sees, f"role '{role.name}'")
        return found

    def checker(self, role: Role, given: Iterable[str] = ()) -> Check:
        """The check of a role, built once; it may read task fields that the role sees, and those that are ``given``."""
        from arena.agents.tools import check_reads

        found = self._checkers.get(role.name)
        if found is None:
            found = self._checkers[role.name] = CHECKS.build(role.check or "")
        check_reads(found, (*role.sees, *given), f"role '{role.name}'")
        return found

    def listing(self, names: tuple[str, ...]) -> str:
        """What a speaker is told of the tools that it may call."""
        tools: dict[str, Tool] = {}
        for role in self.protocol.roles.values():
            if role.tools:
                tools |= self.toolbox(role)
        return "\n".join(_described(tools[name]) for name in names if name in tools)

    def table(self, task: Task, sides: tuple[int, ...]) -> Table:
        """What all episodes on this task with these sides share.

        Raises:
            ConfigError: the protocol cannot be played on the task.
        """
        key = (id(task), sides)
        table = self._tables.get(key)
        if table is None:
            self.protocol.check_task(task)
            table = self._tables[key] = Table(self, task, sides)
        return table

    def begin_run(self) -> None:
        """Drop the tables (tasks are known by their identity, which may be used again), and count from nothing."""
        self._tables.clear()
        self.turns = self.tokens = 0
        self.cancelled = ""
        self.began = self.clock()


def _names_of(scope: Scope) -> set[str]:
    made = [t for value in scope.bound.values() for t in (value if isinstance(value, tuple) else (value,))]
    return {name for template in made for name in template.names}


def _inside(scope: str, things: Any) -> frozenset[str]:
    prefix = f"{scope}."
    names = ((thing.name, thing.scope.name if thing.scope else "") for thing in things)
    return frozenset(name for name, inner in names if not scope or f"{inner}.".startswith(prefix))


def _described(tool: Tool) -> str:
    properties: Mapping[str, Any] = tool.parameters.get("properties", {})
    arguments = ", ".join(f"{name}: {_kind(shape)}" for name, shape in properties.items())
    return f"{tool.name}({arguments}): {tool.description}"


def _kind(shape: Any) -> str:
    kind = shape.get("type", "any") if isinstance(shape, Mapping) else "any"
    return kind if isinstance(kind, str) else "any"
