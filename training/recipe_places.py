"""Where in a recipe an argument stands that a spec's check has refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from arena.protocols.documents import KeyPath

__all__ = ["argument_place"]

_NAMED = re.compile(
    r"'(?P<name>[^']+)' (?P<unknown>is not an argument of|of [a-z -]+ '[^']*'(?:, number (?P<number>\d+))?)"
)


def argument_place(path: KeyPath, given: Any, error: object) -> tuple[KeyPath, bool]:
    """The place of the argument that a message is about, and whether its key is at fault and not its value.

    Args:
        path: of the arguments.
        given: the arguments; where they are no mapping, as in a spec of one line, their own place is all there is.
        error: what `Registry.check` raised; its message begins with the argument's name.
    """
    found = _NAMED.match(str(error))
    if found is None or not isinstance(given, Mapping) or found["name"] not in given:
        return path, False
    place: KeyPath = (*path, found["name"])
    value, number = given[found["name"]], found["number"]
    if number is not None and isinstance(value, Sequence) and int(number) <= len(value):
        place = (*place, int(number) - 1)
    return place, found["unknown"].startswith("is not")
