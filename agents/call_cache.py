"""A cache of what models answered, by the content of the question.

The key of an answer is the SHA-256 of everything that determines it, so an entry never grows stale: another model,
adapter version, seed, candidate or prompt is another key. Off unless asked for, and no place for training rollouts,
which are to be drawn anew: `CachedBackend` follows no policy from version to version, and refuses to go on where
weights change under it.

SQLite in WAL mode, for many processes at once. Where two of them answer the same question, the answer that was stored
first is everybody's.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arena.agents.backends import AsyncBackend
from arena.agents.prices import Usage
from arena.agents.types import Backend, Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import StoreError

__all__ = ["AsyncCachedBackend", "CachedBackend", "CallCache", "call_key", "with_cache"]

_FILE = "calls.sqlite"
_FORMAT = 1
"""Part of every key: counts up when stored answers get another form."""
_PATIENCE = 30.0
"""Seconds to wait for another process that writes."""


def call_key(kind: str, question: Mapping[str, Any]) -> str:
    """The key of an answer.

    Args:
        kind: what sort of call it is, such as ``chat``.
        question: everything that determines the answer, as JSON values; the order of names does not matter.

    Raises:
        TypeError: something in it is no JSON value.
        ValueError: a number in it is not finite.
    """
    content = json.dumps([_FORMAT, kind, question], sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(content.encode()).hexdigest()


class CallCache:
    """Answers kept in a folder.

    Args:
        folder: made if it is not there.

    Raises:
        StoreError: it cannot be written.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path = Path(folder) / _FILE
        self.hits = 0
        """Questions that had an answer here."""
        self.misses = 0
        self._lock = threading.Lock()
        self._process = 0
        with self._lock:
            self._open()

    def get(self, key: str) -> Any | None:
        """The answer under ``key``; None if there is none.

        Raises:
            StoreError: the cache cannot be read.
        """
        with self._lock:
            found = self._find(key)
        if found is None:
            self.misses += 1
            return None
        self.hits += 1
        return found

    def put(self, key: str, answer: Any) -> Any:
        """Store an answer (a JSON value, not None), unless there is one already; gives what is stored now.

        Raises:
            StoreError: the cache cannot be written.
        """
        text = json.dumps(answer)
        with self._lock:
            self._run("INSERT INTO calls (key, answer) VALUES (?, ?) ON CONFLICT (key) DO NOTHING", (key, text))
            return self._find(key)

    def _find(self, key: str) -> Any | None:
        rows = self._run("SELECT answer FROM calls WHERE key = ?", (key,))
        try:
            return json.loads(rows[0][0]) if rows else None
        except (ValueError, TypeError) as error:
            raise StoreError(f"an answer in the cache '{self.path}' is damaged: delete the file") from error

    def _run(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        if self._process != os.getpid():  # a connection must not be used across a fork
            self._open()
        try:
            return self._connection.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise StoreError(f"the call cache '{self.path}' cannot be used: {error}") from error

    def _open(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Each statement is a transaction of its own; the lock serves threads.
            connection = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, _close, connection, os.getpid())
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")  # a lost answer is asked for again
            connection.execute("CREATE TABLE IF NOT EXISTS calls (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"the call cache '{self.path}' cannot be written: {error}") from error
        self._connection, self._process = connection, os.getpid()


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():
        connection.close()


class CachedBackend:
    """A backend that asks its model only for what is not in the cache.

    Args:
        backend: answers what is new.
        cache: keeps the answers.
        weights: what identifies the weights, beyond the name and version in ``backend.policy``: a digest, or a function
            that gives it and is asked before every call (`arena.agents.weights.FrozenWeights.digest`).
        sampler: what else decides what is drawn: the sort of backend and its options.
    """

    def __init__(self, backend: Backend, cache: CallCache, weights: str | Callable[[], str], sampler: str = "") -> None:
        self.backend = backend
        self.cache = cache
        self.usage = Usage(backend.policy, own=True)
        """What the model and the cache answered so far; a choice that is drawn fork by fork counts as several calls."""
        self._weights = weights
        self._sampler = sampler

    @property
    def policy(self) -> str:
        """See `arena.agents.types.Backend`."""
        return self.backend.policy

    @property
    def max_length(self) -> int | None:
        """Longest context of the model, if it tells."""
        return getattr(self.backend, "max_length", None)

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        """See `arena.agents.types.Backend`.

        Raises:
            StoreError: the cache cannot be read or written.
            ConfigError: the weights have changed.
        """
        keys = self._keys(requests)
        asked = dict(zip(keys, requests, strict=True))
        answers = {key: self.cache.get(key) for key in asked}
        new = [key for key, answer in answers.items() if answer is None]
        drawn = self.backend.generate([asked[key] for key in new]) if new else ()
        for key, completion in zip(new, drawn, strict=True):
            answers[key] = self._keep(key, asked[key], completion)
        self.usage.from_cache += len(keys) - len(new)
        return [_completion(answers[key]) for key in keys]

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        """See `arena.agents.types.Backend`; scores are not kept."""
        return self.backend.score(requests)

    def _keep(self, key: str, request: SampleRequest, completion: Completion) -> Any:
        self._identity()  # weights that changed while they answered must not leave an answer under the name of the old
        self.usage.add(len(request.ids), 0, len(completion.ids), 0)
        return self.cache.put(key, asdict(completion))

    def _identity(self) -> str:
        return self._weights if isinstance(self._weights, str) else self._weights()

    def _keys(self, requests: Sequence[SampleRequest]) -> list[str]:
        model = {"policy": self.policy, "weights": self._identity(), "sampler": self._sampler}
        return [call_key("sample", model | _question(request)) for request in requests]


class AsyncCachedBackend(CachedBackend):
    """A `CachedBackend` over a backend that takes requests one by one."""

    backend: AsyncBackend

    async def draw(self, request: SampleRequest) -> Completion:
        """See `arena.agents.backends.AsyncBackend`; raises as `generate` does."""
        (key,) = self._keys([request])
        answer = self.cache.get(key)
        if answer is None:
            answer = self._keep(key, request, await self.backend.draw(request))
        else:
            self.usage.from_cache += 1
        return _completion(answer)


def with_cache(
    backend: Backend, cache: CallCache, weights: str | Callable[[], str], sampler: str = ""
) -> CachedBackend:
    """The `CachedBackend` that suits a backend: it takes requests one by one if that does."""
    kind = AsyncCachedBackend if hasattr(backend, "draw") else CachedBackend
    return kind(backend, cache, weights, sampler)


def _question(request: SampleRequest) -> dict[str, Any]:
    allowed = None if request.allowed is None else list(request.allowed)
    return asdict(request) | {"ids": list(request.ids), "allowed": allowed}


def _completion(answer: Any) -> Completion:
    return Completion(tuple(answer["ids"]), tuple(answer["logps"]), answer["finish"])
