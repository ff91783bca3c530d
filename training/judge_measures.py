"""How good a judge is on labelled views: accuracy, calibration, and whether the order of answers changes its mind."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge
from arena.metrics import Bin, brier, ece, reliability
from arena.protocols.records import Verdict
from arena.statistics import Interval, clustered_proportion, mean_interval, resample_weights
from arena.training.judge_data import Example
from arena.undecided import Undecided, UndecidedLimit

__all__ = ["JudgeMeasures", "gain", "measure", "verdicts_on"]

_BINS = 10
_REPLICATES = 1000


@dataclass(frozen=True, slots=True)
class JudgeMeasures:
    """Figures over the decidable verdicts, with 95 % intervals clustered by question."""

    judge: str
    """Name of the instrument."""
    accuracy: Interval
    """Share of right choices; a tie counts half."""
    log_loss: Interval
    """Mean of -log p(right answer), nats."""
    brier: Interval
    """Mean over verdicts of the sum over answers of (p - truth)^2: 0 is perfect, 0.5 is two answers at even odds."""
    ece: Interval
    """Expected calibration error of the chosen answer's probability in ten equal bins."""
    order_consistency: Interval | None
    """Share of verdicts whose choice is the same in every presentation order; None for a judge that does not say."""
    reliability: list[Bin]
    """Stated confidence and share right by bins of confidence, empty ones left out."""
    decidable: int
    undecidable: dict[str, int]
    """Status -> count of the verdicts that are not measured."""
    undecided: Undecided
    """The same with their reasons."""
    scores: dict[str, float]
    """Key of the view -> 1 right, 0.5 tie, 0 wrong; to compare judges on the same views."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        row: dict[str, Any] = {"judge": self.judge}
        for name in ("accuracy", "log_loss", "brier", "ece", "order_consistency"):
            interval: Interval | None = getattr(self, name)
            row[name] = None if interval is None else {k: getattr(interval, k) for k in ("value", "low", "high", "n")}
        row["reliability"] = [asdict(each) for each in self.reliability]
        return row | {"decidable": self.decidable, "undecidable": dict(self.undecidable)}


def verdicts_on(judge: AnyJudge, examples: Sequence[Example]) -> Sequence[Verdict]:
    """The judge's verdicts; one that is declared to need the label is told it."""
    views = [replace(e.view, label=e.label) if judge.sees_label else e.view for e in examples]
    return ask_judge(judge, views)


def measure(judge: AnyJudge, examples: Sequence[Example], *, seed: int = 0) -> JudgeMeasures:
    """Ask a judge about labelled views. ``seed`` is that of the bootstrap."""
    verdicts = verdicts_on(judge, examples)
    limit = UndecidedLimit(1.0)
    limit.add(verdicts)
    undecided = limit.found
    kept = [
        (example, example.label, verdict)
        for example, verdict in zip(examples, verdicts, strict=True)
        if verdict.decidable and verdict.logps and example.label is not None
    ]
    clusters = [example.cluster for example, _, _ in kept]
    scores = [verdict.score(label) for _, label, verdict in kept]
    sure = [math.exp(max(verdict.logps)) for _, _, verdict in kept]
    told = [(e.cluster, v.evidence["order_consistent"]) for e, _, v in kept if "order_consistent" in v.evidence]
    return JudgeMeasures(
        judge.name,
        accuracy=clustered_proportion(scores, clusters),
        log_loss=mean_interval([-verdict.logps[label] for _, label, verdict in kept], clusters, seed=seed),
        brier=mean_interval([_brier(verdict.logps, label) for _, label, verdict in kept], clusters, seed=seed),
        ece=_ece_interval(sure, scores, clusters, seed),
        order_consistency=clustered_proportion([float(same) for _, same in told], [c for c, _ in told])
        if told
        else None,
        reliability=reliability(sure, scores, _BINS),
        decidable=len(kept),
        undecidable=dict(sorted(undecided.by_status.items())),
        undecided=undecided,
        scores={example.view.key: score for (example, _, _), score in zip(kept, scores, strict=True)},
    )


def gain(before: JudgeMeasures, after: JudgeMeasures, examples: Sequence[Example], *, seed: int = 0) -> Interval:
    """Difference of accuracy on the views that both decided, paired, with its 95 % interval."""
    both = [e for e in examples if e.view.key in before.scores and e.view.key in after.scores]
    rise = [after.scores[e.view.key] - before.scores[e.view.key] for e in both]
    return mean_interval(rise, [e.cluster for e in both], seed=seed)


def _brier(logps: Sequence[float], label: int) -> float:
    return brier([[math.exp(logp) for logp in logps]], [label])


def _ece_interval(sure: Sequence[float], right: Sequence[float], clusters: Sequence[Hashable], seed: int) -> Interval:
    """ECE with a percentile interval by bootstrap over clusters.

    ECE = sum over bins of |sum of (right - sure) in the bin| / n. Noise alone makes it positive, in resamples more so.
    """
    if not sure:
        return Interval(math.nan, 0.0, 1.0, 0)
    sure_N = np.asarray(sure)
    bin_N = np.maximum(np.ceil(sure_N * _BINS).astype(int) - 1, 0)
    _, cluster_N = np.unique(np.asarray(clusters, dtype=str), return_inverse=True)
    count = int(cluster_N.max()) + 1
    gap_CB, size_C = np.zeros((count, _BINS)), np.bincount(cluster_N, minlength=count)
    np.add.at(gap_CB, (cluster_N, bin_N), np.asarray(right) - sure_N)
    weights_RC = resample_weights(np.random.default_rng(seed), _REPLICATES, count)
    found_R = np.abs(weights_RC @ gap_CB).sum(axis=1) / (weights_RC @ size_C)
    low, high = np.quantile(found_R, [0.025, 0.975])
    return Interval(ece(sure, right, _BINS), float(low), float(high), len(sure))
