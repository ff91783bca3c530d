import math

import numpy as np
import pytest
from scipy.optimize import brentq, minimize
from scipy.stats import bootstrap, norm, t

from arena.protocols.errors import ConfigError
from arena.ratings import ELO, Match, count_matches, elo_table, fit_counts, rating_differences
from arena.ratings.bootstrap import Sample, draws, replicates
from arena.ratings.influence import influences, model_covariance
from arena.ratings.intervals import corrected_quantiles, expanded, rank_intervals
from arena.ratings.newton import maximise
from arena.ratings.profile import profile_interval

sm = pytest.importorskip("statsmodels.api")


def tournament(seed, theta, tasks, *, question=0.3, pair=0.2, nu=0.5):
    """A round robin in both orders, in which every single game follows Davidson's model exactly.

    Games about one question depend on each other by a Gaussian copula: a question suits some agents (share ``question``
    of the variance), and one pairing on it goes alike in both orders (share ``pair``).
    """
    rng = np.random.default_rng(seed)
    low, high = np.triu_indices(len(theta), 1)
    suits = rng.normal(size=(tasks, len(theta)))
    shared = math.sqrt(question / 2) * (suits[:, low] - suits[:, high])
    shared += math.sqrt(pair) * rng.normal(size=shared.shape)
    half = (theta[low] - theta[high]) / 2
    z = np.exp(half) + np.exp(-half) + nu
    matches = []
    for order in (0, 1):
        level = norm.cdf(shared + math.sqrt(1 - question - pair) * rng.normal(size=shared.shape))
        score = np.where(level > 1 - np.exp(half) / z, 1.0, np.where(level > np.exp(-half) / z, 0.5, 0.0))
        for task in range(tasks):
            for i, j, s in zip(low, high, score[task], strict=True):
                first, second = (i, j) if order == 0 else (j, i)
                matches.append(Match(f"g{first}", f"g{second}", s if order == 0 else 1 - s, f"t{task}"))
    return matches


def fitted(matches, ties="davidson"):
    sample = Sample.of(count_matches(matches), ties, 0.0)
    return sample, maximise(sample.design, sample.tally)[:, 0]


@pytest.mark.parametrize("kind", ["bootstrap", "profile"])
@pytest.mark.parametrize(("agents", "tasks"), [(4, 12), (4, 40)])
def test_clustered_intervals_cover_known_strengths(kind, agents, tasks):
    theta = np.linspace(-0.8, 0.8, agents)
    inside = naive = 0
    for seed in range(60):
        matches = tournament(seed, theta, tasks)
        table = {r.name: r for r in elo_table(matches, bootstrap=300, seed=seed, intervals=kind)}
        apart = [Match(m.first, m.second, m.score) for m in matches]
        alone = {r.name: r for r in elo_table(apart, bootstrap=100, seed=seed)} if kind == "bootstrap" else table
        for k in range(agents):
            inside += table[f"g{k}"].low <= ELO * theta[k] <= table[f"g{k}"].high
            naive += alone[f"g{k}"].low <= ELO * theta[k] <= alone[f"g{k}"].high
    assert 0.91 <= inside / 60 / agents <= 0.985  # benchmarks/ratings.py measures it with 500 tournaments
    if kind == "bootstrap":
        assert naive / 60 / agents < 0.9


def test_influences_give_the_clustered_covariance_of_statsmodels():
    matches = [m for m in tournament(1, np.array([-0.5, 0.0, 0.5]), 40) if m.score != 0.5]
    sample, x_Q = fitted(matches)
    X = np.array([[(m.first == f"g{k}") - (m.second == f"g{k}") for k in (1, 2)] for m in matches], dtype=float)
    tasks = np.array([int(m.task[1:]) for m in matches])
    logit = sm.Logit([m.score for m in matches], X)
    peer = logit.fit(disp=0, cov_type="cluster", cov_kwds={"groups": tasks, "use_correction": False})
    contrast = np.array([[-1, 1, 0, 0], [-1, 0, 1, 0]])
    moved = contrast @ influences(sample, x_Q, 0.0)
    np.testing.assert_allclose(contrast @ x_Q, peer.params, rtol=1e-6)
    np.testing.assert_allclose(moved @ moved.T, peer.cov_params(), rtol=1e-5)
    plain = contrast @ model_covariance(sample, x_Q, 0.0) @ contrast.T
    np.testing.assert_allclose(plain, logit.fit(disp=0).cov_params(), rtol=1e-5)


def test_replicates_are_fits_of_the_drawn_tasks():
    matches = tournament(2, np.array([-0.5, 0.0, 0.5]), 15)
    sample, x_Q = fitted(matches)
    found = replicates(sample, x_Q, draws(7, 15), 20, 0.0)
    names = count_matches(matches).names
    for r in (0, 11):
        weights = draws(7, 15)(r)
        assert weights.sum() == 15
        drawn = [m for m in matches for _ in range(int(weights[int(m.task[1:])]))]
        fit = dict(zip(count_matches(drawn).names, fit_counts(count_matches(drawn)).theta, strict=True))
        np.testing.assert_allclose(found[:3, r], [fit[name] for name in names], atol=1e-8)


def test_corrected_quantiles_are_the_bca_of_scipy():
    data = np.random.default_rng(0).exponential(size=30)
    peer = bootstrap((data,), np.mean, n_resamples=999, method="BCa", vectorized=True, random_state=1)
    low, high = corrected_quantiles(
        np.array([data.mean()]), peer.bootstrap_distribution[None], (data - data.mean())[None], 0.025
    )[:, 0]
    assert (low, high) == pytest.approx(peer.confidence_interval, rel=1e-9)


def test_expanded_tails():
    assert expanded(0.95, 10) == pytest.approx(norm.cdf(-math.sqrt(10 / 9) * t.ppf(0.975, 9)))
    assert expanded(0.95, 10**7) == pytest.approx(0.025, rel=1e-5)


def test_the_profile_of_two_agents_solves_its_equation():
    matches = [Match("a", "b", 1.0)] * 14 + [Match("a", "b", 0.0)] * 6
    sample, x_Q = fitted(matches)
    ends = profile_interval(sample, x_Q, 0.0, np.array([1.0, -1.0, 0.0]), 3.841)

    def drop(difference):
        def loglik(d):
            return 14 * -math.log1p(math.exp(-d)) + 6 * -math.log1p(math.exp(d))

        return 2 * (loglik(math.log(14 / 6)) - loglik(difference)) - 3.841

    assert ends == pytest.approx((brentq(drop, -3, 0.8), brentq(drop, 0.9, 5)), abs=1e-6)


def test_the_profile_of_three_lets_the_others_make_the_best_of_it():
    matches = tournament(3, np.array([-0.5, 0.0, 0.5]), 20)
    sample, x_Q = fitted(matches)
    names = list(count_matches(matches).names)
    a, b, c = (names.index(name) for name in ("g0", "g1", "g2"))
    contrast = np.zeros(4)
    contrast[[a, b]] = -1.0, 1.0

    def loglik(x):
        total = 0.0
        for m in matches:
            d = x[names.index(m.first)] - x[names.index(m.second)]
            z = np.logaddexp(np.logaddexp(d / 2, -d / 2), x[3])
            total += {1.0: d / 2, 0.0: -d / 2, 0.5: x[3]}[m.score] - z
        return total

    low, high = profile_interval(sample, x_Q, 0.0, contrast, 3.841)
    for end in (low, high):

        def given(free, end=end):
            x = np.zeros(4)
            x[a], x[b], x[c], x[3] = 0.0, end, free[0], free[1]
            return -loglik(x)

        best = minimize(given, [0.0, 0.0], method="BFGS")
        assert 2 * (loglik(x_Q) + best.fun) == pytest.approx(3.841, abs=1e-4)


def test_a_profile_that_never_falls_far_enough_has_no_end():
    matches = [Match("a", "b", 1.0)] * 3 + [Match("b", "a", 0.0)]
    sample = Sample.of(count_matches(matches), "half", 0.1)
    x_Q = maximise(sample.design, sample.tally, l2=0.1)[:, 0]
    assert profile_interval(sample, x_Q, 0.1, np.zeros(3), 1.0) == (0, 0)
    low, high = profile_interval(sample, x_Q, 1e-9, np.array([1.0, -1.0, 0.0]), 4000.0)
    assert low < 0
    assert high == math.inf


def test_an_end_beyond_all_that_was_seen_is_infinite_and_no_crash():
    """Two questions between four agents, of which one hardly played: the likelihood is nearly flat on the way out."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        matches = [
            Match(f"g{i}", f"g{j}", float(rng.choice([0.0, 0.5, 1.0])), f"t{task}")
            for task in range(2)
            for i, j in zip(*np.triu_indices(4, 1), strict=True)
            if rng.random() < 0.7
        ]
        for kind in ("profile", "bootstrap"):
            for rating in elo_table(matches, intervals=kind, bootstrap=40, ties="half", l2=0.1):
                assert rating.low <= rating.elo <= rating.high


def test_both_ways_agree_where_much_is_known():
    matches = tournament(4, np.linspace(-0.5, 0.5, 4), 150)
    by_bootstrap = elo_table(matches, bootstrap=2000, anchor="g0")
    by_profile = elo_table(matches, intervals="profile", anchor="g0")
    for one, other in zip(by_bootstrap, by_profile, strict=True):
        assert (one.name, one.rank, one.rank_low, one.rank_high) == (
            other.name,
            other.rank,
            other.rank_low,
            other.rank_high,
        )
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=6)


def test_ranks_of_agents_far_apart_are_certain_and_of_equals_are_not():
    table = elo_table(tournament(5, np.array([-3.0, -2.9, 0.0, 2.5]), 40))
    assert [(r.name, r.rank) for r in table[:2]] == [("g3", 1), ("g2", 2)]
    assert [(r.rank_low, r.rank_high) for r in table] == [(1, 1), (2, 2), (3, 4), (3, 4)]
    equal = elo_table([Match(a, b, s, f"t{n}") for n in range(20) for a, b in ("ab", "bc", "ca") for s in (0.0, 1.0)])
    assert [(r.rank, r.rank_low, r.rank_high) for r in equal] == [(1, 1, 3)] * 3


def test_rank_intervals_hold_the_true_ranks_together_with_all_differences():
    theta = np.array([0.6, 0.2, 0.15, -0.3, -0.65])
    inside = 0
    for seed in range(60):
        table = elo_table(tournament(seed, theta, 30), bootstrap=300, seed=seed)
        inside += sum(r.rank_low <= 1 + int(r.name[1:]) <= r.rank_high for r in table)
    assert inside / 300 >= 0.95


def test_a_rank_is_within_its_interval():
    theta_P = np.array([1.0, 0.2, 0.1, -1.3])
    sample_PR = theta_P[:, None] + 0.3 * np.random.default_rng(0).normal(size=(4, 500))
    best, worst = rank_intervals(theta_P, sample_PR, 0.025)
    assert all(low <= rank <= high for low, rank, high in zip(best, [1, 2, 3, 4], worst, strict=True))


def test_without_intervals_ranks_are_still_told():
    table = elo_table(tournament(6, np.array([-1.0, 0.0, 1.0]), 20), bootstrap=0)
    assert [(r.rank, r.rank_low, r.rank_high) for r in table] == [(1, 0, 0), (2, 0, 0), (3, 0, 0)]


def test_differences_are_those_to_an_anchor():
    matches = tournament(7, np.array([-0.4, 0.0, 0.7]), 30)
    found = rating_differences(matches)
    assert list(found) == [("g0", "g1"), ("g0", "g2"), ("g1", "g2")]
    anchored = {r.name: r for r in elo_table(matches, anchor="g2")}
    for name in ("g0", "g1"):
        interval = found[name, "g2"]
        assert (interval.value, interval.low, interval.high) == pytest.approx(
            (anchored[name].elo, anchored[name].low, anchored[name].high)
        )
        assert interval.n == 60


def test_an_unknown_way_is_refused():
    with pytest.raises(ConfigError, match="'bootstrap' or 'profile'"):
        elo_table([Match("a", "b", 1.0), Match("a", "b", 0.0)], intervals="wald")


def test_the_number_of_processors_changes_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    strength = rng.normal(size=120)
    matches = []
    for n in range(12_000):
        i, j = rng.choice(120, 2, replace=False)
        won = float(rng.random() < 1 / (1 + math.exp(strength[j] - strength[i])))
        matches.append(Match(f"g{i}", f"g{j}", won, f"t{n % 40}"))
    tables = []
    for processors in (1, 4):
        monkeypatch.setattr("arena.ratings.bootstrap.os.cpu_count", lambda count=processors: count)
        tables.append(elo_table(matches, bootstrap=12))
    assert tables[0] == tables[1]


def always(score, questions=4, players=("ann", "bob")):
    """Both orders of every question end alike: ``score`` for the first player."""
    first, second = players
    return [
        match
        for number in range(questions)
        for match in (
            Match(first, second, score, task=f"q{number}", pair=f"q{number}"),
            Match(second, first, 1 - score, task=f"q{number}", pair=f"q{number}"),
        )
    ]


@pytest.mark.parametrize("kind", ["bootstrap", "profile"])
def test_questions_that_all_ended_alike_are_no_reason_to_be_sure(kind):
    # The first seat wins everything: resamples of whole questions are all the same. What is left is the likelihood
    # of 8 matches, 4 of them won, which at the ends has fallen by half of t squared, times C / (C - 1).
    matches = [Match(*pair, 1.0, task=f"q{n}") for n in range(4) for pair in (("ann", "bob"), ("bob", "ann"))]
    ann, _ = elo_table(matches, bootstrap=50, intervals=kind)
    drop = 4 / 3 * t.ppf(0.975, 3) ** 2

    end = brentq(lambda gap: 2 * 4 * (np.logaddexp(0, gap) + np.logaddexp(0, -gap)) - 16 * math.log(2) - drop, 0, 20)
    assert (ann.low, ann.high) == pytest.approx((-end / 2 * ELO, end / 2 * ELO), rel=1e-5)
    assert (ann.rank_low, ann.rank_high) == (1, 2)


@pytest.mark.parametrize("kind", ["bootstrap", "profile"])
def test_who_won_all_of_a_few_questions_may_be_much_better_or_a_little(kind):
    ann, bob = elo_table(always(1.0, questions=3), bootstrap=50, l2=0.1, intervals=kind)
    assert ann.low < ann.elo - 50
    assert ann.high > ann.elo + 50
    assert (bob.low, bob.high) == pytest.approx((-ann.high, -ann.low))
    # Six wins, of which the two of a question may be one fact: three heads in a row happen once in four times.
    assert (ann.rank_low, ann.rank_high) == (1, 2)
    ann, _ = elo_table(always(1.0, questions=40), bootstrap=50, l2=0.1, intervals=kind)
    assert (ann.rank_low, ann.rank_high) == (1, 1)


def test_of_many_players_a_normal_approximation_stands_in(monkeypatch):
    # Of equals it is the profile, nearly: the likelihood is a parabola where much is known.
    matches = [Match(*pair, 1.0, task=f"q{n}") for n in range(40) for pair in (("ann", "bob"), ("bob", "ann"))]
    exact, _ = elo_table(matches, bootstrap=50)
    monkeypatch.setattr("arena.ratings.intervals._PROFILED", 1)
    normal, _ = elo_table(matches, bootstrap=50)
    error = math.sqrt(40 / 39 / (80 / 4)) * t.ppf(0.975, 39)  # of a difference; 80 matches tell 1/4 each about it
    assert (normal.low, normal.high) == pytest.approx((-error / 2 * ELO, error / 2 * ELO))
    assert normal.high == pytest.approx(exact.high, rel=0.02)


def test_differences_that_are_large_have_profiles_too():
    # Of two players, a rating is half of the difference.
    matches = [*always(1.0, questions=20), *always(0.0, questions=1)]
    ann, _ = elo_table(matches, bootstrap=20, intervals="profile")
    (difference,) = rating_differences(matches, bootstrap=20, intervals="profile").values()
    assert ann.high - ann.elo > 100
    assert (difference.low, difference.value, difference.high) == pytest.approx(
        (2 * ann.low, 2 * ann.elo, 2 * ann.high)
    )
