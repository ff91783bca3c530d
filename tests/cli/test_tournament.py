"""``arena tournament`` and ``arena ratings`` as they are typed."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from rich.console import Console
from typer.testing import CliRunner

from arena.cli.app import app
from arena.cli.board import Board
from arena.cli.plugins import load_plugin
from arena.tournament import Live
from arena.tournament.standings import HowRated

NUMBERS = Path(__file__).parents[1] / "arena" / "numbers_game.py"
load_plugin(str(NUMBERS))
game = sys.modules["arena_plugin_numbers_game"]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    game.write_tasks(Path("q.jsonl"), 12)


def file(**changes: Any) -> None:
    game.write_file(Path("t.yaml"), **({"bootstrap": 20} | changes))


def arena(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def plain(text: str) -> str:
    return " ".join(text.split())


def test_a_tournament_ends_with_ratings_and_all_that_follows_from_its_games() -> None:
    file(
        n=12,
        sprt={"elo0": 0, "elo1": 150, "block": 4},
        judges={"truth": "exact"},
        arms={"blind": {"protocol": "naive"}, "oracle": {"protocol": "oracle"}},
        covariates=["order"],
    )
    told = plain(arena("tournament", "t.yaml", "--out", "cup").stdout)
    for part in (
        "agent Elo 95 % interval ranks games", "the seat 'proponent' is worth", "mixture that nobody beats",
        "pairs of agents",
        "sequential tests", "cy better than ann?", "what else decides games", "judge accuracy by arm", "gap recovered",
        "wins by what is argued", "the same transcripts before other judges", "decided games",
    ):  # fmt: skip
        assert part in told
    again = plain(arena("ratings", "cup").stdout)
    assert told.startswith(again)
    found = json.loads(arena("ratings", "cup", "--json").stdout)
    assert found["ratings"][0]["name"] == "cy"
    assert {row["arm"] for row in found["analysis"]["arms"]} == {"debate", "blind", "oracle"}


def test_one_who_joins_is_named_on_the_command_line_and_remembered() -> None:
    file(n=4)
    arena("tournament", "t.yaml", "--out", "cup")
    more = json.loads(arena("tournament", "t.yaml", "--out", "cup", "--add", "dan=number:elo=300", "--json").stdout)
    assert more["matches"] == 6 * 4 * 2
    assert more["ratings"][0]["name"] == "dan"
    again = json.loads(arena("tournament", "t.yaml", "--out", "cup", "--resume", "--json").stdout)
    assert again["ratings"] == more["ratings"]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (["--add", "dan"], "--add 'dan' is not NAME=SPEC"),
        (["--add", "number:elo=3"], "is not NAME=SPEC"),
        (["--add", "dan=number", "--add", "dan=number"], "--add names 'dan' twice"),
        (["--add", "dan=number"], "--add needs --out DIR: the tournament to join"),
        (["--resume"], "--resume needs --out DIR"),
        (["--add", "dan=numbr", "--out", "cup"], "holds no tournament that dan could join"),
        (["--speed", "5"], "--speed is for the time that --dry-run tells"),
        (["--add", "dan=numbr", "--dry-run"], "Did you mean 'number'"),
    ],
    ids=str,
)
def test_mistakes_on_the_command_line_are_told_plainly(options: list[str], fault: str) -> None:
    file()
    result = arena("tournament", "t.yaml", *options, code=2)
    assert fault in plain(result.stderr)
    assert not Path("cup").exists()


def test_a_dry_run_says_which_of_its_numbers_are_estimates() -> None:
    file(schedule={"kind": "swiss", "rounds": 2}, arms={"blind": {"protocol": "naive"}}, judges={"truth": "exact"})
    told = plain(arena("tournament", "t.yaml", "--dry-run", "--speed", "10").stdout)
    for part in (
        "schedule swiss", "rounds 2", "games 24 (estimate: pairings depend on results)", "games of arm blind 6",
        "verdicts of further judges 24", "tokens in (estimate)", "US dollars (estimate)", "no bill", "time: about",
    ):  # fmt: skip
        assert part in told
    assert list(Path().glob("arena-runs*")) == []


def test_a_dry_run_of_what_was_begun_counts_what_is_left() -> None:
    file(n=4, budget={"games": 10})
    arena("tournament", "t.yaml", "--out", "cup")
    file(n=4)
    found = json.loads(arena("tournament", "t.yaml", "--out", "cup", "--dry-run", "--json").stdout)
    assert (found["games"], found["stored"]) == (24, 10)
    assert "measured over 10 games" in found["seconds_from"]
    with_dan = json.loads(
        arena("tournament", "t.yaml", "--out", "cup", "--add", "dan=number", "--dry-run", "--json").stdout
    )
    assert with_dan["games"] == 48


def test_a_spent_budget_is_told_with_the_way_on() -> None:
    file(n=4, budget={"games": 10})
    told = plain(arena("tournament", "t.yaml", "--out", "cup").stdout)
    assert "The tournament was stopped (games budget) with 14 of its games unplayed" in told
    assert "Go on by --resume --out cup and a larger budget." in told


def test_two_agents_who_never_sat_alike_are_shown_without_seats() -> None:
    file(agents={"ann": "script:says='1'", "bob": "script:says='2'"}, n=2)
    assert "bob" in arena("tournament", "t.yaml", "--out", "cup").stdout


def test_progress_is_lines_on_standard_error_and_none_beside_json() -> None:
    file(n=4)
    assert "24 of 24" in arena("tournament", "t.yaml", "--out", "one").stderr
    assert arena("tournament", "t.yaml", "--out", "two", "--json").stderr == ""


def live(**changes: Any) -> Live:
    found = Live(HowRated(bootstrap=10), names=("ann", "bob"), stage="games", total=40)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def test_the_board_of_a_terminal_shows_standings_with_intervals_and_what_is_left() -> None:
    from arena.ratings import Match

    times = iter(float(second) for second in range(0, 1000, 5))
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100, height=40, color_system=None)
    matches = [
        Match(first, second, score, task=f"t{number}")
        for number in range(12)
        for first, second, score in (("ann", "bob", float(number % 3 > 0)), ("bob", "ann", float(number % 4 == 0)))
    ]
    with Board(console=console, clock=lambda: next(times)) as board:
        board.watch(live(done=24, tokens=50, matches=matches, open_end=True))
    shown = plain(text.getvalue())
    assert [line for line in text.getvalue().splitlines() if "tokens/s" in line and "━" in line] == []
    assert "agent Elo 95 % interval games" in shown
    assert shown.index("ann") < shown.index("bob")
    assert "round 1 24 of 40" in shown
    assert "tokens/s" in shown
    assert "16 left, and what later rounds ask for" in shown


def test_lines_come_at_the_end_of_a_stage_and_now_and_then() -> None:
    now = [0.0]
    text = io.StringIO()
    board = Board(console=Console(file=text, width=100), clock=lambda: now[0])
    for done, second in ((0, 0.0), (5, 1.0), (9, 2.0), (12, 40.0), (13, 41.0), (40, 42.0)):
        now[0] = second
        board.watch(live(done=done))
    assert [line.split("games")[1].strip() for line in text.getvalue().splitlines()] == [
        "0 of 40", "12 of 40", "40 of 40",
    ]  # fmt: skip


def test_a_tournament_whose_person_leaves_ends_with_one_and_says_how_to_go_on() -> None:
    file(n=2, agents={"ann": "number", "bob": "human:name=bob"})
    left = arena("tournament", "t.yaml", "--out", "spoken", code=1)
    told = plain(left.stderr)
    assert "was stopped (cancelled: bob has left: the input has ended) with 4 of its episodes unplayed" in told
    assert "Go on by --resume --out spoken." in told
    assert "was stopped" not in left.stdout
    file(n=2, agents={"ann": "number", "bob": "number:elo=50"}, judge="human:name=cy")
    assert json.loads(arena("tournament", "t.yaml", "--out", "judged", "--json", code=1).stdout)["missing"] == 4


def test_a_person_who_judges_games_again_may_leave_and_come_back() -> None:
    file(n=1, agents={"ann": "number", "bob": "number:elo=50"}, judges={"cy": "human:name=cy"})
    invoke = CliRunner().invoke
    left = invoke(app, ["tournament", "t.yaml", "--out", "cup"], input="yes\n80\n\n")
    assert left.exit_code == 1
    told = plain(left.stderr)
    assert (
        "(cy has left: the input has ended) with 1 of 2 games not judged by 'cy'. Go on by --resume --out cup." in told
    )
    done = invoke(app, ["tournament", "t.yaml", "--out", "cup", "--resume", "--json"], input="no\n90\n\n")
    assert done.exit_code == 0, done.output
    (judged,) = [row for row in json.loads(done.stdout)["analysis"]["judges"] if row["judge"] == "cy"]
    assert judged["undecidable"] == 0
