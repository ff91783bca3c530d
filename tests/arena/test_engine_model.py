"""The engine with a model: batches of any size say the same."""

from __future__ import annotations

import pytest

from arena.agents.models import tiny
from arena.agents.policy import Policy
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.records import Episode
from arena.tasks import open_tasks

pytestmark = pytest.mark.slow


def play(concurrency: int, policy: Policy) -> list[Episode]:
    protocol = load_protocol("evidence-debate")
    agent = policy.agent()
    tasks = open_tasks("facts:seed=1").test[:24]
    plans = [Plan(f"e{i}", task, {"first": agent, "second": agent}) for i, task in enumerate(tasks)]
    return Engine(protocol, {}, seed=4, concurrency=concurrency, judging=False).play(plans)


def test_what_a_model_says_does_not_depend_on_concurrency_and_its_log_probs_only_in_rounding() -> None:
    model = tiny("claims A B evidence ann bob {ann,bob}+{1..9}", seed=2)
    expected = play(512, Policy("p", model))
    for concurrency in (1, 7):
        for episode, other in zip(expected, play(concurrency, Policy("p", model)), strict=True):
            assert [turn.text for turn in episode.turns] == [turn.text for turn in other.turns]
            for turn, twin in zip(episode.turns, other.turns, strict=True):
                assert turn.tokens is not None
                assert twin.tokens is not None
                assert (turn.tokens.prompt, turn.tokens.ids) == (twin.tokens.prompt, twin.tokens.ids)
                assert turn.tokens.logps == pytest.approx(twin.tokens.logps, abs=2e-6)
