"""Lists of words written short: brace expansion as in a shell."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from arena.protocols.errors import ConfigError

__all__ = ["expand_words"]

_BRACES = re.compile(r"\{([^{}]*)\}")
_LIMIT = 100_000


def expand_words(text: str | Sequence[str]) -> list[str]:
    """``"claims d{0..2} {ann,bob}+1"`` -> ``["claims", "d0", "d1", "d2", "ann+1", "bob+1"]``.

    Words are separated by white space; ``{a..b}`` counts (both ends included), ``{x,y}`` chooses; several braces in a
    word multiply, the last changing fastest. Repeated words are kept once.

    Raises:
        ConfigError: a brace is not of these forms, or more than 100,000 words would come out.
    """
    words = text.split() if isinstance(text, str) else [word for item in text for word in item.split()]
    found: dict[str, None] = {}
    for word in words:
        parts = _BRACES.split(word)
        choices = [_choices(part, word) if index % 2 else [part] for index, part in enumerate(parts)]
        for combination in itertools.product(*choices):
            found["".join(combination)] = None
            if len(found) > _LIMIT:
                raise ConfigError(f"{word!r} expands to more than {_LIMIT} words")
    return list(found)


def _choices(inside: str, word: str) -> list[str]:
    first, dots, last = inside.partition("..")
    if dots:
        try:
            low, high = int(first), int(last)
        except ValueError:
            raise ConfigError(f"{{{inside}}} in {word!r} is not a range: write {{0..9}}") from None
        if high - low > _LIMIT:
            raise ConfigError(f"{{{inside}}} in {word!r} counts over {_LIMIT}")
        return [str(number) for number in range(low, high + 1)]
    if "," not in inside:
        raise ConfigError(f"{{{inside}}} in {word!r} is neither a range {{0..9}} nor a choice {{a,b}}")
    return inside.split(",")
