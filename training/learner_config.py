"""How a policy learns, as values: frozen, checked once, free of torch so that recipes can be read without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from arena.training.objective_config import ObjectiveConfig

__all__ = [
    "ImportanceConfig",
    "KLConfig",
    "LearnerConfig",
    "ObjectiveConfig",
    "OptimizerConfig",
    "ValueConfig",
    "inert_keys",
    "learning_rate",
]


Decay: TypeAlias = Annotated[float, Field(ge=0.0, lt=1.0)]


def _pair(value: Any) -> Any:
    """YAML has lists where Python has tuples."""
    return tuple(value) if isinstance(value, list) else value


class KLConfig(BaseModel):
    """The pull to the reference policy."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    place: Literal["loss", "reward"] = "loss"
    """Added to the loss, or taken off the return of each turn (PPO as in InstructGPT, RLOO, REINFORCE++)."""
    estimator: Literal["exact", "k1", "k2", "k3"] = "exact"
    """``exact`` compares whole distributions; the others see the sampled token only. ``k1`` is for the reward, where it
    is the only one whose gradient is that of the KL; in the loss its expected gradient is 0."""
    beta: float = Field(0.05, ge=0.0, le=1e6)
    """Coefficient of the KL, the first one if it adapts."""
    target: float | None = Field(None, gt=0.0, le=1e6)
    """KL that an adaptive coefficient aims at, in nats a turn; none keeps beta fixed."""
    form: Literal["additive", "multiplicative"] = "additive"
    """How the coefficient adapts: see `arena.training.kl_control`."""
    gain: float = Field(0.1, gt=0.0, le=1e6)
    """Speed of adaptation."""
    floor: float = Field(0.0, ge=0.0, le=1e6)
    """Lower bound of the coefficient."""
    ceiling: float = Field(1e6, gt=0.0, le=1e6)
    """Upper bound of the coefficient."""

    @model_validator(mode="before")
    @classmethod
    def _by_place(cls, data: Any) -> Any:
        """In the reward there is one estimator to choose."""
        in_reward = isinstance(data, Mapping) and data.get("place") == "reward"
        return {"estimator": "k1", **data} if in_reward else data

    @model_validator(mode="after")
    def _bounds(self) -> KLConfig:
        if (self.place == "reward") != (self.estimator == "k1"):
            raise ValueError(
                f"estimator {self.estimator} in the {self.place} does not have the gradient of the KL: "
                "k1 belongs to place: reward, and exact, k2 and k3 to place: loss"
            )
        if not self.floor <= self.beta <= self.ceiling:
            raise ValueError(f"beta {self.beta:g} must lie between floor {self.floor:g} and ceiling {self.ceiling:g}")
        if self.target is not None and self.beta == 0.0:
            raise ValueError("a beta of 0 cannot adapt to a target: start above 0")
        return self


class ImportanceConfig(BaseModel):
    """Weights of tokens of a sampler that is not quite the trainer: see `arena.training.objectives.importance`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    cap: float = Field(2.0, gt=0.0, le=1e6)
    """Largest weight."""
    level: Literal["token", "sequence"] = "token"
    """One weight a token, or one a sequence."""
    mode: Literal["truncate", "mask"] = "truncate"
    """Cut weights above the cap, or leave out what lies outside of floor and cap."""
    floor: float = Field(0.0, ge=0.0, le=1e6)
    """Smallest weight that ``mask`` keeps."""

    @model_validator(mode="after")
    def _floor(self) -> ImportanceConfig:
        if self.floor and (self.mode == "truncate" or self.floor >= self.cap):
            raise ValueError("floor belongs to mode: mask and lies below cap")
        return self


class ValueConfig(BaseModel):
    """How the critic of a policy learns: see `arena.training.critic`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    coef: float = Field(0.5, gt=0.0, le=1e6)
    """Weight of the value loss beside the policy's (``vf_coef``)."""
    clip: float | None = Field(0.2, gt=0.0, le=1e6)
    """How far a value may move from what it was when the update began before it stops counting; none: any distance."""
    lr: float = Field(1.0, gt=0.0, le=1e6)
    """Learning rate of the value head, as a multiple of the policy's."""
    detach: bool = False
    """Let the value loss train the head alone and leave the policy's hidden states as they are."""


class OptimizerConfig(BaseModel):
    """How weights move; all that supervised learning needs."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    lr: float = Field(3e-3, gt=0.0, le=10.0)
    """Learning rate after warm-up."""
    warmup: int = Field(0, ge=0, le=10**9)
    """Steps over which the learning rate rises linearly."""
    schedule: Literal["constant", "linear", "cosine"] = "constant"
    """How the learning rate falls from there to ``final`` at ``total_steps``."""
    final: float = Field(0.1, ge=0.0, le=1.0)
    """Share of ``lr`` that is left at the end of a linear or cosine schedule."""
    total_steps: int = Field(0, ge=0, le=10**9)
    """Optimizer steps of the whole run; needed by a linear or cosine schedule."""
    betas: Annotated[tuple[Decay, Decay], BeforeValidator(_pair)] = (0.9, 0.99)
    """Decay of AdamW's moments."""
    weight_decay: float = Field(0.0, ge=0.0, le=10.0)
    """Decoupled weight decay."""
    clip_norm: float | None = Field(1.0, gt=0.0, le=1e6)
    """Gradients with a larger norm are scaled down to it."""
    optimizer: Literal["adamw", "adamw_8bit"] = "adamw"
    """``adamw_8bit`` keeps moments of large weights in 8 bits (Dettmers et al. 2022), by the library bitsandbytes."""
    checkpointing: bool = False
    """Compute activations of each layer again in the backward pass instead of keeping them: less memory, more time, and
    the same gradient."""
    micro_batch: int = Field(16384, ge=1, le=10**9)
    """Most tokens in one forward pass; bounds memory and changes nothing else."""

    @model_validator(mode="after")
    def _schedule(self) -> OptimizerConfig:
        if self.schedule != "constant" and self.total_steps <= self.warmup:
            raise ValueError(f"schedule {self.schedule} needs total_steps above warmup {self.warmup}")
        return self


class LearnerConfig(OptimizerConfig):
    """How a policy learns from rewards."""

    epochs: int = Field(1, ge=1, le=10**9)
    """Passes over the sequences of an update."""
    minibatches: int = Field(1, ge=1, le=10**9)
    """Optimizer steps a pass."""
    objective: ObjectiveConfig = ObjectiveConfig()
    """Clips, unit of the ratio and averaging of the policy gradient."""
    kl: KLConfig = KLConfig()
    """The pull to the reference."""
    value: ValueConfig = ValueConfig()
    """The critic, where credit rests on one (``credit.estimator: gae``)."""
    importance: ImportanceConfig | None = None
    """Weight tokens by how much likelier the trainer finds them than the sampler that drew them, as where vLLM samples;
    absent: the sampler's log-probs are taken for the trainer's."""
    max_kl: float | None = Field(None, gt=0.0, le=1e6)
    """After a step that measured more than this (nats a turn), the other steps of its update are left out, and the next
    update only pulls back to the reference."""

    @model_validator(mode="after")
    def _pull(self) -> LearnerConfig:
        if self.max_kl is not None and self.kl.beta == 0.0:
            raise ValueError(
                "max_kl pulls back to the reference with kl.beta, which is 0: set kl.beta or remove max_kl"
            )
        if self.max_kl is not None and self.kl.place == "reward":
            raise ValueError("max_kl pulls back by the KL in the loss: set kl.place: loss or remove max_kl")
        return self


def inert_keys(config: OptimizerConfig) -> list[tuple[tuple[str, ...], str]]:
    """Keys that were given and change nothing, each as (its path inside the configuration, why and the way out)."""
    found: list[tuple[tuple[str, ...], str]] = []
    if config.schedule == "constant":
        what = "has no effect with a constant schedule: set schedule or remove it"
        given = config.model_fields_set
        found += [((key,), f"'{key}' {what}") for key in ("final", "total_steps") if key in given]
    if isinstance(config, LearnerConfig) and config.kl.target is None:
        what = "has no effect while beta is fixed: set target (nats a turn) or remove it"
        given = config.kl.model_fields_set
        found += [(("kl", key), f"'{key}' {what}") for key in ("form", "gain", "floor", "ceiling") if key in given]
    return found


def learning_rate(config: OptimizerConfig, step: int) -> float:
    """Learning rate of the 0-based optimizer step; the schedule's end is kept after ``total_steps``."""
    if step < config.warmup:
        return config.lr * (step + 1) / config.warmup
    if config.schedule == "constant":
        return config.lr
    done = min((step - config.warmup) / (config.total_steps - config.warmup), 1.0)
    left = 1.0 - done if config.schedule == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return config.lr * (config.final + (1.0 - config.final) * left)
