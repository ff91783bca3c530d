"""Sandboxes: what programs may do, and that hostile ones end as failed calls while others go on."""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic_monty import Monty

from arena.agents.tools import run_call, tools_of
from arena.agents.tools.sandbox import SANDBOXES, Limits, Ran, monty
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Call, Outcome
from arena.protocols.records import TurnStatus

KINDS = ["monty", pytest.param("subprocess", marks=pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX"))]
ENDLESS = 0.5
"""Seconds for programs that must be stopped; others get so many that a busy machine does not stop them."""
PATIENT = 20.0

every_sandbox = pytest.mark.parametrize("sandbox", KINDS)


def python(code: str, sandbox: str = "monty", seconds: float = PATIENT, seed: int = 0) -> Outcome:
    spec = f"python:sandbox={sandbox},seconds={seconds},memory=32,output=1000"
    return run_call(tools_of([spec]), "python", Call("", {"code": code}, seed=seed))


def run(*parts: str, sandbox: str = "monty", seed: int = 0) -> Ran:
    return SANDBOXES.build(sandbox).run(parts, Limits(PATIENT, 32, 1000), seed)


def left_behind(folder: Path) -> list[str]:
    """Processes that work in ``folder``, which a program cannot leave."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append(str((process / "cwd").readlink()))
        except OSError:
            continue
    return [place for place in found if place.startswith(str(folder))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where sandboxes of this test make their folders."""
    tmp_path.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@every_sandbox
@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("1 + 2", "3"),
        ("print('a')\nprint('b')", "a\nb"),
        ("print('a')\n[x * x for x in range(3)]", "a\n[0, 1, 4]"),
        ("x = 1", "(nothing was printed)"),
        ("'é'", "'é'"),
        ("{'b', 'a', 'd', 'c'}", "{'a', 'b', 'c', 'd'}"),
        (
            "[(1,), (), {'k': {2, 1}}, frozenset([3]), set(), None]",
            "[(1,), (), {'k': {1, 2}}, frozenset({3}), set(), None]",
        ),
        ("b'x', True, 1.5, -0.0, float('inf')", "(b'x', True, 1.5, -0.0, inf)"),
        ("x = []\nfor i in range(100000):\n    x = [x]\nx", "(a list that cannot be shown)"),
        ("10 ** 5000", "(a int that cannot be shown)"),
    ],
)
def test_python_tells_what_was_printed_and_the_last_value(code: str, text: str, sandbox: str) -> None:
    assert python(code, sandbox) == Outcome(text)


HOSTILE = [
    ("x = [0]\nwhile True:\n    x = x + x", "MemoryError: it used more than 32 MiB"),
    ("'a' * 10 ** 12", "MemoryError: it used more than 32 MiB"),
    ("def f():\n    return f()\nf()", "RecursionError"),
    ("open('/etc/passwd').read()", "PermissionError"),
    ("open('/tmp/x', 'w').write('x')", "PermissionError"),
    ("import os\nos.listdir('/')", "PermissionError"),
    ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ("(" * 5000, "SyntaxError"),
    ("x = (", "SyntaxError"),
    ("1 / 0", "ZeroDivisionError (line 1): division by zero"),
]
MONTY = [
    ("raise SystemExit(3)", "RuntimeError"),
    ("10 ** 10 ** 10", "MemoryError: it used more than 32 MiB"),
    ("import socket", "ModuleNotFoundError"),
    ("import subprocess", "ModuleNotFoundError"),
    ("import signal", "ModuleNotFoundError"),
    ("import os\nos.system('true')", "AttributeError"),
    ("import os\nos.fork()", "AttributeError"),
    ("import os\nos.environ", "RuntimeError"),
    ("import sys\nsys.exit(0)", "AttributeError"),
    ("exit()", "NameError"),
    ("().__class__.__bases__[0].__subclasses__()", "AttributeError"),
]
SUBPROCESS = [
    ("import sys\nsys.exit(0)", "SystemExit"),
    ("import os\nos._exit(0)", "SystemError: it ended without a result"),
    ("import os\nos.closerange(0, 256)", "SystemError: it ended without a result"),
    ("import os\nwhile True: os.fork()", "BlockingIOError"),
    ("import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(9,)).start()", "RuntimeError"),
    ("import socket\nsocket.create_connection(('127.0.0.1', 1))", "PermissionError"),
    ("import socket\nsocket.socket().bind(('', 0))", "PermissionError"),
    ("import subprocess\nsubprocess.run(['true'])", "PermissionError"),
    ("import os\nos.system('true')", "PermissionError"),
    ("import os\nos.execv('/bin/true', ['true'])", "PermissionError"),
    ("import ctypes\nctypes.CDLL(None).getpid", "PermissionError"),
    ("import os\nos.remove('/etc/hostname')", "PermissionError"),
    ("import os\nos.symlink('/etc/passwd', 'link')", "PermissionError"),
    ("import os\nos.chdir('/')", "PermissionError"),
    ("import sqlite3\nsqlite3.connect('/tmp/x.db')", "PermissionError"),
    ("import resource\nresource.setrlimit(resource.RLIMIT_CORE, (1, 1))", "ValueError"),
    ("f = open('big', 'w')\nwhile True:\n    f.write('x' * 10**6)", "OSError"),
    ("files = []\nwhile True:\n    files.append(open('x', 'w'))", "OSError"),
    ("import os\nos.write(2, b'x' * 10**7)", "OutputError: it printed more than 1000 characters"),
    ("raise type('E', (Exception,), {'__str__': lambda self: 1 / 0})", "E"),
    ("input()", "EOFError"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sandbox", "code", "error"),
    [("monty", *case) for case in HOSTILE + MONTY] + [("subprocess", *case) for case in HOSTILE + SUBPROCESS],
)
def test_a_hostile_program_is_a_failed_call_and_the_next_one_runs(sandbox: str, code: str, error: str) -> None:
    outcome = python(code, sandbox)
    assert outcome.status is TurnStatus.TOOL_ERROR
    assert error in str(outcome.error)
    assert len(outcome.text) <= 4000
    assert python("1 + 1", sandbox).text == "2"


@every_sandbox
@pytest.mark.parametrize(
    "code",
    ["while True:\n    pass", "while True:\n    try:\n        while True: pass\n    except BaseException: pass"],
)
def test_an_endless_program_is_stopped(code: str, sandbox: str) -> None:
    assert python(code, sandbox, ENDLESS).error == "TimeoutError: it ran longer than 0.5 seconds"


@every_sandbox
def test_a_flood_is_cut_off(sandbox: str) -> None:
    outcome = python("while True:\n    print('x' * 100)", sandbox, ENDLESS)
    assert outcome.error == "OutputError: it printed more than 1000 characters"
    assert len(outcome.text) < 1100


FORKS = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
DEAF = """
import contextlib, signal
for number in range(1, 65):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
"""
DAEMON = """
import os, signal, sys
told = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(told[1], b"x")
        while True: signal.pause()
    os._exit(0)
os.read(told[0], 1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted and found on Linux")
@pytest.mark.parametrize(
    "code",
    [
        FORKS,
        DEAF + "while True: pass",
        DEAF + FORKS,
        "import os\nos.closerange(0, 256)\nwhile True: pass",
        "import os\nos.fork() or os.setsid()\nwhile True: pass",
    ],
)
def test_nothing_is_left_of_a_program_that_will_not_end(code: str, folder: Path) -> None:
    assert "TimeoutError" in str(python(code, "subprocess", ENDLESS).error)
    assert left_behind(folder) == []
    assert list(folder.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are found on Linux")
def test_daemons_end_with_the_program_that_made_them(folder: Path) -> None:
    assert python(f"{DAEMON}\n7", "subprocess") == Outcome("7")
    assert left_behind(folder) == []


def test_signals_of_a_program_reach_no_other() -> None:
    for target in ("os.getppid()", "-1", "0"):
        python(f"import os, signal\nos.kill({target}, signal.SIGKILL)", "subprocess")
    assert python("1 + 1", "subprocess").text == "2"


def test_a_program_in_a_process_has_no_environment_and_a_folder_of_its_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert python("import os\ndict(os.environ), os.listdir()", "subprocess").text == "({}, [])"
    assert python("open('own', 'w').write('x')\nopen('own').read()", "subprocess").text == "'x'"
    assert python("import os\nos.path.exists('own')", "subprocess").text == "False"
    assert list(folder.iterdir()) == []


def test_files_that_we_have_open_are_not_open_there(tmp_path: Path) -> None:
    with (tmp_path / "ours").open("w") as ours:
        assert python(f"import os\nos.fstat({ours.fileno() + 100})", "subprocess").error is not None
        code = "import os\n[fd for fd in range(3, 64) if os.path.exists(f'/proc/self/fd/{fd}')]"
        # Standard input's null device, and the channel of results.
        assert len(python(code, "subprocess").text.split(",")) <= 2


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("import decimal, fractions, json\nfractions.Fraction(1, 3)", "Fraction(1, 3)"),
        ("import asyncio\nasync def main():\n    return 7\nasyncio.run(main())", "7"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\nA(1)", "A(x=1)"),
        ("import multiprocessing as m\nwith m.Pool(2) as p:\n    r = p.map(abs, [-1, 2])\nr", "[1, 2]"),
        ("import sqlite3\nsqlite3.connect(':memory:').execute('select 1').fetchall()", "[(1,)]"),
        ("class A:\n    def __repr__(self): return 1 / 0\nA()", "(a A that cannot be shown)"),
    ],
)
def test_all_of_the_standard_library_is_there(code: str, text: str) -> None:
    spec = {"kind": "python", "sandbox": "subprocess", "seconds": PATIENT, "memory": 256}
    assert run_call(tools_of([spec]), "python", Call("", {"code": code})).text == text


def test_installed_packages_are_there_if_asked_for() -> None:
    code = "import pydantic\npydantic.__name__"
    assert "ModuleNotFoundError" in python(code, "subprocess").text
    spec = {"kind": "python", "sandbox": {"kind": "subprocess", "packages": True}, "seconds": PATIENT, "memory": 512}
    assert run_call(tools_of([spec]), "python", Call("", {"code": code})).text == "'pydantic'"


@every_sandbox
def test_what_was_printed_before_a_failure_is_told(sandbox: str) -> None:
    assert python("print('so far')\n1 / 0", sandbox).text == "so far\nZeroDivisionError (line 2): division by zero"


@every_sandbox
def test_programs_know_nothing_of_each_other(sandbox: str) -> None:
    assert python("leak = 1", sandbox).status is TurnStatus.OK
    assert "NameError" in python("leak", sandbox).text


@every_sandbox
def test_chance_is_that_of_the_call(sandbox: str) -> None:
    code = "import random\nrandom.random()"
    assert python(code, sandbox, seed=5).text == python(code, sandbox, seed=5).text
    assert python(code, sandbox, seed=5).text != python(code, sandbox, seed=6).text


def test_the_embedded_clock_stands_still() -> None:
    assert run("import time\ntime.time()").value == 946684800.0  # 2000-01-01, UTC
    assert python("import time\ntime.sleep(1000)\n1").text == "1"


def test_a_worker_that_is_killed_is_a_failed_call_and_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    with Monty(request_timeout=0.2) as pool:
        monkeypatch.setattr(monty, "_pool", lambda: pool)
        ran = monty.MontySandbox().run(["while True: pass"], Limits(seconds=60))
        assert ran.what == "TimeoutError: it ran too long and was ended"
        assert run("1 + 1").value == 2


@every_sandbox
def test_the_parts_of_a_program_share_what_they_define(sandbox: str) -> None:
    ran = run("def f(x):\n    return x + 1", "print('in')", "f(2)", sandbox=sandbox)
    assert (ran.value, ran.printed, ran.error) == (3, "in\n", "")
    assert run("1 / 0", "2", sandbox=sandbox).error == "ZeroDivisionError"


@every_sandbox
def test_programs_run_side_by_side(sandbox: str) -> None:
    found: dict[int, object] = {}

    def work(number: int) -> None:
        found[number] = run(f"sum(range({number}))", sandbox=sandbox).value

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: sum(range(number)) for number in range(6)}


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ("python:sandbox=subproces", "Did you mean 'subprocess'"),
        ({"kind": "python", "sandbox": {"kind": "subprocess", "package": True}}, "Did you mean 'packages'"),
        ({"kind": "python", "sandbox": {"kind": "subprocess", "processes": 0}}, "greater than or equal to 1"),
    ],
)
def test_a_mistake_in_the_name_of_a_sandbox_is_told_before_anything_runs(
    spec: str | dict[str, object], why: str, check_tool: Callable[[object], None]
) -> None:
    with pytest.raises(ConfigError, match=rf"'sandbox' of tool 'python' must be a sandbox \(.*{why}"):
        check_tool(spec)


@pytest.fixture
def check_tool() -> Callable[[object], None]:
    from arena.agents.tools import TOOLS

    return TOOLS.check  # type: ignore[return-value]
