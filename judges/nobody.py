"""Stands where a judge would, in what needs none: small games, rewards of programs."""

from __future__ import annotations

from collections.abc import Sequence

from arena.judges.types import JudgeView
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict

__all__ = ["NoJudge"]


class NoJudge:
    """Decides nothing."""

    name = "nobody"
    sees_label = False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """Only asked by mistake.

        Raises:
            ConfigError: always.
        """
        raise ConfigError("somebody has to judge here: name a judge")
