"""A run in a store: its episodes and its series."""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from arena.protocols.errors import StoreError
from arena.protocols.records import Episode
from arena.records_json import from_json, to_json
from arena.store.configs import canonical, fingerprint_of, grown, plain_json
from arena.store.sharing import Worker
from arena.store.tables import BLOCK, EPISODES, METRICS, RUNS

if TYPE_CHECKING:
    from arena.store.places import Store

__all__ = ["GROWTH", "RunHandle"]

GROWTH = "config-growth"
"""Series of what was added to the configuration of a run after it had begun."""

_MOST_BEHIND = 16  # batches that a writer may be behind with
_INSERT_EPISODE = insert(EPISODES)

Unit = Callable[[str], str]
"""Key of an episode -> key of the claim that it is played under."""


@dataclass(slots=True)
class RunHandle:
    """One run in a store."""

    store: Store
    id: int
    kind: str
    config: dict[str, Any]
    """With all that was added to it."""
    fingerprint: str
    """SHA-256 of kind and config."""
    created: str
    status: str
    """``running`` until `finish` said otherwise; a killed run stays ``running``."""

    worker: Worker | None = None
    """This process among those that share the run; None where it is alone."""

    @classmethod
    def from_row(cls, store: Store, connection: Connection, row: Any) -> RunHandle:
        """The handle of a row of the table of runs."""
        growths = _series(connection, row.id, GROWTH)
        config, fingerprint = json.loads(row.config), row.fingerprint
        if growths:
            config = grown(config, [growths[step] for step in sorted(growths)])
            fingerprint = fingerprint_of(row.kind, canonical(config))
        return cls(store, row.id, row.kind, config, fingerprint, row.created, row.status)

    def finished(self, stage: str | None = None) -> set[str]:
        """Keys of the stored episodes of one stage (None: of all)."""
        query = select(EPISODES.c.key).where(EPISODES.c.run == self.id)
        if stage is not None:
            query = query.where(EPISODES.c.stage == stage)
        with self.store._connection() as connection:
            return set(connection.scalars(query))

    def named(self, keys: Iterable[str]) -> dict[str, Episode]:
        """Those of the named episodes that are stored, by key, in the order in which they are named."""
        wanted = list(keys)
        with self.store._connection() as connection:
            known = self._known(connection, wanted)
        return {key: from_json(known[key][1]) for key in wanted if key in known}

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
        return self._store(stage, _texts(episodes), created, None)

    @contextlib.contextmanager
    def writer(
        self, stage: str, created: str = "", unit: Unit | None = None
    ) -> Iterator[Callable[[Sequence[Episode]], None]]:
        """`add` in a thread of its own, so that nobody waits for the disk: a function that takes finished episodes.

        When the block is left, by an exception or Ctrl-C too, all that was taken is stored.

        Args:
            stage: see `add`.
            created: see `add`.
            unit: in a run that is shared, under which claim an episode is played. One whose claim was lost is left out:
                whoever has the claim now plays it again.

        Raises:
            StoreError, NumericalError: see `add`; at a later call or at the end of the block.
        """
        with ThreadPoolExecutor(1, "arena-store") as thread:
            behind: deque[Future[int]] = deque()

            def write(episodes: Sequence[Episode]) -> None:
                while behind and (behind[0].done() or len(behind) >= _MOST_BEHIND):
                    behind.popleft().result()
                behind.append(thread.submit(self._store, stage, _texts(episodes), created, unit))

            yield write
            while behind:
                behind.popleft().result()

    def _store(self, stage: str, texts: Mapping[str, str], created: str, unit: Unit | None) -> int:
        try:
            return self._insert(stage, texts, created, unit)
        except IntegrityError:
            # Some are there already: stored again, or by another writer of a shared database.
            return self._insert(stage, self._new(stage, texts), created, unit)

    def _insert(self, stage: str, texts: Mapping[str, str], created: str, unit: Unit | None) -> int:
        with self.store._connection() as connection:
            if unit is not None and self.worker is not None:
                held = self.worker.held(connection, map(unit, texts))
                texts = {key: text for key, text in texts.items() if unit(key) in held}
            rows = [
                {"run": self.id, "key": key, "stage": stage, "episode": text, "created": created}
                for key, text in texts.items()
            ]
            if rows:
                connection.execute(_INSERT_EPISODE, rows)
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
        for start in range(0, len(keys), BLOCK):
            query = select(EPISODES.c.key, EPISODES.c.stage, EPISODES.c.episode).where(
                EPISODES.c.run == self.id, EPISODES.c.key.in_(keys[start : start + BLOCK])
            )
            found.update({row.key: (row.stage, row.episode) for row in connection.execute(query)})
        return found

    def episodes(self, stage: str | None = None) -> Iterator[Episode]:
        """Stored episodes in the order in which they were stored, of one stage or of all."""
        return (from_json(line) for line in self.lines(stage))

    def lines(self, stage: str | None = None) -> Iterator[str]:
        """The same as JSON, one line an episode without line end: a JSONL export."""
        query = select(EPISODES.c.id, EPISODES.c.episode).where(EPISODES.c.run == self.id)
        if stage is not None:
            query = query.where(EPISODES.c.stage == stage)
        query = query.order_by(EPISODES.c.id).limit(BLOCK)
        last = 0
        while True:  # by pages, so that a slow reader keeps no transaction open
            with self.store._connection() as connection:
                rows = connection.execute(query.where(EPISODES.c.id > last)).all()
            if not rows:
                return
            last = rows[-1].id
            for row in rows:
                yield row.episode

    def stages(self) -> list[str]:
        """Names of the stages that hold episodes, in the order in which they began."""
        query = select(EPISODES.c.stage).where(EPISODES.c.run == self.id).group_by(EPISODES.c.stage)
        with self.store._connection() as connection:
            return list(connection.scalars(query.order_by(func.min(EPISODES.c.id))))

    def record(self, name: str, step: int, values: Any) -> None:
        """Store one row of a named series: metrics, ratings or anything that JSON can hold.

        A step stored twice (a resumed run repeats what came after its checkpoint) counts once, the later.

        Raises:
            ConfigError: JSON cannot hold the values.
        """
        self.record_all(name, {step: values})

    def record_all(self, name: str, rows: Mapping[int, Any]) -> None:
        """Store rows of a named series, all or none; see `record`.

        Raises:
            ConfigError: JSON cannot hold the values.
        """
        plain = [
            {"run": self.id, "name": name, "step": step, "json": plain_json(values, f"{name}[{step}]")}
            for step, values in rows.items()
        ]
        if plain:
            with self.store._connection() as connection:
                connection.execute(insert(METRICS), plain)

    def series(self, name: str) -> dict[int, Any]:
        """Step -> values of a named series, by step."""
        with self.store._connection() as connection:
            return _series(connection, self.id, name)

    def finish(self, status: str = "done") -> None:
        """Record how the run ended."""
        with self.store._connection() as connection:
            connection.execute(update(RUNS).where(RUNS.c.id == self.id).values(status=status))
        self.status = status


def _series(connection: Connection, run: int, name: str) -> dict[int, Any]:
    query = select(METRICS.c.step, METRICS.c.json).where(METRICS.c.run == run, METRICS.c.name == name)
    latest = {row.step: row.json for row in connection.execute(query.order_by(METRICS.c.id))}
    return {step: json.loads(latest[step]) for step in sorted(latest)}


def _texts(episodes: Sequence[Episode]) -> dict[str, str]:
    """Key -> JSON."""
    texts: dict[str, str] = {}
    for episode in episodes:
        text = to_json(episode)
        if texts.setdefault(episode.key, text) != text:
            raise StoreError(f"two different episodes have the key {episode.key!r}: keys are unique in a run")
    return texts
