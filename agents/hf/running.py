"""One running batch of a network: requests join it when they come, and leave it when they are answered.

A step admits what waits (its context is forwarded, its first token drawn) and gives every row one more token. In an
event loop the steps go on as long as there is something to do, each as soon as no request has come for a few turns of
the loop: which requests are in a step depends on what was asked before, never on the clock.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from torch import Tensor, nn

from arena.agents.hf.contexts import Contexts
from arena.agents.hf.lanes import Lanes, Lockstep
from arena.agents.hf.network import Network
from arena.agents.hf.prefixes import Key, PrefixCache
from arena.agents.models import Model
from arena.agents.sampling import draw
from arena.agents.types import Completion, SampleRequest
from arena.protocols.errors import BackendError, NumericalError
from arena.protocols.records import Sampling

__all__ = ["Job", "Limits", "RunningBatch", "running_batch"]

_QUIET = 3
"""Turns of the event loop without a new request before a step."""
_ROOM = 4
"""Tokens of rows that grow, for each token that one forward pass of contexts may have."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a running batch may become."""

    max_batch: int
    """Most rows."""
    max_batch_tokens: int
    """Most tokens (rows x width) in one forward pass of contexts; rows that grow may hold `_ROOM` times as many."""
    cache_bytes: int
    """Memory for keys and values of earlier requests."""


@dataclass(eq=False, slots=True)
class Job:
    """A request on its way."""

    request: SampleRequest
    key: Key
    ends: tuple[int, ...]
    policy: str
    allowed: tuple[int, ...] | None
    ids: list[int] = field(default_factory=list)
    logps: list[float] = field(default_factory=list)
    answer: Completion | None = None
    error: Exception | None = None
    alone: bool = False
    """It was in a step that failed, and is tried again without company."""
    future: asyncio.Future[None] | None = None

    @property
    def over(self) -> bool:
        """Whether it is answered or has failed."""
        return self.answer is not None or self.error is not None

    @property
    def seen(self) -> Key:
        """The context with all drawn tokens that have been forwarded."""
        return Key(self.key.adapter, (*self.key.ids, *self.ids[:-1]))

    @property
    def most(self) -> int:
        """Tokens that its row may come to hold."""
        return len(self.key.ids) + self.request.max_tokens

    def take(self, token: int, logp: float) -> None:
        """One more token."""
        self.ids.append(token)
        self.logps.append(logp)
        stop = token in self.ends
        if stop or len(self.ids) >= self.request.max_tokens:
            self.answer = Completion(tuple(self.ids), tuple(self.logps), "stop" if stop else "length")

    @property
    def sort(self) -> tuple[Sampling, tuple[int, ...] | None]:
        """Jobs of one sort are drawn together."""
        return self.request.sampling, self.allowed

    def again(self) -> None:
        """Begin anew, alone: the draws are the same, since they depend on the seed alone."""
        self.ids, self.logps, self.alone = [], [], True


@dataclass(eq=False, slots=True)
class _Group:
    """Jobs whose rows grow together, in the order of the rows."""

    moving: Lanes | Lockstep
    jobs: list[Job]


class RunningBatch:
    """See the module.

    Args:
        model: whose network it is.
        limits: see `Limits`.
    """

    def __init__(self, model: Model, limits: Limits) -> None:
        self.network = Network(model)
        self.prefixes = PrefixCache(limits.cache_bytes)
        self.contexts = Contexts(self.network, self.prefixes, limits.max_batch, limits.max_batch_tokens)
        self.most_rows = 0
        """Largest number of rows that grew in one step so far."""
        self._limits = limits
        self._waiting: deque[Job] = deque()
        self._groups: list[_Group] = []
        self._version: object = None
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._arrived = 0
        self._over: list[Job] = []
        """Jobs that ended in this step."""

    # For callers that wait

    def finish(self, jobs: Sequence[Job]) -> None:
        """Step until these jobs are over; others that are on their way go on with them.

        Raises:
            BackendError: one of them failed, also without company.
        """
        with self._lock:
            self._waiting.extend(jobs)
            try:
                while not all(job.over for job in jobs):
                    self.step()
            except BaseException:
                self.drop(jobs)
                raise
        for job in jobs:
            if job.error is not None:
                raise job.error

    async def answer(self, job: Job) -> Completion:
        """The completion of one job, from steps taken in the running event loop.

        Raises:
            BackendError: it failed, also without company.
        """
        loop = asyncio.get_running_loop()
        job.future = loop.create_future()
        with self._lock:
            self._waiting.append(job)
            self._arrived += 1
            if self._loop is not loop:
                self._loop = loop
                loop.call_soon(self._pump, loop, 0, self._arrived)
        try:
            await job.future
        finally:
            if not job.over:
                self.drop([job])
        if job.error is not None:
            raise job.error
        assert job.answer is not None
        return job.answer

    def _pump(self, loop: asyncio.AbstractEventLoop, quiet: int, arrived: int) -> None:
        """A step once nothing new has come for a while, and again."""
        if self._loop is not loop:
            return  # the requests of another loop have taken over, and wait for the same steps
        quiet = quiet + 1 if arrived == self._arrived else 0
        if quiet >= _QUIET:
            self.step()
            quiet = 0
        if self.busy:
            loop.call_soon(self._pump, loop, quiet, self._arrived)
        else:
            self._loop = None

    @property
    def busy(self) -> bool:
        """Whether jobs wait or are on their way."""
        return bool(self._waiting or self._groups)

    def under_way(self) -> int:
        """Count of jobs that wait or are on their way."""
        return len(self._waiting) + sum(len(group.jobs) for group in self._groups)

    def drop(self, jobs: Iterable[Job]) -> None:
        """Forget jobs whose answers nobody wants any more."""
        with self._lock:
            gone = set(map(id, jobs))
            self._waiting = deque(job for job in self._waiting if id(job) not in gone)
            self._leave(lambda job: id(job) in gone)

    def forget(self) -> None:
        """Forget keys and values of earlier requests."""
        with self._lock:
            self.prefixes.clear()

    # Steps

    def step(self) -> None:
        """Admit what waits and there is room for, and give every row a token; what fails is told to its jobs."""
        with self._lock:
            admitted: list[Job] = []
            try:
                with self.ready():
                    admitted = self._next()
                    self._admit(admitted)
                    self._advance()
            except Exception as error:
                self._fail(admitted, error)
            except BaseException:
                self._groups = []  # interrupted at any place, rows and jobs may not fit together any more
                raise
            self._tell()

    @contextmanager
    def ready(self) -> Iterator[None]:
        """The network in evaluation mode, with nothing kept that older weights made."""
        with self.network.sampling():
            version = self.network.version()
            if version != self._version:
                self.prefixes.clear()
                self._version = version
            yield

    def _next(self) -> list[Job]:
        """Jobs that are admitted now, in the order in which they came."""
        found: list[Job] = []
        rows = [job for group in self._groups for job in group.jobs]
        count, widest = len(rows), max((job.most for job in rows), default=0)
        while self._waiting:
            job = self._waiting[0]
            if job.alone:
                if not found and not rows:
                    found.append(self._waiting.popleft())
                break
            # One token is drawn at once and needs no row.
            if job.request.max_tokens > 1:
                count, widest = count + 1, max(widest, job.most)
                full = count > self._limits.max_batch or count * widest > _ROOM * self._limits.max_batch_tokens
                if full and count > 1:
                    break
            found.append(self._waiting.popleft())
        return found

    def _admit(self, jobs: Sequence[Job]) -> None:
        """Forward contexts, each distinct one once, and draw the first token of each job."""
        askers: dict[Key, list[Job]] = {}
        for job in jobs:
            askers.setdefault(job.key, []).append(job)
        for batch in self.contexts.batches(list(askers)):
            logits_UV, flight = self.contexts.prefill(batch)
            drawn = [job for row in batch for job in askers[row.key]]
            rows = [place for place, row in enumerate(batch) for _ in askers[row.key]]
            _draw(drawn, logits_UV, rows)
            on = [place for place, job in enumerate(drawn) if not job.over]
            if len(on) < len(drawn):
                self._over += [job for job in drawn if job.over]
                self.contexts.keep(flight)
            if not on:
                continue
            going = [drawn[place] for place in on]
            if not self.network.plain:
                moving = Lockstep(self.contexts, self.contexts.selected(flight, [rows[place] for place in on]))
                self._groups.append(_Group(moving, going))
                continue
            lanes, companions = self._lanes_of(going[0])
            lanes.join(flight, [rows[place] for place in on])
            companions += going

    def _lanes_of(self, job: Job) -> tuple[Lanes, list[Job]]:
        """The rows that a job may join, and theirs: all, or where adapters cannot be mixed those with its own."""
        for group in self._groups:
            alike = self.network.mixes or group.jobs[0].key.adapter == job.key.adapter
            if alike and isinstance(group.moving, Lanes):
                return group.moving, group.jobs
        lanes, jobs = Lanes(self.network), list[Job]()
        self._groups.append(_Group(lanes, jobs))
        return lanes, jobs

    def _advance(self) -> None:
        """One more token for every row."""
        for group in self._groups:
            self.most_rows = max(self.most_rows, len(group.jobs))
            logits_BV = group.moving.advance([job.ids[-1] for job in group.jobs])
            _draw(group.jobs, logits_BV, None)
            over = [row for row, job in enumerate(group.jobs) if job.over]
            if over and isinstance(group.moving, Lanes) and self.prefixes.limit:
                self.prefixes.add(group.moving.kept(over, [group.jobs[row].seen for row in over]))
            self._over += [group.jobs[row] for row in over]
        self._leave(lambda job: job.over)

    def _leave(self, gone: Callable[[Job], bool]) -> None:
        for group in self._groups:
            rows = [row for row, job in enumerate(group.jobs) if gone(job)]
            if rows:
                group.moving.leave(rows)
                for row in reversed(rows):
                    group.jobs[row] = group.jobs[-1]
                    group.jobs.pop()
        self._groups = [group for group in self._groups if group.jobs]

    def _fail(self, admitted: Sequence[Job], error: Exception) -> None:
        """Try the jobs of a step that failed again, one by one: a fault of one must not take the others along."""
        known = {id(job): job for group in self._groups for job in group.jobs} | {id(job): job for job in admitted}
        jobs = [job for job in known.values() if not job.over]
        self._groups = []
        self.prefixes.clear()
        self.prefixes.spare.clear()  # the memory may be what is missing
        if len(jobs) > 1 and isinstance(error, RuntimeError | NumericalError):
            for job in jobs:
                job.again()
            self._waiting.extendleft(reversed(jobs))
            return
        for job in jobs:
            job.error = error
            if isinstance(error, RuntimeError | NumericalError):
                job.error = BackendError(f"{job.policy}: {error}")
                job.error.__cause__ = error
        self._over += jobs

    def _tell(self) -> None:
        """Wake those who wait in an event loop."""
        over, self._over = self._over, []
        for job in over:
            if job.future is not None:
                loop = job.future.get_loop()
                if loop is self._loop:
                    _wake(job.future)
                elif not loop.is_closed():
                    loop.call_soon_threadsafe(_wake, job.future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _draw(jobs: Sequence[Job], logits_UV: Tensor, rows: Sequence[int] | None) -> None:
    """One draw for each job; those that draw alike go together."""
    sorts: dict[object, list[int]] = {}
    for place, job in enumerate(jobs):
        sorts.setdefault(job.sort, []).append(place)
    for places in sorts.values():
        some = [jobs[place] for place in places]
        if len(sorts) > 1:
            own: Sequence[int] | None = places if rows is None else [rows[place] for place in places]
        else:
            own = rows
        sampling, allowed = some[0].sort
        seeds, positions = [job.request.seed for job in some], [len(job.ids) for job in some]
        for job, token, logp in zip(
            some, *draw(logits_UV, seeds, positions, sampling, allowed=allowed, rows_B=own), strict=True
        ):
            job.take(token, logp)


_batches: WeakValueDictionary[tuple[int, Limits], RunningBatch] = WeakValueDictionary()


def running_batch(model: Model, limits: Limits) -> RunningBatch:
    """The running batch of a model's network; all backends of one network with the same limits share it."""
    # The batch holds its network, so no other object can have the number as long as it is found here.
    network: nn.Module = model.network
    key = (id(network), limits)
    found = _batches.get(key)
    if found is None:
        found = _batches[key] = RunningBatch(model, limits)
    return found
