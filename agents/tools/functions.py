"""Plain functions as tools: the JSON Schema of their arguments comes from their annotations.

    from arena.agents.tools import tool

    @tool
    def convert(miles: float) -> float:
        '''Miles in kilometres.'''
        return miles * 1.609344

in a file that is loaded with ``arena --plugin FILE`` is all that ``tools: [convert]`` needs.
"""

from __future__ import annotations

import inspect
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from arena.agents.tools.calls import MAX_TEXT, explain, failed
from arena.protocols.errors import ConfigError, UserError
from arena.protocols.programs import TOOLS, Call, Outcome

__all__ = ["FunctionTool", "function_tool", "tool"]

F = TypeVar("F", bound=Callable[..., Any])

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_VALUES = ("const", "default", "enum", "examples")


@dataclass(slots=True)
class FunctionTool:
    """A function that speakers can call; see `function_tool`."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    function: Callable[..., Any]
    arguments: type[BaseModel]
    """Checks what a speaker wrote; its fields have the function's parameters as aliases."""
    wants_call: str = ""
    """Parameter that is given the whole `Call`; empty if there is none."""
    slow: bool = False
    reads: tuple[str, ...] = ()
    """Task fields that it uses."""
    most: int = MAX_TEXT
    """Most characters that are told."""
    seconds: float | None = None
    """How long a call may take; None: as long as it likes."""

    def run(self, calls: Sequence[Call]) -> list[Outcome]:
        """One outcome a call; see `arena.protocols.programs.Tool`."""
        return [self._run(call) for call in calls]

    def _run(self, call: Call) -> Outcome:
        try:
            checked = self.arguments.model_validate(dict(call.arguments))
        except ValidationError as error:
            return failed(f"The arguments of {self.name} are wrong: {_faults(error)}")
        given = {str(info.alias): getattr(checked, key) for key, info in self.arguments.model_fields.items()}
        if self.wants_call:
            given[self.wants_call] = call
        try:
            return _outcome(self._called(given))
        except UserError:
            raise
        except _LateError:
            return failed(f"{self.name} took longer than {self.seconds:g} seconds.")
        except Exception as error:
            return failed(f"{self.name} failed: {explain(error)}", f"{type(error).__name__}: {error}")

    def _called(self, given: Mapping[str, Any]) -> Any:
        if self.seconds is None:
            return self.function(**given)
        result: list[Any] = []
        errors: list[BaseException] = []

        def work() -> None:
            try:
                result.append(self.function(**given))
            except BaseException as error:  # handed on to who waits
                errors.append(error)

        # A thread cannot be ended: one that is late is left alone, and does not keep the process from ending.
        thread = threading.Thread(target=work, name=f"arena-tool-{self.name}", daemon=True)
        thread.start()
        thread.join(self.seconds)
        if errors:
            raise errors[0]
        if not result:
            raise _LateError
        return result[0]


class _LateError(Exception):
    """A call took too long."""


def function_tool(
    function: Callable[..., Any],
    *,
    name: str = "",
    description: str = "",
    slow: bool = False,
    reads: Sequence[str] = (),
    most: int = MAX_TEXT,
    seconds: float | None = None,
) -> FunctionTool:
    """A tool of a function.

    Its parameters need annotations, of which pydantic makes the JSON Schema and by which it checks what a speaker
    writes (``Annotated[int, Field(ge=0, description=...)]``). A parameter annotated `Call` is given the call itself
    and is none of the speaker's. The function returns a text, an `Outcome`, or a value that is told as JSON; the
    message of a ValueError or LookupError is told to the speaker, other exceptions by their type alone.

    Args:
        function: what is called.
        name: what speakers call it; the function's name if empty.
        description: one line for them; the first line of the docstring if empty.
        slow: it waits for something: other episodes go on meanwhile.
        reads: task fields that it uses, which the tool's role must see.
        most: how many characters are told; the rest is cut off.
        seconds: how long a call may take. What is late is a failed call, and left to run on by itself.

    Raises:
        ConfigError: a parameter without annotation or that cannot be given by name, no description, or a bound that
            is not positive.
    """
    name = name or function.__name__
    documented = (inspect.getdoc(function) or "").partition("\n")[0]
    if not (description or documented):
        raise ConfigError(f"tool '{name}' has no description: give its function a docstring")
    if most < 1 or (seconds is not None and seconds <= 0):
        raise ConfigError(f"'most' and 'seconds' of tool '{name}' must be positive")
    taken, wants_call = _parameters(function, name)
    arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **taken)
    schema = _untitled(arguments.model_json_schema())
    told = description or documented
    return FunctionTool(
        name, told, schema, function, arguments, wants_call, slow or seconds is not None, tuple(reads), most, seconds
    )


@overload
def tool(function: F) -> F: ...
@overload
def tool(**options: Any) -> Callable[[F], F]: ...
def tool(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Decorator: the function is a tool that protocols can name; see `function_tool` for the options.

    Raises:
        ConfigError: it cannot be one.
    """

    def add(function: F) -> F:
        made = function_tool(function, **options)
        TOOLS.register(made.name, summary=made.description)(lambda: made)
        return function

    return add if function is None else add(function)


def _parameters(function: Callable[..., Any], name: str) -> tuple[dict[str, Any], str]:
    """What pydantic makes a model of, and the parameter that wants the call."""
    hints = get_type_hints(function, include_extras=True)
    taken: dict[str, Any] = {}
    wants_call = ""
    for key, parameter in inspect.signature(function).parameters.items():
        if parameter.kind not in _NAMED:
            raise ConfigError(f"parameter '{key}' of tool '{name}' cannot be given by name")
        if key not in hints:
            raise ConfigError(f"parameter '{key}' of tool '{name}' has no annotation: write {key}: str, or the like")
        if hints[key] is Call:
            wants_call = key
        else:
            default: Any = ... if parameter.default is inspect.Parameter.empty else parameter.default
            # By alias, so that a parameter may be called what a model's own methods are called, such as `copy`.
            taken[f"argument_{len(taken)}"] = (hints[key], Field(default, alias=key))
    return taken, wants_call


def _untitled(schema: Any) -> Any:
    """A JSON Schema without the titles, which only repeat the names."""
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: value for key, value in schema.items() if not (key == "title" and isinstance(value, str))}
    return {key: value if key in _VALUES else _untitled(value) for key, value in kept.items()}


def _faults(error: ValidationError) -> str:
    faults = []
    for fault in error.errors(include_url=False, include_context=False, include_input=False):
        place = ".".join(map(str, fault["loc"]))
        faults.append(f"'{place[:60]}': {fault['msg']}" if place else fault["msg"])
    return "; ".join(faults[:5])


def _outcome(value: Any) -> Outcome:
    if isinstance(value, Outcome):
        return value
    return Outcome(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
