"""``arena train`` of a study, and what the other verbs make of its folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import studies
from click.testing import Result
from typer.testing import CliRunner

from arena.cli import study
from arena.cli.app import app
from arena.cli.workers import Job
from arena.protocols.errors import BackendError
from arena.store import Store

RECIPE = """
recipe: poker
summary: bluffing
tasks: kuhn
protocol: kuhn-words
roles: {first: player, second: player}
policies: {player: {model: {kind: tiny, words: "hold J Q K : pass bet ?", hidden: 16}}}
self_play: {learner: {lr: 1.0e-3}, probes: {exact: {kind: nash_conv}}}
evaluation: {tournament: 0}
seeds: [0, 1]
variants: {no_kl: {self_play.learner.kl.beta: 0}}
metrics: {nash_conv: exact.nash_conv.last, gain: "no_kl: exact.nash_conv.last - exact.nash_conv.last"}
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("poker.yaml").write_text(RECIPE)
    monkeypatch.setattr(study, "run_jobs", trained())


def trained(fails: str = "") -> Callable[..., dict[str, Any]]:
    """What stands for the processes: runs that are written at once, one of which may fail."""

    def run_jobs(jobs: Sequence[Job], **_: Any) -> dict[str, Any]:
        for number, job in enumerate(jobs):
            job.log.write_text("no more memory\n")
            if job.name == fails:
                raise BackendError(f"training '{job.name}' failed")
            studies.write_run(job.folder, [2.0, float(number)])
        return {job.name: {"seconds": {"total": 1.5}} for job in jobs}

    return run_jobs


def arena(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def told(*arguments: str) -> str:
    """The message of a verb that is refused."""
    return " ".join(arena(*arguments, code=2).stderr.split())


def test_a_study_ends_with_its_metrics_as_one_line_of_json() -> None:
    found = json.loads(arena("train", "poker.yaml", "--out", "p", "--json").stdout.splitlines()[-1])
    assert found["recipe"] == "poker"
    assert found["seeds"] == [0, 1]
    assert found["metrics"] == {"nash_conv": [0.0, 2.0], "gain": [1.0, 1.0]}
    assert found["seconds"] == [3.0, 3.0]
    seeds = json.loads(arena("train", "poker.yaml", "--seeds", "7", "--json").stdout.splitlines()[-1])["seeds"]
    assert seeds == [7]


def test_a_study_leaves_a_page_and_report_makes_it_anew_with_its_pictures() -> None:
    printed = arena("train", "poker.yaml", "--out", "p").stdout
    assert "report: p/report.html" in printed
    page = Path("p/report.html")
    assert "Bluffing." in page.read_text(encoding="utf-8")
    page.unlink()
    first, *pictures = arena("report", "p", "--figures", "drawn").stdout.splitlines()
    assert first == str(page)
    assert page.is_file()
    assert "drawn/exact-nash-conv.svg" in pictures
    assert Path("drawn/exact-nash-conv.svg").read_text().startswith("<?xml")
    assert arena("report", "p", "--out", "elsewhere/p.html").stdout.strip() == "elsewhere/p.html"
    assert 'href="../p/seed0/report.html"' in Path("elsewhere/p.html").read_text(encoding="utf-8")


def test_a_study_of_which_a_training_failed_tells_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "run_jobs", trained(fails="seed1"))
    arena("train", "poker.yaml", "self_play.steps=3", "--out", "p", "--json", code=1)
    missing = told("report", "p")
    assert "of 4 trainings 2 without results" in missing
    assert "seed1: not finished; p/seed1.log ends with: no more memory" in missing
    assert "no_kl-seed1: not begun" in missing
    assert "arena train poker.yaml self_play.steps=3 --seeds 0,1 --resume --out p" in missing
    monkeypatch.setattr(study, "run_jobs", trained())
    arena("train", "poker.yaml", "self_play.steps=3", "--seeds", "0,1", "--resume", "--out", "p")
    arena("report", "p")


def test_a_study_that_is_there_is_kept() -> None:
    arena("train", "poker.yaml", "--out", "p")
    before = Path("p/study.json").read_text()
    assert "p already holds a study: go on with it by --resume" in told("train", "poker.yaml", "--out", "p")
    assert Path("p/study.json").read_text() == before


@pytest.mark.parametrize("verb", [["ratings"], ["export"], ["judge", "--judge", "exact"]])
def test_a_verb_that_needs_one_run_names_those_of_a_study(verb: list[str]) -> None:
    arena("train", "poker.yaml", "--out", "p")
    for name in ("seed0", "no_kl-seed0"):
        with Store.open(Path("p") / name) as store:
            store.begin("train", {}, created="now")
    assert "such as p/seed0 (there are seed0, no_kl-seed0)" in told(verb[0], "p", *verb[1:])
