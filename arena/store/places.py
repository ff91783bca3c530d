"""Where runs are kept: a directory with a database of its own, or a database by URL."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from sqlalchemy import Connection, Engine, func, insert, inspect, select, update
from sqlalchemy.exc import IntegrityError

from arena.protocols.errors import ResumeError, StoreError
from arena.store.configs import canonical, differences, fingerprint_of, grown, growth_of, plain_json
from arena.store.faults import plain_errors, without_password
from arena.store.opening import check_place, create_tables, is_url, open_directory, open_url
from arena.store.runs import GROWTH, RunHandle
from arena.store.sharing import LEASE_S, Worker, alive
from arena.store.tables import METRICS, RUNS

__all__ = ["Store"]

_LOCK = "run.lock"
_ONLY = 1  # the id of the run of a store: of two processes that begin it at once, one fails
_FIRST = select(RUNS).order_by(RUNS.c.id).limit(1)


class Store:
    """An open run directory or database."""

    def __init__(self, engine: Engine, where: str, directory: Path | None) -> None:
        self._engine = engine
        self.where = where
        """What the user called it, for messages."""
        self.directory = directory
        """The run directory; None for a database elsewhere."""
        self._lock: IO[str] | None = None
        self._workers: list[Worker] = []

    @classmethod
    def open(cls, where: str | Path, create: bool = True) -> Store:
        """Open a run directory (or an SQLAlchemy URL) and make it if it is missing.

        Args:
            where: directory, or a URL such as ``postgresql+psycopg://host/name``, which must be a string.
            create: False refuses to make what is not there, for reading.

        Raises:
            StoreError: it cannot be read, written or understood, or it is missing.
        """
        check_place(where)
        directory = None if is_url(where) else Path(where)
        shown = without_password(str(where))
        with plain_errors(shown):
            engine = open_url(str(where)) if directory is None else open_directory(directory, create)
            try:
                if create:
                    create_tables(engine)
                elif not inspect(engine).has_table("runs"):
                    raise StoreError(f"{shown} holds no run yet")
            except BaseException:
                engine.dispose()
                raise
        return cls(engine, shown, directory)

    def close(self) -> None:
        """Give claims, the lock and the connections back; stored data needs no closing."""
        while self._workers:
            self._workers.pop().leave()
        self._engine.dispose()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def begin(
        self,
        kind: str,
        config: Mapping[str, Any],
        created: str,
        resume: bool = False,
        *,
        grows: Collection[str] = (),
        share: bool = False,
        lease_s: float = LEASE_S,
    ) -> RunHandle:
        """Start the run of this store, or go on with it, and become its only writer, or one of several.

        Args:
            kind: what runs: ``run``, ``tournament``, ``train``, ...
            config: all that decides the results, as JSON values; a resumed run must have the same.
            created: date and time to record.
            resume: go on with the run that is there, if any.
            grows: names of dicts of the config to which a resumed run may add keys. What was added is stored beside the
                config, and belongs to it from then on.
            share: other processes may work on the run at the same time, and this one may join them without
                ``resume``. A directory is never shared: there it means nothing.
            lease_s: seconds without a sign of life after which the others take this process for dead.

        Raises:
            ResumeError: the run there has another kind or config; every difference is listed.
            StoreError: there is a run and ``resume`` is False, another process writes this directory, or the database
                is none that can be shared.
        """
        entry = {"kind": kind, "config": canonical(config), "created": created}
        lease = lease_s if share and self.directory is None else None
        try:
            run = self._begin(entry, resume, grows, lease)
        except IntegrityError:  # another process began it in the same moment
            run = self._begin(entry, resume, grows, lease)
        if run.worker is not None:
            run.worker.start()
            self._workers.append(run.worker)
        return run

    def _begin(
        self, entry: Mapping[str, str], resume: bool, grows: Collection[str], lease_s: float | None
    ) -> RunHandle:
        with self._connection() as connection:
            self._take_lock()
            # Nothing changes by this but that others who begin wait until this has ended.
            connection.execute(update(RUNS).values(status=RUNS.c.status))
            row = connection.execute(_FIRST).first()
            if row is None:
                values = {**entry, "fingerprint": fingerprint_of(entry["kind"], entry["config"]), "status": "running"}
                connection.execute(insert(RUNS).values(id=_ONLY, **values))
                row = connection.execute(_FIRST).one()
            else:
                self._check_joins(connection, row, resume=resume, share=lease_s is not None)
                self._grow(connection, row, entry, grows)
            run = RunHandle.from_row(self, connection, row)
            if lease_s is not None:
                run.worker = Worker(connection, self._connection, run.id, lease_s)
            return run

    def _check_joins(self, connection: Connection, row: Any, *, resume: bool, share: bool) -> None:
        """Whether this process may work on a run that has begun."""
        if resume or (share and alive(connection, row.id)):
            return
        another = "directory" if self.directory is not None else "database (or schema)"
        raise StoreError(
            f"{self.where} already holds a {row.kind} of {row.created}: "
            f"go on with it by --resume, or choose another {another} by --out"
        )

    def _grow(self, connection: Connection, row: Any, entry: Mapping[str, str], grows: Collection[str]) -> None:
        """Store what the config has grown by, if nothing else differs."""
        known, wanted = RunHandle.from_row(self, connection, row).config, json.loads(entry["config"])
        growth = growth_of(known, wanted, grows)
        changes = differences({"kind": row.kind, **grown(known, [growth])}, {"kind": entry["kind"], **wanted})
        if changes:
            lines = "\n".join(f"  {change}" for change in changes)
            raise ResumeError(
                f"{self.where} was begun under another configuration:\n{lines}\n"
                f"Resume with the old values, or start afresh by --out with another directory."
            )
        if growth:
            step = connection.scalars(
                select(func.count()).where(METRICS.c.run == row.id, METRICS.c.name == GROWTH)
            ).one()
            text = plain_json(growth, GROWTH)
            connection.execute(insert(METRICS).values(run=row.id, name=GROWTH, step=step, json=text))

    def run(self) -> RunHandle:
        """The run that is stored here, for reading.

        Raises:
            StoreError: there is none.
        """
        with self._connection() as connection:
            row = connection.execute(_FIRST).first()
            if row is None:
                raise StoreError(f"{self.where} holds no run yet")
            return RunHandle.from_row(self, connection, row)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A transaction whose failures speak plainly."""
        with plain_errors(self.where), self._engine.begin() as connection:
            yield connection

    def _take_lock(self) -> None:
        if self.directory is None or self._lock is not None:
            return
        import fcntl  # POSIX; reading needs no lock

        handle = (self.directory / _LOCK).open("a+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            handle.seek(0)
            holder = handle.read(32).strip() or "unknown"
            handle.close()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            raise StoreError(
                f"another process (id {holder}) is writing {self.where}: wait for it, stop it, or use another directory"
            ) from None
        handle.truncate(0)
        handle.write(str(os.getpid()))
        handle.flush()
        self._lock = handle
