"""Task sets that are made on the spot: what their fields say is so, and seeds decide what is in them."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter

import pytest

from arena.agents.tools import CHECKS, run_check
from arena.agents.tools.lookup import passages
from arena.protocols.errors import ConfigError
from arena.protocols.programs import Call
from arena.protocols.records import Task
from arena.tasks import TASKS, TaskSet, open_tasks
from arena.tasks.types import split_tasks

SETS = ("kuhn", "arithmetic", "programs", "reading", "claims")


def ids(tasks: TaskSet) -> tuple[list[str], list[str]]:
    return [task.id for task in tasks.train], [task.id for task in tasks.test]


def content(tasks: TaskSet) -> list[tuple[object, ...]]:
    return [(task.id, *sorted(task.fields.items())) for task in [*tasks.train, *tasks.test]]


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_a_function_of_its_seed(name: str) -> None:
    assert content(TASKS.build(name)) == content(TASKS.build(f"{name}:seed=0")) == content(open_tasks(name, seed=0))
    assert content(TASKS.build(name)) != content(TASKS.build(f"{name}:seed=-1"))


@pytest.mark.parametrize("name", SETS)
def test_nothing_is_both_trained_on_and_tested_on(name: str) -> None:
    tasks = TASKS.build(name)
    train, test = ({task.cluster for task in part} for part in (tasks.train, tasks.test))
    assert train
    assert test
    assert not train & test
    assert len(train) + len(test) == len(tasks.train) + len(tasks.test)
    assert tasks.name.startswith(f"{name}:seed=0")


@pytest.mark.parametrize("name", ["kuhn", "arithmetic", "claims"])
def test_the_test_part_does_not_depend_on_the_training_size(name: str) -> None:
    few, many = TASKS.build(f"{name}:train=3"), TASKS.build(f"{name}:train=30")
    assert (len(few.train), len(many.train)) == (3, 30)
    assert [task.fields for task in few.test] == [task.fields for task in many.test]
    with pytest.raises(ConfigError, match="train=-1: a number of tasks cannot be negative"):
        TASKS.build(f"{name}:train=-1")


@pytest.mark.parametrize("name", ["arithmetic", "reading", "claims"])
def test_the_position_of_the_right_answer_tells_nothing(name: str) -> None:
    sets = [TASKS.build(f"{name}:seed={seed}") for seed in range(20)]
    tasks = [task for made in sets for task in made.test]
    share = sum(task.label == 0 for task in tasks) / len(tasks)
    assert abs(share - 0.5) < 4 * 0.5 / len(tasks) ** 0.5
    assert all(len(set(task.answers)) == 2 for task in tasks)


def test_kuhn_deals_each_pair_of_cards_equally_often() -> None:
    tasks = TASKS.build("kuhn:train=60")
    dealt = Counter((task.fields["card_one"], task.fields["card_two"]) for task in tasks.train)
    assert dealt == dict.fromkeys(itertools.permutations("JQK", 2), 10)
    assert len({tuple(task.fields.values()) for task in tasks.test}) == 6
    assert {task.label for task in tasks.test} == {None}


def test_arithmetic_is_right() -> None:
    for task in [*TASKS.build("arithmetic").train][:500]:
        found = re.fullmatch(r"What is (\d+) ([-+*]) (\d+) ([-+]) (\d+)\?", task.question)
        assert found
        a, first, b, second, c = found.groups()
        left = {"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[first]
        right = left + int(c) if second == "+" else left - int(c)
        assert task.fields["solution"] == str(right)
        assert task.label is not None
        assert task.answers[task.label] == str(right)


def test_every_solution_passes_its_own_tests_and_an_empty_program_does_not() -> None:
    tasks = TASKS.build("programs")
    check = CHECKS.build("unit_tests")
    assert len(tasks.train) + len(tasks.test) == 16
    for task in [*tasks.train, *tasks.test]:
        assert run_check(check, Call(task.fields["solution"], task=task.fields)).fields["passed"] is True, task.id
        assert run_check(check, Call("pass", task=task.fields)).fields["score"] == 0.0
        name = re.findall(r"assert (\w+)\(", task.fields["tests"][0])[0]
        assert f"`{name}(" in task.fields["prompt"]


def test_readings_are_twenty_short_passages_with_a_right_answer() -> None:
    tasks = TASKS.build("reading")
    assert (len(tasks.train), len(tasks.test)) == (10, 10)
    for task in [*tasks.train, *tasks.test]:
        assert task.label is not None
        assert task.answers[task.label] == task.fields["solution"]
        assert 40 <= len(task.fields["passage"].split()) <= 100
        assert len(passages(task.fields["passage"])) >= 3


def _ends(passage: str) -> dict[str, int]:
    pattern = r"(\w+) began with (\d+) coins, found (\d+) and lost (\d+)\."
    return {who: int(start) + int(found) - int(lost) for who, start, found, lost in re.findall(pattern, passage)}


def _holds(part: str, ends: dict[str, int]) -> bool:
    if found := re.fullmatch(r"(\w+) ends with more coins than (\w+)", part):
        return ends[found[1]] > ends[found[2]]
    if found := re.fullmatch(r"(\w+) ends with at least (\d+) coins", part):
        return ends[found[1]] >= int(found[2])
    if found := re.fullmatch(r"(\w+) ends with an (odd|even) number of coins", part):
        return ends[found[1]] % 2 == (found[2] == "odd")
    found = re.fullmatch(r"(\w+) and (\w+) end with (\d+) coins together", part)
    assert found
    return ends[found[1]] + ends[found[2]] == int(found[3])


def test_a_claim_is_true_if_its_parts_are_and_a_false_one_has_one_false_part() -> None:
    wrong: Counter[int] = Counter()
    for task in TASKS.build("claims:train=500").train:
        ends = _ends(task.fields["passage"])
        parts = task.fields["subclaims"]
        assert len(ends) == 4
        assert ", ".join([*parts[:2], f"and {parts[2]}"]) in task.question
        false = sum(not _holds(part, ends) for part in parts)
        wrong[false] += 1
        assert task.label == task.answers.index("false" if false else "true")
    assert set(wrong) == {0, 1}
    assert abs(wrong[0] - 250) < 4 * (500 / 4) ** 0.5


def test_a_split_leaves_something_on_both_sides() -> None:
    tasks = [Task(str(number), {}) for number in range(5)]
    split = split_tasks("x", tasks, test=2, rng=random.Random(0))
    assert sorted(map(len, ids(split))) == [2, 3]
    for test in (0, 5):
        with pytest.raises(ConfigError, match=f"test={test}: of 5 tasks, at least one must be on each side"):
            split_tasks("x", tasks, test=test, rng=random.Random(0))
