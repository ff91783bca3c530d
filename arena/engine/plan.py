"""An episode to be played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from arena.agents.types import Agent, AsyncAgent
from arena.protocols.records import Task

__all__ = ["AnyAgent", "Plan"]

AnyAgent: TypeAlias = Agent | AsyncAgent
"""An agent of either kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """An episode to be played."""

    key: str
    """Unique in the run; its random streams derive from (seed, key)."""
    task: Task
    lineup: Mapping[str, AnyAgent]
    """Speaking seat -> agent."""
    sides: tuple[int, ...] | None = None
    """Which answer (task order) each seat argues, seats without a speaker included; None: task order."""
