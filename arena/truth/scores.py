"""What can be said of verdicts on tasks with labels: scores, their means, and resamples of tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from arena.protocols.records import Episode, Task, Verdict
from arena.statistics import Interval, clustered_proportion, resample_weights

__all__ = ["Floats", "Point", "Resamples", "decided", "label_scores", "points_of", "rate"]

Floats = NDArray[np.float64]
Point = tuple[float, str]
"""A score and its cluster."""


def decided(episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> Iterator[tuple[Episode, Task, Verdict, int]]:
    """Games with a verdict that can be used on a task with a label, and the label."""
    for episode in episodes:
        task, verdict = tasks[episode.task], episode.verdict
        if task.label is not None and verdict is not None and verdict.decidable and verdict.logps:
            yield episode, task, verdict, task.label


def label_scores(episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> Iterator[tuple[float, Task]]:
    """1 where such a verdict is the label, 0 where not, one half for a tie, with the task."""
    return ((verdict.score(label), task) for _, task, verdict, label in decided(episodes, tasks))


def points_of(episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> list[Point]:
    """The same with the cluster of the task."""
    return [(score, task.cluster) for score, task in label_scores(episodes, tasks)]


def rate(points: Sequence[Point]) -> Interval:
    """Mean with its clustered 95 % interval."""
    return clustered_proportion([score for score, _ in points], [cluster for _, cluster in points])


class Resamples:
    """The same resamples of clusters for whatever is compared."""

    def __init__(self, points: Iterable[Point], replicates: int, seed: int) -> None:
        self._place = {cluster: number for number, cluster in enumerate(dict.fromkeys(c for _, c in points))}
        self.clusters = len(self._place)
        drawn_RC = resample_weights(np.random.default_rng(seed), replicates, self.clusters)
        self._weight_XC = np.vstack([np.ones(self.clusters), drawn_RC])

    def means(self, points: Sequence[Point]) -> Floats:
        """[1 + R]: the mean score, then that of each resample; NaN where nothing was drawn."""
        index_N = [self._place[cluster] for _, cluster in points]
        sum_C = np.bincount(index_N, weights=[score for score, _ in points], minlength=self.clusters)
        size_C = np.bincount(index_N, minlength=self.clusters)
        with np.errstate(invalid="ignore"):
            return np.asarray((self._weight_XC @ sum_C) / (self._weight_XC @ size_C))
