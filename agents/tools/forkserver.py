"""Functions called in processes of their own: they may run too long, eat memory or do as a hostile text bids.

A server process imports the function's module once, and forks for every call: a call costs milliseconds and not the
seconds that such modules take to import. Each call is confined and bounded like a program in the sandbox
``subprocess``, and like that it is no security boundary. Calls are safe in threads; several servers work side by side.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.metadata
import json
import os
import queue
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from arena.agents.tools.sandbox import Limits, Ran
from arena.protocols.errors import BackendError, ConfigError

__all__ = ["ForkServer", "installed"]

_MOST_RESULT = 2**20
"""Bytes of a result."""
_START = 120.0
"""Seconds that imports may take."""
_WAIT = 25.0
"""Seconds by the clock for one of CPU time: what a busy machine may take longer."""
_MAIN = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from arena.agents.tools.forkserver_process import main; main(sys.argv[2])"
)


class ForkServer:
    """Calls one function elsewhere.

    Args:
        function: ``package.module:name``; takes keyword arguments and returns what JSON can hold.
        servers: most server processes; each works on one call at a time.
    """

    def __init__(self, function: str, servers: int = 0) -> None:
        self.function = function
        self._most = servers or min(4, os.cpu_count() or 1)
        self._spare = self._most
        self._idle: queue.LifoQueue[_Server] = queue.LifoQueue()
        self._lock = threading.Lock()
        self._owner = os.getpid()
        self._started: set[_Server] = set()
        atexit.register(self.close)

    def call(self, arguments: Mapping[str, Any], limits: Limits) -> Ran:
        """The function's value, or the type and message of what it raised (``MemoryError`` for that limit).

        Args:
            arguments: what JSON can hold.
            limits: ``seconds`` of CPU time, so that what ends in time does not depend on what else the machine does.
                Who exceeds them has the error ``TimeoutError``.

        Raises:
            BackendError: a server does not start, or the call did not end although it took little CPU time.
            ConfigError: this is no POSIX system.
        """
        if os.name != "posix":
            raise ConfigError(f"'{self.function}' needs a process that can fork: use Linux or macOS")
        told = {"arguments": dict(arguments), "seconds": limits.seconds, "memory": limits.memory}
        with self._server() as server:
            return server.ask(json.dumps(told), limits)

    @contextlib.contextmanager
    def _server(self) -> Iterator[_Server]:
        """A server that nobody else uses; one that fails is not used again."""
        server = self._checked_out()
        try:
            yield server
        except BaseException:
            with self._lock:
                self._started.discard(server)
                self._spare += 1
            server.close()
            raise
        self._idle.put(server)

    def _checked_out(self) -> _Server:
        with self._lock:
            if os.getpid() != self._owner:  # a fork of ours: the servers are not its own
                self._owner, self._idle, self._started = os.getpid(), queue.LifoQueue(), set()
                self._spare = self._most
            if self._idle.empty() and self._spare > 0:
                server = _Server(self.function)
                self._spare -= 1
                self._started.add(server)
                return server
        while True:
            with contextlib.suppress(queue.Empty):
                return self._idle.get(timeout=1.0)
            with self._lock:
                failed = self._spare > 0
            if failed:
                return self._checked_out()

    def close(self) -> None:
        """End all servers."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            for server in self._started:
                server.close()
            self._started.clear()


class _Server:
    """One server process; see `arena.agents.tools.forkserver_process`."""

    def __init__(self, function: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="arena-forkserver-", ignore_cleanup_errors=True)
        self._function = function
        self._ready = False
        command = [sys.executable, "-B", "-u", "-X", "utf8", "-c", _MAIN, json.dumps(sys.path), function]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=self._folder.name, start_new_session=True
        )

    def ask(self, told: str, limits: Limits) -> Ran:
        assert self._process.stdin
        if not self._ready:
            self._listen(_START)
            self._ready = True
        try:
            self._process.stdin.write(f"{told}\n".encode())
            self._process.stdin.flush()
        except OSError as error:
            raise BackendError(f"the process for '{self._function}' has ended: {error}") from None
        said = json.loads(self._listen(_WAIT * (limits.seconds + 1)))
        match said:
            case ["value", value]:
                return Ran(value)
            case ["late"]:
                return Ran.late(limits)
            case ["stuck"]:
                raise BackendError(f"'{self._function}' did not end, although it took little CPU time")
            case ["error", "MemoryError", _]:
                return Ran.hungry(limits)
            case ["error", str(kind), str(message)]:
                return Ran(error=kind, message=message)
        raise BackendError(f"the process for '{self._function}' said {str(said)[:100]!r}")

    def _listen(self, seconds: float) -> bytes:
        """The next line."""
        assert self._process.stdout
        deadline, line = time.monotonic() + seconds, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    raise BackendError(f"'{self._function}' did not end within {seconds:g} seconds")
                data = os.read(self._process.stdout.fileno(), 65536)
                line += data
                if not data or len(line) > 2 * _MOST_RESULT:
                    raise BackendError(f"the process for '{self._function}' has ended: {self._last_words()}")
        return line

    def _last_words(self) -> str:
        assert self._process.stderr
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)
        if self._process.poll() is None:
            return "it says too much"
        said = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return said[-1][:300] if said else f"exit code {self._process.returncode}"

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        self._folder.cleanup()


def installed(*packages: str) -> str:
    """Names and versions of packages, as part of what a check is: ``sympy 1.14.0``."""
    return ", ".join(f"{package} {importlib.metadata.version(package)}" for package in packages)
