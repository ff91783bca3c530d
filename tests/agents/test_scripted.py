from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from arena.agents import AGENTS, FaultyAgent, from_list
from arena.agents.backend_hf import HFBackend
from arena.agents.models import tiny
from arena.agents.policy import PolicyAgent
from arena.agents.types import Ask, Context, Message
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Quote, Task, Turn, TurnStatus
from arena.testing import check_agent

ITEMS = ("b0=1", "b1=4", "b2=0")
TASK = Task("t", {"evidence": ITEMS})


def turn(role: str, text: str, *quotes: str) -> Turn:
    return Turn(0, 0, "n", role, 0, "x", 0, text, quotes=tuple(Quote(q, q in ITEMS) for q in quotes))


def ask(*heard: Turn, seed: int = 0, field: str | None = "evidence", new: tuple[Message, ...] = ()) -> Ask:
    return Ask("e", "n", "a", 0, seed, Context(), new, 1, 0, TASK, heard, field)


def test_random_quotes_are_uniform_over_what_nobody_quoted() -> None:
    agent = AGENTS.build("random-quotes")
    fresh = Counter(act.text for act in agent.act([ask(seed=s) for s in range(3000)]))
    assert set(fresh) == set(ITEMS)
    assert all(abs(count - 1000) < 4 * (3000 * 2 / 9) ** 0.5 for count in fresh.values())
    heard = (turn("b", "b1=4", "b1=4"), turn("a", "b9=9", "b9=9"), turn("a", "b0=1", "b0=1"))
    assert {act.text for act in agent.act([ask(*heard, seed=s) for s in range(20)])} == {"b2=0"}
    assert agent.act([ask(*heard, turn("b", "b2=0", "b2=0"))])[0].text == ""
    check_agent(agent, lambda: [ask(seed=s) for s in range(5)])


def test_random_quotes_need_a_field_to_quote() -> None:
    agent = AGENTS.build("random-quotes")
    for field in (None, "passage"):
        with pytest.raises(ConfigError, match="random-quotes"):
            agent.act([ask(field=field)])


def test_small_programs() -> None:
    heard = (turn("a", "one"), turn("b", "two"), turn("a", "three"))

    def say(spec: Any, *turns: Turn) -> str:
        return AGENTS.build(spec).act([ask(*turns)])[0].text

    assert say("silent", *heard) == ""
    assert say("echo", *heard) == "two"
    assert say("echo") == ""
    assert say("fixed:text=no comment", *heard) == "no comment"
    assert [say("list:texts=x|y", *heard[:n]) for n in range(4)] == ["x", "y", "y", "x"]
    assert say({"kind": "list", "texts": ["p", "q"]}, heard[0]) == "q"
    with pytest.raises(ConfigError, match="nothing to say"):
        from_list([])


def test_a_demonstration_carries_the_tokens_that_a_policy_would_have_seen_and_written() -> None:
    model = tiny("claims b{0..2}={0..4} d3", initializer_range=0.3)
    policy = PolicyAgent("p", HFBackend(model), model.encoder)
    contexts = Context(), Context()
    for seed in range(4):
        new = [Message("opening", "claims d3")] if seed == 0 else [Message("heard", "d3 b0=0")]
        asks = [Ask("e", "n", "a", 0, seed, c, [*new, Message("cue", "d3")], 1, 0, TASK, ()) for c in contexts]
        (drawn,) = policy.act(asks[:1])
        (shown,) = from_list([drawn.text]).encode_with(model.encoder, "demo@v0").act(asks[1:])
        assert drawn.tokens is not None
        assert shown.tokens is not None
        assert (shown.tokens.prompt, shown.tokens.ids) == (drawn.tokens.prompt, drawn.tokens.ids)
        assert (shown.tokens.logps, shown.tokens.policy) == (None, "demo@v0")
    assert contexts[0].ids == contexts[1].ids


def test_faults_are_injected_where_told() -> None:
    inner = from_list(["fine"])
    asks = [ask(seed=s) for s in range(4)]
    acts = FaultyAgent(inner, lambda a: a.seed == 2).act(asks)
    assert [act.status for act in acts] == [TurnStatus.OK, TurnStatus.OK, TurnStatus.TRANSPORT, TurnStatus.OK]
    assert acts[2].error == "injected failure"
    assert "timed out" in str(FaultyAgent(inner, lambda a: a.seed == 2, "timeout").act(asks)[2].error)
    with pytest.raises(BackendError, match="injected"):
        FaultyAgent(inner, lambda a: a.seed == 2, "raise").act(asks)
    with pytest.raises(ConfigError, match="way to fail"):
        FaultyAgent(inner, lambda a: True, "explode")
