"""The embedded sandbox: `pydantic-monty` interprets a large part of Python in worker processes.

A program there has no files, network, environment or imports beyond a few harmless modules, and bounds on time, memory
and depth. Its clock stands still and its random numbers come from a seed, so that it says the same in every run, unless
it is stopped by the clock.

https://github.com/pydantic/monty
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from arena.agents.tools.sandbox import Limits, Ran

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyError

__all__ = ["MontySandbox"]

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_DEPTH = 500
"""Calls inside of calls."""


class MontySandbox:
    """Programs of strangers without any access; see `arena.agents.tools.sandbox.Sandbox`."""

    about = "a large part of Python, no files, no network"

    def run(self, parts: Sequence[str], limits: Limits, seed: int = 0) -> Ran:
        """Run a program; see `arena.agents.tools.sandbox.Sandbox`."""
        from pydantic_monty import MontyError

        printed = _Printed(limits.output)
        try:
            ran = Ran(_run(parts, limits, seed, printed))
        except MontyError as error:
            ran = _failure(error, limits)
        if printed.count > limits.output:
            # Whether a flood also runs out of time depends on the machine: one reason for both.
            ran = Ran.loud(limits)
        ran.printed = "".join(printed.parts)
        return ran


@dataclass(slots=True)
class _Printed:
    """Keeps the beginning of what is printed; the rest goes nowhere, so that a flood costs time alone."""

    most: int
    parts: list[str] = field(default_factory=list)
    count: int = 0

    def __call__(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        if self.count < self.most:
            self.parts.append(text[: self.most - self.count])
        self.count += len(text)


def _run(parts: Sequence[str], limits: Limits, seed: int, printed: _Printed) -> Any:
    bounds = {
        "max_feed_duration_secs": limits.seconds,
        "max_memory": limits.memory * 2**20,
        "max_recursion_depth": _DEPTH,
    }
    policy = {"datetime": _EPOCH, "sleep": "zero", "random_start": {"seed": seed}}
    value = None
    session: Any = _pool().checkout(limits=bounds, os_policy=policy, assert_message_annotations=False)  # type: ignore[arg-type]
    with session:
        for part in parts:
            value = session.feed_run(part, print_callback=printed)
    return value


def _failure(error: MontyError, limits: Limits) -> Ran:
    from pydantic_monty import MontyCrashedError, MontyRuntimeError, MontySyntaxError

    if isinstance(error, MontyCrashedError):
        # Workers are killed when the bound on time does not stop them from inside.
        late = "it ran too long and was ended" if error.timed_out else "the interpreter broke down"
        return Ran(error="TimeoutError" if error.timed_out else "SystemError", message=late)
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return Ran(error="ValueError", message="its value cannot be read")
    kind = type(error.exception()).__name__
    message = str(error.display("msg"))
    if "limit exceeded" in message:  # where it was stopped differs from run to run
        limit = {"TimeoutError": Ran.late, "MemoryError": Ran.hungry}
        return limit[kind](limits) if kind in limit else Ran(error=kind, message=message)
    frames = error.traceback()
    return Ran(error=kind, message=message[:300], line=frames[-1].line if frames else None)


_lock = threading.Lock()
_pools: list[Monty] = []


def _pool() -> Monty:
    """The workers; they start with the first program and wait for the next. A forked process cannot use them."""
    from pydantic_monty import Monty

    with _lock:
        if not _pools:
            pool = Monty()
            pool.__enter__()
            atexit.register(pool.__exit__, None, None, None)
            _pools.append(pool)
        return _pools[0]
