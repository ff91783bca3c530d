"""Servers fail: what is tried again, when, and what is told in the end. Nothing here waits: sleep is a list."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime
from typing import Any

import pytest

from arena.agents.openai import Endpoint, Limits, OpenAIAgent, Settings
from arena.agents.openai.faults import backoff
from arena.agents.types import Act, Ask, Context, Message
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task, TurnStatus

KEY = "sk-very-secret-1234"
NOON = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)


class Speaker:
    """An agent whose waits are written down."""

    def __init__(self, url: str, *, key: str = KEY, **limits: Any) -> None:
        self.naps: list[float] = []
        self.agent = OpenAIAgent(
            "speaker", Endpoint.at(url), Settings("m"), Limits(**limits), key=key, sleep=self._nap, now=lambda: NOON
        )

    async def _nap(self, seconds: float) -> None:
        self.naps.append(seconds)

    def speak(self, seed: int = 3) -> Act:
        ask = Ask("e", "n", "r", 0, seed, Context(), [Message("prompt", "Go.")], None, None, Task("t", {}), ())
        return asyncio.run(self.agent.answer(ask))


def test_too_many_requests_are_made_again_after_the_time_that_the_server_names(server: Any, faults: Any) -> None:
    server.script(faults.error(429, "slow down", Retry_After="7"), faults.completion())
    speaker = Speaker(server.url)
    assert speaker.speak().text == "fine"
    (nap,) = speaker.naps
    assert 7.0 <= nap <= 8.0


def test_the_time_may_be_a_date(server: Any, faults: Any) -> None:
    server.script(faults.error(503, Retry_After="Thu, 01 Jan 2026 12:00:30 GMT"), faults.completion())
    speaker = Speaker(server.url)
    speaker.speak()
    assert 30.0 <= speaker.naps[0] <= 31.0


@pytest.mark.parametrize("header", ["soon", "-5", "nan", "inf", "Thu, 01 Jan 2026 11:00:00 GMT"])
def test_a_time_that_is_none_counts_as_not_named(server: Any, faults: Any, header: str) -> None:
    server.script(faults.error(429, Retry_After=header), faults.completion())
    speaker = Speaker(server.url)
    speaker.speak()
    assert 0.0 <= speaker.naps[0] <= 1.0


def test_a_server_that_asks_to_wait_for_hours_is_not_asked_again(server: Any, faults: Any) -> None:
    server.script(faults.error(429, "quota of the day", Retry_After="7200"))
    speaker = Speaker(server.url)
    act = speaker.speak()
    assert (act.status, speaker.naps) == (TurnStatus.TRANSPORT, [])
    assert "quota of the day (the server asks to wait 7200 s)" in str(act.error)


def test_waits_grow_with_full_jitter_from_the_seed_of_the_turn() -> None:
    draws = [[backoff(seed, number) for seed in range(400)] for number in (1, 2, 3, 10)]
    for waits, most in zip(draws, (1.0, 2.0, 4.0, 60.0), strict=True):
        assert 0.0 <= min(waits) <= 0.02 * most
        assert 0.98 * most <= max(waits) <= most
    assert backoff(5, 2) == backoff(5, 2)


def test_the_same_turn_waits_the_same(server: Any, faults: Any) -> None:
    server.script(faults.error(500))
    first, again, other = (Speaker(server.url, retries=3) for _ in range(3))
    first.speak(seed=1)
    again.speak(seed=1)
    other.speak(seed=2)
    assert len(first.naps) == 3
    assert first.naps == again.naps != other.naps


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_faults_that_may_pass_are_tried_again(server: Any, faults: Any, status: int) -> None:
    server.script(faults.error(status), faults.error(status), faults.completion())
    speaker = Speaker(server.url)
    assert speaker.speak().status is TurnStatus.OK
    assert (len(server.received), speaker.agent.usage.retries) == (3, 2)


def test_after_all_tries_the_turn_says_what_went_wrong(server: Any, faults: Any) -> None:
    server.script(faults.error(503, "model is loading"))
    speaker = Speaker(server.url, retries=2)
    act = speaker.speak()
    assert (act.status, act.text) == (TurnStatus.TRANSPORT, "")
    assert act.error == f"{server.url}: HTTP 503: model is loading (after 3 tries)"
    assert (len(server.received), speaker.agent.usage.failed) == (3, 1)


@pytest.mark.parametrize("status", [400, 403, 413, 422])
def test_a_request_that_is_wrong_is_not_made_again(server: Any, faults: Any, status: int) -> None:
    server.script(faults.error(status, "context too long"))
    speaker = Speaker(server.url)
    act = speaker.speak()
    assert act.error == f"{server.url}: HTTP {status}: context too long"
    assert (len(server.received), speaker.naps) == (1, [])


def test_an_account_without_money_is_not_waited_for(server: Any, faults: Any) -> None:
    server.script(faults.error(429, "You exceeded your current quota", code="insufficient_quota"))
    assert Speaker(server.url).speak().status is TurnStatus.TRANSPORT
    assert len(server.received) == 1


def test_a_silent_server_is_given_up_and_asked_again(server: Any, faults: Any) -> None:
    server.script(faults.Answer(silent=True), faults.completion())
    assert Speaker(server.url, timeout=0.2).speak().text == "fine"


def test_a_server_that_stays_silent_is_told_as_such(server: Any, faults: Any) -> None:
    server.script(faults.Answer(silent=True))
    act = Speaker(server.url, timeout=0.05, retries=1).speak()
    assert act.error == f"{server.url}: no answer within 0.05 s (after 2 tries)"


def test_a_connection_that_breaks_in_the_middle_is_tried_again(server: Any, faults: Any) -> None:
    body = faults.completion().body
    server.script(faults.Answer(body=body, broken_off=True), faults.completion())
    speaker = Speaker(server.url)
    assert speaker.speak().text == "fine"
    assert speaker.agent.usage.retries == 1


def test_a_server_that_is_not_there_is_told_as_such() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    act = Speaker(url, retries=1).speak()
    assert act.status is TurnStatus.TRANSPORT
    assert str(act.error).startswith(f"{url}: the connection failed: ")


@pytest.mark.parametrize(
    "body",
    [
        b'{"choices": [{"mess',
        b"<html>Bad gateway</html>",
        b"",
        b"null",
        b'{"choices": []}',
        b'{"choices": null, "error": {"message": "overloaded"}}',
        b'{"choices": [{"index": 0}]}',
        b'{"choices": [{"message": "hello"}]}',
        b'{"choices": ' + b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_an_answer_that_is_none_is_tried_again(server: Any, faults: Any, body: bytes) -> None:
    server.script(faults.Answer(body=body), faults.completion())
    assert Speaker(server.url).speak().text == "fine"
    server.script(faults.Answer(body=body))
    act = Speaker(server.url, retries=1).speak()
    assert act.status is TurnStatus.TRANSPORT
    assert "the server's answer is no chat completion" in str(act.error)


# The key


def test_the_key_is_sent_to_the_server(server: Any) -> None:
    Speaker(server.url).speak()
    assert server.received[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_no_message_ever_holds_the_key(server: Any, faults: Any, status: int) -> None:
    server.script(faults.error(status, f"Incorrect API key provided: {KEY}. {'x' * 500}"))
    speaker = Speaker(server.url, retries=1)
    try:
        told = str(speaker.speak().error)
    except ConfigError as error:
        told = f"{error!r} {error.__cause__!r} {error.__context__!r}"
    assert "Incorrect API key provided: ***." in told
    assert KEY not in told + repr(vars(speaker.agent.endpoint)) + str(speaker.agent.usage)
    assert len(told) < 700


def test_what_a_server_says_is_one_line_without_control_characters(server: Any, faults: Any) -> None:
    server.script(faults.error(400, "no\n\n\x1b[31mred\u202e"))
    act = Speaker(server.url).speak()
    assert act.error == f"{server.url}: HTTP 400: no [31mred"


@pytest.mark.parametrize(
    ("status", "way_out"), [(401, "api_key_env=NAME"), (404, "Is there a model 'm', and does base_url end")]
)
def test_a_wrong_key_or_model_ends_the_run_at_the_first_request(
    server: Any, faults: Any, status: int, way_out: str
) -> None:
    server.script(faults.error(status, "unknown"))
    with pytest.raises(ConfigError, match=way_out):
        Speaker(server.url).speak()


@pytest.mark.parametrize("status", [401, 404])
def test_later_it_is_a_fault_like_others(server: Any, faults: Any, status: int) -> None:
    server.script(faults.completion(), faults.error(status))
    speaker = Speaker(server.url)
    speaker.speak()
    assert speaker.speak().status is TurnStatus.TRANSPORT


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"detail": "Not here"}, "Not here"),
        ({"message": "No such thing"}, "No such thing"),
        ("plain", "plain"),
        ({}, "{}"),
    ],
)
def test_errors_in_other_forms_are_told_too(server: Any, faults: Any, body: Any, told: str) -> None:
    server.script(faults.reply(body, 400))
    assert told in str(Speaker(server.url).speak().error)
