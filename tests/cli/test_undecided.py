"""Runs and tournaments stop where too many verdicts cannot be used, and say why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from arena.cli.app import app
from arena.store import Store

TOURNAMENT = """\
tournament: mute
protocol: debate
params: {rounds: 1}
tasks: q.jsonl
n: 15
agents: {ann: "fixed:text=perhaps", bob: "fixed:text=maybe"}
judge: match
"""
PLAY = ("run", "debate", "--set", "rounds=1", "--tasks", "q.jsonl", "--judge", "match", "--concurrency", "1")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.yaml").write_text(TOURNAMENT)
    tasks = [{"id": f"t{i}", "question": f"Q{i}?", "answers": ["yes", "no"], "label": i % 2} for i in range(30)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


def arena(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def plain(result: Result) -> str:
    return " ".join(result.stdout.split())


def stored(folder: str, kind: str) -> int:
    with Store.open(Path(folder)) as store:
        return len(store.run().finished(kind))


def test_a_run_stops_as_soon_as_too_many_verdicts_cannot_be_used_and_keeps_what_it_has() -> None:
    result = arena(*PLAY, "--agent", "*=fixed:text=perhaps", "--out", "first")
    assert result.exit_code == 1, result.output
    assert "The run was stopped with 10 of its episodes unplayed" in result.stderr
    assert "the limit is 50%): 100.0% of 20: 20 parse_error (states none of the 2 answers: 'perhaps')" in result.stderr
    assert "--resume --out first and a larger --max-undecidable" in result.stderr
    assert stored("first", "run") == 20


def test_a_stopped_run_goes_on_with_a_larger_limit_alone() -> None:
    play = (*PLAY, "--agent", "*=fixed:text=perhaps", "--out", "first")
    arena(*play)
    again = arena(*play, "--resume")
    assert (again.exit_code, stored("first", "run")) == (1, 20)
    more = arena(*play, "--resume", "--max-undecidable", "1")
    assert (more.exit_code, stored("first", "run")) == (0, 30)
    assert "undecided 100.0% of 30: 30 parse_error" in plain(more)


def test_the_share_is_printed_where_all_is_well_too_and_the_json_has_it() -> None:
    play = (*PLAY, "--agent", "*=fixed:text=yes", "--n", "3")
    assert "undecided 0.0% of 3" in plain(arena(*play))
    found = json.loads(arena(*play, "--json").stdout)["undecided"]
    assert (found["verdicts"], found["share"], found["too_many"]) == (3, 0.0, False)


def test_the_limit_may_stand_in_a_file_and_below_twenty_verdicts_nothing_stops() -> None:
    Path("run.yaml").write_text("max_undecidable: 0.1\nagents: {'*': 'fixed:text=perhaps'}\n")
    few = arena(*PLAY, "--config", "run.yaml", "--n", "19")
    assert few.exit_code == 0
    many = arena(*PLAY, "--config", "run.yaml", "--json")
    assert many.exit_code == 1
    found = json.loads(many.stdout)["undecided"]
    assert (found["limit"], found["by_status"], found["too_many"]) == (0.1, {"parse_error": 20}, True)
    assert arena(*PLAY, "--agent", "*=fixed:text=yes", "--max-undecidable", "1.5").exit_code == 2


def test_tournaments_stop_too_and_their_file_may_set_the_limit() -> None:
    play = ("tournament", "t.yaml", "--out", "first", "--concurrency", "1")
    result = arena(*play)
    assert result.exit_code == 1, result.output
    assert "undecided" in result.stdout
    assert "The tournament was stopped with 10 of its episodes unplayed" in result.stderr
    assert stored("first", "tournament") == 20
    Path("t.yaml").write_text(f"{TOURNAMENT}max_undecidable: 1\n")
    more = arena(*play, "--resume", "--json")
    assert (more.exit_code, stored("first", "tournament")) == (0, 30)
    assert json.loads(more.stdout)["undecided"]["share"] == 1.0
