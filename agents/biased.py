"""An agent that chooses at random, but not evenly: a start away from the middle for policies that imitate it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.errors import BackendError, ConfigError

__all__ = ["biased"]


def biased(shares: Sequence[float] | str, *, name: str = "biased") -> ScriptedAgent:
    """Takes each option with its share.

    Args:
        shares: relative, one for each option in their order; as a text with bars between them: ``3|2|1``.
        name: key in lineups and ratings.

    Raises:
        ConfigError: shares that are none.
    """
    try:
        weights = [float(share) for share in (shares.split("|") if isinstance(shares, str) else shares)]
    except (TypeError, ValueError):
        weights = []
    if not weights or min(weights) < 0.0 or not 0.0 < math.fsum(weights) < math.inf:
        raise ConfigError(
            f"shares={shares!r} of agent '{name}' must be numbers of 0 or more: write biased:shares=3|2|1"
        )

    def say(ask: Ask) -> str:
        if len(ask.options) != len(weights):
            raise BackendError(f"'{name}' has {len(weights)} shares for the {len(ask.options)} options of '{ask.node}'")
        at = float(uniforms([ask.seed], 0)[0]) * math.fsum(weights)
        return next(option for option, end in zip(ask.options, itertools.accumulate(weights), strict=True) if at < end)

    return ScriptedAgent(name, say)
