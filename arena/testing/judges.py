"""What a judge promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge, JudgeView, Statement
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["check_judge", "odd_views"]


def check_judge(judge: AnyJudge, make_views: Callable[[], Sequence[JudgeView]], *, tolerance: float = 1e-4) -> None:
    """Check what `arena.judges.types.Judge` and `AsyncJudge` promise.

    Every view has one verdict, in order, that does not depend on the others; a verdict that may be used is a
    distribution over the answers (one score where there are none), and one that may not gives its reason. The same
    holds of views that few protocols make (`odd_views`), each of them judged together with the others.

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
    verdicts = ask_judge(judge, views, strict=True)
    for view, verdict in zip(views, verdicts, strict=True):
        _check_verdict(view, verdict)
    _check_alike(verdicts, ask_judge(judge, list(make_views())[::-1])[::-1], tolerance, "the views in reverse order")
    alone = [ask_judge(judge, [view])[0] for view in make_views()]
    _check_alike(verdicts, alone, tolerance, "each view alone")
    _check_odd(judge, make_views, verdicts, tolerance)


def odd_views(view: JudgeView) -> dict[str, JudgeView]:
    """Views that few protocols make and every judge may get, made of one that is as usual: what is odd -> the view."""
    said = [replace(each, answer=None) for each in view.statements] or [Statement("speaker", None, "yes", said="yes")]
    of_first = [each for each in view.statements if each.answer in (None, 0)]
    label = None if view.label is None else 0
    one = replace(view, answers=view.answers[:1], answers_argued=(0,), statements=of_first, label=label)
    none = replace(view, answers=(), answers_argued=(), statements=said, label=None)
    return {
        "one answer": replace(one, key=f"{view.key} one answer"),
        "no answers": replace(none, key=f"{view.key} no answers"),
        "no answers and nothing said": replace(none, key=f"{view.key} nothing", statements=[]),
        "answers that it does not see": replace(view, key=f"{view.key} unseen", answers=()),
        "nothing said": replace(view, key=f"{view.key} silence", statements=[]),
        "no question": replace(view, key=f"{view.key} no question", question=""),
        "no label": replace(view, key=f"{view.key} no label", label=None),
    }


def _check_odd(
    judge: AnyJudge, make_views: Callable[[], Sequence[JudgeView]], verdicts: Sequence[Verdict], tolerance: float
) -> None:
    views = list(make_views())
    odd = odd_views(next((view for view in views if view.compared > 1), views[0]))
    together = ask_judge(judge, [*views, *odd.values()], strict=True)
    _check_alike(verdicts, together[: len(views)], tolerance, "the views beside odd ones")
    for (what, view), verdict in zip(odd.items(), together[len(views) :], strict=True):
        try:
            _check_verdict(view, verdict)
        except AssertionError as error:
            raise AssertionError(f"a view with {what}: {error}") from None


def _check_verdict(view: JudgeView, verdict: Verdict) -> None:
    if not verdict.decidable:
        assert verdict.evidence.get("reason"), f"a verdict with status {verdict.status} gives its reason in 'evidence'"
        return
    if not verdict.logps:
        return
    best = verdict.logps.count(max(verdict.logps))
    if verdict.status is VerdictStatus.TIE:
        assert best > 1, f"a tie between {verdict.logps} ({view.key}) has one best answer"
    else:
        assert best == 1, f"a verdict with log-probs {verdict.logps} ({view.key}) is a tie"
    assert verdict.stated is None or 0 <= verdict.stated < view.compared, f"answer {verdict.stated} is stated"


def _check_alike(first: Sequence[Verdict], second: Sequence[Verdict], tolerance: float, how: str) -> None:
    for one, two in zip(first, second, strict=True):
        assert one.status is two.status, f"{how}: status {two.status} instead of {one.status}"
        gap = max((abs(a - b) for a, b in zip(one.logps, two.logps, strict=True)), default=0.0)
        assert gap <= tolerance, f"{how}: log-probs differ by {gap}"
        gap = max((abs(a - b) for a, b in zip(one.scores, two.scores, strict=True)), default=0.0)
        assert gap <= tolerance, f"{how}: scores differ by {gap}"
