"""Floor 3: who scores. The contract, the registry and the light judges; models are imported when one is built.

A spec names a judge on a command line or in YAML: ``exact``, ``match``, ``classifier:path=DIR``, ``llm:model=smollm2``.
"""

from arena.agents import AGENTS
from arena.judges.types import Judge, JudgeView, Statement
from arena.protocols.registry import Registry

__all__ = ["JUDGES", "Judge", "JudgeView", "Statement"]

JUDGES: Registry[Judge] = Registry("judge")
"""Factories of judges by name."""

JUDGES.lazy("exact", "arena.judges.exact:ExactJudge", "knows the label: the right answer gets all the probability")
JUDGES.lazy("match", "arena.judges.exact:MatchJudge", "reads which answer the last statement states, strictly")
JUDGES.lazy(
    "classifier",
    "arena.judges.classifier:load_classifier",
    "a trained network over quoted words",
    heavy=True,
    needs=("path",),
)
JUDGES.lazy(
    "llm", "arena.judges.llm:llm_judge", "a language model, by log-probs of the answers in every order", heavy=True
)

AGENTS.lazy("greedy-quotes", "arena.judges.greedy:greedy_quotes", "quotes what convinces the judge most")
