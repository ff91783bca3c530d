"""An agent that takes each option with its share."""

from __future__ import annotations

import pytest

from arena.agents import AGENTS
from arena.agents.biased import biased
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task


def test_options_are_taken_with_their_shares() -> None:
    agent = AGENTS.build("biased:shares=6|3|1")
    task = Task("t", {})
    plans = [Plan(str(number), task, {"left": agent, "right": agent}) for number in range(1500)]
    said = [turn.text for e in Engine(load_protocol("rps-words"), {}, seed=0).play(plans) for turn in e.turns[:2]]
    for option, share in (("rock", 0.6), ("paper", 0.3), ("scissors", 0.1)):
        assert said.count(option) / len(said) == pytest.approx(share, abs=0.03)


def test_as_many_shares_as_options_are_needed() -> None:
    agent = biased([1.0, 2.0])
    plan = Plan("k", Task("t", {}), {"left": agent, "right": agent})
    (episode,) = Engine(load_protocol("rps-words"), {}, seed=0).play([plan])
    assert "2 shares for the 3 options" in str(episode.error)


@pytest.mark.parametrize("shares", ["", "a|b", [], [0.0], [-1.0, 2.0], [float("nan"), 1.0]])
def test_shares_that_are_none_are_refused(shares: str | list[float]) -> None:
    with pytest.raises(ConfigError, match="must be numbers of 0 or more"):
        biased(shares)
