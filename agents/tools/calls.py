"""Running programs so that no fault of theirs, or of who calls them, ends an episode."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from arena.protocols.errors import ConfigError, UserError, suggest
from arena.protocols.programs import TOOLS, Call, Check, Outcome, Tool
from arena.protocols.records import TurnStatus
from arena.protocols.registry import Spec

__all__ = ["MAX_TEXT", "check_reads", "explain", "failed", "not_checked", "run_call", "run_check", "tools_of"]

MAX_TEXT = 4000
"""Most characters of what a tool says, if it does not have a bound of its own in ``most``; the rest is cut off."""
_CUT = " ... (cut)"


def failed(text: str, error: str | None = None, fields: Mapping[str, Any] | None = None) -> Outcome:
    """A call that came to nothing: ``text`` tells the speaker why, ``error`` the record (the text, if absent)."""
    return Outcome(text, TurnStatus.TOOL_ERROR, fields or {}, text if error is None else error)


def not_checked(error: str) -> Outcome:
    """A check that could not be made, whatever was said: ``error`` tells the record why, and the speaker nothing."""
    return failed("The check could not be made.", error)


def run_call(tools: Mapping[str, Tool], name: object, call: Call) -> Outcome:
    """Run one call of a toolbox.

    Args:
        tools: by name, as `tools_of` makes them.
        name: which tool the speaker calls; no text if its turn holds no call that can be read.
        call: what the tool is given.

    Returns:
        What the tool says, or status ``tool_error`` with a text for the speaker.

    Raises:
        UserError: the tool finds a mistake of the user, such as something that is not installed.
    """
    if not isinstance(name, str):
        return failed(f"No tool was called. There is: {', '.join(tools)}.")
    if name not in tools:
        return failed(f"'{name[:60]}' is not a tool.{suggest(name[:60], tools)}")
    try:
        (outcome,) = tools[name].run([call])
    except UserError:
        raise
    except Exception as error:
        return failed(f"{name} failed: {explain(error)}", _record(error, call))
    most: int = getattr(tools[name], "most", MAX_TEXT)
    if len(outcome.text) > most:
        return replace(outcome, text=outcome.text[: max(0, most - len(_CUT))] + _CUT[-most:])
    return outcome


def run_check(check: Check, call: Call) -> Outcome:
    """Examine one turn.

    Returns:
        The finding; status ``tool_error`` and ``passed`` None if the check itself failed.

    Raises:
        UserError: the check finds a mistake of the user.
    """
    try:
        (outcome,) = check.check([call])
    except UserError:
        raise
    except Exception as error:
        # What the check was looking at may be hidden from readers: they learn no more than that it failed.
        outcome = not_checked(_record(error, call))
    return replace(outcome, fields={"passed": None, "score": None, **outcome.fields})


def explain(error: Exception) -> str:
    """What a speaker is told of an exception: the message of a ValueError or LookupError, else the type alone."""
    if isinstance(error, LookupError | ValueError) and error.args:
        return str(error.args[0])
    return type(error).__name__


def _record(error: Exception, call: Call) -> str:
    where = f" ({call.key})" if call.key else ""
    return f"{type(error).__name__}: {error}{where}"


def tools_of(specs: Iterable[str | Mapping[str, Any] | Spec]) -> dict[str, Tool]:
    """A toolbox: tools by name, in the order of ``specs``.

    Raises:
        UnknownNameError: no such tool.
        ConfigError: a wrong argument, or two tools of one name.
    """
    tools: dict[str, Tool] = {}
    for spec in specs:
        tool = TOOLS.build(spec)
        if tool.name in tools:
            raise ConfigError(f"two tools are called '{tool.name}': give one of them a name of its own ('name=...')")
        tools[tool.name] = tool
    return tools


def check_reads(program: Tool | Check, sees: Collection[str], who: str) -> None:
    """Whether the role of ``program`` sees the task fields that it reads (its ``reads``, if it declares any).

    Raises:
        ConfigError: it does not.
    """
    for field in getattr(program, "reads", ()):
        if field not in sees:
            raise ConfigError(f"'{program.name}' of {who} reads '{field}', which {who} does not see: add it to 'sees'")
