"""The policies of a training: one base with an adapter a policy, or weights of their own; their snapshots; generations.

Policies that are adapters (`binding: adapter`) of the same model share one network: its base is in memory once, beside
it the adapters of all roles and of all frozen members of the league. The base is never trained, never merged into.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from arena.agents.models import Model, add_lora, load_model, older_peft, open_model
from arena.agents.policy import Policy, PolicyAgent
from arena.protocols.errors import ConfigError
from arena.protocols.records import Sampling
from arena.seeds import derive_seed
from arena.training.recipe import PolicyRecipe, Recipe

__all__ = ["Generation", "PolicyLoader", "build_policies", "freeze", "policy_agent", "release", "save_policy", "thaw"]


def policy_agent(name: str, policy: Policy, recipe: PolicyRecipe, *, greedy: bool = False) -> PolicyAgent:
    """The agent that samples from a policy as its recipe says; ``greedy`` takes the likeliest token each time."""
    return policy.agent(Sampling(temperature=0.0 if greedy else recipe.temperature), recipe.max_tokens, name)


@dataclass(frozen=True, slots=True)
class Generation:
    """A snapshot of all policies."""

    number: int
    folders: Mapping[str, Path]
    """Policy name -> model folder."""
    versions: Mapping[str, int]
    """Policy name -> version of its weights: how often it had been updated."""

    @property
    def name(self) -> str:
        """``gen3``."""
        return f"gen{self.number}"


def build_policies(recipe: Recipe, seed: int, start: Generation | None = None) -> dict[str, Policy]:
    """The policies of a recipe, to be trained.

    Args:
        recipe: names their models.
        seed: of weights that are drawn.
        start: take the weights of this generation instead.

    Raises:
        ConfigError: a model cannot be opened, or has no layer that the adapter could sit at.
    """
    if start is not None:
        return PolicyLoader(recipe, seed).load(start)
    bases: dict[str, Model] = {}
    policies = {}
    for name, config in recipe.policies.items():
        if config.binding == "full":
            if config.lora:
                raise ConfigError(f"policies.{name}: 'lora' has no effect with binding 'full'; write binding: adapter")
            policies[name] = Policy(name, open_model(_seeded(config, seed, name)), sampler=config.sampler)
            continue
        key = _base_key(config)
        base = bases.get(key) or open_model(_seeded(config, seed, key))
        adapted = add_lora(base, adapter=name, seed=derive_seed(seed, "adapter", name) % 2**31, **config.lora)
        if key not in bases:
            bases[key] = adapted
        policies[name] = Policy(name, bases[key], adapter=name, sampler=config.sampler)
    return policies


def _base_key(config: PolicyRecipe) -> str:
    """Adapters of models with equal specs have one base."""
    return config.model if isinstance(config.model, str) else json.dumps(config.model, sort_keys=True)


def _seeded(config: PolicyRecipe, seed: int, name: str) -> Any:
    """The spec of a model, with a seed of its own where weights are drawn and the recipe gives none."""
    spec = config.model
    if isinstance(spec, dict) and spec.get("kind") == "tiny":
        return {"seed": derive_seed(seed, "policy", name) % 2**31, **spec}
    return spec


class PolicyLoader:
    """Opens generations; adapters of one base are put into one network.

    Args:
        recipe: of the training that made them.
        seed: of that training.
    """

    def __init__(self, recipe: Recipe, seed: int) -> None:
        self.recipe = recipe
        self.seed = seed
        self._bases: dict[str, Model] = {}

    def load(self, generation: Generation, *, suffix: str = "") -> dict[str, Policy]:
        """The policies of a generation.

        Args:
            generation: to open.
            suffix: of the adapters' names, so that several generations fit into one network.
        """
        return {name: self.one(name, generation, suffix=suffix) for name in self.recipe.policies}

    def one(self, name: str, generation: Generation, *, suffix: str = "") -> Policy:
        """One policy of a generation; see `load`."""
        config, folder = self.recipe.policies[name], generation.folders[name]
        version = generation.versions[name]
        if config.binding == "full":
            return Policy(name, load_model(folder), version, sampler=config.sampler)
        key, adapter = _base_key(config), f"{name}{suffix}"
        model = self._bases.get(key)
        if model is None:
            base = open_model(_seeded(config, self.seed, key))
            model = self._bases[key] = _with_adapter(base, folder, adapter)
        elif adapter not in model.network.peft_config:
            with older_peft():
                model.network.load_adapter(str(folder), adapter_name=adapter, is_trainable=True)
        return Policy(name, model, version, adapter, config.sampler)


def _with_adapter(base: Model, folder: Path, adapter: str) -> Model:
    from peft import PeftModel

    with older_peft():
        network: Any = PeftModel.from_pretrained(base.network, str(folder), adapter_name=adapter, is_trainable=True)
    return Model(network.eval(), base.encoder, base.name, base.source)


def freeze(policy: Policy) -> Policy:
    """A copy of the weights as they are, never trained, under the same name and version: a member of the league.

    Of an adapter only the adapter is copied, into the same network, as ``name@vN``.
    """
    network: Any = policy.model.network
    if policy.adapter is None or not hasattr(network, "peft_config"):
        return policy.snapshot()
    copy = policy.id
    if copy not in network.peft_config:
        with _undisturbed(network), torch.random.fork_rng(devices=[]), torch.no_grad(), older_peft():
            network.add_adapter(copy, network.peft_config[policy.adapter])
            weights = dict(network.named_parameters())
            for name, parameter in weights.items():
                if f".{policy.adapter}." in name and ".lora_" in name:
                    weights[name.replace(f".{policy.adapter}.", f".{copy}.")].copy_(parameter)
    return Policy(policy.name, policy.model, policy.version, copy, policy.sampler)


def thaw(policy: Policy, folder: Path, version: int) -> Policy:
    """The frozen copy of an earlier version, from the folder that `save_policy` wrote it into; see `freeze`."""
    network: Any = policy.model.network
    if policy.adapter is None or not hasattr(network, "peft_config"):
        model = load_model(folder)
        model.network.requires_grad_(False)
        return Policy(policy.name, model, version, policy.adapter, policy.sampler)
    copy = f"{policy.name}@v{version}"
    if copy not in network.peft_config:
        with _undisturbed(network), older_peft():
            network.load_adapter(str(folder), adapter_name=copy)
    return Policy(policy.name, policy.model, version, copy, policy.sampler)


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy's weights as a folder that transformers and peft open; of an adapter, the adapter alone."""
    adapted = hasattr(policy.model.network, "peft_config")
    policy.model.save(folder, adapter=policy.adapter if adapted else None)


def release(policy: Policy) -> None:
    """Forget a frozen copy that `freeze` made."""
    network: Any = policy.model.network
    if policy.adapter is not None and policy.adapter == policy.id and hasattr(network, "peft_config"):
        with _undisturbed(network):
            network.delete_adapter(policy.adapter)


@contextmanager
def _undisturbed(network: Any) -> Iterator[None]:
    """peft chooses what is active and trainable whenever adapters come or go; both are put back."""
    active, trainable = network.active_adapter, {p for p in network.parameters() if p.requires_grad}
    try:
        yield
    finally:
        network.set_adapter(active)
        for parameter in network.parameters():
            parameter.requires_grad_(parameter in trainable)
