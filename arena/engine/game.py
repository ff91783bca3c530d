"""One episode in flight.

A game never waits and never calls an agent, a judge or a program: `Game.proceed` goes as far as it can and hands out
requests; whoever has a result calls `Move.answer` and lets it proceed. Nodes of one superstep are all asked before any
of their turns is written down, and turns are written in the order of the nodes, whatever was answered first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena.agents.types import Context, Message
from arena.engine.counting import compute, select, vote
from arena.engine.hearing import Ear, public
from arena.engine.names import fill, inert_fields, key_of
from arena.engine.plan import Plan
from arena.engine.programs import call_tool, verify
from arena.engine.requests import EpisodeError, Rate, Request, Steps
from arena.engine.speaking import sampled_tokens, speak
from arena.engine.tables import Seat, Table
from arena.protocols import Role
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.programs import Call
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict
from arena.values import READABLE, VERDICT_FIELDS, turn_value, verdict_value

if TYPE_CHECKING:
    from arena.engine.house import House, Station

__all__ = ["Game", "Move"]

_SHOWN = ("text", "words", "ok", "status", "bad_quotes")


class Move:
    """A node that acts in the present superstep."""

    __slots__ = ("done", "error", "game", "results", "station", "steps", "turns", "verdict", "visit", "waiting")

    def __init__(self, game: Game, station: Station) -> None:
        self.game = game
        self.station = station
        self.visit = game.flow.visits[station.node.name]
        self.turns: list[Turn] = []
        """What it will have written down: attempts and candidates in order."""
        self.verdict: Verdict | None = None
        self.error: str | None = None
        self.waiting = 0
        self.results: list[Any] | None = None
        self.done = False
        self.steps: Steps[None] = _KINDS[station.node.kind](self)

    def step(self) -> Sequence[Request]:
        """Go on with the results that have come; what is needed next."""
        try:
            requests = next(self.steps) if self.results is None else self.steps.send(self.results)
        except StopIteration:
            self.done = True
            return ()
        except EpisodeError as fault:
            self.done, self.error = True, str(fault)
            return ()
        self.waiting = len(requests)
        self.results = [None] * len(requests)
        for place, request in enumerate(requests):
            request.move = self
            request.place = place
        return requests

    def answer(self, place: int, result: Any) -> None:
        """The result of a request."""
        assert self.results is not None
        self.results[place] = result
        self.waiting -= 1

    def turn(self, agent: str, text: str, status: TurnStatus = TurnStatus.OK) -> Turn:
        """A turn of this move, yet without its place in the transcript."""
        station, game = self.station, self.game
        return Turn(
            -1, game.flow.superstep, station.node.name, station.seat, self.visit, agent, None, text, status,
            audience=station.node.audience,
        )  # fmt: skip

    def fail(self, what: str, error: Exception) -> EpisodeError:
        """A fault of the episode at this node."""
        return EpisodeError(f"{self.station.node.name}: {what}{error}")


class Game:
    """An episode in flight."""

    __slots__ = (
        "_public",
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
        _check_lineup(plan, house)
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

    # What is asked

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
            if turn.role == name and self.house.stations[turn.node].speaks:
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
        if not station.changing:
            return seat.instructions(station, number)
        changing: dict[str, Any] = {"round": number}
        for name in station.changing:
            if name == "of":
                changing[name] = self._shown_target(station)
            elif name in draws:
                changing[name] = draws[name]
            else:
                changing[name] = fill(station.named[name], self.shown)
        try:
            return seat.render(station, changing)
        except ConfigError as error:
            raise move.fail("", error) from error

    def _shown_target(self, station: Station) -> Any:
        """What templates are told of the turns that a node is about: one, or a list of several."""
        names = station.node.about
        # A revision may have no output of its own: the fields of what it stands for are none then.
        shown = [self.house.blanks[name] | self.shown_turn(turn) for name in names for turn in self.standing((name,))]
        if station.node.about_many:
            return shown
        return shown[0] if shown else self.house.blanks[names[0]]

    def shown(self, node: str) -> dict[str, Any]:
        """What templates are told of a node."""
        shown = dict(self.house.blanks[node])
        turn = self.last.get(node)
        if turn is not None:
            shown |= self.shown_turn(turn)
        verdict = self._verdict(node)
        if verdict is not None:
            shown |= {field: self.verdict_value(node, verdict, field) for field in VERDICT_FIELDS}
            shown["visits"] = self.flow.rounds(node)
        return shown

    def shown_turn(self, turn: Turn) -> dict[str, Any]:
        """What templates are told of a turn."""
        fields: dict[str, Any] = inert_fields(turn.fields)
        fields |= {field: turn_value(turn, field) for field in _SHOWN}
        return fields | {
            "role": self.house.stations[turn.node].voice,
            "text": self.marked[turn.index],
            "visits": self.flow.rounds(turn.node),
        }

    def _verdict(self, node: str) -> Verdict | None:
        if not self.house.protocol.nodes[node].gives_verdict or not self.flow.rounds(node):
            return None
        inner = self.house.stations[node].owner != ""
        return (self.episode.inner_verdicts if inner else self.episode.verdicts).get(node)

    def verdict_of(self, node: str) -> Verdict | None:
        """The last verdict of a node since its scope was entered."""
        return self._verdict(node)

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
        view = bench.view(self.episode, table.task, sides=sides, since=since, texts=self.marked, **more)
        return Rate(bench.judge, view)

    def call(self, move: Move, turn: Turn | None, role: Role, number: int = 0) -> Call:
        """What a program is given: a turn, as far as its role may know of it."""
        station, key = move.station, self.plan.key
        name, visit = station.node.name, move.visit
        seeds = self.house.seeds
        fields: Mapping[str, Any] = turn.fields if turn else {}
        arguments = fields.get("arguments")
        return Call(
            text=turn.text if turn else "",
            arguments=arguments if isinstance(arguments, Mapping) else {},
            turn=fields,
            task=self.table(station).seat(role).task.fields,
            seed=seeds(key, name, visit) if number == 0 else seeds(key, name, visit, number, 0),
            key=f"{key} {name}",
        )

    # What is written down

    def _end_superstep(self) -> None:
        episode, first = self.episode, len(self.episode.turns)
        for move in self.moves:
            if move.verdict is not None:
                self._decide(move.station, move.verdict)
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
        try:
            flow.advance(self.values)
        except ConfigError as error:
            raise EpisodeError(f"condition of an edge: {error}") from error
        if not flow.ready:
            self._stop(flow.stop or "end")
        elif flow.entered:
            self._enter(flow.entered)

    def _write(self, move: Move, turn: Turn) -> None:
        node = move.station.node
        turns = self.episode.turns
        turn.index = len(turns)
        turns.append(turn)
        read = turn.kept and (turn.audience is None or len(turn.audience) > 0)
        # What nobody reads may still be named by its own speaker's prompts.
        marked = mark_quotes(move.station.quote, turn.text, turn.quotes)
        self.marked.append(marked)
        self.heard.append(Message("heard", self._rendered(move, turn, marked)) if read else None)
        if turn.kept:
            self.last[node.name] = turn
            if turn.replaces is not None and turn.status in READABLE:
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

    def _rendered(self, move: Move, turn: Turn, marked: str) -> str:
        """The turn as its readers are told it."""
        station = move.station
        names: dict[str, Any] = {"role": station.voice, "text": marked}
        for name in station.told:
            names[name] = self._told(move, turn, name)
        return station.message(names)

    def _told(self, move: Move, turn: Turn, name: str) -> Any:
        """What a message may name beside role and text."""
        station = move.station
        if name == "round":
            return self.flow.rounds(station.node.name) + 1
        seat = self.table(station).seat(station.role)
        if name == "answer":
            return seat.answer_text
        draws = {draw: turn.fields.get(draw) for draw in station.node.draws}
        return next((part.text for part in self.instructions(move, seat, draws) if part.kind == "cue"), "")

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
        names = {**scope.parent.params, **scope.parent.absent, **_present(scope.parent.fields, outer.task)}
        names |= {"number": scope.number, "count": scope.count} if scope.number else {}
        names |= {root: fill(named, self.shown) for root, named in house.bound_names[name].items()}
        fields = dict(outer.task.fields)
        try:
            for field, made in scope.bound.items():
                fields[field] = tuple(t(names) for t in made) if isinstance(made, tuple) else made(names)
        except ConfigError as error:
            raise EpisodeError(f"{name}: {error}") from error
        own = "answers" in scope.bound
        task = Task(outer.task.id, fields, None if own else outer.task.label, outer.task.group)
        return Table(house, task, tuple(range(len(task.answers))) if own else outer.sides)


def _present(fields: Sequence[str], task: Task) -> dict[str, Any]:
    """Task fields as templates have them."""
    return {name: "" if task.fields.get(name) is None else task.fields[name] for name in fields}


def _judge(move: Move) -> Steps[None]:
    (move.verdict,) = yield (move.game.view(move.station),)


def _check_lineup(plan: Plan, house: House) -> None:
    protocol, speakers, lineup = house.protocol, house.speakers, plan.lineup
    if not speakers <= lineup.keys():
        seat = min(speakers - lineup.keys())
        raise ConfigError(f"protocol '{protocol.name}' has a role '{seat}' that nobody fills: give --agent {seat}=SPEC")
    if not lineup.keys() <= speakers:
        seat = min(lineup.keys() - speakers)
        raise ConfigError(f"'{seat}' is not a speaking role of protocol '{protocol.name}'.{suggest(seat, speakers)}")


_KINDS: Mapping[str, Callable[[Move], Steps[None]]] = {
    "speak": speak,
    "critique": speak,
    "revise": speak,
    "human": speak,
    "judge": _judge,
    "tool": call_tool,
    "verify": verify,
    "vote": vote,
    "select": select,
    "compute": compute,
}
