"""Where labelled views come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from arena.protocols.errors import ConfigError
from arena.running import RunConfig, run_episodes
from arena.training.judge_data import DATA, Example, LabelledViews

SMALL = {"tasks": "facts:train=30,test=10"}


def words(example: Example) -> list[str]:
    return example.view.quotes()


def test_quotes_are_random_parts_of_the_evidence_with_the_right_answer() -> None:
    found = DATA.build({"kind": "quotes", **SMALL, "size": [2, 3], "each": 2}, seed=4)
    assert (len(found.train), len(found.held_out)) == (60, 10)
    assert {len(words(example)) for example in found.train} == {2, 3}
    assert all(len(set(words(example))) == len(words(example)) for example in found.train)
    assert {example.cluster for example in found.train} == {f"facts-4-{n}" for n in range(10, 40)}
    assert all(example.view.label is None for example in found.train)  # the judge is not told


def test_quotes_are_a_function_of_the_seed() -> None:
    one, same, other = (DATA.build({"kind": "quotes", **SMALL}, seed=seed) for seed in (1, 1, 2))
    assert [words(e) for e in one.train] == [words(e) for e in same.train]
    assert [words(e) for e in one.train] != [words(e) for e in other.train]


def test_a_dropped_quote_is_not_heard() -> None:
    found = DATA.build({"kind": "quotes", **SMALL, "size": [4, 4], "drop": 0.5}, seed=0)
    heard = [len(words(example)) for example in found.train]
    assert 1.2 < sum(heard) / len(heard) < 2.8  # four standard errors around 2


def test_played_debates_are_heard_as_the_judge_of_the_protocol_hears_them() -> None:
    spec = {"kind": "played", "protocol": "evidence-debate", "agents": "random-quotes", **SMALL}
    found = DATA.build(spec, seed=1)
    found.check()
    assert (len(found.train), len(found.held_out)) == (30, 10)
    view = found.train[0].view
    assert [said.text for said in view.statements] == [""] * 4  # it hears quotes only
    assert [said.answer for said in view.statements] == [0, 1, 0, 1]
    assert [said.answer for said in found.train[1].view.statements] == [1, 0, 1, 0]  # the seats change sides
    assert found.notes == {"failed_debates": 0}


def test_a_protocol_that_a_verdict_steers_cannot_be_played_without_a_judge() -> None:
    spec = {"kind": "played", "protocol": "debate-best-of-n", "agents": "fixed:text=x", "tasks": "reading"}
    with pytest.raises(ConfigError, match="a verdict steers protocol"):
        DATA.build(spec, seed=1)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("stored") / "run"
    agents = {"*": "random-quotes"}
    config = RunConfig("evidence-debate", "facts:train=1,test=12", agents, {"*": "exact"}, swap=True)
    run_episodes(config, out, created="2026-01-01")
    return out


def test_stored_transcripts_are_split_by_question(run: Path) -> None:
    found = DATA.build({"kind": "run", "path": str(run), "held_out": 0.25}, seed=0)
    found.check()
    assert (len(found.train), len(found.held_out)) == (18, 6)  # both orders of a question stay together
    assert all(len(example.view.statements) == 4 for example in found.train)


def test_a_judge_node_that_is_not_there_is_told(run: Path) -> None:
    with pytest.raises(ConfigError, match="'verdct' is no judge of protocol 'evidence-debate'"):
        DATA.build({"kind": "run", "path": str(run), "judge_node": "verdct"}, seed=0)


def test_questions_in_both_parts_are_refused() -> None:
    found = DATA.build({"kind": "quotes", **SMALL}, seed=0)
    with pytest.raises(ConfigError, match="30 questions are in both parts of the data"):
        LabelledViews(found.train, found.train).check()
    with pytest.raises(ConfigError, match="no held-out examples"):
        LabelledViews(found.train, []).check()
