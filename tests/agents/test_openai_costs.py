"""What an agent used and spent, when it stops spending, and what it need not ask twice."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arena.agents.call_cache import CallCache
from arena.agents.openai import Endpoint, Limits, OpenAIAgent, Settings
from arena.agents.prices import Price
from arena.agents.types import Act, Ask, Context, Message
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task, TurnStatus

FREE = Limits()
DEAR = Price(input=1_000_000, cached=500_000, written=1_250_000, output=2_000_000)  # a dollar a token, half, 1.25, two


def make(
    server: Any, *, limits: Limits = FREE, model: str = "m", temperature: float | None = None, **rest: Any
) -> OpenAIAgent:
    return OpenAIAgent("speaker", Endpoint.at(server.url), Settings(model, temperature), limits, **rest)


def make_ask(seed: int = 0, text: str = "Go.", sample: int = 0, attempt: int = 0) -> Ask:
    new, task = [Message("prompt", text)], Task("t", {})
    return Ask("e", "n", "r", 0, seed, Context(), new, None, None, task, (), sample=sample, attempt=attempt)


def speak(agent: OpenAIAgent, *asks: Ask) -> list[Act]:
    async def all_turns() -> list[Act]:
        return list(await asyncio.gather(*map(agent.answer, asks)))

    return asyncio.run(all_turns())


def test_the_ledger_counts_what_the_server_tells(server: Any, faults: Any) -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
        "completion_tokens_details": {"reasoning_tokens": 20},
    }
    server.script(faults.completion(usage=usage))
    agent = make(server, price=DEAR)
    speak(agent, make_ask(1), make_ask(2))
    used = agent.usage
    assert (used.calls, used.prompt_tokens, used.cached_tokens, used.written_tokens) == (2, 200, 80, 20)
    assert (used.completion_tokens, used.thinking_tokens) == (60, 40)
    assert used.cost == 2 * (50 * 1 + 10 * 1.25 + 40 * 0.5 + 30 * 2)


def test_a_failed_call_costs_nothing_that_is_known(server: Any, faults: Any) -> None:
    server.script(faults.error(400))
    agent = make(server, price=DEAR)
    speak(agent, make_ask())
    assert (agent.usage.calls, agent.usage.failed, agent.usage.cost) == (0, 1, 0.0)


def test_nothing_more_is_asked_once_the_money_is_spent(server: Any, faults: Any) -> None:
    server.script(faults.completion(usage=(10, 1)))  # 12 dollars
    agent = make(server, limits=Limits(max_cost=20), price=DEAR)
    acts = [speak(agent, make_ask(seed))[0] for seed in range(4)]
    assert [act.status for act in acts] == [TurnStatus.OK, TurnStatus.OK, TurnStatus.CANCELLED, TurnStatus.CANCELLED]
    assert acts[2].error == "max_cost of agent 'speaker' is reached: 24.0000 of 20 USD are spent"
    assert len(server.received) == 2


def test_who_waits_for_a_place_meanwhile_is_not_asked_either(server: Any, faults: Any) -> None:
    server.script(faults.completion(usage=(10, 1)))
    agent = make(server, limits=Limits(max_cost=5, concurrency=1), price=DEAR)
    acts = speak(agent, *map(make_ask, range(6)))
    assert [act.status for act in acts] == [TurnStatus.OK] + [TurnStatus.CANCELLED] * 5
    assert len(server.received) == 1


def test_a_limit_of_cost_needs_a_price(server: Any) -> None:
    with pytest.raises(ConfigError, match=r"give prices=FILE, a YAML file with a line  m: \{input: USD, output: USD\}"):
        make(server, limits=Limits(max_cost=5))


def test_a_limit_of_cost_needs_a_server_that_counts(server: Any, faults: Any) -> None:
    server.script(faults.completion(usage=None))
    with pytest.raises(ConfigError, match="max_cost of agent 'speaker' cannot be kept"):
        speak(make(server, limits=Limits(max_cost=5), price=DEAR), make_ask())


# The call cache


def test_the_same_question_is_asked_once(server: Any, faults: Any, tmp_path: Path) -> None:
    usage = {"prompt_tokens": 9, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": 2}}
    server.script(faults.completion("Good.", finish="length", reasoning_content="hm", usage=usage))
    first, second = make(server, cache=CallCache(tmp_path)), make(server, cache=CallCache(tmp_path))
    (said,), (again,) = speak(first, make_ask()), speak(second, make_ask())
    assert said == again
    assert (said.status, said.thinking, said.visible_tokens) == (TurnStatus.TRUNCATED, "hm", 3)
    assert len(server.received) == 1
    assert (second.usage.calls, second.usage.from_cache, second.usage.prompt_tokens) == (0, 1, 0)


def test_whatever_determines_the_answer_makes_another_question(server: Any, tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    speak(make(server, cache=cache), make_ask())
    speak(make(server, cache=cache), make_ask(seed=1))
    speak(make(server, cache=cache), make_ask(text="Go on."))
    speak(make(server, cache=cache), make_ask(sample=1))
    speak(make(server, cache=cache), make_ask(attempt=1))
    speak(make(server, cache=cache, model="m@v2"), make_ask())
    speak(make(server, cache=cache, temperature=0.5), make_ask())
    assert len(server.received) == 7
    assert (cache.hits, cache.misses) == (0, 7)


def test_another_server_is_asked_anew(server: Any, faults: Any, tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    speak(make(server, cache=cache), make_ask())
    other = faults.FaultServer()
    try:
        speak(make(other, cache=cache), make_ask())
        assert len(other.received) == 1
    finally:
        other.close()


def test_a_failure_is_not_kept(server: Any, faults: Any, tmp_path: Path) -> None:
    server.script(faults.error(400), faults.completion())
    agent = make(server, cache=CallCache(tmp_path))
    assert [speak(agent, make_ask())[0].status for _ in range(2)] == [TurnStatus.TRANSPORT, TurnStatus.OK]


def test_what_is_known_is_told_after_the_money_is_spent(server: Any, faults: Any, tmp_path: Path) -> None:
    server.script(faults.completion(usage=(10, 1)))
    agent = make(server, cache=CallCache(tmp_path), limits=Limits(max_cost=5), price=DEAR)
    acts = [speak(agent, make_ask(seed))[0].status for seed in (0, 0, 1)]
    assert acts == [TurnStatus.OK, TurnStatus.OK, TurnStatus.CANCELLED]


def test_the_cache_holds_no_key(server: Any, tmp_path: Path) -> None:
    agent = make(server, cache=CallCache(tmp_path), key="sk-very-secret")
    speak(agent, make_ask())
    assert not any(b"sk-very-secret" in file.read_bytes() for file in tmp_path.iterdir())


def test_scores_are_kept_too(server: Any, faults: Any, tmp_path: Path) -> None:
    top = [{"token": "A", "logprob": -0.25}, {"token": "B", "logprob": -1.5}]
    body = {"choices": [{"message": {"content": "A"}, "logprobs": {"content": [{"top_logprobs": top}]}}]}
    server.script(faults.reply(body))
    agent = make(server, cache=CallCache(tmp_path))
    for _ in range(2):
        assert asyncio.run(agent.score_choices([{"role": "user", "content": "?"}], ["A", "B"])) == (-0.25, -1.5)
    assert len(server.received) == 1
