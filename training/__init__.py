"""How debaters learn: episodes become training sequences, rewards become advantages, a learner takes optimizer steps.

    episode --sequences_of--> TrainingSequence --(advantages)--> Learner.update -> metrics, new weights

A whole training is `arena.training.launch.launch(load_recipe(NAME_OR_FILE), FOLDER, ...)`. Nothing here imports torch
before `Learner`, `SelfPlay` or `build_world` is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arena.training.advantages import assign_advantages, credit, group_advantages
from arena.training.kl_control import KLController
from arena.training.learner_config import KLConfig, LearnerConfig, ObjectiveConfig, OptimizerConfig
from arena.training.sequences import TrainingSequence, sequences_of

if TYPE_CHECKING:
    from arena.training.learner import Learner
    from arena.training.recipe import Recipe, load_recipe
    from arena.training.selfplay import SelfPlay
    from arena.training.world import build_world

__all__ = [
    "KLConfig",
    "KLController",
    "Learner",
    "LearnerConfig",
    "ObjectiveConfig",
    "OptimizerConfig",
    "Recipe",
    "SelfPlay",
    "TrainingSequence",
    "assign_advantages",
    "build_world",
    "credit",
    "group_advantages",
    "load_recipe",
    "sequences_of",
]

_LATER = {
    "Learner": "learner",
    "Recipe": "recipe",
    "SelfPlay": "selfplay",
    "build_world": "world",
    "load_recipe": "recipe",
}
"""Public name -> module that is imported when the name is asked for."""


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(f"arena.training.{_LATER[name]}"), name)
    raise AttributeError(f"module 'arena.training' has no attribute '{name}'")
