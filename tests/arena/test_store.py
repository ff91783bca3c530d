import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from arena.protocols.errors import ConfigError, NumericalError, ResumeError, StoreError
from arena.protocols.records import Episode, Turn, Verdict, VerdictStatus
from arena.records_json import from_json
from arena.store import DATABASE, Store

CONFIG = {"seed": 0, "protocol": {"rounds": 2, "judges": ["a", "b"]}}


def episode(key, text="b3=2"):
    turns = [Turn(i, i, "speak", "ab"[i % 2], i // 2, "debater@v1", i % 2, text) for i in range(4)]
    verdict = Verdict(VerdictStatus.SCORED, "judge#1", (-0.1, -2.4))
    return Episode(key, "debate", "t1", {"a": "debater@v1"}, (0, 1), turns, {"judge": verdict})


@pytest.fixture
def run(tmp_path):
    with Store.open(tmp_path) as store:
        yield store.begin("run", CONFIG, created="2026-01-31")


def test_what_was_stored_comes_back(tmp_path, run):
    episodes = [episode(f"e{i}") for i in range(1203)]
    assert run.add("play", episodes[:3]) == 3
    assert run.add("more", episodes[3:]) == 1200
    run.finish("done")
    with Store.open(tmp_path, create=False) as store:
        again = store.run()
        assert (again.kind, again.config, again.status) == ("run", CONFIG, "done")
        assert list(again.episodes()) == episodes
        assert list(again.episodes("play")) == episodes[:3]
        assert again.finished("play") == {"e0", "e1", "e2"}
        assert len(again.finished()) == 1203
        assert again.stages() == ["play", "more"]
        assert [from_json(line) for line in again.lines("play")] == episodes[:3]


def test_storing_again_is_harmless_and_changing_is_refused(run):
    run.add("play", [episode("e0"), episode("e1")])
    assert run.add("play", [episode("e1"), episode("e2"), episode("e2")]) == 1
    with pytest.raises(StoreError, match=r"'e1' is already stored with other content"):
        run.add("play", [episode("e9"), episode("e1", "other")])
    with pytest.raises(StoreError, match=r"'e1' is already stored in stage 'play'"):
        run.add("later", [episode("e1")])
    with pytest.raises(StoreError, match="two different episodes have the key 'x'"):
        run.add("play", [episode("x"), episode("x", "other")])
    assert run.finished() == {"e0", "e1", "e2"}  # of a refused batch nothing is kept


def test_a_bad_episode_keeps_its_batch_out(run):
    bad = episode("bad")
    bad.verdicts["judge"].logps = (float("nan"), 0.0)
    with pytest.raises(NumericalError, match=r"episode bad\.verdicts\.judge\.logps\[0\] is NaN"):
        run.add("play", [episode("good"), bad])
    assert run.finished() == set()


def test_resume_continues(tmp_path):
    with Store.open(tmp_path) as store:
        first = store.begin("run", CONFIG, "2026-01-31")
        first.add("play", [episode("e0")])
        first.record("kl", 10, {"kl": 0.5})
        first.record("kl", 20, {"kl": 0.9})
    with Store.open(tmp_path) as store:
        second = store.begin("run", CONFIG, "2026-02-01", resume=True)
        assert (second.id, second.created, second.fingerprint) == (first.id, "2026-01-31", first.fingerprint)
        assert second.finished("play") == {"e0"}
        second.record("kl", 20, {"kl": 0.7})
        assert second.series("kl") == {10: {"kl": 0.5}, 20: {"kl": 0.7}}


def test_resume_of_nothing_begins(tmp_path):
    with Store.open(tmp_path) as store:
        assert store.begin("run", CONFIG, "now", resume=True).finished() == set()


def test_resume_under_another_config_lists_every_difference(tmp_path):
    with Store.open(tmp_path) as store:
        store.begin("run", CONFIG, "now")
    other = {"seed": 1, "protocol": {"rounds": 2, "judges": ["a", "c"]}, "n": None}
    with Store.open(tmp_path) as store, pytest.raises(ResumeError) as caught:
        store.begin("train", other, "now", resume=True)
    told = [line.strip() for line in str(caught.value).splitlines() if "->" in line]
    assert told == ['kind: "run" -> "train"', "n: (absent) -> null", 'protocol.judges[1]: "b" -> "c"', "seed: 0 -> 1"]


def test_a_directory_with_a_run_is_not_reused(tmp_path, run):
    with pytest.raises(StoreError, match=r"already holds a run of 2026-01-31: go on with it by --resume"):
        run.store.begin("run", CONFIG, "now")


def test_second_writer_is_refused_while_readers_are_not(tmp_path, run):
    run.add("play", [episode("e0")])
    with Store.open(tmp_path) as other:
        with pytest.raises(StoreError, match=rf"another process \(id {os.getpid()}\) is writing"):
            other.begin("run", CONFIG, "now", resume=True)
        assert len(list(other.run().episodes())) == 1


def test_config_must_be_json(tmp_path):
    with Store.open(tmp_path) as store, pytest.raises(ConfigError, match="cannot be stored as JSON"):
        store.begin("run", {"path": object()}, "now")


def fill(tmp_path):
    with Store.open(tmp_path) as store:
        store.begin("run", CONFIG, "now").add("play", [episode(f"e{i}") for i in range(50)])
    return tmp_path / DATABASE


def test_a_file_that_is_no_database_is_told(tmp_path):
    fill(tmp_path).write_bytes(b"once upon a time " * 500)
    with pytest.raises(StoreError, match="database file is damaged"):
        Store.open(tmp_path)


def test_a_damaged_page_is_told(tmp_path):
    path = fill(tmp_path)
    whole = bytearray(path.read_bytes())
    whole[4096:] = b"\x5a" * (len(whole) - 4096)
    path.write_bytes(whole)
    with Store.open(tmp_path, create=False) as store, pytest.raises(StoreError, match="database file is damaged"):
        list(store.run().episodes())


def test_a_database_of_something_else_is_told(tmp_path):
    with sqlite3.connect(tmp_path / DATABASE) as connection:
        connection.execute("create table runs (id integer primary key, name text)")
    connection.close()
    with Store.open(tmp_path) as store, pytest.raises(StoreError, match="made by another version"):
        store.run()


def test_a_full_disk_is_told_and_loses_nothing(tmp_path, run):
    run.add("play", [episode("e0")])
    with run.store._connection() as connection:  # SQLite's own limit stands in for the disk's
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(StoreError, match="the disk is full: free some space"):
        run.add("play", [episode(f"f{i}", "long " * 1000) for i in range(50)])
    assert run.finished() == {"e0"}


def test_a_database_that_cannot_be_written_is_told(run):
    with run.store._connection() as connection:
        connection.exec_driver_sql("PRAGMA query_only=1")
    with pytest.raises(StoreError, match="cannot be written: check its owner"):
        run.add("play", [episode("e0")])


def test_a_read_only_directory_can_be_read_but_not_written(tmp_path, monkeypatch):
    fill(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    with Store.open(tmp_path, create=False) as store:
        assert len(list(store.run().episodes())) == 50
    with pytest.raises(StoreError, match="cannot be written: choose a directory of your own"):
        Store.open(tmp_path)


@pytest.mark.parametrize(
    ("where", "create", "message"),
    [
        ("{tmp}/none", False, "holds no run: there is no run.sqlite"),
        ("{tmp}/file/sub", True, "Not a directory: choose another directory"),
        ("nosql://host/name", True, "is not a store"),
        (Path("sqlite:///here"), True, "neither a directory nor a URL: a URL has '://', and is a string, not a Path"),
    ],
)
def test_places_that_cannot_work(tmp_path, where, create, message):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=message):
        Store.open(where.format(tmp=tmp_path) if isinstance(where, str) else where, create=create)


def test_where_runs_lie_in_folders_of_their_own_these_are_named(tmp_path):
    for name in ("seed0", "no_kl-seed0", "seed1"):
        with Store.open(tmp_path / "study" / name) as store:
            store.begin("train", {}, created="now")
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path / "study", create=False)
    told = str(caught.value)
    assert "holds no run itself, but 3 in folders of their own" in told
    assert f"such as {tmp_path / 'study' / 'seed0'} (there are seed0, seed1, no_kl-seed0)" in told


def test_a_password_is_not_shown():
    store = Store.open("sqlite://")  # in memory
    store.close()
    with pytest.raises(StoreError) as caught:
        Store.open("sqlite://user:secret@host/none/db")
    assert "secret" not in str(caught.value)


WRITER = """
import sys
from arena.store import Store
from arena.protocols.records import Episode, Turn
with Store.open(sys.argv[1]) as store:
    run = store.begin("run", {"seed": 0}, "now", resume=True)
    done = run.finished("play")
    for first in range(0, 2000, 20):
        keys = [f"e{i}" for i in range(first, first + 20) if f"e{i}" not in done]
        run.add("play", [Episode(k, "p", "t", {}, (0, 1), [Turn(0, 0, "n", "r", 0, "a", 0, k * 50)]) for k in keys])
        print(first + 20, flush=True)
    run.finish("done")
"""


def test_kill_9_loses_nothing_and_doubles_nothing(tmp_path):
    rng = random.Random(0)
    acknowledged = 0
    for _ in range(3):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(rng.randint(1, 20))]
        end = time.monotonic() + rng.random() * 0.004
        while time.monotonic() < end:  # the kill falls anywhere in a transaction
            pass
        process.send_signal(signal.SIGKILL)
        rest, faults = process.communicate()
        assert not faults
        said = [int(line) for line in [*lines, *rest.splitlines(keepends=True)] if line.endswith("\n")]
        acknowledged = max(acknowledged, *said)
        with Store.open(tmp_path, create=False) as store:
            keys = [e.key for e in store.run().episodes()]
        assert keys == [f"e{i}" for i in range(len(keys))]  # in order, none twice
        assert len(keys) >= acknowledged
        assert len(keys) % 20 == 0  # batches are whole
    subprocess.run([sys.executable, "-c", WRITER, str(tmp_path)], check=True, capture_output=True)
    with Store.open(tmp_path, create=False) as store:
        run = store.run()
        texts = {e.key: e.turns[0].text for e in run.episodes()}
    assert run.status == "done"
    assert texts == {f"e{i}": f"e{i}" * 50 for i in range(2000)}


def test_lines_are_plain_json(run):
    run.add("play", [episode("e0", "snow ☃ \x00 \u202e \ud800")])
    (line,) = run.lines()
    assert line.isascii()
    assert "\n" not in line
    assert json.loads(line)["turns"][0]["text"] == "snow ☃ \x00 \u202e \ud800"


def test_several_openers_may_make_the_same_directory_at_once(tmp_path):
    for attempt in range(10):
        start = threading.Barrier(4)

        def make(folder=tmp_path / str(attempt), start=start):
            start.wait()
            Store.open(folder).close()

        with ThreadPoolExecutor(4) as pool:
            for made in [pool.submit(make) for _ in range(4)]:
                made.result()
        with Store.open(tmp_path / str(attempt)) as store:
            assert store.begin("run", {}, created="2026-01-31").finished() == set()


def test_a_writer_stores_all_that_it_took_whatever_ends_the_block(run):
    with run.writer("play") as write:
        for i in range(40):
            write([episode(f"e{i}")])
    assert run.finished("play") == {f"e{i}" for i in range(40)}

    def interrupted():
        with run.writer("more") as write:
            write([episode("last")])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert run.finished("more") == {"last"}


def test_a_writer_tells_what_could_not_be_stored(run):
    run.add("play", [episode("e0")])

    def change():
        with run.writer("play") as write:
            write([episode("e0", "other")])

    with pytest.raises(StoreError, match="'e0' is already stored with other content"):
        change()
