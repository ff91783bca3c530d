"""The scorers of reasoning-gym; runs in the processes of `arena.agents.tools.forkserver` alone.

https://github.com/open-thought/reasoning-gym
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

from reasoning_gym import get_score_answer_fn  # type: ignore[import-untyped]  # it does not declare its annotations

__all__ = ["prepare", "score"]

_RUNS = re.compile(r"\b(?:eval|exec|parse_expr|sympify)\(")
_CALL = re.compile(r"([\w\])}'\"]*)[\s\\]*\(")
_FUNCTIONS = frozenset(
    ("sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log", "ln")
) | {"", "sqrt", "Abs", "abs"}
_CODE = re.compile(r"__|\.\s*[^\W\d]|\b(?:lambda|import|for|yield|await)\b|[#@`:]")


@functools.cache
def _scorer(dataset: str) -> tuple[Callable[..., Any], bool]:
    """The function, and whether it has Python evaluate the answer."""
    function = get_score_answer_fn(dataset)
    return function, _RUNS.search(inspect.getsource(function)) is not None


def prepare(dataset: str, entry: dict[str, Any], answer: str) -> None:
    """Load what is needed, before the server forks."""
    _scorer(dataset)


def score(dataset: str, entry: dict[str, Any], answer: str) -> float | str:
    """The scorer's number from 0 to 1, or why the answer is not given to it."""
    function, evaluates = _scorer(dataset)
    if evaluates and not _harmless(answer):
        return "it holds what would be run as a program"
    return float(function(answer, entry))


def _harmless(answer: str) -> bool:
    """Whether Python, evaluating it, calls nothing but functions of mathematics."""
    return not _CODE.search(answer) and all(call[1] in _FUNCTIONS for call in _CALL.finditer(answer))
