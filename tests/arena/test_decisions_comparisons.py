import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import false_discovery_control, permutation_test

from arena.decisions import adjusted, compare_all, compare_scores, sprt_pairs
from arena.metrics import mcnemar, paired_permutation
from arena.protocols.errors import ConfigError
from arena.ratings import Match, elo_table

multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests

P_VALUES = st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.01, 0.05, 1.0])), min_size=1, max_size=30)


@settings(max_examples=20)  # statsmodels collects garbage at every call
@given(P_VALUES)
def test_holm_agrees_with_statsmodels(p_values):
    np.testing.assert_allclose(adjusted(p_values, "holm"), multipletests(p_values, method="holm")[1], atol=1e-12)


@given(P_VALUES)
def test_benjamini_hochberg_agrees_with_scipy_and_statsmodels(p_values):
    np.testing.assert_allclose(adjusted(p_values, "bh"), false_discovery_control(p_values), atol=1e-12)
    np.testing.assert_allclose(adjusted(p_values, "bh"), multipletests(p_values, method="fdr_bh")[1], atol=1e-12)


def test_nothing_to_correct_is_nothing():
    assert adjusted([]).tolist() == []


def test_corrections_that_there_are_not_are_refused():
    with pytest.raises(ConfigError, match="holm or bh"):
        adjusted([0.1], "bonferroni")
    with pytest.raises(ConfigError, match=r"p-value 1\.5"):
        adjusted([0.2, 1.5])
    with pytest.raises(ConfigError, match="nan"):
        adjusted([0.2, float("nan")])


def round_robin(rng, strengths, tasks):
    """Both orders of every pair on every task; on some tasks the first-named does well whoever it is."""
    matches = []
    for a, b in itertools.combinations(strengths, 2):
        for task in range(tasks):
            shift = rng.normal()
            for first, second in ((a, b), (b, a)):
                gap = strengths[first] - strengths[second] + (shift if first == a else -shift)
                score = float(rng.random() < 1 / (1 + np.exp(-gap)))
                matches.append(Match(first, second, score, task=f"t{task}", pair=f"{a}|{b}/t{task}"))
    return matches


def test_all_pairs_are_compared_once():
    matches = round_robin(np.random.default_rng(0), {"a": 3.0, "b": 0.0, "c": 0.0}, 20)
    rows = compare_all(matches, bootstrap=50)
    assert [(row.first, row.second) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [(row.shared, row.difference.n) for row in rows] == [(20, 40)] * 3
    assert rows[0].p_adjusted < 0.01
    assert rows[1].p_adjusted < 0.01
    assert rows[2].p > 0.05
    np.testing.assert_allclose(
        [row.p_adjusted for row in rows], multipletests([row.p for row in rows], method="holm")[1], atol=1e-12
    )


def test_differences_are_those_of_the_ratings():
    matches = round_robin(np.random.default_rng(1), {"a": 1.0, "b": 0.0, "c": 0.5}, 30)
    points = {rating.name: rating.elo for rating in elo_table(matches, bootstrap=0)}
    for row in compare_all(matches, bootstrap=100):
        assert row.difference.value == pytest.approx(points[row.first] - points[row.second], abs=1e-6)
        assert row.difference.low < row.difference.value < row.difference.high


def test_p_of_two_agents_is_scipys_permutation_of_clusters():
    matches = round_robin(np.random.default_rng(2), {"a": 0.8, "b": 0.0}, 9)
    (row,) = compare_all(matches, bootstrap=0)
    ahead = {}
    for match in matches:
        sign = 1 if match.first == "a" else -1
        ahead[match.task] = ahead.get(match.task, 0) + sign * (2 * match.score - 1)
    theirs = permutation_test(
        (list(ahead.values()), [0.0] * 9), lambda x, y: np.sum(x) - np.sum(y), permutation_type="samples"
    )
    assert row.p == pytest.approx(theirs.pvalue, abs=1e-12)
    assert row.p_adjusted == row.p


def test_only_what_both_did_under_the_same_conditions_counts():
    # a met a strong opponent on every task, b a weak one: they have nothing in common.
    matches = [Match("a", "strong", 0.0, f"t{t}") for t in range(10)] + [
        Match("b", "weak", 1.0, f"t{t}") for t in range(10)
    ]
    matches += [Match("strong", "weak", float(t % 2), f"t{t}") for t in range(10)]
    matches += [Match("strong", "a", 0.0, "u"), Match("weak", "b", 1.0, "u")]
    rows = {(row.first, row.second): row for row in compare_all(matches, bootstrap=0)}
    apart = rows["a", "b"]
    assert (apart.p, apart.p_adjusted, apart.shared) == (None, None, 0)
    assert rows["a", "strong"].p is not None


def test_null_comparisons_are_rarely_found():
    # Five equal agents: Holm keeps the rate of any false finding at 5 % over tournaments.
    found = 0
    for seed in range(100):
        matches = round_robin(np.random.default_rng([7, seed]), dict.fromkeys("abcde", 0.0), 10)
        found += any(row.p_adjusted < 0.05 for row in compare_all(matches, bootstrap=0, l2=0.1))
    assert found <= 5 + 2.5 * np.sqrt(100 * 0.05 * 0.95)


def test_scores_are_compared_on_common_questions():
    rng = np.random.default_rng(3)
    good = {f"q{i}": float(rng.random() < 0.9) for i in range(60)}
    poor = {f"q{i}": float(rng.random() < 0.5) for i in range(10, 70)}
    other = {f"z{i}": 1.0 for i in range(5)}
    clusters = {f"q{i}": i // 2 for i in range(70)} | {f"z{i}": i for i in range(5)}
    rows = {
        (row.first, row.second): row for row in compare_scores({"good": good, "poor": poor, "other": other}, clusters)
    }
    both = [f"q{i}" for i in range(10, 60)]
    first, second = [good[q] for q in both], [poor[q] for q in both]
    row = rows["good", "poor"]
    assert row.difference.value == pytest.approx(np.mean(first) - np.mean(second))
    assert row.difference.n == 50
    assert row.p == paired_permutation(first, second, [clusters[q] for q in both])
    assert row.mcnemar == mcnemar([x == 1 for x in first], [x == 1 for x in second])
    assert row.p_adjusted == row.p  # the others could not be tested, so nothing was corrected
    assert rows["good", "other"].p is None
    assert rows["good", "other"].difference.n == 0
    assert np.isnan(rows["good", "other"].difference.value)


def test_ties_leave_no_mcnemar():
    (row,) = compare_scores({"a": {"x": 0.5, "y": 1.0}, "b": {"x": 0.0, "y": 1.0}})
    assert row.mcnemar is None
    assert row.p == 1.0  # one difference: both signs are as extreme


def test_pairs_for_a_sequential_test():
    matches = [
        Match("a", "b", 1.0, "t0", "p0"),
        Match("b", "a", 1.0, "t0", "p0"),  # each won in the first seat: 1 point for b
        Match("a", "b", 0.5, "t1", "p1"),
        Match("b", "a", 1.0, "t1", "p1"),
        Match("a", "b", 0.0, "t2", "p2"),  # the other game was not decided
        Match("a", "c", 0.0, "t0", "p3"),
    ]
    assert sprt_pairs(matches, "a", "b") == [1.0, 1.5]
    assert sprt_pairs(matches, "b", "a") == [1.0, 0.5]


def test_a_pair_has_two_games():
    with pytest.raises(ConfigError, match="3 matches share the pair key 'p'"):
        sprt_pairs([Match("a", "b", 1.0, "t", "p")] * 3, "a", "b")
