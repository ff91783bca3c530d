"""Simulations behind the numbers of ratings.py: error rates of sequential tests, and games that adaptive pairing saves.

Nothing is played here: games are drawn from known strengths, so that what is found can be compared with what is true.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from arena.decisions import Sprt, expected_score, fixed_size, pentanomial_llr
from arena.scheduling.adaptive import most_informative, posterior

Floats = NDArray[np.float64]

_SCORES = np.arange(5) / 4
"""Mean score a game of a pair's five results."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """How the two games of a pair come out."""

    ties: float = 0.2
    """Share of games between equals that nobody wins."""
    seat: float = 60.0
    """Elo points that the first seat is worth."""
    question: float = 150.0
    """Standard deviation in Elo points of what a question adds to its better-suited side, in both games of its pair."""

    def shares(self, elo: float) -> Floats:
        """[5]: probabilities that the pair is worth 0, 0.5, 1, 1.5, 2 to B, whose mean score is that of ``elo``.

        The questions' effect makes the mean score flatter than the strengths say, so the strength is found for which
        the mean is right.
        """
        from scipy.optimize import brentq

        target = expected_score(elo)
        return self.played(brentq(lambda x: float(self.played(x) @ _SCORES) - target, elo - 2000, elo + 2000))

    def played(self, strength: float) -> Floats:
        """[5]: the same where B is ``strength`` Elo points better on a question that suits both sides alike."""
        nodes_Q, weights_Q = np.polynomial.hermite_e.hermegauss(21)
        total = np.zeros(5)
        for node, weight in zip(nodes_Q, weights_Q / weights_Q.sum(), strict=True):
            gap = strength + node * self.question
            total += weight * np.convolve(self._game(gap + self.seat), self._game(gap - self.seat))
        return total

    def _game(self, elo: float) -> Floats:
        """[3]: lost, tied, won, as in Davidson's model."""
        win, lose = math.exp(elo * math.log(10) / 800), math.exp(-elo * math.log(10) / 800)
        tie = 2 * self.ties / (1 - self.ties)
        return np.array([lose, tie, win]) / (win + lose + tie)


@dataclass(frozen=True, slots=True)
class SprtErrors:
    """What a sequential test does when it is repeated many times."""

    alpha: float
    """Share of tests that decided H1 where H0 is true."""
    beta: float
    """Share that decided H0 where H1 is true."""
    pairs_h0: float
    """Mean number of pairs where H0 is true."""
    pairs_h1: float
    fixed: float
    """Pairs of the test of fixed size with the same nominal errors."""
    undecided: int
    """Tests that had not ended at the limit."""


def sprt_errors(test: Sprt, pairs: Pairs, *, repeats: int = 2000, seed: int = 0, limit: int = 20) -> SprtErrors:
    """Error rates and mean length of a pentanomial test over simulated matches.

    Args:
        test: bounds and error rates.
        pairs: how games come out.
        repeats: tests under either hypothesis.
        seed: of the draws.
        limit: a test is given up at this many times the fixed size.
    """
    rng = np.random.default_rng(seed)
    shares0, shares1 = pairs.shares(test.elo0), pairs.shares(test.elo1)
    variance = max(float(p @ _SCORES**2 - (p @ _SCORES) ** 2) for p in (shares0, shares1))
    fixed = fixed_size(test, variance)
    for0, length0 = _lengths(test, shares0, rng, repeats, int(limit * fixed))
    for1, length1 = _lengths(test, shares1, rng, repeats, int(limit * fixed))
    undecided = int((for0 == 0).sum() + (for1 == 0).sum())
    return SprtErrors(
        float((for0 > 0).mean()),
        float((for1 < 0).mean()),
        float(length0.mean()),
        float(length1.mean()),
        fixed,
        undecided,
    )


def _lengths(
    test: Sprt, shares_5: Floats, rng: np.random.Generator, repeats: int, limit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """[R] 1 for H1, -1 for H0, 0 for none; [R] pairs until then. All tests go on in step."""
    decision_R, length_R = np.zeros(repeats, dtype=np.int64), np.full(repeats, limit)
    running, counts_R5 = np.arange(repeats), np.zeros((repeats, 5))
    for step in range(1, limit + 1):
        drawn = rng.choice(5, size=len(running), p=shares_5)
        counts_R5[np.arange(len(running)), drawn] += 1
        llr_R = pentanomial_llr(counts_R5, test.elo0, test.elo1)
        sign_R = np.where(llr_R >= test.upper, 1, np.where(llr_R <= test.lower, -1, 0))
        ended_R = sign_R != 0
        decision_R[running[ended_R]], length_R[running[ended_R]] = sign_R[ended_R], step
        running, counts_R5 = running[~ended_R], counts_R5[~ended_R]
        if not len(running):
            break
    return decision_R, length_R


@dataclass(frozen=True, slots=True)
class AdaptiveShare:
    """What adaptive pairing saves."""

    share: float
    """Games after which it ranks as well as the whole round robin, for good, as a share of that one's games; 1 where
    that does not come within three quarters of them."""
    round_robin: float
    """Kendall's tau of the round robin's ranking with the true one, averaged over the repeats."""
    at_half: float
    """The same of the adaptive schedule after half of the games."""
    curve: list[float]
    """The same after each round."""


def adaptive_share(
    *,
    agents: int = 20,
    spread: float = 300.0,
    tasks: int = 20,
    pairs: Pairs | None = None,
    repeats: int = 60,
    seed: int = 0,
) -> AdaptiveShare:
    """Games that `most_informative` needs for the rank accuracy of a round robin.

    Both schedules have the same agents, play pairs of games that come out by the same law, and are ranked by the same
    fit. The adaptive one picks as many pairings a round as there are agents, each pairing on a new task.

    Args:
        agents: how many; their strengths are the quantiles of a normal distribution, in random order.
        spread: its standard deviation in Elo points. With a small one all pairings are about equally informative and
            little can be saved.
        tasks: pairs of games of each pairing in the round robin.
        pairs: how games come out; None: with ties, a better seat and questions that suit one side.
        repeats: tournaments to average.
        seed: of the draws.
    """
    law = pairs or Pairs()
    found = [_both_schedules(agents, spread, tasks, law, np.random.default_rng([seed, r])) for r in range(repeats)]
    target = float(np.mean([whole for whole, _ in found]))
    curve = np.mean([curve for _, curve in found], axis=0)
    behind = np.flatnonzero(curve < target)
    rounds = int(behind[-1]) + 2 if len(behind) else 1
    total = tasks * agents * (agents - 1) / 2
    share = rounds * agents / total if rounds <= len(curve) else 1.0
    return AdaptiveShare(share, target, float(curve[round(total / 2 / agents) - 1]), curve.tolist())


def _both_schedules(
    agents: int, spread: float, tasks: int, law: Pairs, rng: np.random.Generator
) -> tuple[float, list[float]]:
    """Kendall's tau of one round robin, and of the adaptive schedule after each round."""
    from scipy.stats import kendalltau, norm

    strength_P = rng.permutation(norm.ppf((np.arange(agents) + 0.5) / agents, scale=spread))
    edges_PP5 = np.array([[law.played(a - b).cumsum() for b in strength_P] for a in strength_P])

    def tau(points_PP: Floats) -> float:
        return float(kendalltau(posterior(points_PP)[0], strength_P).statistic)

    def play(points_PP: Floats, i: int, j: int) -> None:
        won = min(4, int(np.searchsorted(edges_PP5[i, j], rng.random()))) / 2
        points_PP[i, j] += won
        points_PP[j, i] += 2 - won

    points_PP = np.zeros((agents, agents))
    for i, j in itertools.combinations(range(agents), 2):
        for _ in range(tasks):
            play(points_PP, i, j)
    whole = tau(points_PP)
    points_PP, curve = np.zeros((agents, agents)), []
    for number in range(tasks * (agents - 1) * 3 // 8):  # rounds of as many pairings as agents, to three quarters
        for i, j in most_informative(range(agents), points_PP, 1.0, agents, number):
            play(points_PP, i, j)
        curve.append(tau(points_PP))
    return whole, curve
