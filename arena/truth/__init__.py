"""Whether debate leads a judge to the truth: what can be said of games on tasks with labels.

* `arm_result`, `compare_arms`, `same_tokens`: accuracy of each arm (blind judge, consultancy, debate, oracle,
  self-consistency, ...), clustered by task, beside the tokens that it took.
* `gaps_recovered`: which part of the gap between a blind judge and one with the evidence each arm gives back.
* `honesty`, `persuasion`: how often who argues the right answer wins, and whether persuasive agents inform the judge.

Undecidable verdicts and tasks without a label are in no rate; a tie counts one half.
"""

from arena.truth.arms import (
    Arm,
    ArmComparison,
    Gap,
    arm_result,
    compare_arms,
    gaps_recovered,
    question_scores,
    same_tokens,
)
from arena.truth.persuasion import AgentTruth, Honesty, Persuasion, honesty, persuasion

__all__ = [
    "AgentTruth",
    "Arm",
    "ArmComparison",
    "Gap",
    "Honesty",
    "Persuasion",
    "arm_result",
    "compare_arms",
    "gaps_recovered",
    "honesty",
    "persuasion",
    "question_scores",
    "same_tokens",
]
