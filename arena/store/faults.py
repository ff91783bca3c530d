"""What goes wrong with a database or a disk, in one sentence."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from arena.protocols.errors import StoreError

__all__ = ["plain_errors", "without_password"]

_FULL = "the disk is full: free some space and start it again (with --resume); what was stored is safe"
_READ_ONLY = "it cannot be written: check its owner and rights, or use another directory"
_GONE = (
    "the database server was stopped or cannot be reached: see to it and start this again (with --resume); "
    "what was stored is safe"
)

_ADVICE = {
    # SQLite
    "disk is full": _FULL,
    "disk I/O error": (
        "the disk takes no more, for a quota or a limit on files, or it failed: make room and start it again "
        "(with --resume); what was stored is safe"
    ),
    "not a database": "the database file is damaged or something else: restore a copy, or use another directory",
    "malformed": "the database file is damaged: restore a copy, or use another directory",
    "readonly": _READ_ONLY,
    "unable to open": "the database file cannot be opened: check the path and its rights",
    "locked": "another process is writing it: wait for it, or use another directory",
    "no such table": "the database was made by something else: use another directory",
    "no such column": "the database was made by another version: use another directory",
    # PostgreSQL
    "No space left": _FULL,
    "could not extend file": _FULL,
    "read-only transaction": "the database takes no writes: use one that does, or allow them",
    "permission denied": (
        "its user may not do this there: ask for the rights to create tables and to read, insert and update, or use "
        "another database"
    ),
    "password authentication failed": "user or password are wrong",
    "does not exist": "there is no such database, user or table: make it, or check the URL",
    "administrator command": _GONE,
    "server closed the connection": _GONE,
    "connection to server": _GONE,
    "connection is bad": _GONE,
    "connection is lost": _GONE,
    "connection is closed": _GONE,
}
"""What the message of a driver has in it -> what is told; the first that fits."""


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    with contextlib.suppress(ArgumentError):
        return make_url(url).render_as_string(hide_password=True)
    return url


@contextlib.contextmanager
def plain_errors(where: str) -> Iterator[None]:
    """Turn failures of the database and of the file system into one sentence.

    Args:
        where: the store as the user called it.

    Raises:
        StoreError: that sentence.
        IntegrityError: a row breaks a rule of its table; for those who expect it.
    """
    try:
        yield
    except (StoreError, IntegrityError):
        raise
    except (ArgumentError, NoSuchModuleError, ModuleNotFoundError) as error:
        raise StoreError(f"{where} is not a store: give a directory or an SQLAlchemy URL ({error})") from error
    except DBAPIError as error:
        cause = str(error.orig)
        advice = next((text for sign, text in _ADVICE.items() if sign in cause), None)
        raise StoreError(f"{where}: {advice or ' '.join(cause.split())}") from error
    except OSError as error:
        raise StoreError(f"{where}: {error.strerror or error}: choose another directory by --out") from error
