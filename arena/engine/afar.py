"""Answers that come in their own time: asynchronous agents and judges in an event loop, slow programs in threads."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, cast

from arena.agents.types import Act, AsyncAgent
from arena.engine.requests import Rate, Request, Run, Say
from arena.judges.asking import FAULTS, checked, failed_verdict
from arena.judges.types import AsyncJudge
from arena.protocols.errors import BackendError
from arena.protocols.records import TurnStatus, Verdict

__all__ = ["Afar", "check_acts", "failed_act"]

_MOST_FINISHED, _PATIENCE = 64, 0.05
"""Finished episodes are handed out when there are so many, or so many seconds after the first of them."""
_GRACE = 5.0
"""Seconds that cancelled tasks have to end."""


class Games(Protocol):
    """What the loop needs of the driver that owns it."""

    @property
    def over(self) -> bool:
        """Whether there is nothing left to play, or a budget is spent."""
        ...

    @property
    def finished(self) -> int:
        """Episodes to be handed out."""
        ...

    @property
    def seconds_left(self) -> float | None:
        """Of the run's budget."""
        ...

    @property
    def more(self) -> bool:
        """Whether there is something to do beside waiting for answers from afar."""
        ...

    def slice(self) -> list[Request]:
        """A few steps of games that can go on: requests to be answered from afar."""
        ...

    def expire(self, request: Request) -> None:
        """The time of its episode is over: what it asked for is not waited for any longer."""
        ...

    def go_on(self, request: Request, result: Any) -> list[Request]:
        """A result has come: what its game asks for next."""
        ...

    def look_at_clock(self) -> None:
        """Stop if the time of the run is over."""
        ...


class Afar:
    """An event loop of the driver's own, which runs only while the driver waits in `pump`."""

    def __init__(self, games: Games) -> None:
        self._games = games
        self._loop = asyncio.new_event_loop()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._keys = itertools.count()
        self._threads: ThreadPoolExecutor | None = None
        self._scheduled = False
        self._error: BaseException | None = None
        self._flush: asyncio.TimerHandle | None = None
        # A caller with a running loop of its own (a notebook) cannot run another one in the same thread.
        self._outside: ThreadPoolExecutor | None = ThreadPoolExecutor(1, "arena-loop") if _in_a_loop() else None

    def start(self, request: Request) -> None:
        """Wait for an answer, and for those to what its game asks next."""
        key = next(self._keys)
        self._tasks[key] = self._loop.create_task(self._serve(key, request))

    async def _serve(self, key: int, request: Request) -> None:
        # One task goes on with its game as long as that asks for one thing after the other.
        try:
            following = [request]
            while following:
                request, *others = following
                for other in others:
                    self.start(other)
                left = request.move.game.seconds_left
                if left is None:
                    following = self._games.go_on(request, await self._answer(request))
                else:
                    following = await self._in_time(request, left)
                self._look()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # whatever an agent raises: nothing may be waited for in vain
            self._fail(error)
        del self._tasks[key]

    async def _answer(self, request: Request) -> Any:
        if isinstance(request, Say):
            return await self._act(request)
        if isinstance(request, Rate):
            return await self._verdict(request)
        return await self._loop.run_in_executor(self._executor(), cast(Run, request).program)

    async def _in_time(self, request: Request, left: float) -> list[Request]:
        """Wait for an answer no longer than its episode may last."""
        limit = asyncio.timeout(max(0.0, left))
        try:
            async with limit:
                result = await self._answer(request)
        except TimeoutError:
            if not limit.expired():
                raise
            self._games.expire(request)
            return []
        return self._games.go_on(request, result)

    async def _act(self, request: Say) -> Act:
        agent: AsyncAgent = request.agent  # type: ignore[assignment]
        try:
            act = await agent.answer(request.ask)
        except FAULTS as error:
            return failed_act(error)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            return failed_act(error)
        if type(act) is not Act or type(act.text) is not str or type(act.thinking) is not str:
            check_acts(agent.name, (act,), 1)
        return act

    async def _verdict(self, request: Rate) -> Verdict:
        judge = cast(AsyncJudge, request.judge)
        try:
            verdict = await judge.verdict(request.view)
        except FAULTS as error:
            return failed_verdict(judge, error)
        except asyncio.CancelledError as error:
            if _is_cancelled():
                raise
            return failed_verdict(judge, error)
        return checked(judge, request.view, verdict)

    def _executor(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(thread_name_prefix="arena-program")
        return self._threads

    def _fail(self, error: BaseException) -> None:
        """A bug, or a mistake of the user: it ends the run, and the others are cancelled."""
        self._error = self._error or error
        self._loop.stop()

    def pump(self) -> None:
        """Run until there is something to hand out, or nothing is left to do.

        Raises:
            Exception: a bug in an agent, a judge or a program.
        """
        if self._outside is None:
            self._run()
            return
        running = self._outside.submit(self._run)
        try:
            running.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._loop.stop)
            running.exception()
            raise

    def _run(self) -> None:
        left = self._games.seconds_left
        alarm = None if left is None else self._loop.call_later(max(0.0, left), self._look_at_clock)
        self._schedule()
        try:
            self._loop.run_forever()
        finally:
            for timer in (alarm, self._flush):
                if timer is not None:
                    timer.cancel()
            self._flush = None
        if self._error is not None:
            raise self._error

    def _look_at_clock(self) -> None:
        self._games.look_at_clock()
        self._loop.stop()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._drain)

    def _drain(self) -> None:
        self._scheduled = False
        try:
            following = self._games.slice()
        except Exception as error:
            self._fail(error)
            return
        for request in following:
            self.start(request)
        self._look()

    def _look(self) -> None:
        """See to what the last step left: other games, episodes to be handed out."""
        games = self._games
        if games.more:
            self._schedule()
        if games.over or games.finished >= _MOST_FINISHED:
            self._loop.stop()
        elif games.finished and self._flush is None:
            self._flush = self._loop.call_later(_PATIENCE, self._loop.stop)

    def close(self) -> None:
        """Cancel what is still waited for, and give loop and threads back."""
        if self._outside is None:
            self._close()
        else:
            self._outside.submit(self._close).result()
            self._outside.shutdown()

    def _close(self) -> None:
        loop, tasks = self._loop, list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            done, _ = loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE))
            for task in done:
                if not task.cancelled():
                    task.exception()  # looked at, so that asyncio does not complain
        loop.run_until_complete(loop.shutdown_asyncgens())
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        loop.close()


def _is_cancelled() -> bool:
    """Whether the present task is to end; else a client inside an agent gave something of its own up."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def failed_act(error: BaseException) -> Act:
    """What is recorded where an agent failed."""
    return Act("", TurnStatus.TRANSPORT, error=f"{type(error).__name__}: {error}")


def check_acts(name: str, acts: Any, count: int) -> None:
    """Whether an agent answered as it must.

    Raises:
        BackendError: it did not.
    """
    if not isinstance(acts, Sequence) or not all(isinstance(act, Act) and isinstance(act.text, str) for act in acts):
        raise BackendError(f"agent '{name}' answered with something else than a list of acts with texts")
    for act in acts:
        if not isinstance(act.thinking, str) or not isinstance(act.status, TurnStatus):
            raise BackendError(f"agent '{name}' gave an act with thinking that is no text, or a status that is none")
    if len(acts) != count:
        raise BackendError(f"agent '{name}' answered {len(acts)} of {count} asks")
