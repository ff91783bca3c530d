"""In which orders a judge is shown the answers, and how what it finds in each becomes one verdict.

A judge prefers letters and places. Every answer therefore stands in every place equally often, and what is found is
averaged. Two ways:

* ``all``: all answers at once, in each of their cyclic orders;
* ``pairs``: two answers at a time, each pair in both orders; the strengths of Bradley and Terry (1952) that fit the
  pairs best make the distribution (of three or more: the first choice of Plackett and Luce).

For two answers both are the same. A judge may prefer whoever speaks first or last as well; `Speaking` says whether that
is balanced, too.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from arena.judges.forms import log_sum
from arena.judges.types import Statement
from arena.judges.verdicts import normalise
from arena.protocols.errors import ConfigError
from arena.protocols.records import VerdictStatus
from arena.protocols.stated import Stated

__all__ = [
    "Average",
    "Compare",
    "Order",
    "Speaking",
    "average",
    "combine",
    "presentations",
    "respoken",
    "speaking_orders",
    "state",
    "strengths",
    "told_speakers",
]

Order = tuple[int, ...]
"""Indices of answers (task order) by the place where they stand."""
Average = Literal["probs", "logps"]
"""``probs``: mean of the probabilities, as Lee et al. 2023 (RLAIF, 2309.00267, section 2.1) combine two orders, so that
a judge that changes its mind with the order is unsure. ``logps``: mean of the log-probs, normalised again, in which a
preference for a place that adds the same log-odds to every verdict cancels out."""
Compare = Literal["all", "pairs"]

Speaking = Literal["given", "balanced"]
"""In which order statements are shown: as they were made, or so that in every round each side speaks first equally
often. What was said in reply to something may then stand before it."""

MOST_STEPS = 100


def presentations(count: int, compare: Compare = "all") -> list[Order]:
    """The orders in which ``count`` answers are shown.

    Raises:
        ConfigError: there is nothing to decide between.
    """
    if count < 2:
        raise ConfigError(f"there is nothing to decide between {count} answers")
    if compare == "pairs":
        return [order for pair in itertools.combinations(range(count), 2) for order in (pair, pair[::-1])]
    return [tuple((start + place) % count for place in range(count)) for start in range(count)]


def speaking_orders(order: Order, how: Speaking = "given") -> list[Order]:
    """The orders of speaking in which an order of the answers is shown: their cyclic ones, or ``()`` for the given."""
    answers = sorted(order)
    if how == "given":
        return [()]
    return [tuple(answers[start:] + answers[:start]) for start in range(len(answers))]


def respoken(statements: Sequence[Statement], speakers: Order) -> list[Statement]:
    """The statements with those of each round in another order; what argues for none of the answers stays in its place.

    Args:
        statements: as they were made. The k-th statements for all answers are a round.
        speakers: answers in the order in which they are to be argued; empty leaves everything as it is.
    """
    place = {answer: number for number, answer in enumerate(speakers)}
    made: Counter[int] = Counter()
    argued: list[tuple[int, int, Statement]] = []
    for said in statements:
        if said.answer is not None and said.answer in place:
            argued.append((made[said.answer], place[said.answer], said))
            made[said.answer] += 1
    ordered = iter(sorted(argued, key=lambda each: each[:2]))
    return [next(ordered)[2] if said.answer in place else said for said in statements]


def average(logps_by_order: Sequence[Sequence[float]], how: Average = "probs") -> tuple[float, ...]:
    """One distribution of several over the same answers, in nats."""
    columns = zip(*logps_by_order, strict=True)
    if how == "probs":
        return normalise([log_sum(column) for column in columns])
    return normalise([sum(column) / len(logps_by_order) for column in columns])


def combine(
    orders: Sequence[Order],
    logps_by_order: Sequence[Sequence[float]],
    count: int,
    how: Average,
    speakers: Sequence[Order] = (),
) -> tuple[tuple[float, ...], dict[str, Any]]:
    """One distribution over the answers, in task order, and what it comes from.

    Args:
        orders: as `presentations` gives them.
        logps_by_order: for each order the log-probs in nats of the answers that it shows, in task order, normalised.
        count: of answers.
        how: in which average.
        speakers: the order of speaking in each; absent: the given one.
    """
    together: dict[Order, list[Sequence[float]]] = {}
    told, consistent = [], True
    for number, (order, logps) in enumerate(zip(orders, logps_by_order, strict=True)):
        found = together.setdefault(tuple(sorted(order)), [])
        consistent = consistent and (not found or _best(found[0]) == _best(logps))
        found.append(logps)
        told.append({"order": list(order), **told_speakers(speakers, number), "logps": list(logps)})
    averages = {shown: average(found, how) for shown, found in together.items()}
    whole = averages.get(tuple(range(count))) or normalise(strengths(averages, count))
    return whole, {"orders": told, "order_consistent": consistent}


def told_speakers(speakers: Sequence[Order], number: int) -> dict[str, Any]:
    """For evidence: the order of speaking of a reading, where it is not the given one."""
    return {"speakers": list(speakers[number])} if any(speakers) else {}


def _best(logps: Sequence[float]) -> int:
    return logps.index(max(logps))


def strengths(pairs: Mapping[tuple[int, ...], Sequence[float]], count: int) -> list[float]:
    """Strengths in nats, of mean 0, with the likelihood of Bradley and Terry highest; each pair weighs the same.

    Args:
        pairs: (i, j) -> log-probs that i wins and that j wins; every pair of answers is there.
        count: of answers.
    """
    from scipy.special import expit  # whoever only checks a spec need not wait for it

    wins_AA: NDArray[np.float64] = np.zeros((count, count))
    odds_AA: NDArray[np.float64] = np.zeros((count, count))
    for (i, j), (first, second) in pairs.items():
        wins_AA[i, j], wins_AA[j, i] = math.exp(first), math.exp(second)
        odds_AA[i, j], odds_AA[j, i] = first - second, second - first
    s_A = odds_AA.sum(axis=1) / count  # exact where the pairs contradict each other nowhere
    for _ in range(MOST_STEPS):
        p_AA = expit(s_A[:, None] - s_A[None, :])
        np.fill_diagonal(p_AA, 0.0)
        slope_A = (wins_AA - p_AA).sum(axis=1)
        weights_AA = p_AA * p_AA.T
        curve_AA = np.diag(weights_AA.sum(axis=1)) - weights_AA
        step_A = np.linalg.pinv(curve_AA, hermitian=True) @ slope_A
        s_A = s_A + np.clip(step_A, -1.0, 1.0)
        if np.abs(step_A).max() < 1e-10:
            break
    found: list[float] = (s_A - s_A.mean()).tolist()
    return found


def state(orders: Sequence[Order], said: Sequence[Stated[int]]) -> Stated[int]:
    """The answer (task order) that was stated in every order that shows it; else why there is none.

    Args:
        orders: as `presentations` gives them.
        said: in each order, the place of the answer that was stated.
    """
    for order, one in zip(orders, said, strict=True):
        if one.value is None:
            return Stated(None, one.status, f"in the order {_shown(order)} it {one.reason}")
    answers = [order[one.value] for order, one in zip(orders, said, strict=True) if one.value is not None]
    for answer in sorted(set(answers)):
        if all(stated == answer for order, stated in zip(orders, answers, strict=True) if answer in order):
            return Stated(answer)
    told = ", ".join(
        f"answer {answer + 1} in the order {_shown(order)}" for order, answer in zip(orders, answers, strict=True)
    )
    return Stated(None, VerdictStatus.CONTRADICTORY, f"no answer is stated in every order: {told[:300]}")


def _shown(order: Order) -> str:
    return " ".join(str(answer + 1) for answer in order)
