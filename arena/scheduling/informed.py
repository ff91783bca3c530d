"""The adaptive schedule: whatever tells most about the ranking per token comes next (`arena.scheduling.adaptive`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from arena.protocols.errors import ConfigError
from arena.scheduling.adaptive import most_informative
from arena.scheduling.types import Pairing, State
from arena.seeds import derive_seed

__all__ = ["Informed"]


class Informed:
    """Plays a share of a round robin's pairings, in rounds that are chosen by all results so far.

    What a round robin spends on foregone conclusions goes to neighbours, who play up to five times as many tasks as
    there, where the task set has them.

    Args:
        share: of the pairings of a round robin on the same tasks.
        batch: pairings of a round; absent: as many as there are agents. Small rounds choose better, large ones
            keep more games in flight.

    Raises:
        ConfigError: the share is none.
    """

    static = False
    reach = 5

    def __init__(
        self, *, share: Annotated[float, Field(gt=0, le=1)] = 0.5, batch: Annotated[int, Field(ge=1)] | None = None
    ) -> None:
        if not 0 < share <= 1:
            raise ConfigError(
                f"'share' of schedule 'adaptive' is {share}: a part of the round robin, above 0 and up to 1"
            )
        self.share = share
        self.batch = batch

    def size(self, state: State) -> int:
        """Pairings of all rounds, whatever their results."""
        return math.ceil(self.share * math.comb(len(state.names), 2) * len(state.tasks))

    def next_round(self, state: State) -> Sequence[Pairing]:
        """The next pairings, each pair on the next of the tasks that it has not played."""
        names, results, tasks = state.names, state.results(), (*state.tasks, *state.spare)
        place = {name: index for index, name in enumerate(names)}
        P = len(names)
        points_PP, tokens_PP = np.zeros((P, P)), np.zeros((P, P))
        played_PP = np.zeros((P, P), dtype=np.int64)
        for result in results:
            i, j = place[result.pairing.first], place[result.pairing.second]
            points_PP[i, j] += sum(result.scores)
            points_PP[j, i] += len(result.scores) - sum(result.scores)
            tokens_PP[[i, j], [j, i]] += result.tokens
            played_PP[[i, j], [j, i]] += 1
        k = min(self.batch or P, self.size(state) - len(results))
        if k <= 0:
            return []
        seed = derive_seed(state.seed, "adaptive", len(state.rounds)) % 2**31
        pairs = most_informative(names, points_PP, _cost(tokens_PP, played_PP), k, seed, left=len(tasks) - played_PP)
        chosen = []
        for first, second in pairs:
            i, j = place[first], place[second]
            chosen.append(Pairing(first, second, tasks[played_PP[i, j]]))
            played_PP[[i, j], [j, i]] += 1
        return chosen


def _cost(tokens_PP: NDArray[np.float64], played_PP: NDArray[np.int64]) -> ArrayLike:
    """[P, P] tokens of one pairing: the mean of those that were played, else that of all; 1 where none are counted."""
    total = played_PP.sum()
    mean = float(tokens_PP.sum() / total) if total else 0.0
    if not mean:
        return 1.0
    own_PP = np.divide(tokens_PP, played_PP, out=np.full(tokens_PP.shape, mean), where=played_PP > 0)
    return np.where(own_PP > 0, own_PP, mean)
