"""``openai:model=...`` on the command line."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from arena.agents import AGENTS
from arena.agents.openai import Limits, OpenAIAgent, Settings
from arena.agents.prices import Price
from arena.agents.types import Ask, Context, Message
from arena.protocols.errors import ConfigError, MissingExtraError, SourceError
from arena.protocols.records import Task


def build(spec: str) -> OpenAIAgent:
    agent = AGENTS.build(spec)
    assert isinstance(agent, OpenAIAgent)
    return agent


def key_sent(server: Any, agent: OpenAIAgent) -> str:
    ask = Ask("e", "n", "r", 0, 0, Context(), [Message("prompt", "Go.")], None, None, Task("t", {}), ())
    asyncio.run(agent.answer(ask))
    return str(server.received[-1].headers["authorization"])


def test_a_spec_says_all(server: Any, tmp_path: Path) -> None:
    agent = build(
        f"openai:model=m,base_url={server.url},temperature=0,top_p=0.9,max_tokens=64,seed=false,logprobs=5,"
        f"structured=true,prefill=true,concurrency=2,rpm=60,timeout=9,retries=1,cache={tmp_path / 'kept'},name=ann"
    )
    assert agent.settings == Settings("m", 0, 0.9, 64, False, 5, True, True)
    assert agent.limits == Limits(2, 60, 9, 1)
    assert (agent.name, agent.endpoint.url) == ("ann", server.url)
    assert (tmp_path / "kept" / "calls.sqlite").is_file()


def test_an_agent_is_named_after_its_model(server: Any) -> None:
    agent = build(f"openai:model=Qwen/Qwen3-8B,base_url={server.url}")
    assert agent.name == "Qwen/Qwen3-8B"
    assert (agent.settings, agent.limits) == (Settings("Qwen/Qwen3-8B"), Limits())


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("openai", "needs 'model': write openai:model=..."),
        ("openai:model=m,temprature=1", "Did you mean 'temperature'?"),
        ("openai:model=m,temperature=-1", "'temperature' of agent 'openai' must be greater than or equal to 0"),
        ("openai:model=m,max_tokens=0", "'max_tokens' of agent 'openai' must be greater than or equal to 1"),
        ("openai:model=m,seed=7", "'seed' of agent 'openai' must be true or false, not 7"),
    ],
)
def test_a_spec_is_checked_before_anything_is_built(spec: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        AGENTS.check(spec)
    assert message in str(caught.value)


def test_openai_needs_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match=r"no API key in \$OPENAI_API_KEY: set it, or name another variable"):
        build("openai:model=gpt-4o")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert build("openai:model=gpt-4o").endpoint.official


def test_a_key_is_read_from_the_variable_that_is_named(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " sk-other\n")
    agent = build(f"openai:model=m,base_url={server.url},api_key_env=MY_KEY")
    assert key_sent(server, agent) == "Bearer sk-other"


def test_the_key_for_openai_is_not_sent_to_others_unasked(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert "sk-mine" not in key_sent(server, build(f"openai:model=m,base_url={server.url}"))


def test_the_shipped_prices_are_openais(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    assert build("openai:model=gpt-4o-2024-08-06").usage.price == Price(input=2.5, cached=1.25, output=10)
    assert build(f"openai:model=gpt-4o,base_url={server.url}").usage.price is None


def test_a_price_table_can_be_given(server: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("m: {input: 1, output: 2}\n")
    agent = build(f"openai:model=m,base_url={server.url},prices={tmp_path / 'mine.yaml'},max_cost=3")
    assert agent.usage.price == Price(input=1, output=2)
    assert agent.limits.max_cost == 3


def test_a_price_table_that_is_none_is_refused_with_its_place(server: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("m: {input: 1, outptu: 2}\n")
    with pytest.raises(SourceError, match=r"mine\.yaml:1:15: m\.outptu"):
        build(f"openai:model=m,base_url={server.url},prices={tmp_path / 'mine.yaml'}")


def test_a_missing_sdk_is_told_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'debate-arena\[openai\]'"):
        AGENTS.build("openai:model=m")
