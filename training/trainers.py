"""Which kinds of judge a recipe can train; light, so that recipes are checked without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arena.protocols.registry import Registry

if TYPE_CHECKING:
    from arena.judges.classifier import ClassifierJudge
    from arena.judges.llm import LLMJudge

__all__ = ["TRAINERS"]

TRAINERS: Registry[ClassifierJudge | LLMJudge] = Registry("judge that can be trained")
"""Judge kind -> function of tasks that trains one on random evidence."""

TRAINERS.lazy(
    "classifier", "arena.training.judge_training:train_classifier_judge", "random handfuls of words", heavy=True
)
TRAINERS.lazy("llm", "arena.training.judge_training:train_llm_judge", "random quotes, any order of answers", heavy=True)
