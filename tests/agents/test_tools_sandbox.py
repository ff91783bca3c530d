"""The sandbox: what programs may do, and that hostile ones end as failed calls while others go on."""

from __future__ import annotations

import threading

import pytest
from pydantic_monty import Monty

from arena.agents.tools import run_call, sandbox, tools_of
from arena.agents.tools.sandbox import Limits, run_program
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus

SHORT = Limits(seconds=0.3, memory=32, output=1000)


def python(code: str, seed: int = 0) -> Outcome:
    return run_call(
        tools_of(["python:seconds=0.3,memory=32,output=1000"]), "python", Call("", {"code": code}, seed=seed)
    )


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 2", "3"),
        ("print('a')\nprint('b')", "a\nb"),
        ("print('a')\n[x * x for x in range(3)]", "a\n[0, 1, 4]"),
        ("x = 1", "(nothing was printed)"),
        ("'é'", "'é'"),
        ("x = []\nfor i in range(100000):\n    x = [x]\nx", None),
        ("10 ** 5000", None),
    ],
)
def test_python_tells_what_was_printed_and_the_last_value(code: str, text: str | None) -> None:
    outcome = python(code)
    assert outcome.status is TurnStatus.OK
    assert text is None or outcome.text == text


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("while True:\n    pass", "TimeoutError: it ran longer than 0.3 seconds"),
        (
            "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
            "TimeoutError: it ran longer than 0.3 seconds",
        ),
        ("x = [0]\nwhile True:\n    x = x + x", "MemoryError: it used more than 32 MiB"),
        ("'a' * 10 ** 12", "MemoryError: it used more than 32 MiB"),
        ("10 ** 10 ** 10", "MemoryError: it used more than 32 MiB"),
        ("while True:\n    print('x' * 100)", "OutputError: it printed more than 1000 characters"),
        ("def f():\n    return f()\nf()", "RecursionError"),
        ("open('/etc/passwd').read()", "PermissionError"),
        ("open('/tmp/x', 'w').write('x')", "PermissionError"),
        ("import socket", "ModuleNotFoundError"),
        ("import subprocess", "ModuleNotFoundError"),
        ("import signal", "ModuleNotFoundError"),
        ("import os\nos.system('true')", "AttributeError"),
        ("import os\nos.fork()", "AttributeError"),
        ("import os\nos.environ", "RuntimeError"),
        ("import os\nos.listdir('/')", "PermissionError"),
        ("import sys\nsys.exit(0)", "AttributeError"),
        ("exit()", "NameError"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
        ("(" * 5000, "SyntaxError"),
        ("x = (", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError (line 1): division by zero"),
    ],
)
def test_a_hostile_program_is_a_failed_call_and_the_next_one_runs(code: str, error: str) -> None:
    outcome = python(code)
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert error in str(outcome.error)
    assert len(outcome.text) <= 4000
    assert python("1 + 1").text == "2"


def test_system_exit_leaves_the_run_alone() -> None:
    assert python("raise SystemExit(3)").status is TurnStatus.TOOL_ERROR
    assert python("1 + 1").text == "2"


def test_what_was_printed_before_a_failure_is_told() -> None:
    assert python("print('so far')\n1 / 0").text == "so far\nZeroDivisionError (line 2): division by zero"


def test_programs_know_nothing_of_each_other() -> None:
    assert python("leak = 1").status is TurnStatus.OK
    assert "NameError" in python("leak").text


def test_clock_and_chance_are_those_of_the_call() -> None:
    code = "import time, random\n(time.time(), random.random())"
    assert python(code, seed=5).text == python(code, seed=5).text
    assert python(code, seed=5).text != python(code, seed=6).text
    assert run_program(["import time\ntime.time()"]).value == 946684800.0  # 2000-01-01, UTC


def test_a_worker_that_is_killed_is_a_failed_call_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with Monty(request_timeout=0.2) as pool:
        monkeypatch.setattr(sandbox, "_pool", lambda: pool)
        ran = run_program(["while True: pass"], Limits(seconds=60))
        assert ran.what == "TimeoutError: it ran too long and was ended"
        assert run_program(["1 + 1"]).value == 2


def test_sleep_takes_no_time() -> None:
    assert python("import time\ntime.sleep(1000)\n1").text == "1"


def test_the_parts_of_a_program_share_what_they_define() -> None:
    ran = run_program(["def f(x):\n    return x + 1", "print('in')", "f(2)"], SHORT)
    assert (ran.value, ran.printed, ran.error) == (3, "in\n", "")
    assert run_program(["1 / 0", "2"], SHORT).error == "ZeroDivisionError"


def test_programs_run_side_by_side() -> None:
    found: dict[int, object] = {}

    def run(number: int) -> None:
        found[number] = run_program([f"sum(range({number}))"], SHORT).value

    threads = [threading.Thread(target=run, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: sum(range(number)) for number in range(16)}
