"""Arguments that a file or a command line gives to a Python function, checked against its annotations.

Whoever writes a factory for a registry says by its annotations what it takes; a text in place of a number is then a
mistake of the file, told with its name, and not a fault somewhere inside. ``Annotated[int, Field(ge=1)]`` bounds a
number. What an annotation cannot tell (``Any``, a class imported for type checking alone) is passed on as it is.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["fit_arguments"]

_WANTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "sequence_type": "a list",
    "is_instance_of": "a list",
    "tuple_type": "a list",
    "missing": "a longer list",
    "too_short": "a longer list",
    "too_long": "a shorter list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "none_required": "nothing",
}


def fit_arguments(function: Callable[..., Any], given: Mapping[str, Any], what: str) -> dict[str, Any]:
    """``given`` as ``function`` wants it: checked, and lists as tuples where it takes tuples.

    A number passes for a text, since nobody quotes ``text=5`` on a command line, and nothing passes for an empty one
    (``text=``). Nothing else is converted. No number is infinite or NaN.

    Args:
        function: takes the arguments by name; names that it does not have are passed on.
        given: values as YAML has them.
        what: whose arguments they are, for messages: ``agent 'fixed'``.

    Raises:
        ConfigError: a value of another type, or out of bounds.
    """
    from pydantic import ValidationError

    fitted = dict(given)
    for name, value in given.items():
        if _endless(value):
            raise ConfigError(f"'{name}' of {what} must be {_WANTED['finite_number']}, not {_shown(value)}")
        adapter, plain_text = _adapter(function, name)
        if adapter is None:
            continue
        if plain_text and not isinstance(value, bool) and isinstance(value, int | float | None):
            fitted[name] = "" if value is None else str(value)
            continue
        try:
            fitted[name] = adapter.validate_python(value, strict=_strict(value))
        except ValidationError as error:
            raise ConfigError(f"'{name}' of {what} must be {_wanted(error)}, not {_shown(value)}") from None
    return fitted


def _endless(value: Any) -> bool:
    """Whether a number is infinite or NaN, or one inside of a list or mapping is."""
    if isinstance(value, Mapping):
        return any(map(_endless, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_endless, value))
    return isinstance(value, float) and not math.isfinite(value)


def _shown(value: Any) -> str:
    return repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."


def _strict(value: Any) -> bool:
    # Strictly, a list is no tuple and a tuple no list; everything else is to be what it is called.
    return not isinstance(value, list | tuple)


def _wanted(error: Any) -> str:
    options = []
    for each in error.errors(include_url=False):
        text = _WANTED.get(each["type"])
        options.append(text or each["msg"].removeprefix("Input should be "))
    return " or ".join(dict.fromkeys(options))


@lru_cache(maxsize=1024)
def _adapter(function: Callable[..., Any], name: str) -> tuple[TypeAdapter[Any] | None, bool]:
    """What checks the values of a parameter, if its annotation tells, and whether it is nothing but a text."""
    from pydantic import PydanticUserError, TypeAdapter

    parameter = inspect.signature(function).parameters.get(name)
    if parameter is None or parameter.annotation is inspect.Parameter.empty:
        return None, False
    kind = parameter.annotation
    try:
        if isinstance(kind, str):
            # The programmer's own source text, evaluated as typing.get_type_hints does, but one by one.
            kind = eval(kind, dict(vars(sys.modules[function.__module__])))
        adapter = TypeAdapter(kind)
        adapter.rebuild(raise_errors=True)
    except (NameError, AttributeError, KeyError, TypeError, PydanticUserError):
        return None, False
    return adapter, kind is str
