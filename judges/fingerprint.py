"""Names of instruments: a judge whose prompt, parser or weights changed is another judge."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["fingerprint"]


def fingerprint(config: Mapping[str, Any], tensors: Mapping[str, Tensor] | None = None) -> str:
    """Eight hexadecimal digits of a hash over a JSON-able config and, if given, named weights."""
    digest = hashlib.blake2b(json.dumps(config, sort_keys=True).encode(), digest_size=4)
    for name, tensor in sorted((tensors or {}).items()):
        digest.update(f"{name}{tuple(tensor.shape)}{tensor.dtype}".encode())
        digest.update(_raw(tensor))
    return digest.hexdigest()


def _raw(tensor: Tensor) -> bytes:
    import torch

    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
