"""Arms: what a judge makes of the same questions when nobody, one consultant, two debaters or the evidence helps it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["Arm"]


class Arm(BaseModel):
    """One row of the table of judge accuracies."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    protocol: str
    """Protocol that is played."""
    lineup: str | dict[str, Any] | None = None
    """Who fills all speaking roles: an agent."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
