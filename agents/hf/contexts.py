"""Forwarding contexts: what is known of them is gathered, what several share is computed once, the rest is new."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from arena.agents.hf.network import Network
from arena.agents.hf.prefixes import KV, Cohort, Key, PrefixCache

__all__ = ["Contexts", "Flight", "Row"]

_PADDED, _LARGE = 1.25, 4096
"""Where a batch has more tokens than the second number, its rows are not padded to more than so many times theirs."""
_SHARED, _WORTH = 32, 256
"""Contexts that begin alike for so many tokens are forwarded from there on, if that saves so many tokens."""


@dataclass(slots=True)
class Flight:
    """Rows of one batch: what has been forwarded, and where."""

    keys: list[Key]
    cache: Any
    valid: Tensor | None
    """(rows, width) bool: which slots hold a token; None if all do."""

    @property
    def lengths(self) -> list[int]:
        """Tokens of each row."""
        return [len(key.ids) for key in self.keys]

    @property
    def adapters(self) -> list[str | None]:
        """Of each row."""
        return [key.adapter for key in self.keys]

    @property
    def width(self) -> int:
        """Slots of the cache."""
        return int(self.cache.get_seq_length())

    @property
    def kv(self) -> KV:
        """Keys and values of each layer."""
        return [(layer.keys, layer.values) for layer in self.cache.layers]


@dataclass(eq=False, slots=True)
class Row:
    """A distinct context and its longest known prefix."""

    key: Key
    hit: tuple[Cohort, int] | None

    @property
    def known(self) -> int:
        """Length of the known prefix."""
        return 0 if self.hit is None else len(self.hit[0].keys[self.hit[1]].ids)

    def place(self) -> tuple[int, int]:
        """Sort key: alike rows stand together."""
        return (0 if self.hit is None else self.hit[0].serial), len(self.key.ids)


class Contexts:
    """Forwards contexts through a network and keeps what may be needed again.

    Args:
        network: the network.
        prefixes: keys and values that are kept.
        max_batch: most rows in one forward pass.
        max_batch_tokens: most tokens (rows x width) in one forward pass.
    """

    def __init__(self, network: Network, prefixes: PrefixCache, max_batch: int, max_batch_tokens: int) -> None:
        self.network = network
        self.prefixes = prefixes
        self.max_batch = max_batch
        self.max_batch_tokens = max_batch_tokens

    def batches(self, keys: Sequence[Key]) -> Iterator[list[Row]]:
        """Cut distinct contexts into batches: those with a known prefix apart, alike ones together."""
        rows = self._looked_up(keys)
        if self._share([row.key for row in rows if row.hit is None]):
            rows = self._looked_up(keys)
        mixes = self.network.mixes
        rows.sort(key=lambda row: ("" if mixes else row.key.adapter or "", *row.place()))
        batch: list[Row] = []
        widest = tokens = 0
        for row in rows:
            size = len(row.key.ids)
            widest = max(widest, size)
            if batch and self._full(batch, row, widest, tokens + size):
                yield batch
                batch, widest, tokens = [], size, 0
            batch.append(row)
            tokens += size
        if batch:
            yield batch

    def _looked_up(self, keys: Sequence[Key]) -> list[Row]:
        return [Row(key, hit) for key, hit in zip(keys, map(self.prefixes.find, keys), strict=True)]

    def _full(self, batch: list[Row], row: Row, widest: int, tokens: int) -> bool:
        """Whether a row must begin a new batch; with it the batch would have so many tokens, padding not counted."""
        first, padded = batch[0], widest * (len(batch) + 1)
        if len(batch) >= self.max_batch or padded > self.max_batch_tokens:
            return True
        if (row.hit is None) != (first.hit is None):
            return True
        if not self.network.mixes and row.key.adapter != first.key.adapter:
            return True
        return row.hit is None and tokens > _LARGE and padded > _PADDED * tokens

    def _share(self, keys: list[Key]) -> bool:
        """Forward what several new contexts begin with; whether there was anything."""
        if not self.network.plain or not self.prefixes.limit or len(keys) < 2:
            return False
        found = _beginnings(keys)
        for beginning in found:
            self.keep(self.prefill([Row(beginning, None)])[1])
        return bool(found)

    def prefill(self, batch: list[Row]) -> tuple[Tensor, Flight]:
        """Forward what is not known yet; logits (rows, vocabulary) after each context."""
        device = self.network.device
        past, valid, width = self._gather(batch)
        deltas = [row.key.ids[row.known :] for row in batch]
        widest = max(map(len, deltas))
        ragged = any(len(delta) != widest for delta in deltas)
        if ragged or valid is not None:
            fresh = _left_padded([len(delta) for delta in deltas], widest, device)
            old = fresh.new_ones(len(batch), width) if valid is None else valid
            valid = torch.cat([old, fresh], dim=1)
        ids = torch.tensor([(0,) * (widest - len(delta)) + delta for delta in deltas], device=device)
        if valid is None and len({row.known for row in batch}) == 1:
            positions = torch.arange(width, width + widest, device=device)[None]
        else:
            ends = torch.tensor([len(row.key.ids) for row in batch], device=device)
            positions = (ends[:, None] + torch.arange(-widest, 0, device=device)).clamp_(min=0)
        flight = Flight([row.key for row in batch], past, valid)
        logits = self.network.forward(ids, positions, past, valid, width, flight.adapters)
        return logits[:, -1], flight

    def _gather(self, batch: list[Row]) -> tuple[Any, Tensor | None, int]:
        """A cache that holds the known prefixes of a batch, its valid slots and its width."""
        if batch[0].hit is None:
            return self._new_cache(None), None, 0
        device = self.network.device
        parts: list[tuple[Cohort, list[int]]] = []
        for row in batch:
            cohort, place = row.hit  # type: ignore[misc]  # a batch is known or new as a whole
            if not parts or parts[-1][0] is not cohort:
                parts.append((cohort, []))
            parts[-1][1].append(place)
        picks = [torch.tensor(places, device=device) for _, places in parts]
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
        valid = torch.zeros(len(batch), width, dtype=torch.bool, device=device)
        start = 0
        for (cohort, _), pick in zip(parts, picks, strict=True):
            rows = slice(start, start := start + len(pick))
            valid[rows, width - cohort.width :] = True if cohort.valid is None else cohort.valid[pick]
        return self._new_cache(kv), valid, width

    def _new_cache(self, kv: KV | None, pick: Tensor | None = None) -> Any:
        """An empty cache, or one that holds the rows ``pick`` of ``kv`` (all if None)."""
        if kv is None:
            return DynamicCache() if self.network.plain else DynamicCache(config=self.network.model.base.config)
        cache = DynamicCache()
        cache.layers = [_PickedLayer(keys, values, pick, self.prefixes.buffer) for keys, values in kv]
        return cache

    def selected(self, flight: Flight, rows: list[int]) -> Flight:
        """A flight of some rows, a row as often as it is named."""
        pick = torch.tensor(rows, device=self.network.device)
        if self.network.plain:
            cache = self._new_cache(flight.kv, pick)
        else:
            cache = copy.deepcopy(flight.cache)
            cache.batch_select_indices(pick)
        valid = None if flight.valid is None else flight.valid[pick]
        return Flight([flight.keys[row] for row in rows], cache, valid)

    def keep(self, flight: Flight) -> None:
        """Put all rows of a flight into the cache of prefixes."""
        if self.network.plain and self.prefixes.limit:
            self.prefixes.add(Cohort(flight.keys, flight.kv, flight.valid))


def _beginnings(keys: list[Key]) -> list[Key]:
    """What runs of contexts, sorted, have in common, where that is worth a pass of its own."""
    keys = sorted(keys, key=lambda key: (key.adapter or "", key.ids))
    found: list[Key] = []
    run, common = 1, keys[0]
    for key in [*keys[1:], None]:
        shared = _common(common, key)
        if len(shared.ids) >= _SHARED:
            run, common = run + 1, shared
            continue
        if run > 1 and (run - 1) * len(common.ids) >= _WORTH:
            found.append(common)
        if key is not None:
            run, common = 1, key
    return found


def _common(first: Key, second: Key | None) -> Key:
    """The beginning of two contexts, short of the last token of either: something has to be new."""
    if second is None or first.adapter != second.adapter:
        return Key(first.adapter, ())
    pairs = zip(first.ids, second.ids[:-1], strict=False)
    differ = next((place for place, (one, two) in enumerate(pairs) if one != two), None)
    return Key(first.adapter, first.ids[: len(second.ids) - 1 if differ is None else differ])


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


def _left_padded(lengths: list[int], width: int, device: torch.device) -> Tensor:
    """(rows, width) bool: the last ``lengths[r]`` slots of row r."""
    slots = torch.arange(width, 0, -1, device=device)
    return slots[None] <= torch.tensor(lengths, device=device)[:, None]


def _joined(parts: list[tuple[Cohort, list[int]]], picks: list[Tensor], layer: int, side: int, width: int) -> Tensor:
    """Keys (side 0) or values (side 1) of one layer, gathered from several cohorts and padded to one width."""
    chosen = [cohort.kv[layer][side][pick] for (cohort, _), pick in zip(parts, picks, strict=True)]
    return torch.cat([_widened(tensor, width) for tensor in chosen])


def _widened(tensor: Tensor, width: int) -> Tensor:
    """Pad (rows, heads, w, d) on the left of w with zeros."""
    short = width - tensor.shape[2]
    return torch.nn.functional.pad(tensor, (0, 0, short, 0)) if short else tensor
