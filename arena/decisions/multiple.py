"""Corrections of p-values where several hypotheses are tested at once."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.protocols.errors import ConfigError

__all__ = ["METHODS", "Method", "adjusted"]

Method = Literal["holm", "bh"]
METHODS: tuple[Method, ...] = ("holm", "bh")
"""``holm`` bounds the probability of any false finding, ``bh`` the expected share of false ones among the findings."""


def adjusted(p_values: ArrayLike, method: Method = "holm") -> NDArray[np.float64]:
    """P-values that may be compared with one level, however many there are.

    Args:
        p_values: [M], each in [0, 1].
        method: ``holm`` (Holm 1979), valid under any dependence, or ``bh`` (Benjamini and Hochberg 1995), for
            independent or positively dependent tests.

    Returns:
        [M], in the order given.

    Raises:
        ConfigError: an unknown method, or a value that is no probability.
    """
    p_M = np.asarray(p_values, dtype=np.float64).reshape(-1)
    if method not in METHODS:
        raise ConfigError(f"method={method!r} is not known: write {' or '.join(METHODS)}")
    if not ((p_M >= 0) & (p_M <= 1)).all():
        bad = p_M[~((p_M >= 0) & (p_M <= 1))][0]
        raise ConfigError(f"p-value {bad} does not lie in [0, 1]: leave out tests that could not be made")
    count = len(p_M)
    order = np.argsort(p_M, kind="stable")
    rank = np.arange(1, count + 1)
    if method == "holm":
        scaled = np.maximum.accumulate(p_M[order] * (count + 1 - rank))
    else:
        scaled = np.minimum.accumulate((p_M[order] * count / rank)[::-1])[::-1]
    result = np.empty(count)
    result[order] = np.minimum(scaled, 1.0)
    return result
