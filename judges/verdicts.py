"""Verdicts from numbers: the few rules that every judge shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["FLOOR", "abstain", "certain", "decide", "normalise"]

FLOOR = -30.0
"""Log-probability in nats of an answer that a verifier rules out: finite, so that margins and rewards stay finite."""


def normalise(scores: Sequence[float]) -> tuple[float, ...]:
    """Log-probabilities proportional to ``exp(scores)``; the scores must be finite."""
    top = max(scores)
    total = top + math.log(sum(math.exp(score - top) for score in scores))
    return tuple(score - total for score in scores)


def decide(judge: str, logps: tuple[float, ...], evidence: Mapping[str, Any], stated: int | None = None) -> Verdict:
    """A scored verdict; a tie if the best two answers are exactly equal; abstain if a number is not finite."""
    if not all(map(math.isfinite, logps)):
        return Verdict(VerdictStatus.ABSTAIN, judge, (), stated, {**evidence, "reason": "a log-prob is not finite"})
    tie = logps.count(max(logps)) > 1
    return Verdict(VerdictStatus.TIE if tie else VerdictStatus.SCORED, judge, logps, stated, evidence)


def certain(judge: str, answer: int, count: int, stated: int | None = None) -> Verdict:
    """All probability on one of ``count`` answers, the others at `FLOOR`."""
    logps = tuple(0.0 if index == answer else FLOOR for index in range(count))
    return Verdict(VerdictStatus.SCORED, judge, logps, stated)


def abstain(judge: str, reason: str, status: VerdictStatus = VerdictStatus.ABSTAIN) -> Verdict:
    """No distribution, and why."""
    return Verdict(status, judge, evidence={"reason": reason})
