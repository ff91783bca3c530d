"""``arena run``: judges by role, budgets, stop reasons, transcripts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app

PROTOCOL = """\
name: talk
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  one: {speak: pro}
  two: {speak: pro, output: {choice: answers}, retries: 1}
  first: {judge: judge}
edges:
  - start -> one -> two -> first
  - {from: first, to: end, when: first.choice == 0, stop: convinced}
  - first -> end
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.yaml").write_text(PROTOCOL)
    tasks = [{"id": f"t{i}", "question": f"Q{i}?", "answers": ["yes", "no"], "label": i % 2} for i in range(4)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


PLAY = ("run", "p.yaml", "--tasks", "q.jsonl", "--agent", "pro=fixed:text=yes")


def arena(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def mistake(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 2, result.output + repr(result.exception)
    return result.stderr


def test_stop_reasons_are_counted_where_not_all_are_the_end() -> None:
    text = arena(*PLAY, "--judge", "exact", "--out", "first")
    assert "stopped by  convinced: 2, end: 2" in text


def test_attempts_that_could_not_be_read_are_counted() -> None:
    arguments = [*PLAY[:-1], "pro=fixed:text=perhaps", "--judge", "exact", "--out", "first"]
    assert "4 ok, 8 parse_error" in arena(*arguments)


def test_judges_are_given_by_role() -> None:
    summary = json.loads(arena(*PLAY, "--judge", "judge=exact", "--out", "first", "--json"))
    assert summary["stops"] == {"convinced": 2, "end": 2}
    assert "'jugde' is not a judging role" in mistake(*PLAY, "--judge", "jugde=exact", "--out", "second")
    assert "--judge is given twice" in mistake(*PLAY, "--judge", "exact", "--judge", "match", "--out", "second")
    assert "--judge fills the role 'judge' twice" in mistake(
        *PLAY, "--judge", "judge=exact", "--judge", "judge=match", "--out", "second"
    )


def test_a_run_that_its_budget_stopped_goes_on_with_a_larger_one_and_is_the_same_in_the_end() -> None:
    whole = json.loads(arena(*PLAY, "--judge", "exact", "--out", "whole", "--json"))
    options = (*PLAY, "--judge", "exact", "--out", "part", "--concurrency", "1")
    text = arena(*options, "--max-turns", "5")
    assert "The run was stopped (turns budget) with 2 of its episodes unplayed." in text
    assert "--resume --out part" in text
    again = arena(*options, "--resume", "--max-turns", "6")
    assert "with 1 of its episodes unplayed" in again
    done = json.loads(arena(*options, "--resume", "--max-turns", "100", "--json"))
    assert {**done, "out": "whole"} == whole
    assert done["missing"] == 0


def test_options_may_come_from_a_file() -> None:
    Path("run.yaml").write_text(
        "protocol: p.yaml\ntasks: q.jsonl\nagents: {pro: 'fixed:text=no'}\njudge: {judge: exact}\nmax_turns: 4\n"
    )
    summary = json.loads(arena("run", "--config", "run.yaml", "--out", "first", "--concurrency", "1", "--json"))
    assert (summary["episodes"], summary["missing"], summary["stopped"]) == (2, 2, "turns budget")


def test_show_prints_whole_transcripts() -> None:
    text = arena(*PLAY, "--judge", "exact", "--out", "first", "--show", "2")
    assert text.count("two") >= 2
    assert "t0" in text
    assert "t1" in text
    assert "t2" not in text
