import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from arena.protocols.errors import ConfigError
from arena.statistics import clustered_proportion, mean_interval, wilson


def test_wilson_agrees_with_scipy():
    from scipy.stats import binomtest

    for successes, n in [(7, 10), (0, 5), (12, 12), (1, 1000), (613, 1200)]:
        theirs = binomtest(successes, n).proportion_ci(method="wilson")
        ours = wilson(successes, n)
        assert (ours.value, ours.n) == (successes / n, n)
        assert ours.low == pytest.approx(theirs.low, abs=1e-12)
        assert ours.high == pytest.approx(theirs.high, abs=1e-12)


def test_nothing_tried_is_nothing_known():
    nothing = wilson(0, 0)
    assert math.isnan(nothing.value)
    assert (nothing.low, nothing.high, nothing.n) == (0, 1, 0)
    assert clustered_proportion([], []).n == 0


def test_independent_scores_give_plain_wilson():
    scores = [1, 0, 1, 1, 1, 0, 1, 1, 0, 1]
    ours, plain = clustered_proportion(scores, range(10)), wilson(7, 10)
    assert (ours.low, ours.high) == pytest.approx((plain.low, plain.high), rel=1e-12)


def test_copies_of_a_score_add_no_certainty():
    rng = np.random.default_rng(0)
    scores = (rng.random(200) < 0.7).astype(float)
    once = clustered_proportion(scores, range(200))
    five = clustered_proportion(np.repeat(scores, 5), np.repeat(np.arange(200), 5).tolist())
    assert five.n == 1000
    assert five.value == once.value
    assert (five.low, five.high) == pytest.approx((once.low, once.high), rel=2e-3)


def test_all_right_counts_clusters_not_scores():
    assert clustered_proportion([1] * 40, [i // 4 for i in range(40)]).low == pytest.approx(wilson(10, 10).low)
    assert clustered_proportion([1, 1, 1], ["a", "a", "a"]).low == pytest.approx(wilson(1, 1).low)


def test_coverage_with_clusters():
    # 60 questions, each judged 4 times with a rate of its own: beta(3.5, 1.5) has mean 0.7.
    rng = np.random.default_rng(1)
    trials, clusters = 400, np.repeat(np.arange(60), 4).tolist()
    hits = plain_hits = 0
    for _ in range(trials):
        scores = rng.random(240) < np.repeat(rng.beta(3.5, 1.5, size=60), 4)
        interval, plain = clustered_proportion(scores, clusters), wilson(scores.sum(), 240)
        hits += interval.low <= 0.7 <= interval.high
        plain_hits += plain.low <= 0.7 <= plain.high
    assert binom.cdf(hits, trials, 0.95) > 1e-3
    assert plain_hits < hits


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.integers(0, 5)), min_size=1, max_size=60))
def test_intervals_hold_their_estimate(scored):
    scores, clusters = zip(*scored, strict=True)
    interval = clustered_proportion(scores, clusters)
    assert 0 <= interval.low <= interval.value + 1e-12
    assert interval.value - 1e-12 <= interval.high <= 1
    assert interval.value == pytest.approx(sum(scores) / len(scores))


def test_mean_interval_is_seeded_and_wider_with_clusters():
    values = np.repeat(np.random.default_rng(2).normal(size=50), 8)
    clusters = np.repeat(np.arange(50), 8).tolist()
    clustered = mean_interval(values, clusters, seed=3)
    assert clustered == mean_interval(values, clusters, seed=3)
    # Standard error of a mean of 50 values of variance s2 is sqrt(s2 / 50).
    expected = 2 * 1.96 * values.std() / math.sqrt(50)
    assert clustered.high - clustered.low == pytest.approx(expected, rel=0.1)
    alone = mean_interval(values, seed=3)
    assert alone.high - alone.low < 0.5 * (clustered.high - clustered.low)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wilson(5, 4), "not a proportion"),
        (lambda: clustered_proportion([1, 0], ["a"]), "2 scores and 1 clusters"),
        (lambda: clustered_proportion([1, math.nan], ["a", "b"]), "leave undecidable verdicts out"),
        (lambda: clustered_proportion([2.0], ["a"]), r"lie in \[0, 1\]"),
    ],
)
def test_faults_are_told(call, message):
    with pytest.raises(ConfigError, match=message):
        call()
