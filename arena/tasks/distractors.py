"""Wrong answers worth defending: those that a judge who knows little believes most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from arena.judges import Judge
from arena.judges.evidence import evidence_columns, multi_hot, random_subsets
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task

__all__ = ["ClassJudge", "with_distractors"]


@runtime_checkable
class ClassJudge(Protocol):
    """A judge over classes, such as `arena.judges.classifier.ClassifierJudge`."""

    @property
    def items(self) -> Sequence[str]:
        """Words that can be evidence."""
        ...

    @property
    def labels(self) -> Sequence[str]:
        """Words that can be answers."""
        ...

    def class_logps(self, hot_BI: NDArray[np.float32]) -> NDArray[np.float32]:
        """(B, items) multi-hot -> (B, labels) log-probs."""
        ...


def with_distractors(
    tasks: Sequence[Task],
    judge: Judge | ClassJudge,
    *,
    top: int = 3,
    seed: int = 0,
    samples: int = 128,
    size: tuple[int, int] = (1, 6),
    evidence_field: str = "evidence",
) -> list[Task]:
    """One task for each (task, wrong class among the ``top`` most believed), most believed first.

    Belief is the judge's mean probability over ``samples`` random subsets of the evidence. The tasks need the fields
    ``class``, ``candidates`` and ``evidence_field``; the position of the right answer is drawn by ``seed``.

    Raises:
        ConfigError: a field is missing, a class is none of the judge's labels, or there are not ``top`` wrong classes.
    """
    if not isinstance(judge, ClassJudge):
        raise ConfigError(f"distractors need a judge over classes (a classifier), which '{judge.name}' is not")
    rng = np.random.default_rng([seed, 0xD157])
    columns_NK = evidence_columns(tasks, judge.items, evidence_field)
    belief_NL = np.zeros((len(tasks), len(judge.labels)))
    for _ in range(samples):
        subsets_NK = random_subsets(columns_NK, size, rng)
        belief_NL += np.exp(judge.class_logps(multi_hot(subsets_NK, len(judge.items))))
    label_of = {word: index for index, word in enumerate(judge.labels)}
    made = []
    for task, belief_L in zip(tasks, belief_NL, strict=True):
        wrong = _wrong_classes(task, label_of, top)
        belief = {name: belief_L[label_of[name]] for name in wrong}
        best = sorted(wrong, key=belief.__getitem__, reverse=True)[:top]
        made += [_pair(task, name, right_first=bool(rng.random() < 0.5)) for name in best]
    return made


def _wrong_classes(task: Task, label_of: dict[str, int], top: int) -> list[str]:
    for field in ("class", "candidates"):
        if field not in task.fields:
            raise ConfigError(f"task '{task.id}' has no field '{field}': distractors need 'class' and 'candidates'")
    wrong = [name for name in task.fields["candidates"] if name != task.fields["class"]]
    for name in wrong:
        if name not in label_of:
            raise ConfigError(f"task '{task.id}': candidate '{name}' is none of the judge's {len(label_of)} labels")
    if not 1 <= top <= len(wrong):
        raise ConfigError(f"top={top}: task '{task.id}' has {len(wrong)} wrong classes")
    return wrong


def _pair(task: Task, wrong: str, *, right_first: bool) -> Task:
    right = task.fields["class"]
    answers = (right, wrong) if right_first else (wrong, right)
    return Task(f"{task.id}-{wrong}", {**task.fields, "answers": answers}, 0 if right_first else 1, task.cluster)
