"""What a game asks for: it does nothing by itself that could wait, fail or take long.

A move is a generator. It yields lists of requests, is sent the list of their results, and ends when its turns are made;
who answers them, when, and together with which others, is the driver's business (`arena.engine.driver`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from arena.agents.types import Ask
from arena.judges.types import AnyJudge, JudgeView
from arena.protocols.programs import Outcome

if TYPE_CHECKING:
    from arena.engine.move import Move
    from arena.engine.plan import AnyAgent

__all__ = ["EpisodeError", "Rate", "Request", "Run", "Say", "Steps", "side_by_side"]

Result = TypeVar("Result")


class EpisodeError(Exception):
    """The episode cannot go on: an expression or a prompt has no value for what was said in it."""


class Request:
    """Something that somebody else has to do."""

    __slots__ = ("move", "place")

    move: Move
    """Whose it is, set when it is handed out."""
    place: int
    """Which of the requests that the move waits for."""


class Say(Request):
    """An agent is to speak; the result is an `arena.agents.types.Act`."""

    __slots__ = ("agent", "ask")

    def __init__(self, agent: AnyAgent, ask: Ask) -> None:
        self.agent = agent
        self.ask = ask


class Rate(Request):
    """A judge is to decide; the result is a `arena.protocols.records.Verdict`."""

    __slots__ = ("judge", "view")

    def __init__(self, judge: AnyJudge, view: JudgeView) -> None:
        self.judge = judge
        self.view = view


class Run(Request):
    """A program is to run; the result is an `arena.protocols.programs.Outcome`."""

    __slots__ = ("program", "slow")

    def __init__(self, program: Callable[[], Outcome], slow: bool) -> None:
        self.program = program
        self.slow = slow


Steps: TypeAlias = Generator[Sequence[Request], Sequence[Any], Result]


def side_by_side(lines: Sequence[Steps[Result]]) -> Steps[list[Result]]:
    """Run several generators as one: their requests go out together, and all go on when all are answered."""
    results: dict[int, Result] = {}
    told: dict[int, Sequence[Any] | None] = dict.fromkeys(range(len(lines)))
    while told:
        asked: dict[int, Sequence[Request]] = {}
        for number, answers in told.items():
            try:
                asked[number] = next(lines[number]) if answers is None else lines[number].send(answers)
            except StopIteration as stop:
                results[number] = stop.value
        if not asked:
            break
        answered = iter((yield [request for requests in asked.values() for request in requests]))
        told = {number: [next(answered) for _ in requests] for number, requests in asked.items()}
    return [results[number] for number in range(len(lines))]
