"""The tables of a store, and the time by its database."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    cast,
    extract,
    func,
)
from sqlalchemy.dialects import postgresql, sqlite

from arena.protocols.errors import StoreError

__all__ = ["BLOCK", "CLAIMS", "CODE_POINTS", "EPISODES", "METRICS", "RUNS", "TABLES", "WORKERS", "now", "upsert"]

BLOCK = 500
"""Values in one IN (...) list; SQLite's oldest limit is 999."""

TABLES = MetaData()

RUNS = Table(
    "runs",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("kind", String(64), nullable=False),
    Column("config", Text, nullable=False),
    Column("fingerprint", String(64), nullable=False),
    Column("created", String(64), nullable=False),
    Column("status", String(32), nullable=False),
)

EPISODES = Table(
    "episodes",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("run", Integer, ForeignKey("runs.id"), nullable=False),
    Column("key", Text, nullable=False),
    Column("stage", String(128), nullable=False),
    Column("episode", Text, nullable=False),
    Column("created", String(64), nullable=False),
    UniqueConstraint("run", "key"),
    Index("episodes_by_stage", "run", "stage"),
)

METRICS = Table(
    "metrics",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("run", Integer, ForeignKey("runs.id"), nullable=False),
    Column("name", String(128), nullable=False),
    Column("step", Integer, nullable=False),
    Column("json", Text, nullable=False),
    Index("metrics_by_name", "run", "name"),
)

WORKERS = Table(
    "workers",
    TABLES,
    Column("id", Integer, primary_key=True),
    Column("run", Integer, ForeignKey("runs.id"), nullable=False),
    Column("until", Float(53), nullable=False),
)
"""Processes that share a run. One is taken for dead after ``until``, in seconds by the clock of the database."""

CLAIMS = Table(
    "claims",
    TABLES,
    Column("run", Integer, ForeignKey("runs.id"), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("worker", Integer, nullable=False),
)
"""Who plays what. A claim holds as long as its worker lives."""

CODE_POINTS = {"postgresql": "C", "sqlite": "BINARY"}
"""Kind of database -> the collation that sorts as Python does."""

_CLOCKS: dict[str, ColumnElement[Any]] = {
    # The time of the transaction would stand still while it waits for a lock.
    "postgresql": cast(extract("epoch", func.clock_timestamp()), Float(53)),
    "sqlite": (func.julianday("now") - 2440587.5) * 86400.0,
}


def now(connection: Connection) -> ColumnElement[Any]:
    """Seconds since 1970 by the clock of the database, which all that share it agree on.

    Raises:
        StoreError: the database is none that can be shared.
    """
    clock = _CLOCKS.get(connection.dialect.name)
    if clock is None:
        raise StoreError(
            f"processes cannot share a run in a database of kind '{connection.dialect.name}': use PostgreSQL"
        )
    return clock


def upsert(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert that can say what happens where the row exists, for a database that has a clock (`now`)."""
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)
