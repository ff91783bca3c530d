"""Rows on their way: each step every row grows by one token, and rows join and leave between steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from arena.agents.hf.contexts import Contexts, Flight
from arena.agents.hf.network import Network
from arena.agents.hf.prefixes import KV, Cohort, Key

__all__ = ["Lanes", "Lockstep"]

_CHUNK = 64
"""Slots by which rows are made longer."""


class Lanes:
    """Rows packed without gaps: row r holds its tokens in the slots 0 to ``length[r] - 1`` of memory that they share.

    Nothing is copied when rows grow, one row when one joins, leaves, or is kept for the role's next turn.

    Args:
        network: that reads them.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._adapters: list[str | None] = []
        self._kv: KV = []
        self._lengths = torch.zeros(0, dtype=torch.long)
        self._cache: Any = None

    def __len__(self) -> int:
        return len(self._adapters)

    def join(self, flight: Flight, rows: Sequence[int]) -> None:
        """Copies of rows of a flight, a row as often as it is named, go on here."""
        start, count = len(self), len(rows)
        self._adapters += [flight.keys[row].adapter for row in rows]
        lengths = torch.tensor([len(flight.keys[row].ids) for row in rows], device=self._network.device)
        self._lengths = lengths if start == 0 else torch.cat([self._lengths, lengths])
        widest = int(lengths.max())
        self._reserve(flight.kv, start + count, int(self._lengths.max()) + 1)
        pick = torch.tensor(rows, device=self._network.device)
        slots = None
        if flight.valid is not None:
            # Slots that hold a token, in their order, before those that hold none.
            slots = (~flight.valid[pick]).long().argsort(dim=1, stable=True)[:, :widest]
        for own, given in zip(self._kv, flight.kv, strict=True):
            for target, source in zip(own, given, strict=True):
                chosen = source[pick] if slots is None else source[pick[:, None], :, slots].transpose(1, 2)
                target[start : start + count, :, :widest] = chosen[:, :, :widest]

    def _reserve(self, like: KV, rows: int, width: int) -> None:
        """Room for so many rows of so many slots; what is there stays."""
        if self._kv:
            old_rows, _, old_width, _ = self._kv[0][0].shape
            if rows <= old_rows and width <= old_width:
                return
            rows, width = max(rows, old_rows), max(width, old_width)
        width = -(-width // _CHUNK) * _CHUNK
        old = self._kv
        before: list[tuple[Tensor | None, Tensor | None]] = [*old] or [(None, None)] * len(like)
        self._kv = [
            (_grown(own[0], given[0], rows, width), _grown(own[1], given[1], rows, width))
            for own, given in zip(before, like, strict=True)
        ]
        self._cache = DynamicCache()
        self._cache.layers = [_LaneLayer(keys, values) for keys, values in self._kv]

    def advance(self, ids: Sequence[int]) -> Tensor:
        """Forward one token a row; logits (rows, vocabulary)."""
        network, device = self._network, self._network.device
        lengths, rows = self._lengths, len(self)
        longest = int(lengths.max())
        self._reserve(self._kv, rows, longest + 1)
        even = bool((lengths == longest).all())
        for layer in self._cache.layers:
            layer.aim(rows, lengths, longest)
        valid = None if even else torch.arange(longest + 1, device=device)[None] <= lengths[:, None]
        logits = network.forward(
            torch.tensor(ids, device=device)[:, None],
            lengths[:, None],
            self._cache,
            valid,
            longest,
            self._adapters,
        )
        self._lengths = lengths + 1
        return logits[:, -1]

    def kept(self, rows: Sequence[int], keys: Sequence[Key]) -> Cohort:
        """Copies of rows, to be found again under their contexts."""
        pick = torch.tensor(rows, device=self._network.device)
        lengths = self._lengths[pick]
        width = int(lengths.max())
        kv = [(k[pick, :, :width], v[pick, :, :width]) for k, v in self._kv]
        even = bool((lengths == width).all())
        valid = None if even else torch.arange(width, device=lengths.device)[None] < lengths[:, None]
        return Cohort(list(keys), kv, valid)

    def leave(self, rows: Sequence[int]) -> None:
        """Take rows out. From the highest down, the last row moves to the empty place."""
        lengths = self._lengths.clone()
        for row in sorted(rows, reverse=True):
            last = len(self) - 1
            if row != last:
                length = int(lengths[last])
                for pair in self._kv:
                    for tensor in pair:
                        tensor[row, :, :length] = tensor[last, :, :length]
                lengths[row] = lengths[last]
                self._adapters[row] = self._adapters[last]
            self._adapters.pop()
        self._lengths = lengths[: len(self)]
        if not self._adapters:
            self._kv, self._cache = [], None


class Lockstep:
    """Rows of a network whose cache cannot be taken apart (sliding windows): a flight that nobody joins.

    Args:
        contexts: of the network.
        flight: the rows.
    """

    def __init__(self, contexts: Contexts, flight: Flight) -> None:
        self._contexts = contexts
        self._flight = flight
        self._lengths = flight.lengths

    def advance(self, ids: Sequence[int]) -> Tensor:
        """See `Lanes.advance`."""
        flight, network = self._flight, self._contexts.network
        width = flight.width
        if flight.valid is not None:
            flight.valid = torch.cat([flight.valid, flight.valid.new_ones(len(ids), 1)], dim=1)
        logits = network.forward(
            torch.tensor(ids, device=network.device)[:, None],
            torch.tensor(self._lengths, device=network.device)[:, None],
            flight.cache,
            flight.valid,
            width,
            flight.adapters,
        )
        self._lengths = [length + 1 for length in self._lengths]
        return logits[:, -1]

    def leave(self, rows: Sequence[int]) -> None:
        """See `Lanes.leave`."""
        left = list(range(len(self._lengths)))
        for row in sorted(rows, reverse=True):
            left[row] = left[-1]
            left.pop()
        if left:
            self._flight = self._contexts.selected(self._flight, left)
            self._lengths = [self._lengths[row] for row in left]


_DynamicLayer: Any = DynamicLayer  # without annotations of its own


class _LaneLayer(_DynamicLayer):  # type: ignore[misc]
    """Keys and values of one layer, written in place."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()
        self._all = (keys, values)
        self.keys, self.values = keys, values
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def aim(self, rows: int, lengths: Tensor, longest: int) -> None:
        """Say where the next token of each row goes, and how far the longest row reaches."""
        self._rows, self._slots = torch.arange(rows, device=lengths.device), lengths
        self.keys, self.values = (tensor[:rows, :, : longest + 1] for tensor in self._all)

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        self.keys[self._rows, :, self._slots] = key_states[:, :, 0]
        self.values[self._rows, :, self._slots] = value_states[:, :, 0]
        return self.keys, self.values


def _grown(old: Tensor | None, like: Tensor, rows: int, width: int) -> Tensor:
    # Zeros, not whatever was there: a masked slot must not hold nan, which no weight of 0 removes.
    new = like.new_zeros(rows, like.shape[1], width, like.shape[3])
    if old is not None:
        new[: old.shape[0], :, : old.shape[2]] = old
    return new
