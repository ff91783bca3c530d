from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from arena.agents import AGENTS, AsyncScripted, FaultyAgent, from_list, from_script
from arena.agents.backend_hf import HFBackend
from arena.agents.models import tiny
from arena.agents.policy import PolicyAgent
from arena.agents.types import Act, Ask, Context, Message
from arena.protocols.errors import BackendError, ConfigError, SourceError
from arena.protocols.records import Quote, Task, Turn, TurnStatus
from arena.testing import check_agent

ITEMS = ("b0=1", "b1=4", "b2=0")
TASK = Task("t", {"evidence": ITEMS})


def turn(role: str, text: str, *quotes: str) -> Turn:
    return Turn(0, 0, "n", role, 0, "x", 0, text, quotes=tuple(Quote(q, q in ITEMS) for q in quotes))


def ask(*heard: Turn, seed: int = 0, field: str | None = "evidence", new: tuple[Message, ...] = ()) -> Ask:
    own = sum(each.role == "a" for each in heard)
    return Ask("e", "n", "a", 0, seed, Context(), new, 1, 0, TASK, heard, field, spoken=own)


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


def asked(role: str, heard: list[Turn], node: str = "n", visit: int = 0, **more: Any) -> Ask:
    own = sum(turn.role == role and (turn.node, turn.visit) != (node, visit) for turn in heard)
    return Ask("e", node, role, visit, 0, Context(), (), None, None, TASK, heard, spoken=own, **more)


def spoken(role: str, node: str = "n", visit: int = 0) -> Turn:
    return Turn(0, 0, node, role, visit, "x", None, "said")


def test_each_role_says_its_own_lines_in_order() -> None:
    agent = from_script({"pro": ["p1", "p2"], "con": ["c1"]})
    asks = [
        asked("pro", []),
        asked("con", [spoken("pro")]),
        asked("pro", [spoken("pro"), spoken("con")], visit=1),
    ]
    assert [act.text for act in agent.act(asks)] == ["p1", "c1", "p2"]


def test_attempts_and_candidates_use_up_lines_of_a_script() -> None:
    agent = from_script({"pro": ["bad", "good", "one", "two", "last"]})
    tried = [spoken("pro")]
    (again,) = agent.act([asked("pro", tried, attempt=1)])
    tried.append(spoken("pro"))
    candidates = agent.act([asked("pro", tried, "m", sample=n) for n in (0, 1)])
    (last,) = agent.act([asked("pro", [*tried, spoken("pro", "m"), spoken("pro", "m")], "z")])
    assert [act.text for act in (again, *candidates, last)] == ["good", "one", "two", "last"]


def test_counted_roles_share_lines_unless_they_have_their_own() -> None:
    agent = from_script({"debater": ["shared"], "debater-2": ["own"]})
    assert [act.text for act in agent.act([asked("debater-1", []), asked("debater-2", [])])] == ["shared", "own"]


def test_a_script_that_is_too_short_says_what_is_missing() -> None:
    agent = from_script({"pro": ["p1"]})
    with pytest.raises(ConfigError, match="1 lines for role 'pro', and node 'n' asks for one more"):
        agent.act([asked("pro", [spoken("pro")], visit=1)])
    with pytest.raises(ConfigError, match=r"no lines for role 'prp'\. Did you mean 'pro'"):
        agent.act([asked("prp", [])])


def test_scripts_are_read_from_files(tmp_path: Path) -> None:
    file = tmp_path / "lines.yaml"
    file.write_text("pro: [yes, 'no']\n", encoding="utf-8")
    assert AGENTS.build(f"scripted:path={file}").act([asked("pro", [])])[0].text == "yes"
    file.write_text("pro: [fine, 5]\n", encoding="utf-8")
    with pytest.raises(SourceError, match=r"lines.yaml:1:13: pro\[1\]: 5 is not a text"):
        AGENTS.build(f"scripted:path={file}")


def test_an_asynchronous_program_answers_many_asks_at_once() -> None:
    agent = AsyncScripted("slow", lambda ask: Act("act") if ask.seed else "text", 0.0)

    async def both() -> list[Act]:
        return await asyncio.gather(*[agent.answer(ask(seed=seed)) for seed in (0, 1)])

    assert [act.text for act in asyncio.run(both())] == ["text", "act"]


def test_an_asynchronous_program_takes_as_long_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("arena.agents.scripted.asyncio.sleep", sleep)
    assert asyncio.run(AsyncScripted("slow", lambda ask: "text", 2.5).answer(ask())).text == "text"
    assert waited == [2.5]
