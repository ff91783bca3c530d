"""What follows from the games of a tournament, where it is known by hand or by simulation."""

from __future__ import annotations

import itertools
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from arena.cli.plugins import load_plugin
from arena.decisions import Sprt
from arena.protocols.errors import ConfigError
from arena.store import Store
from arena.tournament import Standings, load_tournament, run_tournament

load_plugin(str(Path(__file__).with_name("numbers_game.py")))
game = sys.modules["arena_plugin_numbers_game"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    game.write_tasks(Path("q.jsonl"), 40)


def play(out: str = "cup", **changes: Any) -> Standings:
    config = load_tournament(game.write_file(Path("t.yaml"), **({"bootstrap": 50} | changes)))
    return run_tournament(config, out, created="now")


def rows(standings: Standings, part: str, key: str) -> dict[str, Any]:
    return {row[key]: row for row in standings.analysis[part]}


def test_ratings_are_stored_with_all_that_follows_from_them() -> None:
    standings = play()
    with Store.open("cup", create=False) as store:
        stored = store.run().series("analysis")
    assert stored == {0: standings.analysis}
    json.dumps(standings.analysis, allow_nan=False)
    assert {"roles", "payoffs", "compared", "arms", "truth", "online", "calibration", "rounds", "notes"} <= stored[
        0
    ].keys()


def test_a_cycle_of_three_shows_as_one_and_the_mixture_is_even() -> None:
    """Each beats the next by two tasks of three: the mixture that nobody beats is a third of each."""
    agents = {"rock": "script:says='3 1 2'", "paper": "script:says='1 2 3'", "scissors": "script:says='2 3 1'"}
    found = play(agents=agents, n=3).analysis["payoffs"]
    assert found["nash"] == pytest.approx(dict.fromkeys(agents, 1 / 3), abs=1e-6)
    assert found["transitive_share"] == pytest.approx(0, abs=1e-9)
    (cycle,) = found["cycles"]
    assert set(cycle["agents"]) == set(agents)
    assert cycle["margin"] == pytest.approx(2 / 3 - 1 / 2)


def test_sequential_tests_go_as_their_games_and_stop_before_the_others() -> None:
    agents = {"old": "number:elo=0", "new": "number:elo=400", "same": "number:elo=0"}
    standings = play(agents=agents, n=40, sprt={"elo0": 0, "elo1": 200, "block": 4})
    tests = {(row["first"], row["second"]): row for row in standings.analysis["sprt"]}
    assert list(tests) == [("old", "new"), ("old", "same"), ("new", "same")]
    assert tests["old", "new"]["decision"] == "H1"
    assert tests["new", "same"]["decision"] == "H0"
    played = Counter(tuple(key.split("/")[0].split("|")) for key in keys("cup"))
    for pair, row in tests.items():
        assert len(row["trace"]) == row["pairs"] <= played[pair] // 2
        assert played[pair] // 2 - row["pairs"] < 4  # it stops with the block in which it is decided
        assert (row["decision"] is None) == (row["lower"] < row["trace"][-1] < row["upper"])
    assert played["old", "new"] < 80
    # The trace is that of the test on the points of the pairs.
    points = [2 - sum(scores) for scores in first_scores("cup", "old", "new")]
    assert tests["old", "new"]["trace"] == pytest.approx(Sprt(0, 200).replay(points).trace)


def keys(out: str) -> list[str]:
    with Store.open(out, create=False) as store:
        run = store.run()
        return [key for stage in run.stages() if stage.startswith("tournament") for key in sorted(run.finished(stage))]


def first_scores(out: str, first: str, second: str) -> list[list[float]]:
    """What ``first`` got in both games of each task, by task and order."""
    scores: dict[tuple[int, str], float] = {}
    with Store.open(out, create=False) as store:
        for episode in store.run().episodes():
            if episode.key.startswith(f"{first}|{second}/"):
                assert episode.verdict is not None
                seat = list(episode.lineup.values()).index(first)
                place = int(episode.task[1:]), episode.key[-1]
                scores[place] = episode.verdict.score(episode.sides[seat])
    tasks = sorted({task for task, _ in scores})
    return [[scores[task, "0"], scores[task, "1"]] for task in tasks]


def test_arms_are_measured_between_a_blind_judge_and_one_with_the_evidence() -> None:
    """The blind judge always takes the first answer, right on half of the tasks; the oracle reads the label."""
    standings = play(
        n=20,
        arms={
            "blind": {"protocol": "naive"},
            "oracle": {"protocol": "oracle"},
            "consultancy": {"protocol": "consultancy", "params": {"rounds": 2}, "lineup": "agents"},
            "one": {"protocol": "consultancy", "params": {"rounds": 1}, "lineup": "number:words=4"},
        },
    )
    arms = rows(standings, "arms", "arm")
    assert list(arms) == [
        "debate", "blind", "oracle", "consultancy_ann", "consultancy_bob", "consultancy_cy", "one",
    ]  # fmt: skip
    assert arms["blind"]["accuracy"]["value"] == 0.5
    assert arms["oracle"]["accuracy"]["value"] == 1.0
    # A judge that hears one consultant believes it, who argues each answer once.
    assert arms["one"]["accuracy"]["value"] == 0.5
    assert (arms["blind"]["tokens"], arms["one"]["tokens"], arms["consultancy_ann"]["tokens"]) == (0, 5, 2)
    pairs = {(row["first"], row["second"]): row for row in standings.analysis["arms_compared"]}
    assert pairs["blind", "oracle"]["difference"]["value"] == -0.5
    assert (pairs["blind", "oracle"]["same_tokens"], pairs["blind", "one"]["same_tokens"]) == (True, False)
    gaps = rows(standings, "gap_recovered", "arm")
    assert gaps["one"]["value"] == pytest.approx(0.0)
    assert "blind" not in gaps
    assert keys("cup")
    with Store.open("cup", create=False) as store:
        assert "arm/consultancy_bob" in store.run().stages()


def test_an_arm_may_spend_what_another_one_spent() -> None:
    arms = {
        "talk": {"protocol": "consultancy", "params": {"rounds": 2}, "lineup": "number:words=19"},
        "vote": {
            "protocol": "self-consistency", "params": {"samples": 2}, "lineup": "fixed:text=<answer>yes</answer>",
            "equal_tokens": "talk",
        },
    }  # fmt: skip
    found = rows(play(n=4, arms=arms), "arms", "arm")
    assert found["talk"]["tokens"] == 40
    assert found["vote"]["accuracy"]["value"] == 0.5
    with pytest.raises(ConfigError, match="arm 'talk' sampled no tokens that its agents count"):
        play("none", n=2, arms={**arms, "talk": {**arms["talk"], "lineup": "fixed:text=yes"}}, judge="match")


def test_arms_need_labels() -> None:
    game.write_tasks(Path("q.jsonl"), 4, labels=False)
    with pytest.raises(ConfigError, match="none of these has one: remove 'arms'"):
        play(arms={"blind": {"protocol": "naive"}})
    assert not Path("cup").exists()
    assert {"arms", "truth", "calibration"}.isdisjoint(play().analysis)


def test_what_agents_argue_and_what_the_judge_makes_of_it_is_told_apart() -> None:
    """An agent that is always louder wins right or wrong, so that the judge is right half of the time."""
    standings = play(agents={"loud": "script:says='2'", "low": "script:says='1'"}, n=10)
    truth = rows(standings, "truth", "agent")
    assert [truth["loud"][what]["value"] for what in ("right", "wrong", "accuracy")] == [1.0, 1.0, 0.5]
    assert [truth["low"][what]["value"] for what in ("right", "wrong")] == [0.0, 0.0]
    honesty = standings.analysis["honesty"]
    assert (honesty["honest"]["value"], honesty["dishonest"]["value"]) == (0.5, 0.5)


def test_length_is_taken_out_of_ratings_where_it_decides_games() -> None:
    """Both are equally strong; one talks more, and the judge never heeds it."""
    agents = {"brief": "number:words=1", "wordy": "number:words=9"}
    standings = play(agents=agents, n=40, covariates=["order"])
    fit = standings.analysis["covariates"]
    assert fit["names"] == ["order"]
    (order,) = fit["coefficients"]
    assert order["low"] < 0 < order["high"]
    assert order["value"] == pytest.approx(standings.analysis["roles"]["advantage"]["value"], abs=1e-4)
    told = play("other", agents=agents, n=40, covariates=["length"])
    # With two agents, one of whom always says more, length and strength cannot be told apart.
    assert "covariates" not in told.analysis
    assert any("length" in note for note in told.analysis["notes"])


def test_elo_and_openskill_follow_the_games_in_the_order_of_the_schedule() -> None:
    pytest.importorskip("openskill")
    found = play(n=4, online=["elo", "openskill"]).analysis["online"]
    ratings = dict.fromkeys(("ann", "bob", "cy"), 1000.0)
    for first, second in (("ann", "bob"), ("ann", "cy"), ("bob", "cy")):
        for score in itertools.chain.from_iterable(first_scores("cup", first, second)):
            change = 32 * (score - 1 / (1 + 10 ** ((ratings[second] - ratings[first]) / 400)))
            ratings[first] += change
            ratings[second] -= change
    assert found["elo"] == pytest.approx(ratings)
    assert found["openskill"].keys() == ratings.keys()


def test_further_judges_are_tested_against_the_one_that_decides() -> None:
    standings = play(n=20, judges={"truth": "exact", "half": "match"})
    judges = rows(standings, "judges", "judge")
    assert judges["truth"]["accuracy"]["value"] == 1.0
    assert judges["truth"]["mcnemar_p"] < 1e-3
    assert judges["largest@1"]["mcnemar_p"] is None
    assert judges["half"]["undecidable"] == 1.0  # nobody says 'yes' or 'no'
    assert [rating["elo"] for rating in judges["truth"]["ratings"]] == pytest.approx([0, 0, 0], abs=1e-6)
    assert [rating["name"] for rating in judges["largest@1"]["ratings"]] == [r.name for r in standings.ratings]


def test_several_protocols_are_rated_together_and_apart() -> None:
    two = {"one": {"protocol": "debate", "params": {"rounds": 1}}, "two": {"protocol": "debate-sequential"}}
    standings = play(protocol=None, params=None, protocols=two, n=6)
    assert standings.matches == 3 * 6 * 2 * 2
    tables = standings.analysis["protocols"]
    assert [sum(r["games"] for r in tables[name]["ratings"]) for name in two] == [72, 72]
    assert list(rows(standings, "arms", "arm")) == ["one", "two"]


def test_pairs_are_compared_and_corrected_for_how_many_there_are() -> None:
    found = play(n=20).analysis["compared"]
    assert [(row["first"], row["second"]) for row in found] == [("ann", "bob"), ("ann", "cy"), ("bob", "cy")]
    by_p = sorted(found, key=lambda row: row["p"])
    running = 0.0
    for place, row in enumerate(by_p):  # Holm 1979
        running = max(running, min(1.0, (3 - place) * row["p"]))
        assert row["p_adjusted"] == pytest.approx(running)


def test_ratings_that_a_prior_holds_together_are_compared_under_the_same() -> None:
    standings = play(agents={"loud": "script:says='2'", "low": "script:says='1'"}, n=10)
    assert "prior" in standings.note
    (row,) = standings.analysis["compared"]
    elo = {rating.name: rating.elo for rating in standings.ratings}
    assert row["difference"]["value"] == pytest.approx(elo["loud"] - elo["low"], rel=1e-3)
