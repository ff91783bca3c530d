"""Arithmetic for speakers, by the expressions of protocol files: they are bounded and call nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import failed
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.protocols.errors import ConfigError
from arena.protocols.expressions import Expression
from arena.protocols.programs import Outcome

__all__ = ["calculator"]


def calculator() -> FunctionTool:
    """Works out an expression, such as ``(3 + 4) * 2 ** 5`` or ``sqrt(2) / 3``."""
    return function_tool(_calculate, name="calculator", description="Works out an arithmetic expression.")


def _calculate(expression: Annotated[str, Field(description="such as (3 + 4) * 2 ** 5")]) -> str | Outcome:
    try:
        compiled = Expression(expression)
        if compiled.names:
            return failed(f"{min(compiled.names)!r} is not a number: the calculator knows no names.")
        value = compiled.trial({})
    except ConfigError as error:
        return failed(str(error))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return failed(f"{expression[:60]!r} is not a number.")
    return str(value) if isinstance(value, int) else f"{value:.12g}"
