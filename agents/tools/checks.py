"""Checks of a text or a value against what the task knows. None tells readers what it compares with."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from arena.agents.tools.calls import not_checked
from arena.protocols.errors import ConfigError
from arena.protocols.patterns import compile_pattern, pattern_fault
from arena.protocols.programs import Call, Outcome

__all__ = ["FunctionCheck", "exact", "finding", "numeric", "regex", "subject", "unread"]

_EDGES = " \t\r\n\"'`.,;:!?"
# Linear on hostile texts: runs first, and of each, which is short, whether it is a number.
_RUN = re.compile(r"[-+]?[\w.,]+(?:(?<=[eE])[-+]\d+)?")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d{1,3})?")
_LONGEST = 60


@dataclass(slots=True)
class FunctionCheck:
    """A check by a function of the call."""

    name: str
    function: Callable[[Call], Outcome]
    reads: tuple[str, ...] = ()
    """Task fields that it uses, which the checker's role must see."""
    slow: bool = False
    version: str = ""
    """Of the libraries that decide what passes; part of a judge's name."""

    def check(self, calls: Sequence[Call]) -> list[Outcome]:
        """One outcome a call; see `arena.protocols.programs.Check`."""
        return [self.function(call) for call in calls]


def subject(call: Call, of: str) -> Any:
    """What is checked: the value ``of`` that was read from the turn (None if there is none), or its text."""
    return call.turn.get(of) if of else call.text


def finding(passed: bool, text: str = "", score: float | None = None, **fields: Any) -> Outcome:
    """What a check found."""
    text = text or ("The check passed." if passed else "The check did not pass.")
    return Outcome(text, fields={"passed": passed, "score": float(passed) if score is None else score, **fields})


def unread(why: str) -> Outcome:
    """What was said could not be read, and so it did not pass."""
    return Outcome(f"The check did not pass: {why}.", fields={"passed": False, "score": 0.0}, unread=why)


def exact(*, field: str, of: str = "") -> FunctionCheck:
    """Passes what says the same as a task field (or one of its items), but for case, white space and marks around it.

    Args:
        field: task field that holds what is right.
        of: which value of the turn is compared; its text if empty.
    """

    def check(call: Call) -> Outcome:
        known = call.task.get(field)
        if known is None:
            return not_checked(f"the task has no '{field}'")
        said = subject(call, of)
        right = [known] if isinstance(known, str) or not isinstance(known, Sequence) else known
        return finding(said is not None and _plain(said) in {_plain(item) for item in right})

    return FunctionCheck("exact", check, (field,))


def _plain(value: object) -> str:
    text = unicodedata.normalize("NFKC", str(value)).casefold()
    return " ".join(text.split()).strip(_EDGES)


def numeric(
    *, field: str, tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 1e-6, of: str = ""
) -> FunctionCheck:
    """Passes the number in a task field: |said - right| <= tolerance * max(1, |right|).

    A text must hold one number and no other; which of several is meant is not guessed.

    Args:
        field: task field that holds the number.
        tolerance: largest difference, relative to numbers over 1.
        of: which value of the turn is compared; its text if empty.
    """

    def check(call: Call) -> Outcome:
        right = _number(call.task.get(field))
        if right is None:
            return not_checked(f"the task has no number '{field}'")
        said = _number(subject(call, of))
        if said is None:
            return unread("it needs one number")
        return finding(abs(said - right) <= tolerance * max(1.0, abs(right)))

    return FunctionCheck("numeric", check, (field,))


def _number(value: object) -> float | None:
    if isinstance(value, str):
        numbers = _numbers(value)
        value = numbers[0] if len(numbers) == 1 else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _numbers(text: str) -> list[float]:
    runs = [run.rstrip(".,") for run in _RUN.findall(text)]
    words = [run for run in runs if any(map(str.isdecimal, run)) and len(run) <= _LONGEST]
    return [float(word.replace(",", "")) for word in words if _NUMBER.fullmatch(word)]


def regex(*, pattern: str, of: str = "") -> FunctionCheck:
    """Passes what a regular expression (RE2) matches as a whole.

    Args:
        pattern: the expression.
        of: which value of the turn is matched; its text if empty.

    Raises:
        ConfigError: it is none.
    """
    if fault := pattern_fault(pattern):
        raise ConfigError(f"check 'regex': {fault}")
    compiled = compile_pattern(pattern)

    def check(call: Call) -> Outcome:
        said = subject(call, of)
        # RE2 reads UTF-8, in which halves of surrogate pairs cannot be written.
        text = str(said).encode("utf-8", "replace").decode()
        return finding(said is not None and compiled.fullmatch(text) is not None)

    return FunctionCheck("regex", check)
