"""Arms: what a judge makes of the same questions when nobody, one consultant, two debaters or the evidence helps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from arena.judging import deciding_nodes
from arena.protocols import Protocol

__all__ = ["Arm", "arm_faults"]


class Arm(BaseModel):
    """One row of the table of judge accuracies."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    protocol: str
    """Protocol that is played."""
    lineup: str | dict[str, Any] | None = None
    """Who fills all speaking roles: an agent."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""


def arm_faults(arm: Arm, protocol: Protocol, lineups: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """What does not fit in an arm, each as (path inside of the arm, what).

    Args:
        arm: as written.
        protocol: that it names.
        lineups: what a lineup may be, in words.
    """
    if not deciding_nodes(protocol):
        yield ("protocol",), f"protocol '{protocol.name}' gives no verdict, so nothing is measured"
    if arm.lineup is None and protocol.speakers:
        speakers = ", ".join(protocol.speakers)
        yield (), f"who plays {speakers} of protocol '{protocol.name}'? Write lineup: {lineups}"
    elif arm.lineup is not None and not protocol.speakers:
        yield ("lineup",), f"nobody speaks in protocol '{protocol.name}': remove lineup"
