"""Mathematical answers checked by what they mean: 1/2, 0.5 and \\frac{2}{4} are the same."""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import not_checked
from arena.agents.tools.checks import FunctionCheck, finding, subject, unread
from arena.agents.tools.forkserver import ForkServer, installed
from arena.agents.tools.sandbox import Limits
from arena.protocols.errors import MissingExtraError
from arena.protocols.programs import Call, Outcome

__all__ = ["math", "stated_expression"]

_LONGEST, _MOST_TEXT = 1000, 100_000
_BOX = re.compile(r"\\f?boxed\s*\{")
_LEAD = re.compile(r"(?:the |my )?(?:final )?answer(?: is)?\s*[:=]?\s+(.+)", re.IGNORECASE)
_AROUND = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_EDGES = " \t\r\n*_"
_SPLIT = re.compile(r"\d\s+\d")
"""Digits that blanks part: ``3 1/2`` may be a sum or a product."""


@functools.cache
def _server() -> ForkServer:
    """One for all checks of this kind: its start takes seconds."""
    return ForkServer("arena.agents.tools.math_grading:compare")


def math(
    *,
    field: str,
    seconds: Annotated[float, Field(gt=0, le=600)] = 5.0,
    memory: Annotated[int, Field(ge=64, le=8192)] = 512,
    of: str = "",
) -> FunctionCheck:
    """Passes an expression, in LaTeX or plain, that is equal to the one in a task field (or to one of its items).

    What is compared is what stands in ``\\boxed{...}``, else behind ``Answer:`` or ``The answer is`` in a line of its
    own, else the text if it is one line; several that differ are not chosen from. Equality is that of the library
    math-verify, which knows numbers, units, intervals, sets, matrices, equations and symbols. It works in a process of
    its own, within limits that hostile expressions cannot exceed.

    Args:
        field: task field that holds what is right.
        seconds: CPU time of a comparison.
        memory: what it may use, in MiB.
        of: which value of the turn is compared; its text if empty.

    Raises:
        MissingExtraError: math-verify is not installed.
    """
    if importlib.util.find_spec("math_verify") is None:
        raise MissingExtraError("check 'math' needs math-verify: pip install 'debate-arena[verifiers]'")
    server, limits = _server(), Limits(seconds, memory)

    def check(call: Call) -> Outcome:
        known = call.task.get(field)
        items = known if isinstance(known, Sequence) and not isinstance(known, str) else (known,)
        right = [stated_expression(_text(item))[0] for item in items]
        if not right or None in right:
            return not_checked(f"the task has no expression '{field}'")
        said, why = stated_expression(_text(subject(call, of)))
        if said is None:
            return unread(why)
        for expression in right:
            ran = server.call({"said": said, "right": expression}, limits)
            if ran.error or ran.value == "said":
                return unread(ran.what if ran.error else "it is no mathematical expression")
            if ran.value == "right":
                return not_checked(f"'{field}' of the task is no expression")
            if ran.value == "same":
                return finding(True)
        return finding(False)

    version = installed("math-verify", "latex2sympy2_extended", "sympy")
    return FunctionCheck("math", check, (field,), slow=True, version=version)


def _text(value: object) -> str:
    return "" if value is None or isinstance(value, bool) else str(value)


def stated_expression(text: str) -> tuple[str | None, str]:
    """The expression that a text gives as its answer, as (expression, "") or (None, why not)."""
    if len(text) > _MOST_TEXT:
        return None, f"it has {len(text):,} characters, and at most {_MOST_TEXT:,} are read"
    found = _boxed(text) or _led(text)
    if not found and len(text.strip().splitlines()) == 1 and not _BOX.search(text):
        found = [text]
    plain = list(dict.fromkeys(filter(None, map(_bare, found))))
    if not plain:
        return None, "it states no answer: write it in \\boxed{...}, or behind 'Answer:' in a line of its own"
    if len(plain) > 1:
        return None, "it states several answers that differ"
    if len(plain[0]) > _LONGEST:
        return None, f"its answer has {len(plain[0]):,} characters, and at most {_LONGEST:,} are read"
    if "$" in plain[0].replace("\\$", "") or _SPLIT.search(plain[0]):
        return None, "its answer is not one expression"
    return plain[0], ""


def _boxed(text: str) -> list[str]:
    """What stands in the boxes; a box inside of a box is part of it, and one that is left open is none."""
    found, end = [], 0
    while box := _BOX.search(text, end):
        depth, end = 1, box.end()
        while end < len(text) and depth:
            if text[end] in "{}" and text[end - 1] != "\\":
                depth += 1 if text[end] == "{" else -1
            end += 1
        if not depth:
            found.append(text[box.end() : end - 1])
    return found


def _led(text: str) -> list[str]:
    matches = (_LEAD.fullmatch(line.strip(_EDGES)) for line in text.splitlines())
    return [match[1] for match in matches if match]


def _bare(text: str) -> str:
    """The expression without full stop, emphasis and dollars around it."""
    text = text.strip(_EDGES)
    text = text[:-1].rstrip(_EDGES) if text.endswith(".") else text
    for before, after in _AROUND:
        if len(text) > len(before + after) and text.startswith(before) and text.endswith(after):
            return text[len(before) : -len(after)].strip()
    return text
