"""Matches counted: how often which result came of two agents meeting about one question.

Results of one cluster (a question, as a rule) between the same two agents in the same seats are told apart by nothing
that a rating looks at, so that one number stands for all of them. What is kept grows with the pairs and clusters that
there are, not with the matches: playing the same tournament a hundred times over takes the memory of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError
from arena.ratings.matches import Floats, Match

__all__ = ["Counts", "MatchCounter", "count_matches"]

Ints = NDArray[np.int64]

_CHUNK = 1 << 18
"""Matches that are looked at together."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Counted matches of P agents about C clusters, in M cells that are all different."""

    names: tuple[str, ...]
    """[P] agents; the numbers below are places in this list."""
    clusters: int
    """C: number of units that a bootstrap resamples."""
    first_M: Ints
    """[M] who sat in the first seat."""
    second_M: Ints
    """[M] who sat in the second seat; the same agent in self-play."""
    result_M: Ints
    """[M] 0: the first seat won, 1: a tie, 2: the second seat won."""
    cluster_M: Ints
    """[M] number of the cluster, 0 to C - 1."""
    number_M: Floats
    """[M] how many matches there were of this kind."""

    @property
    def matches(self) -> int:
        """Number of matches, self-play included."""
        return round(float(self.number_M.sum()))

    @property
    def nbytes(self) -> int:
        """Memory of the cells in bytes."""
        columns = (self.first_M, self.second_M, self.result_M, self.cluster_M, self.number_M)
        return sum(int(column.nbytes) for column in columns)

    def without_self_play(self) -> Counts:
        """The matches between two different agents; the agents and clusters keep their numbers."""
        return self.where(self.first_M != self.second_M)

    def where(self, chosen_M: NDArray[np.bool_]) -> Counts:
        """Some of the cells."""
        if chosen_M.all():
            return self
        first_M, second_M, result_M, cluster_M = (
            column[chosen_M] for column in (self.first_M, self.second_M, self.result_M, self.cluster_M)
        )
        return Counts(self.names, self.clusters, first_M, second_M, result_M, cluster_M, self.number_M[chosen_M])

    def by_seat(self, seats: tuple[str, str]) -> Counts:
        """The same with 2 P agents, "NAME as SEAT": number p is agent p in the first seat, P + p in the second."""
        names = tuple(f"{name} as {seat}" for seat in seats for name in self.names)
        second_M = self.second_M + len(self.names)
        return Counts(names, self.clusters, self.first_M, second_M, self.result_M, self.cluster_M, self.number_M)


@dataclass(slots=True)
class MatchCounter:
    """Counts matches that come in a stream, in memory that does not grow with their number.

    >>> counter = MatchCounter()
    >>> counter.add([Match("ann", "bob", 1.0, task="q1"), Match("bob", "ann", 0.0, task="q1")])
    >>> counter.counts().matches
    2
    """

    _agents: dict[str, int] = field(default_factory=dict)
    _tasks: dict[str, int] = field(default_factory=dict)
    _pairs: dict[str, int] = field(default_factory=dict)
    _clusters: int = 0
    _done: list[Ints] = field(default_factory=list)
    """Columns of what was merged, and of what is waiting for it: first, second, result, cluster, number."""
    _waiting: int = 0
    _seen: int = 0
    """Matches so far, to tell which one is at fault."""

    def add(self, matches: Iterable[Match]) -> None:
        """Count some more matches.

        A match belongs to the cluster of its task; without a task, to that of its pair; without both it is one by
        itself.

        Raises:
            ConfigError: a score is not 0, 0.5 or 1.
        """
        stream = iter(matches)
        while chunk := list(islice(stream, _CHUNK)):
            self._keep(*self._columns(chunk))

    def add_arrays(
        self, first_N: ArrayLike, second_N: ArrayLike, score_N: ArrayLike, cluster_N: ArrayLike, *, names: Sequence[str]
    ) -> None:
        """Count matches that are numbers already; every call must have the same ``names``.

        Args:
            first_N: [N] places in ``names`` of the agents in the first seat.
            second_N: [N] of those in the second.
            score_N: [N] what the first got: 1, 0.5 or 0.
            cluster_N: [N] number of the cluster of each, from 0.
            names: agents.

        Raises:
            ConfigError: a score is not 0, 0.5 or 1, or a number is no place in ``names``.
        """
        if self._agents and list(self._agents) != list(names):
            raise ConfigError(
                "these matches number other agents than those that were counted before: give the same names"
            )
        self._agents = {name: number for number, name in enumerate(names)}
        first_N, second_N = np.asarray(first_N, dtype=np.int64), np.asarray(second_N, dtype=np.int64)
        cluster_N = np.asarray(cluster_N, dtype=np.int64)
        check_numbers(first_N, second_N, len(self._agents))
        if len(cluster_N):
            if cluster_N.min() < 0:
                raise ConfigError(f"cluster {cluster_N.min()} has a negative number: clusters are numbered from 0")
            self._clusters = max(self._clusters, int(cluster_N.max()) + 1)
        self._keep(first_N, second_N, results_of(np.asarray(score_N, dtype=np.float64), self._seen), cluster_N)

    def counts(self) -> Counts:
        """What was counted so far."""
        first_M, second_M, result_M, cluster_M, number_M = self._merged()
        clusters = self._clusters
        return Counts(
            tuple(self._agents), clusters, first_M, second_M, result_M, cluster_M, number_M.astype(np.float64)
        )

    def in_order(self, matches: Sequence[Match]) -> Counts:
        """The matches as cells of their own, one each and in their order: for what more than agents tells apart.

        Raises:
            ConfigError: a score is not 0, 0.5 or 1.
        """
        first_N, second_N, result_N, cluster_N = self._columns(matches)
        names, number_N = tuple(self._agents), np.ones(len(first_N))
        return Counts(names, self._clusters, first_N, second_N, result_N, cluster_N, number_N)

    def _columns(self, chunk: Sequence[Match]) -> tuple[Ints, Ints, Ints, Ints]:
        first_N = _numbers([match.first for match in chunk], self._agents)
        second_N = _numbers([match.second for match in chunk], self._agents)
        score_N = np.fromiter((match.score for match in chunk), np.float64, len(chunk))
        return first_N, second_N, results_of(score_N, self._seen), self._cluster_numbers(chunk)

    def _cluster_numbers(self, chunk: Sequence[Match]) -> Ints:
        numbers = []
        for match in chunk:
            if match.task:
                number = self._tasks.setdefault(match.task, self._clusters)
            elif match.pair:
                number = self._pairs.setdefault(match.pair, self._clusters)
            else:
                number = self._clusters
            self._clusters += number == self._clusters
            numbers.append(number)
        return np.array(numbers, dtype=np.int64)

    def _keep(self, first_N: Ints, second_N: Ints, result_N: Ints, cluster_N: Ints) -> None:
        self._done += [first_N, second_N, result_N, cluster_N, np.ones(len(first_N), dtype=np.int64)]
        self._waiting += len(first_N)
        self._seen += len(first_N)
        # As much may wait as was merged, so that each match is sorted a few times only, however many come.
        if self._waiting > max(4 * _CHUNK, len(self._done[0])):
            self._merged()

    def _merged(self) -> list[Ints]:
        """The five columns, each kind of match once, ordered by cluster, agents and result."""
        if self._waiting:
            first, second, result, cluster, number = (np.concatenate(self._done[k::5]) for k in range(5))
            bits = max(1, (len(self._agents) - 1).bit_length())
            if 2 * bits + 2 + self._clusters.bit_length() > 63:
                raise ConfigError(f"{len(self._agents)} agents and {self._clusters} clusters are too many to count")
            code = (((cluster << bits | first) << bits | second) << 2) | result
            if len(self._done) == 5:  # all are ones: no need to know which went where
                code, number = np.unique(code, return_counts=True)
            else:
                code, place = np.unique(code, return_inverse=True)
                number = np.bincount(place, weights=number, minlength=len(code)).astype(np.int64)
            low = (1 << bits) - 1
            cluster, first, second, result = code >> 2 * bits + 2, code >> bits + 2 & low, code >> 2 & low, code & 3
            self._done, self._waiting = [first, second, result, cluster, number], 0
        return self._done or [np.zeros(0, dtype=np.int64)] * 5


def count_matches(matches: Iterable[Match] | Counts) -> Counts:
    """Matches counted at once; what is counted already stays as it is."""
    if isinstance(matches, Counts):
        return matches
    counter = MatchCounter()
    counter.add(matches)
    return counter.counts()


def check_numbers(first_N: Ints, second_N: Ints, players: int) -> None:
    """Raise unless all are places in a list of ``players``."""
    if len(first_N) and not (min(first_N.min(), second_N.min()) >= 0 and max(first_N.max(), second_N.max()) < players):
        raise ConfigError(f"a match names a player that is not among the {players}: players are numbered from 0")


def results_of(score_N: Floats, before: int = 0) -> Ints:
    """[N] 0, 1 or 2 for the scores 1, 0.5 and 0; ``before`` is the number of matches that came before these."""
    won_N, tied_N, lost_N = score_N == 1, score_N == 0.5, score_N == 0
    bad = np.flatnonzero(~(won_N | tied_N | lost_N))
    if len(bad):
        raise ConfigError(
            f"match {before + bad[0]} has score {score_N[bad[0]]}: a score is 0, 0.5 or 1; leave undecided ones out"
        )
    return np.asarray(tied_N + 2 * lost_N.astype(np.int64))


def _numbers(names: list[str], known: dict[str, int]) -> Ints:
    """Places of names in ``known``, which grows by those that are new."""
    for name in dict.fromkeys(names):
        known.setdefault(name, len(known))
    return np.fromiter(map(known.__getitem__, names), np.int64, len(names))
