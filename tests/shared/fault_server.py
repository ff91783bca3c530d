"""A chat-completions server on this machine that answers, and fails, as a test tells it to."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """What the server does with one request."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    broken_off: bool = False
    """Half of the body is sent, then the connection is reset."""
    silent: bool = False
    """Nothing is sent before the test is over."""


@dataclass(frozen=True)
class Received:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    """By names in lower case."""
    body: dict[str, Any]


def completion(text: str | None = "fine", *, finish: str = "stop", usage: Any = (10, 3), **message: Any) -> Answer:
    """A good answer; ``usage`` is (prompt, completion) tokens, or what stands in its place."""
    counts = usage
    if isinstance(usage, tuple):
        counts = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "total_tokens": sum(usage)}
    said = {"role": "assistant", "content": text, **message}
    return reply(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
            "choices": [{"index": 0, "finish_reason": finish, "message": said}],
            "usage": counts,
        }
    )


def reply(body: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON body; header names with _ for -."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, json.dumps(body).encode(), named)


def error(status: int, message: str = "no", code: str | None = None, **headers: str) -> Answer:
    """An error in OpenAI's form."""
    return reply({"error": {"message": message, "type": "t", "param": None, "code": code}}, status, **headers)


def _lower(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers}


class FaultServer:
    """Answers by `script`, one answer a request, and goes on with its last one."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.most_at_once = 0
        self._script: list[Answer | Callable[[Received], Answer]] = [completion()]
        self._at_once = 0
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = False
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.received]

    def script(self, *answers: Answer | Callable[[Received], Answer]) -> None:
        """What the next requests are answered; a function is called with the request."""
        self._script = list(answers)

    def close(self) -> None:
        self._over.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 30

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                received = Received(self.path, _lower(self.headers.items()), json.loads(self.rfile.read(length)))
                with server._lock:
                    server.received.append(received)
                    answer = server._script[0] if len(server._script) == 1 else server._script.pop(0)
                    server._at_once += 1
                    server.most_at_once = max(server.most_at_once, server._at_once)
                made = answer(received) if callable(answer) else answer
                with server._lock:  # before the client can know that it is answered, and ask again
                    server._at_once -= 1
                self._send(made)

            def _send(self, answer: Answer) -> None:
                if answer.silent:
                    server._over.wait()
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if answer.broken_off:
                    self.wfile.write(answer.body[: len(answer.body) // 2])
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    return
                self.wfile.write(answer.body)

            def log_message(self, *args: Any) -> None:
                pass

        return Handler
