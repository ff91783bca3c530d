"""Panels: what several judges decide together, and what becomes of those that cannot."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from arena.agents import ScriptedAgent
from arena.engine import Engine, Plan
from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.asking import ask_judge
from arena.judges.panel import AsyncPanel, Panel, PanelRule
from arena.judges.verdicts import FLOOR, abstain
from arena.protocols import ConfigError, load_protocol
from arena.protocols.errors import BackendError
from arena.protocols.records import Task, Verdict, VerdictStatus
from arena.testing import check_judge

UNDECIDABLE = (VerdictStatus.ABSTAIN, VerdictStatus.PARSE_ERROR)


class Says:
    """Always gives the same probabilities, scores, or status."""

    sees_label = False

    def __init__(self, name: str, *shares: float, status: VerdictStatus | None = None, scores: Sequence[float] = ()):
        self.name = name
        self.shares = shares
        self.status = status
        self.scores = tuple(scores)
        self.calls: list[int] = []
        self.labels: set[int | None] = set()

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        self.calls.append(len(views))
        self.labels |= {view.label for view in views}
        return [self.one() for _ in views]

    def one(self) -> Verdict:
        if self.status is not None:
            return abstain(self.name, "no idea", self.status)
        even = len(set(self.shares)) == 1
        logps = tuple(math.log(share) if share else FLOOR for share in self.shares)
        return Verdict(VerdictStatus.TIE if even else VerdictStatus.SCORED, self.name, logps, scores=self.scores)


class FromAfar(Says):
    """The same, asynchronously."""

    judge = None  # type: ignore[assignment]

    async def verdict(self, view: JudgeView) -> Verdict:
        await asyncio.sleep(0)
        self.calls.append(1)
        return self.one()


class Breaks(Says):
    """Never answers."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        raise BackendError("out of memory")


class Sees(Says):
    """Needs the label."""

    sees_label = True


def case(key: str = "k", count: int = 2, label: int | None = None) -> JudgeView:
    answers = tuple(f"answer {number}" for number in range(count))
    said = [Statement("ann", 0, "so")]
    return JudgeView(key, "?", answers, said, label=label, answers_argued=tuple(range(count)))


def decided(rule: PanelRule, *members: Any, quorum: int | None = None, count: int = 2) -> Verdict:
    (verdict,) = Panel(members, rule, quorum).judge([case(count=count)])
    return verdict


def shares(verdict: Verdict) -> list[float]:
    return [math.exp(logp) for logp in verdict.logps]


def test_mean_averages_probabilities() -> None:
    verdict = decided("mean", Says("a", 0.9, 0.1), Says("b", 0.3, 0.7), Says("c", 0.2, 0.8))
    assert shares(verdict) == pytest.approx([1.4 / 3, 1.6 / 3])
    assert verdict.choice == 1


def test_one_certain_member_does_not_overrule_the_others() -> None:
    verdict = decided("mean", Says("a", 1, 0), Says("b", 0.2, 0.8), Says("c", 0.2, 0.8))
    assert shares(verdict) == pytest.approx([1.4 / 3, 1.6 / 3])


def test_median_leaves_the_outlier_out_and_is_normalised() -> None:
    verdict = decided("median", Says("a", 0.98, 0.02), Says("b", 0.4, 0.6), Says("c", 0.3, 0.7))
    assert shares(verdict) == pytest.approx([0.4, 0.6])
    verdict = decided("median", Says("a", 0.8, 0.1, 0.1), Says("b", 0.1, 0.8, 0.1), Says("c", 0.2, 0.3, 0.5), count=3)
    assert shares(verdict) == pytest.approx([0.2 / 0.6, 0.3 / 0.6, 0.1 / 0.6])


def test_majority_counts_choices_and_equal_counts_tie() -> None:
    verdict = decided("majority", Says("a", 0.51, 0.49), Says("b", 0.51, 0.49), Says("c", 0.01, 0.99))
    assert (verdict.choice, shares(verdict)) == (0, pytest.approx([2 / 3, 1 / 3]))
    verdict = decided("majority", Says("a", 0.9, 0.1), Says("b", 0.2, 0.8))
    assert verdict.status is VerdictStatus.TIE
    assert decided("majority", Says("a", 0.9, 0.1), Says("b", 0.9, 0.1)).logps == pytest.approx((0.0, FLOOR))


def test_a_member_that_ties_shares_its_choice_out() -> None:
    verdict = decided("majority", Says("a", 0.5, 0.5), Says("b", 0.2, 0.8), Says("c", 0.2, 0.8))
    assert shares(verdict) == pytest.approx([0.5 / 3, 2.5 / 3])
    assert decided("majority", Says("a", 0.5, 0.5), Says("b", 0.5, 0.5)).status is VerdictStatus.TIE


def test_a_quorum_must_choose_the_same_answer() -> None:
    members = [Says("a", 0.9, 0.1), Says("b", 0.8, 0.2), Says("c", 0.1, 0.9)]
    assert decided("quorum", *members, quorum=2).choice == 0
    verdict = decided("quorum", *members, quorum=3)
    assert verdict.status is VerdictStatus.ABSTAIN
    assert verdict.evidence["reason"] == "no answer was chosen by 3 of 3 members"
    tied = decided("quorum", Says("a", 0.9, 0.1), Says("b", 0.5, 0.5), Says("c", 0.1, 0.9), quorum=2)
    assert tied.status is VerdictStatus.ABSTAIN


@pytest.mark.parametrize("rule", ["mean", "median", "majority", "quorum"])
def test_who_cannot_decide_leaves_and_nothing_stands_in_for_it(rule: PanelRule) -> None:
    broken = Says("c", status=VerdictStatus.PARSE_ERROR)
    verdict = decided(rule, Says("a", 0.8, 0.2), Says("b", 0.8, 0.2), broken)
    assert verdict.choice == 0
    assert shares(verdict)[0] == pytest.approx(1.0 if rule in ("majority", "quorum") else 0.8)


def test_below_its_quorum_a_panel_says_why_it_cannot_decide() -> None:
    verdict = decided("mean", Says("a", 0.8, 0.2), *(Says(f"{s}", status=s) for s in UNDECIDABLE))
    assert verdict.status is VerdictStatus.ABSTAIN
    assert verdict.evidence["reason"] == (
        "1 of 3 members decided, the quorum is 2 (1 abstain, 1 parse_error)"  # nothing is said of who did
    )
    assert decided("mean", Says("a", 0.8, 0.2), Says("b", status=UNDECIDABLE[0]), quorum=1).choice == 0
    alike = decided("mean", *(Says(name, status=VerdictStatus.TRANSPORT) for name in "ab"))
    assert alike.status is VerdictStatus.TRANSPORT


def test_the_verdicts_of_members_are_kept() -> None:
    verdict = decided("mean", Says("a", 0.8, 0.2), Breaks("b"), Says("c", 0.6, 0.4, scores=(1.0, 0.5)))
    first, second, third = verdict.evidence["members"]
    assert (first["judge"], first["status"], first["stated"]) == ("a", "scored", None)
    assert first["logps"] == [math.log(0.8), math.log(0.2)]
    assert (second["status"], second["evidence"]["reason"]) == ("transport", "BackendError: out of memory")
    assert third["scores"] == [1.0, 0.5]
    assert (verdict.evidence["rule"], verdict.evidence["quorum"]) == ("mean", 2)


def test_scores_are_pooled_where_all_members_give_them_and_choices_are_not_counted() -> None:
    members = [Says("a", 0.8, 0.2, scores=(3.0, 1.0)), Says("b", 0.6, 0.4, scores=(2.0, 1.5))]
    assert decided("mean", *members).scores == pytest.approx((2.5, 1.25))
    assert decided("majority", *members).scores == ()
    assert decided("mean", *members, Says("c", 0.5, 0.5)).scores == ()


def test_where_there_are_no_answers_scores_are_pooled_and_choices_cannot_be_counted() -> None:
    members = [Says(name, scores=(score,)) for name, score in (("a", 1.0), ("b", 2.0), ("c", 9.0))]
    for member in members:
        member.one = lambda member=member: Verdict(VerdictStatus.SCORED, member.name, scores=member.scores)  # type: ignore[method-assign,misc]
    view = JudgeView("k", "?", (), [Statement("ann", None, "so")])
    assert ask_judge(Panel(members, "mean"), [view])[0].scores == (4.0,)
    assert ask_judge(Panel(members, "median"), [view])[0].scores == (2.0,)
    (verdict,) = ask_judge(Panel(members, "majority"), [view])
    assert "no answers to choose between" in verdict.evidence["reason"]


def test_only_members_that_need_the_label_are_shown_it() -> None:
    blind, seeing = Says("a", 0.8, 0.2), Sees("b", 0.8, 0.2)
    panel = Panel([blind, seeing])
    assert panel.sees_label
    panel.judge([case(label=1)])
    assert (blind.labels, seeing.labels) == ({None}, {1})
    assert not Panel([blind, Says("c", 1, 0)]).sees_label


def test_a_panel_waits_for_members_from_afar_and_asks_the_others_in_batches() -> None:
    near, afar = Says("a", 0.9, 0.1), FromAfar("b", 0.5, 0.5)
    panel = AsyncPanel([near, afar])
    verdicts = ask_judge(panel, [case(str(number)) for number in range(5)])
    assert [shares(verdict) for verdict in verdicts] == [pytest.approx([0.7, 0.3])] * 5
    assert (near.calls, afar.calls) == ([5], [1] * 5)
    assert ask_judge(panel, [case()])[0].choice == 0, "in another event loop too"


def test_a_person_on_a_panel_is_asked_where_ctrl_c_reaches() -> None:
    class Person(Says):
        interactive = True
        threads: ClassVar[set[str]] = set()

        def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
            self.threads.add(threading.current_thread().name)
            return super().judge(views)

    panel = AsyncPanel([Person("a", 0.9, 0.1), FromAfar("b", 0.5, 0.5)])
    assert panel.interactive
    asyncio.run(panel.verdict(case()))
    assert Person.threads == {threading.current_thread().name}


def test_a_panel_from_afar_plays_in_the_engine() -> None:
    near = Says("a", 0.9, 0.1)
    panel = AsyncPanel([near, FromAfar("b", 0.3, 0.7)])
    agent = ScriptedAgent("so", lambda ask: "so")
    plans = [
        Plan(
            f"{number}",
            Task(f"{number}", {"question": "?", "answers": ("x", "y")}, 0),
            {"proponent": agent, "opponent": agent},
        )
        for number in range(20)
    ]
    episodes = Engine(load_protocol("debate", {"rounds": 1}), panel, seed=0).play(plans)
    assert [episode.verdict and episode.verdict.choice for episode in episodes] == [0] * 20
    assert sum(near.calls) == 20


def test_a_bug_of_a_member_ends_the_wait() -> None:
    class Buggy(Says):
        def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
            raise KeyError("bug")

    with pytest.raises(KeyError):
        ask_judge(AsyncPanel([Buggy("a"), FromAfar("b", 0.5, 0.5)]), [case("1"), case("2")])


@pytest.mark.parametrize("rule", ["mean", "median", "majority", "quorum"])
@pytest.mark.parametrize("kind", [Panel, AsyncPanel])
def test_panels_keep_the_promises_of_judges(kind: type[Panel | AsyncPanel], rule: PanelRule) -> None:
    members = [Says("a", 0.9, 0.1), FromAfar("b", 0.3, 0.7), JUDGES.build("biased:accuracy=.6")]
    check_judge(kind(members, rule), lambda: [case(str(number), label=number % 2) for number in range(8)])


def test_nearly_equal_means_are_a_tie_like_equal_ones() -> None:
    verdict = decided("mean", *(Says(str(number), *pair) for number, pair in enumerate([(0.1, 0.9), (0.9, 0.1)] * 3)))
    assert verdict.status is VerdictStatus.TIE
    assert verdict.logps[0] == verdict.logps[1]


def test_specs_name_panels() -> None:
    built = JUDGES.build("panel:judges=[exact, 'biased:accuracy=.7,position=.1'],rule=majority,quorum=1")
    assert isinstance(built, Panel)
    assert [member.name.partition("@")[0] for member in built.members] == ["exact", "biased"]
    nested = JUDGES.build({"kind": "panel", "judges": ["match", {"kind": "panel", "judges": ["exact", "biased"]}]})
    assert isinstance(nested, Panel)
    assert nested.sees_label


def test_an_ensemble_has_seeds_that_follow_each_other() -> None:
    ensemble: Any = JUDGES.build("panel:judge='biased:accuracy=.7',n=3", seed=5)
    alone = [JUDGES.build(f"biased:accuracy=.7,seed={seed}").name for seed in (5, 6, 7)]
    assert [member.name for member in ensemble.members] == alone
    given: Any = JUDGES.build("panel:judge='biased:accuracy=.7,seed=6',n=2", seed=5)
    assert [member.name for member in given.members] == alone[1:]


def test_the_name_of_a_panel_changes_with_members_rule_and_quorum() -> None:
    specs = ["judges=[exact, match]", "judges=[match, biased]", "judges=[exact, match],rule=median"]
    specs.append("judges=[exact, match],quorum=1")
    assert len({JUDGES.build(f"panel:{spec}").name for spec in specs}) == 4


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("panel", "needs either judges="),
        ("panel:judges=[exact, match],judge=exact,n=2", "needs either judges="),
        ("panel:judge=biased", "needs either judges="),
        ("panel:judges=[exact]", "a longer list"),
        ("panel:judges=[exact, exact]", "2 members of a panel are the same instrument, exact@"),
        ("panel:judges=[exact, exat]", "member 2 of judge 'panel': 'exat' is not a known judge. Did you mean 'exact'"),
        ("panel:judge=exact,n=3", "judge 'exact' takes no seed, so 3 of it would be one"),
        ("panel:judges=[exact, match],quorum=3", "quorum=3 of 2 members: write a number from 1 to 2"),
        ("panel:judges=[exact, match],rule=quorum,quorum=1", "two answers could both reach it"),
        ("panel:judges=[exact, match],rule=best", "'rule' of judge 'panel' must be"),
    ],
)
def test_panels_that_cannot_be_are_refused(spec: str, told: str) -> None:
    with pytest.raises(ConfigError) as error:
        JUDGES.build(spec)
    assert told in str(error.value)
