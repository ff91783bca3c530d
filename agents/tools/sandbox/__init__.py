"""Running programs that nobody has read: what a sandbox is, and which there are.

    python:sandbox=subprocess                                      in a command line or a list of tools
    {kind: python, sandbox: {kind: subprocess, packages: true}}    with arguments of the sandbox

``monty`` is the default: an interpreter of a large part of Python that has no access to anything. ``subprocess`` is
all of CPython under limits of the operating system, and no security boundary. ``docker`` is the same in a container.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeAlias

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from arena.protocols.errors import UserError
from arena.protocols.registry import Registry

__all__ = ["SANDBOXES", "Limits", "Opaque", "Ran", "Sandbox", "SandboxSpec"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one run."""

    seconds: float = 2.0
    """Of each part of a program, by the clock."""
    memory: int = 64
    """MiB."""
    output: int = 10_000
    """Characters that may be printed."""


@dataclass(slots=True)
class Ran:
    """What came of a program."""

    value: Any = None
    """Of the expression that ends it: plain values, or an `Opaque` for what is none."""
    printed: str = ""
    """At most `Limits.output` characters."""
    error: str = ""
    """Type of the exception that ended it (``TimeoutError``, ``MemoryError``, ``OutputError`` for limits); empty if
    none did."""
    message: str = ""
    """What the exception says; of limits, without numbers that differ from run to run."""
    line: int | None = None
    """Where, in the part that failed, if it is known."""

    @property
    def what(self) -> str:
        """The exception in one line."""
        where = f" (line {self.line})" if self.line else ""
        return f"{self.error}{where}: {self.message}" if self.message else f"{self.error}{where}"

    @classmethod
    def late(cls, limits: Limits) -> Ran:
        """A program that ran too long."""
        return cls(error="TimeoutError", message=f"it ran longer than {limits.seconds:g} seconds")

    @classmethod
    def hungry(cls, limits: Limits) -> Ran:
        """A program that used too much memory."""
        return cls(error="MemoryError", message=f"it used more than {limits.memory} MiB")

    @classmethod
    def loud(cls, limits: Limits) -> Ran:
        """A program that printed too much."""
        return cls(error="OutputError", message=f"it printed more than {limits.output} characters")


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value that stays in its sandbox: all that is known is how it describes itself. It equals nothing."""

    text: str

    def __repr__(self) -> str:
        return self.text


class Sandbox(Protocol):
    """Runs programs. It is safe in threads."""

    about: str
    """What programs there have and lack, for a speaker's prompt: ``a large part of Python, no files, no network``."""

    def run(self, parts: Sequence[str], limits: Limits, seed: int = 0) -> Ran:
        """Run the parts of a program one after the other in one interpreter.

        Args:
            parts: source texts; what one defines, the next may use.
            limits: when it is stopped.
            seed: of its random numbers.

        Returns:
            The value of the last part and all that was printed, or the error of the first part that failed.

        Raises:
            BackendError: the sandbox itself failed.
            ConfigError: it cannot work on this machine.
        """
        ...


SANDBOXES: Registry[Sandbox] = Registry("sandbox")
"""Sandboxes by spec."""

SANDBOXES.lazy("monty", "arena.agents.tools.sandbox.monty:MontySandbox", "a large part of Python, without any access")
SANDBOXES.lazy(
    "subprocess", "arena.agents.tools.sandbox.process:subprocess_sandbox", "CPython under limits; no security boundary"
)
SANDBOXES.lazy("docker", "arena.agents.tools.sandbox.docker:docker_sandbox", "CPython in a container without network")


def _check_spec(spec: Any) -> Any:
    try:
        SANDBOXES.check(spec)
    except UserError as error:
        raise PydanticCustomError("sandbox", "a sandbox ({fault})", {"fault": str(error)}) from error
    return spec


SandboxSpec: TypeAlias = Annotated[str | dict[str, Any], AfterValidator(_check_spec)]
"""Argument of a tool or check that names a sandbox."""
