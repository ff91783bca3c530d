"""Servers that speak as ``vllm serve`` does: a stand-in that answers from a model here, and the server itself."""

from __future__ import annotations

import gc
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from peft import load_peft_weights, set_peft_model_state_dict

from arena.agents.backend_hf import HFBackend
from arena.agents.base_models import base_place
from arena.agents.models import Model
from arena.agents.types import SampleRequest, ScoreRequest
from arena.protocols.records import Sampling

_OPTIONS = (
    "--host 127.0.0.1 --enable-lora --max-lora-rank 16 --logprobs-mode processed_logprobs --generation-config vllm "
    "--dtype float32 --enforce-eager --no-enable-chunked-prefill --block-size 32 --kv-cache-memory-bytes 268435456"
)
_ENVIRONMENT = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_NO_USAGE_STATS": "1",
}


class StandIn:
    """Answers as ``vllm serve --enable-lora --logprobs-mode processed_logprobs`` does.

    Args:
        base: what it serves.
        adapted: the same with an adapter, which gets the weights of the one that is asked for.
    """

    def __init__(self, base: Model, adapted: Model) -> None:
        self.base = HFBackend(base)
        self.adapted = adapted
        self.on = ""
        """Adapter whose weights it has."""
        self.adapters: dict[str, dict[str, Any]] = {}
        """Weights by name."""
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
            self.adapters[name] = load_peft_weights(body["lora_path"], device="cpu")
            return 200, f"Success: LoRA adapter '{name}' added successfully."

    def complete(self, body: dict[str, Any]) -> tuple[int, Any]:
        if body["model"] != "base" and body["model"] not in self.adapters:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        speaker = self.base if body["model"] == "base" else self.speaker(body["model"])
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

    def speaker(self, name: str) -> HFBackend:
        if name != self.on:
            set_peft_model_state_dict(self.adapted.network, self.adapters[name])
            self.on = name
        return HFBackend(self.adapted)


@contextmanager
def standing_in(base: Model, adapted: Model) -> Iterator[tuple[StandIn, str]]:
    """A stand-in and its address."""
    answers = StandIn(base, adapted)

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
    try:
        yield answers, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        gc.collect()  # connections of this test are closed now, not in another one
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def serving(model: Model, log: Path) -> Iterator[str]:
    """The address of ``vllm serve`` with a model's base."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", base_place(model)]
    with open(log, "w") as told:
        process = subprocess.Popen(
            [*command, "--port", str(port), *_OPTIONS.split()], env=os.environ | _ENVIRONMENT, stdout=told, stderr=told
        )
    url = f"http://127.0.0.1:{port}"
    try:
        while not _healthy(url):
            try:
                process.wait(0.5)
            except subprocess.TimeoutExpired:
                continue
            pytest.fail(log.read_text()[-3000:])
        yield url
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
