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
from arena.protocols.errors import ConfigError
from arena.protocols.registry import Registry

__all__ = ["BACKENDS", "AsyncBackend", "PolicyBackend", "check_room"]


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


def check_room(context: int, new: int, limit: int | None, name: str) -> None:
    """Whether a model can take a request, by the lengths of its context and of what may follow, in tokens.

    Raises:
        ConfigError: the context is empty, or both together are longer than the model's limit.
    """
    if not context:
        raise ConfigError("a request has an empty context; a context begins with at least one token")
    if limit is not None and context + new > limit:
        raise ConfigError(
            f"a context of {context} tokens and {new} new ones exceed the {limit} of '{name}':"
            " lower max_tokens, shorten the protocol, or build the model with a larger max_length"
        )


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
