"""What was said in an episode so far, as each of those who take part may know it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena.agents.types import Context, Message
from arena.engine.hearing import Ear, public
from arena.engine.names import fill, inert_fields
from arena.engine.plan import Plan
from arena.engine.requests import Rate
from arena.engine.tables import Seat, Table
from arena.protocols import Role
from arena.protocols.errors import ConfigError
from arena.protocols.inert import Said, defuse
from arena.protocols.programs import Call
from arena.protocols.records import Episode, Turn, Verdict
from arena.protocols.templates import Template
from arena.values import VERDICT_FIELDS, heard_text, turn_value, verdict_value

if TYPE_CHECKING:
    from arena.engine.house import House, Station
    from arena.engine.move import Move

__all__ = ["Transcript"]

_SHOWN = ("text", "words", "ok", "status", "bad_quotes")


class Transcript:
    """What stands of an episode, and what agents, judges and programs may know of it."""

    __slots__ = (
        "_public",
        "argued",
        "claimed",
        "contents",
        "ears",
        "episode",
        "finished",
        "flow",
        "heard",
        "house",
        "last",
        "marked",
        "moves",
        "number",
        "on_turn",
        "plan",
        "quoted",
        "revised",
        "seen_scopes",
        "started",
        "tables",
        "tokens",
        "values",
    )

    def __init__(self, plan: Plan, house: House, number: int, on_turn: Callable[[Plan, Turn], None] | None) -> None:
        task = plan.task
        sides = plan.sides if plan.sides is not None else tuple(range(len(task.answers)))
        if sorted(sides) != list(range(len(task.answers))):
            raise ConfigError(
                f"sides {sides} of task '{task.id}' must be a permutation of its {len(task.answers)} answers"
            )
        self.plan = plan
        self.house = house
        self.number = number
        """Place among the games of the run."""
        self.on_turn = on_turn
        self.tables: dict[str, Table] = {"": house.table(task, sides)}
        """Scope that binds fields -> its table."""
        self.flow = house.protocol.flow()
        names = {seat: agent.name for seat, agent in plan.lineup.items()}
        self.episode = Episode(plan.key, house.protocol.name, task.id, names, sides)
        self.finished = False
        self.moves: list[Move] = []
        self.ears: dict[str, Ear] = {}
        self.heard: list[Message | None] = []
        """How each turn so far reads to the other roles; None if nobody reads it."""
        self.marked: list[str] = []
        """The text of each turn so far, inert and with its quotes marked."""
        self.argued: list[int | None] = []
        """Index of the answer that each turn so far argued, among those of its scope."""
        self._public: dict[int, Turn] = {}
        """Turns as agents may look at them."""
        self.quoted: set[str] = set()
        self.last: dict[str, Turn] = {}
        """Node -> its last kept turn since its scope was entered."""
        self.revised: dict[int, Turn] = {}
        """Draft -> the turn that stands for it."""
        self.seen_scopes: dict[str, int] = {}
        """Nested scope -> count of turns when it was last entered."""
        self.claimed: dict[str, set[int]] = {}
        """Scope that binds answers -> seats that have claimed one."""
        self.values = dict(house.first_values) if house.first_values else house.first_values
        self.tokens = 0
        self.started = house.clock() if house.budgeted else 0.0

    def table(self, station: Station) -> Table:
        """The task as the node's scope knows it."""
        return self.tables[station.home]

    def ear(self, seat: str) -> Ear:
        """What the seat was told so far."""
        ear = self.ears.get(seat)
        if ear is None:
            ear = self.ears[seat] = Ear(Context(), 0, [], set())
        return ear

    def public_turn(self, index: int) -> Turn:
        """A turn without what only its speaker may see."""
        found = self._public.get(index)
        if found is None:
            turn = self.episode.turns[index]
            found = self._public[index] = public(turn, self.house.protocol.nodes[turn.node])
        return found

    def tell(self, ear: Ear, role: Role, seat: Seat) -> list[Message]:
        """What the role has not been told yet."""
        new: list[Message] = []
        if role.name not in ear.opened:
            ear.opened.add(role.name)
            if seat.opening is not None:
                new.append(seat.opening)
        name, turns = role.seat, self.episode.turns
        for index in range(ear.seen, len(turns)):
            turn = turns[index]
            if turn.role == name and (own := self.house.stations[turn.node]).speaks:
                ear.spoken += 1
                if not own.node.ephemeral:
                    ear.heard.append(index)
            elif turn.audience is None or name in turn.audience:
                message = self.heard[index]
                if message is not None and not (self.revised and self._replaced(turn, name)):
                    new.append(message)
                    ear.heard.append(index)
        ear.seen = len(turns)
        return new

    def _replaced(self, turn: Turn, seat: str) -> bool:
        """Whether the seat reads a later version of the turn."""
        revision = self.revised.get(turn.index)
        while revision is not None:
            if revision.role == seat or revision.audience is None or seat in revision.audience:
                return True
            revision = self.revised.get(revision.index)
        return False

    def standing(self, nodes: Sequence[str]) -> list[Turn]:
        """The last turns of some nodes, of those that have one, in the version that stands."""
        found = []
        for node in nodes:
            turn = self.last.get(node)
            while turn is not None and turn.index in self.revised:
                turn = self.revised[turn.index]
            if turn is not None:
                found.append(turn)
        return found

    def instructions(self, move: Move, seat: Seat, draws: Mapping[str, Any]) -> tuple[Message, ...]:
        """Prompt and cue of a move.

        Raises:
            EpisodeError: a template has no value for what was said.
        """
        station = move.station
        number = self.flow.rounds(station.node.name) + 1 if station.by_round else 0
        try:
            if not station.changing:
                return seat.instructions(station, number)
            return seat.render(station, {"round": number} | self._changing(station, seat, draws))
        except ConfigError as error:
            raise move.fail(f"task '{seat.task.id}': ", error) from error

    def _changing(self, station: Station, seat: Seat, draws: Mapping[str, Any]) -> dict[str, Any]:
        """Names in prompt and cue that mean something else in every turn."""
        changing: dict[str, Any] = {}
        for name in station.changing:
            if name == "of":
                changing[name] = self._shown_target(station)
            elif name in draws:
                changing[name] = Said(draws[name]) if station.node.draws[name] in seat.said else defuse(draws[name])
            else:
                changing[name] = fill(station.named[name], self.shown)
        return changing

    def _shown_target(self, station: Station) -> Any:
        """What templates are told of the turns that a node is about: one, or a list of several."""
        names = station.node.about
        # A revision may have no output of its own: the fields of what it stands for are none then.
        shown = [self.house.blanks[name] | self.shown_turn(turn) for name in names for turn in self.standing((name,))]
        if station.node.about_many:
            return shown
        return shown[0] if shown else self.house.blanks[names[0]]

    def shown(self, node: str) -> dict[str, Any]:
        """What templates are told of a node: of its last turn, in the version that stands."""
        shown = dict(self.house.blanks[node])
        for turn in self.standing((node,)):
            shown |= self.shown_turn(turn) | {"visits": self.flow.rounds(node)}
        verdict = self.verdict_of(node)
        if verdict is not None:
            shown |= {field: self.verdict_value(node, verdict, field) for field in VERDICT_FIELDS}
            if verdict.choice is not None:
                shown["choice"] = self.tables[self.house.stations[node].owner].shown("answers")[verdict.choice]
            shown["visits"] = self.flow.rounds(node)
        return shown

    def shown_turn(self, turn: Turn) -> dict[str, Any]:
        """What templates are told of a turn."""
        station = self.house.stations[turn.node]
        fields: dict[str, Any] = inert_fields(turn.fields, own=station.own_words)
        fields |= {field: turn_value(turn, field) for field in _SHOWN}
        return fields | {
            "role": station.voice,
            "text": Said(self.marked[turn.index]),
            "visits": self.flow.rounds(turn.node),
        }

    def verdict_of(self, node: str) -> Verdict | None:
        """The last verdict of a node since its scope was entered."""
        if not self.house.protocol.nodes[node].gives_verdict or not self.flow.rounds(node):
            return None
        inner = self.house.stations[node].owner != ""
        return (self.episode.inner_verdicts if inner else self.episode.verdicts).get(node)

    def verdict_value(self, node: str, verdict: Verdict, field: str) -> Any:
        """One field of a verdict."""
        station = self.house.stations[node]
        table = self.tables[station.owner]
        return verdict_value(verdict, field, table.task.answers, table.sides, self.house.seats_in[station.owner])

    def view(self, station: Station, **more: Any) -> Rate:
        """A request to the judge that sits at a node."""
        bench = station.bench
        assert bench is not None
        table = self.table(station)
        since = self.seen_scopes.get(station.scope, 0)
        sides = self.tables[station.owner].sides
        more |= {"texts": self.marked, "argued": self.argued}
        view = bench.view(self.episode, table.task, sides=sides, since=since, **more)
        return Rate(bench.judge, view)

    def given(self, move: Move, made: Mapping[str, Any]) -> dict[str, Any]:
        """What a program is given beside the turn that it is about: its templates over what was said, as it was said.

        Raises:
            EpisodeError: a template has no value for what was said.
        """
        station = move.station
        seat = self.table(station).seat(station.role)
        names: dict[str, Any] = {**seat.names, **(station.node.scope.absent if station.node.scope else {})}
        names |= {"round": self.flow.rounds(station.node.name) + 1, **seat.task.fields}
        names |= {root: fill(named, self._plainly) for root, named in station.given_named.items()}
        try:
            return {name: _made(how, names) for name, how in made.items()}
        except ConfigError as error:
            raise move.fail("arguments or fields: ", error) from error

    def _plainly(self, node: str) -> dict[str, Any]:
        """What programs are told of a node: as `shown`, but not made inert."""
        shown = self.shown(node)
        for turn in self.standing((node,)):
            shown |= {**turn.fields, "text": heard_text(turn)}
        return shown

    def call(self, move: Move, turn: Turn | None, role: Role, number: int = 0) -> Call:
        """What a program is given: a turn, as far as its role may know of it."""
        station, key = move.station, self.plan.key
        name, visit = station.node.name, move.visit
        seeds = self.house.seeds
        fields: Mapping[str, Any] = turn.fields if turn else {}
        arguments = fields.get("arguments")
        return Call(
            text=heard_text(turn) if turn else "",
            arguments=arguments if isinstance(arguments, Mapping) else {},
            turn=fields,
            task=self.table(station).seat(role).task.fields,
            seed=seeds(key, name, visit) if number == 0 else seeds(key, name, visit, number, 0),
            key=f"{key} {name}",
        )


def _made(how: Any, names: Mapping[str, Any]) -> Any:
    """A value of a program's arguments or fields: a template filled, several of them, or what it is."""
    if isinstance(how, tuple):
        return tuple(template(names) for template in how)
    return how(names) if isinstance(how, Template) else how
