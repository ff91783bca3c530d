"""A cache of what models answered, by the content of the question.

The key of an answer is the SHA-256 of everything that determines it, so an entry never grows stale: another model,
adapter version, seed, candidate or prompt is another key. Off unless asked for, and no place for training rollouts,
which are to be drawn anew.

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
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arena.agents.types import Backend, Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import StoreError

__all__ = ["CachedBackend", "CallCache", "call_key"]

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
        weights: identifies the weights, beyond the name and version in ``backend.policy``: a hub revision, or the
            digest of a file. Two runs may both have a ``debater@v1``.
    """

    def __init__(self, backend: Backend, cache: CallCache, weights: str) -> None:
        self.backend = backend
        self.cache = cache
        self.weights = weights

    @property
    def policy(self) -> str:
        """See `arena.agents.types.Backend`."""
        return self.backend.policy

    @property
    def max_length(self) -> int | None:
        """Longest context of the model, if it tells."""
        return getattr(self.backend, "max_length", None)

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        """See `arena.agents.types.Backend`."""
        keys = [self._key(request) for request in requests]
        asked = dict(zip(keys, requests, strict=True))
        answers = {key: self.cache.get(key) for key in asked}
        new = [key for key, answer in answers.items() if answer is None]
        drawn = self.backend.generate([asked[key] for key in new]) if new else ()
        for key, completion in zip(new, drawn, strict=True):
            answers[key] = self.cache.put(key, asdict(completion))
        return [_completion(answers[key]) for key in keys]

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        """See `arena.agents.types.Backend`; scores are not kept."""
        return self.backend.score(requests)

    def _key(self, request: SampleRequest) -> str:
        question = asdict(request) | {"policy": self.policy, "weights": self.weights}
        question["ids"] = list(request.ids)
        question["allowed"] = None if request.allowed is None else list(request.allowed)
        return call_key("sample", question)


def _completion(answer: Any) -> Completion:
    return Completion(tuple(answer["ids"]), tuple(answer["logps"]), answer["finish"])
