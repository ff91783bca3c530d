"""How an answer may be spelt in tokens, and how much probability its spellings have together.

``A``, `` A``, ``(A`` and ``A.`` all say A. Spellings are counted as beginnings of what the model would write, so one
that goes on from another of the same answer is counted with it (``A.`` as the tokens ``A`` and ``.`` begins with
``A``), and where one of another answer goes on from it, that one is taken out: ``1`` has what is left of the texts that
begin with 1 when those that begin with ``10`` are gone.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Mapping, Sequence

__all__ = ["Forms", "Ids", "letter_spellings", "log_sum", "spread", "word_spellings"]

Ids = tuple[int, ...]
"""Token ids."""


def letter_spellings(letter: str, *, any_case: bool = False) -> tuple[str, ...]:
    """Ways to write a letter as an answer; in lower case too with ``any_case`` (``a`` is also a word)."""
    cases = (letter, letter.lower()) if any_case else (letter,)
    return tuple(f"{space}{text}" for case in cases for text in _bracketed(case) for space in ("", " "))


def _bracketed(letter: str) -> tuple[str, ...]:
    return (letter, f"{letter})", f"{letter}.", f"({letter}")


def word_spellings(text: str) -> tuple[str, ...]:
    """Ways to write a word or a number: with and without a blank before it."""
    return (text, f" {text}")


class Forms:
    """Spellings of several answers, as token ids.

    Args:
        spelt: token ids -> the answer that they spell.
    """

    __slots__ = ("_counted", "_taken", "ids", "owners")

    def __init__(self, spelt: Mapping[Ids, int]) -> None:
        kept = {ids: owner for ids, owner in spelt.items() if not _begun(ids, owner, spelt)}
        self.ids: tuple[Ids, ...] = tuple(kept)
        """What is read after the prompt."""
        self.owners: tuple[int, ...] = tuple(kept.values())
        """The answer of each of them."""
        self._counted: dict[int, list[int]] = {}
        self._taken: dict[int, list[int]] = {}
        for place, (ids, owner) in enumerate(kept.items()):
            self._counted.setdefault(owner, []).append(place)
            nearest = max((one for one in kept if _begins(one, ids)), key=len, default=None)
            if nearest is not None:
                self._taken.setdefault(kept[nearest], []).append(place)

    @property
    def longest(self) -> int:
        """Tokens of the longest spelling."""
        return max(map(len, self.ids))

    def log_shares(self, logps: Sequence[float]) -> dict[int, float]:
        """Answer -> log of the probability that its spellings have together, in nats; -inf if they have none.

        Args:
            logps: log-prob of each of ``ids`` after the prompt.
        """
        return {owner: self._share(owner, places, logps) for owner, places in self._counted.items()}

    def _share(self, owner: int, places: list[int], logps: Sequence[float]) -> float:
        whole = log_sum([logps[place] for place in places])
        if owner not in self._taken:
            return whole
        away = log_sum([logps[place] for place in self._taken[owner]])
        return whole + math.log1p(-math.exp(away - whole)) if away < whole else -math.inf


@functools.lru_cache(maxsize=1 << 16)
def spread(forms: tuple[tuple[Ids, int], ...]) -> Forms:
    """`Forms` of (ids, answer) pairs; the same ones come again and again."""
    return Forms(dict(forms))


def log_sum(logps: Collection[float]) -> float:
    """``log(sum(exp(logps)))``; NaN if one is, -inf for none."""
    if len(logps) == 1:
        return next(iter(logps))
    top = max(logps, default=-math.inf)
    if not math.isfinite(top):
        return math.nan if any(map(math.isnan, logps)) else top
    return top + math.log(sum([math.exp(logp - top) for logp in logps]))


def _begins(one: Ids, other: Ids) -> bool:
    return len(one) < len(other) and other[: len(one)] == one


def _begun(ids: Ids, owner: int, spelt: Mapping[Ids, int]) -> bool:
    """Whether the nearest spelling that this one goes on from is of the same answer."""
    nearest = max((one for one in spelt if _begins(one, ids)), key=len, default=None)
    return nearest is not None and spelt[nearest] == owner
