"""What the report of a stored run says about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena.reporting import run_section
from arena.running import RunConfig, run_episodes
from arena.store import Store


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "tasks.jsonl"
    rows = [{"id": f"q{number}", "question": "?", "answers": ["x", "y"], "label": 0} for number in range(3)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def facts(questions: Path, out: Path, **options: Any) -> dict[str, Any]:
    config = RunConfig("debate-sequential", str(questions), **options)
    run_episodes(config, out, created="2026-01-31")
    with Store.open(out, create=False) as store:
        return dict(run_section(store.run()).facts)


def test_stop_reasons_are_shown_where_something_stopped_early(questions: Path, tmp_path: Path) -> None:
    agents, judges = {"*": "fixed:text=x"}, {"*": "exact"}
    early = facts(questions, tmp_path / "early", agents=agents, judges=judges, params={"precommit": True})
    assert early["stopped by"] == "3 consensus"
    full = facts(questions, tmp_path / "full", agents=agents, judges=judges)
    assert "stopped by" not in full


def test_judges_are_shown_by_seat(questions: Path, tmp_path: Path) -> None:
    shown = facts(questions, tmp_path / "run", agents={"*": "fixed:text=x"}, judges={"judge": "exact"})
    assert shown["judge"] == "judge: exact"
