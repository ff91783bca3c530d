"""Calls in a process of their own: what they return, and what ends them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arena.agents.tools.forkserver import ForkServer
from arena.agents.tools.sandbox import Limits
from arena.protocols.errors import BackendError

LIMITS = Limits(seconds=0.5, memory=64)

MODULE = """
import os, socket, time

def prepare(**arguments):
    prepare.calls = getattr(prepare, "calls", 0) + 1

def run(code):
    print("noise")
    return eval(code)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    folder = tmp_path_factory.mktemp("forkserver")
    (folder / "served.py").write_text(MODULE)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        server = ForkServer("served:run", servers=2)
        yield server
        server.close()


def test_a_call_gives_its_value(server: ForkServer) -> None:
    assert server.call({"code": "[1, {'a': None}]"}, LIMITS).value == [1, {"a": None}]
    assert server.call({"code": "prepare.calls > 0"}, LIMITS).value is True


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("(lambda f: f(f))(lambda f: 9 ** 9 ** 9)", "TimeoutError"),
        ("[0] * 10 ** 9", "MemoryError"),
        ("open('/etc/passwd')", "PermissionError"),
        ("open('/tmp/new', 'w')", "PermissionError"),
        ("os.system('true')", "PermissionError"),
        ("socket.socket()", "PermissionError"),
        ("os._exit(0)", "SystemError"),
        ("{1}", "TypeError"),
        ("'x' * 2 ** 21", "ValueError"),
    ],
)
def test_a_call_that_fails_says_why_and_the_next_one_works(server: ForkServer, code: str, error: str) -> None:
    assert server.call({"code": code}, LIMITS).error == error
    assert server.call({"code": "1 + 1"}, LIMITS).value == 2


def test_calls_may_come_from_many_threads(server: ForkServer) -> None:
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda n: server.call({"code": f"{n} ** 2"}, LIMITS).value, range(24)))
    assert found == [n**2 for n in range(24)]


def test_calls_do_not_see_each_other(server: ForkServer) -> None:
    server.call({"code": "globals().__setitem__('left', 1)"}, LIMITS)
    assert server.call({"code": "left"}, LIMITS).error == "NameError"


def test_a_module_that_cannot_be_imported_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_one.py").write_text("raise ImportError('no such thing')")
    monkeypatch.syspath_prepend(str(tmp_path))
    broken = ForkServer("broken_one:run", servers=1)
    with pytest.raises(BackendError, match="no such thing"):
        broken.call({}, LIMITS)
    broken.close()
