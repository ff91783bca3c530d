"""Sampling from a transformers model in this process.

What makes it fast where debates are short and many:

* requests join a running batch when they come and leave it when they are answered (`arena.agents.hf.running`), so a
  long turn holds up nobody; rows of one batch may speak through different LoRA adapters;
* a context that several requests share, and what several contexts begin with, is forwarded once;
* keys and values stay after a request, so the next turn forwards only what is new (a *cohort* is the rows that ended
  together);
* contexts of one length form a rectangle: no padding, one small mask; ragged ones are padded on the left inside the
  batch;
* only the last position goes through the output head.

Alone, in a batch or from the cache, a request has the same logits up to rounding, and its draw depends on its seed
alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch

from arena.agents.backends import check_room
from arena.agents.hf.prefixes import Key
from arena.agents.hf.running import Job, Limits, RunningBatch, running_batch
from arena.agents.hf.scoring import score
from arena.agents.models import Model
from arena.agents.sampling import check_sampling
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError, NumericalError

__all__ = ["ContinuousHFBackend", "HFBackend", "hf_backend"]


class HFBackend:
    """Draws from and scores with a `Model` (see the module for how).

    Args:
        model: network and encoder; the network is shared, not copied.
        policy: name and version of the weights in ledgers; the model's name if empty. May be set anew after an update.
        device: where to run; the network is moved there.
        dtype: ``float32``, ``bfloat16`` or ``float64``; None leaves the network as it is.
        adapter: which LoRA adapter answers, if the network has any; None switches them off (the reference policy).
        max_batch: most rows that grow at once.
        max_batch_tokens: most tokens (rows x width) in one forward pass of contexts; rows that grow may hold four times
            as many.
        cache_mib: memory for keys and values of earlier calls; 0 switches the cache off, None takes an eighth of what
            the device has.

    Raises:
        ConfigError: the network has no such adapter, or a limit is not positive.
    """

    def __init__(
        self,
        model: Model,
        policy: str = "",
        *,
        device: str = "cpu",
        dtype: str | None = None,
        adapter: str | None = "default",
        max_batch: int = 512,
        max_batch_tokens: int = 32_768,
        cache_mib: int | None = None,
    ) -> None:
        if min(max_batch, max_batch_tokens) < 1 or (cache_mib is not None and cache_mib < 0):
            raise ConfigError("max_batch and max_batch_tokens must be 1 or more, cache_mib 0 or more")
        self.model = model
        self.policy = policy or model.name
        network: Any = model.network
        try:
            self.device = torch.device(device)
            network.to(device=self.device, dtype=None if dtype is None else _dtype_named(dtype))
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device '{device}' cannot be used: {str(error).splitlines()[0]}") from error
        adapters = getattr(network, "peft_config", {})
        if adapters and adapter is not None and adapter not in adapters:
            raise ConfigError(f"model '{model.name}' has no adapter '{adapter}'; it has: {', '.join(adapters)}")
        self.adapter = adapter if adapters else None
        size = _memory(self.device) // 8 if cache_mib is None else cache_mib * 2**20
        self._batch: RunningBatch = running_batch(model, Limits(max_batch, max_batch_tokens, size))

    @property
    def max_length(self) -> int | None:
        """Most tokens of context and answer together."""
        return self.model.max_length

    @property
    def end_ids(self) -> tuple[int, ...]:
        """Ids that end a turn."""
        return self.model.encoder.end_ids

    def invalidate(self) -> None:
        """Forget cached keys and values. Updates in place are noticed without it; a change through ``.data`` is not."""
        self._batch.forget()

    def update(self, policy: str) -> None:
        """The weights have changed: see `arena.agents.backends.PolicyBackend`.

        Raises:
            BackendError: requests are under way, which older weights have begun to answer.
        """
        if count := self._batch.under_way():
            raise BackendError(f"{policy}: {count} requests are under way; publish weights between runs")
        self.policy = policy
        self.invalidate()

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Draw up to ``max_tokens`` ids after each context; see `arena.agents.types.Backend`.

        Raises:
            ConfigError: an empty context, or one that is too long for the model.
            BackendError: the model failed, or its logits are not finite.
        """
        jobs = [self._job(request) for request in requests]
        for sampling in {request.sampling for request in requests}:
            check_sampling(sampling)
        self._batch.finish(jobs)
        return [job.answer for job in jobs]  # type: ignore[misc]  # they are finished

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        """Summed log-prob in nats of each continuation after its context; 0 for an empty one.

        Raises:
            ConfigError: an empty context, or one that is too long for the model.
            BackendError: the model failed.
        """
        for request in requests:
            self._check(len(request.ids), max(map(len, request.continuations), default=0))
        try:
            with self._batch.ready():
                return score(self._batch.contexts, requests, self.adapter)
        except (NumericalError, RuntimeError) as error:
            raise BackendError(f"{self.policy}: {error}") from error

    def _job(self, request: SampleRequest) -> Job:
        self._check(len(request.ids), request.max_tokens)
        allowed = None if request.allowed is None else tuple(request.allowed)
        return Job(request, Key(self.adapter, tuple(request.ids)), self.end_ids, self.policy, allowed)

    def _check(self, context: int, new: int) -> None:
        check_room(context, new, self.max_length, self.model.name)


class ContinuousHFBackend(HFBackend):
    """An `HFBackend` that also takes requests one by one: those of all agents of a network share its running batch.

    The steps are taken in the event loop of the callers, which waits for each: what happens depends on the requests
    alone, and not on how fast the machine is.
    """

    async def draw(self, request: SampleRequest) -> Completion:
        """See `arena.agents.backends.AsyncBackend`; raises as `generate` does."""
        job = self._job(request)
        check_sampling(request.sampling)
        return await self._batch.answer(job)


def hf_backend(
    model: Model,
    policy: str = "",
    *,
    device: str = "cpu",
    dtype: str | None = None,
    adapter: str | None = "default",
    max_batch: int = 512,
    max_batch_tokens: int = 32_768,
    cache_mib: int | None = None,
) -> HFBackend:
    """The backend that suits a model; arguments and errors as of `HFBackend`.

    Games in a vocabulary of words move in lockstep, a token or few a turn: whole supersteps are their best batches.
    """
    kind = HFBackend if model.encoder.one_token_turns else ContinuousHFBackend
    return kind(
        model,
        policy,
        device=device,
        dtype=dtype,
        adapter=adapter,
        max_batch=max_batch,
        max_batch_tokens=max_batch_tokens,
        cache_mib=cache_mib,
    )


def _dtype_named(name: str) -> torch.dtype:
    if name not in {"float32", "float64", "bfloat16", "float16"}:
        raise ConfigError(f"dtype '{name}' is not one of float32, float64, bfloat16, float16")
    found: torch.dtype = getattr(torch, name)
    return found


def _memory(device: torch.device) -> int:
    """Bytes that a device has."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 * 2**30  # systems that do not tell
