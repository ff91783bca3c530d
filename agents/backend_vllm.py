"""A policy's tokens from an engine of vLLM on this machine.

    backend = vllm_backend(model, "debater@v3", dtype="float32")
    agent = agent_for(backend, model.encoder, "debater@v3")

The trainer's network stays where it is; the engine has the base weights of its own, once for all policies that share a
base, and gets each version of an adapter as files (`arena.agents.adapters`). Policies without an adapter are served as
they are when the backend is made, and cannot be trained on.

The engine starts processes anew, so that a script that uses it keeps its work under ``if __name__ == "__main__":``.
"""

from __future__ import annotations

from typing import Any

from arena.agents.adapters import AdapterShelf, PublishedAdapter
from arena.agents.base_models import base_place
from arena.agents.batching import Answer, BatchingBackend, Question, Speaker
from arena.agents.engine_vllm import EngineOptions, VLLMEngine, fitting_rank
from arena.agents.models import Model

__all__ = ["VLLMBackend", "vllm_backend"]


class VLLMBackend(BatchingBackend):
    """Speaks for one policy through an engine that others may share.

    Args:
        engine: serves the base.
        speaker: of the model.
        policy: name and version in ledgers.
    """

    def __init__(self, engine: VLLMEngine, speaker: Speaker, policy: str) -> None:
        super().__init__(speaker, policy, engine.loop)
        self.engine = engine

    @property
    def max_length(self) -> int | None:
        """Most tokens of context and answer together."""
        own = super().max_length
        return self.engine.max_length if own is None else min(own, self.engine.max_length)

    @property
    def _shelf(self) -> AdapterShelf:
        return self.engine.shelf

    async def _ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        return await self.engine.ask(question, adapter)

    async def _load(self, adapter: PublishedAdapter) -> None:
        await self.engine.load(adapter)


def vllm_backend(
    model: Model,
    policy: str = "",
    adapter: str | None = "default",
    *,
    dtype: str = "",
    max_model_len: int | None = None,
    max_loras: int = 8,
    max_lora_rank: int | None = None,
    kv_cache_gib: float | None = None,
    gpu_memory_utilization: float = 0.9,
    tensor_parallel_size: int = 1,
    sleep_mode: bool = False,
) -> VLLMBackend:
    """The backend of a policy; engines are shared where base and options are the same (`EngineOptions`).

    Args:
        model: network and encoder; the engine gets a copy of its base.
        policy: name and version of the weights in ledgers; the model's name if empty.
        adapter: which LoRA adapter answers, if the network has any; None: the base without them.
        dtype: of weights and activations in the engine; the network's own if empty.
        max_model_len: most tokens of a context with its answer; None: what the model can take.
        max_loras: adapters that one batch can mix.
        max_lora_rank: largest rank of an adapter; None: 16, or what this model's adapters need.
        kv_cache_gib: memory for keys and values in GiB; None: what ``gpu_memory_utilization`` leaves, on a CPU half.
        gpu_memory_utilization: share of a GPU that the engine takes as a whole.
        tensor_parallel_size: GPUs that a model is spread over.
        sleep_mode: let `VLLMEngine.sleep` free the GPU for a trainer.

    Raises:
        MissingExtraError: vLLM is not installed.
        ConfigError: an option or an adapter that cannot work.
        BackendError: the engine did not start, or does not load the adapter.
    """
    base: Any = model.base
    ranks = [config.r for config in getattr(model.network, "peft_config", {}).values()]
    options = EngineOptions(
        dtype=dtype or str(base.dtype).removeprefix("torch."),
        max_model_len=max_model_len,
        max_loras=max_loras,
        max_lora_rank=max_lora_rank or fitting_rank(max([16, *ranks])),
        kv_cache_gib=kv_cache_gib,
        gpu_memory_utilization=gpu_memory_utilization,
        tensor_parallel_size=tensor_parallel_size,
        sleep_mode=sleep_mode,
    )
    engine = VLLMEngine.at(base_place(model), options)
    backend = VLLMBackend(engine, Speaker(model.name, model.encoder.end_ids, model.max_length), policy or model.name)
    backend.follow(model, adapter)
    return backend
