"""Trackers get the numbers of a training, in order, and say what is missing."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from arena.protocols.errors import ConfigError
from arena.training.trackers import TRACKERS, numbers_of, tracked

STEP = {"event": "phase", "phase": "self-play", "generation": 3, "step": 4, "of": 10, "loss": 0.5, "kl_per_turn": 0.25}


def test_rows_become_numbers_at_the_step_of_the_whole_run() -> None:
    assert numbers_of(STEP) == (24, {"self-play/loss": 0.5, "self-play/kl_per_turn": 0.25})
    probe = {"event": "phase", "phase": "probe", "probe": "exact", "at": 30, "nash_conv": 0.1, "value": None}
    assert numbers_of(probe) == (30, {"probe/exact/nash_conv": 0.1})
    assert numbers_of({"event": "generation", "generation": 1}) == (0, {})
    bad = {**STEP, "loss": float("nan"), "why": "words"}
    assert numbers_of(bad) == (24, {"self-play/kl_per_turn": 0.25})


class Kept:
    """A tracker that keeps what it is told."""

    rows: list[tuple[int, Mapping[str, float]]] = []  # noqa: RUF012
    closed = 0

    def __init__(self, *, folder: Path, name: str, colour: str = "red") -> None:
        assert folder.is_dir()
        self.colour = colour

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Keep."""
        self.rows.append((step, values))

    def close(self) -> None:
        """Count."""
        type(self).closed += 1


def test_a_user_registers_a_tracker_and_steps_never_fall(tmp_path: Path) -> None:
    TRACKERS.register("kept", summary="keeps")(Kept)
    heard: list[dict[str, Any]] = []
    with tracked(heard.append, ["kept:colour=blue"], tmp_path / "run", "one") as on_event:
        on_event(STEP)
        on_event({"event": "phase", "phase": "gate", "generation": 3, "pairs": 7})
    assert [step for step, _ in Kept.rows] == [24, 24]
    assert heard[0] == STEP
    assert Kept.closed == 1


def test_without_trackers_the_listener_is_the_listener(tmp_path: Path) -> None:
    heard: list[dict[str, Any]] = []
    with tracked(heard.append, (), tmp_path / "run", "one") as on_event:
        on_event(STEP)
    assert heard == [STEP]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboard"])
def test_a_missing_package_is_told_with_the_line_that_installs_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        TRACKERS.build(name, folder=tmp_path, name="run")


def test_wandb_and_trackio_are_called_as_they_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []

    def note(what: str) -> Any:
        return lambda *args, **kwargs: calls.append((what, args, kwargs))

    run = SimpleNamespace(log=note("log"), finish=note("finish"))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **kwargs: note("init")(**kwargs) or run))
    tracker = TRACKERS.build("wandb:project=debates,mode=offline", folder=tmp_path, name="one")
    tracker.log(3, {"a": 1.0})
    tracker.close()
    assert calls == [
        ("init", (), {"project": "debates", "name": "one", "dir": str(tmp_path), "mode": "offline"}),
        ("log", ({"a": 1.0},), {"step": 3}),
        ("finish", (), {}),
    ]
    calls.clear()
    module = SimpleNamespace(init=note("init"), log=note("log"), finish=note("finish"))
    monkeypatch.setitem(sys.modules, "trackio", module)
    tracker = TRACKERS.build("trackio", folder=tmp_path, name="one")
    tracker.log(3, {"a": 1.0})
    tracker.close()
    assert [what for what, _, _ in calls] == ["init", "log", "finish"]
