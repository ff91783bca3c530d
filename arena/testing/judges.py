"""What a judge promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge, JudgeView
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["check_judge"]


def check_judge(judge: AnyJudge, make_views: Callable[[], Sequence[JudgeView]], *, tolerance: float = 1e-4) -> None:
    """Check what `arena.judges.types.Judge` and `AsyncJudge` promise.

    Every view has one verdict, in order, that does not depend on the others; a verdict that may be used is a
    distribution over the answers (one score where there are none), and one that may not gives its reason.

    Args:
        judge: to be checked.
        make_views: makes the same views anew each time it is called; at least two.
        tolerance: largest difference of log-probs in nats that counts as equal.

    Raises:
        AssertionError: a promise is broken; the message says which.
        BackendError: a verdict is none, or no distribution; or there are not as many as views.
    """
    assert judge.name, "a judge has a name"
    views = list(make_views())
    assert len(views) >= 2, "make at least two views"
    verdicts = ask_judge(judge, views)
    for view, verdict in zip(views, verdicts, strict=True):
        _check_verdict(view, verdict)
    _check_alike(verdicts, ask_judge(judge, list(make_views())[::-1])[::-1], tolerance, "the views in reverse order")
    alone = [ask_judge(judge, [view])[0] for view in make_views()]
    _check_alike(verdicts, alone, tolerance, "each view alone")


def _check_verdict(view: JudgeView, verdict: Verdict) -> None:
    if not verdict.decidable:
        assert verdict.evidence.get("reason"), f"a verdict with status {verdict.status} gives its reason in 'evidence'"
        return
    assert len(verdict.scores) in (0, 1 if not view.answers_argued else len(view.answers_argued)), (
        f"{len(verdict.scores)} scores of {len(view.answers_argued)} answers ({view.key})"
    )
    if not verdict.logps:
        return
    best = verdict.logps.count(max(verdict.logps))
    if verdict.status is VerdictStatus.TIE:
        assert best > 1, f"a tie between {verdict.logps} ({view.key}) has one best answer"
    else:
        assert best == 1, f"a verdict with log-probs {verdict.logps} ({view.key}) is a tie"
    assert verdict.stated is None or 0 <= verdict.stated < len(view.answers), f"answer {verdict.stated} is stated"


def _check_alike(first: Sequence[Verdict], second: Sequence[Verdict], tolerance: float, how: str) -> None:
    for one, two in zip(first, second, strict=True):
        assert one.status is two.status, f"{how}: status {two.status} instead of {one.status}"
        gap = max((abs(a - b) for a, b in zip(one.logps, two.logps, strict=True)), default=0.0)
        assert gap <= tolerance, f"{how}: log-probs differ by {gap}"
        gap = max((abs(a - b) for a, b in zip(one.scores, two.scores, strict=True)), default=0.0)
        assert gap <= tolerance, f"{how}: scores differ by {gap}"
