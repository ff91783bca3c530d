"""Playing a stage of a run: what is stored is not played again, and what finishes is stored.

Processes that share a run (`arena.store.sharing`) claim games in units: all games whose keys differ only in what
follows the last slash, such as both orders of a pair. Each claims as its engine has room for more, but never more than
its share of what is left, and goes on until the whole stage is stored, whoever played it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

from arena.engine import Engine, Plan
from arena.protocols.errors import StoreError
from arena.protocols.records import Episode
from arena.store import RunHandle
from arena.store.sharing import Worker
from arena.undecided import UndecidedLimit, verdicts_of

__all__ = ["play_stored", "unit_of"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 2.0


def unit_of(key: str) -> str:
    """What the games that belong together have in common: their key up to the last slash, if it has one."""
    return key.rpartition("/")[0] or key


def play_stored(
    engine: Engine,
    plans: Sequence[Plan],
    run: RunHandle,
    stage: str,
    on_batch: Callable[[list[Episode]], None] | None = None,
    limit: UndecidedLimit | None = None,
    *,
    enough: Callable[[], bool] | None = None,
    wait: Callable[[float], None] = time.sleep,
) -> list[Episode]:
    """Play what is not in the store yet, and store it as it finishes.

    In a run that is shared, all processes are given the same plans, and each returns when the stage is complete. What
    the others have in hand is waited for, and taken over if they die.

    Args:
        engine: plays. Its budget is that of this call, and of this process.
        plans: all that the stage consists of.
        run: where episodes are stored.
        stage: under which name.
        on_batch: called with the episodes that finished together, and with those that other processes have stored since
            the last look.
        limit: no more is played once too many verdicts, stored ones among them, cannot be used.
        enough: no more is played once it says True; asked before the first game and after each call of ``on_batch``.
        wait: lets so many seconds pass.

    Returns:
        All episodes of the stage in the order of the plans, without those that a budget of the engine, the limit or
        ``enough`` left unplayed.
    """
    playing = _Stage(engine, plans, run, stage, on_batch, limit, enough)
    playing.look(first=True)
    if run.worker is None:
        playing.play(plan for plan in plans if plan.key not in playing.stored)
    else:
        _share(playing, run.worker, wait)
    stored = {episode.key: episode for episode in run.episodes(stage)}
    return [stored[plan.key] for plan in plans if plan.key in stored]


class _Stage:
    """What is known of a stage while it is played; arguments as of `play_stored`."""

    def __init__(
        self,
        engine: Engine,
        plans: Sequence[Plan],
        run: RunHandle,
        stage: str,
        on_batch: Callable[[list[Episode]], None] | None,
        limit: UndecidedLimit | None,
        enough: Callable[[], bool] | None,
    ) -> None:
        self.engine, self.plans, self.run, self.stage = engine, plans, run, stage
        self._on_batch, self._limit, self._enough = on_batch, limit, enough
        self.stored: set[str] = set()
        """Keys that were stored at the last look."""
        self.heard: set[str] = set()
        """Keys of episodes that were counted, and told of."""
        self._played = False

    @property
    def over(self) -> bool:
        """Whether no more may be played."""
        return (self._limit is not None and self._limit.passed) or (self._enough is not None and self._enough())

    def look(self, first: bool = False) -> None:
        """See what is stored; count and tell of what others have played."""
        self.stored = self.run.finished(self.stage)
        new = sorted(self.stored - self.heard)
        self.heard.update(new)
        if new and first and self._limit is not None:
            self._limit.add(verdicts_of(self.run.episodes(self.stage)))
        elif new and not first:
            self._tell(list(self.run.named(new).values()))

    def play(self, plans: Iterator[Plan], unit: Callable[[str], str] | None = None) -> None:
        """Play and store until the plans end or no more may be played."""
        batches = self.engine.stream(plans, go_on=self._played)
        self._played = True
        with self.run.writer(self.stage, unit=unit) as write, closing(batches):
            for batch in () if self.over else batches:
                write(batch)
                self.heard.update(episode.key for episode in batch)
                self._tell(batch)
                if self.over:
                    break

    def _tell(self, batch: list[Episode]) -> None:
        if self._on_batch is not None:
            self._on_batch(batch)
        if self._limit is not None:
            self._limit.add(verdicts_of(batch))


def _share(stage: _Stage, worker: Worker, wait: Callable[[float], None]) -> None:
    """Play what can be claimed until the stage is complete or no more may be played."""
    pause = _FIRST_PAUSE_S
    try:
        while not stage.over and (left := [plan for plan in stage.plans if plan.key not in stage.stored]):
            before = len(stage.heard)
            stage.play(_claimed(stage, worker, left), unit_of)
            if stage.engine.stopped:
                return
            if len(stage.heard) > before:
                pause = _FIRST_PAUSE_S
            else:
                wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            stage.look()
    finally:
        with contextlib.suppress(StoreError):  # where the database is gone, that is being told already
            worker.release()


def _claimed(stage: _Stage, worker: Worker, left: Sequence[Plan]) -> Iterator[Plan]:
    """Plans that this process has claimed, as long as it has no more than its share of what is left in hand."""
    units: dict[str, list[Plan]] = {}
    for plan in left:
        units.setdefault(unit_of(plan.key), []).append(plan)
    unclaimed = deque(units)
    keys = {plan.key for plan in left}
    given: set[str] = set()
    while unclaimed:
        open_ = len(keys - stage.heard)
        room = math.ceil(open_ / worker.alive()) - len(given - stage.heard)
        if room <= 0:
            return
        wanted: list[str] = []
        while unclaimed and room > 0:
            wanted.append(unclaimed.popleft())
            room -= len(units[wanted[-1]])
        won = [plan for unit in worker.claim(wanted) for plan in units[unit]]
        # Whoever had claimed them before may have played some, up to now.
        known = stage.run.named(plan.key for plan in won).keys()
        for plan in won:
            if plan.key not in known:
                given.add(plan.key)
                yield plan
