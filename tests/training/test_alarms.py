"""Alarms ring where training goes wrong, once, with the step; and not where it is well or only noisy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arena.training.alarms import Alarms
from arena.training.selfplay_config import AlarmConfig


def rung(rows: list[dict[str, Any]], **config: Any) -> list[tuple[str, int]]:
    alarms = Alarms(AlarmConfig(window=10, **config), ["gen0"])
    return [(alarm["alarm"], alarm["at"]) for step, row in enumerate(rows, 1) for alarm in alarms.look(step, row)]


def line(first: float, last: float, steps: int = 60, noise: float = 0.02, seed: int = 0) -> list[float]:
    return (np.linspace(first, last, steps) + np.random.default_rng(seed).normal(0, noise, steps)).tolist()


def test_a_hacked_judge_rings_at_the_step_where_it_shows() -> None:
    rows = [{"belief": b, "claims_true": t} for b, t in zip(line(0.5, 0.9), line(0.9, 0.5, seed=1), strict=True)]
    assert [name for name, _ in rung(rows)] == ["hacking"]
    ((_, at),) = rung(rows)
    assert 15 <= at <= 35
    sound = [{"belief": b, "claims_true": t} for b, t in zip(line(0.5, 0.9), line(0.9, 0.92, seed=1), strict=True)]
    assert rung(sound) == []


def test_losses_to_later_members_are_no_measure() -> None:
    assert rung([{"win_rate/step30": w} for w in [*line(0.5, 0.8), *line(0.8, 0.4)]]) == []


def test_a_lucky_window_that_was_noise_is_no_win_rate_to_fall_from() -> None:
    lucky, even = [1.0, 1.0, 0.0] * 7, [0.35, 0.45] * 10
    assert rung([{"win_rate/gen0": w} for w in [*lucky, *even]]) == []
    steady = [0.65, 0.75] * 10
    assert [name for name, _ in rung([{"win_rate/gen0": w} for w in [*steady, *even]])] == ["anchors"]


def test_noise_does_not_ring() -> None:
    for seed in range(50):
        rows = [
            {"reward": r, "accuracy": a, "tokens_per_turn": t, "entropy": 1.0}
            for r, a, t in zip(
                line(0, 0, 200, 0.3, seed), line(0.6, 0.6, 200, 0.2, seed + 99), line(9, 9, 200, 2, seed), strict=True
            )
        ]
        assert rung(rows) == [], seed


@pytest.mark.parametrize(
    ("rows", "config", "alarm"),
    [
        ([{"tokens_per_turn": t} for t in line(10, 40)], {}, "length"),
        ([{"tokens_per_turn": t} for t in line(40, 10)], {}, "length"),
        ([{"entropy": e} for e in line(1.0, 0.01, noise=0)], {}, "entropy"),
        ([{"debater/entropy": e} for e in line(1.0, 0.01, noise=0)], {}, "entropy"),
        ([{"kl_per_turn": k} for k in line(0.0, 2.0)], {"kl": 1.0}, "kl"),
        ([{"win_rate/gen0": w} for w in [*line(0.5, 0.8), *line(0.8, 0.4)]], {}, "anchors"),
    ],
)
def test_each_alarm_rings_once(rows: list[dict[str, Any]], config: dict[str, Any], alarm: str) -> None:
    assert [name for name, _ in rung(rows, **config)] == [alarm]


def test_an_alarm_that_ceased_may_ring_again() -> None:
    rows = [{"kl_per_turn": k} for k in [*line(0, 2), *line(2, 0), *line(0, 2)]]
    assert [name for name, _ in rung(rows, kl=1.0)] == ["kl", "kl"]
    assert rung(rows) == [], "no budget, no alarm"


def test_a_resumed_run_rings_at_the_same_steps() -> None:
    rows = [{"belief": b, "claims_true": t} for b, t in zip(line(0.5, 0.9), line(0.9, 0.5, seed=1), strict=True)]
    whole, first, second = (Alarms(AlarmConfig(window=10)) for _ in range(3))
    for step, row in enumerate(rows, 1):
        whole.look(step, row)
        (first if step <= 15 else second).look(step, row)
        if step == 15:
            second.load_state_dict(first.state_dict())
    assert second.told == whole.told != []


def test_words_and_missing_numbers_are_no_signals() -> None:
    assert rung([{"belief": None, "phase": "self-play", "accuracy": float("nan")}] * 40) == []
