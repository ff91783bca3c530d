"""What a dry run says of a tournament before it is played."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from arena.cli.plugins import load_plugin
from arena.protocols.errors import ConfigError
from arena.tournament import load_tournament, run_tournament
from arena.tournament.begun import played_so_far
from arena.tournament.estimate import Estimate, Speed, estimate

load_plugin(str(Path(__file__).with_name("numbers_game.py")))
game = sys.modules["arena_plugin_numbers_game"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    game.write_tasks(Path("q.jsonl"), 10)


def told(*, stored: Any = None, sampled: float | None = None, speed: Speed | None = None, **changes: Any) -> Estimate:
    config = load_tournament(game.write_file(Path("t.yaml"), **({"n": 10} | changes)))
    return estimate(config, stored=stored, sampled=sampled, speed=speed)


FIVE = {f"a{number}": "number" for number in range(5)}


@pytest.mark.parametrize(
    ("changes", "games", "games_are"),
    [
        ({}, 10 * 10 * 2, "exact"),
        ({"schedule": "cross_table"}, 15 * 10 * 2, "exact"),
        ({"schedule": {"kind": "gauntlet", "new": ["a4"]}}, 4 * 10 * 2, "exact"),
        ({"schedule": {"kind": "swiss", "rounds": 3}}, 3 * 2 * 10 * 2, "estimate"),
        ({"schedule": {"kind": "adaptive", "share": 0.5}}, 50 * 2, "exact"),
        ({"schedule": {"kind": "adaptive", "share": 0.9, "batch": 1}}, 90 * 2, "exact"),
        ({"sprt": {"block": 3}}, 10 * 10 * 2, "at most"),
        ({"budget": {"games": 41}}, 40, "at most"),
    ],
    ids=str,
)
def test_games_are_those_of_the_schedule(changes: dict[str, Any], games: int, games_are: str) -> None:
    found = told(agents=FIVE, **changes)
    assert (found.games, found.games_are) == (games, games_are)
    assert found.turns == 2 * games
    assert found.verdicts == games


def test_what_is_estimated_is_what_is_played() -> None:
    changes = {"agents": FIVE, "n": 4, "arms": {"talk": {"protocol": "consultancy", "lineup": "agents"}}}
    changes["judges"] = {"truth": "exact"}
    found = told(**changes)
    played = run_tournament(load_tournament(Path("t.yaml")), "cup", created="now")
    so_far = played_so_far("cup")
    assert so_far is not None
    assert found.games == played.matches == so_far.stages["tournament"]
    assert found.arms == {name.removeprefix("arm/"): n for name, n in so_far.stages.items() if name.startswith("arm/")}
    assert found.rejudged == found.games
    left = told(stored=so_far.stages, **changes)
    assert left.stored == left.games
    assert left.models is not None
    assert "number" not in left.models  # nothing is left to be said


PAID = "openai:model=m,prices=prices.yaml"


def test_cost_is_calls_times_tokens_times_the_price_of_the_table() -> None:
    """A turn of 30 words is 40 tokens at most; its prompt is measured."""
    pytest.importorskip("openai")
    Path("prices.yaml").write_text("m: {input: 1000000, output: 2000000}\n")
    agents = {"ann": PAID, "bob": "number"}
    found = told(agents=agents, n=3, params={"rounds": 1, "words": 30})
    assert found.models is not None
    use = found.models["m"]
    assert use.calls == 3 * 2
    assert use.completion_tokens == 3 * 2 * 40
    assert use.prompt_tokens > 3 * 2 * 50
    assert use.cost == pytest.approx(use.prompt_tokens + 2 * use.completion_tokens)
    assert found.cost == pytest.approx(use.cost)
    assert found.models["number"].cost == 0.0
    shorter = told(agents=agents, n=3, params={"rounds": 1, "words": 30}, sampled=20.0)
    assert shorter.models is not None
    assert shorter.models["m"].completion_tokens == 3 * 2 * 10  # 20 a game, by two agents


def test_a_price_that_is_not_known_is_no_price_of_zero() -> None:
    pytest.importorskip("openai")
    found = told(agents={"ann": "openai:model=who,base_url=http://localhost:1/v1", "bob": "number"})
    assert found.models is not None
    assert found.models["who"].cost is None
    assert found.cost is None


def test_a_judge_that_reads_both_orders_is_asked_twice() -> None:
    pytest.importorskip("openai")
    found = told(judge="llm-api:model=m", n=5)
    assert found.models is not None
    assert found.models["m"].calls == 2 * found.games


def test_time_comes_from_a_speed_that_is_given_or_was_measured() -> None:
    assert told().seconds is None
    assert "--speed" in told().seconds_from
    found = told(speed=Speed(100.0))
    assert found.models is not None
    tokens = sum(use.completion_tokens for name, use in found.models.items() if name == "number")
    assert found.seconds == pytest.approx(tokens / 100)
    by_games = told(agents={"ann": "fixed:text=1", "bob": "fixed:text=2"}, speed=Speed(0.0, 4.0, "measured"))
    assert by_games.seconds == pytest.approx(2 * 10 / 4)


def test_what_was_measured_is_the_mean_over_all_calls() -> None:
    config = load_tournament(game.write_file(Path("t.yaml"), n=2))
    times = iter([0.0, 2.0])
    run_tournament(config, "cup", created="now", clock=lambda: next(times))
    found = played_so_far("cup")
    assert found is not None
    assert found.speed is not None
    assert (found.speed.tokens_per_s, found.speed.games_per_s) == (12.0, 6.0)
    assert found.sampled == 2.0
    assert played_so_far("elsewhere") is None


def test_a_game_that_cannot_be_tried_leaves_tokens_unknown_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*given: object) -> None:
        raise ConfigError("a tried game of protocol 'debate' failed: no sandbox here")

    monkeypatch.setattr("arena.tournament.needs.try_games", failing)
    found = told()
    assert (found.models, found.cost) == (None, None)
    assert found.games == 3 * 10 * 2
    assert "no sandbox here" in found.notes[0]
