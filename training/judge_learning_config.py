"""How a language model learns to judge, as values: frozen, checked once, free of torch."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from arena.agents.models import check_lora
from arena.protocols.errors import ConfigError
from arena.training.judge_methods import JudgeMethod
from arena.training.learner_config import LearnerConfig, OptimizerConfig, inert_keys

__all__ = ["SFT", "JudgeRewards", "LanguageMethod", "PolicyGradient"]

Faults = list[tuple[tuple[str, ...], str]]


class LanguageMethod(JudgeMethod):
    """What all ways have in common to train a judge that is a language model."""

    judges: ClassVar = ("llm",)

    batch: int = Field(64, ge=1, le=10**9)
    """Examples a step, drawn without replacement."""
    binding: Literal["full", "adapter"] = "full"
    """``full`` trains all weights; ``adapter`` trains a LoRA on the frozen base."""
    lora: dict[str, Any] = Field(default_factory=dict)
    """For ``adapter``: ``r``, ``alpha``, ``targets``."""

    def faults(self) -> Faults:
        """See `JudgeMethod.faults`."""
        found: Faults = []
        if self.binding == "full" and "lora" in self.model_fields_set:
            found.append((("lora",), "'lora' has no effect with binding 'full': write binding: adapter"))
        try:
            check_lora(self.lora)
        except ConfigError as error:
            found.append((("lora",), str(error)))
        learner: OptimizerConfig = getattr(self, "learner")  # noqa: B009 - each method declares its own kind of it
        return found + [(("learner", *path), what) for path, what in inert_keys(learner)]


class SFT(LanguageMethod):
    """Imitate the labels: cross-entropy on the tokens of the right answer."""

    trainer: ClassVar = "arena.training.judge_sft:SFTTrainer"

    kind: Literal["sft"] = "sft"
    orders: Literal["random", "given"] = "random"
    """Whether the answers are shown in a random one of the judge's orders each time, or only in the data's own. From
    labels that favour a place, ``given`` teaches to favour that place."""
    learner: OptimizerConfig = OptimizerConfig(lr=5e-3)
    """Optimizer and schedule."""


class JudgeRewards(BaseModel):
    """What a sampled verdict is paid for; a verdict earns the weighted sum."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    correct: float = Field(1.0, ge=0.0, le=1e6)
    """Weight of being right: 1 if the sampled answer is the label, else 0."""
    consistent: float = Field(0.0, ge=0.0, le=1e6)
    """Weight of order consistency: share of the verdicts sampled in the other orders of the answers that agree."""

    @model_validator(mode="after")
    def _something_is_paid(self) -> JudgeRewards:
        if self.correct == self.consistent == 0.0:
            raise ValueError("nothing is paid for: give correct or consistent a weight above 0")
        return self


class PolicyGradient(LanguageMethod):
    """Verdicts are actions: sampled from the judge's own answer distribution in every order, and paid.

    REINFORCE with the mean of the samples of one question and order as baseline (Dr. GRPO, arXiv 2503.20783), or with
    the exact expectation over the answers in place of samples.
    """

    trainer: ClassVar = "arena.training.judge_policy_gradient:PolicyGradientTrainer"

    kind: Literal["policy-gradient"] = "policy-gradient"
    samples: Literal["exact"] | Annotated[int, Field(ge=2, le=10**6)] = "exact"
    """Verdicts sampled for each question and order; ``exact`` takes every answer with its probability as weight, the
    same gradient without noise."""
    rewards: JudgeRewards = JudgeRewards()
    """What is paid for."""
    learner: LearnerConfig = LearnerConfig(lr=3e-3)
    """Objective, KL to the start, optimizer and schedule."""

    @property
    def needs_labels(self) -> bool:
        """See `JudgeMethod.needs_labels`."""
        return self.rewards.correct > 0.0

    def faults(self) -> Faults:
        """See `JudgeMethod.faults`."""
        found = super().faults()
        if self.learner.objective.aggregate != "token_mean":
            what = "'aggregate' must be token_mean: the verdicts of a question are weighted by their shares already"
            found.append((("learner", "objective", "aggregate"), what))
        objective = self.learner.objective
        for key, given in (("mixed_only", objective.mixed_only), ("overlong", objective.overlong is not None)):
            if given:
                found.append((("learner", "objective", key), f"'{key}' has no effect on verdicts: remove it"))
        if self.learner.kl.place == "reward":
            what = "'place' must be loss: verdicts are paid by `rewards` alone"
            found.append((("learner", "kl", "place"), what))
        if "value" in self.learner.model_fields_set:
            found.append(
                (("learner", "value"), "'value' has no effect on verdicts, which no critic foresees: remove it")
            )
        for key in ("epochs", "minibatches"):
            if self.samples == "exact" and getattr(self.learner, key) > 1:
                what = f"'{key}' must be 1 with samples: exact, whose weights are those of the present judge"
                found.append((("learner", key), what))
        return found
