"""The agent for OpenAI-compatible servers against a real one: ``vllm serve``."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any

import pytest

from arena.agents import AGENTS
from arena.agents.openai import OpenAIAgent
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import ConfigError
from arena.protocols.loader import compile_document
from arena.protocols.records import Task, TurnStatus

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

TALK = """
name: talk
fields: [question]
roles: {pro: {sees: [question], opening: "Say ab."}, con: {sees: [question], opening: "Say ba."}}
nodes:
  one: {speak: pro, prompt: "{{ question }}", limit: {tokens: 6}}
  two: {speak: con, limit: {tokens: 6}}
edges: [start -> one -> two -> end, {from: two, to: one, times: 2}]
"""


@pytest.fixture
def agent(vllm_server: str, monkeypatch: pytest.MonkeyPatch) -> OpenAIAgent:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with urllib.request.urlopen(f"{vllm_server}/v1/models") as answer:
        name = json.load(answer)["data"][0]["id"]
    spec = {"kind": "openai", "model": name, "base_url": f"{vllm_server}/v1", "temperature": 1, "name": "served"}
    made = AGENTS.build(spec)
    assert isinstance(made, OpenAIAgent)
    return made


def test_it_plays_a_protocol_and_its_usage_is_counted(agent: OpenAIAgent) -> None:
    lineup = {"pro": agent, "con": agent}
    plans = [Plan(f"e{n}", Task(f"t{n}", {"question": "ba" * (n + 1)}), lineup) for n in range(4)]
    episodes = Engine(compile_document(parse_document(TALK)), {}, seed=3).play(plans)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(turns) == 4 * 6
    assert {turn.status for turn in turns} <= {TurnStatus.OK, TurnStatus.TRUNCATED}
    letters = "".join(turn.text for turn in turns)
    assert letters.count("a") + letters.count("b") > len(letters) / 2  # what the model says most
    assert (agent.usage.calls, agent.usage.failed, agent.usage.uncounted) == (24, 0, 0)
    assert agent.usage.prompt_tokens > 24 * 20
    assert 24 <= agent.usage.completion_tokens <= 24 * 6
    assert Engine(compile_document(parse_document(TALK)), {}, seed=3).play(plans) == episodes  # the server keeps seeds


def test_choices_are_scored_by_log_probs(agent: OpenAIAgent, shared: Any) -> None:
    model = shared.letters()
    tokenizer = model.encoder.tokenizer
    prompt = tokenizer("<s>user:abba<e><s>assistant:", add_special_tokens=False)["input_ids"]
    logps = shared.plain_logits(model, prompt)[-1].log_softmax(-1)
    messages: Any = [{"role": "user", "content": "abba"}]
    likely, unlikely = asyncio.run(agent.score_choices(messages, ["ab", "qqqq"]))
    assert likely == pytest.approx(float(logps[tokenizer.convert_tokens_to_ids("ab")]), abs=1e-3)
    assert unlikely is None


def test_a_model_that_the_server_does_not_have_ends_the_run(agent: OpenAIAgent) -> None:
    stranger = AGENTS.build({"kind": "openai", "model": "nobody", "base_url": agent.endpoint.url})
    plan = Plan("e", Task("t", {"question": "ba"}), {"pro": stranger, "con": stranger})
    with pytest.raises(ConfigError, match=r"Is there a model 'nobody'"):
        Engine(compile_document(parse_document(TALK)), {}, seed=3).play([plan])
