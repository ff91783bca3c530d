"""What a training will take, before it is begun: episodes, tokens, memory.

Counts are exact where the course of an episode does not depend on what is said. Tokens are at most these: every turn as
long as it may be. Memory is that of weights, gradients, moments, references and frozen members; activations come on top
and depend on ``micro_batch``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from arena.protocols import Protocol, load_protocol
from arena.training.policies import build_policies
from arena.training.recipe import Recipe

__all__ = ["Plan", "PolicyPlan", "plan_training"]


@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """One set of weights."""

    parameters: int
    """Of its network, those of a shared base included."""
    trained: int
    """Of these, the trained ones."""
    roles: list[str]
    """Seats that it plays."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One training of a recipe, and how many there are."""

    trainings: int
    """Seeds times (variants and the recipe as it stands)."""
    steps: int
    """Optimizer steps of self-play, over all generations."""
    episodes: int
    """Played to learn from, over all steps."""
    turns: int | None
    """Of policies in an episode; None where that depends on what is said."""
    tokens_a_step: int | None
    """Most tokens that are sampled for a step."""
    tokens: int | None
    """Most tokens that are sampled to learn from."""
    policies: Mapping[str, PolicyPlan]
    members: int
    """Most frozen members of the league in memory."""
    megabytes: float
    """Weights (a shared base once), gradients, moments, references and members."""

    def plain(self) -> dict[str, Any]:
        """For ``--json``."""
        return asdict(self)


def plan_training(recipe: Recipe, seed: int = 0) -> Plan:
    """Look ahead. Models are opened and nothing else is done.

    Raises:
        UserError: a model cannot be opened.
    """
    config = recipe.self_play
    protocol = load_protocol(recipe.protocol, recipe.params)
    steps = config.generations * config.steps
    a_step = config.tasks * config.group
    turns, tokens = _length(protocol, recipe)
    policies = build_policies(recipe, seed)
    members = _members(recipe, steps)
    sizes, bases, held = {}, set(), 0
    for name, policy in policies.items():
        network = policy.model.network
        own = [
            (n, p) for n, p in network.named_parameters() if policy.adapter == "default" or f".{policy.adapter}." in n
        ]
        trained = sum(p.numel() for _, p in own)
        roles = [role for role in protocol.speakers if recipe.policy_of(role) == name]
        sizes[name] = PolicyPlan(sum(p.numel() for p in network.parameters()), trained, roles)
        if id(network) not in bases:
            bases.add(id(network))
            held += sum(p.numel() * p.element_size() for p in network.parameters())
        width = max(p.element_size() for _, p in own)
        moments = 2 if config.learner.optimizer == "adamw_8bit" else 2 * width
        # Gradient, reference and the two that drift is measured from; the members.
        held += trained * (width + moments + 3 * width + members * width)
    return Plan(
        trainings=len(recipe.seeds) * (1 + len(recipe.variants)),
        steps=steps,
        episodes=steps * a_step,
        turns=turns,
        tokens_a_step=None if tokens is None else tokens * a_step,
        tokens=None if tokens is None else tokens * a_step * steps,
        policies=sizes,
        members=members,
        megabytes=held / 1e6,
    )


def _members(recipe: Recipe, steps: int) -> int:
    league = recipe.self_play.league
    if league.snapshot_every is not None:
        return min(1 + steps // league.snapshot_every, league.size)
    former = any(share for kind, share in league.mix.items() if kind != "mirror")
    return min(1 + recipe.self_play.generations, league.size) if former else 0


def _length(protocol: Protocol, recipe: Recipe) -> tuple[int | None, int | None]:
    """Turns of policies in an episode, and most tokens that they sample."""
    course = protocol.course()
    if course is None:
        return None, None
    spoken = [(node, recipe.policy_of(node.role.seat)) for node in course if node.speaks]
    limits = [(node.max_tokens, recipe.policies[policy].max_tokens) for node, policy in spoken if policy is not None]
    return len(limits), sum(most if limit is None else min(limit, most) for limit, most in limits)
