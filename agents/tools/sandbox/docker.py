"""All of CPython in a container, by the ``docker`` command line.

The container has no network, nothing of ours, a read-only root, a small folder in memory, an ordinary user without
capabilities, and bounds on memory, processes and CPU. How strong it is, is up to how Docker is set up.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.agents.tools.sandbox import Limits, Ran
from arena.agents.tools.sandbox.supervisor import SOURCE, Job, supervise
from arena.protocols.errors import ConfigError

__all__ = ["DockerSandbox", "docker_sandbox"]

_PATIENCE = 30.0
"""Seconds that docker has to tell whether it has an image."""
_OWN_MEMORY = 64
"""MiB of a container for interpreter and warden."""


class DockerSandbox:
    """Programs in containers; see `arena.agents.tools.sandbox.Sandbox`.

    Args:
        image: holds Python 3.9 or newer as ``python``.
        processes: how many processes and threads a program may have at once.
    """

    def __init__(self, image: str, processes: int = 16) -> None:
        self.image = image
        self.processes = processes
        self.about = "Python in a container, no other files, no network"

    def run(self, parts: Sequence[str], limits: Limits, seed: int = 0) -> Ran:
        """Run a program; see `arena.agents.tools.sandbox.Sandbox`."""
        # The container is the fence: inside of it, nobody is root, and nobody may make namespaces.
        job = Job(
            parts, seed, limits.seconds, limits.memory, self.processes, packages=True, own_user=False, namespaces=False
        )
        name = f"arena-{uuid.uuid4().hex}"
        return supervise(self._command(name, limits), job, limits, kill=lambda: _kill(name))

    def _command(self, name: str, limits: Limits) -> list[str]:
        memory = f"{limits.memory + _OWN_MEMORY}m"
        fence = ["--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        fence += ["--user", "65534:65534", "--tmpfs", "/tmp:rw,noexec,nosuid,size=16m,mode=1777", "--workdir", "/tmp"]
        bounds = ["--memory", memory, "--memory-swap", memory, "--cpus", "1"]
        bounds += ["--pids-limit", str(self.processes + 2)]
        start = ["docker", "run", "--rm", "--interactive", "--name", name, "--pull", "never"]
        python = ["python", "-s", "-S", "-B", "-u", "-X", "utf8", "-c", SOURCE]
        return [*start, *fence, *bounds, "--env", "PYTHONHASHSEED=0", self.image, *python]


def docker_sandbox(*, image: str = "", processes: Annotated[int, Field(ge=1, le=1024)] = 16) -> DockerSandbox:
    """CPython in a container; see `DockerSandbox`.

    Args:
        image: holds Python 3.9 or newer as ``python``; if empty, Docker's official one of our own version.
        processes: how many processes and threads a program may have at once.

    Raises:
        ConfigError: docker is not installed, does not run, or does not have the image.
    """
    image = image or f"python:{sys.version_info.major}.{sys.version_info.minor}-slim"
    if shutil.which("docker") is None:
        raise ConfigError(
            "sandbox 'docker' finds no command 'docker': install Docker, or use sandbox=monty or sandbox=subprocess"
        )
    try:
        found = _docker("image", "inspect", "--format", "ok", image)
    except subprocess.TimeoutExpired:
        raise ConfigError(f"sandbox 'docker': docker does not answer within {_PATIENCE:g} seconds") from None
    if found.returncode:
        why = (found.stderr.strip() or f"exit code {found.returncode}").splitlines()[-1]
        raise ConfigError(
            f"sandbox 'docker' cannot use image '{image}': {why} (start Docker, or fetch it: docker pull {image})"
        )
    return DockerSandbox(image, processes)


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=_PATIENCE,
    )


def _kill(name: str) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        _docker("kill", name)
