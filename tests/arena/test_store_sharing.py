"""Several workers on one run: claims, the dead, those who only seemed dead, and stages that all of them complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import update

from arena.agents import ScriptedAgent
from arena.engine import Engine, Plan
from arena.judges import JUDGES
from arena.playing import play_stored, unit_of
from arena.protocols import Budget, Protocol, load_protocol
from arena.protocols.errors import ResumeError, StoreError
from arena.protocols.records import Episode, Task, Turn
from arena.store import RunHandle, Store
from arena.store.tables import WORKERS
from arena.undecided import UndecidedLimit

CONFIG = {"seed": 0, "agents": {"a": "echo"}}
Join = Callable[[], RunHandle]


@pytest.fixture
def join(tmp_path: Path) -> Iterator[Join]:
    """Another worker at each call, as if it were another process."""
    with ExitStack() as stack:

        def join() -> RunHandle:
            store = stack.enter_context(Store.open(f"sqlite:///{tmp_path}/shared.sqlite"))
            return store.begin("tournament", CONFIG, "now", share=True)

        yield join


def claim(run: RunHandle, *keys: str) -> list[str]:
    assert run.worker is not None
    return run.worker.claim(keys)


def die(run: RunHandle) -> None:
    """What the database shows of a worker that gave no sign of life for too long."""
    assert run.worker is not None
    with run.store._connection() as connection:
        connection.execute(update(WORKERS).where(WORKERS.c.id == run.worker.id).values(until=0.0))


def episode(key: str, text: str = "hear, hear") -> Episode:
    return Episode(key, "debate", "t", {"a": "echo"}, (0, 1), [Turn(0, 0, "speak", "a", 0, "echo", 0, text)])


# Claims


def test_what_one_holds_nobody_else_wins(join: Join) -> None:
    one, two = join(), join()
    assert claim(one, "b", "a") == ["a", "b"]
    assert claim(two, "a", "b", "c") == ["c"]
    assert claim(one, "a", "c") == ["a"]  # what it holds already it still holds


def test_claims_are_free_when_their_worker_leaves_releases_or_dies(join: Join) -> None:
    one, two, three, four = (join() for _ in range(4))
    for key, run in zip("abc", (one, two, three), strict=True):
        assert claim(run, key) == [key]
    one.store.close()
    assert two.worker is not None
    assert two.worker.alive() == 3
    two.worker.release()
    die(three)
    assert two.worker.alive() == 2
    assert claim(four, "a", "b", "c") == ["a", "b", "c"]


def test_times_are_those_of_the_database(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    one = join()
    claim(one, "a")
    monkeypatch.setattr("time.time", lambda: 4e9)  # a machine whose clock is in the next century
    assert claim(join(), "a") == []


def test_who_only_seemed_dead_stores_nothing_under_a_claim_that_was_taken_over(join: Join) -> None:
    slow, quick = join(), join()
    claim(slow, "lost", "kept")
    die(slow)
    assert claim(quick, "lost") == ["lost"]
    with slow.writer("play", unit=unit_of) as write:
        write([episode("lost/0", "late"), episode("kept/0")])
    assert slow.finished() == {"kept/0"}
    with quick.writer("play", unit=unit_of) as write:
        write([episode("lost/0", "in time")])
    assert [e.turns[0].text for e in quick.named(["lost/0"]).values()] == ["in time"]


MOVES = st.tuples(st.sampled_from(["claim", "store", "die", "release"]), st.integers(0, 2), st.integers(0, 3))


@settings(max_examples=30)
@given(moves=st.lists(MOVES, max_size=40))
def test_whatever_workers_do_each_game_is_stored_once_by_its_last_claimant(
    moves: Sequence[tuple[str, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        stores = [stack.enter_context(Store.open(f"sqlite:///{folder}/shared.sqlite")) for _ in range(3)]
        runs = [store.begin("run", {}, "now", share=True) for store in stores]
        holder: dict[str, int] = {}  # the model: who holds what, who is dead, who stored what
        dead: set[int] = set()
        stored: dict[str, int] = {}
        for move, who, number in moves:
            key, run = f"u{number}", runs[who]
            assert run.worker is not None
            if move == "claim":
                dead.discard(who)
                free = key not in holder or holder[key] in dead or holder[key] == who
                assert claim(run, key) == ([key] if free else [])
                if free:
                    holder[key] = who
            elif move == "store" and key not in stored:
                dead.discard(who)
                with run.writer("play", unit=unit_of) as write:
                    write([episode(f"{key}/0", f"by {who}")])
                if holder.get(key) == who:
                    stored[key] = who
            elif move == "die":
                die(run)
                dead.add(who)
            elif move == "release":
                run.worker.release()
                holder = {name: owner for name, owner in holder.items() if owner != who}
        texts = {e.key: e.turns[0].text for e in runs[0].episodes()}
        assert texts == {f"{key}/0": f"by {who}" for key, who in stored.items()}


# Beginning


def test_one_may_join_while_another_lives_and_must_resume_afterwards(join: Join) -> None:
    one = join()
    two = join()
    assert (one.id, one.fingerprint) == (two.id, two.fingerprint)
    die(one)
    die(two)
    with pytest.raises(StoreError, match="already holds a tournament of now: go on with it by --resume"):
        join()


def test_a_joiner_with_another_config_is_refused(join: Join) -> None:
    with pytest.raises(ResumeError, match="seed: 0 -> 1"):
        join().store.begin("tournament", {**CONFIG, "seed": 1}, "now", share=True)


def test_two_that_begin_in_the_same_moment_begin_one_run(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    first = join()
    store, begin = first.store, Store._begin
    refused = []

    def late(self: Store, *args: object) -> RunHandle:
        if not refused:
            refused.append(True)
            with self._connection() as connection:  # as one that saw no run when it looked
                connection.exec_driver_sql(
                    "insert into runs (id, kind, config, fingerprint, created, status) values (1, 'x', '', '', '', '')"
                )
        return begin(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "_begin", late)
    assert store.begin("tournament", CONFIG, "now", share=True).id == first.id


def test_a_directory_is_not_shared(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store, Store.open(tmp_path) as other:
        assert store.begin("run", CONFIG, "now", share=True).worker is None
        with pytest.raises(StoreError, match="another process"):
            other.begin("run", CONFIG, "now", share=True)


# Growing


def test_named_dicts_of_a_config_may_grow_and_nothing_else(tmp_path: Path) -> None:
    more = {"seed": 0, "agents": {"a": "echo", "b": "silent"}, "arms": {"blind": "x"}}
    grows = ("agents", "arms")
    with Store.open(tmp_path) as store:
        old = store.begin("run", CONFIG, "now")
    for other, change in (
        ({**more, "seed": 1}, "seed: 0 -> 1"),
        ({**more, "agents": {"a": "mute", "b": "silent"}}, 'agents.a: "echo" -> "mute"'),
        ({**more, "agents": {"b": "silent"}}, r'agents.a: "echo" -> \(absent\)'),
        ({**more, "judges": {"j": "exact"}}, r"judges: \(absent\) -> "),
    ):
        with Store.open(tmp_path) as store, pytest.raises(ResumeError, match=change):
            store.begin("run", other, "now", resume=True, grows=grows)
    with Store.open(tmp_path) as store, pytest.raises(ResumeError, match=r"agents\.b: \(absent\) -> "):
        store.begin("run", more, "now", resume=True)
    with Store.open(tmp_path) as store:
        grown = store.begin("run", more, "now", resume=True, grows=grows)
        assert grown.config == more
        assert grown.fingerprint != old.fingerprint
    with Store.open(tmp_path) as store:
        again = store.begin("run", more, "now", resume=True)
        assert (again.config, again.fingerprint) == (more, grown.fingerprint)
        last = {**more, "agents": {**more["agents"], "c": "echo"}}  # type: ignore[dict-item]
        store.begin("run", last, "now", resume=True, grows=grows)
        assert store.run().config == last
        assert store.run().series("config-growth") == {
            0: {"agents": {"b": "silent"}, "arms": {"blind": "x"}},
            1: {"agents": {"c": "echo"}},
        }
    with Store.open(tmp_path) as store, pytest.raises(ResumeError, match=r'agents.b: "silent" -> \(absent\)'):
        store.begin("run", CONFIG, "now", resume=True, grows=grows)


# Stages


@pytest.fixture
def protocol() -> Protocol:
    return load_protocol("debate", {"rounds": 1})


def plans_of(protocol: Protocol, count: int, played: list[str] | None = None) -> list[Plan]:
    def say(ask: object) -> str:
        if played is not None:
            played.append(ask.episode)  # type: ignore[attr-defined]
        return "hear, hear"

    lineup = dict.fromkeys(protocol.speakers, ScriptedAgent("echo", say))
    tasks = [Task(f"t{number}", {"question": "?", "answers": ("x", "y")}, 0) for number in range(count)]
    return [Plan(f"{task.id}/{order}", task, lineup) for task in tasks for order in (0, 1)]


def engine(protocol: Protocol, **options: object) -> Engine:
    return Engine(protocol, JUDGES.build("exact", seed=0), seed=0, **options)  # type: ignore[arg-type]


def never(seconds: float) -> None:
    raise AssertionError("nobody else has anything in hand")


def test_a_stage_is_complete_for_each_whoever_played_it(join: Join, protocol: Protocol) -> None:
    one, two = join(), join()
    by_one: list[str] = []
    by_two: list[str] = []
    told: list[str] = []

    def other(batch: list[Episode]) -> None:
        if not by_two:  # while the first one plays its half the second plays some of the rest
            plans = plans_of(protocol, 20, by_two)
            play_stored(engine(protocol), plans, two, "play", enough=lambda: bool(by_two), wait=never)
        told.extend(e.key for e in batch)

    plans = plans_of(protocol, 20, by_one)
    episodes = play_stored(engine(protocol), plans, one, "play", other, wait=never)
    keys = [plan.key for plan in plans]
    assert [e.key for e in episodes] == keys
    assert by_two
    assert not set(by_one) & set(by_two)
    assert sorted(told) == sorted(keys)  # of all games, and of each once


def test_both_orders_of_a_pair_are_played_by_one(join: Join, protocol: Protocol) -> None:
    one, two, three = join(), join(), join()
    shares = []
    for run in (one, two, three):
        played: list[str] = []
        plans = plans_of(protocol, 7, played)
        given: list[list[Episode]] = []
        play_stored(engine(protocol), plans, run, "play", given.append, enough=lambda given=given: bool(given))
        shares.append(sorted({unit_of(key) for key in played}))
        assert set(played) == {f"{unit}/{order}" for unit in shares[-1] for order in (0, 1)}
    assert [len(share) for share in shares] == [3, 2, 1]  # of 14, 8 and 4 games a third, in whole pairs
    assert len({unit for share in shares for unit in share}) == sum(map(len, shares))


def test_what_others_have_in_hand_is_waited_for_with_growing_pauses(join: Join, protocol: Protocol) -> None:
    one, two = join(), join()
    plans = plans_of(protocol, 3)
    claim(two, "t1")
    pauses: list[float] = []
    told: list[list[str]] = []

    def wait(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            two.add("play", engine(protocol).play(plans[2:4]))

    episodes = play_stored(
        engine(protocol), plans, one, "play", lambda batch: told.append([e.key for e in batch]), wait=wait
    )
    assert [e.key for e in episodes] == [plan.key for plan in plans]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert told[-1] == ["t1/0", "t1/1"]


def test_what_the_dead_had_in_hand_is_taken_over_without_what_they_had_stored(join: Join, protocol: Protocol) -> None:
    one, two = join(), join()
    claim(two, "t0")
    two.add("play", engine(protocol).play(plans_of(protocol, 1)[:1]))
    played: list[str] = []
    plans = plans_of(protocol, 2, played)
    episodes = play_stored(engine(protocol), plans, one, "play", wait=lambda seconds: die(two))
    assert [e.key for e in episodes] == [plan.key for plan in plans]
    assert set(played) == {"t0/1", "t1/0", "t1/1"}


def test_a_budget_is_that_of_the_whole_stage_and_what_is_left_is_free(join: Join, protocol: Protocol) -> None:
    one, two = join(), join()
    plans = plans_of(protocol, 8)
    player = engine(protocol, budget=Budget(turns=14), concurrency=1)
    assert len(play_stored(player, plans, one, "play", wait=never)) == 7  # of two turns each, in more than one go
    assert player.stopped == "turns budget"
    assert len(play_stored(engine(protocol), plans, two, "play", wait=never)) == 16


def test_the_limit_counts_the_verdicts_of_all(join: Join, protocol: Protocol) -> None:
    one, two = join(), join()
    plans = plans_of(protocol, 30)
    failed = Engine(protocol, JUDGES.build("exact", seed=0), seed=0).play(plans[:40])
    for each in failed:
        for verdict in each.verdicts.values():
            verdict.status = type(verdict.status).ABSTAIN
    claim(two, *{unit_of(each.key) for each in failed})
    limit = UndecidedLimit(0.5)
    kept = play_stored(
        engine(protocol), plans, one, "play", limit=limit, wait=lambda s: two.add("play", failed) and None
    )
    assert limit.found.verdicts == len(kept) == 60
    assert limit.passed


def test_enough_is_asked_before_anything_is_played(protocol: Protocol, tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        run = store.begin("run", {}, "now")
        assert play_stored(engine(protocol), plans_of(protocol, 2), run, "play", enough=lambda: True) == []
