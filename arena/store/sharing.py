"""Several processes on one run: each plays what it has claimed, and what a dead one had claimed is free again.

A worker is a process that shares a run. It says again and again that it lives, from a thread of its own; all times are
those of the database, so that the clocks of machines need not agree. Whoever was taken for dead and is not (a machine
that slept, a network that was away) finds at its next transaction that its claims are gone, and stores nothing
under them: a game is stored once, by whoever holds its claim then.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager

from sqlalchemy import Connection, Select, delete, func, insert, or_, select, update

from arena.protocols.errors import StoreError
from arena.store.tables import BLOCK, CLAIMS, CODE_POINTS, WORKERS, now, upsert

__all__ = ["LEASE_S", "Worker", "alive"]

LEASE_S = 30.0
"""Seconds without a sign of life after which a worker is taken for dead."""

_PATIENCE_S = 5.0

Connect = Callable[[], AbstractContextManager[Connection]]


def alive(connection: Connection, run: int) -> int:
    """How many workers of a run are alive.

    Raises:
        StoreError: the database is none that can be shared.
    """
    living = select(func.count()).where(WORKERS.c.run == run, WORKERS.c.until >= now(connection))
    return connection.scalars(living).one()


class Worker:
    """This process among those that share a run.

    Args:
        connection: a transaction in which it joins them.
        connect: opens others.
        run: id of the run.
        lease_s: seconds without a sign of life after which the others take it for dead.

    Raises:
        StoreError: the database is none that can be shared.
    """

    def __init__(self, connection: Connection, connect: Connect, run: int, lease_s: float) -> None:
        self.run = run
        self.lease_s = lease_s
        self._connect = connect
        key = connection.execute(insert(WORKERS).values(run=run, until=now(connection) + lease_s)).inserted_primary_key
        assert key is not None
        self.id = int(key[0])
        self._left = threading.Event()
        self._pulse: threading.Thread | None = None

    def start(self) -> None:
        """Give signs of life from now on, until `leave`."""
        self._pulse = threading.Thread(target=self._beat, name="arena-alive", daemon=True)
        self._pulse.start()

    def leave(self) -> None:
        """Give everything up that is claimed."""
        self._left.set()
        if self._pulse is not None:
            self._pulse.join(timeout=_PATIENCE_S)  # it may hang on a network that has gone
        with contextlib.suppress(StoreError), self._connect() as connection:  # gone is gone: the lease ends by itself
            connection.execute(update(WORKERS).where(WORKERS.c.id == self.id).values(until=0.0))

    def alive(self) -> int:
        """How many processes share the run, this one included."""
        with self._connect() as connection:
            self._renew(connection)
            return alive(connection, self.run)

    def claim(self, keys: Iterable[str]) -> list[str]:
        """Claim what nobody holds, or somebody who is dead.

        Returns:
            What this process holds of it now, sorted. Whether it was played before the claim is for the caller to look
            up.
        """
        wanted = sorted(set(keys))  # everybody in the same order: no deadlocks
        won: set[str] = set()
        with self._connect() as connection:
            self._renew(connection)
        for start in range(0, len(wanted), BLOCK):
            with self._connect() as connection:
                rows = [{"run": self.run, "key": key, "worker": self.id} for key in wanted[start : start + BLOCK]]
                claims = upsert(connection, CLAIMS).values(rows)
                free = or_(CLAIMS.c.worker == self.id, CLAIMS.c.worker.in_(self._dead(connection)))
                claims = claims.on_conflict_do_update(
                    index_elements=[CLAIMS.c.run, CLAIMS.c.key], set_={"worker": self.id}, where=free
                )
                won.update(connection.scalars(claims.returning(CLAIMS.c.key)))
        return [key for key in wanted if key in won]

    def release(self) -> None:
        """Give up all claims, and stay."""
        with self._connect() as connection:
            connection.execute(delete(CLAIMS).where(CLAIMS.c.run == self.run, CLAIMS.c.worker == self.id))

    def held(self, connection: Connection, keys: Iterable[str]) -> set[str]:
        """Those that this process holds until the transaction ends, whatever the clock says."""
        self._renew(connection)  # first, since SQLite locks with the first write
        wanted = sorted(set(keys))
        held: set[str] = set()
        order = CLAIMS.c.key.collate(CODE_POINTS[connection.dialect.name])  # that of `claim`, for the same reason
        for start in range(0, len(wanted), BLOCK):
            mine = select(CLAIMS.c.key).where(
                CLAIMS.c.run == self.run, CLAIMS.c.worker == self.id, CLAIMS.c.key.in_(wanted[start : start + BLOCK])
            )
            held.update(connection.scalars(mine.order_by(order).with_for_update()))
        return held

    def _dead(self, connection: Connection) -> Select[int]:
        return select(WORKERS.c.id).where(WORKERS.c.run == self.run, WORKERS.c.until < now(connection))

    def _renew(self, connection: Connection) -> None:
        until = now(connection) + self.lease_s
        connection.execute(update(WORKERS).where(WORKERS.c.id == self.id).values(until=until))

    def _beat(self) -> None:
        while not self._left.wait(self.lease_s / 3):
            # A database that is away is told of by whoever next stores something.
            with contextlib.suppress(StoreError), self._connect() as connection:
                self._renew(connection)
