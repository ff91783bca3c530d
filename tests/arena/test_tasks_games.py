import itertools
import math
from collections import Counter

import numpy as np
import pytest
from sklearn.datasets import load_digits

from arena.agents import AGENTS, Ask, Context
from arena.judges.verdicts import certain
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote, Task, Turn
from arena.tasks import TASKS, TaskSet, open_tasks
from arena.tasks.digits import ITEMS, LABELS
from arena.tasks.distractors import with_distractors


@pytest.fixture(scope="module")
def digits() -> TaskSet:
    return TASKS.build("digits:seed=3")


@pytest.fixture(scope="module")
def facts() -> TaskSet:
    return TASKS.build("facts:seed=3,train=2000,test=500")


def test_every_pixel_word_is_the_pooled_image(digits):
    bunch = load_digits()
    for task in [*digits.train[:40], *digits.test[:40]]:
        image = bunch.images[int(task.group.removeprefix("digit-"))]
        for row, column in itertools.product(range(4), range(4)):
            mean = sum(image[2 * row + i][2 * column + j] for i in (0, 1) for j in (0, 1)) / 4
            assert task.fields["evidence"][4 * row + column] == f"b{4 * row + column}={round(mean / 16 * 4)}"
        assert task.fields["class"] == f"d{bunch.target[int(task.group.removeprefix('digit-'))]}"


def test_digits_are_split_once_by_seed_and_labels_tell_nothing(digits):
    train, test = ({task.cluster for task in part} for part in (digits.train, digits.test))
    assert (len(train), len(test)) == (1197, 600)
    assert not train & test
    tasks = [*digits.train, *digits.test]
    assert all(task.answers[task.label] == task.fields["class"] and len(set(task.answers)) == 2 for task in tasks)
    first = sum(task.label == 0 for task in tasks) / len(tasks)
    assert abs(first - 0.5) < 0.05  # four standard errors
    again, other = TASKS.build("digits:seed=3"), TASKS.build("digits:seed=4")
    assert [(t.id, t.answers) for t in again.test] == [(t.id, t.answers) for t in digits.test]
    assert {task.id for task in other.test} != test
    assert set(ITEMS) >= {word for task in tasks for word in task.fields["evidence"]}


class Believes:
    """Prefers classes in the order d3, d1, d0, d2, d4, ... whatever it is shown."""

    name = "believes"
    sees_label = False
    items = ITEMS
    labels = LABELS

    def class_logps(self, hot):
        scores = np.zeros(10, dtype=np.float32)
        scores[[3, 1, 0, 2]] = [4, 3, 2, 1]
        return np.tile(scores - np.log(np.exp(scores).sum()), (len(hot), 1))

    def judge(self, views):
        return [certain(self.name, 0, len(view.answers)) for view in views]


def test_the_most_believed_wrong_classes_become_the_answers(digits):
    hard = digits.with_distractors(Believes(), train=3, test=1, seed=5)
    assert (len(hard.train), len(hard.test)) == (3591, 600)
    for source, made in zip(digits.train, _threes(hard.train), strict=True):
        right = source.fields["class"]
        wrong = [task.answers[1 - task.label] for task in made]
        assert wrong == [name for name in ("d3", "d1", "d0", "d2") if name != right][:3]
        assert all(task.answers[task.label] == right and task.cluster == source.cluster for task in made)
    assert len({task.id for task in hard.train}) == 3591
    assert abs(sum(task.label for task in hard.train) / 3591 - 0.5) < 0.035


def _threes(tasks):
    return [tuple(tasks[start : start + 3]) for start in range(0, len(tasks), 3)]


def test_distractors_need_classes(facts, digits):
    facts_judge = Believes()
    facts_judge.items = [f"{who}+{value}" for who in ("ann", "bob") for value in range(1, 10)]
    with pytest.raises(ConfigError, match="has no field 'class'"):
        with_distractors(facts.test, facts_judge)
    with pytest.raises(ConfigError, match="top=10: task 'digit-"):
        with_distractors(digits.test, Believes(), top=10)

    class Other:
        name = "other@1"
        sees_label = False

        def judge(self, views):
            return []

    with pytest.raises(ConfigError, match="'other@1' is not"):
        with_distractors(digits.test, Other())


def test_facts_are_distinct_fresh_and_rightly_labelled(facts):
    seen = set()
    for task in [*facts.train, *facts.test]:
        sums = Counter()
        for word in task.fields["evidence"]:
            who, value = word.split("+")
            sums[who] += int(value)
        assert Counter(word.split("+")[0] for word in task.fields["evidence"]) == {"ann": 4, "bob": 4}
        assert len(set(task.fields["evidence"])) == 8
        assert sums[task.answers[task.label]] > sums[task.answers[1 - task.label]]
        assert set(task.answers) == {"ann", "bob"}
        seen.add(task.fields["evidence"])
    assert len(seen) == 2500
    share = [sum(task.label == 0 for task in facts.train), sum(task.answers[0] == "ann" for task in facts.train)]
    assert all(abs(count / 2000 - 0.5) < 0.045 for count in share)


def test_the_test_stream_does_not_depend_on_the_training_size(facts):
    other = TASKS.build("facts:seed=3,train=10,test=500")
    assert [t.fields["evidence"] for t in other.test] == [t.fields["evidence"] for t in facts.test]
    assert TASKS.build("facts:seed=4,train=0,test=5").test[0].fields != facts.test[0].fields
    with pytest.raises(ConfigError, match="train=-1"):
        TASKS.build("facts:train=-1")


def ask(task: Task, answer: int, seed: int, used: tuple[str, ...] = ()) -> Ask:
    heard = [Turn(0, 0, "n", "r", 0, "x", 0, word, quotes=(Quote(word, True),)) for word in used]
    return Ask("e", "n", "r", 0, seed, Context(), [], 1, answer, task, heard, "evidence")


def test_the_demonstrator_draws_as_it_says(digits):
    agent = AGENTS.build("digits-demonstrator", tasks=digits)
    task = digits.test[0]
    used = task.fields["evidence"][:10]
    left = task.fields["evidence"][10:]
    said = Counter(act.text for act in agent.act([ask(task, 0, seed, used) for seed in range(4000)]))
    assert set(said) == set(left)

    def logp(word: str, label: str) -> float:
        images = [one for one in digits.train if one.fields["class"] == label]
        hits = sum(word in one.fields["evidence"] for one in images)
        return math.log((hits + 1) / (len(images) + 5))

    own, other = task.answers
    weights = [math.exp((logp(word, own) - logp(word, other)) / 0.7) for word in left]
    for word, weight in zip(left, weights, strict=True):
        expected = 0.7 * weight / sum(weights) + 0.3 / len(left)
        assert abs(said[word] / 4000 - expected) < 4 * math.sqrt(expected / 4000)
    assert agent.act([ask(task, 1, 0, task.fields["evidence"])])[0].text == ""


def test_any_whole_number_is_a_seed() -> None:
    for name in ("digits", "facts"):
        assert [task.id for task in TASKS.build(name, seed=-1).test] != [task.id for task in TASKS.build(name).test]


def test_blank_tasks_have_nothing_to_ask_and_nothing_to_hold_out() -> None:
    tasks = open_tasks("blank:train=3", seed=1)
    assert [task.id for task in tasks.train] == ["blank-train-0", "blank-train-1", "blank-train-2"]
    assert [dict(task.fields) for task in (*tasks.train, *tasks.test)] == [{}, {}, {}, {}]
    assert tasks.exhaustive


def test_only_all_deals_are_exhaustive() -> None:
    assert open_tasks("kuhn").exhaustive
    assert not open_tasks("kuhn:train=3").exhaustive
