"""Random streams that depend on names alone, never on the order in which things happen."""

from __future__ import annotations

from hashlib import blake2b

__all__ = ["Seeds", "derive_seed"]


class Seeds:
    """Derives 64-bit seeds from a root seed and a path of names.

    The seed of (run, episode, node, visit) is the same whatever else runs, in whatever order, at whatever concurrency.
    """

    def __init__(self, root: int) -> None:
        self._base = blake2b(str(root).encode(), digest_size=8)

    def __call__(self, *path: object) -> int:
        """A seed in 0..2**64-1 for ``path``; parts are told apart by a separator that no name may hold."""
        return self.of("\0".join(map(str, path)))

    def of(self, joined: str) -> int:
        """The same for a path whose parts are joined by ``\\0`` already."""
        stream = self._base.copy()
        stream.update(joined.encode("utf-8", "surrogatepass"))
        return int.from_bytes(stream.digest(), "little")


def derive_seed(root: int, *path: object) -> int:
    """One seed; see `Seeds`."""
    return Seeds(root)(*path)
