"""Sums of numbers that are written digit by digit, for models with a vocabulary of words."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import failed
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Outcome

__all__ = ["OPERATIONS", "column", "spelled"]

OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"+": operator.add, "-": operator.sub, "*": operator.mul}
"""What can be reckoned: sign -> function."""


def spelled(number: int, digits: int) -> str:
    """The last ``digits`` digits of a number that is not negative, as words: ``7`` -> ``0 0 7``."""
    return " ".join(str(number % 10**digits).zfill(digits))


def column(*, digits: int = 3, modulus: int | None = None, name: str = "column") -> FunctionTool:
    """Reads ``1 2 3 + 4 5 6`` and writes ``5 7 9``.

    Args:
        digits: of each of the two numbers, and of the result.
        modulus: results are taken modulo this; 10 ** digits if absent. ``0 0 1 - 0 0 2`` is modulus - 1.
        name: what speakers call it.

    Returns:
        The tool. What is not of that form is a failed call, of which readers are told ``? ? ?``.

    Raises:
        ConfigError: digits are not 1 to 18, or the modulus is not 1 to 10 ** digits.
    """
    if not 1 <= digits <= 18:
        raise ConfigError(f"digits={digits} of tool '{name}' must be from 1 to 18")
    modulus = 10**digits if modulus is None else modulus
    if not 1 <= modulus <= 10**digits:
        raise ConfigError(
            f"modulus={modulus} of tool '{name}' must be from 1 to {10**digits}, which {digits} digits hold"
        )
    number = " ".join(["([0-9])"] * digits)
    form = re.compile(f"{number} ([-+*]) {number}", re.ASCII)
    signs = " ".join("?" * digits)

    def reckon(expression: Annotated[str, Field(description="such as 1 2 3 + 4 5 6")]) -> str | Outcome:
        found = form.fullmatch(" ".join(expression.split()))
        if found is None:
            return failed(
                signs, f"{expression[:60]!r} is not two numbers of {digits} digits with +, - or * between them"
            )
        parts = found.groups()
        left, right = int("".join(parts[:digits])), int("".join(parts[digits + 1 :]))
        return spelled(OPERATIONS[parts[digits]](left, right) % modulus, digits)

    return function_tool(
        reckon, name=name, description=f"Adds, subtracts or multiplies modulo {modulus}, digit by digit."
    )
