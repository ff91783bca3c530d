"""All of CPython in a process of its own, under limits of the operating system. It is NOT a security boundary.

What holds, on every POSIX system: an empty environment, a folder of its own that is removed afterwards, no open files
of ours, bounds on time, output, sizes and numbers of files. On Linux also: bounds on memory and processes, and all
that the program started is ended with it, daemons included; where the kernel lets us, no network.

What does not: a program that knows its way around Python's audit hooks reads what the user may read, and where we
are not root writes what the user may write; what it writes counts for each file and not in sum. Clock and addresses
differ from run to run, so that what a program says may differ too.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.agents.tools.sandbox import Limits, Ran
from arena.agents.tools.sandbox.supervisor import SOURCE, Job, supervise
from arena.protocols.errors import ConfigError

__all__ = ["SubprocessSandbox", "subprocess_sandbox"]


class SubprocessSandbox:
    """Programs in a process of their own; see `arena.agents.tools.sandbox.Sandbox`.

    Args:
        packages: what is installed beside us can be imported, and not the standard library alone.
        processes: how many processes and threads a program may have at once.
    """

    def __init__(self, packages: bool = False, processes: int = 16) -> None:
        self.packages = packages
        self.processes = processes
        self.about = f"Python {sys.version_info.major}.{sys.version_info.minor}, no other files, no network"

    def run(self, parts: Sequence[str], limits: Limits, seed: int = 0) -> Ran:
        """Run a program; see `arena.agents.tools.sandbox.Sandbox`."""
        job = Job(
            parts, seed, limits.seconds, limits.memory, self.processes, self.packages, own_user=True, namespaces=True
        )
        command = [sys.executable, "-s", "-S", "-B", "-u", "-X", "utf8", "-c", SOURCE]
        with tempfile.TemporaryDirectory(prefix="arena-sandbox-", ignore_cleanup_errors=True) as folder:
            # The order of sets is the same in every run; the program itself finds no environment.
            return supervise(command, job, limits, cwd=folder, env={"PYTHONHASHSEED": "0"})


def subprocess_sandbox(
    *, packages: bool = False, processes: Annotated[int, Field(ge=1, le=1024)] = 16
) -> SubprocessSandbox:
    """CPython under limits of the operating system; see `SubprocessSandbox`.

    Raises:
        ConfigError: this is no POSIX system.
    """
    if os.name != "posix":
        raise ConfigError("sandbox 'subprocess' needs Linux or macOS: use sandbox=monty or sandbox=docker")
    return SubprocessSandbox(packages, processes)
