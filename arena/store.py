"""The run directory: every finished episode in one database, so that a killed run goes on where it stopped.

    with Store.open("runs/first") as store:
        run = store.begin("run", config, created="2026-01-31T12:00:00", resume=True)
        todo = [key for key in keys if key not in run.finished("play")]
        run.add("play", episodes)          # one transaction; when it returns, kill -9 cannot lose them
        run.finish("done")

Append only: nothing that was stored is changed. One process writes a directory at a time (a lock that the system
releases when the process dies); any number may read. SQLite in write-ahead mode by default, another database by
SQLAlchemy URL.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from arena.protocols.errors import ConfigError, ResumeError, StoreError
from arena.protocols.records import Episode
from arena.records_json import from_json, to_json

__all__ = ["DATABASE", "RunHandle", "Store"]

DATABASE = "run.sqlite"
"""Name of the database file in a run directory."""

_LOCK = "run.lock"
_TRIES = 40
_MOST_BEHIND = 16  # batches that a writer may be behind with
_BLOCK = 500  # values in one IN (...) list; SQLite's oldest limit is 999

_metadata = MetaData()
_runs = Table(
    "runs",
    _metadata,
    Column("id", Integer, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("created", String(64), nullable=False),
    Column("status", String(32), nullable=False),
)
_episodes = Table(
    "episodes",
    _metadata,
    Column("id", Integer, primary_key=True),
    Column("run", Integer, ForeignKey("runs.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("stage", String(128), nullable=False),
    Column("episode", Text, nullable=False),
    Column("created", String(64), nullable=False),
    UniqueConstraint("run", "key"),
    Index("episodes_by_stage", "run", "stage"),
)
_insert_episode = insert(_episodes)
_metrics = Table(
    "metrics",
    _metadata,
    Column("id", Integer, primary_key=True),
    Column("run", Integer, ForeignKey("runs.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("step", Integer, nullable=False),
    Column("json", Text, nullable=False),
    Index("metrics_by_name", "run", "name"),
)


class Store:
    """An open run directory or database."""

    def __init__(self, engine: Engine, where: str, directory: Path | None) -> None:
        self._engine = engine
        self.where = where
        """What the user called it, for messages."""
        self.directory = directory
        """The run directory; None for a database elsewhere."""
        self._lock: IO[str] | None = None

    @classmethod
    def open(cls, where: str | Path, create: bool = True) -> Store:
        """Open a run directory (or an SQLAlchemy URL) and make it if it is missing.

        Args:
            where: directory, or a URL such as ``postgresql+psycopg://host/name``.
            create: False refuses to make what is not there, for reading.

        Raises:
            StoreError: it cannot be read, written or understood, or it is missing.
        """
        text = str(where)
        directory = None if "://" in text else Path(text)
        shown = _without_password(text) if directory is None else text
        with _plain_errors(shown):
            engine = create_engine(text) if directory is None else _open_directory(directory, create)
            try:
                if create:
                    _create_tables(engine)
                elif not inspect(engine).has_table("runs"):
                    raise StoreError(f"{shown} holds no run yet")
            except BaseException:
                engine.dispose()
                raise
        return cls(engine, shown, directory)

    def close(self) -> None:
        """Give the lock and the connections back; stored data needs no closing."""
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

    def begin(self, kind: str, config: Mapping[str, Any], created: str, resume: bool = False) -> RunHandle:
        """Start the run of this store, or go on with it, and become its only writer.

        Args:
            kind: what runs: ``run``, ``tournament``, ``train``, ...
            config: all that decides the results, as JSON values; a resumed run must have the same.
            created: date and time to record.
            resume: go on with the run that is there, if any.

        Raises:
            ResumeError: the run there has another kind or config; every difference is listed.
            StoreError: there is a run and ``resume`` is False, or another process writes this store.
        """
        text = _canonical(config)
        with self._connection() as connection:
            self._take_lock()
            row = connection.execute(select(_runs).order_by(_runs.c.id)).first()
            if row is None:
                fingerprint = hashlib.sha256(f"{kind}\n{text}".encode()).hexdigest()
                values = {"kind": kind, "config": text, "fingerprint": fingerprint, "created": created}
                result = connection.execute(insert(_runs).values(**values, status="running"))
                key = result.inserted_primary_key
                assert key is not None
                return RunHandle(self, int(key[0]), kind, json.loads(text), fingerprint, created, "running")
            if not resume:
                raise StoreError(
                    f"{self.where} already holds a {row.kind} of {row.created}: "
                    f"go on with it by --resume, or choose another directory by --out"
                )
            changes = _differences({"kind": row.kind, **json.loads(row.config)}, {"kind": kind, **json.loads(text)})
            if changes:
                lines = "\n".join(f"  {change}" for change in changes)
                raise ResumeError(
                    f"{self.where} was begun under another configuration:\n{lines}\n"
                    f"Resume with the old values, or start afresh by --out with another directory."
                )
            return RunHandle.from_row(self, row)

    def run(self) -> RunHandle:
        """The run that is stored here, for reading.

        Raises:
            StoreError: there is none.
        """
        with self._connection() as connection:
            row = connection.execute(select(_runs).order_by(_runs.c.id.desc())).first()
        if row is None:
            raise StoreError(f"{self.where} holds no run yet")
        return RunHandle.from_row(self, row)

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """A transaction whose failures speak plainly."""
        with _plain_errors(self.where), self._engine.begin() as connection:
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


@dataclass(slots=True)
class RunHandle:
    """One run in a store."""

    store: Store
    id: int
    kind: str
    config: dict[str, Any]
    fingerprint: str
    """SHA-256 of kind and config."""
    created: str
    status: str
    """``running`` until `finish` said otherwise; a killed run stays ``running``."""

    @classmethod
    def from_row(cls, store: Store, row: Any) -> RunHandle:
        """The handle of a row of the table of runs."""
        return cls(store, row.id, row.kind, json.loads(row.config), row.fingerprint, row.created, row.status)

    def finished(self, stage: str | None = None) -> set[str]:
        """Keys of the stored episodes of one stage (None: of all)."""
        query = select(_episodes.c.key).where(_episodes.c.run == self.id)
        if stage is not None:
            query = query.where(_episodes.c.stage == stage)
        with self.store._connection() as connection:
            return set(connection.scalars(query))

    def add(self, stage: str, episodes: Sequence[Episode], created: str = "") -> int:
        """Store finished episodes in one transaction: all of them or, on an error, none.

        Storing an episode again with the same content does nothing.

        Args:
            stage: part of the run: ``play``, ``gen3``, ...
            episodes: finished episodes, keys unique in the run.
            created: date and time to record.

        Returns:
            How many were new.

        Raises:
            StoreError: a key is taken by an episode with other content or in another stage; or the database failed.
            NumericalError: an episode holds a NaN.
        """
        return self._store(stage, _texts(episodes), created)

    @contextlib.contextmanager
    def writer(self, stage: str, created: str = "") -> Iterator[Callable[[Sequence[Episode]], None]]:
        """`add` in a thread of its own, so that nobody waits for the disk: a function that takes finished episodes.

        When the block is left, by an exception or Ctrl-C too, all that was taken is stored.

        Raises:
            StoreError, NumericalError: see `add`; at a later call or at the end of the block.
        """
        with ThreadPoolExecutor(1, "arena-store") as thread:
            behind: deque[Future[int]] = deque()

            def write(episodes: Sequence[Episode]) -> None:
                while behind and (behind[0].done() or len(behind) >= _MOST_BEHIND):
                    behind.popleft().result()
                behind.append(thread.submit(self._store, stage, _texts(episodes), created))

            yield write
            while behind:
                behind.popleft().result()

    def _store(self, stage: str, texts: Mapping[str, str], created: str) -> int:
        try:
            return self._insert(stage, texts, created)
        except IntegrityError:
            # Some are there already: stored again, or by another writer of a shared database.
            return self._insert(stage, self._new(stage, texts), created)

    def _insert(self, stage: str, texts: Mapping[str, str], created: str) -> int:
        rows = [
            {"run": self.id, "key": key, "stage": stage, "episode": text, "created": created}
            for key, text in texts.items()
        ]
        if rows:
            with self.store._connection() as connection:
                connection.execute(_insert_episode, rows)
        return len(rows)

    def _new(self, stage: str, texts: Mapping[str, str]) -> dict[str, str]:
        """Those that are not stored yet.

        Raises:
            StoreError: a key is taken by another episode.
        """
        with self.store._connection() as connection:
            known = self._known(connection, list(texts))
        for key, (old_stage, old_text) in known.items():
            if old_stage != stage or old_text != texts[key]:
                other = f"in stage '{old_stage}'" if old_stage != stage else "with other content"
                raise StoreError(
                    f"episode {key!r} is already stored {other}; stored episodes are never changed. "
                    f"Was it played again under other code or weights? Use another directory"
                )
        return {key: text for key, text in texts.items() if key not in known}

    def _known(self, connection: Connection, keys: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Key -> (stage, JSON) of those that are stored."""
        found = {}
        for start in range(0, len(keys), _BLOCK):
            query = select(_episodes.c.key, _episodes.c.stage, _episodes.c.episode).where(
                _episodes.c.run == self.id, _episodes.c.key.in_(keys[start : start + _BLOCK])
            )
            found.update({row.key: (row.stage, row.episode) for row in connection.execute(query)})
        return found

    def episodes(self, stage: str | None = None) -> Iterator[Episode]:
        """Stored episodes in the order in which they were stored, of one stage or of all."""
        return (from_json(line) for line in self.lines(stage))

    def lines(self, stage: str | None = None) -> Iterator[str]:
        """The same as JSON, one line an episode without line end: a JSONL export."""
        query = select(_episodes.c.id, _episodes.c.episode).where(_episodes.c.run == self.id)
        if stage is not None:
            query = query.where(_episodes.c.stage == stage)
        query = query.order_by(_episodes.c.id).limit(_BLOCK)
        last = 0
        while True:  # by pages, so that a slow reader keeps no transaction open
            with self.store._connection() as connection:
                rows = connection.execute(query.where(_episodes.c.id > last)).all()
            if not rows:
                return
            last = rows[-1].id
            for row in rows:
                yield row.episode

    def stages(self) -> list[str]:
        """Names of the stages that hold episodes, in the order in which they began."""
        query = select(_episodes.c.stage).where(_episodes.c.run == self.id).group_by(_episodes.c.stage)
        with self.store._connection() as connection:
            return list(connection.scalars(query.order_by(func.min(_episodes.c.id))))

    def record(self, name: str, step: int, values: Any) -> None:
        """Store one row of a named series: metrics, ratings or anything that JSON can hold.

        A step stored twice (a resumed run repeats what came after its checkpoint) counts once, the later.

        Raises:
            ConfigError: JSON cannot hold the values.
        """
        row = {"run": self.id, "name": name, "step": step, "json": _json(values, f"{name}[{step}]")}
        with self.store._connection() as connection:
            connection.execute(insert(_metrics).values(**row))

    def series(self, name: str) -> dict[int, Any]:
        """Step -> values of a named series, by step."""
        query = select(_metrics.c.step, _metrics.c.json).where(_metrics.c.run == self.id, _metrics.c.name == name)
        with self.store._connection() as connection:
            rows = connection.execute(query.order_by(_metrics.c.id)).all()
        latest = {row.step: row.json for row in rows}
        return {step: json.loads(latest[step]) for step in sorted(latest)}

    def finish(self, status: str = "done") -> None:
        """Record how the run ended."""
        with self.store._connection() as connection:
            connection.execute(update(_runs).where(_runs.c.id == self.id).values(status=status))
        self.status = status


def _texts(episodes: Sequence[Episode]) -> dict[str, str]:
    """Key -> JSON."""
    texts: dict[str, str] = {}
    for episode in episodes:
        text = to_json(episode)
        if texts.setdefault(episode.key, text) != text:
            raise StoreError(f"two different episodes have the key {episode.key!r}: keys are unique in a run")
    return texts


def _without_password(url: str) -> str:
    with contextlib.suppress(ArgumentError):
        return make_url(url).render_as_string(hide_password=True)
    return url


def _open_directory(directory: Path, create: bool) -> Engine:
    path = directory / DATABASE
    if not path.is_file():
        if not create:
            raise StoreError(f"{directory} holds no run: there is no {DATABASE} in it")
        directory.mkdir(parents=True, exist_ok=True)
    writable = os.access(directory, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    if create and not writable:
        raise StoreError(f"{directory} cannot be written: choose a directory of your own by --out")
    if writable:
        engine = create_engine(f"sqlite:///{path}")
        event.listen(engine, "connect", _prepare)
        return engine
    # In a read-only directory SQLite cannot make its side files; a closed run has none.
    waiting = path.with_name(path.name + "-wal")
    immutable = "" if waiting.exists() and waiting.stat().st_size else "&immutable=1"
    return create_engine(f"sqlite:///file:{path.resolve()}?mode=ro{immutable}&uri=true")


def _create_tables(engine: Engine) -> None:
    """Make the tables that are missing, also while another process does the same.

    SQLite does not wait where two processes turn on write-ahead mode, or look for a table and then make it.
    """
    for patience in range(_TRIES, 0, -1):
        try:
            _metadata.create_all(engine)
            return
        except DBAPIError as error:
            if patience == 1 or not any(sign in str(error.orig) for sign in ("already exists", "locked")):
                raise
            time.sleep(0.05)


def _prepare(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    cursor.execute("PRAGMA busy_timeout=20000")
    cursor.execute("PRAGMA journal_mode=WAL")
    # What is committed is in the hands of the system, and safe from kill -9. If the machine itself dies, the last
    # episodes may be missing, never damaged: a resumed run plays them again, the same.
    cursor.execute("PRAGMA synchronous=NORMAL")
    cursor.close()


_ADVICE = {
    "disk is full": "the disk is full: free some space and start it again (with --resume); what was stored is safe",
    "not a database": "the database file is damaged or something else: restore a copy, or use another directory",
    "malformed": "the database file is damaged: restore a copy, or use another directory",
    "readonly": "it cannot be written: check its owner and rights, or use another directory",
    "unable to open": "the database file cannot be opened: check the path and its rights",
    "locked": "another process is writing it: wait for it, or use another directory",
    "no such table": "the database was made by something else: use another directory",
    "no such column": "the database was made by another version: use another directory",
}


@contextlib.contextmanager
def _plain_errors(where: str) -> Iterator[None]:
    """Turn failures of the database and of the file system into one sentence."""
    try:
        yield
    except (StoreError, IntegrityError):
        raise
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(f"{where} is not a store: give a directory or an SQLAlchemy URL ({error})") from error
    except DBAPIError as error:
        cause = str(error.orig)
        advice = next((text for sign, text in _ADVICE.items() if sign in cause), cause)
        raise StoreError(f"{where}: {advice}") from error
    except OSError as error:
        raise StoreError(f"{where}: {error.strerror or error}: choose another directory by --out") from error


def _json(value: Any, what: str) -> str:
    try:
        return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what} cannot be stored as JSON: {error}") from error


def _canonical(config: Mapping[str, Any]) -> str:
    return _json(dict(config), "the configuration of the run")


def _differences(old: Any, new: Any, name: str = "") -> list[str]:
    """``name: old -> new`` for every leaf that differs, with dotted names."""
    if isinstance(old, dict) and isinstance(new, dict):
        changes = []
        for key in sorted(old.keys() | new.keys()):
            place = f"{name}.{key}" if name else key
            changes += _differences(old.get(key, _ABSENT), new.get(key, _ABSENT), place)
        return changes
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [change for index, (a, b) in pairs for change in _differences(a, b, f"{name}[{index}]")]
    return [] if old == new and type(old) is type(new) else [f"{name}: {_short(old)} -> {_short(new)}"]


class _Absent:
    """A key that one side lacks."""


_ABSENT = _Absent()


def _short(value: Any) -> str:
    if value is _ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else text[:97] + "..."
