"""The process that `arena.agents.tools.forkserver` talks to: it imports a function, and forks for every call.

If the function's module has a function ``prepare``, that is given the same arguments before, in the server itself: what
it loads is loaded once.

    fd 0   a JSON object a line: arguments, seconds, memory
    fd 1   a JSON list a line: ["ready"] at first, then for each call ["value", VALUE], ["error", TYPE, MESSAGE],
           ["late"] if it used up its CPU time, or ["stuck"] if it did not end otherwise
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn

from arena.agents.tools.sandbox import program

__all__ = ["main"]

_PATIENCE = 20.0
"""Seconds by the clock for one of CPU time."""
_MOST_RESULT = 2**20


def main(target: str) -> None:
    """Serve until standard input ends."""
    place, _, name = target.partition(":")
    module = importlib.import_module(place)
    function: Callable[..., Any] = getattr(module, name)
    prepare: Callable[..., Any] = getattr(module, "prepare", _nothing)
    requests = os.fdopen(os.dup(0))
    answers = os.fdopen(os.dup(1), "w")
    # Whatever the function prints must not pass for an answer.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.path[:] = filter(_is_library, sys.path)  # a call may read what is on the path
    if sys.platform == "linux":
        program.separate(processes=False)
    print('["ready"]', file=answers, flush=True)
    for line in requests:
        call = json.loads(line)
        try:
            prepare(**call["arguments"])
            said = _serve(function, call, (requests.fileno(), answers.fileno()))
        except Exception as error:
            said = _failure(error)
        print(said, file=answers, flush=True)


def _is_library(path: str) -> bool:
    prefixes = tuple(map(os.path.realpath, (sys.prefix, sys.base_prefix)))
    path = os.path.realpath(path)
    return path.startswith(prefixes) or os.path.basename(path) in ("site-packages", "dist-packages")


def _nothing(**arguments: Any) -> None:
    """There is nothing to prepare."""


def _failure(error: BaseException) -> str:
    return json.dumps(["error", type(error).__name__, str(error)[:300]])


def _serve(function: Callable[..., Any], call: dict[str, Any], ours: tuple[int, ...]) -> str:
    """What came of a call, as JSON."""
    root = os.geteuid() == 0
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for descriptor in (reading, *ours):
            os.close(descriptor)
        _work(function, call, writing, root)
    os.close(writing)
    said = _read(reading, time.monotonic() + _PATIENCE * (call["seconds"] + 1))
    os.close(reading)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said.endswith(b"\n"):
        return said.decode().rstrip("\n")
    ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if ended == signal.SIGXCPU:
        return '["late"]'
    if ended == signal.SIGKILL:  # by us: it waited, or the machine was too busy for it
        return '["stuck"]'
    return json.dumps(["error", "SystemError", "it ended without a result"])


def _read(reading: int, deadline: float) -> bytes:
    said = b""
    while not said.endswith(b"\n") and len(said) < _MOST_RESULT:
        if not select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
            break
        data = os.read(reading, 65536)
        if not data:
            break
        said += data
    return said


def _work(function: Callable[..., Any], call: dict[str, Any], writing: int, root: bool) -> NoReturn:
    """In the child: confine it, call, tell, end."""
    job = {
        "parts": [""],
        "seconds": call["seconds"],
        "memory": call["memory"],
        "packages": False,  # the path is that of the server
        "seed": 0,
        "processes": 1,  # it needs no other
        "user": program.FIRST_USER + os.getpid() if root else None,
    }
    try:
        program.confine(job)
        line = json.dumps(["value", function(**call["arguments"])])
        if len(line) >= _MOST_RESULT:
            raise ValueError("its value is too large")
    except BaseException as error:
        line = _failure(error)
    os.write(writing, f"{line}\n".encode())
    os._exit(0)
