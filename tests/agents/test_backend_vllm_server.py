"""Tokens through the interface of ``vllm serve``: a stand-in that answers from a model here, and the server itself."""

from __future__ import annotations

import asyncio
import gc
import socket
from pathlib import Path
from typing import Any

import pytest

from arena.agents.backends import BACKENDS
from arena.agents.models import Model
from arena.agents.policy import Policy
from arena.agents.types import SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling
from arena.testing import check_backend


@pytest.fixture
def letters(shared: Any) -> Any:
    return shared


def backend(model: Model, url: str, policy: str = "x@v0", **options: Any) -> Any:
    return BACKENDS.build({"kind": "vllm-server", "url": url, **options}, model=model, policy=policy)


async def settled() -> None:
    """Wait for what nobody waits for, such as the unloading of adapters."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others)


def starts(model: Model) -> list[list[int]]:
    return [model.encoder.encode_turn(text, end=False) for text in ("ab", "abba", "b")]


def test_it_passes_the_public_conformance_check(letters: Any, stand_in: tuple[Any, str]) -> None:
    model = letters.letters()
    check_backend(backend(model, stand_in[1]), starts(model))


def test_a_version_is_loaded_under_its_own_name_and_unloaded_when_nobody_holds_it(
    letters: Any, stand_in: tuple[Any, str]
) -> None:
    answers, url = stand_in
    policy = Policy("p", letters.letters(lora=1), sampler={"kind": "vllm-server", "url": f"{url}/v1/"})
    (context, *_) = starts(policy.model)
    request = [ScoreRequest(context, [policy.model.encoder.encode_turn("abab", end=False)])]
    plain = [sum(letters.plain_logps(policy.model, context, request[0].continuations[0]))]
    assert policy.backend.score(request)[0] == pytest.approx(plain, abs=1e-4)
    (first,) = answers.adapters
    letters.shift(policy.model, 2)
    policy.publish()
    speaker: Any = policy.backend
    speaker.server.loop.run(settled())
    (second,) = answers.adapters
    assert first.startswith("p@v0-")
    assert second.startswith("p@v1-")
    plain = [sum(letters.plain_logps(policy.model, context, request[0].continuations[0]))]
    assert policy.backend.score(request)[0] == pytest.approx(plain, abs=1e-4)


def test_each_process_loads_and_unloads_its_own(letters: Any, stand_in: tuple[Any, str], tmp_path: Path) -> None:
    answers, url = stand_in
    model = letters.letters(lora=1)
    held = backend(model, url)
    other = backend(model, url, adapters=str(tmp_path))  # as another process has it: the same weights on another shelf
    twin = backend(model, url)
    assert (other.server is held.server, twin.server is held.server) == (False, True)
    assert len(answers.adapters) == 2
    (context, *_) = starts(model)
    request = [SampleRequest(context, 1, Sampling(), 4)]
    said = held.generate(request)
    server = other.server
    del other
    gc.collect()
    server.loop.run(settled())
    assert len(answers.adapters) == 1
    assert held.generate(request) == twin.generate(request) == said


def test_nothing_is_left_to_the_defaults_of_the_server(letters: Any, stand_in: tuple[Any, str]) -> None:
    answers, url = stand_in
    model = letters.letters()
    speaker = backend(model, url)
    answers.log.clear()
    speaker.generate([SampleRequest([5, 6], 2**64 - 1, Sampling(0.7, 0.9, 4), 3)])
    ((path, body),) = answers.log
    assert path == "/v1/completions"
    assert body == {
        "model": "base",
        "prompt": [5, 6],
        "max_tokens": 3,
        "seed": 2**63 - 1,
        "temperature": 0.7,
        "top_p": 0.9,
        "top_k": 4,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "ignore_eos": True,
        "stop_token_ids": list(model.encoder.end_ids),
        "logprobs": 0,
        "return_tokens_as_token_ids": True,
        "add_special_tokens": False,
    }
    assert speaker.max_length == 400  # the server's, which is less than the model's


def test_log_probs_of_another_distribution_are_refused(letters: Any, stand_in: tuple[Any, str]) -> None:
    answers, url = stand_in
    answers.raw = True
    with pytest.raises(ConfigError, match=r"before temperature and constraints.*--logprobs-mode processed_logprobs"):
        backend(letters.letters(), url)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"logprobs": None}, "no completion with token ids"),
        ({"finish_reason": "abort"}, r"\(abort\)"),
        ({"finish_reason": "stop"}, "--generation-config vllm"),  # at an id that ends no turn of this model
    ],
)
def test_answers_that_cannot_be_trusted_are_faults(
    letters: Any, stand_in: tuple[Any, str], change: dict[str, Any], message: str
) -> None:
    answers, url = stand_in
    speaker = backend(letters.letters(), url)
    answers.change = change
    said = letters.letters().encoder.encode_turn("a", end=False)
    with pytest.raises(BackendError, match=message):
        speaker.generate([SampleRequest([5], 0, Sampling(), 1, allowed=said)])


def test_an_adapter_that_the_server_cannot_read_is_told_with_its_folder(
    letters: Any, stand_in: tuple[Any, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, url = stand_in
    monkeypatch.setattr(answers, "post", lambda path, body: (404, {"error": {"message": "No adapter found"}}))
    model = letters.letters(lora=1)
    monkeypatch.setattr("arena.agents.backend_vllm_server.VLLMServer._check_mode", _nothing)
    with pytest.raises(BackendError, match=r"'x@v0-.*No adapter found.*must be able to read .*VLLM_ALLOW_RUNTIME"):
        backend(model, url)


async def _nothing(*args: Any) -> None: ...


def test_a_server_that_is_not_there_is_told_with_its_address(letters: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arena.agents.backend_vllm_server._RETRIES", 0)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BackendError, match=f"the server at {url}/v1"):
            backend(letters.letters(), url)


@pytest.mark.slow
@pytest.mark.vllm
def test_the_server_itself_obeys(letters: Any, vllm_server: str) -> None:
    policy = Policy("p", letters.letters(lora=1), sampler={"kind": "vllm-server", "url": vllm_server})
    check_backend(policy.backend, starts(policy.model))
    letters.shift(policy.model, 2)
    policy.publish()
    check_backend(policy.backend, starts(policy.model))
    (context, *_) = starts(policy.model)
    (answer,) = policy.backend.generate([SampleRequest(context * 40, 1, Sampling(1.3), 8)])
    assert answer.logps == pytest.approx(letters.plain_logps(policy.model, context * 40, answer.ids, 1.3), abs=1e-4)
