import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime, minimize
from scipy.stats import kendalltau, norm

from arena.protocols.errors import ConfigError
from arena.scheduling import SCHEDULES, Result, State
from arena.scheduling.adaptive import most_informative, posterior

SPREAD = 1.5  # of the prior, in nats


def played(seed, size, games=12):
    """[P, P] points of a few games between agents of random strength."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(size=size)
    points = np.zeros((size, size))
    for i, j in itertools.combinations(range(size), 2):
        count = rng.integers(0, games)
        points[i, j] = rng.binomial(count, 1 / (1 + np.exp(strength[j] - strength[i])))
        points[j, i] = count - points[i, j]
    return points


def slope(theta, points):
    """Of minus the log posterior, written pair by pair."""
    total = theta / SPREAD**2
    for i, j in itertools.permutations(range(len(theta)), 2):
        lost = 1 / (1 + np.exp(theta[i] - theta[j]))
        total[i] -= points[i, j] * lost
        total[j] += points[i, j] * lost
    return total


def test_posterior_agrees_with_a_general_optimiser():
    points = played(0, 5)

    def minus_log(theta):
        pairs = itertools.permutations(range(5), 2)
        likelihood = sum(points[i, j] * np.logaddexp(0, theta[j] - theta[i]) for i, j in pairs)
        return likelihood + theta @ theta / (2 * SPREAD**2)

    best = minimize(
        minus_log, np.zeros(5), jac=lambda theta: slope(theta, points), method="BFGS", options={"gtol": 1e-9}
    )
    mean, covariance = posterior(points)
    np.testing.assert_allclose(mean, best.x, atol=1e-6)
    curvature = np.stack([approx_fprime(mean, lambda theta, i=i: slope(theta, points)[i], 1e-6) for i in range(5)])
    np.testing.assert_allclose(covariance, np.linalg.inv(curvature), rtol=1e-4)


def test_winners_of_everything_have_finite_strength():
    points = np.zeros((3, 3))
    points[0, 1] = points[0, 2] = points[1, 2] = 1000
    mean, covariance = posterior(points)
    assert mean[0] > mean[1] > mean[2]
    assert np.isfinite(covariance).all()


def expected_inversions(mean, covariance, after):
    """Pairs in the wrong order, by how likely the two are to be equal and the standard errors of their differences."""
    total = 0.0
    for i, j in itertools.combinations(range(len(mean)), 2):
        s, t = (np.sqrt(c[i, i] + c[j, j] - 2 * c[i, j]) for c in (covariance, after))
        total += np.sqrt(2 / np.pi) * t * norm.pdf(mean[i] - mean[j], scale=s)
    return total


def test_inversions_of_well_measured_pairs_are_those_of_an_integral():
    # The formula of the module against E Phi(-|D| / t), integrated.
    d, s, t = 0.7, 0.9, 0.05
    whole, _ = quad(lambda x: norm.cdf(-abs(x) / t) * norm.pdf(x, d, s), -6, 6, points=[0.0, d], epsabs=1e-12)
    ours = expected_inversions(np.array([d, 0.0]), np.diag([s**2, 0.0]), np.diag([t**2, 0.0]))
    assert ours == pytest.approx(whole, rel=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_the_first_pick_lowers_the_expected_inversions_most(seed):
    # Of so little information that they fall along their slope: every candidate is tried out.
    points, games = played(seed, 6), 1e-4
    mean, covariance = posterior(points)
    falls = {}
    for i, j in itertools.combinations(range(6), 2):
        chance = 1 / (1 + np.exp(mean[j] - mean[i]))
        seen = np.zeros(6)
        seen[i], seen[j] = 1, -1
        after = np.linalg.inv(np.linalg.inv(covariance) + games * chance * (1 - chance) * np.outer(seen, seen))
        falls["abcdef"[i], "abcdef"[j]] = -expected_inversions(mean, covariance, after)
    assert most_informative("abcdef", points, 1.0, 1, games=games) == [max(falls, key=falls.__getitem__)]


def test_close_neighbours_come_before_a_foregone_conclusion():
    points = np.zeros((3, 3))
    for i, j, won in ((0, 1, 15), (0, 2, 29), (1, 2, 29)):  # a and b are about equal, and far above c
        points[i, j], points[j, i] = won, 30 - won
    assert most_informative(["a", "b", "c"], points, 1.0, 2) == [("a", "b")] * 2


def test_an_unknown_newcomer_is_met():
    points = np.zeros((4, 4))
    points[:3, :3] = 20 * (1 - np.eye(3))
    picks = most_informative(["a", "b", "c", "new"], points, 1.0, 3)
    assert all("new" in pair for pair in picks)


def test_picks_of_one_round_are_spread():
    # Without any game all pairings promise the same; those already picked promise less.
    picks = most_informative(list("abcdef"), np.zeros((6, 6)), 1.0, 3, seed=4)
    assert len({name for pair in picks for name in pair}) == 6


def test_a_dear_pairing_waits():
    names, free = list("abcd"), np.zeros((4, 4))
    (first,) = most_informative(names, free, 1.0, 1, seed=1)
    cost = np.ones((4, 4))
    i, j = (names.index(name) for name in first)
    cost[i, j] = cost[j, i] = 1.01
    (other,) = most_informative(names, free, cost, 1, seed=1)
    assert other != first
    assert most_informative(names, free, 7.0, 4, seed=1) == most_informative(names, free, 1.0, 4, seed=1)


def test_only_the_pairs_that_are_left_are_picked():
    left = np.zeros((3, 3))
    left[0, 1] = left[1, 0] = 2
    left[1, 2] = left[2, 1] = 1
    picks = most_informative("abc", np.zeros((3, 3)), 1.0, 10, left=left)
    assert sorted(picks) == [("a", "b"), ("a", "b"), ("b", "c")]
    assert left[0, 1] == 2  # what was given is not changed


def test_the_choice_is_a_pure_function():
    points = played(3, 8)
    before = points.copy()
    once = most_informative(list("abcdefgh"), points, 1.0, 12, seed=5)
    assert once == most_informative(list("abcdefgh"), points, 1.0, 12, seed=5)
    assert (points == before).all()


def test_the_order_of_the_names_means_nothing():
    points, names, order = played(6, 6), np.array(list("abcdef")), np.array([3, 1, 5, 0, 2, 4])
    here = most_informative(names.tolist(), points, 1.0, 6)
    there = most_informative(names[order].tolist(), points[np.ix_(order, order)], 1.0, 6)
    assert [set(pair) for pair in here] == [set(pair) for pair in there]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"points": np.zeros((2, 3))}, r"points has shape \(2, 3\)"),
        ({"points": np.full((3, 3), -1.0)}, "0 or more"),
        ({"cost": 0.0}, "costs something"),
        ({"left": np.zeros(4)}, "left has shape"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, told):
    with pytest.raises(ConfigError, match=told):
        most_informative("abc", **({"points": np.zeros((3, 3)), "cost": 1.0, "k": 1} | arguments))


def simulated(kind, seed, *, tasks, spare=0, agents=12):
    """Kendall's tau of a schedule's ranking with the true one, and how many tasks each pair played.

    Games follow the Bradley-Terry model; strengths are the quantiles of a normal distribution of 300 Elo points.
    """
    rng = np.random.default_rng(seed)
    names = tuple(f"a{number}" for number in range(agents))
    elo_P = rng.permutation(norm.ppf((np.arange(agents) + 0.5) / agents, scale=300))
    ids = tuple(f"t{number}" for number in range(tasks + spare))
    schedule, rounds = SCHEDULES.build(kind, names=names), []
    points, depth = np.zeros((agents, agents)), np.zeros((agents, agents))
    while chosen := schedule.next_round(State(names, ids[:tasks], tuple(rounds), seed, spare=ids[tasks:])):
        results = []
        for pairing in chosen:
            i, j = names.index(pairing.first), names.index(pairing.second)
            scores = tuple(float(rng.random() < 1 / (1 + 10 ** ((elo_P[j] - elo_P[i]) / 400))) for _ in range(2))
            points[i, j] += sum(scores)
            points[j, i] += 2 - sum(scores)
            depth[i, j] += 1
            results.append(Result(pairing, scores, 2))
        rounds.append(tuple(results))
    return kendalltau(posterior(points)[0], elo_P).statistic, depth


def test_half_of_a_round_robin_ranks_as_well_if_neighbours_may_play_more_tasks():
    def mean_tau(kind, spare):
        return np.mean([simulated(kind, seed, tasks=3, spare=spare)[0] for seed in range(40)])

    whole, deep, shallow = mean_tau("round_robin", 0), mean_tau("adaptive", 12), mean_tau("adaptive", 0)
    assert deep >= whole > shallow


def test_a_share_is_of_a_round_robin_on_n_tasks_and_no_pair_passes_the_tasks_there_are():
    _, depth = simulated("adaptive", 0, tasks=3, spare=2)
    assert depth.sum() == 66 * 3 / 2
    assert depth.max() == 5
    assert SCHEDULES.build("adaptive", names=("a", "b")).reach == 5


@pytest.mark.slow
def test_it_ranks_as_well_as_a_round_robin_with_half_of_the_games():
    path = Path(__file__).parents[2] / "benchmarks" / "ratings_simulations.py"
    spec = importlib.util.spec_from_file_location("ratings_simulations", path)
    simulations = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = simulations  # dataclasses look their module up
    spec.loader.exec_module(simulations)
    found = simulations.adaptive_share(tasks=20, repeats=8)
    assert found.share <= 0.5
