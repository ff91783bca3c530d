"""Verdicts that cannot be used: how they are counted, and when there are too many."""

from __future__ import annotations

import pytest

from arena.protocols.records import Episode, Verdict, VerdictStatus
from arena.undecided import NO_VERDICTS, UndecidedLimit, UndecidedWindow, verdicts_of

GOOD = Verdict(VerdictStatus.SCORED, "j", (0.0, -30.0))
TIE = Verdict(VerdictStatus.TIE, "j", (-0.69, -0.69))


def bad(reason: str = "mute", status: VerdictStatus = VerdictStatus.ABSTAIN) -> Verdict:
    return Verdict(status, "j", evidence={"reason": reason} if reason else {})


def test_verdicts_are_counted_by_status_with_the_commonest_reason() -> None:
    limit = UndecidedLimit()
    limit.add([GOOD, TIE, bad("loud"), bad(), bad(), bad("no\nend " * 50, VerdictStatus.TRUNCATED)])
    limit.add([bad("", VerdictStatus.TRANSPORT)] * 2)
    found = limit.found
    assert (found.verdicts, found.undecidable, found.share) == (8, 6, 0.75)
    assert list(found.by_status.items()) == [("abstain", 3), ("transport", 2), ("truncated", 1)]
    assert found.examples["abstain"] == "mute"
    assert found.examples["transport"] == "no reason given"
    assert len(found.examples["truncated"]) == 120
    assert "\n" not in str(found)
    assert str(found).startswith("75.0% of 8: 3 abstain (mute), 2 transport (no reason given), 1 truncated (no end no")


def test_no_verdicts_are_no_share() -> None:
    assert UndecidedLimit().found == NO_VERDICTS.__class__(0, 0, 0.0, limit=0.5)
    assert str(NO_VERDICTS) == "0.0% of 0"


def test_the_limit_is_passed_by_a_larger_share_of_enough_verdicts() -> None:
    limit = UndecidedLimit(0.5, first_look=4)
    limit.add([bad()] * 3)
    assert not limit.passed, "three are too few"
    limit.add([GOOD] * 3)
    assert not limit.passed, "half is the limit itself"
    limit.add([bad()])
    assert limit.passed
    everything = UndecidedLimit(1.0, first_look=1)
    everything.add([bad()] * 9)
    assert not everything.passed


def test_a_window_sees_a_judge_that_fails_late_and_waits_for_enough_verdicts() -> None:
    window = UndecidedWindow(0.2, first_look=4)
    assert not any(window.add([GOOD] * 4).too_many for _ in range(10))
    assert not window.add([bad(), bad()]).too_many, "two are too few"
    found = window.add([GOOD, GOOD])
    assert (found.too_many, found.verdicts, found.share) == (True, 4, 0.5)
    assert not window.add([GOOD] * 4).too_many, "each look begins anew"
    assert (window.all.found.verdicts, window.all.found.undecidable) == (48, 2)


@pytest.mark.parametrize(("error", "count"), [(None, 3), ("no answer", 0)])
def test_verdicts_of_all_nodes_count_unless_the_episode_failed(error: str | None, count: int) -> None:
    verdicts, inner = {"first": GOOD, "last": bad()}, {"inside.first": GOOD}
    episode = Episode("e", "p", "t", {}, (0, 1), verdicts=verdicts, inner_verdicts=inner, error=error)
    assert len(verdicts_of([episode])) == count
