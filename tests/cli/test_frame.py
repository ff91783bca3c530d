"""What the user sees when something goes wrong, whatever the verb."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
from arena.cli import app
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
