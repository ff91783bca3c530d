"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeVar

__all__ = ["write_whole"]

T = TypeVar("T")


def write_whole(path: Path, write: Callable[[TextIO], T]) -> T:
    """Write beside the target and rename, so that what is half written never carries the name of a whole file.

    What exists and is no regular file, such as a pipe or a device, is written into; a link stays a link.

    Args:
        path: the target.
        write: writes to a stream of UTF-8; its result is returned.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            return write(stream)
    unfinished = path.with_name(path.name + ".part")
    try:
        with unfinished.open("w", encoding="utf-8") as stream:
            result = write(stream)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return result
