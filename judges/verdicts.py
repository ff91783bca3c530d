"""Verdicts from numbers: the few rules that every judge shares."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["FLOOR", "MOST_WEIGHT", "abstain", "certain", "decide", "normalise", "scored"]

MOST_WEIGHT = 1e6
"""Largest weight of a criterion, principle or part: sums of weighted scores stay finite."""
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
        return abstain(judge, "a log-prob is not finite", evidence=evidence, stated=stated)
    tie = logps.count(max(logps)) > 1
    return Verdict(VerdictStatus.TIE if tie else VerdictStatus.SCORED, judge, logps, stated, evidence)


def scored(
    judge: str,
    scores: Sequence[float],
    evidence: Mapping[str, Any],
    *,
    answers: int,
    scale: float = 1.0,
    lapse: float = 0.0,
    strengths: Sequence[float] | None = None,
) -> Verdict:
    """The verdict of a judge that says what each answer is worth by itself, or, given one score, the last statement.

    The distribution over the answers is the softmax of their strengths: the model of Bradley and Terry for two, and the
    first choice of Plackett and Luce for more. An only answer has all the probability, whatever it is worth.

    Args:
        judge: name of the instrument.
        scores: one an answer, in task order; or one alone, where there are no answers.
        evidence: where they come from.
        answers: how many are compared (`arena.judges.types.JudgeView.compared`); 0 where there are none.
        scale: nats that one unit of score is worth.
        lapse: share of the probability that is spread evenly over the answers, however far the scores are apart.
        strengths: in nats, one an answer, where they are something else than ``scale * score``.
    """
    if not all(map(math.isfinite, scores)):
        return abstain(judge, "a score is not finite", evidence=evidence)
    if not answers:
        return Verdict(VerdictStatus.SCORED, judge, evidence=evidence, scores=tuple(scores))
    strengths = [scale * score for score in scores] if strengths is None else strengths
    logps = normalise(strengths)
    if lapse:
        logps = tuple(math.log((1.0 - lapse) * math.exp(logp) + lapse / answers) for logp in logps)
    verdict = decide(judge, logps, evidence)
    verdict.scores = tuple(scores)
    return verdict


def certain(
    judge: str, answer: int, count: int, stated: int | None = None, *, evidence: Mapping[str, Any] | None = None
) -> Verdict:
    """All probability on one of ``count`` answers, the others at `FLOOR`."""
    logps = tuple(0.0 if index == answer else FLOOR for index in range(count))
    return Verdict(VerdictStatus.SCORED, judge, logps, stated, evidence or {})


def abstain(
    judge: str,
    reason: str,
    status: VerdictStatus = VerdictStatus.ABSTAIN,
    *,
    evidence: Mapping[str, Any] | None = None,
    stated: int | None = None,
) -> Verdict:
    """No distribution, and why; the reason stands in the evidence beside what was found nevertheless."""
    return Verdict(status, judge, (), stated, {**(evidence or {}), "reason": reason})
