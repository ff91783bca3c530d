"""Where a policy's tokens come from, by name.

    hf                                      transformers in this process
    vllm:max_model_len=4096                 an engine of vLLM on this machine; one base, many adapters
    vllm-server:url=http://localhost:8000   the same through ``vllm serve``

A backend of a policy follows a model that is being trained: `PolicyBackend.update` delivers the weights under the
name of their new version. A user's own is a factory in `BACKENDS` that takes ``model``, ``policy`` and ``adapter``.
"""

from __future__ import annotations

from typing import Protocol

from arena.agents.types import Backend, Completion, SampleRequest
from arena.protocols.registry import Registry

__all__ = ["BACKENDS", "AsyncBackend", "PolicyBackend"]


class PolicyBackend(Backend, Protocol):
    """A backend that follows one policy from version to version."""

    @property
    def max_length(self) -> int | None:
        """Most tokens of context and answer together; None if the model does not say."""
        ...

    def update(self, policy: str) -> None:
        """The model's weights have changed: answer with them from now on, under this name and version.

        Raises:
            ConfigError: this backend cannot follow such a change.
            BackendError: the weights could not be delivered.
        """
        ...


class AsyncBackend(Backend, Protocol):
    """A backend whose requests may come one by one and leave as soon as they are answered (continuous batching)."""

    async def draw(self, request: SampleRequest) -> Completion:
        """The completion that `Backend.generate` gives for this request. May be awaited in any event loop.

        Raises:
            BackendError: the model failed.
        """
        ...


BACKENDS: Registry[PolicyBackend] = Registry("backend")
"""Backends by spec: ``hf``, ``vllm:dtype=float32``."""

BACKENDS.lazy("hf", "arena.agents.backend_hf:hf_backend", "transformers in this process, CPU or CUDA", heavy=True)
BACKENDS.lazy(
    "vllm", "arena.agents.backend_vllm:vllm_backend", "an engine of vLLM on this machine, many adapters", heavy=True
)
BACKENDS.lazy(
    "vllm-server",
    "arena.agents.backend_vllm_server:vllm_server_backend",
    "a running 'vllm serve': vllm-server:url=http://localhost:8000",
    heavy=True,
    needs=("url",),
)
