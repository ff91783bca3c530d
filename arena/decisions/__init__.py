"""Decisions that games allow: sequential tests, and comparisons corrected for how many there are.

test = Sprt(elo0=0, elo1=50, alpha=0.05, beta=0.05)
for points in (1.5, 2, 1, ...):  # of B, from both games of a pair
    if test.update(points):
        break
test.decision  # "H1": B is better
"""

from arena.decisions.comparisons import Compared, ScoreComparison, compare_all, compare_scores, sprt_pairs
from arena.decisions.multiple import adjusted
from arena.decisions.sprt import Sprt, bernoulli_llr, expected_score, fixed_size, pentanomial_llr

__all__ = [
    "Compared",
    "ScoreComparison",
    "Sprt",
    "adjusted",
    "bernoulli_llr",
    "compare_all",
    "compare_scores",
    "expected_score",
    "fixed_size",
    "pentanomial_llr",
    "sprt_pairs",
]
