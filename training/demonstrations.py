"""Warm start: supervised fine-tuning on what scripted agents show, encoded as the policy would have said it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from arena.agents.policy import Policy
from arena.agents.types import Agent
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task
from arena.running import exchanged
from arena.seeds import derive_seed
from arena.training.learner import Learner
from arena.training.recipe import DemonstrationSource, Recipe, WarmStart
from arena.training.sequences import Cuts, TrainingSequence, sequences_of
from arena.training.world import World, build_agent

__all__ = ["sequences_by_policy", "sides_drawn", "warm_start"]


def warm_start(
    config: WarmStart, world: World, policies: Mapping[str, Policy], log: Callable[[dict[str, Any]], None]
) -> None:
    """Train the policies on demonstrations, in place.

    Args:
        config: how long, and on what.
        world: tasks, and what the demonstrators are built with.
        policies: by name.
        log: receives a row of metrics now and then.

    Raises:
        ConfigError: a demonstrator that cannot be encoded.
    """
    seed = world.seed
    learners = {
        name: Learner(policy.model, config.learner, seed=derive_seed(seed, "sft", name) % 2**31, adapter=policy.adapter)
        for name, policy in policies.items()
    }
    stages = [
        _Demonstration(mix, world, policies, seed=derive_seed(seed, "demonstration", i))
        for i, mix in enumerate(config.demonstrations)
    ]
    counts = _shares([mix.share for mix in config.demonstrations], config.tasks)
    batches: dict[int, dict[str, list[TrainingSequence]]] = {}
    fresh = config.fresh or config.steps
    for step in range(config.steps):
        if step % fresh not in batches:
            played = zip(stages, counts, strict=True)
            episodes = [e for stage, count in played for e in stage.play(step, count, config.group)]
            batches[step % fresh] = sequences_by_policy(world.recipe, episodes, demonstrations=True)
        for name, learner in learners.items():
            sequences = batches[step % fresh].get(name, [])
            if not sequences:
                raise ConfigError(f"warm_start: nothing that '{name}' could learn from was demonstrated")
            metrics = learner.sft(sequences, config.weights)
            if step % 20 == 0 or step == config.steps - 1:
                log({"phase": "warm start", "policy": name, "step": step + 1, "of": config.steps, **metrics})


def sequences_by_policy(
    recipe: Recipe, episodes: Sequence[Episode], *, demonstrations: bool = False
) -> dict[str, list[TrainingSequence]]:
    """What each policy said, or should have: policy -> the training sequences of its roles."""
    found: dict[str, list[TrainingSequence]] = {name: [] for name in recipe.policies}
    seats = {role: recipe.policy_of(role) for role in {role for episode in episodes for role in episode.lineup}}
    for name, policy in recipe.policies.items():
        roles = {role for role, own in seats.items() if own == name}
        known: Cuts = {}
        for episode in episodes:
            found[name] += sequences_of(
                episode,
                roles,
                demonstrations=demonstrations,
                train_thinking=policy.train_thinking,
                known=known,
            )
    return found


def sides_drawn(task: Task, flipped: bool) -> tuple[int, ...]:
    """Which seat argues which answer: in the order of the task, or with the first two exchanged."""
    sides = tuple(range(len(task.answers)))
    return exchanged(sides) if flipped else sides


class _Demonstration:
    """A stream of demonstration episodes from one source."""

    def __init__(self, mix: DemonstrationSource, world: World, policies: Mapping[str, Policy], *, seed: int) -> None:
        self.protocol = load_protocol(mix.protocol, world.recipe.params_of(mix))
        self.tasks: Sequence[Task] = world.tasks.train
        self.seed = seed
        self.engine = Engine(self.protocol, world.judge, seed=seed, judging=False)
        self.lineup: dict[str, Agent] = {}
        encoded: dict[tuple[str | None, str], Agent] = {}
        for role in self.protocol.speakers:
            name = world.recipe.policy_of(role)
            spec = mix.agent_of(role)
            key = (name, str(spec))
            if key not in encoded:
                agent = build_agent(spec, world)
                encode = getattr(agent, "encode_with", None)
                if name is not None and encode is None:
                    raise ConfigError(
                        f"agent '{agent.name}' cannot demonstrate: it has no encode_with(encoder, policy)"
                    )
                if name is not None and encode is not None:
                    agent = encode(policies[name].model.encoder, name)
                encoded[key] = agent
            self.lineup[role] = encoded[key]

    def play(self, step: int, count: int, group: int) -> list[Episode]:
        rng = np.random.default_rng(derive_seed(self.seed, step))
        chosen = rng.integers(0, len(self.tasks), size=count)
        flips = rng.integers(0, 2, size=count)
        plans = []
        for number, (index, flip) in enumerate(zip(chosen, flips, strict=True)):
            task = self.tasks[int(index)]
            sides = sides_drawn(task, bool(flip))
            plans += [Plan(f"{step}/{number}/{sample}", task, self.lineup, sides) for sample in range(group)]
        return self.engine.play(plans)


def _shares(shares: Sequence[float], total: int) -> list[int]:
    """Split ``total`` in proportion, by largest remainder."""
    exact = [share / sum(shares) * total for share in shares]
    counts = [int(x) for x in exact]
    for index in sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])[: total - sum(counts)]:
        counts[index] += 1
    return counts
