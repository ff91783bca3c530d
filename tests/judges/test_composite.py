"""Composites: weighted means worked out by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from arena.agents.prices import Usage, used_by
from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.asking import ask_judge, is_async
from arena.judges.composite import AsyncCompositeJudge, CompositeJudge, Part
from arena.judges.types import AnyJudge
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Verdict, VerdictStatus
from arena.testing import check_judge


class Says:
    """Gives the same verdict on everything."""

    sees_label = False

    def __init__(self, name: str, *scores: float, logps: tuple[float, ...] = (), reason: str = "") -> None:
        self.name = name
        self.made = Verdict(VerdictStatus.SCORED, name, logps, scores=scores)
        if reason:
            self.made = Verdict(VerdictStatus.TRUNCATED, name, evidence={"reason": reason})

    def judge(self, views: Any) -> list[Verdict]:
        return [self.made for _ in views]


class Afar(Says):
    async def verdict(self, view: JudgeView) -> Verdict:
        return self.made


class Failing(Says):
    def judge(self, views: Any) -> list[Verdict]:
        raise BackendError("no answer")


VIEW = JudgeView("k", "", ("a", "b"), [Statement("x", 0, "41"), Statement("y", 1, "42")], {"n": 42}, 1, (0, 1))
ALONE = JudgeView("k", "", (), [Statement("x", None, "42")], {"n": 42})
HALF = (math.log(0.25), math.log(0.75))


def verdict_of(judge: AnyJudge, view: JudgeView = VIEW) -> Verdict:
    (verdict,) = ask_judge(judge, [view])
    return verdict


@pytest.mark.parametrize("make", [CompositeJudge, AsyncCompositeJudge])
def test_scores_and_probabilities_are_weighted(make: Any) -> None:
    parts = [Part("one", Says("one", 0.5, 0.1, logps=HALF), 3.0), Part("two", Says("two", logps=HALF), 1.0)]
    verdict = verdict_of(make(parts))
    # (3 * 0.5 + 0.25) / 4 and (3 * 0.1 + 0.75) / 4
    assert verdict.scores == pytest.approx((0.4375, 0.2625))
    assert verdict.margin(0) == pytest.approx(0.4375 - 0.2625)
    assert verdict.choice == 0
    assert [(part["name"], part["weight"]) for part in verdict.evidence["parts"]] == [("one", 3.0), ("two", 1.0)]
    assert verdict.evidence["parts"][1]["scores"] == pytest.approx([0.25, 0.75])


def test_weights_count_in_proportion_and_the_scale_for_the_odds_alone() -> None:
    one, two = Says("one", 1.0, 0.0, logps=HALF), Says("two", 0.0, 1.0, logps=HALF)
    small = verdict_of(CompositeJudge([Part("one", one, 0.3), Part("two", two, 0.1)]))
    large = verdict_of(CompositeJudge([Part("one", one, 30), Part("two", two, 10)], scale=8.0))
    assert (*small.scores, *large.scores) == pytest.approx((0.75, 0.25, 0.75, 0.25))
    assert (small.margin(0), large.margin(0)) == pytest.approx((0.5, 4.0))


@pytest.mark.parametrize("make", [CompositeJudge, AsyncCompositeJudge])
def test_an_undecided_part_makes_the_whole_undecided_unless_it_is_optional(make: Any) -> None:
    sure, lost = Says("sure", 1.0, 0.0, logps=HALF), Says("lost", reason="too long")
    verdict = verdict_of(make([Part("sure", sure, 1.0), Part("style", lost, 1.0)]))
    assert verdict.status is VerdictStatus.TRUNCATED
    assert verdict.evidence["reason"] == "part 'style' is undecided: too long"
    assert verdict.evidence["parts"][0]["scores"] == [1.0, 0.0]
    without = verdict_of(make([Part("sure", sure, 1.0), Part("style", lost, 1.0, optional=True)]))
    assert without.scores == (1.0, 0.0)
    assert without.evidence["parts"][1]["status"] == "truncated"
    nobody = verdict_of(make([Part("style", lost, 1.0, optional=True)]))
    assert (nobody.decidable, nobody.evidence["reason"]) == (False, "all 1 parts are undecided")


@pytest.mark.parametrize("make", [CompositeJudge, AsyncCompositeJudge])
def test_a_part_that_fails_is_undecided(make: Any) -> None:
    verdict = verdict_of(make([Part("net", Failing("net"), 1.0)]))
    assert verdict.status is VerdictStatus.TRANSPORT
    assert verdict.evidence["reason"] == "part 'net' is undecided: BackendError: no answer"


def test_checks_and_judges_are_parts_in_every_way_of_writing() -> None:
    listed = {
        "kind": "composite",
        "parts": [{"check": "numeric:field=n", "weight": 3}, {"judge": "exact", "name": "truth"}],
    }
    verdict = verdict_of(JUDGES.build(listed))  # type: ignore[arg-type]
    assert verdict.scores == pytest.approx((0.0, 1.0), abs=1e-9)
    assert [part["name"] for part in verdict.evidence["parts"]] == ["numeric", "truth"]
    written = JUDGES.build("composite:parts={\"verifier:check='numeric:field=n'\": 3, exact: 1}")
    assert verdict_of(written).scores == pytest.approx((0.0, 1.0), abs=1e-9)  # type: ignore[arg-type]
    plain = JUDGES.build("composite:parts=[exact, {check: 'regex:pattern=4[0-9]'}, {check: 'regex:pattern=.*2'}]")
    told = verdict_of(plain)  # type: ignore[arg-type]
    assert told.scores == pytest.approx((1 / 3, 1.0), abs=1e-9)
    assert [part["name"] for part in told.evidence["parts"]] == ["exact", "regex 2", "regex 3"]


def test_the_label_is_shown_to_those_parts_alone_that_need_it() -> None:
    seen = []

    class Curious(Says):
        def judge(self, views: Any) -> list[Verdict]:
            seen.extend(view.label for view in views)
            return super().judge(views)

    judge = CompositeJudge(
        [Part("exact", JUDGES.build("exact"), 1.0), Part("two", Curious("two", 0, 1, logps=HALF), 1.0)]
    )
    assert judge.sees_label
    assert verdict_of(judge).decidable
    assert seen == [None]
    assert not CompositeJudge([Part("two", Says("two"), 1.0)]).sees_label


def test_one_part_from_afar_makes_the_whole_answer_from_afar() -> None:
    parts = [{"check": "numeric:field=n"}, {"check": {"kind": "unit_tests"}}]
    assert is_async(JUDGES.build({"kind": "composite", "parts": parts}))  # type: ignore[arg-type]
    assert not is_async(JUDGES.build({"kind": "composite", "parts": parts[:1]}))  # type: ignore[arg-type]
    judge = AsyncCompositeJudge([Part("far", Afar("far", 0.2, 0.4, logps=HALF), 1.0)])
    assert verdict_of(judge).scores == pytest.approx((0.2, 0.4))


def test_without_answers_parts_must_give_a_score() -> None:
    assert verdict_of(JUDGES.build("composite:parts=[{check: 'numeric:field=n'}]"), ALONE).scores == (1.0,)  # type: ignore[arg-type]
    verdict = verdict_of(JUDGES.build("composite:parts=[exact]"), ALONE)  # type: ignore[arg-type]
    assert not verdict.decidable


@pytest.mark.parametrize(
    "parts", ["[{check: 'numeric:field=n'}, exact]", "[{check: unit_tests, optional: true}, exact]"]
)
def test_composites_keep_what_judges_promise(parts: str) -> None:
    check_judge(JUDGES.build(f"composite:parts={parts}"), lambda: [VIEW, ALONE, JudgeView("m", "", ("a", "b"))])


def test_parts_and_weights_are_part_of_the_name() -> None:
    parts = ["[exact]", "{exact: 2}", "[exact, match]", "[{judge: exact, optional: true}]"]
    assert len({JUDGES.build(f"composite:parts={each}").name for each in parts}) == 4


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ("[]", "give it a judge at least"),
        ("[exakt]", "parts that can be built .part 1: .*Did you mean 'exact'"),
        ("[{judge: exact, check: exact}]", "part 1 .* needs either judge: SPEC or check: SPEC"),
        ("[{judge: exact, wieght: 2}]", "part 1, 'wieght' of judge 'composite'"),
        ("[{judge: exact, weight: 0}]", "part 1, 'weight' of judge 'composite'"),
        ("{exact: -1}", "'parts' of judge 'composite'"),
        ("{exact: 1, 'biased:acuracy=1': 1}", "part 2: 'acuracy' is not an argument of judge 'biased'"),
        ("[{check: 'numeric:feld=label'}]", "part 1: .*'feld' is not an argument of check 'numeric'"),
        ("[{judge: 'panel:judges=[exact, exakt]'}]", "part 1: 'judges' of judge 'panel', number 2: 'exakt'"),
        ("[{judge: exact, name: a}, {judge: match, name: a}]", "two parts .* are called 'a'"),
    ],
)
def test_mistakes_are_told(parts: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        JUDGES.build(f"composite:parts={parts}")


def test_what_parts_cost_is_counted() -> None:
    one = Says("one", 1.0, 0.0, logps=HALF)
    one.usage = Usage("m", calls=3)  # type: ignore[attr-defined]
    assert used_by([CompositeJudge([Part("one", one, 1.0)])]) == [Usage("m", calls=3)]
