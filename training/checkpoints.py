"""Checkpoints: written whole or not at all, and read back or told to be damaged."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import torch

from arena.protocols.errors import ResumeError
from arena.protocols.files import writing

__all__ = ["load_checkpoint", "save_checkpoint"]


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write beside the target and rename: a run that is killed meanwhile keeps the checkpoint before."""
    partial = path.with_suffix(".partial")
    with writing(path):
        torch.save(state, partial)
    partial.replace(path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What `save_checkpoint` wrote.

    Raises:
        ResumeError: the file is damaged.
    """
    try:
        state: dict[str, Any] = torch.load(path, weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError) as error:
        why = str(error).partition("\n")[0]
        raise ResumeError(
            f"{path} is damaged ({why[:200]}): put back a copy, or start afresh with another --out"
        ) from None
    return state
