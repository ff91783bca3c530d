"""Ways to train a judge, by name; light, so that recipes are checked without torch.

A method is a pydantic model, the ``train`` block of a recipe with the method's name as its ``kind``. It says which
kinds of judge it trains and who does it:

    class BradleyTerry(JudgeMethod):
        kind: Literal["bradley-terry"] = "bradley-terry"
        judges: ClassVar = ("reward-model",)
        trainer: ClassVar = "arena.training.reward_models:BradleyTerryTrainer"
        lr: float = 1e-3
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from arena.judges import JUDGES
from arena.judges.types import Judge
from arena.protocols.registry import Registry, Spec
from arena.training.judge_data import Example

__all__ = ["METHODS", "JudgeMethod", "JudgeTrainer", "SavedJudge"]


class SavedJudge(Judge, Protocol):
    """A judge that can be kept."""

    def save(self, folder: Any) -> None:
        """Write it where ``KIND:path=FOLDER`` finds it."""
        ...


class JudgeTrainer(Protocol):
    """Trains one judge. The launcher has the loop, the log and the checkpoints."""

    def begin(self, examples: Sequence[Example]) -> None:
        """Learn from these from now on; all have a label if the method `needs_labels`.

        Called before the first step of each round.
        """
        ...

    def step(self, number: int) -> dict[str, float]:
        """One optimizer step and its metrics.

        ``number`` counts from 0 over all rounds; whatever is drawn must be a function of it and the seed, so that a
        run that was stopped goes on bit for bit.
        """
        ...

    def judge(self) -> SavedJudge:
        """The instrument as it is now; later steps do not change it."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that a stopped run needs to go on: tensors, numbers and containers."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            ResumeError: it belongs to another judge.
        """
        ...


class JudgeMethod(BaseModel):
    """How a judge learns: the ``train`` block of a recipe."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    judges: ClassVar[tuple[str, ...]]
    """Kinds of judge that it can train."""
    trainer: ClassVar[str]
    """Import path of ``(config, start: Spec, *, seed: int) -> JudgeTrainer``; it may load torch."""

    steps: int = Field(300, ge=1, le=10**9)
    """Optimizer steps of a round."""

    @property
    def needs_labels(self) -> bool:
        """Whether examples without a label are of no use."""
        return True

    def faults(self) -> list[tuple[tuple[str, ...], str]]:
        """Keys that were given and change nothing or clash, each as (its path in this block, why and the way out)."""
        return []

    def build(self, start: Spec, *, seed: int) -> JudgeTrainer:
        """The trainer of a judge that begins as ``start`` says.

        Raises:
            ConfigError: there is no such judge, it has no such argument, or it cannot be trained.
        """
        JUDGES.check(start, ("seed",), deep=True)
        module, _, name = self.trainer.partition(":")
        trainer: JudgeTrainer = getattr(importlib.import_module(module), name)(self, start, seed=seed)
        return trainer


METHODS: Registry[JudgeMethod] = Registry("way to train a judge")
"""Method name -> `JudgeMethod`."""

_HERE = "arena.training.judge_learning_config"
METHODS.lazy("sft", f"{_HERE}:SFT", "imitate the labels: cross-entropy on the right answer in every order")
METHODS.lazy(
    "policy-gradient", f"{_HERE}:PolicyGradient", "verdicts are sampled in every order and paid for being right"
)

_REWARD = "arena.training.reward_config"
METHODS.lazy("bradley-terry", f"{_REWARD}:BradleyTerry", "a reward model from pairs: the right reply should score more")
METHODS.lazy(
    "pointwise", f"{_REWARD}:Pointwise", "a reward model from single replies: log-odds of being right, or grades"
)
METHODS.lazy("process", f"{_REWARD}:Process", "a process reward model from steps: log-odds that each is good")
