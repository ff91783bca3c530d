"""Trainings in processes of their own, some at a time, one thread each, with their progress in one place."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.protocols.errors import BackendError, ConfigError

__all__ = ["Job", "run_jobs"]

_PATIENCE = 10
"""Seconds that a stopped training has to end by itself."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """One ``arena train``."""

    name: str
    """For progress and messages."""
    arguments: Sequence[str]
    """After ``arena train``: the recipe, overrides and options."""
    folder: Path
    """Run directory; what the process says besides its progress goes to a file beside it."""

    @property
    def log(self) -> Path:
        """What the process wrote to standard error."""
        return self.folder.with_name(f"{self.folder.name}.log")


def run_jobs(
    jobs: Sequence[Job], *, at_once: int, on_event: Callable[[str, dict[str, Any]], None], globals_: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Run all of them; when one fails the others are stopped and its fault is told.

    Args:
        jobs: with different names.
        at_once: most processes at a time.
        on_event: called with a job's name and each event of its progress.
        globals_: options that go before the verb, such as ``--plugin FILE``.

    Returns:
        Name -> what the training prints with ``--json``.

    Raises:
        ConfigError: a training was refused.
        BackendError: a training failed.
    """
    arrived: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
    waiting, by_name = list(jobs), {job.name: job for job in jobs}
    workers: dict[str, subprocess.Popen[str]] = {}
    results: dict[str, dict[str, Any]] = {}
    running = 0
    try:
        while waiting or running:
            while waiting and running < at_once:
                job = waiting.pop(0)
                workers[job.name] = worker = _start(job, globals_)
                threading.Thread(target=_listen, args=(job.name, worker, arrived), daemon=True).start()
                running += 1
            name, event = arrived.get()
            if event is None:
                running -= 1
                if name not in results:
                    # A training tells a mistake of the user by exit code 2, and so do those who run several.
                    kind = ConfigError if workers[name].wait() == 2 else BackendError
                    raise kind(f"training '{name}' failed:\n{_tail(by_name[name])}")
            elif event["event"] == "done":
                results[name] = event["results"][0]
                on_event(name, {"event": "phase", "phase": "done"})
            else:
                on_event(name, event)
        return results
    finally:
        _stop(workers)


def _stop(workers: Mapping[str, subprocess.Popen[str]]) -> None:
    for worker in workers.values():
        worker.terminate()
    for worker in workers.values():
        try:
            worker.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _start(job: Job, globals_: Sequence[str]) -> subprocess.Popen[str]:
    job.folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "arena", *globals_, "train", *job.arguments, "--out", str(job.folder), "--events"]
    with job.log.open("w") as errors:
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=os.environ | dict.fromkeys(_THREADS, "1")
        )


def _tail(job: Job) -> str:
    return "\n".join(job.log.read_text(errors="replace").splitlines()[-20:]) or f"no message; see {job.folder}"


def _listen(name: str, worker: subprocess.Popen[str], arrived: queue.Queue[tuple[str, dict[str, Any] | None]]) -> None:
    assert worker.stdout is not None
    try:
        with worker.stdout as lines:
            for line in lines:
                if (event := _event(line)) is not None:
                    arrived.put((name, event))
    finally:
        # Whatever went wrong here: who waits for this worker must hear that nothing more will come.
        arrived.put((name, None))


def _event(line: str) -> dict[str, Any] | None:
    """A line of progress; None for what a library or a plugin printed in between."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found else None
