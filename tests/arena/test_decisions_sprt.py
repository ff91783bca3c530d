import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from arena.decisions import Sprt, bernoulli_llr, expected_score, fixed_size, pentanomial_llr
from arena.protocols.errors import ConfigError

# Pairs worth 0, 0.5, 1, 1.5, 2 -> what LLR_logistic of fishtest gives (server/fishtest/stats/LLRcalc.py).
FISHTEST = [
    ((3, 20, 50, 22, 5), 0, 20, 0.04032037241670679),
    ((3, 20, 50, 22, 5), 0, 5, 0.17838022438188125),
    ((3, 20, 50, 22, 5), -10, 10, 0.9344729113889829),
    ((0, 10, 30, 12, 0), 0, 20, -0.27041453628885204),
    ((0, 10, 30, 12, 0), 0, 5, 0.085226848211516),
    ((12, 40, 60, 30, 8), 0, 20, -2.9973011351582723),
]


@pytest.mark.parametrize(("counts", "elo0", "elo1", "expected"), FISHTEST)
def test_pentanomial_ratio_is_that_of_fishtest(counts, elo0, elo1, expected):
    assert pentanomial_llr(counts, elo0, elo1) == pytest.approx(expected, abs=1e-12)


def test_pentanomial_ratio_agrees_with_a_general_optimiser():
    counts = np.array([4.0, 11, 20, 17, 9])

    def best(mean):
        found = minimize(
            lambda p: -counts @ np.log(p),
            np.full(5, 0.2),
            jac=lambda p: -counts / p,
            bounds=[(1e-9, 1)] * 5,
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1},
                {"type": "eq", "fun": lambda p: p @ (np.arange(5) / 4) - mean},
            ],
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        return -found.fun

    expected = best(expected_score(80)) - best(expected_score(-20))
    assert pentanomial_llr(counts, -20, 80) == pytest.approx(expected, abs=1e-6)


def test_many_counts_are_as_each_by_itself():
    rows = np.random.default_rng(0).integers(0, 30, size=(3, 4, 5))
    together = pentanomial_llr(rows, 0, 50)
    assert together.shape == (3, 4)
    for place in itertools.product(range(3), range(4)):
        assert together[place] == pentanomial_llr(rows[place], 0, 50)


def test_of_nothing_follows_nothing():
    assert pentanomial_llr([0, 0, 0, 0, 0], 0, 50) == 0
    assert Sprt().llr == 0
    assert Sprt().decision is None


def test_pairs_split_by_the_seat_alone_say_little_and_for_the_weaker_hypothesis():
    # 1 point a pair is what equals get: with no other result seen, B is not 50 points better.
    assert Sprt(0, 50).replay([1.0] * 10_000).decision == "H0"
    assert Sprt(-50, 0).replay([1.0] * 10_000).decision == "H1"


def test_bounds_are_walds():
    test = Sprt(alpha=0.02, beta=0.03)
    assert math.exp(test.upper) == pytest.approx(0.97 / 0.02)
    assert math.exp(test.lower) == pytest.approx(0.03 / 0.98)


def test_error_rates_of_a_symmetric_walk_are_exact():
    # Elo -d against d: each game moves the ratio by one step up or down, so that the test is the gambler's ruin
    # (Feller, volume 1, XIV.2 and 3): with step odds q / p under H0 and ends at -k and k, P(H1) = 1 / (1 + (q / p)^k).
    elo, k = 60.0, 5
    p = expected_score(-elo)
    ruin = 1 / (1 + ((1 - p) / p) ** k)
    length = k / (1 - 2 * p) * (1 - 2 * ruin)
    # Bounds between k - 1 and k steps: k steps decide.
    step = math.log((1 - p) / p)
    error = 1 / (1 + math.exp((k - 0.5) * step))
    test = {"elo0": -elo, "elo1": elo, "alpha": error, "beta": error, "model": "bernoulli"}
    assert Sprt(**test).replay([1] * 100).observed == k
    assert Sprt(**test).replay([0] * 100).observed == k

    # Enumerate: how likely each number of won games is while the test goes on.
    bounds = Sprt(**test)
    inside, wrong, games, n = {0: 1.0}, 0.0, 0.0, 0
    while sum(inside.values()) > 1e-13:
        n += 1
        after: dict[int, float] = {}
        for (won, mass), win in itertools.product(inside.items(), (True, False)):
            chance = mass * (p if win else 1 - p)
            ratio = float(bernoulli_llr([n - won - win, won + win], -elo, elo))
            if bounds.lower < ratio < bounds.upper:
                after[won + win] = after.get(won + win, 0.0) + chance
            else:
                wrong, games = wrong + chance * (ratio >= bounds.upper), games + chance * n
        inside = after
    assert wrong == pytest.approx(ruin, rel=1e-9)
    assert games == pytest.approx(length, rel=1e-9)
    assert wrong <= error


def test_a_published_sampling_plan():
    # NIST/SEMATECH e-Handbook of Statistical Methods, 6.2.6: p1 = .01, p2 = .10, alpha = .05, beta = .10 accept at
    # x = .0397 n - .9389 and reject at x = .0397 n + 1.2054: at the 24th good item, or the second of two bad ones.
    elo0, elo1 = (-400 * math.log10(1 / p - 1) for p in (0.01, 0.1))
    plan = {"elo0": elo0, "elo1": elo1, "alpha": 0.05, "beta": 0.1, "model": "bernoulli"}
    accepted, rejected = Sprt(**plan).replay([0] * 100), Sprt(**plan).replay([1] * 100)
    assert (accepted.decision, accepted.observed) == ("H0", 24)
    assert (rejected.decision, rejected.observed) == ("H1", 2)
    good, bad = Sprt(**plan).replay([0]).llr, Sprt(**plan).replay([1]).llr
    assert -good / (bad - good) == pytest.approx(0.0397, abs=5e-5)
    assert -accepted.lower / (bad - good) == pytest.approx(0.9389, abs=5e-5)
    assert accepted.upper / (bad - good) == pytest.approx(1.2054, abs=5e-5)


def test_bernoulli_ratio_of_single_games():
    s0, s1 = expected_score(0), expected_score(100)
    expected = 7 * math.log(s1 / s0) + 3 * math.log((1 - s1) / (1 - s0))
    assert float(bernoulli_llr([3, 7], 0, 100)) == pytest.approx(expected, rel=1e-12)


def test_expected_score_is_elos_table():
    # Elo 1978, table 2.11: 92 points are .63, 200 points .76, 400 points .91 (logistic form: 10 to 1).
    assert expected_score(400) == pytest.approx(10 / 11)
    assert expected_score(0) == 0.5
    assert expected_score(-200) == pytest.approx(1 - expected_score(200))


def test_a_test_replays_to_the_same_trace():
    scores = np.random.default_rng(1).choice([0, 0.5, 1, 1.5, 2], size=500, p=[0.1, 0.2, 0.25, 0.25, 0.2]).tolist()
    live = Sprt(0, 40)
    for score in scores:
        live.update(score)
    again = Sprt(0, 40).replay(scores)
    assert again == live
    assert again.decision == "H1"
    assert len(again.trace) == again.observed < 500
    assert again.trace[-1] >= again.upper
    assert max(again.trace[:-1]) < again.upper
    assert min(again.trace) > again.lower


def test_nothing_changes_after_the_decision():
    test = Sprt(0, 100).replay([2.0] * 50)
    before = test.observed
    assert test.update(0.0) == "H1"
    assert test.observed == before
    assert sum(test.counts) == before


def test_the_trace_is_the_ratio_of_the_counts_so_far():
    test = Sprt(0, 30).replay([1.5, 1, 0, 2, 1])
    assert test.trace[-1] == pytest.approx(float(pentanomial_llr([1, 0, 2, 1, 1], 0, 30)), abs=1e-12)


def test_fixed_size_is_that_of_the_normal_test():
    from statsmodels.stats.power import NormalIndPower

    # One sample: statsmodels' two-sample test with ratio 0, of the standardised difference.
    test = Sprt(0, 50, alpha=0.05, beta=0.1)
    effect = (expected_score(50) - 0.5) / math.sqrt(0.1)
    theirs = NormalIndPower(ddof=0).solve_power(effect, alpha=0.05, power=0.9, ratio=0, alternative="larger")
    assert fixed_size(test, 0.1) == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"elo0": 10, "elo1": 10}, "elo0 < elo1"),
        ({"elo0": 0, "elo1": math.inf}, "elo0 < elo1"),
        ({"alpha": 0}, "above 0"),
        ({"alpha": 0.6, "beta": 0.5}, "less than 1"),
        ({"model": "trinomial"}, "pentanomial"),
    ],
)
def test_a_test_that_cannot_work_is_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        Sprt(**arguments)


def test_a_score_that_there_is_not_is_refused():
    with pytest.raises(ConfigError, match=r"0, 0\.5, 1, 1\.5, 2"):
        Sprt().update(0.7)
    with pytest.raises(ConfigError, match="leave undecided ones out"):
        Sprt(model="bernoulli").update(0.5)
    with pytest.raises(ConfigError, match="above 0 and at most"):
        fixed_size(Sprt(), 0.3)
