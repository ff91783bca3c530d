"""Which of two numbers is larger."""

from __future__ import annotations

import re

from arena.tasks import open_tasks


def test_the_solution_is_the_larger_number_and_the_label_says_which_answer_it_is() -> None:
    tasks = open_tasks("larger:train=300,test=50", seed=3)
    assert (len(tasks.train), len(tasks.test)) == (300, 50)
    questions = [str(task.fields["question"]) for task in [*tasks.train, *tasks.test]]
    assert len(set(questions)) == 350
    for task in [*tasks.train, *tasks.test]:
        numbers = re.findall(r"\d+", str(task.fields["question"]))
        assert list(task.fields["answers"]) == numbers
        assert task.fields["solution"] == str(max(map(int, numbers)))
        assert task.label is not None
        assert task.fields["answers"][task.label] == task.fields["solution"]
