"""Tournaments as they are played, stopped, resumed and joined."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from arena.agents import AGENTS, Act, Ask, ScriptedAgent
from arena.agents.prices import Price, Usage
from arena.cli.plugins import load_plugin
from arena.protocols.errors import ConfigError, ResumeError, StoreError
from arena.rejudging import rejudge
from arena.store import Store
from arena.tournament import Live, Standings, load_tournament, run_tournament

load_plugin(str(Path(__file__).with_name("numbers_game.py")))
game = sys.modules["arena_plugin_numbers_game"]

SCHEDULES: dict[str, dict[str, Any]] = {
    "round_robin": {},
    "sprt": {"sprt": {"elo1": 300, "block": 2}},
    "swiss": {"schedule": {"kind": "swiss", "rounds": 3}},
    "gauntlet": {"schedule": {"kind": "gauntlet", "new": ["cy"]}},
    "ladder": {"schedule": "ladder"},
    "cross_table": {"schedule": "cross_table"},
    "adaptive": {"schedule": {"kind": "adaptive", "share": 0.6, "batch": 3}},
    "two_protocols": {
        "protocol": None,
        "params": None,
        "protocols": {"one": {"protocol": "debate", "params": {"rounds": 1}}, "two": {"protocol": "debate-sequential"}},
    },
}
FOUR = {name: f"number:elo={elo}" for name, elo in (("ann", 0), ("bob", 100), ("cy", 200), ("dan", 300))}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    game.write_tasks(Path("q.jsonl"), 12)


def play(
    out: str, *, resume: bool = False, add: dict[str, Any] | None = None, watch: Any = None, **changes: Any
) -> Standings:
    config = load_tournament(game.write_file(Path("t.yaml"), **({"agents": FOUR, "bootstrap": 20} | changes)))
    return run_tournament(config, out, created="now", resume=resume, add=add, concurrency=4, watch=watch)


def games(out: str) -> dict[str, str]:
    """Key -> transcript, whatever the order in which they were stored."""
    with Store.open(out, create=False) as store:
        return {json.loads(line)["key"]: line for line in store.run().lines()}


def tables(standings: Standings) -> Any:
    return [asdict(rating) for rating in standings.ratings], standings.note, standings.matches, standings.analysis


@pytest.mark.parametrize("changes", SCHEDULES.values(), ids=SCHEDULES)
def test_a_tournament_that_is_stopped_again_and_again_ends_like_one_that_was_not(changes: dict[str, Any]) -> None:
    whole = play("whole", **changes)
    budget, stopped = 13, play("parts", budget={"games": 13}, **changes)
    while stopped.stopped:
        assert stopped.stopped == "games budget"
        assert stopped.missing > 0
        assert len(games("parts")) <= budget
        budget += 13
        stopped = play("parts", resume=True, budget={"games": budget}, **changes)
    assert games("parts") == games("whole")
    assert tables(stopped) == tables(whole)
    assert stopped.rounds == whole.rounds


def test_the_stronger_stand_higher_and_both_orders_of_a_pair_share_a_task() -> None:
    standings = play("cup", n=12)
    assert [rating.name for rating in standings.ratings] == ["dan", "cy", "bob", "ann"]
    assert standings.matches == 6 * 12 * 2
    orders: dict[str, set[tuple[str, ...]]] = {}
    for line in games("cup").values():
        episode = json.loads(line)
        orders.setdefault(episode["key"].rpartition("/")[0], set()).add(tuple(episode["lineup"].values()))
    assert {len(seats) for seats in orders.values()} == {2}


@pytest.mark.parametrize("name", ["round_robin", "swiss", "ladder", "adaptive", "cross_table"])
def test_who_is_added_plays_only_what_is_missing_and_is_remembered(name: str) -> None:
    changes = {"anchor": "ann", **SCHEDULES[name]}
    play("cup", **changes)
    before = games("cup")
    joined = play("cup", add={"eve": "number:elo=400"}, **changes)
    after = games("cup")
    assert before.items() <= after.items()
    new = [json.loads(line)["lineup"].values() for key, line in after.items() if key not in before]
    assert new
    if name != "adaptive":  # which also knows better whom to ask about then
        assert all("eve" in seated for seated in new)
    assert "eve" in [rating.name for rating in joined.ratings]
    # The file does not name her, but the tournament does.
    again = play("cup", resume=True, **changes)
    assert games("cup") == after
    assert tables(again) == tables(joined)


def test_an_adaptive_tournament_plays_close_pairs_on_more_tasks_than_a_round_robin_has() -> None:
    close = {"ann": "number:elo=-2000", "bob": "number", "cy": "number", "dan": "number:elo=2000"}
    changes = {"agents": close, "n": 2, "arms": {"blind": {"protocol": "naive"}, "oracle": {"protocol": "oracle"}}}
    changes["schedule"] = {"kind": "adaptive", "share": 1.0, "batch": 2}
    found = play("cup", **changes)
    assert found.matches == 6 * 2 * 2  # as a round robin on two tasks
    keys = [key for key in games("cup") if key.startswith("bob|cy/")]
    assert len(keys) > 2 * 2
    # Arms play the n tasks, and the games beside them are of these alone.
    tasks = {json.loads(line)["task"] for line in games("cup").values() if json.loads(line)["key"].startswith("arm/")}
    assert tasks == {"t0", "t1"}
    game.write_tasks(Path("q.jsonl"), 3)
    with pytest.raises(ResumeError, match="tasks_fingerprint"):
        play("cup", resume=True, **changes)


def test_a_join_that_was_interrupted_goes_on_by_resume_alone() -> None:
    play("whole", n=4)
    play("whole", n=4, add={"eve": "number:elo=400"})
    play("cup", n=4)
    play("cup", n=4, add={"eve": "number:elo=400"}, budget={"games": 60})
    assert 48 < len(games("cup")) <= 60
    play("cup", n=4, resume=True)
    assert games("cup") == games("whole")


def test_a_name_in_the_file_joins_as_one_that_is_added() -> None:
    play("cup", n=4)
    more = {**FOUR, "eve": "number:elo=400"}
    play("cup", n=4, resume=True, agents=more)
    play("other", n=4)
    play("other", n=4, add={"eve": "number:elo=400"})
    assert games("cup") == games("other")


def test_who_joins_is_new_and_there_is_something_to_join() -> None:
    with pytest.raises(ConfigError, match="none holds no tournament that eve could join"):
        play("none", add={"eve": "number"})
    assert not Path("none").exists()
    play("cup", n=2)
    with pytest.raises(ConfigError, match="has an agent 'ann' already"):
        play("cup", n=2, add={"ann": "number:elo=5"})
    play("cup", n=2, add={"ann": "number:elo=0"})  # again, after a join that was killed


def test_whatever_decides_games_cannot_change_and_what_does_not_may() -> None:
    play("cup", n=2)
    for changes in ({"n": 3}, {"judge": "match"}, {"schedule": "ladder"}, {"sprt": {"block": 1}}, {"seed": 1}):
        with pytest.raises(ResumeError):
            play("cup", resume=True, **{"n": 2, **changes})
    with pytest.raises(StoreError, match="already holds a tournament"):
        play("cup", n=2)
    fewer = {name: spec for name, spec in FOUR.items() if name != "dan"}
    with pytest.raises(ResumeError, match="dan"):
        play("cup", resume=True, n=2, agents=fewer)
    told = play(
        "cup", resume=True, n=2, ties="half", intervals="profile", bootstrap=50, correction="bh", covariates=["order"],
        judges={"truth": "exact"}, arms={"blind": {"protocol": "naive"}}, online=[],
    )  # fmt: skip
    assert {"judges", "arms", "covariates"} <= told.analysis.keys()
    assert "online" not in told.analysis


def test_tokens_that_are_spent_stop_a_tournament_which_goes_on_with_more() -> None:
    agents = {name: f"{spec},words=9" for name, spec in FOUR.items()}
    whole = play("whole", agents=agents, n=3)
    part = play("part", agents=agents, n=3, budget={"tokens": 200})
    assert part.stopped == "tokens budget"
    assert 0 < len(games("part")) <= 10 + 4  # what was in flight ends with its superstep
    assert tables(play("part", agents=agents, n=3, resume=True)) == tables(whole)


def test_verdicts_that_cannot_be_used_stop_it_and_leave_no_arm_begun() -> None:
    mute = {"ann": "script:says=-1", "bob": "script:says=1"}
    found = play("cup", agents=mute, n=12, arms={"blind": {"protocol": "naive"}})
    assert (found.undecided.too_many, found.stopped, found.missing) == (True, "", 4)
    assert [key for key in games("cup") if key.startswith("arm/")] == []


def test_an_agent_that_meets_itself_exchanges_sides_and_moves_no_rating() -> None:
    play("cup", schedule="cross_table", n=2)
    sides = {}
    for line in games("cup").values():
        episode = json.loads(line)
        if episode["key"].startswith("ann|ann/"):
            sides[episode["key"]] = tuple(episode["sides"])
    assert sides == {
        "ann|ann/t0/0": (0, 1), "ann|ann/t0/1": (1, 0), "ann|ann/t1/0": (1, 0), "ann|ann/t1/1": (0, 1),
    }  # fmt: skip
    assert all(rating.games == 3 * 2 * 2 for rating in play("cup", resume=True, schedule="cross_table", n=2).ratings)


def test_further_judges_are_asked_once_about_each_transcript() -> None:
    first = play("cup", n=3, judges={"truth": "exact"})
    with Store.open("cup", create=False) as store:
        asked = store.run().series("judged/truth")
    assert sum(map(len, asked.values())) == first.matches
    again = play("cup", resume=True, n=3, judges={"truth": "exact", "match": "match"})
    with Store.open("cup", create=False) as store:
        assert store.run().series("judged/truth") == asked
    assert [row["judge"] for row in again.analysis["judges"]] == ["largest@1", "truth", "match"]
    assert again.analysis["judges"][1]["accuracy"]["value"] == 1.0


def test_who_watches_is_told_of_every_stage_and_may_ask_for_ratings() -> None:
    seen: list[tuple[str, int, int]] = []
    ranked: list[list[str]] = []

    def watch(live: Live) -> None:
        seen.append((live.stage, live.done, live.total))
        if live.stage == "games" and live.done == live.total:
            ranked.append([rating.name for rating in live.ratings()])

    play("cup", n=4, arms={"blind": {"protocol": "naive"}}, judges={"truth": "exact"}, watch=watch)
    assert seen[0] == ("games", 0, 48)
    assert ("games", 48, 48) in seen
    assert ("arm blind", 4, 4) in seen
    assert seen[-1] == ("judge truth", 48, 48)
    assert set(ranked[0]) == set(FOUR)


def test_resumed_watching_begins_with_what_is_stored() -> None:
    play("cup", n=4, budget={"games": 20})
    seen: list[tuple[int, int, int]] = []
    play("cup", n=4, resume=True, watch=lambda live: seen.append((live.done, live.total, len(live.matches))))
    assert seen[0] == (20, 48, 20)
    assert seen[-1] == (48, 48, 48)


def test_the_speed_of_each_call_is_kept() -> None:
    config = load_tournament(game.write_file(Path("t.yaml"), n=2))
    times = iter([10.0, 14.0])
    run_tournament(config, "cup", created="now", clock=lambda: next(times))
    with Store.open("cup", create=False) as store:
        assert store.run().series("speed") == {0: {"games": 12, "tokens": 24, "seconds": 4.0}}


@pytest.fixture
def bill(monkeypatch: pytest.MonkeyPatch) -> Usage:
    """What an agent ``paid`` has used; a dollar an answer."""
    used = Usage("paid", Price(input=0, output=1e6))

    def build() -> ScriptedAgent:
        def say(ask: Ask) -> Act:
            used.add(1, 0, 1, 0)
            return Act("1")

        agent = ScriptedAgent("paid", say)
        agent.usage = used  # type: ignore[attr-defined]
        return agent

    AGENTS.register("paid", summary="costs a dollar an answer")(build)
    return used


def test_money_that_is_spent_stops_a_tournament_and_counts_when_it_goes_on(bill: Usage) -> None:
    agents = {"ann": "paid", "bob": "number:elo=0"}
    part = play("cup", agents=agents, n=8, budget={"cost": 6})
    assert part.stopped == "cost budget"
    assert part.missing > 0
    spent = bill.calls
    assert 6 <= spent <= 6 + 4  # what was in flight
    bill.calls = bill.completion_tokens = 0  # another process begins to count anew
    again = play("cup", agents=agents, n=8, resume=True, budget={"cost": 6})
    assert (again.stopped, bill.calls) == ("cost budget", 0)
    done = play("cup", agents=agents, n=8, resume=True, budget={"cost": 100})
    assert (done.stopped, done.missing, done.matches) == ("", 0, 16)
    assert spent + bill.calls == 16


def test_arms_are_not_begun_without_money(bill: Usage) -> None:
    arms = {"talk": {"protocol": "consultancy", "lineup": "ann"}}
    found = play("cup", agents={"ann": "paid", "bob": "number:elo=0"}, n=2, arms=arms, budget={"cost": 4})
    assert (found.stopped, found.missing, bill.calls) == ("cost budget", 4, 4)


def test_transcripts_that_are_judged_again_are_the_rated_ones() -> None:
    played = play("cup", n=4, arms={"talk": {"protocol": "consultancy", "lineup": "ann"}})
    comparison, _ = rejudge(Path("cup"), "exact", created="now")
    assert comparison.both == played.matches
    two = {"one": {"protocol": "debate"}, "two": {"protocol": "debate-sequential"}}
    play("two", n=2, protocol=None, params=None, protocols=two)
    with pytest.raises(ConfigError, match="holds games of several protocols"):
        rejudge(Path("two"), "exact", created="now")


def test_a_smaller_budget_takes_nothing_back() -> None:
    first = play("cup", n=4, budget={"games": 30})
    second = play("cup", n=4, resume=True, budget={"games": 4})
    assert (first.matches, second.matches) == (30, 30)
    assert tables(first) == tables(second)


def test_a_further_judge_that_fails_costs_no_ratings(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = play("whole", judges={"other": "largest"})

    def fail(*of: Any) -> Any:
        raise OSError("the judge is gone")

    with monkeypatch.context() as gone:
        gone.setattr("arena.tournament.play.judge_again", fail)
        with pytest.raises(OSError, match="the judge is gone"):
            play("cup", judges={"other": "largest"})
    with Store.open("cup", create=False) as store:
        (row,) = store.run().series("ratings").values()
    assert [rating["elo"] for rating in row["ratings"]] == [rating.elo for rating in whole.ratings]
    assert tables(play("cup", resume=True, judges={"other": "largest"})) == tables(whole)
