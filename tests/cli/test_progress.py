"""What is shown of a training while it goes on: reward, truth, KL, lengths, tokens per second."""

from __future__ import annotations

import math
from typing import Any

import pytest

from arena.cli.progress import Progress, _print_response

STEP: dict[str, Any] = {"event": "phase", "phase": "self-play", "generation": 1, "step": 1, "of": 2}
COMMON = {"tokens_per_turn": 3.5, "tokens_per_second": 812.3, "accuracy": 0.75}


def lines(capsys: pytest.CaptureFixture[str], *events: dict[str, Any], name: str = "kuhn") -> list[str]:
    with Progress([name, "other"]) as progress:
        for event in events:
            progress.on_event(name, event)
    return capsys.readouterr().out.splitlines()


def test_one_policy_shows_reward_truth_kl_lengths_and_speed(capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = lines(capsys, {**STEP, **COMMON, "reward": 0.25, "reward/ann": 0.5, "kl_per_turn": 0.034})
    for shown in ("judge right 75%", "KL 0.03", "reward 0.25", "tokens a turn 3.5", "tokens/s 812"):
        assert shown in line
    assert "reward ann" not in line


def test_rewards_that_cancel_out_and_several_policies_are_shown_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    by_name = {"reward/ann": 0.5, "reward/bob": -0.5, "planner/kl_per_turn": 0.25, "executor/kl_per_turn": 0.125}
    (line,) = lines(capsys, {**STEP, **COMMON, **by_name, "planner/loss": -0.5, "win_rate/gen0": 0.5})
    for shown in ("reward ann 0.50", "reward bob -0.50", "KL planner 0.25", "KL executor 0.12", "loss planner -0.50"):
        assert shown in line
    assert "gen0" not in line


def test_what_a_probe_found_last_stands_beside_the_steps(capsys: pytest.CaptureFixture[str]) -> None:
    probe = {"event": "phase", "phase": "probe", "probe": "exact", "at": 0, "nash_conv": 0.917, "off": None}
    first, last = lines(capsys, probe, STEP, {**probe, "at": 2, "nash_conv": 0.0625}, {**STEP, "step": 2})
    assert "exact: nash_conv 0.917" in first
    assert "exact: nash_conv 0.0625" in last


def test_names_of_a_study_stand_under_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    alarm = {"event": "phase", "phase": "alarm", "alarm": "kl", "at": 3, "why": "too much"}
    step, rang = lines(capsys, STEP, alarm, name="moving_reference-seed0")
    assert step.index("self-play") == rang.index("ALARM")


@pytest.mark.parametrize("nothing", [None, math.nan])
def test_a_response_of_which_no_game_was_settled_promises_nothing(
    capsys: pytest.CaptureFixture[str], nothing: float | None
) -> None:
    side = {"value": nothing, "low": nothing, "high": nothing, "n": 0}
    _print_response("poker", {"against": "gen2", **side, "sides": {"first": side}})
    printed = capsys.readouterr().out
    assert "what a trained response to gen2 wins is not known" in printed
    assert "exploited" not in printed
