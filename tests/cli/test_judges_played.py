"""Judges of several people: panels, planted biases and a person, in runs, selections and tournaments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from arena.cli.app import app
from arena.store import Store

PANEL = "panel:judges=[exact, biased],rule=majority"


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = [{"id": f"t{i}", "question": f"Q{i}?", "answers": ["yes", "no"], "label": i % 2} for i in range(4)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


PLAY = ("run", "debate", "--set", "rounds=1", "--tasks", "q.jsonl", "--agent", "*=fixed:text=so", "--out", "first")


def arena(*arguments: str, typed: str | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments), input=typed)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def test_a_panel_judges_a_run_and_its_members_are_stored() -> None:
    arena(*PLAY, "--judge", PANEL)
    with Store.open(Path("first")) as store:
        verdicts = [episode.verdict for episode in store.run().episodes()]
    for verdict in verdicts:
        assert verdict is not None
        assert [member["judge"].partition("@")[0] for member in verdict.evidence["members"]] == ["exact", "biased"]


def test_a_panel_selects_the_best_of_n() -> None:
    play = ("run", "debate-best-of-n", "--tasks", "q.jsonl", "--agent", "*=fixed:text=so", "--judge", PANEL, "--n", "2")
    assert json.loads(arena(*play, "--json").stdout)["undecided"]["undecidable"] == 0


def test_a_biased_judge_rates_a_tournament() -> None:
    Path("t.yaml").write_text(
        "tournament: cup\nprotocol: debate\nparams: {rounds: 1}\ntasks: q.jsonl\nn: 4\n"
        "agents: {ann: 'fixed:text=a', bob: 'fixed:text=b'}\njudge: 'biased:accuracy=.7'\n"
    )
    standings = json.loads(arena("tournament", "t.yaml", "--json").stdout)
    assert (standings["matches"], standings["undecided"]["verdicts"]) == (8, 8)


def test_a_person_judges_one_case_after_the_other_and_may_leave_and_come_back() -> None:
    left = arena(*PLAY, "--judge", "human:name=ann", typed="yes\n80\n\nno\n90\nBetter.\n\n", code=1)
    told = " ".join(left.stderr.split())
    assert "stopped (cancelled: ann has left: the input has ended) with 2 of its episodes unplayed" in told
    assert "Go on by --resume --out first." in told
    with Store.open(Path("first")) as store:
        verdicts = [episode.verdict for episode in store.run().episodes()]
    assert [verdict.choice for verdict in verdicts if verdict] == [0, 1]
    assert [verdict.evidence["explanation"] for verdict in verdicts if verdict] == ["", "Better."]
    again = arena(*PLAY, "--judge", "human:name=ann", "--resume", "--json", typed="", code=1)
    assert json.loads(again.stdout)["missing"] == 2
    assert "2 of its episodes unplayed" in again.stderr
    rest = arena(*PLAY, "--judge", "human:name=ann", "--resume", "--json", typed="yes\n70\n\n" * 2)
    assert json.loads(rest.stdout)["accuracy"]["decidable"] == 4


@pytest.mark.parametrize("kind", ["panel", "human", "biased"])
def test_the_judges_are_listed_with_a_line_each(kind: str) -> None:
    listed = json.loads(arena("ls", "judges", "--json").stdout)
    assert kind in json.dumps(listed)
