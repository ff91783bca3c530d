"""What the roles of a protocol see of a task, rendered once for all episodes that share it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from arena.agents.types import Message
from arena.protocols import Role
from arena.protocols.quotes import QuoteSource
from arena.protocols.records import Task

if TYPE_CHECKING:
    from arena.engine.house import House, Station

__all__ = ["Seat", "Table"]


class Table:
    """A task laid out with sides, as one scope knows it: seats by role, sources of quotes by field."""

    __slots__ = ("house", "seats", "sides", "sources", "task")

    def __init__(self, house: House, task: Task, sides: tuple[int, ...]) -> None:
        self.house = house
        self.task = task
        """With the fields that the scope binds; without a label if these are answers."""
        self.sides = sides
        self.seats: dict[str, Seat] = {}
        self.sources: dict[str, QuoteSource] = {}

    def seat(self, role: Role) -> Seat:
        """The role's place."""
        seat = self.seats.get(role.name)
        if seat is None:
            seat = self.seats[role.name] = Seat(self, role)
        return seat

    def source(self, field: str) -> QuoteSource:
        """A field, prepared for looking quotes up."""
        source = self.sources.get(field)
        if source is None:
            source = self.sources[field] = QuoteSource(self.task.fields.get(field) or ())
        return source

    def with_sides(self, sides: tuple[int, ...]) -> Table:
        """The same task with other sides."""
        table = Table(self.house, self.task, sides)
        table.sources = self.sources
        return table


class Seat:
    """What one role sees of one task."""

    __slots__ = ("_rendered", "answer", "answer_text", "names", "opening", "task")

    def __init__(self, table: Table, role: Role) -> None:
        task, sides, house = table.task, table.sides, table.house
        self.task = Task(task.id, {name: task.fields[name] for name in role.sees if name in task.fields})
        self.answer: int | None = None
        """Index of the answer that the role argues."""
        self.answer_text = ""
        self.names: dict[str, Any] = {**(role.scope.params if role.scope else {}), "role": role.seat}
        for name in role.sees:
            value = task.fields.get(name)
            self.names[name] = "" if value is None else value
        if role.number:
            self.names |= {"number": role.number, "count": house.counts[role.name]}
        answers = task.answers
        if role.argues is not None and role.argues < len(sides):
            self.answer = sides[role.argues]
            self.answer_text = self.names["answer"] = answers[self.answer]
            if house.arguing[role.scope.name if role.scope else ""] == 2:
                self.names["other"] = answers[sides[1 - role.argues]]
        if "answers" in role.sees:
            self.names["sides"] = [answers[side] for side in sides]
        self.opening: Message | None = Message("opening", role.opening(self.names)) if role.opening else None
        self._rendered: dict[tuple[str, int], tuple[Message, ...]] = {}

    def instructions(self, station: Station, number: int) -> tuple[Message, ...]:
        """Prompt and cue of a node whose templates name nothing that changes in an episode but the round, from 1."""
        key = station.node.name, number if station.by_round else 0
        rendered = station.rendered if station.shared else self._rendered
        messages = rendered.get(key)
        if messages is None:
            messages = rendered[key] = self.render(station, {"round": number})
        return messages

    def render(self, station: Station, changing: Mapping[str, Any]) -> tuple[Message, ...]:
        """Prompt and cue of a node; ``changing`` are the names that differ from turn to turn.

        Raises:
            ConfigError: a template has no value.
        """
        node = station.node
        names = {**self.names, **station.constants, **changing}
        parts = []
        if node.prompt:
            parts.append(Message("prompt", node.prompt(names)))
        if node.cue:
            parts.append(Message("cue", node.cue(names)))
        return tuple(parts)
