"""Which kinds of judge a recipe can train; light, so that recipes are checked without torch."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from arena.judges import JUDGES
from arena.protocols.arguments import fit_arguments
from arena.protocols.errors import ConfigError, suggest
from arena.protocols.registry import Registry

if TYPE_CHECKING:
    from arena.judges.classifier import ClassifierJudge
    from arena.judges.llm import LLMJudge

__all__ = ["TRAINERS", "trainer_arguments"]

TRAINERS: Registry[ClassifierJudge | LLMJudge] = Registry("judge that can be trained")
"""Judge kind -> function of tasks that trains one on random evidence."""

TRAINERS.lazy("classifier", "arena.training.judge_training:train_classifier_judge", "random handfuls of words")
TRAINERS.lazy("llm", "arena.training.judge_training:train_llm_judge", "random quotes, any order of answers")

_OURS = ("tasks", "test", "progress")
"""Arguments that no recipe gives."""


def trainer_arguments(kind: str, args: Mapping[str, Any], train: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the function that trains a judge, checked.

    Args:
        kind: of the judge.
        args, train: as a recipe has them; the trainer takes both.

    Raises:
        ConfigError: a kind that cannot be trained, or an argument that its training does not have, or lacks.
        UnknownNameError: no such kind.
    """
    if kind not in TRAINERS:
        JUDGES.factory(kind)  # a kind that does not exist is told first
        raise ConfigError(f"judge '{kind}' cannot be trained; these can: {', '.join(TRAINERS.names())}")
    trainer = TRAINERS.factory(kind)
    given = {**args, **train}
    known = inspect.signature(trainer).parameters
    for key in given:
        if key not in known or key in _OURS:
            own = [name for name in known if name not in _OURS]
            raise ConfigError(f"'{key}' is not an argument of training a judge '{kind}'.{suggest(key, own)}")
    for name, parameter in known.items():
        if parameter.default is inspect.Parameter.empty and name not in given and name not in _OURS:
            raise ConfigError(f"training a judge '{kind}' needs '{name}'")
    return fit_arguments(trainer, given, f"training a judge '{kind}'")
