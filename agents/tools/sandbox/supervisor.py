"""Starting `program` in another process, listening to it, and ending it in time.

Nothing that comes from there is trusted: it is bounded, read as JSON, and made into plain values.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from arena.agents.tools.sandbox import Limits, Opaque, Ran
from arena.protocols.errors import BackendError, ConfigError

__all__ = ["SOURCE", "Job", "supervise"]

SOURCE = Path(__file__).with_name("program.py").read_text(encoding="utf-8")
"""For ``python -c``."""
_START, _GRACE = 60.0, 5.0
"""Seconds that an interpreter has to start, and a warden to end."""
_MOST_RESULT = 4 * 2**20
"""Bytes of what a program's value may be."""
_CHUNK = 65536


@dataclass(frozen=True, slots=True)
class Job:
    """What the warden is told."""

    parts: Sequence[str]
    seed: int
    seconds: float
    """CPU time of each part; the clock is looked at from outside."""
    memory: int
    """MiB of each process, beyond the interpreter's own."""
    processes: int
    """Processes and threads that there may be at once."""
    packages: bool
    """Installed packages can be imported, and not the standard library alone."""
    own_user: bool
    """Where the warden is root, the program gets a user id of its own."""
    namespaces: bool
    """Try to give it namespaces of its own, without network."""


def supervise(
    command: Sequence[str],
    job: Job,
    limits: Limits,
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    kill: Callable[[], None] = lambda: None,
) -> Ran:
    """Run a job to its end, or until a limit ends it.

    Args:
        command: starts an interpreter with `SOURCE`.
        job: what it is told.
        limits: when it is stopped.
        cwd: where it starts.
        env: its environment; None passes on ours.
        kill: called where the warden does not end by itself, when its own processes have been killed.

    Raises:
        BackendError: the interpreter did not start.
        ConfigError: the program could not be confined.
    """
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=cwd, env=env, start_new_session=True
    ) as process:
        # A supervisor that was killed sends no signal: then the warden ends by itself.
        patience = math.ceil(_START + limits.seconds * len(job.parts) + _GRACE)
        told = json.dumps({**asdict(job), "patience": patience}).encode()
        listener = _Listener(process, told, limits, len(job.parts))
        try:
            listener.listen()
        finally:
            _end(process, kill)
    return listener.result()


def _end(process: subprocess.Popen[bytes], kill: Callable[[], None]) -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        kill()
        process.wait()


class _Listener:
    """Reads both streams of a process until they end, or a limit is reached."""

    def __init__(self, process: subprocess.Popen[bytes], job: bytes, limits: Limits, parts: int) -> None:
        self.process = process
        self.limits = limits
        self._job = job
        self._parts = parts
        self._begun = 0
        """Parts that have begun."""
        self._deadline = time.monotonic() + _START
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._printed = ""
        self._line = b""
        self._received = 0
        self._said: list[Any] = []
        """The last word on what came of the program."""
        self._noise = ""
        """What else came: why an interpreter did not start."""
        self._stopped: Ran | None = None

    def listen(self) -> None:
        """Until the process has ended, or must be."""
        process = self.process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        with selectors.DefaultSelector() as selector:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE, self._tell)
            selector.register(process.stdout, selectors.EVENT_READ, self._hear)
            selector.register(process.stderr, selectors.EVENT_READ, self._note)
            while selector.get_map() and self._stopped is None:
                for key, _ in selector.select(max(0.0, self._deadline - time.monotonic())):
                    if not key.data(key.fd):
                        selector.unregister(key.fileobj)
                self._look_at_clock()
        try:  # a program can close its streams and go on
            process.wait(0 if self._stopped else max(0.0, self._deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._stopped = self._stopped or Ran.late(self.limits)

    def _look_at_clock(self) -> None:
        if self._stopped is None and time.monotonic() >= self._deadline:
            self._stopped = Ran.late(self.limits)

    def _tell(self, fd: int) -> bool:
        try:
            self._job = self._job[os.write(fd, self._job[:_CHUNK]) :]
        except BrokenPipeError:
            self._job = b""
        if not self._job:
            assert self.process.stdin
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()
        return bool(self._job)

    def _hear(self, fd: int) -> bool:
        data = os.read(fd, _CHUNK)
        self._printed += self._decode(data, not data)
        if len(self._printed) > self.limits.output:
            self._printed = self._printed[: self.limits.output]
            self._stopped = Ran.loud(self.limits)
        return bool(data)

    def _note(self, fd: int) -> bool:
        data = os.read(fd, _CHUNK)
        self._received += len(data)
        if self._received > _MOST_RESULT:
            self._stopped = Ran(error="OutputError", message="its value is too large")
        *lines, self._line = (self._line + data).split(b"\n") if data else (self._line, b"")
        for line in lines:
            self._read(line)
        return bool(data)

    def _read(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            self._noise = f"{self._noise}{line.decode(errors='replace')}\n"[-500:]
            return
        match said:
            case ["ready"] if self._begun == 0:
                self._begin()
            case ["part"] if 0 < self._begun < self._parts:
                self._begin()
            case ["value", _] | ["error", str(), str(), int() | None] | ["setup", str()]:
                self._said = said

    def _begin(self) -> None:
        self._begun += 1
        self._deadline = time.monotonic() + self.limits.seconds

    def result(self) -> Ran:
        """What came of the program; see `supervise`."""
        if self._said[:1] == ["setup"]:
            raise ConfigError(
                f"a sandbox could not be set up on this machine ({self._said[1]}): use sandbox=monty or sandbox=docker"
            )
        if self._begun == 0:
            noise = self._noise.strip() or f"exit code {self.process.returncode}"
            raise BackendError(f"the interpreter of a sandbox did not start: {noise}")
        ran = self._stopped or self._outcome()
        ran.printed = self._printed
        return ran

    def _outcome(self) -> Ran:
        match self._said:
            case ["error", "MemoryError", _, _]:
                return Ran.hungry(self.limits)  # where it was stopped differs from run to run
            case ["error", kind, message, line]:
                return Ran(error=kind, message=message, line=line)
            case ["value", value]:
                try:
                    return Ran(_value(value))
                except (ValueError, TypeError, RecursionError):
                    return Ran(error="ValueError", message="its value cannot be read")
        number = self.process.returncode - 128
        if number == signal.SIGXCPU:
            return Ran.late(self.limits)
        how = f"signal {number} ended it" if number > 0 else "it ended without a result"
        return Ran(error="SystemError", message=how)


def _value(said: Any) -> Any:
    """A plain value of what `program` makes of one.

    Raises:
        ValueError: it is of another form.
        TypeError: something in it cannot be in a set, or a key.
    """
    match said:
        case None | bool() | int() | float() | str():
            return said
        case ["list" | "tuple" | "set" | "frozenset" as kind, list(items)]:
            make = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return make([_value(item) for item in items])
        case ["dict", list(pairs)]:
            return {_value(key): _value(item) for key, item in pairs}
        case ["bytes", str(digits)]:
            return bytes.fromhex(digits)
        case ["complex", [float(real), float(imaginary)]]:
            return complex(real, imaginary)
        case ["other", str(text)]:
            return Opaque(text)
    raise ValueError("no value")
