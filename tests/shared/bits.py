"""Whether two states are the same to the last bit."""

from __future__ import annotations

from typing import Any

import torch


def same_bits(one: Any, other: Any) -> bool:
    """Of tensors, containers of them and plain values."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    return bool(one == other)
