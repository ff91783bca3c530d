"""Fits beside other libraries and beside plain formulas, at sizes where each way to the maximum is taken."""

import math

import numpy as np
import pytest

from arena.protocols.errors import ConfigError
from arena.ratings import MatchCounter, bradley_terry, fit_counts
from arena.ratings.likelihood import Tally, pairs_of
from arena.ratings.local import SparsePairs
from arena.ratings.newton import maximise

choix = pytest.importorskip("choix")
evalica = pytest.importorskip("evalica")


def games(players, number, *, ties=0.0, spread=0.4, seed=0, near=None):
    """[N, 3] of random pairs; ``near`` lets only neighbours so far apart meet."""
    rng = np.random.default_rng(seed)
    strength = rng.normal(0, spread, players)
    first = rng.integers(0, players, number)
    second = (first + rng.integers(1, near + 1 if near else players, number)) % players
    score = (rng.random(number) < 1 / (1 + np.exp(strength[second] - strength[first]))).astype(float)
    return np.column_stack([first, second, np.where(rng.random(number) < ties, 0.5, score)])


def slopes(table, fit):
    """Derivatives of Davidson's log-likelihood by every strength, and by log nu, game by game."""
    i, j, score = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2]
    half = (fit.theta[i] - fit.theta[j]) / 2
    z = np.exp(half) + np.exp(-half) + fit.nu
    expected = (np.exp(half) + fit.nu / 2) / z
    by_theta = np.bincount(i, score - expected, len(fit.theta)) - np.bincount(j, score - expected, len(fit.theta))
    return np.append(by_theta, ((score == 0.5) - fit.nu / z).sum())


@pytest.mark.parametrize(
    ("players", "number", "near"),
    [(5, 400, None), (120, 20_000, None), (300, 60_000, None), (300, 30_000, 4), (5_000, 150_000, None)],
    ids=["direct", "dense", "large dense", "sparse ring", "thousands"],
)
@pytest.mark.parametrize("ties", [0.0, 0.3])
def test_the_maximum_is_reached(players, number, near, ties):
    table = games(players, number, ties=ties, near=near)
    fit = bradley_terry(players, table)
    assert np.abs(slopes(table, fit)).max() < 1e-7
    assert fit.theta.sum() == pytest.approx(0, abs=1e-9)
    assert (fit.nu > 0) == (ties > 0)


def loglik(table, fit):
    """Davidson's log-likelihood, game by game."""
    i, j, score = table[:, 0].astype(int), table[:, 1].astype(int), table[:, 2]
    half = (fit.theta[i] - fit.theta[j]) / 2
    with np.errstate(divide="ignore"):
        logits = np.stack([-half, np.full_like(half, np.log(fit.nu)), half])
    return (logits[(2 * score).astype(int), np.arange(len(score))] - np.log(np.exp(logits).sum(0))).sum()


@pytest.mark.parametrize("players", [5, 120])
def test_the_likelihood_is_told(players):
    table = games(players, 20_000, ties=0.3)
    fit = bradley_terry(players, table)
    assert fit.loglik == pytest.approx(loglik(table, fit), rel=1e-12)


@pytest.mark.parametrize("players", [5, 120])
@pytest.mark.parametrize("l2", [0.0, 2.0])
def test_half_wins_and_penalties(players, l2):
    table = games(players, 20_000, ties=0.3)
    fit = bradley_terry(players, table, ties="half", l2=l2)
    assert fit.nu == 0
    assert np.abs(slopes(table, fit)[:-1] - l2 * fit.theta).max() < 1e-7
    lost, won = table.copy(), table.copy()
    lost[table[:, 2] == 0.5, 2], won[table[:, 2] == 0.5, 2] = 0.0, 1.0
    assert fit.loglik == pytest.approx((loglik(lost, fit) + loglik(won, fit)) / 2, rel=1e-12)


def test_a_long_ladder_is_climbed():
    """A chain of 400 agents in which each meets the next only: strengths are sums of the log-odds of its steps."""
    table = [(k, k + 1, float(win)) for k in range(399) for win in [1] * 9 + [0]]
    fit = bradley_terry(400, table)
    np.testing.assert_allclose(fit.theta[:-1] - fit.theta[1:], math.log(9), rtol=1e-6)


def test_matrices_and_lists_see_the_same_likelihood():
    from arena.ratings.dense import DensePairs

    counter = MatchCounter()
    table = games(130, 30_000, ties=0.2, seed=3)
    counter.add_arrays(table[:, 0], table[:, 1], table[:, 2], np.zeros(len(table)), names=list(map(str, range(130))))
    counts = counter.counts()
    design, place_M, result_M = pairs_of(counts)
    columns = [np.bincount(place_M, counts.number_M * (result_M == k), len(design.first_K))[:, None] for k in range(3)]
    x_QR = np.random.default_rng(0).normal(size=(131, 1))
    x_QR[:-1] -= x_QR[:-1].mean()
    sparse = SparsePairs(design, Tally(*columns), 0.3).at(x_QR)
    dense = DensePairs.of(design, Tally(*columns), 0.3).at(x_QR)
    way_QR = np.random.default_rng(1).normal(size=(131, 1))
    np.testing.assert_allclose(dense.gradient_QR, sparse.gradient_QR, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(dense.diagonal(), sparse.diagonal(), rtol=1e-9)
    np.testing.assert_allclose(dense.apply(way_QR), sparse.apply(way_QR), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(dense.matrix(), sparse.matrix(), rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(sparse.matrix()[0] @ way_QR, sparse.apply(way_QR) + gauge(sparse, way_QR), atol=1e-8)


def gauge(local, way_QR):
    """What the matrix adds along the sum of strengths."""
    added = np.zeros_like(way_QR)
    ones = np.zeros_like(way_QR)
    ones[:-1] = 1
    added[:-1] = (local.matrix()[0] @ ones - local.apply(ones))[0, 0] / (len(ones) - 1) * way_QR[:-1].sum()
    return added


def test_choix_finds_the_same_strengths():
    table = games(40, 4_000)
    winner, loser = np.where(table[:, 2] == 1, table[:, 0], table[:, 1]), np.where(table[:, 2] == 1, *table[:, 1::-1].T)
    found = choix.ilsr_pairwise(40, list(zip(winner.astype(int), loser.astype(int), strict=True)))
    np.testing.assert_allclose(bradley_terry(40, table).theta, found - found.mean(), atol=1e-7)


def test_evalica_finds_the_same_strengths_and_ties():
    table = games(40, 6_000, ties=0.2)
    names = [f"p{k}" for k in range(40)]
    winners = [{1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}[score] for score in table[:, 2]]
    xs, ys = ([names[int(k)] for k in table[:, column]] for column in (0, 1))
    peer = evalica.newman(xs, ys, winners, tolerance=1e-9, limit=10_000)
    strengths = np.log(peer.scores.reindex(names).to_numpy())
    fit = bradley_terry(40, table)
    np.testing.assert_allclose(fit.theta, strengths - strengths.mean(), atol=1e-6)
    assert fit.nu == pytest.approx(2 * peer.v, rel=1e-6)  # Newman writes Davidson's nu as twice v


def test_a_start_changes_nothing():
    counter = MatchCounter()
    table = games(6, 500, ties=0.3)
    counter.add_arrays(table[:, 0], table[:, 1], table[:, 2], np.zeros(len(table)), names=list("abcdef"))
    counts = counter.counts()
    design, place_M, result_M = pairs_of(counts)
    tally = Tally(
        *(np.bincount(place_M, counts.number_M * (result_M == k), len(design.first_K))[:, None] for k in range(3))
    )
    far = maximise(design, tally, start_QR=np.array([[5.0, -5, 3, -3, 0, 0, 2]]).T)
    np.testing.assert_allclose(far[:6, 0], fit_counts(counts).theta, atol=1e-9)


def test_large_numbers_of_agents_that_never_lost_are_named_in_part():
    table = games(300, 60_000)
    stronger = [(300 + k, k % 300, 1.0) for k in range(40)] + [(300 + k, 300 + (k + 1) % 40, 1.0) for k in range(40)]
    with pytest.raises(ConfigError, match=r"300, 301, .* and 30 more never lost"):
        bradley_terry(340, [*table.tolist(), *stronger])
