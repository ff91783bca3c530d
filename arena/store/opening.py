"""Opening a database: a directory's own, or another by URL."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError

from arena.protocols.errors import StoreError
from arena.store.tables import TABLES

__all__ = ["DATABASE", "check_place", "create_tables", "is_url", "open_directory", "open_url"]

DATABASE = "run.sqlite"
"""Name of the database file in a run directory."""

_TRIES = 40
_MOST_NAMED = 12
"""Folders that a message lists."""


def is_url(where: str | Path) -> bool:
    """Whether a store is named by an SQLAlchemy URL. A URL is a string: a `Path` made of it would lose a slash."""
    return isinstance(where, str) and "://" in where


def check_place(where: str | Path) -> None:
    """Whether a store can be there.

    Raises:
        StoreError: it is a URL that has gone through a `Path`.
    """
    if not is_url(where) and re.match(r"[a-z][a-z0-9+]+:/", str(where)):
        raise StoreError(f"'{where}' is neither a directory nor a URL: a URL has '://', and is a string, not a Path")


def open_url(url: str) -> Engine:
    """A database server, or a database file that is named by URL.

    Connections that died while nobody used them, as when the server was started anew, are replaced.
    """
    engine = create_engine(url, pool_pre_ping=make_url(url).get_backend_name() != "sqlite")
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare)
    return engine


def open_directory(directory: Path, create: bool) -> Engine:
    """The database of a run directory.

    Args:
        directory: made if it is missing and ``create``.
        create: whether it will be written.

    Raises:
        StoreError: there is no database and ``create`` is False, or it cannot be written and ``create`` is True.
    """
    path = directory / DATABASE
    if not path.is_file():
        if not create:
            raise StoreError(_no_run(directory))
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


def _no_run(directory: Path) -> str:
    """What to do where a run was looked for in vain: a study, or a demo, has its runs in folders of their own."""
    inside = sorted((path.parent.name for path in directory.glob(f"*/{DATABASE}")), key=lambda name: (len(name), name))
    if not inside:
        return f"{directory} holds no run: there is no {DATABASE} in it"
    shown = ", ".join(inside[:_MOST_NAMED]) + (", ..." if len(inside) > _MOST_NAMED else "")
    return (
        f"{directory} holds no run itself, but {len(inside)} in folders of their own (a study, a demo, or several "
        f"seeds): give one of these, such as {directory / inside[0]} (there are {shown})"
    )


def create_tables(engine: Engine) -> None:
    """Make the tables that are missing, also while another process does the same.

    No database waits where two processes look for a table and then make it, nor SQLite where they turn on write-ahead
    mode.
    """
    for patience in range(_TRIES, 0, -1):
        try:
            TABLES.create_all(engine)
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
