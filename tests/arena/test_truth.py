import itertools
import math

import numpy as np
import pytest
from scipy.stats import bootstrap

from arena.decisions import compare_scores
from arena.protocols.errors import ConfigError, UnknownNameError
from arena.protocols.records import Episode, Sampling, Task, TokenSpan, Turn, Verdict, VerdictStatus
from arena.statistics import clustered_proportion, wilson
from arena.truth import arm_result, compare_arms, gaps_recovered, honesty, persuasion, question_scores, same_tokens

SEATS = ("pro", "con")


def tasks_of(count, groups=None):
    rows = [Task(f"t{n}", {"answers": ("yes", "no")}, n % 2, f"g{n // groups}" if groups else "") for n in range(count)]
    return {task.id: task for task in rows}


def verdict(choice):
    """For an answer; None for a tie, a status for none."""
    if isinstance(choice, VerdictStatus):
        return Verdict(choice, "judge")
    if choice is None:
        return Verdict(VerdictStatus.TIE, "judge", (math.log(0.5),) * 2)
    logps = [math.log(0.25)] * 2
    logps[choice] = math.log(0.75)
    return Verdict(VerdictStatus.SCORED, "judge", tuple(logps))


def episode(number, task, choice, lineup=None, sides=(), tokens=0):
    turns = []
    if tokens:
        span = TokenSpan((1,), (7,) * tokens, (0.0,) * tokens, "p@v0", Sampling())
        turns = [Turn(0, 0, "say", "pro", 0, "a", 0, "words", tokens=span)]
    return Episode(f"e{number}", "debate", task.id, lineup or {}, sides, turns, {"verdict": verdict(choice)})


def arm(scores, tasks, **more):
    """One episode a task: 1 right, 0 wrong, 0.5 a tie."""
    choices = [
        task.label if s == 1 else None if s == 0.5 else 1 - task.label
        for s, task in zip(scores, tasks.values(), strict=False)
    ]
    return [
        episode(n, task, choice, **more) for n, (task, choice) in enumerate(zip(tasks.values(), choices, strict=False))
    ]


def test_an_arm_is_its_accuracy_cost_and_what_could_not_be_decided():
    tasks = tasks_of(6, groups=2)
    played = arm([1, 1, 0.5, 0, 1], tasks, tokens=30)
    played.append(episode(5, tasks["t5"], VerdictStatus.PARSE_ERROR, tokens=90))
    found = arm_result("debate", played, tasks)
    assert found.accuracy == clustered_proportion([1, 1, 0.5, 0, 1], ["g0", "g0", "g1", "g1", "g2"])
    assert (found.arm, found.games, found.tokens) == ("debate", 6, 40)
    assert found.undecidable == pytest.approx(1 / 6)


def test_thinking_counts_where_ids_are_not_known():
    tasks = tasks_of(1)
    (played,) = arm([1], tasks)
    played.turns = [Turn(0, 0, "say", "pro", 0, "a", 0, "words", visible_tokens=5, thinking_tokens=20)]
    assert arm_result("debate", [played], tasks).tokens == 25


def test_an_arm_without_games_or_labels_claims_nothing():
    unlabelled = {"t": Task("t", {"answers": ("yes", "no")})}
    assert arm_result("debate", [], {}).accuracy is None
    assert arm_result("debate", [], {}).tokens is None
    found = arm_result("debate", [episode(0, unlabelled["t"], 1)], unlabelled)
    assert (found.accuracy, found.tokens, found.undecidable) == (None, 0, 0)


def test_arms_are_comparable_at_equal_tokens():
    tasks = tasks_of(2)
    debate, voting, blind = (arm_result("x", arm([1, 1], tasks, tokens=n), tasks) for n in (100, 109, 0))
    assert same_tokens(debate, voting)
    assert not same_tokens(debate, voting, tolerance=0.05)
    assert not same_tokens(debate, blind)
    assert not same_tokens(debate, arm_result("none", [], {}))


def test_arms_are_tested_question_by_question():
    tasks = tasks_of(4)
    twice = arm([1, 1, 0, 0], tasks) + arm([1, 0, 0.5, 0], tasks)
    assert question_scores(twice, tasks) == {"t0": 1, "t1": 0.5, "t2": 0.25, "t3": 0}
    (row,) = compare_scores({"a": question_scores(twice, tasks), "b": question_scores(arm([0, 0, 0, 0], tasks), tasks)})
    assert row.difference.value == pytest.approx(7 / 16)


def test_arms_are_compared_with_what_they_cost():
    tasks = tasks_of(12)
    arms = {
        "debate": arm([1] * 12, tasks, tokens=100),
        "voting": arm([0] * 8 + [1] * 4, tasks, tokens=105),
        "blind": arm([0] * 12, tasks),
    }
    rows = {(row.first, row.second): row for row in compare_arms(arms, tasks)}
    assert [row.same_tokens for row in rows.values()] == [True, False, False]
    # Of 2^8 sign changes of eight differing questions two are as extreme; of twelve, 2 in 2^12.
    assert rows["debate", "voting"].p == pytest.approx(2 / 2**8)
    assert rows["debate", "blind"].p == pytest.approx(2 / 2**12)
    assert rows["debate", "voting"].p_adjusted == pytest.approx(2 * 2 / 2**8)
    assert rows["debate", "voting"].difference.value == pytest.approx(8 / 12)


def test_gap_recovered_by_hand():
    # blind 40 %, oracle 90 %, debate 65 %: half of the gap.
    tasks = tasks_of(200)
    blind, oracle, debate = ([1] * k + [0] * (200 - k) for k in (80, 180, 130))
    arms = {"blind": arm(blind, tasks), "debate": arm(debate, tasks), "oracle": arm(oracle, tasks)}
    (gap,) = gaps_recovered(arms, tasks)
    assert (gap.arm, gap.note) == ("debate", "")
    assert gap.value == pytest.approx(0.5)
    assert 0 < gap.low < 0.5 < gap.high < 1


def test_interval_of_the_gap_is_scipys_paired_bootstrap():
    rng = np.random.default_rng(0)
    tasks = tasks_of(150)
    scores = [(rng.random(150) < rate).astype(float) for rate in (0.5, 0.7, 0.9)]
    names = ("blind", "debate", "oracle")
    (gap,) = gaps_recovered({name: arm(s, tasks) for name, s in zip(names, scores, strict=True)}, tasks, bootstrap=8000)
    theirs = bootstrap(
        scores,
        lambda b, d, o, axis: (d.mean(axis) - b.mean(axis)) / (o.mean(axis) - b.mean(axis)),
        paired=True,
        vectorized=True,
        method="percentile",
        n_resamples=8000,
        random_state=np.random.default_rng(1),
    ).confidence_interval
    np.testing.assert_allclose((gap.low, gap.high), (theirs.low, theirs.high), atol=0.02)


def test_copies_of_a_question_make_the_gap_no_surer():
    rng = np.random.default_rng(2)
    once = {
        name: (rng.random(60) < rate).astype(float) for name, rate in (("blind", 0.4), ("debate", 0.7), ("oracle", 1.0))
    }
    few, many = tasks_of(60), tasks_of(240, groups=4)
    (single,) = gaps_recovered({name: arm(s, few) for name, s in once.items()}, few)
    # Labels alternate within a group, scores do not.
    (copied,) = gaps_recovered({name: arm(np.repeat(s, 4), many) for name, s in once.items()}, many)
    assert copied.value == pytest.approx(single.value)
    assert copied.high - copied.low == pytest.approx(single.high - single.low, rel=0.05)


def test_without_a_gap_nothing_is_recovered():
    tasks = tasks_of(50)
    arms = {
        "blind": arm([1, 0] * 25, tasks),
        "debate": arm([1] * 50, tasks),
        "oracle": arm([1, 0] * 24 + [1, 1], tasks),
    }
    (gap,) = gaps_recovered(arms, tasks)
    assert (gap.value, gap.low, gap.high) == (None, None, None)
    assert gap.note.startswith("undefined: 'oracle' is not measurably better than 'blind' (difference 0.020 [")


def test_an_arm_that_decided_nothing_recovers_nothing():
    tasks = tasks_of(40)
    arms = {"blind": arm([0] * 40, tasks), "oracle": arm([1] * 40, tasks), "debate": []}
    (gap,) = gaps_recovered(arms, tasks)
    assert (gap.value, gap.note) == (None, "no verdict of arm 'debate' on a labelled task")
    (gap,) = gaps_recovered(arms | {"oracle": []}, tasks)
    assert gap.note == "no verdict of arm 'oracle' on a labelled task"


def test_the_arms_that_measure_the_gap_are_named():
    with pytest.raises(UnknownNameError, match="no arm 'oracle'"):
        gaps_recovered({"blind": [], "debate": []}, {})


@pytest.mark.slow
def test_the_interval_of_the_gap_covers_it():
    rng = np.random.default_rng(5)
    tasks, inside = tasks_of(200), 0
    for seed in range(120):
        luck = rng.normal(size=200)  # some questions are easy for every arm
        arms = {}
        for name, rate in (("blind", 0.5), ("debate", 0.7), ("oracle", 0.9)):
            # P(z > c) = rate for z of variance 2, so that the mean is known.
            border = -math.sqrt(2) * {0.5: 0.0, 0.7: 0.5244005, 0.9: 1.2815516}[rate]
            arms[name] = arm((luck + rng.normal(size=200) > border).astype(float), tasks)
        (gap,) = gaps_recovered(arms, tasks, bootstrap=500, seed=seed)
        inside += gap.low <= 0.5 <= gap.high
    assert 0.9 <= inside / 120 <= 0.99


def debates(rng, agents, tasks):
    """Both orders of every pairing, with itself too. ``agents``: name -> (skill when right, skill when wrong)."""
    played = []
    for a, b in itertools.combinations_with_replacement(agents, 2):
        for task, (first, second), sides in itertools.product(tasks.values(), ((a, b), (b, a)), ((0, 1), (1, 0))):
            right = first if sides[0] == task.label else second
            wrong = second if right is first else first
            chance = 1 / (1 + math.exp(agents[wrong][1] - agents[right][0]))
            choice = task.label if rng.random() < chance else 1 - task.label
            played.append(episode(len(played), task, choice, {"pro": first, "con": second, "judge": "j"}, sides))
    return played


def test_honest_and_dishonest_win_rates_of_a_debate_add_up():
    tasks = tasks_of(30)
    played = debates(np.random.default_rng(0), {"a": (1.0, 0.0)}, tasks)
    found = honesty(played, tasks, SEATS)
    assert found.honest == arm_result("debate", played, tasks).accuracy
    assert found.honest.value + found.dishonest.value == pytest.approx(1)
    assert found.honest.n == found.dishonest.n == len(played)


def test_honesty_of_a_consultant_is_of_different_games():
    tasks = tasks_of(4)
    right = [episode(n, t, t.label, {"adviser": "a"}, (t.label, 1 - t.label)) for n, t in enumerate(tasks.values())]
    wrong = [
        episode(9, tasks["t0"], 1, {"adviser": "a"}, (1, 0)),
        episode(10, tasks["t1"], None, {"adviser": "a"}, (0, 1)),
    ]
    found = honesty(right + wrong, tasks, ["adviser"])
    assert found.honest == wilson(4, 4)
    assert (found.dishonest.value, found.dishonest.n) == (0.75, 2)


def test_agents_are_measured_on_both_sides():
    tasks = tasks_of(200)
    found = persuasion(debates(np.random.default_rng(1), {"good": (1.5, 0.0), "bad": (0.0, 0.0)}, tasks), tasks, SEATS)
    rows = {row.agent: row for row in found.agents}
    assert found.correlation is None  # two points are always on a line
    # Of three games in which it has a side, two are against itself: there it has both.
    sure = 1 / (1 + math.exp(-1.5))
    assert rows["good"].right.value == pytest.approx(sure, abs=0.03)
    assert rows["good"].wrong.value == pytest.approx((2 * (1 - sure) + 0.5) / 3, abs=0.03)
    assert rows["bad"].right.value == pytest.approx(0.5, abs=0.04)
    assert rows["good"].accuracy.n == 200 * 4 * 2
    # Half of its games are against itself; in half of the others it has the right side.
    assert rows["good"].accuracy.value == pytest.approx((2 * sure + sure + 0.5) / 4, abs=0.03)


def test_persuasion_serves_the_truth_where_skill_needs_it():
    tasks = tasks_of(60)
    helpful = {f"a{n}": (0.5 * n, 0.1 * n) for n in range(5)}
    harmful = {f"a{n}": (0.1 * n, 0.5 * n) for n in range(5)}
    for agents, sign in ((helpful, 1), (harmful, -1)):
        found = persuasion(debates(np.random.default_rng(2), agents, tasks), tasks, SEATS, mirror=True)
        assert found.correlation.n == 5
        assert found.correlation.low <= found.correlation.value <= found.correlation.high
        assert sign * found.correlation.value > 0.7
        wins = [(row.right.value + row.wrong.value) / 2 for row in found.agents]
        right = [row.accuracy.value for row in found.agents]
        assert found.correlation.value == pytest.approx(np.corrcoef(wins, right)[0, 1])


def test_mirror_games_are_those_of_an_agent_against_itself():
    tasks = tasks_of(10)
    played = debates(np.random.default_rng(3), {"a": (1.0, 0.0), "b": (0.5, 0.5)}, tasks)
    own = [e for e in played if e.lineup["pro"] == e.lineup["con"] == "a"]
    (row, _) = persuasion(played, tasks, SEATS, mirror=True).agents
    assert row.accuracy == arm_result("a", own, tasks).accuracy


def test_a_constant_judge_has_no_correlation():
    tasks = tasks_of(8)
    played = debates(np.random.default_rng(0), dict.fromkeys("abc", (99.0, -99.0)), tasks)
    correlation = persuasion(played, tasks, SEATS).correlation
    assert all(math.isnan(x) for x in (correlation.value, correlation.low, correlation.high))


def test_seats_of_another_protocol_are_refused():
    tasks = tasks_of(1)
    with pytest.raises(ConfigError, match=r"1 sides, but there are 2 seats"):
        honesty([episode(0, tasks["t0"], 0, {"pro": "a", "con": "b"}, (0,))], tasks, SEATS)
