"""Keys and values that earlier requests left behind, found by the contexts that they belong to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from torch import Tensor

__all__ = ["KV", "Cohort", "Ids", "Key", "PrefixCache"]

Ids = tuple[int, ...]
KV = list[tuple[Tensor, Tensor]]
"""Keys and values of each layer, (rows, heads, width, head size)."""


class Key(NamedTuple):
    """What keys and values are a function of, given the weights."""

    adapter: str | None
    ids: Ids


@dataclass(eq=False, slots=True)
class Cohort:
    """Rows whose keys and values are known; row r holds exactly the tokens of ``keys[r]``."""

    keys: list[Key]
    kv: KV
    valid: Tensor | None
    """(rows, width) bool: which slots hold a token; None if all do."""
    serial: int = 0

    @property
    def width(self) -> int:
        """Slots of a row."""
        return int(self.kv[0][0].shape[2])

    @property
    def bytes(self) -> int:
        """Memory of keys and values."""
        return sum(k.numel() * k.element_size() * 2 for k, _ in self.kv)


@dataclass(slots=True)
class PrefixCache:
    """Cohorts by the contexts they hold, oldest dropped first."""

    limit: int
    """Most bytes."""
    cohorts: list[Cohort] = field(default_factory=list)
    rows: dict[Key, tuple[Cohort, int]] = field(default_factory=dict)
    lengths: Counter[int] = field(default_factory=Counter)
    order: list[int] = field(default_factory=list)
    used: int = 0
    serial: int = 0
    spare: list[Tensor] = field(default_factory=list)
    """Memory of the cohorts of older weights, to be filled again: fresh pages cost more than the copy into them."""

    def add(self, cohort: Cohort) -> None:
        """Keep a cohort, if it fits at all."""
        size = cohort.bytes
        if size > self.limit:
            return
        self.serial += 1
        cohort.serial = self.serial
        self.cohorts.append(cohort)
        self.used += size
        for row, key in enumerate(cohort.keys):
            self.rows[key] = (cohort, row)
        self.lengths.update([len(key.ids) for key in cohort.keys])
        while self.used > self.limit:
            self._drop(self.cohorts.pop(0))
        self.order = sorted(self.lengths, reverse=True)

    def _drop(self, cohort: Cohort) -> None:
        self.used -= cohort.bytes
        for key in cohort.keys:
            if self.rows.get(key, (None, 0))[0] is cohort:
                del self.rows[key]
        self.lengths -= Counter([len(key.ids) for key in cohort.keys])

    def find(self, key: Key) -> tuple[Cohort, int] | None:
        """The longest known proper prefix of a context."""
        adapter, ids = key
        size = len(ids)
        for length in self.order:
            if length < size:
                hit = self.rows.get(Key(adapter, ids[:length]))
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
        """Forget everything: the weights have changed."""
        # Only here, where no batch is on its way, may nobody read the dropped cohorts any more.
        tensors = [tensor for cohort in self.cohorts for pair in cohort.kv for tensor in pair if tensor.is_contiguous()]
        if tensors:
            self.spare = [tensor.view(-1) for tensor in tensors]
        self.cohorts.clear()
        self.rows.clear()
        self.lengths.clear()
        self.order.clear()
        self.used = 0
