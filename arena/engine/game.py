"""One episode in flight.

A game never waits and never calls an agent, a judge or a program: `Game.proceed` goes as far as it can and hands out
requests; whoever has a result calls `Move.answer` and lets it proceed. Nodes of one superstep are all asked before any
of their turns is written down, and turns are written in the order of the nodes, whatever was answered first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from arena.agents.types import Message
from arena.engine.move import Move
from arena.engine.names import fill, key_of
from arena.engine.plan import Plan
from arena.engine.requests import EpisodeError, Request
from arena.engine.speaking import sampled_tokens
from arena.engine.tables import Table
from arena.engine.transcript import Transcript
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.inert import INDENT, Said
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Task, Turn, TurnStatus, Verdict
from arena.values import VERDICT_FIELDS, turn_value

if TYPE_CHECKING:
    from arena.engine.house import House, Station

__all__ = ["Game"]


class Game(Transcript):
    """An episode in flight."""

    __slots__ = ()

    def __init__(self, plan: Plan, house: House, number: int, on_turn: Callable[[Plan, Turn], None] | None) -> None:
        _check_lineup(plan, house)
        super().__init__(plan, house, number, on_turn)

    def proceed(self) -> list[Request]:
        """Go on as far as the results allow; what must be asked now. Nothing, and `finished`, at the end."""
        requests: list[Request] = []
        try:
            while not self.finished:
                if not self.moves and not self._begin_superstep():
                    break
                waiting = False
                for move in self.moves:
                    if move.waiting == 0 and not move.done:
                        requests.extend(move.step())
                    if not move.done:
                        waiting = True
                if waiting:
                    return requests
                self._end_superstep()
        except EpisodeError as fault:
            self._stop("error", str(fault))
        return requests

    @property
    def seconds_left(self) -> float | None:
        """Of the episode's budget."""
        seconds = self.house.protocol.budget.seconds
        return None if seconds is None else seconds - (self.house.clock() - self.started)

    def expire(self) -> None:
        """The time is over; what is asked for in the present superstep is not waited for, and leaves no turn."""
        self.moves = []
        self._stop("seconds budget")

    def _stop(self, reason: str, error: str | None = None) -> None:
        self.finished = True
        self.episode.stop, self.episode.error = reason, error

    def _begin_superstep(self) -> bool:
        """Make the moves of the nodes that are ready; whether the budget allows them."""
        flow, house = self.flow, self.house
        if flow.superstep == 0 and flow.entered:
            self._enter(flow.entered)
        if house.budgeted and (spent := self._spent()):
            self._stop(f"{spent} budget")
            return False
        stations = house.stations
        for node in flow.ready:
            station = stations[node.name]
            if node.kind == "judge":
                judged = self.episode.judged
                judged[node.name] = (*judged.get(node.name, ()), len(self.episode.turns))
            if not station.passed_over:
                self.moves.append(Move(self, station))
        return True

    def _spent(self) -> str:
        """Which budget the next superstep would exceed."""
        budget = self.house.protocol.budget
        if budget.turns is not None and self.planned() > budget.turns:
            return "turns"
        if budget.tokens is not None and self.tokens >= budget.tokens:
            return "tokens"
        if budget.seconds is not None and self.house.clock() - self.started >= budget.seconds:
            return "seconds"
        return ""

    def planned(self) -> int:
        """Turns so far and of the present superstep, if none has to be tried again."""
        new = sum(node.best_of.n if node.best_of else node.kind != "judge" for node in self.flow.ready)
        return len(self.episode.turns) + new

    def may_retry(self, move: Move, attempts: int, tokens: int) -> bool:
        """Whether the budget has room for one more attempt, after ``attempts`` more than planned by this move alone.

        What other nodes of the superstep try again meanwhile does not count, since it depends on who answers first.
        """
        if not self.house.budgeted:
            return True
        budget = self.house.protocol.budget
        if budget.turns is not None and self.planned() + attempts + 1 > budget.turns:
            return False
        if budget.tokens is not None and self.tokens + tokens >= budget.tokens:
            return False
        return budget.seconds is None or self.house.clock() - self.started < budget.seconds

    # What is written down

    def _end_superstep(self) -> None:
        episode, first = self.episode, len(self.episode.turns)
        for move in self.moves:
            if move.verdict is not None:
                self._decide(move.station, move.verdict)
            if move.rated:
                name = move.station.node.name
                episode.rated[name] = (*episode.rated.get(name, ()), *move.rated)
            for turn in move.turns:
                self._write(move, turn)
            if move.error is not None and episode.error is None:
                episode.stop, episode.error = "error", move.error
        if self.house.quotes:
            # What the roles of one superstep quote at the same time is new for each of them.
            for turn in episode.turns[first:]:
                if turn.kept and turn.status is not TurnStatus.REFUSED:
                    self.quoted.update([quote.text for quote in turn.quotes if quote.good])
        if self.house.claims:
            for turn in episode.turns[first:]:
                station = self.house.stations[turn.node]
                if turn.kept and station.node.claims and turn.fields.get("index") is not None:
                    self._claim(station, turn.fields["index"])
        if self.house.places:
            for move in self.moves:
                self._track(move.station)
        self.moves = []
        if episode.error is not None:
            self.finished = True
            return
        self._walk_on()

    def _walk_on(self) -> None:
        flow = self.flow
        flow.advance(self.values)
        if not flow.ready:
            stuck = flow.stuck
            self._stop("stuck" if stuck else flow.stop or "end", stuck or None)
        elif flow.entered:
            self._enter(flow.entered)

    def _write(self, move: Move, turn: Turn) -> None:
        node = move.station.node
        turns = self.episode.turns
        turn.index = len(turns)
        turns.append(turn)
        read = turn.kept and (turn.audience is None or len(turn.audience) > 0)
        # What nobody reads may still be named by its own speaker's prompts.
        refused = turn.status is TurnStatus.REFUSED
        marked = "" if refused else mark_quotes(move.station.quote, turn.text, turn.quotes)
        self.marked.append(marked)
        self.argued.append(self._argued(move.station, turn))
        self.heard.append(self._message(move, turn, marked) if read else None)
        if turn.kept:
            self.last[node.name] = turn
            if turn.replaces is not None:
                self.revised[turn.replaces] = turn
        tokens = sampled_tokens(turn)
        self.tokens += tokens
        self.house.turns += 1
        self.house.tokens += tokens
        if turn.status is TurnStatus.CANCELLED:
            self.house.cancelled = f"cancelled: {turn.error or node.name}"
        if turn.status is TurnStatus.TRANSPORT and self.episode.error is None:
            self.episode.stop, self.episode.error = "error", f"{node.name}: {turn.error or 'no answer'}"
        if self.on_turn is not None:
            self.on_turn(self.plan, turn)

    def _message(self, move: Move, turn: Turn, marked: str) -> Message | None:
        """The turn as its readers are told it."""
        station = move.station
        names: dict[str, Any] = {"role": station.voice, "text": Said(marked)}
        for name in station.told:
            names[name] = self._told(move, turn, name)
        try:
            return Message("heard", station.message(names))
        except ConfigError as error:
            if self.episode.error is None:
                what = f"{station.node.name}: message, task '{self.plan.task.id}': {error}"
                self.episode.stop, self.episode.error = "error", what
            return None

    def _told(self, move: Move, turn: Turn, name: str) -> Any:
        """What a message may name beside role and text."""
        station = move.station
        if name == "round":
            return self.flow.rounds(station.node.name) + 1
        if name == "cue":
            # A cue that begins with what somebody said was moved right.
            return Said(move.cue) if move.cue.startswith(INDENT) else move.cue
        index = self.argued[turn.index]
        return "" if index is None else self.table(station).told_answer(index)

    def _argued(self, station: Station, turn: Turn) -> int | None:
        """The answer that a turn argued, among those of its scope: what it claims, or what its seat argued."""
        if turn.answer is not None or station.role.argues is None:
            return turn.answer
        if station.node.claims and turn.fields.get("index") is not None:
            return int(turn.fields["index"])
        # Where a nested protocol has answers of its own, turns do not say which of them was argued.
        return self.table(station).seat(station.role).answer

    def _decide(self, station: Station, verdict: Verdict) -> None:
        verdicts = self.episode.verdicts if station.owner == "" else self.episode.inner_verdicts
        verdicts.pop(station.node.name, None)
        verdicts[station.node.name] = verdict

    def _claim(self, station: Station, index: int) -> None:
        """The role argues answer ``index`` from now on; who held it and has claimed none takes its former one."""
        role, owner = station.role, station.owner
        sides = list(self.tables[owner].sides)
        claimed = self.claimed.setdefault(owner, set())
        if role.argues is None or role.argues >= len(sides):
            return
        former = sides[role.argues]
        for seat, side in enumerate(sides):
            if side == index and seat != role.argues and seat not in claimed:
                sides[seat] = former
        sides[role.argues] = index
        claimed.add(role.argues)
        self._take_sides(owner, tuple(sides))

    def _take_sides(self, owner: str, sides: tuple[int, ...]) -> None:
        for home, table in self.tables.items():
            if self.house.owners[home] == owner:
                same = home == "" and owner == ""
                self.tables[home] = self.house.table(self.plan.task, sides) if same else table.with_sides(sides)
        if owner == "":
            self.episode.sides = sides

    def _track(self, station: Station) -> None:
        """Keep the values of a node that expressions name."""
        name = station.node.name
        turn, verdict = self.last.get(name), None
        if station.node.gives_verdict:
            verdicts = self.episode.verdicts if station.owner == "" else self.episode.inner_verdicts
            verdict = verdicts.get(name)
        for key, field, place in station.tracked:
            value: Any
            if field == "visits":
                value = self.flow.rounds(name) + 1
            elif verdict is not None and field in VERDICT_FIELDS:
                value = self.verdict_value(name, verdict, field)
            else:
                value = None if turn is None else turn_value(turn, field)
            if place is not None:
                row = list(self.values[key])
                row[place] = value
                value = tuple(row)
            self.values[key] = value

    def _enter(self, scopes: Sequence[str]) -> None:
        """Begin nested scopes anew, outer ones first."""
        for name in sorted(scopes, key=lambda name: name.count(".")):
            house, scope = self.house, self.house.protocol.scopes[name]
            self.seen_scopes[name] = len(self.episode.turns)
            for node in house.nodes_in[name]:
                self.last.pop(node, None)
                for key, _, place in house.stations[node].tracked:
                    first = house.first_values[key]
                    if place is not None:
                        row = list(self.values[key])
                        row[place] = first[place]
                        first = tuple(row)
                    self.values[key] = first
            for ear in self.ears.values():
                ear.opened -= house.roles_in[name]
            if (key := f"{key_of(name)}.visits") in self.values:
                self.values[key] += 1
            if scope.bound:
                self.tables[name] = self._bound_table(name)
            self.claimed.pop(name, None)

    def _bound_table(self, name: str) -> Table:
        house, scope = self.house, self.house.protocol.scopes[name]
        assert scope.parent is not None
        outer = self.tables[house.homes[scope.parent.name]]
        names = {**scope.parent.lists, **scope.parent.params, **scope.parent.absent}
        names |= {field: outer.shown(field) for field in scope.parent.fields}
        names |= {"number": scope.number, "count": scope.count} if scope.number else {}
        names |= {root: fill(named, self.shown) for root, named in house.bound_names[name].items()}
        fields = dict(outer.task.fields)
        try:
            made = {
                field: tuple(t.said(names) for t in how) if isinstance(how, tuple) else how.said(names)
                for field, how in scope.bound.items()
            }
        except ConfigError as error:
            raise EpisodeError(f"{name}, task '{self.plan.task.id}': {error}") from error
        fields |= {field: _plain(value) for field, value in made.items()}
        said = {field: value for field, value in outer.said.items() if field not in made}
        said |= {field: value for field, value in made.items() if _is_said(value)}
        own = "answers" in scope.bound
        task = Task(outer.task.id, fields, None if own else outer.task.label, outer.task.group)
        return Table(house, task, tuple(range(len(task.answers))) if own else outer.sides, said)


def _plain(value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    """A field for those who are no templates."""
    return tuple(map(str, value)) if isinstance(value, tuple) else str(value)


def _is_said(value: str | tuple[str, ...]) -> bool:
    return isinstance(value, Said) or (isinstance(value, tuple) and any(isinstance(item, Said) for item in value))


def _check_lineup(plan: Plan, house: House) -> None:
    protocol, speakers, lineup = house.protocol, house.speakers, plan.lineup
    if not speakers <= lineup.keys():
        seat = min(speakers - lineup.keys())
        raise ConfigError(f"protocol '{protocol.name}' has a role '{seat}' that nobody fills: give --agent {seat}=SPEC")
    if not lineup.keys() <= speakers:
        seat = min(lineup.keys() - speakers)
        raise ConfigError(f"'{seat}' is not a speaking role of protocol '{protocol.name}'.{suggest(seat, speakers)}")
