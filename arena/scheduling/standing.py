"""Who stands where, as schedules see it: by mean score."""

from __future__ import annotations

from collections import defaultdict

from arena.scheduling.types import State
from arena.seeds import derive_seed

__all__ = ["standing"]


def standing(state: State) -> list[str]:
    """Names from the best mean score to the worst; self-play and undecidable games tell nothing.

    Who has no decided game stands in the middle, at one half. Equal ones are put in an order that is drawn from the
    seed, so that no place in the file is worth anything.
    """
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for result in state.results():
        pairing = result.pairing
        if pairing.first != pairing.second:
            scores[pairing.first] += result.scores
            scores[pairing.second] += [1.0 - score for score in result.scores]
    mean = {name: sum(scores[name]) / len(scores[name]) if scores[name] else 0.5 for name in state.names}
    return sorted(state.names, key=lambda name: (-mean[name], derive_seed(state.seed, "standing", name)))
