"""Tokens through the interface of ``vllm serve``: a stand-in that answers from a model here, and the server itself."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from peft import PeftModel

from arena.agents.backend_hf import HFBackend
from arena.agents.backends import BACKENDS
from arena.agents.base_models import base_place
from arena.agents.models import Model
from arena.agents.policy import Policy
from arena.agents.types import SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling
from arena.testing import check_backend

# PEFT reads a name that transformers has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")


class StandIn:
    """Answers as ``vllm serve --enable-lora --logprobs-mode processed_logprobs`` does."""

    def __init__(self, build: Callable[[], Model]) -> None:
        self.build = build
        self.base = HFBackend(build())
        self.adapters: dict[str, HFBackend] = {}
        self.log: list[tuple[str, dict[str, Any]]] = []
        self.raw = False
        """Tell log-probs before constraints, as without that mode."""
        self.change: dict[str, Any] = {}
        """Put over the first choice of completions."""
        self.lock = threading.Lock()

    def get(self, path: str) -> tuple[int, Any]:
        assert path == "/v1/models"
        adapters = [{"id": name, "parent": "base"} for name in self.adapters]
        return 200, {"data": [{"id": "base", "parent": None, "max_model_len": 400}, *adapters]}

    def post(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        with self.lock:
            self.log.append((path, body))
            if path == "/v1/completions":
                return self.complete(body)
            name = body["lora_name"]
            if path == "/v1/unload_lora_adapter":
                del self.adapters[name]
                return 200, "Success"
            assert path == "/v1/load_lora_adapter"
            if name in self.adapters:
                return 400, {"error": {"message": f"The lora adapter '{name}' has already been loaded."}}
            if not Path(body["lora_path"]).is_dir():
                return 404, {"error": {"message": f"No adapter found for {name}"}}
            model = self.build()
            network: Any = PeftModel.from_pretrained(model.network, body["lora_path"])
            self.adapters[name] = HFBackend(Model(network.eval(), model.encoder, name))
            return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] != "base" and body["model"] not in self.adapters:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        speaker = self.base if body["model"] == "base" else self.adapters[body["model"]]
        sampling = Sampling(body["temperature"], body["top_p"], body["top_k"])
        request = SampleRequest(body["prompt"], body["seed"], sampling, body["max_tokens"])
        request.allowed = body.get("allowed_token_ids")
        (drawn,) = speaker.generate([request])
        logps = list(drawn.logps)
        scored = body.get("logprob_token_ids", [])
        (scores,) = speaker.score([ScoreRequest(body["prompt"], [[token] for token in scored])])
        if self.raw:
            logps[0] = speaker.score([ScoreRequest(body["prompt"], [[drawn.ids[0]]])])[0][0]
        told = {
            "tokens": [f"token_id:{token}" for token in drawn.ids],
            "token_logprobs": logps,
            "top_logprobs": [{f"token_id:{token}": score for token, score in zip(scored, scores, strict=True)}],
        }
        reason = "stop" if drawn.ids[-1] in body["stop_token_ids"] else "length"
        choice = {"index": 0, "text": "", "logprobs": told, "finish_reason": reason}
        return 200, {"choices": [choice | self.change]}


@pytest.fixture
def letters(shared: Any) -> Any:
    return shared


@pytest.fixture
def stand_in(letters: Any) -> Iterator[tuple[StandIn, str]]:
    answers = StandIn(letters.letters)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*answers.get(self.path))

        def do_POST(self) -> None:
            self._send(*answers.post(self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))

        def _send(self, status: int, content: Any) -> None:
            data = content.encode() if isinstance(content, str) else json.dumps(content).encode()
            self.send_response(status)
            self.send_header("content-type", "text/plain" if isinstance(content, str) else "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield answers, f"http://127.0.0.1:{server.server_address[1]}"
    gc.collect()  # connections of this test are closed now, not in another one
    server.shutdown()
    thread.join()
    server.server_close()


def backend(model: Model, url: str, policy: str = "x@v0", **options: Any) -> Any:
    return BACKENDS.build({"kind": "vllm-server", "url": url, **options}, model=model, policy=policy)


async def settled() -> None:
    """Wait for what nobody waits for, such as the unloading of adapters."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others)


def starts(model: Model) -> list[list[int]]:
    return [model.encoder.encode_turn(text, end=False) for text in ("ab", "abba", "b")]


def test_it_passes_the_public_conformance_check(letters: Any, stand_in: tuple[StandIn, str]) -> None:
    model = letters.letters()
    check_backend(backend(model, stand_in[1]), starts(model))


def test_a_version_is_loaded_under_its_own_name_and_unloaded_when_nobody_holds_it(
    letters: Any, stand_in: tuple[StandIn, str]
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


def test_each_process_loads_and_unloads_its_own(letters: Any, stand_in: tuple[StandIn, str], tmp_path: Path) -> None:
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


def test_nothing_is_left_to_the_defaults_of_the_server(letters: Any, stand_in: tuple[StandIn, str]) -> None:
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


def test_log_probs_of_another_distribution_are_refused(letters: Any, stand_in: tuple[StandIn, str]) -> None:
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
    letters: Any, stand_in: tuple[StandIn, str], change: dict[str, Any], message: str
) -> None:
    answers, url = stand_in
    speaker = backend(letters.letters(), url)
    answers.change = change
    said = letters.letters().encoder.encode_turn("a", end=False)
    with pytest.raises(BackendError, match=message):
        speaker.generate([SampleRequest([5], 0, Sampling(), 1, allowed=said)])


def test_an_adapter_that_the_server_cannot_read_is_told_with_its_folder(
    letters: Any, stand_in: tuple[StandIn, str], monkeypatch: pytest.MonkeyPatch
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
def test_the_server_itself_obeys(letters: Any, tmp_path: Path) -> None:
    letters.need_vllm()
    model = letters.letters(lora=1)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = (
        "--host 127.0.0.1 --enable-lora --max-lora-rank 16 --logprobs-mode processed_logprobs --generation-config vllm "
        "--dtype float32 --enforce-eager --no-enable-chunked-prefill --block-size 32 --kv-cache-memory-bytes 268435456"
    )
    environment = {
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", base_place(model)]
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *options.split()], env=os.environ | environment, stdout=log, stderr=log
        )
    url = f"http://127.0.0.1:{port}"
    try:
        while not _healthy(url):
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail((tmp_path / "log").read_text()[-3000:])
        policy = Policy("p", model, sampler={"kind": "vllm-server", "url": url})
        check_backend(policy.backend, starts(model))
        letters.shift(model, 2)
        policy.publish()
        check_backend(policy.backend, starts(model))
        (context, *_) = starts(model)
        (answer,) = policy.backend.generate([SampleRequest(context * 40, 1, Sampling(1.3), 8)])
        assert answer.logps == pytest.approx(letters.plain_logps(model, context * 40, answer.ids, 1.3), abs=1e-4)
        del policy
        gc.collect()
    finally:
        process.terminate()
        process.wait()


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
