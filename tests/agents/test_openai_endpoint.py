"""What agents of one server share: places, pace and connections."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from arena.agents.openai import Endpoint, Limits, OpenAIAgent, Settings
from arena.agents.types import Act, Ask, Context, Message
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task, TurnStatus


def make(server: Any, name: str = "a", **rest: Any) -> OpenAIAgent:
    limits = Limits(**{key: rest.pop(key) for key in ("concurrency", "rpm") if key in rest})
    return OpenAIAgent(name, Endpoint.at(server.url), Settings("m"), limits, **rest)


def make_ask(seed: int = 0) -> Ask:
    return Ask("e", "n", "r", 0, seed, Context(), [Message("prompt", "Go.")], None, None, Task("t", {}), ())


def speak_together(*agents: OpenAIAgent) -> list[Act]:
    async def all_turns() -> list[Act]:
        return list(await asyncio.gather(*(agent.answer(make_ask(seed)) for seed, agent in enumerate(agents))))

    return asyncio.run(all_turns())


def in_groups(faults: Any, size: int) -> Any:
    """Answers only when ``size`` requests are there at once."""
    together = threading.Barrier(size)

    def answer(_: Any) -> Any:
        together.wait(timeout=20)
        return faults.completion()

    return answer


def test_as_many_requests_as_allowed_are_under_way_and_no_more(server: Any, faults: Any) -> None:
    server.script(in_groups(faults, 3))
    acts = speak_together(*[make(server, concurrency=3)] * 12)
    assert {act.status for act in acts} == {TurnStatus.OK}
    assert server.most_at_once == 3


def test_agents_of_one_server_share_its_places(server: Any, faults: Any) -> None:
    server.script(in_groups(faults, 2))
    one, other = make(server, "one", concurrency=2), make(server, "other", concurrency=2)
    assert one.endpoint is other.endpoint
    speak_together(*[one, other] * 6)
    assert server.most_at_once == 2


def test_a_stricter_agent_waits_for_the_others(server: Any) -> None:
    endpoint = Endpoint.at(server.url)
    order: list[str] = []

    async def hold(name: str, most: int, until: asyncio.Event) -> None:
        async with endpoint.place(most):
            order.append(name)
            await until.wait()

    async def play() -> None:
        ends = {name: asyncio.Event() for name in "abc"}
        tasks = [asyncio.create_task(hold(name, most, ends[name])) for name, most in (("a", 3), ("b", 3), ("c", 1))]
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == ["a", "b"]
        ends["a"].set()
        for _ in range(5):
            await asyncio.sleep(0)
        assert order == ["a", "b"]
        ends["b"].set()
        ends["c"].set()
        await asyncio.gather(*tasks)

    asyncio.run(play())
    assert order == ["a", "b", "c"]


@pytest.mark.parametrize("granted", [False, True])
def test_who_gives_up_waiting_blocks_nobody(server: Any, granted: bool) -> None:
    endpoint = Endpoint.at(server.url)
    entered: list[str] = []

    async def enter(name: str) -> None:
        async with endpoint.place(1):
            entered.append(name)

    async def play() -> None:
        async with endpoint.place(1):
            first, second = asyncio.create_task(enter("first")), asyncio.create_task(enter("second"))
            for _ in range(5):
                await asyncio.sleep(0)
            if not granted:
                first.cancel()
        if granted:  # the place has been given to the first, which does not know it yet
            first.cancel()
        done = await asyncio.gather(first, second, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError)

    asyncio.run(play())
    assert entered == ["second"]


def test_requests_are_spread_over_the_minute(server: Any) -> None:
    time, starts = [100.0], []

    async def sleep(seconds: float) -> None:
        time[0] += seconds
        starts.append(time[0])

    agent = make(server, rpm=30, concurrency=1, sleep=sleep, clock=lambda: time[0])
    speak_together(*[agent] * 4)
    assert starts == [102.0, 104.0, 106.0]  # the first starts at once, at 100


def test_two_agents_keep_the_pace_of_one(server: Any) -> None:
    endpoint = Endpoint.at(server.url)
    assert [endpoint.delay(60, 10.0) for _ in range(3)] == [0.0, 1.0, 2.0]
    assert endpoint.delay(None, 10.0) == 0.0
    assert endpoint.delay(30, 10.0) == 4.0  # two seconds after the last, which starts at 12
    assert endpoint.delay(60, 100.0) == 0.0


def test_an_agent_outlives_event_loops_and_closes_its_connections_with_them(server: Any) -> None:
    agent = make(server)
    for _ in range(3):
        assert speak_together(agent)[0].text == "fine"
        assert agent.endpoint._rooms == {}


def test_the_keys_of_two_agents_are_kept_apart(server: Any) -> None:
    speak_together(make(server, "one", key="first"), make(server, "other", key="second"))
    assert {request.headers["authorization"] for request in server.received} == {"Bearer first", "Bearer second"}


def test_another_server_is_told_nothing_of_the_users_account_at_openai(
    server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, "mine-alone")
    speak_together(make(server))
    assert not [name for name, value in server.received[0].headers.items() if "mine-alone" in value]


def test_a_slash_at_the_end_makes_no_other_server(server: Any) -> None:
    first = Endpoint.at(server.url)
    assert Endpoint.at(f"{server.url}/") is first


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://host/v1", "http://", "", "http:///v1"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no address of a server: write it as http://HOST"):
        Endpoint.at(url)


@pytest.mark.parametrize(
    "url", ["https://me:hunter2@host/v1", "https://host/v1?key=hunter2", "https://host/v1#hunter2"]
)
def test_a_secret_in_an_address_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ConfigError, match="api_key_env=") as caught:
        Endpoint.at(url)
    assert "hunter2" not in str(caught.value)
