"""Programs checked by unit tests, in a sandbox.

A test is a piece of Python that fails if it raises, most often ``assert add(2, 3) == 5``. Where the right side is a
literal value, the left side is worked out in the sandbox and compared outside of it: no ``__eq__`` of the program
decides. Other tests are decided inside, where under ``subprocess`` and ``docker`` a program that knows this module
could feign that it passed: where passing is rewarded, write tests as equations.

What is told of a failure is its type, counted over all tests: neither the test, nor what it expects, nor a message or
name that the program chose (which could carry a test's inputs to the next attempt).
"""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from arena.agents.tools.calls import not_checked
from arena.agents.tools.checks import FunctionCheck, finding, subject
from arena.agents.tools.sandbox import SANDBOXES, Limits, Sandbox, SandboxSpec
from arena.protocols.programs import Call, Outcome

__all__ = ["program_in", "unit_tests"]

_FENCE = "```"
_KNOWN = {
    name for name, value in vars(builtins).items() if isinstance(value, type) and issubclass(value, BaseException)
} | {"OutputError"}
_UNREADABLE = (SyntaxError, TypeError, ValueError, RecursionError, MemoryError)


def unit_tests(
    *,
    field: str = "tests",
    sandbox: SandboxSpec = "monty",
    seconds: Annotated[float, Field(gt=0, le=600)] = 2.0,
    memory: Annotated[int, Field(ge=1, le=4096)] = 64,
    of: str = "",
) -> FunctionCheck:
    """Passes a program that passes all tests; ``score`` is the share that it passes, ``results`` has one word a test.

    The program is the last block between lines of ``` in the turn, or all of it if there is none. Each test is run by
    itself, after the program.

    Args:
        field: task field that lists the tests.
        sandbox: where all is run (`arena.agents.tools.sandbox`).
        seconds: how long the program, and how long a test, may run.
        memory: how much both may use, in MiB.
        of: which value of the turn holds the program; its text if empty.
    """
    limits = Limits(seconds, memory)
    box = SANDBOXES.build(sandbox)

    def check(call: Call) -> Outcome:
        tests = [_read(text) for text in _texts(call.task.get(field))]
        if not tests or None in tests:
            return not_checked(f"'{field}' of the task is no list of Python tests")
        said = subject(call, of)
        if not isinstance(said, str) or not said.strip():
            return finding(False, "There is no program.", 0.0, results=[])
        program = program_in(said)
        alone = _told(box.run([program], limits, call.seed).error)
        if alone:  # what it does before any test, it would do before every test
            return finding(False, f"The program itself fails: {alone}.", 0.0, results=[alone] * len(tests))
        return _counted([_result(box, program, test, limits, call.seed) for test in tests if test])

    return FunctionCheck("unit_tests", check, (field,), slow=True)


def program_in(text: str) -> str:
    """The last block between lines of ```, an open one included; the whole text without any."""
    block: list[str] | None = None
    found: list[str] | None = None
    for line in text.split("\n"):
        if not line.lstrip().startswith(_FENCE):
            if block is not None:
                block.append(line)
        elif block is None:
            found = block = []
        else:
            block = None
    return text if found is None else "\n".join(found)


@dataclass(frozen=True, slots=True)
class _Test:
    source: str
    compared: bool = False
    """``source`` is an expression whose value must be ``expected``."""
    expected: Any = None


def _texts(tests: object) -> list[str]:
    if isinstance(tests, str):
        return [tests]
    return [str(test) for test in tests] if isinstance(tests, Sequence) else []


def _read(source: str) -> _Test | None:
    """A test as it is run; None if it is not Python."""
    try:
        body = ast.parse(source).body
    except _UNREADABLE:
        return None
    match body:
        case [ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right]))]:
            try:
                return _Test(ast.unparse(left), True, ast.literal_eval(right))
            except _UNREADABLE:
                pass  # no literal: the sandbox compares
    return _Test(source)


def _result(box: Sandbox, program: str, test: _Test, limits: Limits, seed: int) -> str:
    """``ok``, or the type of the failure."""
    ran = box.run([program, test.source], limits, seed)
    if ran.error:
        return _told(ran.error)
    return "ok" if not test.compared or _same(ran.value, test.expected) else "AssertionError"


def _same(value: Any, expected: Any) -> bool:
    try:
        return bool(value == expected)
    except RecursionError:  # nested too deeply to be what a test says
        return False


def _told(error: str) -> str:
    return error if not error or error in _KNOWN else "Exception"


def _counted(results: list[str]) -> Outcome:
    passed = results.count("ok")
    text = f"{passed} of {len(results)} tests passed."
    failures = Counter(result for result in results if result != "ok")
    if failures:
        text += " Failed: " + ", ".join(f"{name} ({failures[name]})" for name in sorted(failures)) + "."
    return finding(not failures, text, passed / len(results), results=results)
