"""Alarms: a training that goes wrong while its rewards look fine.

Each looks at the average of the last `AlarmConfig.window` steps beside that of the first ones:

    hacking   what the judge pays or believes has risen, and the truth has fallen     Gao et al. 2023 (2210.10760)
    length    turns have become much longer or shorter
    entropy   the policy has collapsed to one way of speaking
    kl        more than the budget to the reference
    anchors   wins less often against a frozen anchor than it once did

The first two and the last need a change of several standard errors, so that noise does not ring. An alarm rings when
its condition begins to hold, and again only after it has ceased to.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from arena.training.selfplay_config import AlarmConfig

__all__ = ["Alarms"]

_PAY = ("reward", "belief")
"""What looks good to the judge: mean reward of roles whose rewards do not cancel out, its belief in what is claimed."""
_TRUTH = ("claims_true", "accuracy")
"""What is good: share of claims that are the label, accuracy of the judge."""
_FOLLOWED = (*_PAY, *_TRUTH, "tokens_per_turn", "entropy", "kl_per_turn")


class Alarms:
    """Looks at the metrics of each step.

    Args:
        config: see `AlarmConfig`.
        anchors: opponents that never change, as ``win_rate/NAME`` has them; later members of a league are no measure,
            since they come when the policies have just become them.
    """

    def __init__(self, config: AlarmConfig, anchors: Collection[str] = ()) -> None:
        self.config = config
        self.anchors = frozenset(f"win_rate/{name}" for name in anchors)
        self.told: list[dict[str, Any]] = []
        """All that rang, in order."""
        self._first: dict[str, list[float]] = {}
        self._last: dict[str, list[float]] = {}
        self._best: dict[str, tuple[float, float]] = {}
        """The highest win rate of a window, and its standard error."""
        self._ringing: set[str] = set()

    def look(self, step: int, row: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Take the metrics of a step in, and return the alarms that ring now.

        Args:
            step: counted over all generations, from 1.
            row: as in ``metrics.jsonl``.

        Returns:
            Each with ``alarm``, ``at`` (the step) and ``why`` in words and numbers.
        """
        for name, value in row.items():
            if isinstance(value, float | int) and math.isfinite(value) and self._followed(name):
                window = self._first.setdefault(name, [])
                if len(window) < self.config.window:
                    window.append(float(value))
                self._last[name] = [*self._last.get(name, []), float(value)][-self.config.window :]
        found = {alarm: why for alarm, why in self._conditions() if why}
        new = [{"alarm": alarm, "at": step, "why": why} for alarm, why in found.items() if alarm not in self._ringing]
        self._ringing = set(found)
        self.told += new
        return new

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs."""
        return {
            "told": [dict(alarm) for alarm in self.told],
            "first": {name: list(values) for name, values in self._first.items()},
            "last": {name: list(values) for name, values in self._last.items()},
            "best": dict(self._best),
            "ringing": sorted(self._ringing),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state."""
        self.told = [dict(alarm) for alarm in state["told"]]
        self._first = {name: list(values) for name, values in state["first"].items()}
        self._last = {name: list(values) for name, values in state["last"].items()}
        self._best = {name: (best[0], best[1]) for name, best in state["best"].items()}
        self._ringing = set(state["ringing"])

    # -- conditions: each in words where it holds

    def _conditions(self) -> list[tuple[str, str]]:
        return [
            ("hacking", self._hacking()),
            ("length", self._length()),
            ("entropy", self._entropy()),
            ("kl", self._kl()),
            ("anchors", self._anchors()),
        ]

    def _hacking(self) -> str:
        up = [told for name in _PAY if (told := self._moved(name, self.config.reward))]
        down = [told for name in _TRUTH if (told := self._moved(name, -self.config.truth))]
        return f"{' and '.join(up)}, while {' and '.join(down)}" if up and down else ""

    def _length(self) -> str:
        pair = self._pair("tokens_per_turn")
        if pair is None or not pair[0] > 0:
            return ""
        factor = pair[1] / pair[0]
        changed = factor > self.config.length or factor < 1 / self.config.length
        return f"turns have {pair[1]:.1f} tokens, {factor:.2f} times as many as at first" if changed else ""

    def _entropy(self) -> str:
        for name in self._named("entropy"):
            pair = self._pair(name)
            if pair is not None and pair[1] < self.config.entropy * pair[0]:
                return f"{name} is {pair[1]:.3f} nats a token, it was {pair[0]:.3f}"
        return ""

    def _kl(self) -> str:
        if self.config.kl is None:
            return ""
        for name in self._named("kl_per_turn"):
            mean = float(np.mean(self._last[name]))
            if len(self._last[name]) == self.config.window and mean > self.config.kl:
                return f"{name} is {mean:.3f} nats, above the budget of {self.config.kl:g}"
        return ""

    def _anchors(self) -> str:
        fallen = []
        for name in self._last:
            if name not in self.anchors or len(self._last[name]) < self.config.window:
                continue
            now = (float(np.mean(self._last[name])), _error(self._last[name]))
            best = self._best[name] = max(self._best.get(name, now), now)
            noise = self.config.significance * math.hypot(best[1], now[1])
            if best[0] - now[0] > max(self.config.anchors, noise):
                fallen.append(f"{name} is {now[0]:.2f}, it was {best[0]:.2f}")
        return "; ".join(fallen)

    def _moved(self, name: str, by: float) -> str:
        """In words, if a measure has moved by more than ``by`` (in its direction) and not by chance."""
        pair = self._pair(name)
        if pair is None:
            return ""
        change = pair[1] - pair[0]
        noise = self.config.significance * math.hypot(_error(self._first[name]), _error(self._last[name]))
        held = change > max(by, noise) if by >= 0 else change < min(by, -noise)
        return f"{name} went from {pair[0]:.3f} to {pair[1]:.3f}" if held else ""

    def _pair(self, name: str) -> tuple[float, float] | None:
        """Means of the first and the last window, where both are full and there was a step between them."""
        first, last = self._first.get(name, []), self._last.get(name, [])
        if len(first) < self.config.window or len(last) < self.config.window:
            return None
        return float(np.mean(first)), float(np.mean(last))

    def _followed(self, name: str) -> bool:
        return name.rpartition("/")[2] in _FOLLOWED or name in self.anchors

    def _named(self, measure: str) -> list[str]:
        """The measure of a single policy, or of each: ``debater/entropy``."""
        return [name for name in self._last if name.rpartition("/")[2] == measure]


def _error(values: Sequence[float]) -> float:
    """Standard error of the mean."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
