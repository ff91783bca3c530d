"""What labelled views say about the replies and steps that a reward model scores."""

from __future__ import annotations

from collections.abc import Sequence

from arena.judges.process_reward import ProcessRewardJudge
from arena.judges.reward_network import Row
from arena.protocols.errors import ConfigError
from arena.training.judge_data import Example

__all__ = ["grades", "last_grade", "parted", "step_grades"]


def parted(example: Example, rows: Sequence[Sequence[Row]]) -> tuple[Sequence[Row], list[Sequence[Row]]]:
    """Rows of the right reply and of the others."""
    if example.label is None:
        raise ConfigError(f"'{example.view.key}' has no label to learn from")
    if example.label >= len(rows):
        raise ConfigError(f"'{example.view.key}': label {example.label} is none of {len(rows)} replies")
    return rows[example.label], [each for index, each in enumerate(rows) if index != example.label]


def grades(example: Example) -> Sequence[float] | None:
    """One grade a statement, if the data has some."""
    if example.steps and len(example.steps) != len(example.view.statements):
        raise ConfigError(
            f"'{example.view.key}' has {len(example.steps)} grades for {len(example.view.statements)} statements"
        )
    return example.steps or None


def last_grade(example: Example, graded: Sequence[float] | None, index: int) -> float:
    """The grade of an answer: that of the last statement for it, or whether it is right."""
    if graded is None:
        return float(index == example.label)
    said = zip(example.view.statements, graded, strict=True)
    return [grade for statement, grade in said if statement.answer == index][-1]


def step_grades(example: Example, judge: ProcessRewardJudge, index: int) -> list[float]:
    """The labels of the steps for one answer: one a statement, or one a line of all statements in order."""
    found, place = [], 0
    for statement in example.view.statements:
        count = 1 if judge.step == "turn" else sum(1 for line in statement.text.splitlines() if line.strip())
        if statement.answer == index:
            found.append(list(example.steps[place : place + count]))
        place += count
    if place != len(example.steps):
        raise ConfigError(f"'{example.view.key}' has {len(example.steps)} labels for {place} steps")
    kept = found[-1:] if judge.of == "last" else found
    return [grade for each in kept for grade in each]
