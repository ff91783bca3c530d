from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from arena.agents.backend_hf import HFBackend
from arena.agents.call_cache import CachedBackend, CallCache, call_key
from arena.agents.models import tiny
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import StoreError
from arena.protocols.records import Sampling
from arena.testing import check_backend


def test_a_key_is_the_digest_of_the_question() -> None:
    assert call_key("chat", {"b": [1.5, None], "a": "é"}) == (
        hashlib.sha256(rb'[1,"chat",{"a":"\u00e9","b":[1.5,null]}]').hexdigest()
    )


def test_the_order_of_names_does_not_matter_and_all_else_does() -> None:
    key = call_key("chat", {"a": 1, "b": {"c": 2, "d": 3}})
    assert key == call_key("chat", {"b": {"d": 3, "c": 2}, "a": 1})
    others = [{"a": 1, "b": {"c": 2, "d": 4}}, {"a": "1", "b": {"c": 2, "d": 3}}, {"a": 1}]
    assert len({key, call_key("sample", {"a": 1, "b": {"c": 2, "d": 3}}), *(call_key("chat", q) for q in others)}) == 5


@pytest.mark.parametrize(("question", "error"), [({"a": object()}, TypeError), ({"a": float("nan")}, ValueError)])
def test_a_question_that_is_no_json_has_no_key(question: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call_key("chat", question)


def test_answers_are_kept_and_hits_are_counted(tmp_path: Path) -> None:
    cache = CallCache(tmp_path / "deep" / "down")
    assert cache.get("k") is None
    cache.put("k", {"text": "so", "logps": [-0.1, 1e-300], "n": None})
    assert cache.get("k") == {"text": "so", "logps": [-0.1, 1e-300], "n": None}
    assert (cache.hits, cache.misses) == (1, 1)
    assert CallCache(tmp_path / "deep" / "down").get("k") is not None


def test_the_first_answer_is_everybodys(tmp_path: Path) -> None:
    one, other = CallCache(tmp_path), CallCache(tmp_path)
    assert one.put("k", "first") == "first"
    assert other.put("k", "second") == "first"


WRITER = """
import sys
from arena.agents.call_cache import CallCache
cache = CallCache(sys.argv[1])
print([cache.put(f"k{n}", f"{sys.argv[2]}-{n}") for n in range(100)])
"""


def test_processes_that_write_at_once_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [subprocess.Popen([*command, name], stdout=subprocess.PIPE, text=True) for name in "abc"]
    told = {process.communicate(timeout=120)[0] for process in running}
    assert [process.returncode for process in running] == [0] * 3
    assert len(told) == 1


@pytest.mark.parametrize("damage", ["not json", "{"])
def test_a_damaged_answer_is_not_taken_for_one(tmp_path: Path, damage: str) -> None:
    cache = CallCache(tmp_path)
    cache.put("k", "good")
    connection = sqlite3.connect(cache.path)
    connection.execute("UPDATE calls SET answer = ?", (damage,))
    connection.commit()
    connection.close()
    with pytest.raises(StoreError, match="is damaged: delete the file"):
        cache.get("k")


def test_a_folder_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        CallCache(tmp_path / "file")


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "calls.sqlite").write_text("something else " * 100)
    with pytest.raises(StoreError, match="cannot be written: file is not a database"):
        CallCache(tmp_path)


ENDLESS_WRITER = """
import sys
from arena.agents.call_cache import CallCache
cache = CallCache(sys.argv[1])
number = 0
while True:
    cache.put(f"k{number}", [number] * 20_000)
    print(number, flush=True)
    number += 1
"""


def test_a_writer_that_is_killed_leaves_whole_entries_or_none(tmp_path: Path) -> None:
    """kill -9 in the middle of a write: what was told to be stored is there, and nothing is there by half."""
    command = [sys.executable, "-c", ENDLESS_WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        stored = [int(line) for line, _ in zip(writer.stdout, range(5), strict=False)]
        writer.kill()
        stored += map(int, writer.stdout)
    cache = CallCache(tmp_path)
    assert [cache.get(f"k{number}") for number in stored] == [[number] * 20_000 for number in stored]
    assert cache.get(f"k{len(stored)}") in (None, [len(stored)] * 20_000)


def test_an_entry_that_was_written_by_half_never_answers(tmp_path: Path) -> None:
    """As after a power cut: the log of writes ends at any byte."""
    cache = CallCache(tmp_path / "whole")
    cache.put("first", "x" * 3000)
    answer = {"text": "y" * 9000}
    cache.put("second", answer)
    log = cache.path.with_name("calls.sqlite-wal").read_bytes()
    found = []
    for end in [*range(0, len(log), 997), len(log)]:
        folder = tmp_path / str(end)
        folder.mkdir()
        (folder / "calls.sqlite").write_bytes(cache.path.read_bytes())
        (folder / "calls.sqlite-wal").write_bytes(log[:end])
        found.append(CallCache(folder).get("second"))
    assert all(each in (None, answer) for each in found)
    assert (found[0], found[-2], found[-1]) == (None, None, answer)


# Backends


class Counter:
    """A backend that says how often it was asked, and how many requests came at a time."""

    max_length = 64

    def __init__(self, policy: str = "debater@v1") -> None:
        self.policy = policy
        self.asked: list[int] = []

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        self.asked.append(len(requests))
        return [Completion((len(self.asked), request.seed), (-0.5, -1.25), "stop") for request in requests]

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        return [[0.0] for _ in requests]


PLAIN = SampleRequest([1, 2], 7, Sampling(), 5)


def test_a_backend_is_asked_only_for_what_is_new(tmp_path: Path) -> None:
    model = Counter()
    backend = CachedBackend(model, CallCache(tmp_path), "weights")
    other = SampleRequest([1, 2], 8, Sampling(), 5)
    first, second = Completion((1, 7), (-0.5, -1.25), "stop"), Completion((2, 8), (-0.5, -1.25), "stop")
    assert backend.generate([PLAIN]) == [first]
    assert backend.generate([other, PLAIN, other]) == [second, first, second]
    assert backend.generate([PLAIN, other]) == [first, second]
    assert model.asked == [1, 1]
    assert backend.max_length == 64


@pytest.mark.parametrize(
    "request_",
    [
        SampleRequest([1, 3], 7, Sampling(), 5),
        SampleRequest([1, 2], 8, Sampling(), 5),
        SampleRequest([1, 2], 7, Sampling(temperature=0.5), 5),
        SampleRequest([1, 2], 7, Sampling(top_p=0.5), 5),
        SampleRequest([1, 2], 7, Sampling(top_k=3), 5),
        SampleRequest([1, 2], 7, Sampling(), 6),
        SampleRequest([1, 2], 7, Sampling(), 5, allowed=[1]),
    ],
)
def test_whatever_determines_a_draw_makes_another_question(tmp_path: Path, request_: SampleRequest) -> None:
    model = Counter()
    backend = CachedBackend(model, CallCache(tmp_path), "weights")
    backend.generate([PLAIN])
    backend.generate([request_])
    assert model.asked == [1, 1]


def test_a_new_version_never_hits_an_old_entry(tmp_path: Path) -> None:
    cache, model = CallCache(tmp_path), Counter()
    backend = CachedBackend(model, cache, "weights")
    backend.generate([PLAIN])
    model.policy = "debater@v2"
    backend.generate([PLAIN])
    CachedBackend(model, cache, "other weights").generate([PLAIN])
    CachedBackend(model, cache, "other weights", sampler="hf:dtype=bfloat16").generate([PLAIN])
    assert len(model.asked) == 4
    assert cache.hits == 0


def test_a_cached_backend_keeps_the_promises_of_a_backend(tmp_path: Path) -> None:
    inner = HFBackend(tiny(["a", "b", "c", "d"], seed=1), "tiny")
    cache = CallCache(tmp_path)
    check_backend(CachedBackend(inner, cache, "tiny"), [[1, 3], [1, 3, 4, 5]])
    assert cache.hits > 0


def test_what_is_stored_is_plain_json(tmp_path: Path) -> None:
    cache = CallCache(tmp_path)
    CachedBackend(Counter(), cache, "weights").generate([PLAIN])
    connection = sqlite3.connect(cache.path)
    ((text,),) = connection.execute("SELECT answer FROM calls").fetchall()
    connection.close()
    assert json.loads(text) == {"ids": [1, 7], "logps": [-0.5, -1.25], "finish": "stop"}
