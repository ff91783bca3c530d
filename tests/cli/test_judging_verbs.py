"""``arena audit`` and ``arena judge`` as a user and a script meet them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from arena.cli.app import app

FINAL = [
    "accuracy",
    "position_bias",
    "length_bias",
    "self_preference",
    "brier",
    "ece",
    "mcc",
    "order_consistency",
    "decidable",
    "undecidable",
]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tasks = [{"id": f"t{n}", "question": "Yes?", "answers": ["yes", "no"], "label": n % 2} for n in range(6)]
    Path("q.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks))


def arena(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout if code == 0 else result.output


def test_an_audit_prints_one_document_on_one_line(tmp_path: Path) -> None:
    printed = arena(
        "audit", "biased:accuracy=.75,position=.5", "--tasks", "q.jsonl", "--seed", "1", "--json", "--out", "a"
    )
    assert len(printed.splitlines()) == 1
    found = json.loads(printed)
    assert list(found)[-10:] == FINAL
    assert {"value", "low", "high"} <= set(found["position_bias"])
    assert found["questions"] == 6
    assert (tmp_path / "a" / "report.html").is_file()


def test_an_audit_prints_tables_and_where_the_page_is() -> None:
    printed = arena("audit", "exact", "--tasks", "q.jsonl", "--with", "biased:accuracy=.6", "--out", "a", "--n", "4")
    for text in (
        "accuracy",
        "1.000 [",
        "position: shown first",
        "compared with",
        "Fleiss' kappa of all 2",
        "report.html",
    ):
        assert text in printed
    assert "not measured" in printed


def test_the_report_of_an_audit_can_be_written_again(tmp_path: Path) -> None:
    arena("audit", "exact", "--tasks", "q.jsonl", "--out", "a")
    (tmp_path / "a" / "report.html").unlink()
    assert "report.html" in arena("report", "a")
    assert "Audit of exact" in (tmp_path / "a" / "report.html").read_text()


def test_an_audit_that_is_there_is_not_begun_again() -> None:
    first = arena("audit", "exact", "--tasks", "q.jsonl", "--out", "a", "--json")
    assert "already holds" in arena("audit", "exact", "--tasks", "q.jsonl", "--out", "a", code=2)
    again = json.loads(arena("audit", "exact", "--tasks", "q.jsonl", "--out", "a", "--resume", "--json"))
    assert again == json.loads(first)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "exact"], "either --tasks"),
        (["audit", "exact", "--tasks", "q.jsonl", "--resume"], "--resume needs --out"),
        (["audit", "exakt", "--tasks", "q.jsonl"], "Did you mean 'exact'"),
        (["judge", "nowhere", "--judge", "exact"], "holds no run"),
    ],
)
def test_mistakes_end_with_2(arguments: list[str], message: str) -> None:
    assert message in arena(*arguments, code=2)


def test_a_run_is_judged_again() -> None:
    play = ["run", "debate", "--tasks", "q.jsonl", "--agent", "*=fixed:text=yes", "--judge", "exact", "--out", "r"]
    arena(*play)
    printed = arena("judge", "r", "--judge", "match")
    for text in ("exact@", "match@", "both chose", "Cohen's kappa", "McNemar"):
        assert text in printed
    found = json.loads(arena("judge", "r", "--judge", "match", "--resume", "--json"))
    assert found["original"]["accuracy"]["value"] == 1.0
    assert found["judge"]["accuracy"]["value"] == 0.5
    assert "judged by match@" in Path(arena("report", "r").strip()).read_text()


def test_what_is_judged_already_is_shown_again_by_resume() -> None:
    arena("run", "debate", "--tasks", "q.jsonl", "--agent", "*=fixed:text=yes", "--judge", "exact", "--out", "r")
    first = json.loads(arena("judge", "r", "--judge", "match", "--json"))
    refused = " ".join(arena("judge", "r", "--judge", "match", code=2).split())
    assert "already holds verdicts on 6 of 6 transcripts: add --resume" in refused
    assert json.loads(arena("judge", "r", "--judge", "match", "--resume", "--json")) == first
