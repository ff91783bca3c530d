"""What the roles of a protocol see of a task, rendered once for all episodes that share it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from arena.agents.types import Message
from arena.engine.requests import EpisodeError
from arena.protocols import Role
from arena.protocols.errors import ConfigError
from arena.protocols.inert import Said, defuse, inert
from arena.protocols.quotes import QuoteSource
from arena.protocols.records import Task

if TYPE_CHECKING:
    from arena.engine.house import House, Station

__all__ = ["Seat", "Table"]


class Table:
    """A task laid out with sides, as one scope knows it: seats by role, sources of quotes by field."""

    __slots__ = ("_shown", "_told", "house", "said", "seats", "sides", "sources", "task")

    def __init__(
        self, house: House, task: Task, sides: tuple[int, ...], said: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.house = house
        self.task = task
        """With the fields that the scope binds; without a label if these are answers."""
        self.sides = sides
        self.said = said
        """Fields that were made of what was said in the scope around, as templates may show them."""
        self._shown: dict[str, Any] = {}
        self._told: dict[int, str] = {}
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

    def shown(self, field: str) -> Any:
        """A field as templates may show it: without hidden characters and forged tags; empty if the task lacks it."""
        found = self._shown.get(field)
        if found is None:
            value = self.task.fields.get(field)
            found = self.said[field] if field in self.said else "" if value is None else _mild(value)
            self._shown[field] = found
        return found

    def told_answer(self, index: int) -> str:
        """An answer as messages name it: without lines that begin where a header begins."""
        found = self._told.get(index)
        if found is None:
            answer = self.shown("answers")[index]
            found = self._told[index] = Said(inert(answer)) if isinstance(answer, Said) else inert(answer)
        return found

    def with_sides(self, sides: tuple[int, ...]) -> Table:
        """The same task with other sides."""
        table = Table(self.house, self.task, sides, self.said)
        table.sources, table._shown, table._told = self.sources, self._shown, self._told
        return table


def _mild(value: Any) -> Any:
    """Texts of a task cannot hold what only the engine writes, or what cannot be seen; their lines stay as they are."""
    if isinstance(value, str):
        return defuse(value)
    if isinstance(value, Mapping):
        return {_mild(key): _mild(item) for key, item in value.items()}
    return type(value)(map(_mild, value)) if type(value) in (list, tuple) else value


class Seat:
    """What one role sees of one task."""

    __slots__ = ("_opening", "_rendered", "answer", "answers", "names", "role", "said", "task")

    def __init__(self, table: Table, role: Role) -> None:
        task, sides, house = table.task, table.sides, table.house
        self.role = role
        self.said = table.said
        self.task = Task(task.id, {name: task.fields[name] for name in role.sees if name in task.fields})
        self.answer: int | None = None
        """Index of the answer that the role argues."""
        self.answers: Sequence[str] = table.shown("answers") or ()
        scope = role.scope
        self.names: dict[str, Any] = {**scope.lists, **scope.params} if scope else {}
        self.names["role"] = role.seat
        for name in role.sees:
            self.names[name] = table.shown(name)
        if role.number:
            self.names |= {"number": role.number, "count": house.counts[role.name]}
        answers = self.answers
        if role.argues is not None and role.argues < len(sides):
            self.answer = sides[role.argues]
            self.names["answer"] = answers[self.answer]
            if house.arguing[role.scope.name if role.scope else ""] == 2:
                self.names["other"] = answers[sides[1 - role.argues]]
        if "answers" in role.sees:
            self.names["sides"] = [answers[side] for side in sides]
        self._opening: Message | None = None
        self._rendered: dict[tuple[str, int], tuple[Message, ...]] = {}

    @property
    def opening(self) -> Message | None:
        """What the role is told first.

        Raises:
            EpisodeError: the task cannot fill it.
        """
        if self._opening is None and self.role.opening is not None:
            try:
                self._opening = Message("opening", self.role.opening(self.names))
            except ConfigError as error:
                raise EpisodeError(f"opening of role '{self.role.name}', task '{self.task.id}': {error}") from error
        return self._opening

    def instructions(self, station: Station, number: int) -> tuple[Message, ...]:
        """Prompt and cue of a node whose templates name nothing that changes in an episode but the round, from 1.

        Raises:
            ConfigError: a template has no value.
        """
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
