"""Writing files so that a full disk or a missing right is told in one sentence."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from arena.protocols.errors import StoreError

__all__ = ["writing"]


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Around what writes ``path``, where libraries hide an `OSError` behind exceptions of their own.

    Raises:
        StoreError: it could not be written.
    """
    try:
        yield
    except OSError as error:
        raise StoreError(_told(path, error.strerror or str(error))) from error
    except Exception as error:
        # torch says "unexpected pos" where its writer came to the end of the disk; safetensors quotes the system.
        if not isinstance(error, RuntimeError) and not type(error).__module__.startswith("safetensors"):
            raise
        raise StoreError(_told(path, str(error))) from error


def _told(path: str | os.PathLike[str], why: str) -> str:
    return f"{os.fspath(path)} cannot be written ({why.strip()}): look for space and rights, then go on by --resume"
