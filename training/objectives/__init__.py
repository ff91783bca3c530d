"""Objectives as pure functions of tensors.

All take ``(B, T)`` log-probs with a mask of trained tokens; what lies under a masked entry, NaN included, never
influences a value or a gradient. All return a loss to minimise. They are exact in float32 and float64 and are checked
against golden vectors in the tests; half precision is added up in float32.

    catalogue         what there is: name, family, paper, line of a recipe
    precision         half precision stops at the door
    aggregate         one number from many tokens: the normalisations of the literature
    policy_gradient   PPO clip and its kin: GRPO, Dr. GRPO, DAPO, GSPO
    reinforce         without a value: REINFORCE, RLOO, REINFORCE++, rewards on steps, planner and executor
    actor_critic      with a value: value loss, entropy, PPO as a whole, PPO-ptx
    importance        weights for tokens of a sampler that is not quite the trainer
    kl                sampled and exact KL to a reference
    supervised        negative log-likelihood; Bradley-Terry and pointwise losses of reward models
    preference        pairs of replies: DPO and its kin, IPO, SimPO, ORPO, SPIN
    pointwise         replies one by one or ranked: KTO, UNA, RRHF, PRO
    value_based       offline: expectiles, ILQL, CQL, a verifier of steps
    constrained       several goals: Lagrange multiplier, scalarisation, Pareto front
    token_logps       log-probs of tokens from hidden states, without all logits at once
"""

from typing import Literal

__all__ = ["Aggregate", "Estimator", "Level"]

Aggregate = Literal[
    "token_mean",
    "group_token_mean",
    "seq_mean_token_mean",
    "seq_mean_token_sum",
    "seq_mean_token_sum_norm",
    "token_sum",
]
"""How tokens are averaged: see `arena.training.objectives.aggregate`."""

Estimator = Literal["k1", "k2", "k3", "abs"]
"""Sampled KL: see `arena.training.objectives.kl`."""

Level = Literal["token", "sequence", "sequence_sum"]
"""Unit that has one importance ratio: see `arena.training.objectives.policy_gradient`."""
