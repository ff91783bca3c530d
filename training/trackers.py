"""Trackers: the metrics of a training, sent to where a team looks at them.

    arena train RECIPE --track tensorboard --track wandb:project=debates

`metrics.jsonl` has everything in any case; a tracker gets the numbers of each row as they come. What one does with
them never touches the training, and one that fails ends it, since nobody would notice a silent one.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from arena.protocols.errors import ConfigError
from arena.protocols.registry import Registry

__all__ = ["TRACKERS", "TensorBoard", "Tracker", "Trackio", "WandB", "numbers_of", "tracked"]


class Tracker(Protocol):
    """Takes numbers."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, such as ``self-play/kl_per_turn``, at an optimizer step."""
        ...

    def close(self) -> None:
        """Nothing more comes."""
        ...


TRACKERS: Registry[Tracker] = Registry("tracker")
"""Trackers by spec. A factory takes ``folder`` (of the run) and ``name``, and what the spec says."""

TRACKERS.lazy("tensorboard", "arena.training.trackers:TensorBoard", "event files in the run directory")
TRACKERS.lazy("wandb", "arena.training.trackers:WandB", "Weights & Biases: wandb:project=NAME")
TRACKERS.lazy("trackio", "arena.training.trackers:Trackio", "trackio, local first: trackio:project=NAME")


class TensorBoard:
    """Writes event files into ``FOLDER/tensorboard``."""

    def __init__(self, *, folder: Path, name: str = "") -> None:
        _needed("tensorboard", "tensorboard")
        writer = importlib.import_module("torch.utils.tensorboard")
        self._writer: Any = writer.SummaryWriter(str(folder / "tensorboard"))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """See `Tracker`."""
        self._writer.close()


class WandB:
    """A run at Weights & Biases.

    Args:
        folder: of the run; wandb's own files go there.
        name: of the run.
        project: that it belongs to.
        mode: ``online``, ``offline`` or ``disabled``, as wandb has it; None leaves that to its settings.
    """

    def __init__(self, *, folder: Path, name: str, project: str = "debate-arena", mode: str | None = None) -> None:
        wandb: Any = _needed("wandb", "wandb")
        self._run: Any = wandb.init(project=project, name=name, dir=str(folder), mode=mode)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        """See `Tracker`."""
        self._run.finish()


class Trackio:
    """A run in trackio.

    Args:
        folder: of the training run; not used, trackio has a place of its own.
        name: of the run.
        project: that it belongs to.
    """

    def __init__(self, *, folder: Path, name: str, project: str = "debate-arena") -> None:
        self._trackio: Any = _needed("trackio", "trackio")
        self._trackio.init(project=project, name=name)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """See `Tracker`."""
        self._trackio.log(dict(values), step=step)

    def close(self) -> None:
        """See `Tracker`."""
        self._trackio.finish()


class tracked:  # noqa: N801  (reads as a verb: with tracked(...) as on_event)
    """A listener of a training that also tells trackers: ``with tracked(on_event, specs, out, name) as on_event:``.

    Args:
        on_event: who listens besides.
        specs: of trackers.
        folder: of the run.
        name: of the run.
    """

    def __init__(self, on_event: Any, specs: Sequence[str], folder: Path, name: str) -> None:
        self._on_event, self._specs, self._folder, self._name = on_event, specs, folder, name
        self._trackers: list[Tracker] = []
        self._last = 0

    def __enter__(self) -> Any:
        if not self._specs:
            return self._on_event
        self._folder.mkdir(parents=True, exist_ok=True)
        for spec in self._specs:
            self._trackers.append(TRACKERS.build(spec, folder=self._folder, name=self._name))
        return self._tell

    def __exit__(self, *_: object) -> None:
        for tracker in self._trackers:
            tracker.close()

    def _tell(self, event: dict[str, Any]) -> None:
        self._on_event(event)
        step, values = numbers_of(event)
        # Trackers want steps that only grow; a probe at the end of a step counts to it.
        self._last = max(self._last, step)
        if values:
            for tracker in self._trackers:
                tracker.log(self._last, values)


def numbers_of(event: Mapping[str, Any]) -> tuple[int, dict[str, float]]:
    """The optimizer step of a row of metrics, counted over all generations, and its finite numbers by name."""
    phase = event.get("phase")
    if event.get("event") != "phase" or phase is None:
        return 0, {}
    step = event.get("at", event.get("step", 0))
    if "generation" in event and "of" in event and "step" in event:
        step = (event["generation"] - 1) * event["of"] + event["step"]
    aside = {"event", "phase", "step", "of", "at", "generation", "probe", "round"}
    prefix = f"{phase}/{event['probe']}" if "probe" in event else str(phase)
    values = {
        f"{prefix}/{name}": float(value)
        for name, value in event.items()
        if name not in aside and isinstance(value, int | float) and math.isfinite(value)
    }
    return int(step), values if phase != "evaluation" else {}


def _needed(module: str, package: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(f"tracker '{package}' needs the package: pip install {package}") from error
