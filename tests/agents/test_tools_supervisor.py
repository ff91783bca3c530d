"""The other side of a sandbox's process: nothing that it says or does not say harms us."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from arena.agents.tools import run_call, tools_of
from arena.agents.tools.sandbox import SANDBOXES, Limits, Ran, supervisor
from arena.agents.tools.sandbox.supervisor import SOURCE, Job, supervise
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.programs import Call

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
JOB = Job(["1"], 0, 1.0, 64, 16, packages=False, own_user=True, namespaces=False)

PATIENT = Limits(20.0, 64, 1000)


def hear(program: str, limits: Limits = PATIENT) -> Ran:
    """What is made of an interpreter that runs ``program`` in place of the warden."""
    return supervise([sys.executable, "-c", f"import sys\nsay = sys.stderr.write\n{program}"], JOB, limits)


READY = "say('[\"ready\"]\\n')\n"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ('["value"]', "SystemError: it ended without a result"),
        ('["value", ["what", 1]]', "ValueError: its value cannot be read"),
        ('["value", ["set", [["list", []]]]]', "ValueError: its value cannot be read"),
        ('["value", ["bytes", "xx"]]', "ValueError: its value cannot be read"),
        ('["value", ' + '["list", [' * 3000 + "]]" * 3000 + "]", "its value cannot be read"),
        ('["error", 1, 2, 3]', "SystemError: it ended without a result"),
        ("[" * 100_000, "SystemError: it ended without a result"),
        ('["value", ' + "9" * 5000 + "]", "SystemError: it ended without a result"),
        ('{"value": 1}', "SystemError: it ended without a result"),
        ('["error", "E", "m", null]', "E: m"),
    ],
)
def test_a_result_of_another_form_is_an_error(said: str, what: str) -> None:
    assert what in hear(f"{READY}say({said + chr(10)!r})").what or what.startswith("its")


def test_a_result_that_is_too_large_is_an_error() -> None:
    assert hear(f"{READY}say('x' * (5 << 20))").what == "OutputError: its value is too large"


def test_no_word_from_inside_gives_more_time() -> None:
    program = f'{READY}import signal\nwhile True: say(\'["ready"]\\n["part"]\\n\')'
    assert hear(program, Limits(0.3, 64, 1000)).error in ("TimeoutError", "OutputError")


def test_an_interpreter_that_does_not_start_is_no_fault_of_the_program() -> None:
    with pytest.raises(BackendError, match="did not start: no such image"):
        hear("sys.exit('no such image')")
    with pytest.raises(BackendError, match="did not start: exit code 3"):
        hear("sys.exit(3)")


def test_a_program_that_cannot_be_confined_is_a_mistake_of_who_asked_for_it() -> None:
    with pytest.raises(ConfigError, match=r"could not be set up .*\(no rights\)"):
        hear('say(\'["setup", "no rights"]\\n\')')


def test_a_warden_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_GRACE", 0.2)
    killed: list[bool] = []
    program = f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{READY}while True: signal.pause()"
    command = [sys.executable, "-c", f"import sys\nsay = sys.stderr.write\n{program}"]
    ran = supervise(command, JOB, Limits(0.3), kill=lambda: killed.append(True))
    assert ran.error == "TimeoutError"
    assert killed == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are counted and found on Linux")
@pytest.mark.parametrize("namespaces", [True, False])
def test_forks_and_daemons_end_without_namespaces_too(namespaces: bool, tmp_path: Path) -> None:
    code = "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass"
    job = Job([code], 0, 1.0, 64, 16, packages=False, own_user=True, namespaces=namespaces)
    command = [sys.executable, "-s", "-S", "-B", "-u", "-X", "utf8", "-c", SOURCE]
    assert supervise(command, job, Limits(0.5), cwd=str(tmp_path), env={}).error == "TimeoutError"
    places = [os.readlink(path) for path in Path("/proc").glob("[0-9]*/cwd") if os.access(path, os.R_OK)]
    assert str(tmp_path) not in places


def test_a_warden_that_was_forgotten_ends_by_itself(tmp_path: Path) -> None:
    job = {**asdict(JOB), "parts": ["import time\ntime.sleep(1000)"], "patience": 1}
    command = [sys.executable, "-s", "-S", "-c", SOURCE]
    done = subprocess.run(command, input=json.dumps(job).encode(), capture_output=True, cwd=tmp_path, check=False)
    assert done.stderr == b'["ready"]\n'
    assert done.returncode == 128 + signal.SIGTERM


# -- docker

DOCKER = """#!{python}
import json, os, sys
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(json.dumps(arguments) + "\\n")
if arguments[0] == "image":
    sys.exit(0 if arguments[-1].endswith("-slim") else "Error: No such image: " + arguments[-1])
os.chdir({folder!r})
command = arguments[arguments.index("python"):]
os.execv({python!r}, [{python!r}, *command[1:]])
"""


@pytest.fixture
def docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A ``docker`` that runs what is meant for a container on this machine; gives what it was called with."""
    log, command, folder = tmp_path / "log", tmp_path / "bin" / "docker", tmp_path / "tmp"
    command.parent.mkdir()
    folder.mkdir()
    command.write_text(DOCKER.format(python=sys.executable, log=str(log), folder=str(folder)))
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{command.parent}{os.pathsep}{os.environ['PATH']}")
    return lambda: [json.loads(line) for line in log.read_text().splitlines()]


def test_a_container_has_no_network_and_bounds(docker: Any) -> None:
    spec = "python:sandbox=docker,seconds=20,memory=128"
    assert run_call(tools_of([spec]), "python", Call("", {"code": "print('in')\n1 + 1"})).text == "in\n2"
    inspected, started = docker()
    assert inspected[:2] == ["image", "inspect"]
    text = " ".join(started)
    for bound in (
        "run --rm --interactive --name arena-",
        "--pull never",
        "--network none",
        "--read-only",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--user 65534:65534",
        "--memory 192m --memory-swap 192m",
        "--pids-limit 18",
        f"python:{sys.version_info.major}.{sys.version_info.minor}-slim python",
    ):
        assert bound in text
    assert "--volume" not in text
    assert "--env PYTHONHASHSEED=0 " in text
    assert text.count("--env") == 1


def test_a_hostile_program_in_a_container_is_a_failed_call(docker: Any) -> None:
    tools = tools_of(["python:sandbox=docker,seconds=0.5"])
    assert "TimeoutError" in run_call(tools, "python", Call("", {"code": "while True: pass"})).text
    tools = tools_of(["python:sandbox=docker,seconds=20"])
    assert "OutputError" in run_call(tools, "python", Call("", {"code": "while True: print('x')"})).text


def test_an_image_that_is_not_there_is_told_when_the_tool_is_made(docker: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"cannot use image 'mine:1': Error: No such image: mine:1 .*docker pull mine:1"
    ):
        SANDBOXES.build("docker:image='mine:1'")


def test_a_machine_without_docker_is_told_what_else_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="finds no command 'docker': install Docker, or use sandbox=monty"):
        tools_of(["python:sandbox=docker"])
