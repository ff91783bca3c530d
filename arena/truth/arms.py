"""Arms beside each other: accuracy, tokens, and how much of the gap to the evidence each recovers.

Performance gap recovered is (arm - blind) / (oracle - blind): which part of what the blind judge lacks the arm gives
back (Burns et al. 2023, 2312.09390, section 3; for debate Kenton et al. 2024, 2407.04622).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from arena.decisions import compare_scores
from arena.decisions.multiple import Method
from arena.engine import sampled_tokens
from arena.protocols.errors import UnknownNameError, suggest
from arena.protocols.records import Episode, Task
from arena.statistics import Interval
from arena.truth.scores import Floats, Resamples, label_scores, points_of, rate

__all__ = [
    "Arm",
    "ArmComparison",
    "Gap",
    "arm_result",
    "compare_arms",
    "gaps_recovered",
    "question_scores",
    "same_tokens",
]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to come to a verdict."""

    arm: str
    accuracy: Interval | None
    """Share of decidable verdicts that are the label; None where there are none."""
    tokens: float | None
    """Tokens sampled for one verdict, hidden thinking, discarded candidates and failed games included, on average; what
    the judge reads or writes is not among them. None without games."""
    undecidable: float
    """Share of games whose verdict cannot be used, failed games among them; 0 without games."""
    games: int


def arm_result(arm: str, episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> Arm:
    """Accuracy and cost of one arm.

    Args:
        arm: its name.
        episodes: its games.
        tasks: by id.
    """
    played = list(episodes)
    points = points_of(played, tasks)
    bad = sum(episode.verdict is None or not episode.verdict.decidable for episode in played)
    tokens = sum(sampled_tokens(turn) for episode in played for turn in episode.turns)
    count = max(1, len(played))
    return Arm(arm, rate(points) if points else None, tokens / count if played else None, bad / count, len(played))


def same_tokens(arm: Arm, other: Arm, tolerance: float = 0.1) -> bool:
    """Whether two arms took about the same number of tokens a verdict, so that their accuracies may be compared.

    Args:
        arm: one.
        other: another.
        tolerance: how much the larger may be above the smaller, as a share of the smaller.
    """
    if arm.tokens is None or other.tokens is None:
        return False
    low, high = sorted((arm.tokens, other.tokens))
    return high <= low * (1 + tolerance)


def question_scores(episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> dict[str, float]:
    """Task id -> mean score of the verdicts on it (1 right, 0 wrong), for `arena.decisions.compare_scores`."""
    found: dict[str, list[float]] = {}
    for score, task in label_scores(episodes, tasks):
        found.setdefault(task.id, []).append(score)
    return {task: sum(scores) / len(scores) for task, scores in found.items()}


@dataclass(frozen=True, slots=True)
class ArmComparison:
    """Two arms on the questions that both decided."""

    first: str
    second: str
    difference: Interval
    """Accuracy of the first less that of the second, with its 95 % cluster-bootstrap interval; ``n``: questions."""
    p: float | None
    """Two-sided, by exchanging tasks; None without a common question."""
    p_adjusted: float | None
    method: Method
    same_tokens: bool
    """Whether both took about as many tokens a verdict; if not, the difference may be what tokens buy."""


def compare_arms(
    arms: Mapping[str, Iterable[Episode]], tasks: Mapping[str, Task], *, method: Method = "holm", seed: int = 0
) -> list[ArmComparison]:
    """Every pair of arms, question by question, corrected for how many pairs there are.

    Args:
        arms: name -> games.
        tasks: by id.
        method: correction, see `arena.decisions.adjusted`.
        seed: of bootstrap and permutations.
    """
    played = {name: list(episodes) for name, episodes in arms.items()}
    results = {name: arm_result(name, episodes, tasks) for name, episodes in played.items()}
    scores = {name: question_scores(episodes, tasks) for name, episodes in played.items()}
    clusters = {task.id: task.cluster for task in tasks.values()}
    return [
        ArmComparison(
            row.first,
            row.second,
            row.difference,
            row.p,
            row.p_adjusted,
            row.method,
            same_tokens(results[row.first], results[row.second]),
        )
        for row in compare_scores(scores, clusters, method=method, seed=seed)
    ]


@dataclass(frozen=True, slots=True)
class Gap:
    """How much of the gap between a blind judge and one with the evidence an arm recovers."""

    arm: str
    value: float | None
    """1: as accurate as the oracle; 0: no better than blind; None where it is not defined."""
    low: float | None
    high: float | None
    note: str = ""
    """Why it is not defined."""


def gaps_recovered(
    arms: Mapping[str, Iterable[Episode]],
    tasks: Mapping[str, Task],
    *,
    blind: str = "blind",
    oracle: str = "oracle",
    bootstrap: int = 2000,
    seed: int = 0,
) -> list[Gap]:
    """Performance gap recovered of every arm but the two that it is measured by.

    The interval is a percentile bootstrap over tasks, the same resample in all three arms, so that what makes a
    question easy for all of them cancels. Where the 95 % interval of oracle - blind reaches 0 there is no gap that
    could be recovered, the ratio is a division by noise, and the result says so.

    Args:
        arms: name -> games.
        tasks: by id.
        blind: name of the arm whose judge sees the question only.
        oracle: name of the arm whose judge sees the evidence.
        bootstrap: replicates.
        seed: of the bootstrap.

    Raises:
        UnknownNameError: there is no such arm.
    """
    for name in (blind, oracle):
        if name not in arms:
            raise UnknownNameError(f"there is no arm '{name}' to measure the gap by.{suggest(name, arms)}")
    scored = {name: points_of(episodes, tasks) for name, episodes in arms.items()}
    others = [name for name in arms if name not in (blind, oracle)]
    for name in (blind, oracle):
        if not scored[name]:
            return [Gap(other, None, None, None, f"no verdict of arm '{name}' on a labelled task") for other in others]
    resamples = Resamples(itertools.chain(*scored.values()), bootstrap, seed)
    means = {name: resamples.means(points) for name, points in scored.items() if points}
    gap_X = means[oracle] - means[blind]
    low, high = np.nanquantile(gap_X[1:], [0.025, 0.975])
    if low <= 0 or resamples.clusters < 2:
        note = (
            f"undefined: '{oracle}' is not measurably better than '{blind}' "
            f"(difference {gap_X[0]:.3f} [{low:.3f}, {high:.3f}]), so there is no gap to recover"
        )
        return [Gap(name, None, None, None, note) for name in others]
    return [_gap(name, means.get(name), means[blind], gap_X) for name in others]


def _gap(name: str, mean_X: Floats | None, blind_X: Floats, gap_X: Floats) -> Gap:
    if mean_X is None:
        return Gap(name, None, None, None, f"no verdict of arm '{name}' on a labelled task")
    with np.errstate(divide="ignore", invalid="ignore"):
        share_X = (mean_X - blind_X) / gap_X
    low, high = np.nanquantile(share_X[1:], [0.025, 0.975])
    return Gap(name, float(share_X[0]), float(low), float(high))
