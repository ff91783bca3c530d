"""Half precision stops at the door: objectives add up in float32 or better, whatever the type of their inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor

__all__ = ["wide", "widened"]

P = ParamSpec("P")
R = TypeVar("R")


def wide(x: Tensor) -> Tensor:
    """float32 for bfloat16 and float16, whose 8 or 11 bits hold no sum of many tokens; any other type as it is."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def widened(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: all tensors among the arguments go through `wide`; gradients come back in the type of the input."""

    @functools.wraps(function)
    def with_wide_arguments(*args: P.args, **kwargs: P.kwargs) -> R:
        given = [wide(x) if isinstance(x, Tensor) else x for x in args]
        named = {name: wide(x) if isinstance(x, Tensor) else x for name, x in kwargs.items()}
        return function(*given, **named)  # type: ignore[arg-type]

    return with_wide_arguments
