"""Sampling from a transformers model in this process.

What makes it fast where debates are short and many:

* a context that several requests share is forwarded once, then drawn from for each of them;
* keys and values stay after a call, so the next turn forwards only what is new (a *cohort* is the rows of one such
  batch);
* contexts of one length form a rectangle: no padding, one small mask; ragged ones are padded on the left inside the
  batch;
* only the last position goes through the output head.

Alone, in a batch or from the cache, a request has the same logits up to rounding, and its draw depends on its seed
alone.
"""

from __future__ import annotations

import copy
import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from arena.agents.models import Model
from arena.agents.sampling import check_sampling, draw
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError, NumericalError
from arena.protocols.records import Sampling

__all__ = ["HFBackend"]

Ids = tuple[int, ...]
KV = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, (rows, heads, width, head size)."""


@dataclass(eq=False, slots=True)
class _Cohort:
    """Rows whose keys and values are known; row r holds exactly the tokens of ``keys[r]``."""

    keys: list[Ids]
    kv: KV
    valid: Tensor | None
    """(rows, width) bool: which slots hold a token; None if all do."""
    serial: int = 0

    @property
    def width(self) -> int:
        return int(self.kv[0][0].shape[2])

    @property
    def bytes(self) -> int:
        return sum(k.numel() * k.element_size() * 2 for k, _ in self.kv)


@dataclass(slots=True)
class _PrefixCache:
    """Cohorts by the contexts they hold, oldest dropped first."""

    limit: int
    cohorts: list[_Cohort] = field(default_factory=list)
    rows: dict[Ids, tuple[_Cohort, int]] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)
    order: list[int] = field(default_factory=list)
    used: int = 0
    serial: int = 0
    spare: list[Tensor] = field(default_factory=list)
    """Memory of the cohorts of older weights, to be filled again: fresh pages cost more than the copy into them."""

    def add(self, cohort: _Cohort) -> None:
        size = cohort.bytes
        if size > self.limit:
            return
        self.serial += 1
        cohort.serial = self.serial
        self.cohorts.append(cohort)
        self.used += size
        for row, key in enumerate(cohort.keys):
            self.rows[key] = (cohort, row)
        self.lengths.update(map(len, cohort.keys))
        while self.used > self.limit:
            self._drop(self.cohorts.pop(0))
        self.order = sorted(self.lengths, reverse=True)

    def _drop(self, cohort: _Cohort) -> None:
        self.used -= cohort.bytes
        for key in cohort.keys:
            if self.rows.get(key, (None, 0))[0] is cohort:
                del self.rows[key]
        self.lengths -= Counter(map(len, cohort.keys))

    def find(self, key: Ids) -> tuple[_Cohort, int] | None:
        """The longest known proper prefix of ``key``."""
        size = len(key)
        for length in self.order:
            if length < size:
                hit = self.rows.get(key[:length])
                if hit is not None:
                    return hit
        return None

    def buffer(self, shape: tuple[int, ...], like: Tensor) -> Tensor:
        """An uninitialised tensor, from spare memory if some fits."""
        size = math.prod(shape)
        for place, flat in enumerate(self.spare):
            if size <= flat.numel() <= 2 * size and flat.dtype == like.dtype:
                return self.spare.pop(place)[:size].view(shape)
        return like.new_empty(shape)

    def clear(self) -> None:
        # Only here, where no batch is on its way, may nobody read the dropped cohorts any more.
        tensors = [tensor for cohort in self.cohorts for pair in cohort.kv for tensor in pair if tensor.is_contiguous()]
        if tensors:
            self.spare = [tensor.view(-1) for tensor in tensors]
        self.cohorts.clear()
        self.rows.clear()
        self.lengths.clear()
        self.order.clear()
        self.used = 0


@dataclass(slots=True)
class _Flight:
    """Rows of one batch on their way: what has been forwarded, and where."""

    keys: list[Ids]
    cache: Any
    valid: Tensor | None
    lengths: list[int]

    @property
    def width(self) -> int:
        """Slots of the cache."""
        return int(self.cache.get_seq_length())


class HFBackend:
    """Draws from and scores with a `Model` (see the module for how).

    Args:
        model: network and encoder; the network is shared, not copied.
        policy: name and version of the weights in ledgers; the model's name if empty. May be set anew after an update.
        device: where to run; the network is moved there.
        dtype: ``float32``, ``bfloat16`` or ``float64``; None leaves the network as it is.
        adapter: which LoRA adapter answers, if the network has any; None switches them off (the reference policy).
        max_batch: most rows in one forward pass.
        max_batch_tokens: most tokens (rows x width) in one forward pass of contexts.
        cache_mib: memory for keys and values of earlier calls; 0 switches the cache off.

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
        cache_mib: int = 256,
    ) -> None:
        if min(max_batch, max_batch_tokens) < 1 or cache_mib < 0:
            raise ConfigError("max_batch and max_batch_tokens must be 1 or more, cache_mib 0 or more")
        self.model = model
        self.policy = policy or model.name
        network: Any = model.network
        try:
            self.device = torch.device(device)
            network.to(device=self.device, dtype=None if dtype is None else _dtype_named(dtype))
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"device '{device}' cannot be used: {str(error).splitlines()[0]}") from error
        adapters = getattr(model.network, "peft_config", {})
        if adapters and adapter is not None and adapter not in adapters:
            raise ConfigError(f"model '{model.name}' has no adapter '{adapter}'; it has: {', '.join(adapters)}")
        self.adapter = adapter
        self.max_batch = max_batch
        self.max_batch_tokens = max_batch_tokens
        self._cached = _PrefixCache(cache_mib * 2**20)
        self._version: object = None
        self._masks: dict[tuple[int, int], Tensor] = {}
        config = model.base.config
        # The cache argument was renamed in transformers 5; both names are in use.
        parameters = inspect.signature(model.base.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        # Own masks and kept prefixes need plain attention over all slots; windows count slots and must not see holes.
        windowed = any(kind != "full_attention" for kind in getattr(config, "layer_types", None) or ())
        windowed = windowed or getattr(config, "sliding_window", None) is not None
        self._plain = not windowed and getattr(config, "_attn_implementation", "") in {"eager", "sdpa"}

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
        self._cached.clear()

    def update(self, policy: str) -> None:
        """The weights have changed: see `arena.agents.backends.PolicyBackend`."""
        self.policy = policy
        self.invalidate()

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """Draw up to ``max_tokens`` ids after each context; see `arena.agents.types.Backend`.

        Raises:
            ConfigError: an empty context, or one that is too long for the model.
            BackendError: the model failed, or its logits are not finite.
        """
        keys = [tuple(request.ids) for request in requests]
        self._check(keys, [request.max_tokens for request in requests])
        for sampling in {request.sampling for request in requests}:
            check_sampling(sampling)
        askers: dict[Ids, list[int]] = {}
        for number, key in enumerate(keys):
            askers.setdefault(key, []).append(number)
        answers: list[Completion | None] = [None] * len(requests)
        with self._running():
            for batch in self._batches(list(askers)):
                logits, flight = self._prefill(batch)
                numbers = [number for row in batch for number in askers[row.key]]
                rows = [place for place, row in enumerate(batch) for _ in askers[row.key]]
                self._draw_all(requests, numbers, rows, logits, flight, answers)
        return answers  # type: ignore[return-value]

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        """Summed log-prob in nats of each continuation after its context; 0 for an empty one.

        Raises:
            ConfigError: an empty context, or one that is too long for the model.
            BackendError: the model failed.
        """
        keys = [tuple(request.ids) for request in requests]
        self._check(keys, [max(map(len, request.continuations), default=0) for request in requests])
        askers: dict[Ids, list[int]] = {}
        for number, key in enumerate(keys):
            askers.setdefault(key, []).append(number)
        sums = [[0.0] * len(request.continuations) for request in requests]
        with self._running():
            for batch in self._batches(list(askers)):
                logits_UV, flight = self._prefill(batch)
                self._keep(flight)
                first_UV = logits_UV.double().log_softmax(-1)
                # One job for each continuation: (row, request, place).
                jobs = [
                    (row, number, place)
                    for row, known in enumerate(batch)
                    for number in askers[known.key]
                    for place, ids in enumerate(requests[number].continuations)
                    if len(ids)
                ]
                for row, number, place in jobs:
                    sums[number][place] = float(first_UV[row, requests[number].continuations[place][0]])
                longer = [job for job in jobs if len(requests[job[1]].continuations[job[2]]) > 1]
                for start in range(0, len(longer), self.max_batch):
                    self._score_rest(requests, longer[start : start + self.max_batch], flight, sums)
        return sums

    def _check(self, keys: Sequence[Ids], new: Sequence[int]) -> None:
        limit = self.max_length
        for key, count in zip(keys, new, strict=True):
            if not key:
                raise ConfigError("a request has an empty context; a context begins with at least one token")
            if limit is not None and len(key) + count > limit:
                raise ConfigError(
                    f"a context of {len(key)} tokens and {count} new ones exceed the {limit} of '{self.model.name}':"
                    " lower max_tokens, shorten the protocol, or build the model with a larger max_length"
                )

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Evaluation mode, the right adapter, a cache that fits the weights; all put back afterwards."""
        network: Any = self.model.network
        training = network.training
        if training:
            network.eval()
        try:
            with torch.inference_mode(), self._adapted():
                version = self._weights_version()
                if version != self._version:
                    self._cached.clear()
                    self._version = version
                yield
        except (NumericalError, RuntimeError) as error:
            if isinstance(error, BackendError):
                raise
            raise BackendError(f"{self.policy}: {error}") from error
        finally:
            if training:
                network.train()

    @contextmanager
    def _adapted(self) -> Iterator[None]:
        network: Any = self.model.network
        if not hasattr(network, "peft_config") or (self.adapter and network.active_adapter == self.adapter):
            yield
        else:
            # Both switches also choose what is trainable; a sampler must leave that to the trainer.
            before, trainable = network.active_adapter, {p for p in network.parameters() if p.requires_grad}
            try:
                if self.adapter is None:
                    with network.disable_adapter():
                        yield
                else:
                    network.set_adapter(self.adapter)
                    yield
            finally:
                network.set_adapter(before)
                for parameter in network.parameters():
                    parameter.requires_grad_(parameter in trainable)

    def _weights_version(self) -> object:
        """Changes with every in-place update and every exchange of a tensor."""
        network = self.model.network
        return self.adapter, [(p.data_ptr(), p._version) for p in network.parameters() if not p.is_inference()]

    def _batches(self, keys: list[Ids]) -> Iterator[list[_Row]]:
        """Cut distinct contexts into batches: those with a known prefix apart, alike ones together."""
        rows = [_Row(key, hit) for key, hit in zip(keys, map(self._cached.find, keys), strict=True)]
        rows.sort(key=_Row.place)
        batch: list[_Row] = []
        widest = 0
        for row in rows:
            widest = max(widest, len(row.key))
            full = len(batch) >= self.max_batch or widest * (len(batch) + 1) > self.max_batch_tokens
            if batch and (full or (row.hit is None) != (batch[0].hit is None)):
                yield batch
                batch, widest = [], len(row.key)
            batch.append(row)
        if batch:
            yield batch

    def _prefill(self, batch: list[_Row]) -> tuple[Tensor, _Flight]:
        """Forward what is not known yet; logits (rows, vocabulary) after each context."""
        past, valid, width = self._gather(batch)
        deltas = [row.key[row.known :] for row in batch]
        widest = max(map(len, deltas))
        ragged = any(len(delta) != widest for delta in deltas)
        if ragged or valid is not None:
            fresh = _left_padded([len(delta) for delta in deltas], widest, self.device)
            old = fresh.new_ones(len(batch), width) if valid is None else valid
            valid = torch.cat([old, fresh], dim=1)
        ids = torch.tensor([(0,) * (widest - len(delta)) + delta for delta in deltas], device=self.device)
        if valid is None and len({row.known for row in batch}) == 1:
            positions = torch.arange(width, width + widest, device=self.device)[None]
        else:
            ends = torch.tensor([len(row.key) for row in batch], device=self.device)
            positions = (ends[:, None] + torch.arange(-widest, 0, device=self.device)).clamp_(min=0)
        logits = self._forward(ids, positions, past, valid, width)[:, -1]
        return logits, _Flight([row.key for row in batch], past, valid, [len(row.key) for row in batch])

    def _gather(self, batch: list[_Row]) -> tuple[Any, Tensor | None, int]:
        """A cache that holds the known prefixes of a batch, its valid slots and its width."""
        if batch[0].hit is None:
            return self._new_cache(None), None, 0
        parts: list[tuple[_Cohort, list[int]]] = []
        for row in batch:
            cohort, place = row.hit  # type: ignore[misc]  # a batch is known or new as a whole
            if not parts or parts[-1][0] is not cohort:
                parts.append((cohort, []))
            parts[-1][1].append(place)
        picks = [torch.tensor(places, device=self.device) for _, places in parts]
        width = max(cohort.width for cohort, _ in parts)
        if len(parts) == 1:
            cohort, pick = parts[0][0], picks[0]
            return self._new_cache(cohort.kv, pick), None if cohort.valid is None else cohort.valid[pick], width
        kv = [
            (_joined(parts, picks, layer, 0, width), _joined(parts, picks, layer, 1, width))
            for layer in range(len(parts[0][0].kv))
        ]
        if all(cohort.valid is None and cohort.width == width for cohort, _ in parts):
            return self._new_cache(kv), None, width
        valid = torch.zeros(len(batch), width, dtype=torch.bool, device=self.device)
        start = 0
        for (cohort, _), pick in zip(parts, picks, strict=True):
            rows = slice(start, start := start + len(pick))
            valid[rows, width - cohort.width :] = True if cohort.valid is None else cohort.valid[pick]
        return self._new_cache(kv), valid, width

    def _new_cache(self, kv: KV | None, pick: Tensor | None = None) -> Any:
        """An empty cache, or one that holds the rows ``pick`` of ``kv`` (all if None)."""
        if kv is None:
            return DynamicCache() if self._plain else DynamicCache(config=self.model.base.config)
        cache = DynamicCache()
        cache.layers = [_PickedLayer(keys, values, pick, self._cached.buffer) for keys, values in kv]
        return cache

    def _forward(
        self, ids_BT: Tensor, positions: Tensor, cache: Any, valid: Tensor | None, width: int, keep: int = 1
    ) -> Tensor:
        """Logits (B, keep, V) of the last positions; ``cache`` of ``width`` slots grows by T."""
        batch, new = ids_BT.shape
        mask: Tensor | None
        if self._plain:
            mask = self._mask(new, width + new, valid)
        else:
            mask = valid if valid is not None else ids_BT.new_ones(batch, width + new)
            mask = mask.long()
        out = self.model.network(
            input_ids=ids_BT,
            position_ids=positions,
            attention_mask=mask,
            use_cache=True,
            logits_to_keep=keep,
            **{self._cache_name: cache},
        )
        logits: Tensor = out.logits
        return logits

    def _mask(self, new: int, total: int, valid: Tensor | None) -> Tensor:
        """Additive mask (B or 1, 1, new, total): causal, and blind to slots without a token."""
        dtype = self._dtype()
        plain = self._masks.get((new, total))
        if plain is None or plain.dtype != dtype:
            if len(self._masks) > 4096:
                self._masks.clear()
            blind = torch.full((new, total), _blind(dtype), dtype=dtype, device=self.device)
            plain = self._masks[new, total] = blind.triu(total - new + 1)[None, None]
        if valid is None:
            return plain
        return plain.masked_fill(~valid[:, None, None, :], _blind(dtype))

    def _dtype(self) -> torch.dtype:
        embeddings: Any = self.model.base.get_input_embeddings()
        dtype: torch.dtype = embeddings.weight.dtype
        return dtype

    def _draw_all(
        self,
        requests: Sequence[SampleRequest],
        numbers: list[int],
        rows: list[int],
        logits_UV: Tensor,
        flight: _Flight,
        answers: list[Completion | None],
    ) -> None:
        """Draw to the end for the requests ``numbers``, whose contexts are the ``rows`` of the flight."""
        ends = set(self.end_ids)
        said: dict[int, tuple[list[int], list[float]]] = {number: ([], []) for number in numbers}
        step = 0
        while True:
            ids, logps = self._draw(requests, numbers, rows, logits_UV, step)
            alive = []
            for place, number in enumerate(numbers):
                drawn = said[number]
                drawn[0].append(ids[place])
                drawn[1].append(logps[place])
                stop = ids[place] in ends
                if stop or step + 1 >= requests[number].max_tokens:
                    answers[number] = Completion(tuple(drawn[0]), tuple(drawn[1]), "stop" if stop else "length")
                else:
                    alive.append(place)
            if len(alive) < len(numbers):
                gone = set(range(len(numbers))).difference(alive) if step else ()
                self._keep(flight, sorted({rows[place] for place in gone}) if step else None)
            if not alive:
                return
            if step == 0 or len(alive) < len(numbers):
                flight = self._selected(flight, [rows[place] for place in alive])
                numbers = [numbers[place] for place in alive]
                ids = [ids[place] for place in alive]
                rows = list(range(len(numbers)))
            logits_UV = self._advance(flight, ids)
            step += 1

    def _draw(
        self, requests: Sequence[SampleRequest], numbers: list[int], rows: list[int], logits_UV: Tensor, step: int
    ) -> tuple[list[int], list[float]]:
        """One draw for each request; those that draw alike go together."""
        first = requests[numbers[0]]
        groups: dict[tuple[Sampling, Ids | None], list[int]] = {}
        for place, number in enumerate(numbers):
            request = requests[number]
            allowed = None if request.allowed is None else tuple(request.allowed)
            groups.setdefault((request.sampling, allowed), []).append(place)
        if len(groups) == 1:
            seeds = [requests[number].seed for number in numbers]
            return draw(logits_UV, seeds, step, first.sampling, allowed=first.allowed, rows_B=rows)
        ids, logps = [0] * len(numbers), [0.0] * len(numbers)
        for (sampling, allowed), places in groups.items():
            seeds = [requests[numbers[place]].seed for place in places]
            picked = draw(logits_UV, seeds, step, sampling, allowed=allowed, rows_B=[rows[place] for place in places])
            for place, token, logp in zip(places, *picked, strict=True):
                ids[place], logps[place] = token, logp
        return ids, logps

    def _advance(self, flight: _Flight, ids: list[int]) -> Tensor:
        """Forward one token a row; logits (rows, vocabulary)."""
        width = flight.width
        if flight.valid is not None:
            flight.valid = torch.cat([flight.valid, flight.valid.new_ones(len(ids), 1)], dim=1)
        positions = torch.tensor(flight.lengths, device=self.device)[:, None]
        logits = self._forward(
            torch.tensor(ids, device=self.device)[:, None], positions, flight.cache, flight.valid, width
        )
        flight.keys = [(*key, token) for key, token in zip(flight.keys, ids, strict=True)]
        flight.lengths = [length + 1 for length in flight.lengths]
        return logits[:, -1]

    def _selected(self, flight: _Flight, rows: list[int]) -> _Flight:
        """A flight of some rows, a row as often as it is named."""
        pick = torch.tensor(rows, device=self.device)
        cache = flight.cache
        if self._plain:
            cache = self._new_cache([(layer.keys, layer.values) for layer in cache.layers], pick)
        else:
            cache = copy.deepcopy(cache)
            cache.batch_select_indices(pick)
        valid = None if flight.valid is None else flight.valid[pick]
        return _Flight([flight.keys[row] for row in rows], cache, valid, [flight.lengths[row] for row in rows])

    def _keep(self, flight: _Flight, rows: list[int] | None = None) -> None:
        """Put the rows of a flight (all if None) into the cache of prefixes."""
        if not self._plain or not self._cached.limit:
            return
        kv = [(layer.keys, layer.values) for layer in flight.cache.layers]
        keys, valid = flight.keys, flight.valid
        if rows is not None and len(rows) < len(keys):
            pick = torch.tensor(rows, device=self.device)
            kv = [(k[pick], v[pick]) for k, v in kv]
            keys, valid = [keys[row] for row in rows], None if valid is None else valid[pick]
        self._cached.add(_Cohort(keys, kv, valid))

    def _score_rest(
        self,
        requests: Sequence[ScoreRequest],
        jobs: list[tuple[int, int, int]],
        flight: _Flight,
        sums: list[list[float]],
    ) -> None:
        """Add the log-probs of the second and later tokens of continuations: (row, request, place) each."""
        texts = [tuple(requests[number].continuations[place]) for _, number, place in jobs]
        fed = max(map(len, texts)) - 1
        branch = self._selected(flight, [row for row, _, _ in jobs])
        width = branch.width
        # Padded on the right: later slots are invisible to the tokens that count, so no mask is needed for them.
        ids = torch.tensor([text[:-1] + (0,) * (fed + 1 - len(text)) for text in texts], device=self.device)
        positions = torch.tensor(branch.lengths, device=self.device)[:, None] + torch.arange(fed, device=self.device)
        if branch.valid is not None:
            branch.valid = torch.cat([branch.valid, branch.valid.new_ones(len(jobs), fed)], dim=1)
        if self.max_length is not None:
            positions.clamp_(max=self.max_length - 1)
        logits = self._forward(ids, positions, branch.cache, branch.valid, width, keep=fed)
        for index, ((_, number, place), text) in enumerate(zip(jobs, texts, strict=True)):
            logps = logits[index, : len(text) - 1].double().log_softmax(-1)
            sums[number][place] += float(logps[torch.arange(len(text) - 1), list(text[1:])].sum())


_DynamicLayer: Any = DynamicLayer  # without annotations of its own


Buffer = Callable[[tuple[int, ...], Tensor], Tensor]


class _PickedLayer(_DynamicLayer):  # type: ignore[misc]
    """Keys and values that begin with chosen rows of others: gathered and grown in one copy, at the first update."""

    def __init__(self, keys: Tensor, values: Tensor, pick: Tensor | None, buffer: Buffer) -> None:
        super().__init__()
        self.keys, self.values, self._pick, self._buffer = keys, values, pick, buffer
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        pick, self._pick = self._pick, None
        if pick is None:
            return super().update(key_states, value_states, *args, **kwargs)  # type: ignore[no-any-return]
        self.keys = self._grown(self.keys, pick, key_states)
        self.values = self._grown(self.values, pick, value_states)
        return self.keys, self.values

    def _grown(self, old: Tensor, pick: Tensor, new: Tensor) -> Tensor:
        rows, heads, fresh, size = new.shape
        width = old.shape[2]
        grown = self._buffer((rows, heads, width + fresh, size), new)
        torch.index_select(old, 0, pick, out=grown[:, :, :width])
        grown[:, :, width:] = new
        return grown


@dataclass(eq=False, slots=True)
class _Row:
    """A distinct context and its longest known prefix."""

    key: Ids
    hit: tuple[_Cohort, int] | None

    @property
    def known(self) -> int:
        """Length of the known prefix."""
        return 0 if self.hit is None else len(self.hit[0].keys[self.hit[1]])

    def place(self) -> tuple[int, int]:
        """Sort key: alike rows stand together."""
        return (0 if self.hit is None else self.hit[0].serial), len(self.key)


def _dtype_named(name: str) -> torch.dtype:
    if name not in {"float32", "float64", "bfloat16", "float16"}:
        raise ConfigError(f"dtype '{name}' is not one of float32, float64, bfloat16, float16")
    found: torch.dtype = getattr(torch, name)
    return found


def _blind(dtype: torch.dtype) -> float:
    """Logit of a slot that must not be seen. Finite, also in the float32 of a softmax over float64 logits: the row of a
    padding slot, which sees nothing, must not become nan and spread through the values."""
    return max(torch.finfo(dtype).min, -1e30)


def _left_padded(lengths: list[int], width: int, device: torch.device) -> Tensor:
    """(rows, width) bool: the last ``lengths[r]`` slots of row r."""
    slots = torch.arange(width, 0, -1, device=device)
    return slots[None] <= torch.tensor(lengths, device=device)[:, None]


def _joined(parts: list[tuple[_Cohort, list[int]]], picks: list[Tensor], layer: int, side: int, width: int) -> Tensor:
    """Keys (side 0) or values (side 1) of one layer, gathered from several cohorts and padded to one width."""
    chosen = [cohort.kv[layer][side][pick] for (cohort, _), pick in zip(parts, picks, strict=True)]
    return torch.cat([_widened(tensor, width) for tensor in chosen])


def _widened(tensor: Tensor, width: int) -> Tensor:
    """Pad (rows, heads, w, d) on the left of w with zeros."""
    short = width - tensor.shape[2]
    return torch.nn.functional.pad(tensor, (0, 0, short, 0)) if short else tensor
