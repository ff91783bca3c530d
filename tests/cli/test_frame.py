"""What the user sees when something goes wrong, whatever the verb."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import arena.protocols
from arena.cli.app import Frame, app
from arena.protocols.errors import BackendError, ConfigError, Fault, SourceError, StoreError


def outcome(error: BaseException) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a verb that raises ``error``."""
    failing = typer.Typer(cls=Frame, pretty_exceptions_enable=False)

    @failing.command("fail")
    def fail() -> None:
        raise error

    @failing.command("other")
    def other() -> None: ...

    result = CliRunner().invoke(failing, ["fail"])
    if result.exception is error:
        raise error
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ConfigError("rounds=-1 is not positive"), 2, "rounds=-1 is not positive\n"),
        (SourceError([Fault("a.yaml", 7, 5, "roles.x", "wrong"), Fault("a.yaml", 9, 1, "", "worse")]), 2,
         "a.yaml:7:5: roles.x: wrong\na.yaml:9:1: worse\n"),
        (StoreError("runs/a already holds a run"), 2, "runs/a already holds a run\n"),
        (FileNotFoundError(2, "No such file or directory", "gone.txt"), 2, "gone.txt: no such file or directory\n"),
        (BackendError("the model gave no answer"), 1, "the model gave no answer\n"),
        (KeyboardInterrupt(), 130, "interrupted; what was finished is kept, and --resume goes on from there\n"),
    ],
)  # fmt: skip
def test_faults_are_told_in_one_message_with_the_right_exit_code(error: BaseException, code: int, message: str) -> None:
    assert outcome(error) == (code, "", message)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        outcome(ZeroDivisionError())
    with pytest.raises(OSError, match="no file is named"):
        outcome(OSError("no file is named"))


def test_the_traceback_of_a_mistake_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARENA_TRACEBACK", "1")
    with pytest.raises(ConfigError):
        outcome(ConfigError("x"))


@pytest.mark.parametrize(
    ("arguments", "hint"), [(["grpah"], "Did you mean 'graph'"), (["graph", "debate", "--fromat", "svg"], "--format")]
)
def test_a_misspelt_verb_or_option_names_the_right_one(arguments: list[str], hint: str) -> None:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert hint in result.stderr


def test_a_closed_pipe_ends_the_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "arena", "schema", "run"], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


LIGHT = """
import sys
from typer.testing import CliRunner
from arena.cli.app import app
for line in sys.argv[1:]:
    result = CliRunner().invoke(app, line.split())
    assert result.exit_code == 0, (line, result.output, result.exception)
print([name for name in ("torch", "transformers", "peft", "sklearn", "sqlalchemy") if name in sys.modules])
"""


def test_verbs_that_need_no_model_import_none(tmp_path: Path) -> None:
    library = Path(arena.protocols.__path__[0]) / "library"
    (tmp_path / "debate.yaml").write_text((library / "debate.yaml").read_text())
    verbs = ["--help", "--version", "run --help", "validate debate.yaml", "schema protocol", "schema run"]
    verbs += [f"ls {kind}" for kind in ("protocols", "tasks", "agents", "judges")]
    verbs += [f"graph debate --format {picture}" for picture in ("text", "mermaid", "svg")]
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *verbs], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


PLUGIN = """
from arena.agents import AGENTS
from arena.agents.types import Act

class Parrot:
    name = "parrot"
    def act(self, asks):
        return [Act(ask.heard[-1].text if ask.heard else "hello") for ask in asks]

@AGENTS.register("parrot", summary="repeats the last turn")
def parrot():
    return Parrot()
"""


def test_a_plugin_file_adds_an_agent(tmp_path: Path) -> None:
    (tmp_path / "birds.py").write_text(PLUGIN)
    listed = subprocess.run(
        [sys.executable, "-m", "arena", "--plugin", "birds.py", "ls", "agents"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert any(line.split() == ["parrot", "repeats", "the", "last", "turn"] for line in listed.stdout.splitlines())


@pytest.mark.parametrize("name", ["missing.py", "no_such_module_anywhere"])
def test_a_missing_plugin_is_a_mistake_of_the_user(name: str) -> None:
    result = CliRunner().invoke(app, ["--plugin", name, "ls", "agents"])
    assert result.exit_code == 2
    assert name in result.stderr


def test_with_json_standard_output_is_one_document_whatever_happens() -> None:
    def document(*arguments: str) -> tuple[int, dict[str, object]]:
        result = CliRunner().invoke(app, arguments)
        return result.exit_code, json.loads(result.stdout)

    code, told = document("tournament", "gone.yaml", "--json")
    assert (code, told["exit_code"]) == (2, 2)
    assert "gone.yaml" in str(told["error"])
    for usage in (["run", "--jso", "--json"], ["ls", "birds", "--json"], ["demo", "--seed", "x", "--json"]):
        code, told = document(*usage)
        assert (code, told["exit_code"]) == (2, 2)


def test_a_full_machine_is_no_bug() -> None:
    code, _, told = outcome(OSError(errno.ENOSPC, "No space left on device"))
    assert (code, told.partition(";")[0]) == (2, "no space left on device")


def run_verb(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "arena", *arguments], text=True, check=False, **options)


def test_a_narrow_encoding_loses_no_line(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "\u017dlu\u0165?", "answers": ["\u2502", "b"]}', "utf-8")
    verb = ["run", "debate", "--tasks", "q.jsonl", "--agent", "*=silent", "--judge", "exact"]
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}
    done = run_verb(*verb, cwd=tmp_path, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u017dlu\\u0165?" in done.stdout


def test_closed_streams_are_not_taken_for_files(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"question": "q?", "answers": ["a", "b"], "label": 0}')
    verb = ["run", "debate", "--tasks", "q.jsonl", "--agent", "*=silent", "--judge", "exact", "--out", "r"]
    shell = " ".join(f"'{word}'" for word in [sys.executable, "-m", "arena", *verb])
    assert subprocess.run(f"{shell} <&- >&- 2>&-", shell=True, cwd=tmp_path, check=False).returncode == 0
    exported = run_verb("export", "r", cwd=tmp_path, capture_output=True)
    assert json.loads(exported.stdout)["task"] == "line-1"


INTERRUPTED = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            raise KeyboardInterrupt

sys.meta_path.insert(0, CtrlC())
"""


def interrupted(folder: Path, module: str, *verb: str) -> subprocess.CompletedProcess[str]:
    """The verb, if Ctrl-C comes while it imports ``module``."""
    (folder / "hook.py").write_text(INTERRUPTED.format(module=module))
    script = "import hook, sys; from arena.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", script, *verb]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("module", "verb"),
    [
        ("arena.cli.app", "--help"),
        ("typer", "--version"),
        ("arena.cli.validate", "ls agents"),
        ("sqlalchemy", "report nowhere"),
        ("arena.tournament", "tournament gone.yaml"),
    ],
)
def test_ctrl_c_while_modules_are_imported_is_told_in_one_line(tmp_path: Path, module: str, verb: str) -> None:
    done = interrupted(tmp_path, module, *verb.split())
    assert (done.returncode, done.stdout) == (130, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("interrupted")


def test_ctrl_c_while_modules_are_imported_leaves_one_json_document(tmp_path: Path) -> None:
    done = interrupted(tmp_path, "typer", "ls", "agents", "--json")
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (130, 130)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="children are read from /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_trainings_of_a_demo_end_with_it(tmp_path: Path, number: signal.Signals, code: int) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "arena", "demo", "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, text=True
    )
    assert demo.stdout is not None
    demo.stdout.readline()  # both trainings have been started before one of them reports
    children = Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split()
    demo.send_signal(number)
    demo.communicate(timeout=60)
    assert demo.returncode == code
    assert len(children) == 2
    assert not any(Path(f"/proc/{child}").exists() for child in children)
