"""Checkpoints are whole, or told to be damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from arena.protocols.errors import ResumeError
from arena.training.checkpoints import load_checkpoint, save_checkpoint


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"step": 3, "weights": {"w": torch.arange(3.0)}})
    state = load_checkpoint(path)
    assert state["step"] == 3
    assert state["weights"]["w"].tolist() == [0.0, 1.0, 2.0]
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize("damage", ["empty", "cut", "noise"])
def test_a_damaged_one_is_told_with_the_way_out(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "checkpoint.pt"
    save_checkpoint(path, {"weights": torch.arange(1000.0)})
    whole = path.read_bytes()
    path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "noise": bytes(range(256)) * 20}[damage])
    with pytest.raises(ResumeError, match=r"checkpoint\.pt is damaged .*start afresh with another --out"):
        load_checkpoint(path)
