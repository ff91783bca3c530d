"""The engine: plays many episodes of a protocol at a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

from arena.engine.driver import Driver
from arena.engine.house import House
from arena.engine.plan import Plan
from arena.judges.types import AnyJudge
from arena.protocols import Budget, Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Turn
from arena.seeds import Seeds

__all__ = ["Engine"]


class Engine:
    """Plays a protocol.

    Args:
        protocol: the compiled protocol.
        judges: judge for each judging seat, or one judge for all; may be empty for a protocol without judges.
        seed: root of all random streams.
        concurrency: most episodes in flight.
        judging: False passes the judges over, for training, which judges all transcripts of a step at once. Where a
            verdict can change what is said (`Protocol.steered`), and in nested protocols, they are asked all the same.
        on_turn: called after each turn is written down with (plan, turn), in the order of recording.
        budget: of each call of `stream` or `play`: when it is spent, no further episode begins, and those in flight are
            dropped, so that they are played from the start when there is more.
        clock: seconds; for budgets.

    Raises:
        ConfigError: a judge is missing, or a program of the protocol cannot be built.
    """

    def __init__(
        self,
        protocol: Protocol,
        judges: Mapping[str, AnyJudge] | AnyJudge,
        *,
        seed: int,
        concurrency: int = 512,
        judging: bool = True,
        on_turn: Callable[[Plan, Turn], None] | None = None,
        budget: Budget | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if concurrency < 1:
            raise ConfigError(f"concurrency={concurrency}: at least one episode must be in flight")
        self.protocol = protocol
        self.concurrency = concurrency
        self.on_turn = on_turn
        self.budget = budget or Budget()
        self.stopped = ""
        """Empty if the last run was played to its end; else ``turns budget``, ``tokens budget``, ``seconds budget``, or
        ``cancelled: ...`` where an agent gave up (an act with status ``cancelled``) or a person who judges left, which
        counts as a spent budget."""
        self._house = House(protocol, judges, Seeds(seed), judging=judging, clock=clock)

    def play(self, plans: Sequence[Plan]) -> list[Episode]:
        """Play all plans; the episodes come in the order of the plans, without those that a budget left unplayed."""
        done = {episode.key: episode for batch in self.stream(plans) for episode in batch}
        return [done[plan.key] for plan in plans if plan.key in done]

    def stream(self, plans: Iterable[Plan], *, go_on: bool = False) -> Generator[list[Episode], None, None]:
        """Play plans; yields the episodes that finished together, as they finish. Closing it drops those in flight.

        Args:
            plans: taken as there is room for them.
            go_on: with what the last call left of the budget.

        Raises:
            ConfigError: a plan whose lineup or task does not fit the protocol, or a key that came before.
        """
        house = self._house
        if not go_on:
            house.begin_run()
        self.stopped = ""
        driver = Driver(house, plans, self.concurrency, self.budget, self.on_turn)
        yield from driver.run()
        self.stopped = driver.stopped
