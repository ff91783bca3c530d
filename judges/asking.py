"""Asking judges: synchronous ones in one call, others all at once; what comes back is checked."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from arena.judges.types import AnyJudge, AsyncJudge, JudgeView
from arena.protocols.errors import BackendError
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["FAULTS", "ask_judge", "await_verdict", "check_verdict", "checked", "failed_verdict", "is_async"]

T = TypeVar("T")

FAULTS = (BackendError, OSError, TimeoutError)
"""What a model, a server or the machine may do at any time: recorded as a status, and the others go on. Everything else
is a bug and ends the run."""

_SLACK = 1e-2
"""Probabilities in float32, or rounded by hand, need not add up to 1 exactly."""


def is_async(judge: AnyJudge) -> bool:
    """Whether the judge answers one view at a time, from afar."""
    return hasattr(judge, "verdict")


def ask_judge(judge: AnyJudge, views: Sequence[JudgeView], *, strict: bool = False) -> Sequence[Verdict]:
    """One verdict a view; where a batch fails, each view alone, so that a fault does not take its siblings along.

    Args:
        judge: of either kind.
        views: to be judged.
        strict: raise where a verdict cannot be used for its view; else one that says so is put in its place.

    Raises:
        BackendError: there is not one verdict for each view, so that none can be told from another's; or see above.
    """
    if is_async(judge):
        return _wait(_gather(judge, views, strict))  # type: ignore[arg-type]
    try:
        verdicts = judge.judge(views)  # type: ignore[union-attr]
    except FAULTS as error:
        if len(views) == 1:
            return [failed_verdict(judge, error)]
        return [verdict for view in views for verdict in ask_judge(judge, [view], strict=strict)]
    if not isinstance(verdicts, Sequence):
        raise BackendError(f"judge '{judge.name}' gave something else than a list of verdicts")
    if len(verdicts) != len(views):
        raise BackendError(f"judge '{judge.name}' gave {len(verdicts)} verdicts on {len(views)} views")
    return [checked(judge, view, verdict, strict=strict) for view, verdict in zip(views, verdicts, strict=True)]


async def _gather(judge: AsyncJudge, views: Sequence[JudgeView], strict: bool) -> list[Verdict]:
    return list(await asyncio.gather(*(await_verdict(judge, view, strict=strict) for view in views)))


async def await_verdict(judge: AsyncJudge, view: JudgeView, *, strict: bool = False) -> Verdict:
    """The verdict of an asynchronous judge; a fault becomes a verdict that says so."""
    try:
        verdict = await judge.verdict(view)
    except FAULTS as error:
        return failed_verdict(judge, error)
    return checked(judge, view, verdict, strict=strict)


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in a loop of its own; in a thread, since the caller may have a running loop (a notebook)."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def failed_verdict(judge: AnyJudge, error: BaseException) -> Verdict:
    """What is recorded where a judge failed."""
    return Verdict(VerdictStatus.TRANSPORT, judge.name, evidence={"reason": f"{type(error).__name__}: {error}"})


def checked(judge: AnyJudge, view: JudgeView, verdict: Verdict, *, strict: bool = False) -> Verdict:
    """The verdict; in place of one that cannot be used for its view, one that says so, or an error if ``strict``."""
    try:
        check_verdict(judge, view, verdict)
    except BackendError as error:
        if strict:
            raise
        return failed_verdict(judge, error)
    return verdict


def check_verdict(judge: AnyJudge, view: JudgeView, verdict: Verdict) -> None:
    """A verdict that may be used must be a distribution over the answers, or one score where there are none.

    Raises:
        BackendError: it is none.
    """
    if not isinstance(verdict, Verdict):
        raise BackendError(f"judge '{judge.name}' gave {type(verdict).__name__} instead of a verdict ({view.key})")
    if not verdict.decidable:
        return
    count = view.compared
    _check_scores(judge, view, verdict)
    if not count:
        return
    if len(verdict.logps) != count:
        raise BackendError(f"judge '{judge.name}' gave {len(verdict.logps)} log-probs for {count} answers ({view.key})")
    # A NaN makes the comparison false as well.
    if not abs(sum(map(math.exp, verdict.logps)) - 1.0) <= _SLACK:
        raise BackendError(
            f"judge '{judge.name}' gave log-probs that are no distribution: {verdict.logps} ({view.key}); "
            "normalise them over the answers"
        )


def _check_scores(judge: AnyJudge, view: JudgeView, verdict: Verdict) -> None:
    count, scores = view.compared, verdict.scores
    if not count and (len(scores) != 1 or verdict.logps):
        raise BackendError(
            f"judge '{judge.name}' compares answers, and there are none ({view.key}): it must give one score, or none "
            "and a status that says so"
        )
    if count and scores and len(scores) != count:
        raise BackendError(f"judge '{judge.name}' gave {len(scores)} scores for {count} answers ({view.key})")
    if not all(map(math.isfinite, scores)):
        raise BackendError(f"judge '{judge.name}' gave a score that is not finite: {scores} ({view.key})")
