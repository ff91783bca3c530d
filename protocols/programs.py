"""Programs that act in a protocol: tools, which run what a speaker calls, and checks, which examine what it said.

Both get a batch and answer each item by itself. They see the task fields that their role sees, and nothing else of the
task. What they return is data: a failed call is an `Outcome` with status ``tool_error``, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from arena.protocols.records import TurnStatus
from arena.protocols.registry import Registry

__all__ = ["CHECKS", "TOOLS", "Call", "Check", "Outcome", "Tool"]


@dataclass(frozen=True, slots=True)
class Call:
    """What a program is given."""

    text: str
    """The turn that calls or is checked."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """Of a tool call, as the speaker wrote them: not checked against ``Tool.parameters`` yet."""
    turn: Mapping[str, Any] = field(default_factory=dict)
    """What was read from the turn (``Turn.fields``)."""
    task: Mapping[str, Any] = field(default_factory=dict)
    """Task fields that the program's role sees."""
    seed: int = 0
    """64-bit seed of this call's random stream."""
    key: str = ""
    """Episode and node, for messages."""


@dataclass(slots=True)
class Outcome:
    """What came of it."""

    text: str = ""
    """What readers of the turn are told. A check must not give away here what its role alone sees."""
    status: TurnStatus = TurnStatus.OK
    """``ok`` or ``tool_error``."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Plain JSON values, kept with the turn. Every check gives ``passed`` (bool) and ``score`` (0 to 1)."""
    error: str | None = None
    unread: str = ""
    """Of a check: why what was said could not be read, if that is why it did not pass. Judges decide nothing then."""


class Tool(Protocol):
    """Something that a speaker can call."""

    name: str
    description: str
    """One line for the speaker's prompt."""
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments."""
    slow: bool
    """It waits for something (a subprocess, a server): the engine runs it in a thread, while other episodes go on."""

    def run(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """One outcome a call, in order; each depends on its own call alone."""
        ...


class Check(Protocol):
    """A program that examines a turn."""

    name: str
    slow: bool

    def check(self, calls: Sequence[Call]) -> Sequence[Outcome]:
        """One outcome a call, in order; each depends on its own call alone."""
        ...


TOOLS: Registry[Tool] = Registry("tool", home="arena.agents.tools")
"""Tools by name; those that come with the package are in `arena.agents.tools`."""

CHECKS: Registry[Check] = Registry("check", home="arena.agents.tools")
"""Checks by name."""
