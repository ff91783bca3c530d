"""Python for speakers, in a sandbox."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from arena.agents.tools.calls import MAX_TEXT, failed
from arena.agents.tools.functions import FunctionTool, function_tool
from arena.agents.tools.sandbox import SANDBOXES, Limits, Ran, SandboxSpec
from arena.protocols.programs import Call, Outcome

__all__ = ["python"]


def python(
    *,
    sandbox: SandboxSpec = "monty",
    seconds: Annotated[float, Field(gt=0, le=600)] = 2.0,
    memory: Annotated[int, Field(ge=1, le=4096)] = 64,
    output: Annotated[int, Field(ge=1, le=1_000_000)] = MAX_TEXT,
    most: Annotated[int, Field(ge=1, le=1_000_000)] = MAX_TEXT,
) -> FunctionTool:
    """Runs a program and tells what it printed and the value of its last expression.

    Args:
        sandbox: where it runs (`arena.agents.tools.sandbox`).
        seconds: how long it may run.
        memory: how much it may use, in MiB.
        output: how many characters it may print before it is ended.
        most: how many characters are told.
    """
    limits = Limits(seconds, memory, output)
    box = SANDBOXES.build(sandbox)

    def run(
        code: Annotated[str, Field(description="a program; its last expression is told", max_length=100_000)],
        call: Call,
    ) -> Outcome:
        ran = box.run([code], limits, call.seed)
        return _failure(ran, most) if ran.error else Outcome(_result(ran))

    description = f"Runs a Python program ({box.about}) and tells what it printed and its last expression."
    return function_tool(run, name="python", description=description, slow=True, most=most)


def _failure(ran: Ran, most: int) -> Outcome:
    # At most half of what is told, so that the reason is not cut off with the rest.
    before = ran.printed[: most // 2].rstrip("\n")
    return failed(f"{before}\n{ran.what}" if before else ran.what, ran.what)


def _result(ran: Ran) -> str:
    printed = ran.printed.rstrip("\n")
    if ran.value is None:
        return printed or "(nothing was printed)"
    try:
        shown = _show(ran.value)
    except (RecursionError, ValueError):  # nested too deeply, or a number of too many digits
        shown = f"(a {type(ran.value).__name__} that cannot be shown)"
    return f"{printed}\n{shown}" if printed else shown


def _show(value: object) -> str:
    """As ``repr``, but for the order of sets, which differs from process to process."""
    kind = type(value)
    if isinstance(value, set | frozenset) and value:
        items = f"{{{', '.join(sorted(map(_show, value)))}}}"
        return items if kind is set else f"{kind.__name__}({items})"
    if isinstance(value, dict) and kind is dict:
        return f"{{{', '.join(f'{_show(key)}: {_show(item)}' for key, item in value.items())}}}"
    if isinstance(value, list) and kind is list:
        return f"[{', '.join(map(_show, value))}]"
    if isinstance(value, tuple) and kind is tuple:
        return f"({', '.join(map(_show, value))}{',' if len(value) == 1 else ''})"
    return repr(value)
