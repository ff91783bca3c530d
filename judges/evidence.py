"""Random parts of a task's evidence: what a judge is trained on, and what distractors are chosen by.

A task's evidence is a list of words (``b3=2``, ``ann+7``). A subset is drawn without replacement; its size is uniform.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from arena.protocols.errors import ConfigError
from arena.protocols.records import Task

__all__ = ["evidence_columns", "multi_hot", "random_subsets"]

IntArray = NDArray[np.int64]


def evidence_columns(tasks: Sequence[Task], items: Sequence[str], field: str = "evidence") -> IntArray:
    """Index of every evidence word in ``items``: shape (tasks, longest evidence), padded with -1.

    Raises:
        ConfigError: a task has no such field, or it holds a word that is not an item.
    """
    column: Mapping[str, int] = {word: index for index, word in enumerate(items)}
    rows: list[list[int]] = []
    for task in tasks:
        words = task.fields.get(field)
        if words is None or isinstance(words, str):
            raise ConfigError(f"task '{task.id}': field '{field}' must be a list of words, not {words!r}")
        try:
            rows.append([column[word] for word in words])
        except KeyError as error:
            raise ConfigError(
                f"task '{task.id}': evidence {error} is not among the judge's {len(column)} items; add it to 'items'"
            ) from None
    found = np.full((len(rows), max(map(len, rows), default=0)), -1, dtype=np.int64)
    for index, row in enumerate(rows):
        found[index, : len(row)] = row
    return found


def random_subsets(
    columns_BK: IntArray,
    size: tuple[int, int],
    rng: np.random.Generator,
    *,
    prefer_I: NDArray[np.bool_] | None = None,
    prefer_share: float = 0.5,
    drop: float = 0.0,
) -> IntArray:
    """Draw a subset of each row, in random order.

    Args:
        columns_BK: item indices, -1 for padding, as `evidence_columns` gives them.
        size: smallest and largest number of items, both included; a row that has fewer gives all of them.
        rng: source of all randomness.
        prefer_I: items that come first in a share of the rows (the others still occur when those run out).
        prefer_share: in how many rows ``prefer_I`` counts.
        drop: probability with which each drawn item is lost again, as an unverified quote would be.

    Returns:
        Shape (B, size[1]): item indices, -1 behind the last.
    """
    rows, width = columns_BK.shape
    low, high = size
    if not 0 <= low <= high:
        raise ConfigError(f"size {size} is not (smallest, largest) with 0 <= smallest <= largest")
    keys_BK = rng.random((rows, width))
    if prefer_I is not None:
        favoured_B1 = rng.random((rows, 1)) < prefer_share
        keys_BK += favoured_B1 & ~prefer_I[columns_BK]
    keys_BK[columns_BK < 0] = np.inf
    order_BK = np.argsort(keys_BK, axis=1)[:, :high]
    drawn_BK = np.take_along_axis(columns_BK, order_BK, axis=1)
    count_B1 = rng.integers(low, high + 1, size=(rows, 1))
    drawn_BK = np.where(np.arange(drawn_BK.shape[1]) < count_B1, drawn_BK, -1)
    if drop:
        drawn_BK = np.where(rng.random(drawn_BK.shape) < drop, -1, drawn_BK)
        drawn_BK = np.take_along_axis(drawn_BK, np.argsort(drawn_BK < 0, axis=1, kind="stable"), axis=1)
    return drawn_BK


def multi_hot(columns_BK: IntArray, width: int) -> NDArray[np.float32]:
    """1 where an item is present: shape (B, width), float32."""
    hot = np.zeros((len(columns_BK), width + 1), dtype=np.float32)
    hot[np.arange(len(columns_BK))[:, None], columns_BK] = 1.0  # padding (-1) lands in the last column
    return np.ascontiguousarray(hot[:, :width])
