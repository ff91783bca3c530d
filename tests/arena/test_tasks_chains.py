"""Chains of sums, and who shows how they are worked out."""

from __future__ import annotations

import re

import pytest

from arena.agents import AGENTS
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode
from arena.tasks import open_tasks
from arena.tasks.chains import moves_of, steps_of


@pytest.mark.parametrize("operands", [3, 5, 7])
def test_the_solution_is_what_python_makes_of_the_question(operands: int) -> None:
    tasks = open_tasks(f"chains:train=150,test=50,operands={operands}", seed=4)
    questions = [task.fields["question"] for task in (*tasks.train, *tasks.test)]
    assert len(set(questions)) == 200
    for task in (*tasks.train, *tasks.test):
        joined = re.sub(r"\b0+(?=\d)", "", re.sub(r"(?<=\d) (?=\d)", "", task.fields["question"]))
        assert int(task.fields["solution"].replace(" ", "")) == eval(joined) % 1000  # brackets and all


def test_three_operands_make_both_forms_and_all_signs() -> None:
    questions = [task.fields["question"] for task in open_tasks("chains:train=200,test=1", seed=0).train]
    forms = {re.sub(r"\d \d \d", "n", question) for question in questions}
    assert forms == {f for a in "+-*" for b in "+-*" for f in (f"( n {a} n ) {b} n", f"n {a} ( n {b} n )")}


def test_a_seed_makes_the_same_tasks_and_no_test_task_is_trained_on() -> None:
    one, two = (open_tasks("chains:train=50,test=20", seed=seed) for seed in (3, 3))
    more = open_tasks("chains:train=90,test=20", seed=3)
    assert [task.fields for task in one.test] == [task.fields for task in two.test] == [t.fields for t in more.test]
    assert not {t.fields["question"] for t in one.train} & {t.fields["question"] for t in one.test}


def test_moves_and_calls_stand_side_by_side() -> None:
    (task,) = open_tasks("chains:train=1,test=1", seed=0).train
    calls = dict(zip(task.fields["moves"], task.fields["calls"], strict=True))
    first, second, third = re.findall(r"\d \d \d", task.fields["question"])
    assert list(calls) == moves_of(3)
    assert len(calls) == 13
    assert calls["P12 +"] == (first, "+", second)
    assert calls["P23 -"] == (second, "-", third)
    assert calls["PR3 *"] == ("R", "*", third)
    assert calls["P1R -"] == (first, "-", "R")
    assert calls["ANS"] == ("R",)


@pytest.mark.parametrize(
    ("question", "moves"),
    [
        ("( 1 2 3 + 4 5 6 ) * 7 8 9", ["P12 +", "PR3 *"]),
        ("1 2 3 + ( 4 5 6 * 7 8 9 )", ["P23 *", "P1R +"]),
        ("1 2 3 + ( ( 4 5 6 * 7 8 9 ) - 1 1 1 )", ["P23 *", "PR4 -", "P1R +"]),
    ],
)
def test_brackets_say_what_comes_first(question: str, moves: list[str]) -> None:
    assert steps_of(question)[0] == moves


def test_a_text_that_is_no_chain_is_refused() -> None:
    with pytest.raises(ConfigError, match="no chain of sums"):
        steps_of("what is 1 2 3 + 4 5 6")


@pytest.mark.parametrize("spec", ["chains:operands=2", "chains:operands=10", "chains:digits=0", "chains:train=-1"])
def test_counts_out_of_range_are_refused(spec: str) -> None:
    with pytest.raises(ConfigError):
        open_tasks(spec)


def played(agent: str, operands: int = 3, count: int = 400) -> list[Episode]:
    protocol = load_protocol("column-arithmetic", {"steps": operands + 1})
    tasks = open_tasks(f"chains:train=1,test={count},operands={operands}", seed=1).test
    speaker = AGENTS.build(agent)
    plans = [Plan(task.id, task, dict.fromkeys(protocol.speakers, speaker)) for task in tasks]
    return Engine(protocol, {}, seed=0).play(plans)


def share(episodes: list[Episode], node: str, field: str) -> float:
    values = [bool(turn.fields[field]) for episode in episodes for turn in episode.turns if turn.node == node]
    return sum(values) / len(values)


@pytest.mark.parametrize("operands", [3, 6])
def test_a_demonstrator_without_faults_is_always_right(operands: int) -> None:
    episodes = played("chains-demonstrator:pair=1,sign=1,stop=0,slip=0", operands, 30)
    assert share(episodes, "check", "passed") == 1
    assert {sum(turn.node == "result" for turn in episode.turns) for episode in episodes} == {operands - 1}


def test_its_faults_are_as_frequent_as_they_are_said_to_be() -> None:
    episodes = played("chains-demonstrator:pair=0.4,sign=0.6,stop=0.3,slip=0.1")
    plans = [[turn.text for turn in episode.turns if turn.node == "plan"] for episode in episodes]
    stopped = sum(len(texts) == 2 for texts in plans) / len(plans)
    assert stopped == pytest.approx(0.3, abs=0.07)  # 3 standard errors of 400
    tasks = {task.id: task for task in open_tasks("chains:train=1,test=400", seed=1).test}
    right = [
        (texts[0].split(), steps_of(tasks[e.task].fields["question"])[0][0].split())
        for e, texts in zip(episodes, plans, strict=True)
    ]
    assert sum(a[0] == b[0] for a, b in right) / 400 == pytest.approx(0.4, abs=0.075)
    assert sum(a[1] == b[1] for a, b in right) / 400 == pytest.approx(0.6, abs=0.075)
    # Six digits of a first call, each another one with probability 0.1 x 0.9.
    first = [next(turn for turn in episode.turns if turn.node == "exact").fields["passed"] for episode in episodes]
    whole = [passed for passed, texts in zip(first, plans, strict=True) if "R" not in texts[0]]
    assert sum(whole) / len(whole) == pytest.approx((1 - 0.09) ** 6, abs=0.12)
