"""Who answers the games: agents and judges in batches or one by one from afar, and programs.

Synchronous agents and judges get all that is ready, of all games in flight, in one call each. Asynchronous ones, and
programs that wait for something, answer in an event loop of the driver's own, and each answer moves its own game on at
once. What an episode becomes does not depend on any of this.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from arena.agents.types import Act, Agent, Ask
from arena.engine.afar import Afar, check_acts, failed_act
from arena.engine.game import Game
from arena.engine.house import House
from arena.engine.plan import Plan
from arena.engine.requests import Rate, Request, Run, Say
from arena.judges.asking import FAULTS, ask_judge, is_async
from arena.judges.types import Judge
from arena.protocols.errors import ConfigError, LeftError
from arena.protocols.graph import Budget
from arena.protocols.records import Episode, Turn

__all__ = ["Driver"]

_SLICE = 4
"""Games that go on between two looks at the event loop: the asks of all that could would else start late, together."""
_COLLECT_EVERY = 100_000
"""Objects made between two searches for garbage in cycles; Python's own number is 700."""


class Driver:
    """Plays the plans of one run.

    Args:
        house: the protocol.
        plans: taken as there is room for them.
        concurrency: most games in flight.
        budget: of the run.
        on_turn: see `arena.engine.Engine`.
    """

    def __init__(
        self,
        house: House,
        plans: Iterable[Plan],
        concurrency: int,
        budget: Budget,
        on_turn: Callable[[Plan, Turn], None] | None,
    ) -> None:
        self._house = house
        self._plans = iter(plans)
        self._next: Plan | None = next(self._plans, None)
        self._concurrency = concurrency
        self._budget = budget
        self._bounded = budget != Budget()
        self._on_turn = on_turn
        self._keys: set[str] = set()
        self._numbers = itertools.count()
        self._in_flight = 0
        self._ready: dict[int, Game] = {}
        """Games that can go on, by number."""
        self._says: dict[int, tuple[Agent, list[Say]]] = {}
        self._rates: dict[int, tuple[Judge, list[Rate]]] = {}
        self._runs: list[Run] = []
        self._finished: list[Episode] = []
        self._afar: Afar | None = None
        self.stopped = ""
        """Which budget of the run was spent before all was played, or why an agent or judge gave up."""

    def run(self) -> Iterator[list[Episode]]:
        """The episodes that finished together, as they finish."""
        with _few_collections():
            yield from self._run()

    def _run(self) -> Iterator[list[Episode]]:
        if self._next is not None and any(hasattr(agent, "answer") for agent in self._next.lineup.values()):
            self._afar = Afar(self)
        try:
            while self._in_flight or self._next is not None:
                if self._afar is None:
                    self._turn_crank()
                else:
                    self._afar.pump()
                if self._finished:
                    yield self._hand_out()
                if self.stopped:
                    break
        except LeftError as error:
            self.stopped = f"cancelled: {error}"
            if self._finished:
                yield self._hand_out()
        except KeyboardInterrupt:
            # What has finished is handed out to be stored before the interruption goes on.
            if self._finished:
                yield self._hand_out()
            raise
        finally:
            if self._afar is not None:
                self._afar.close()

    def _hand_out(self) -> list[Episode]:
        finished, self._finished = self._finished, []
        return finished

    def _turn_crank(self) -> None:
        """One superstep of every game, or until the first answer from afar is waited for."""
        while self._room:
            self._admit()
        ready = sorted(self._ready.items())
        self._ready = {}
        afar = [request for _, game in ready for request in self._proceed(game)]
        if afar and self._afar is None:
            self._afar = Afar(self)
        for request in afar:
            assert self._afar is not None
            self._afar.start(request)
        if not self._finished and not self.stopped:
            self._ask_batches()

    # Steps

    def _admit(self) -> None:
        plan = self._next
        assert plan is not None
        self.stopped = self._spent()
        if self.stopped:
            return
        if plan.key in self._keys:
            raise ConfigError(f"two plans have the key '{plan.key}'")
        self._keys.add(plan.key)
        game = Game(plan, self._house, next(self._numbers), self._on_turn)
        self._in_flight += 1
        self._ready[game.number] = game
        self._next = next(self._plans, None)

    def _proceed(self, game: Game) -> list[Request]:
        """Let a game go on, and lay its requests out for batches; those that are answered from afar are handed back."""
        if self.stopped:
            return []
        requests = game.proceed()
        if self._house.cancelled:
            self.stopped = self._house.cancelled
            return []
        if game.finished:
            self._in_flight -= 1
            self._finished.append(game.episode)
        # Judging what was said to the end makes no turns and may go on.
        if self._bounded and any(not isinstance(request, Rate) for request in requests):
            self.stopped = self._spent()
        return [request for request in requests if not self._lay_out(request)]

    def _spent(self) -> str:
        budget, house = self._budget, self._house
        if budget.turns is not None and house.turns >= budget.turns:
            return "turns budget"
        if budget.tokens is not None and house.tokens >= budget.tokens:
            return "tokens budget"
        if budget.seconds is not None and house.clock() - house.began >= budget.seconds:
            return "seconds budget"
        return ""

    def _lay_out(self, request: Request) -> bool:
        """Put a request into its batch; False if it is answered from afar, alone."""
        if isinstance(request, Say):
            agent = request.agent
            if hasattr(agent, "answer"):
                return False
            self._says.setdefault(id(agent), (agent, []))[1].append(request)
        elif isinstance(request, Rate):
            judge = request.judge
            if is_async(judge):
                return False
            self._rates.setdefault(id(judge), (cast(Judge, judge), []))[1].append(request)
        elif isinstance(request, Run):
            if request.slow:
                return False
            self._runs.append(request)
        return True

    def _ask_batches(self) -> None:
        """One call to each synchronous agent and judge, with all that is ready."""
        says, rates, runs = self._says, self._rates, self._runs
        self._says, self._rates, self._runs = {}, {}, []
        for agent, asked in says.values():
            for say, act in zip(asked, _acts(agent, [say.ask for say in asked]), strict=True):
                self._settle(say, act)
        for judge, viewed in rates.values():
            for rate, verdict in zip(viewed, ask_judge(judge, [rate.view for rate in viewed]), strict=True):
                self._settle(rate, verdict)
        for run in runs:
            self._settle(run, run.program())

    def _settle(self, request: Request, result: Any) -> None:
        """A result has come: its game can go on."""
        move = request.move
        move.answer(request.place, result)
        if move.waiting == 0 and not move.game.finished:
            self._ready[move.game.number] = move.game

    def go_on(self, request: Request, result: Any) -> list[Request]:
        """A result has come from afar: let its game go on at once; what it asks for from afar next."""
        move = request.move
        if move.game.finished:
            return []
        move.answer(request.place, result)
        return [] if move.waiting else self._proceed(move.game)

    def expire(self, request: Request) -> None:
        """The time of its episode is over: what it asked for is not waited for any longer."""
        game = request.move.game
        if not game.finished:
            game.expire()
            self._in_flight -= 1
            self._finished.append(game.episode)

    def slice(self) -> list[Request]:
        """A few steps between two looks at the event loop: requests to be answered from afar."""
        afar: list[Request] = []
        for _ in range(_SLICE):
            if self._room:
                self._admit()
            if not self._ready:
                break
            afar += self._proceed(self._ready.pop(next(iter(self._ready))))
        if not self._ready and not self._room and not self.stopped:
            self._ask_batches()
        return afar

    @property
    def _room(self) -> bool:
        return self._next is not None and self._in_flight < self._concurrency and not self.stopped

    @property
    def more(self) -> bool:
        """Whether there is something to do beside waiting for answers from afar."""
        return self._room or (bool(self._ready or self._says or self._rates or self._runs) and not self.stopped)

    @property
    def over(self) -> bool:
        """Whether there is nothing left to play, or a budget is spent."""
        return bool(self.stopped) or not (self._in_flight or self._next is not None)

    @property
    def finished(self) -> int:
        """Episodes to be handed out."""
        return len(self._finished)

    @property
    def seconds_left(self) -> float | None:
        """Of the run's budget."""
        seconds = self._budget.seconds
        return None if seconds is None else seconds - (self._house.clock() - self._house.began)

    def look_at_clock(self) -> None:
        """Stop if the time of the run is over."""
        self.stopped = self.stopped or self._spent()


@contextlib.contextmanager
def _few_collections() -> Iterator[None]:
    """Search for garbage in cycles less often: games make none, and the searches would cost a third of the time."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], _COLLECT_EVERY), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _acts(agent: Agent, asks: list[Ask]) -> Sequence[Act]:
    """All acts; where the batch fails, each ask alone, so that one fault does not take its siblings along."""
    before = [(ask.context.ids, len(ask.context.ids), ask.context.state) for ask in asks]
    try:
        acts = agent.act(asks)
    except FAULTS as error:
        for ask, (ids, length, state) in zip(asks, before, strict=True):
            del ids[length:]
            ask.context.ids, ask.context.state = ids, state
        if len(asks) == 1:
            return [failed_act(error)]
        return [act for ask in asks for act in _acts(agent, [ask])]
    check_acts(agent.name, acts, len(asks))
    return acts
