"""What the report of a stored run says about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena.reporting import run_section
from arena.running import RunConfig, run_episodes
from arena.store import Store
from arena.tournament import run_tournament
from arena.tournament.config import PlayedProtocol, TournamentArm, TournamentConfig


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


@pytest.fixture
def cup(tmp_path: Path) -> Path:
    """Two protocols, a schedule of several rounds, arms: what is stored in stages of different kinds."""
    tasks = tmp_path / "even.jsonl"
    rows = [{"id": f"q{n}", "question": "?", "answers": ["x", "y"], "label": n % 2} for n in range(6)]
    tasks.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    config = TournamentConfig(
        tournament="cup",
        protocols={
            "short": PlayedProtocol(protocol="debate", params={"rounds": 1}),
            "in-turn": PlayedProtocol(protocol="debate-sequential", params={"rounds": 1}),
        },
        tasks=str(tasks),
        agents={name: f"fixed:text={text}" for name, text in (("a", "x"), ("b", "y y"), ("c", "z z z"), ("d", "w"))},
        judge="biased:accuracy=.7,length=.5",
        judges={"second": "biased:accuracy=.8"},
        schedule="swiss:rounds=2",
        arms={"blind": TournamentArm(protocol="naive")},
    )
    out = tmp_path / "cup"
    run_tournament(config, out, created="2026-01-31")
    return out


def test_what_a_tournament_shows_is_of_its_rated_games(cup: Path) -> None:
    with Store.open(cup, create=False) as store:
        run = store.run()
        section = run_section(run)
        rated = [key for stage in run.stages() if stage.startswith("tournament") for key in run.finished(stage)]
    assert section.title == "cup"
    assert section.facts["episodes"] == len(rated) == 2 * 2 * 2 * 2 * 6  # rounds, pairs, protocols, seats, questions
    assert section.facts["judge"] == "biased:accuracy=.7,length=.5, second: biased:accuracy=.8"
    assert sorted(section.protocol.split(", ")) == ["debate", "debate-sequential"]
    assert section.cross_play is not None
    assert section.cross_play.games.sum() == 2 * len(rated)
    assert section.cross_play.names == tuple(rating.name for rating in section.ratings)
    assert {part.title for part in section.parts} >= {"By protocol", "Under other judges", "Accuracy of the verdicts"}
    assert section.arms == []  # they have a part of their own
    assert section.lead.startswith(f"{section.ratings[0].name} is rated highest of 4 agents")


def test_a_page_of_many_agents_names_some_and_counts_the_others(tmp_path: Path, questions: Path) -> None:
    agents: dict[str, Any] = {f"agent-{number}": "fixed:text=x" for number in range(20)}
    config = TournamentConfig(
        tournament="crowd",
        protocol="debate",
        params={"rounds": 1},
        tasks=str(questions),
        n=1,
        agents=agents,
        judge={"kind": "biased", "accuracy": 0.6},
    )
    run_tournament(config, tmp_path / "crowd", created="2026-01-31")
    with Store.open(tmp_path / "crowd", create=False) as store:
        facts = run_section(store.run()).facts
    assert facts["more agents"] == 4
    assert facts["judge"] == "biased: accuracy=0.6"
    assert len([name for name in facts if name.startswith("agent: ")]) == 16
