"""How debaters learn: episodes become training sequences, rewards become advantages, a learner takes optimizer steps.

    episode --sequences_of--> TrainingSequence --(advantages)--> Learner.update -> metrics, new weights

Nothing here imports torch until a learner is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from arena.training.advantages import assign_advantages, credit, group_advantages
from arena.training.kl_control import KLController
from arena.training.learner_config import KLConfig, LearnerConfig, ObjectiveConfig
from arena.training.sequences import TrainingSequence, sequences_of

if TYPE_CHECKING:
    from arena.training.learner import Learner

__all__ = [
    "KLConfig",
    "KLController",
    "Learner",
    "LearnerConfig",
    "ObjectiveConfig",
    "TrainingSequence",
    "assign_advantages",
    "credit",
    "group_advantages",
    "sequences_of",
]


def __getattr__(name: str) -> Any:
    if name == "Learner":
        from arena.training.learner import Learner

        return Learner
    raise AttributeError(f"module 'arena.training' has no attribute '{name}'")
