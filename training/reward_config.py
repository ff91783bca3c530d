"""How a reward model learns, as values: frozen, checked once, free of torch."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from arena.agents.models import check_lora
from arena.protocols.errors import ConfigError
from arena.training.judge_methods import JudgeMethod
from arena.training.learner_config import OptimizerConfig, inert_keys

__all__ = ["BradleyTerry", "CalibrationConfig", "Pointwise", "Process", "RewardMethod"]

_TRAINERS = "arena.training.reward_models"


class CalibrationConfig(BaseModel):
    """How probabilities are fitted after training; see `arena.training.calibration`. Scores and choices stay."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    share: float = Field(0.1, gt=0.0, le=0.5)
    """Share of the questions to learn from that are kept back for it."""
    lapse: bool = False
    """Fit a lapse rate beside the temperature: for labels that are wrong in clear cases as often as in close ones."""


class RewardMethod(JudgeMethod):
    """What all ways have in common to train a network with one output."""

    judges: ClassVar = ("reward-model",)

    batch: int = Field(64, ge=1, le=10**9)
    """Examples a step; each is seen once before any is seen again."""
    binding: Literal["full", "adapter"] = "full"
    """``full`` trains all weights; ``adapter`` trains a LoRA on the frozen body, and the head."""
    lora: dict[str, Any] = Field(default_factory=dict)
    """For ``adapter``: ``r``, ``alpha``, ``targets``."""
    learner: OptimizerConfig = OptimizerConfig(lr=1e-3)
    """Optimizer and schedule."""
    calibration: CalibrationConfig | None = None
    """Fit the judge's probabilities on questions that it did not learn from; absent: they are those of the loss."""

    def faults(self) -> list[tuple[tuple[str, ...], str]]:
        """See `JudgeMethod.faults`."""
        found: list[tuple[tuple[str, ...], str]] = []
        if self.binding == "full" and "lora" in self.model_fields_set:
            found.append((("lora",), "'lora' has no effect with binding 'full': write binding: adapter"))
        try:
            check_lora(self.lora)
        except ConfigError as error:
            found.append((("lora",), str(error)))
        return found + [(("learner", *path), what) for path, what in inert_keys(self.learner)]


class BradleyTerry(RewardMethod):
    """The right answer's reply should score more than each other one's; see `objectives.supervised.rm_bt`."""

    trainer: ClassVar = f"{_TRAINERS}:BradleyTerryTrainer"

    kind: Literal["bradley-terry"] = "bradley-terry"
    margin: float = Field(0.0, ge=0.0, le=1e6)
    """Score by which the better reply should lead, for each unit of the data's own ``margin`` (0 does not ask)."""
    smoothing: float = Field(0.0, ge=0.0, lt=0.5)
    """Probability that a label is wrong; the loss expects it (soft labels)."""
    center: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of the pull of scores to 0, which pairs leave open."""


class Pointwise(RewardMethod):
    """Each reply by itself: right ones towards 1, others towards 0, or each to its grade where the data has some."""

    trainer: ClassVar = f"{_TRAINERS}:PointwiseTrainer"

    kind: Literal["pointwise"] = "pointwise"
    loss: Literal["bce", "mse"] = "bce"
    """``bce`` makes scores log-odds; ``mse`` makes them grades."""


class Process(RewardMethod):
    """Each step by itself, by the labels of the steps; where there are none, every step is as good as its answer."""

    judges: ClassVar = ("process-reward",)
    trainer: ClassVar = f"{_TRAINERS}:ProcessTrainer"

    kind: Literal["process"] = "process"
