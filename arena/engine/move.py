"""A node that acts in the present superstep of an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from arena.engine.counting import compute, select, vote
from arena.engine.programs import call_tool, verify
from arena.engine.requests import EpisodeError, Request, Steps
from arena.engine.speaking import speak
from arena.protocols.records import Turn, TurnStatus, Verdict

if TYPE_CHECKING:
    from arena.engine.game import Game
    from arena.engine.house import Station

__all__ = ["Move"]


class Move:
    """A node that acts in the present superstep."""

    __slots__ = (
        "cue",
        "done",
        "error",
        "game",
        "rated",
        "results",
        "station",
        "steps",
        "turns",
        "verdict",
        "visit",
        "waiting",
    )

    def __init__(self, game: Game, station: Station) -> None:
        self.game = game
        self.station = station
        self.visit = game.flow.visits[station.node.name]
        self.turns: list[Turn] = []
        """What it will have written down: attempts and candidates in order."""
        self.verdict: Verdict | None = None
        self.rated: Sequence[Verdict] = ()
        """What a judge said of the candidates."""
        self.cue = ""
        """Words at the beginning of the turn, as they were asked for."""
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


def _judge(move: Move) -> Steps[None]:
    (move.verdict,) = yield (move.game.view(move.station),)


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
