"""Which policy-gradient objective policies learn by, as values: one name, or a name and what differs from it.

    self_play:
      objective: gspo
      learner: {objective: {clip_high: 1.0e-3}}

A name stands for a surrogate with its clips and averages (``learner.objective``) and for the advantages that belong to
it (``credit``); what a recipe writes under these keys itself comes first. The pull to the reference, ``learner.kl``, is
a choice of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from arena.protocols.errors import suggest
from arena.training.objectives import Aggregate, Level

__all__ = ["OBJECTIVES", "ObjectiveConfig", "ObjectiveName", "OverlongConfig", "with_objective"]

ObjectiveName = Literal[
    "ppo", "reinforce", "spiral", "rloo", "grpo", "dr_grpo", "dapo", "gspo", "reinforce_pp", "ppo_gae"
]
"""Names of `OBJECTIVES`."""

_SCORE = {"surrogate": "score", "aggregate": "seq_mean_token_sum"}
_MOVE = ["role", "node", "visit", "attempt"]

OBJECTIVES: dict[ObjectiveName, Mapping[str, Any]] = {
    "ppo": {},
    "reinforce": {"learner": {"objective": _SCORE}, "credit": {"estimator": "none", "scale": "none"}},
    "spiral": {
        "learner": {"objective": _SCORE},
        "credit": {"estimator": "rae", "scale": "none", "key": ["role", "node", "visit"]},
    },
    "rloo": {"learner": {"objective": _SCORE}, "credit": {"estimator": "leave_one_out", "scale": "none"}},
    "grpo": {"learner": {"objective": {"aggregate": "seq_mean_token_mean"}}, "credit": {"estimator": "grpo"}},
    "dr_grpo": {
        "learner": {"objective": {"aggregate": "seq_mean_token_sum_norm"}},
        "credit": {"estimator": "group", "scale": "none"},
    },
    "dapo": {"learner": {"objective": {"clip_high": 0.28, "mixed_only": True}}, "credit": {"estimator": "grpo"}},
    "gspo": {
        "learner": {
            "objective": {
                "level": "sequence",
                "clip_low": 3e-4,
                "clip_high": 4e-4,
                "aggregate": "seq_mean_token_mean",
            }
        },
        "credit": {"estimator": "grpo"},
    },
    "reinforce_pp": {"credit": {"estimator": "group", "scale": "batch", "key": _MOVE}},
    "ppo_gae": {"credit": {"estimator": "gae"}},
}
"""Objective -> what it sets in the ``self_play`` part of a recipe other than the defaults there. Papers stand in
`arena.training.objectives.catalogue`."""


def with_objective(data: Any) -> Any:
    """The ``self_play`` part of a recipe with what its ``objective`` stands for under what it says itself.

    Raises:
        ValueError: there is no objective of that name.
    """
    name = data.get("objective") if isinstance(data, Mapping) else None
    if name is None:
        return data
    if name not in OBJECTIVES:
        raise ValueError(f"objective '{name}' is not known.{suggest(str(name), OBJECTIVES)}")
    return _under(OBJECTIVES[name], data)


def _under(defaults: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(given)
    for key, value in defaults.items():
        inner = given.get(key)
        if isinstance(value, Mapping) and isinstance(inner, Mapping):
            merged[key] = _under(value, inner)
        else:
            merged.setdefault(key, value)
    return merged


class OverlongConfig(BaseModel):
    """DAPO's soft punishment of long turns: see `arena.training.returns.overlong_penalty`."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_len: int = Field(ge=1, le=10**9)
    """Trained tokens of a turn at which its reward is 1 less."""
    cache: int = Field(ge=1, le=10**9)
    """Over how many tokens before that the punishment grows from 0."""

    @model_validator(mode="after")
    def _within(self) -> OverlongConfig:
        if self.cache > self.max_len:
            raise ValueError(f"cache {self.cache} must lie within max_len {self.max_len}")
        return self


class ObjectiveConfig(BaseModel):
    """The policy-gradient part of the loss."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    surrogate: Literal["clip", "score"] = "clip"
    """``clip``: the ratio to the sampling policy times the advantage, clipped (PPO); ``score``: log-prob times
    advantage, without a ratio (REINFORCE)."""
    clip_low: float = Field(0.2, ge=0.0, le=1e6)
    """The ratio to the sampling policy earns nothing below 1 - clip_low."""
    clip_high: float = Field(0.2, ge=0.0, le=1e6)
    """The ratio to the sampling policy earns nothing above 1 + clip_high."""
    dual_clip: float | None = Field(None, gt=1.0, le=1e6)
    """Bound of the loss of a token with negative advantage, as a multiple of it."""
    level: Level = "token"
    """One ratio for each token (PPO, GRPO), or one for each sequence (GSPO)."""
    aggregate: Aggregate = "token_mean"
    """How tokens are averaged: see `arena.training.objectives.aggregate`."""
    norm_const: float | None = Field(None, gt=0.0, le=1e6)
    """The constant of ``seq_mean_token_sum_norm``."""
    mixed_only: bool = False
    """Leave out moves whose rewards are all equal within their group: they teach nothing and still count in averages
    (DAPO's dynamic sampling, without drawing others in their place)."""
    overlong: OverlongConfig | None = None
    """Punish turns for their length, as DAPO does."""

    @model_validator(mode="after")
    def _together(self) -> ObjectiveConfig:
        if (self.norm_const is None) == (self.aggregate == "seq_mean_token_sum_norm"):
            raise ValueError(
                "norm_const belongs to aggregate seq_mean_token_sum_norm: give both or neither (objective dr_grpo "
                "needs learner.objective.norm_const, such as the most tokens of a sequence)"
            )
        ratio = {"level", "clip_low", "clip_high", "dual_clip"}
        defaults = {name: field.default for name, field in type(self).model_fields.items() if name in ratio}
        given = [name for name, value in defaults.items() if getattr(self, name) != value]
        if self.surrogate == "score" and given:
            raise ValueError(f"{given[0]} has no effect on surrogate score, which has no ratio: remove it")
        return self
