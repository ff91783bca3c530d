"""Judges inside of judges: built from specs, and asked without being told more than each may know."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast
from weakref import WeakKeyDictionary

from arena.judges import JUDGES
from arena.judges.asking import ask_judge, await_verdict, is_async
from arena.judges.types import AnyJudge, AsyncJudge, Judge, JudgeView
from arena.protocols.errors import ConfigError, UserError
from arena.protocols.records import Verdict
from arena.protocols.registry import Spec

__all__ = ["AnyMember", "SpecLike", "build_members", "seen_by"]

SpecLike: TypeAlias = str | dict[str, Any]
"""``name``, ``name:key=value`` or ``{kind: name, key: value}``."""


def build_members(specs: Sequence[str | Mapping[str, Any] | Spec], owner: str, **context: Any) -> list[AnyJudge]:
    """The judges that specs name.

    Args:
        specs: of the members.
        owner: kind of the judge that they are members of, for messages.
        context: for the factories, such as ``seed``.

    Raises:
        ConfigError: a spec that builds nothing, with its place.
    """
    members = []
    for place, spec in enumerate(specs, start=1):
        try:
            members.append(JUDGES.build(spec, **context))
        except UserError as error:
            raise ConfigError(f"member {place} of judge '{owner}': {error}") from None
    return cast(list[AnyJudge], members)


def seen_by(judge: AnyJudge, view: JudgeView) -> JudgeView:
    """The view as a member may see it: with the label only if it is declared to need that."""
    return view if judge.sees_label or view.label is None else replace(view, label=None)


class AnyMember:
    """A member of either kind for a caller that waits.

    The views that reach a synchronous judge at the same time, or while it is busy, are judged in one call in a thread.
    """

    def __init__(self, judge: AnyJudge) -> None:
        self._judge = judge
        self._lock = threading.Lock()
        self._queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queue] = WeakKeyDictionary()

    async def verdict(self, view: JudgeView) -> Verdict:
        """What the member says of the view as it may see it; see `arena.judges.asking.ask_judge`."""
        view = seen_by(self._judge, view)
        if is_async(self._judge):
            return await await_verdict(cast(AsyncJudge, self._judge), view)
        if getattr(self._judge, "interactive", False):
            # A thread that waits for a line cannot be ended by Ctrl-C.
            return ask_judge(self._judge, [view])[0]
        loop = asyncio.get_running_loop()
        queue = self._queues.setdefault(loop, _Queue(cast(Judge, self._judge), self._lock))
        return await queue.verdict(view)


class _Queue:
    """Views that wait for a synchronous judge in one event loop."""

    def __init__(self, judge: Judge, lock: threading.Lock) -> None:
        self._judge = judge
        self._lock = lock
        self._waiting: list[tuple[JudgeView, asyncio.Future[Verdict]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def verdict(self, view: JudgeView) -> Verdict:
        future: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((view, future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._waiting:
            await asyncio.sleep(0)  # all that is asked at this moment comes along
            batch, self._waiting = self._waiting, []
            try:
                verdicts = await asyncio.to_thread(self._ask, [view for view, _ in batch])
            except Exception as error:
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), verdict in zip(batch, verdicts, strict=True):
                if not future.done():  # its episode may have been given up
                    future.set_result(verdict)

    def _ask(self, views: Sequence[JudgeView]) -> Sequence[Verdict]:
        with self._lock:
            return ask_judge(self._judge, views)
