"""A server as all agents of this process share it: how many requests are under way, and when the next may start.

Connections and queues belong to an event loop, and each run of the engine has a loop of its own: so there is one set
of them for each loop, and it is closed with the loop.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, ClassVar
from urllib.parse import urlsplit

from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["OPENAI_URL", "Endpoint"]

OPENAI_URL = "https://api.openai.com/v1"
_NO_KEY = "none"
"""The SDK insists on a key; servers that ask for none do not read it."""


class Endpoint:
    """One server; `Endpoint.at` gives the one that all agents share."""

    _all: ClassVar[weakref.WeakValueDictionary[str, Endpoint]] = weakref.WeakValueDictionary()

    def __init__(self, url: str) -> None:
        self.url = url
        self._rooms: dict[asyncio.AbstractEventLoop, _Room] = {}
        self._started = float("-inf")
        self._lock = threading.Lock()

    @classmethod
    def at(cls, url: str) -> Endpoint:
        """The endpoint of a base URL.

        Raises:
            ConfigError: it is no address of a server.
        """
        url = _checked(url)
        endpoint = cls._all.get(url)
        if endpoint is None:
            endpoint = cls._all[url] = cls(url)
        return endpoint

    @property
    def official(self) -> bool:
        """Whether it is OpenAI's own."""
        return self.url == OPENAI_URL

    def delay(self, rpm: float | None, now: float) -> float:
        """Seconds until the next request may start; it is then counted as started.

        Args:
            rpm: most requests a minute, spread evenly; None lets it start at once.
            now: the time on a clock that only goes forward, in seconds.
        """
        with self._lock:
            start = now if rpm is None else max(now, self._started + 60.0 / rpm)
            self._started = max(self._started, start)
            return start - now

    @asynccontextmanager
    async def place(self, most: int) -> AsyncIterator[None]:
        """Wait until fewer than ``most`` requests of this event loop are under way, and hold a place among them."""
        gate = (await self._room()).gate
        await gate.enter(most)
        try:
            yield
        finally:
            gate.leave()

    async def client(self, key: str) -> AsyncOpenAI:
        """The connections of the running event loop, with this API key (none if empty)."""
        clients = (await self._room()).clients
        if key not in clients:
            clients[key] = _open(self.url, key)
        return clients[key]

    async def _room(self) -> _Room:
        loop = asyncio.get_running_loop()
        room = self._rooms.get(loop)
        if room is None:
            room = self._rooms[loop] = _Room(self._close_with(loop))
            await anext(room.keeper)
        return room

    async def _close_with(self, loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None]:
        # Whoever closes an event loop first ends the generators that run in it (asyncio.run does, the engine does): the
        # only notice that a loop gives before its connections can no longer be closed.
        try:
            yield
        finally:
            for client in self._rooms.pop(loop).clients.values():
                await client.close()


class _Room:
    """What belongs to one event loop."""

    def __init__(self, keeper: AsyncGenerator[None]) -> None:
        self.gate = _Gate()
        self.clients: dict[str, AsyncOpenAI] = {}
        self.keeper = keeper


class _Gate:
    """Lets requests in, first come first served; how many there may be is for each of them to say."""

    def __init__(self) -> None:
        self._inside = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, most: int) -> None:
        if self._inside < most and not self._waiting:
            self._inside += 1
            return
        entry = (most, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            await entry[1]
        except asyncio.CancelledError:
            if entry in self._waiting:
                self._waiting.remove(entry)
                self._admit()
            else:  # let in and cancelled at the same moment
                self.leave()
            raise

    def leave(self) -> None:
        self._inside -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._inside < self._waiting[0][0]:
            _, ticket = self._waiting.popleft()
            if not ticket.cancelled():
                self._inside += 1
                ticket.set_result(None)


def _open(url: str, key: str) -> AsyncOpenAI:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(api_key=key or _NO_KEY, base_url=url, max_retries=0, timeout=None)
    if url != OPENAI_URL:
        # The SDK takes these from the environment; they are nobody else's business.
        client.organization = client.project = None
    return client


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(f"base_url {url!r} is no address of a server: write it as http://HOST:PORT/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        # Not repeated: it would put a secret on the screen and into logs.
        raise ConfigError("base_url must hold neither a password nor '?' or '#': name the key's variable: api_key_env=")
    return url.rstrip("/")
