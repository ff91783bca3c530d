"""Digits to sort, and their demonstrator."""

from __future__ import annotations

import pytest

from arena.agents import AGENTS
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode
from arena.tasks import TASKS, open_tasks


def shown(agent: str, rate: float, count: int = 400) -> list[Episode]:
    tasks = open_tasks(f"sorting:train={count},test=0")
    demonstrator = AGENTS.build(agent)
    channel = AGENTS.build({"kind": "noisy-channel", "words": "{0..9}", "rate": rate})
    lineup = {"proposer": demonstrator, "critic": demonstrator, "reviser": demonstrator, "channel": channel}
    return Engine(load_protocol("noisy-revision"), {}, seed=0).play(
        [Plan(task.id, task, lineup) for task in tasks.train]
    )


def share(episodes: list[Episode], node: str) -> float:
    found = [turn.fields["score"] for episode in episodes for turn in episode.turns if turn.node == node]
    return sum(found) / len(found)


@pytest.mark.parametrize("digits", [2, 6, 9])
def test_the_solution_is_the_question_sorted(digits: int) -> None:
    tasks = open_tasks(f"sorting:digits={digits},train=20,test=5")
    for task in [*tasks.train, *tasks.test]:
        question, solution = (str(task.fields[name]).split() for name in ("question", "solution"))
        assert solution == sorted(question, key=int)
        assert len(question) == digits
        assert task.fields["places"] == tuple(f"P{place}" for place in range(1, digits + 1))


def test_seeds_make_other_questions_and_none_comes_twice() -> None:
    one, two = open_tasks("sorting:train=300,test=50", seed=1), open_tasks("sorting:train=300,test=50", seed=2)
    questions = [str(task.fields["question"]) for task in [*one.train, *one.test]]
    assert len(set(questions)) == 350
    assert questions != [str(task.fields["question"]) for task in [*two.train, *two.test]]
    few = open_tasks("sorting:train=3,test=50", seed=1)
    assert [task.fields for task in few.test] == [task.fields for task in one.test]


@pytest.mark.parametrize("spec", ["sorting:digits=1", "sorting:digits=19", "sorting:train=-1", "sorting:digits=2"])
def test_what_cannot_be_made_is_refused(spec: str) -> None:
    with pytest.raises(ConfigError, match=r"digits=|train="):
        TASKS.build(spec)


def test_a_perfect_demonstrator_mends_every_single_fault() -> None:
    episodes = shown("sorting-demonstrator:corrupted=0,place=1,digit=1", rate=0.1)
    assert share(episodes, "drafted") == 1.0
    assert share(episodes, "hit") == 1.0
    for episode in episodes:
        scores = {turn.node: turn.fields["score"] for turn in episode.turns if turn.node in ("before", "after")}
        if "after" in scores:
            assert scores["after"] == pytest.approx(scores["before"] + 1 / 6)


def test_faults_have_the_shares_that_were_asked_for() -> None:
    episodes = shown("sorting-demonstrator", rate=0.1, count=1500)
    assert share(episodes, "drafted") == pytest.approx(1 - 0.15 * 0.9, abs=0.015)
    assert share(episodes, "hit") == pytest.approx(0.6, abs=0.06)
    mended = [
        turns["revision"].text == str(turns["solution"]).split()[turns["critique"].fields["index"]]
        for turns in (
            {turn.node: turn for turn in e.turns} | {"solution": task.fields["solution"]}
            for e, task in zip(episodes, open_tasks("sorting:train=1500,test=0").train, strict=True)
        )
        if "revision" in turns
    ]
    assert sum(mended) / len(mended) == pytest.approx(0.8, abs=0.05)


def test_where_nothing_or_everything_is_wrong_a_place_is_named_all_the_same() -> None:
    everything = shown("sorting-demonstrator:corrupted=0,place=0", rate=1.0, count=60)
    assert all(episode.stop in ("end", "right") for episode in everything)


@pytest.mark.parametrize("fault", ["corrupted=1.5", "place=-0.1", "digit=2"])
def test_shares_are_shares(fault: str) -> None:
    with pytest.raises(ConfigError, match=fault.partition("=")[0]):
        AGENTS.build(f"sorting-demonstrator:{fault}")
