"""From a protocol to the tree of its game: by playing it, every way that it can go.

Nothing is known of any particular game. Each play is one run through the engine's own `arena.engine.game.Game`, with
the choices of a path and then the first option everywhere; the next path changes the last choice that has another
option left. What a seat was told rides in the `Context` that the engine keeps for it, as it does for agents that are
models: two histories are in one information set if these are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from arena.agents.types import Act, Ask, Message
from arena.engine.game import Game as Play
from arena.engine.house import House
from arena.engine.plan import Plan
from arena.engine.requests import Say
from arena.games.types import Deal, Decision, Game, InformationSet, Outcome
from arena.judges.nobody import NoJudge
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task, TurnStatus
from arena.rewards import returns
from arena.seeds import Seeds

__all__ = ["NoJudge", "check_game", "open_game"]

_Step: TypeAlias = tuple[InformationSet, int]
"""A decision and the place of the option that was taken."""
_Key: TypeAlias = tuple[str, tuple[int, int] | None, tuple[Message, ...], tuple[str, ...]]
"""Seat; number of its last decision and option there; what it was told since; options."""


def check_game(protocol: Protocol) -> None:
    """Whether all that happens in a protocol is choices of its speakers, as far as that shows before it is played.

    Raises:
        ConfigError: it is no such game; all reasons are told.
    """
    faults = [fault for node in protocol.nodes.values() if (fault := _fault(protocol, node.name))]
    paid = {seat for reward in protocol.rewards for seat in reward.values}
    faults += [f"no reward pays '{seat}'" for seat in protocol.speakers if seat not in paid]
    faults += ["a reward rests on a verdict" for reward in protocol.rewards if reward.verdict is not None][:1]
    if protocol.budget.seconds is not None:
        faults.append("its budget counts seconds")
    if faults:
        raise ConfigError(
            f"protocol '{protocol.name}' is no game that can be worked out: {'; '.join(faults)}. Every speaking node "
            "must have an output of one choice, and only the speakers and the task may decide what happens and what is "
            "paid"
        )


def _fault(protocol: Protocol, name: str) -> str:
    node = protocol.nodes[name]
    if node.kind in ("judge", "tool", "verify") or node.by is not None:
        return f"'{name}' asks a judge or a program"
    if not node.speaks:
        return ""
    if node.output is None or node.output.kind != "choice":
        return f"'{name}' has no choice for an output"
    if node.output.place or node.max_thinking is not None:
        return f"what '{name}' says is more than its choice"
    if node.draws or node.best_of is not None:
        return f"'{name}' draws at random" if node.draws else f"'{name}' has several candidates"
    return ""


def open_game(protocol: Protocol, deals: Sequence[Task | Deal], *, most: int = 100_000) -> Game:
    """The game that a protocol is over a set of tasks.

    Args:
        protocol: every speaking node has a ``choice`` output; nothing else is left to chance, judges or programs.
        deals: what chance draws from; a bare task has weight 1.
        most: histories, ends included.

    Raises:
        ConfigError: the protocol is no such game, or one with more histories; or a task that it cannot be played on.
    """
    check_game(protocol)
    found = [deal if isinstance(deal, Deal) else Deal(deal) for deal in deals]
    total = math.fsum(deal.weight for deal in found)
    if not found or not all(0.0 < deal.weight < math.inf for deal in found):
        raise ConfigError(f"a game of '{protocol.name}' needs deals with weights above 0")
    player = _Player(protocol)
    roots: list[tuple[float, Decision | Outcome]] = []
    for deal in found:
        root: Decision | Outcome | None = None
        for steps, end in player.plays(deal):
            root = _grow(root, steps, end)
            if player.histories > most:
                raise ConfigError(
                    f"the game of '{protocol.name}' has more than {most:,} histories: take fewer rounds, options or "
                    "tasks, or allow more of them (most=)"
                )
        assert root is not None
        roots.append((deal.weight / total, root))
    sets = tuple(player.sets.values())
    return Game(protocol.name, player.seats, tuple(roots), sets, player.histories, player.forgetful)


def _grow(root: Decision | Outcome | None, steps: Sequence[_Step], end: Outcome) -> Decision | Outcome:
    """Add one play to the tree of its deal; plays come in the order of their options."""
    if not steps:
        return end
    here = root = root or Decision(steps[0][0])
    for number, (_, option) in enumerate(steps):
        assert isinstance(here, Decision)
        if option == len(here.ways):
            last = number + 1 == len(steps)
            here.ways.append(end if last else Decision(steps[number + 1][0]))
        follows = here.ways[option]
        if isinstance(follows, Decision):
            here = follows
    return root


@dataclass(slots=True)
class _Nobody:
    """Stands in a lineup; the engine's driver is not there to ask it."""

    name: str

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        raise NotImplementedError


class _Player:
    """Plays a protocol along every path."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.seats = tuple(protocol.speakers)
        self.sets: dict[_Key, InformationSet] = {}
        self.histories = 0
        self.forgetful = ""
        self._house = House(protocol, {}, Seeds(0), judging=False, clock=time.monotonic)
        self._lineup = {seat: _Nobody(seat) for seat in self.seats}

    def plays(self, deal: Deal) -> Iterator[tuple[list[_Step], Outcome]]:
        """Every way that a deal can be played, in the order of the options, and how it ends."""
        path: list[int] = []
        while True:
            steps, episode = self._play(deal, path)
            # All decisions of the path were there before, its last option was not taken.
            self.histories += len(steps) - len(path) + 1
            yield steps, self._outcome(deal, episode)
            path = [option for _, option in steps]
            while path and path[-1] + 1 == len(steps[len(path) - 1][0].options):
                path.pop()
            if not path:
                return
            path[-1] += 1

    def _play(self, deal: Deal, path: Sequence[int]) -> tuple[list[_Step], Episode]:
        play = Play(Plan("game", deal.task, self._lineup, deal.sides), self._house, 0, None)
        steps: list[_Step] = []
        while requests := play.proceed():
            for request in requests:
                if not isinstance(request, Say):
                    raise ConfigError(f"protocol '{self.protocol.name}' asks a judge or a program: it is no game")
                found = self._information_set(request.ask, steps)
                option = path[len(steps)] if len(steps) < len(path) else 0
                steps.append((found, option))
                request.ask.context.state = steps[-1]
                request.move.answer(request.place, Act(found.options[option]))
        self._check_episode(deal, play.episode, steps)
        return steps, play.episode

    def _information_set(self, ask: Ask, steps: Sequence[_Step]) -> InformationSet:
        before: _Step | None = ask.context.state
        key = (ask.role, None if before is None else (before[0].number, before[1]), tuple(ask.new), ask.options)
        found = self.sets.get(key)
        if found is None:
            found = InformationSet(len(self.sets), ask.role, before, tuple(ask.new), ask.options, ask)
            self.sets[key] = found
        last = next((step for step in reversed(steps) if step[0].seat == ask.role), None)
        if last != before and not self.forgetful:
            self.forgetful = f"'{ask.role}' does not have in mind at '{ask.node}' what it has said before"
        return found

    def _check_episode(self, deal: Deal, episode: Episode, steps: Sequence[_Step]) -> None:
        """Whether every choice was taken as what it is."""
        if episode.error is not None:
            raise ConfigError(f"task '{deal.task.id}' cannot be played: {episode.error}")
        said = {turn.fields.get("choice") for turn in episode.turns if turn.status is not TurnStatus.OK}
        if said or any(turn.attempt for turn in episode.turns):
            cut = next(turn for turn in episode.turns if turn.status is not TurnStatus.OK)
            raise ConfigError(
                f"protocol '{self.protocol.name}', task '{deal.task.id}': an option of '{cut.node}' is not taken when "
                f"it is said ({cut.status}: {cut.error or cut.text!r}): raise the node's limits, or mend its options"
            )

    def _outcome(self, deal: Deal, episode: Episode) -> Outcome:
        (won,) = returns(self.protocol, NoJudge(), [episode], {deal.task.id: deal.task})
        for seat in self.seats:
            if won.get(seat) is None:
                raise ConfigError(
                    f"protocol '{self.protocol.name}', task '{deal.task.id}': a play pays '{seat}' nothing"
                )
        return Outcome(tuple(float(won[seat] or 0.0) for seat in self.seats))
