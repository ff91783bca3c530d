"""Tournaments that are killed, run out of disk or may not write: what was stored is whole, and the end is the same."""

from __future__ import annotations

import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arena.store import DATABASE, Store

pytestmark = pytest.mark.slow

KILLS = 100
CHAIN = 8  # kills of one tournament, one after the other, before it may end

# Forks for each order that it reads, so that imports are paid once, and kills the child when the order says.
KILLER = """
import os, signal, sys, time
from pathlib import Path
from arena.agents import AGENTS, ScriptedBackend, agent_for
from arena.agents.encoders import WordEncoder
from arena.tournament import TournamentConfig, run_tournament

out, tasks = sys.argv[1:]
WORDS = ("yes", "no", "perhaps")

class Deaf(WordEncoder):
    def _encode(self, text):
        return super()._encode(" ".join(word for word in text.split() if word in WORDS))

@AGENTS.register("shaky", summary="fails at one in so many turns")
def shaky(*, every: int):
    encoder = Deaf(WORDS)
    backend = ScriptedBackend.saying(WORDS, encoder, fails=lambda request: request.seed % every == 0)
    return agent_for(backend, encoder, "shaky")

config = TournamentConfig(
    tournament="faults", protocol="debate", params={"rounds": 2}, tasks=tasks, n=20,
    agents={"a": "shaky:every=9", "b": "shaky:every=23", "c": "echo"}, judge="biased:accuracy=0.7",
)

def play(out, told):
    begun = time.monotonic()
    tell = lambda batch: os.write(told, b".")
    run_tournament(config, Path(out), created="now", resume=True, concurrency=2, on_batch=tell)
    return time.monotonic() - begun

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
_, told = os.pipe()
play(out, told)
print(play(out + "-warm", told), flush=True)
for line in sys.stdin:
    out, batches, seconds = line.rsplit(maxsplit=2)
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        play(out, told)
        os._exit(0)
    os.close(told)
    while int(batches) and os.read(heard, 1):
        batches = int(batches) - 1
    if signal.sigtimedwait({signal.SIGCHLD}, float(seconds)) is None:
        os.kill(child, signal.SIGKILL)
        signal.sigwait({signal.SIGCHLD})
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    os.close(heard)
"""


class Killer:
    """A process that plays a tournament undisturbed, and then others that it kills."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seconds = float(self._said())
        """How long an undisturbed tournament takes."""

    def play(self, out: Path, batches: int, seconds: float) -> int:
        """Play in ``out`` until so many batches of games have finished, and so long after that; exit status."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{out} {batches} {seconds}\n")
        self.process.stdin.flush()
        return int(self._said())

    def disturbed(self, out: Path, rng: random.Random) -> int:
        """Kill at an instant somewhere in the whole, or soon after one of the first games; exit status."""
        if rng.random() < 0.2:
            return self.play(out, 0, rng.uniform(0.0, self.seconds))
        return self.play(out, rng.randint(1, 12), rng.uniform(0.0, 0.004))

    def _said(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process that plays has died"
        return line


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tasks") / "questions.jsonl"
    rows = [{"id": f"q{n}", "question": f"Is {n} odd?", "answers": ["no", "yes"], "label": n % 2} for n in range(40)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("undisturbed")


@pytest.fixture(scope="module")
def killer(reference: Path, tasks: Path) -> Iterator[Killer]:
    command = [sys.executable, "-c", KILLER, str(reference), str(tasks)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Killer(process)


def games(out: Path) -> dict[str, str]:
    """Key -> JSON of the stored games, none twice, from a whole database; none where it has not come to that."""
    if not (out / DATABASE).exists():
        return {}
    connection = sqlite3.connect(out / DATABASE)
    try:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        tables = connection.execute("select 1 from sqlite_master where name = 'episodes'").fetchall()
        rows = connection.execute("select key, episode from episodes").fetchall() if tables else []
    finally:
        connection.close()
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def results(out: Path) -> dict[str, Any]:
    """What was concluded from the games."""
    with Store.open(out, create=False) as store:
        run = store.run()
        assert run.status == "done"
        return {name: run.series(name)[0] for name in ("ratings", "analysis")}


def test_a_tournament_that_is_killed_at_any_instant_ends_as_if_it_had_not_been(
    killer: Killer, reference: Path, tmp_path: Path
) -> None:
    undisturbed, concluded = games(reference), results(reference)
    failed = [text for text in undisturbed.values() if json.loads(text)["error"]]
    assert len(undisturbed) == 3 * 20 * 2
    assert failed  # the backend's failures are part of what must come out the same
    rng = random.Random(6)
    kills = midway = number = 0
    while kills < KILLS:
        out, number = tmp_path / str(number), number + 1
        before: set[str] = set()
        for _ in range(CHAIN):
            code = killer.disturbed(out, rng)
            if code == 0:
                break
            assert code == -9
            kills += 1
            stored = games(out)
            assert stored.items() <= undisturbed.items()
            assert before <= stored.keys()  # what was stored once stays
            midway += len(before) < len(stored) < len(undisturbed)
            before = set(stored)
        assert killer.play(out, 0, 60.0) == 0
        assert games(out) == undisturbed
        assert results(out) == concluded
    assert midway >= KILLS / 4  # kills with something stored since the one before, and not everything


# Disk full, read-only, held by another process

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
from arena.cli import main
main()
"""
PLAY = ("run", "debate", "--agent", "*=echo", "--judge", "exact", "--swap", "--concurrency", "4")


def arena(*arguments: object, limit: int = resource.RLIM_INFINITY) -> subprocess.CompletedProcess[str]:
    """The command, in a process that may make no larger files."""
    command = [sys.executable, "-c", LIMITED, str(limit), *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_a_disk_that_takes_no_more_is_told_in_one_message_and_leaves_a_whole_store(tasks: Path, tmp_path: Path) -> None:
    assert arena(*PLAY, "--tasks", tasks, "--out", tmp_path / "whole").returncode == 0
    whole = games(tmp_path / "whole")
    assert len(whole) == 80
    out = tmp_path / "full"
    full = arena(*PLAY, "--tasks", tasks, "--out", out, limit=180_000)
    assert full.returncode == 2
    assert full.stderr.splitlines()[-1].startswith(f"{out}: the disk takes no more, for a quota or a limit on files")
    assert "Traceback" not in full.stderr
    stored = games(out)
    assert 0 < len(stored) < 80
    assert stored.items() <= whole.items()
    assert arena(*PLAY, "--tasks", tasks, "--out", out, "--resume").returncode == 0
    assert games(out) == whole


def test_what_cannot_be_written_is_told_before_anything_is_played_and_can_be_read(
    tasks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from typer.testing import CliRunner

    from arena.cli.app import app

    play = [*PLAY, "--tasks", str(tasks), "--out", str(tmp_path)]
    assert CliRunner().invoke(app, play).exit_code == 0
    tmp_path.chmod(0o555)
    (tmp_path / DATABASE).chmod(0o444)
    may = os.access  # root may write whatever its rights say
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK and may(path, mode))
    refused = CliRunner().invoke(app, [*play, "--resume"])
    assert refused.exit_code == 2
    assert refused.stderr == f"{tmp_path} cannot be written: choose a directory of your own by --out\n"
    assert len(CliRunner().invoke(app, ["export", str(tmp_path)]).stdout.splitlines()) == 80
    tmp_path.chmod(0o755)


def test_a_second_process_in_a_directory_is_refused_and_the_first_goes_on(tasks: Path, tmp_path: Path) -> None:
    config = {"seed": 0}
    with Store.open(tmp_path) as store:
        run = store.begin("run", config, "now")
        second = arena(*PLAY, "--tasks", tasks, "--out", tmp_path, "--resume")
        assert second.returncode == 2
        assert second.stderr.splitlines()[-1] == (
            f"another process (id {os.getpid()}) is writing {tmp_path}: wait for it, stop it, or use another directory"
        )
        run.finish("done")
        assert (store.run().config, store.run().status, games(tmp_path)) == (config, "done", {})
