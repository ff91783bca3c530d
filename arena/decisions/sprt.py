"""Sequential tests of "is B better than A": as few games as the evidence allows, with error rates chosen beforehand.

Two hypotheses about B's Elo against A, H0: elo0 (or less) and H1: elo1 (or more). After each observation the
log-likelihood ratio of H1 to H0 is compared with Wald's bounds (Wald 1945, equation 3.23)

    lower = log(beta / (1 - alpha)),   upper = log((1 - beta) / alpha)

and the first bound that is crossed decides. The expected score of B under a hypothesis is s = 1 / (1 + 10^(-elo/400)).

* ``pentanomial``: the observation is a pair of games about one task with seats exchanged, worth 0, 0.5, 1, 1.5 or 2
  points to B. The games of a pair are not independent and ties have no rate that is known beforehand, so the ratio
  is that of the two maximum-likelihood distributions over the five scores whose means are s0 and s1: the generalised
  SPRT (Van den Bergh, "The generalized maximum likelihood ratio for the expectation value of a distribution", 2020,
  proposition 1.1), whatever correlation and tie rate there are.
* ``bernoulli``: the observation is one game that was won or lost, and the test is Wald's own: exact likelihoods.

The unit of a test is independent of the others: give one pair a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = ["Sprt", "bernoulli_llr", "expected_score", "fixed_size", "pentanomial_llr"]

Decision = Literal["H0", "H1"]
Model = Literal["pentanomial", "bernoulli"]
Floats = NDArray[np.float64]

_UNSEEN = 1e-3  # pairs: what a score that did not occur yet counts, so that no mean is impossible
_HALVINGS = 60
_FARTHEST = 2000.0
"""Elo points of a bound; far beyond, a score is 0 or 1 to the last digit."""
_POINTS = {"pentanomial": (0.0, 0.5, 1.0, 1.5, 2.0), "bernoulli": (0.0, 1.0)}


def expected_score(elo: float) -> float:
    """Mean score of a game, ties one half, for who is ``elo`` points better."""
    return 1 / (1 + 10 ** (-elo / 400))


@dataclass(slots=True)
class Sprt:
    """One sequential test, fed one observation after the other.

    The same observations in the same order give the same trace and decision, so a test need not be stored: replay it.
    """

    elo0: float = 0.0
    """H0: B is this many points better than A, or fewer."""
    elo1: float = 50.0
    """H1: B is this many points better, or more."""
    alpha: float = 0.05
    """Largest probability of deciding H1 where H0 holds."""
    beta: float = 0.05
    """Largest probability of deciding H0 where H1 holds."""
    model: Model = "pentanomial"
    """What an observation is: a pair of games, or one game without ties."""
    trace: list[float] = field(default_factory=list, init=False)
    """Log-likelihood ratio of H1 to H0 in nats after each observation, up to the one that decided."""
    decision: Decision | None = field(default=None, init=False)
    """None while the evidence is not enough."""
    counts: list[int] = field(default_factory=list, init=False)
    """How often each score was observed, lowest first."""

    def __post_init__(self) -> None:
        if self.model not in _POINTS:
            raise ConfigError(f"model={self.model!r}: write pentanomial (pairs of games) or bernoulli (single games)")
        if not (math.isfinite(self.elo0) and math.isfinite(self.elo1) and self.elo0 < self.elo1):
            raise ConfigError(
                f"elo0={self.elo0} and elo1={self.elo1}: a test needs elo0 < elo1, such as 0 and 50; the closer "
                f"they are, the more games it takes"
            )
        if max(abs(self.elo0), abs(self.elo1)) > _FARTHEST:
            raise ConfigError(
                f"elo0={self.elo0} and elo1={self.elo1}: bounds are within {_FARTHEST:.0f} Elo points of 0, where who "
                f"is better loses one game of 100,000; differences worth a test are of 10 to 400"
            )
        if not (self.alpha > 0 and self.beta > 0 and self.alpha + self.beta < 1):
            raise ConfigError(
                f"alpha={self.alpha} and beta={self.beta}: error rates are above 0 and sum to less than 1"
            )
        self.counts = [0] * len(_POINTS[self.model])

    @property
    def lower(self) -> float:
        """H0 is decided at this log-likelihood ratio or below."""
        return math.log(self.beta / (1 - self.alpha))

    @property
    def upper(self) -> float:
        """H1 is decided at this log-likelihood ratio or above."""
        return math.log((1 - self.beta) / self.alpha)

    @property
    def llr(self) -> float:
        """The log-likelihood ratio now, in nats."""
        return self.trace[-1] if self.trace else 0.0

    @property
    def observed(self) -> int:
        """How many observations the decision, or its lack, rests on."""
        return len(self.trace)

    def update(self, score: float) -> Decision | None:
        """Take one observation; after the decision there is nothing to add and further ones change nothing.

        Args:
            score: what B got: 0, 0.5, 1, 1.5 or 2 for a pair of games; 0 or 1 for one game in the bernoulli model.
                A pair of which a game was not decided is left out.

        Returns:
            The decision so far.

        Raises:
            ConfigError: there is no such score.
        """
        place = _place(score, self.model)
        if self.decision is None:
            self.counts[place] += 1
            llr = float(_llr(np.asarray(self.counts, dtype=np.float64), self.elo0, self.elo1, self.model))
            self.trace.append(llr)
            self.decision = "H1" if llr >= self.upper else "H0" if llr <= self.lower else None
        return self.decision

    def replay(self, scores: Iterable[float]) -> Sprt:
        """`update` with each score in order; returns the test itself."""
        for score in scores:
            if self.update(score) is not None:
                break
        return self


def pentanomial_llr(counts: ArrayLike, elo0: float, elo1: float) -> Floats:
    """Generalised log-likelihood ratio of two means (Van den Bergh 2020, propositions 1.1 and 1.2).

    The likeliest distribution with mean s is p_i = f_i / (1 + x (a_i - s)) with observed shares f_i, scores a_i of
    a game, and the x at which sum f_i (a_i - s) / (1 + x (a_i - s)) = 0, which falls strictly in x.

    Args:
        counts: [..., 5] pairs of games worth 0, 0.5, 1, 1.5, 2; a count of 0 is taken as 0.001.
        elo0: Elo points under H0.
        elo1: under H1.

    Returns:
        [...] in nats; positive speaks for H1. Without any pair it is 0.
    """
    counts_X5 = np.asarray(counts, dtype=np.float64)
    none_X = counts_X5.sum(-1) == 0
    counts_X5 = np.where(counts_X5 == 0, _UNSEEN, counts_X5)
    share_X5 = counts_X5 / counts_X5.sum(-1, keepdims=True)
    weight0_X5, weight1_X5 = (_tilt(share_X5, expected_score(elo)) for elo in (elo0, elo1))
    return np.where(none_X, 0.0, (counts_X5 * np.log(weight0_X5 / weight1_X5)).sum(-1))


def _tilt(share_X5: Floats, mean: float) -> Floats:
    """[..., 5]: 1 + x (a_i - mean) at the root x of the equation above, by bisection."""
    rest_5 = np.arange(5) / 4 - mean
    low_X1 = np.full((*share_X5.shape[:-1], 1), -1 / rest_5[-1])
    high_X1 = np.full_like(low_X1, -1 / rest_5[0])
    for _ in range(_HALVINGS):
        middle_X1 = (low_X1 + high_X1) / 2
        above_X1 = (share_X5 * rest_5 / (1 + middle_X1 * rest_5)).sum(-1, keepdims=True) > 0
        low_X1, high_X1 = np.where(above_X1, middle_X1, low_X1), np.where(above_X1, high_X1, middle_X1)
    return 1 + (low_X1 + high_X1) / 2 * rest_5


def bernoulli_llr(counts: ArrayLike, elo0: float, elo1: float) -> Floats:
    """Log-likelihood ratio of single games that are won or lost (Wald 1945, section 5).

    Args:
        counts: [..., 2] games lost and won.
        elo0: Elo points under H0.
        elo1: under H1.

    Returns:
        [...] in nats; positive speaks for H1.
    """
    counts_X2 = np.asarray(counts, dtype=np.float64)
    s0, s1 = expected_score(elo0), expected_score(elo1)
    return np.asarray(counts_X2 @ np.array([math.log((1 - s1) / (1 - s0)), math.log(s1 / s0)]))


def fixed_size(test: Sprt, variance: float) -> float:
    """How many observations the test of fixed size with the same error rates needs (Wald 1945, section 4.4).

    Args:
        test: its bounds and error rates.
        variance: of one observation's mean score a game, in [0, 1]: 0.25 at most, and less with ties or where the
            seat, not the agent, decides a pair's games.
    """
    from scipy.stats import norm

    if not 0 < variance <= 0.25:
        raise ConfigError(f"variance={variance}: of a score in [0, 1] it is above 0 and at most 0.25")
    z = float(norm.ppf(1 - test.alpha) + norm.ppf(1 - test.beta))
    return z * z * variance / (expected_score(test.elo1) - expected_score(test.elo0)) ** 2


def _llr(counts: Floats, elo0: float, elo1: float, model: Model) -> Floats:
    return (pentanomial_llr if model == "pentanomial" else bernoulli_llr)(counts, elo0, elo1)


def _place(score: float, model: Model) -> int:
    if score not in _POINTS[model]:
        kind = "a pair of games is worth" if model == "pentanomial" else "a game without ties is worth"
        points = ", ".join(f"{point:g}" for point in _POINTS[model])
        raise ConfigError(f"score {score!r}: {kind} one of {points}; leave undecided ones out")
    return _POINTS[model].index(score)
