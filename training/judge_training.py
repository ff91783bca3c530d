"""Train the judges that reward debaters: on random parts of the evidence, never on what debaters say.

Both functions use their own random generators and are deterministic for a number of threads (thread count changes the
order of sums).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arena.agents.models import Model, open_model
from arena.agents.types import Context, Message
from arena.judges import JUDGES, Judge
from arena.judges.classifier import ClassifierJudge, classifier_network
from arena.judges.evidence import evidence_columns, multi_hot, random_subsets
from arena.judges.llm import LLMJudge
from arena.judges.prompts import JudgePrompt
from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote, Task
from arena.protocols.registry import Spec, parse_spec
from arena.protocols.words import expand_words
from arena.tasks import TaskSet
from arena.training.trainers import TRAINERS, trainer_arguments

if TYPE_CHECKING:  # loaded where a judge is trained: a check of arguments can do without
    from torch import Tensor

__all__ = ["build_judge", "train_classifier_judge", "train_llm_judge"]

Count = Annotated[int, Field(ge=1, le=10**9)]
Length = Annotated[int, Field(ge=0, le=10**6)]
Rate = Annotated[float, Field(gt=0, le=10)]
Decay = Annotated[float, Field(ge=0, le=10)]
Share = Annotated[float, Field(ge=0, le=1)]

Progress = Callable[[int, int, Mapping[str, float]], None]
"""Called now and then with (step, steps, metrics)."""


def build_judge(
    kind: str,
    args: Mapping[str, Any],
    train: Mapping[str, Any] | None,
    tasks: TaskSet,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Judge, dict[str, Any]]:
    """The judge of a recipe and the report of its training (empty if ``train`` is None and it is used as it is).

    Raises:
        ConfigError: an argument that the kind or its training does not have.
        UnknownNameError: no such kind.
    """
    if train is None:
        return JUDGES.build(Spec(kind, dict(args)), seed=seed), {}
    fitted = trainer_arguments(kind, args, train)
    trainer = TRAINERS.factory(kind)
    judge = trainer(tasks.train, test=tasks.test, **{"seed": seed, **fitted}, progress=progress)
    return judge, judge.report


def train_classifier_judge(
    tasks: Sequence[Task],
    *,
    items: str | Sequence[str],
    labels: str | Sequence[str],
    evidence_field: str = "evidence",
    size: tuple[Length, Length] = (1, 6),
    prefer: str | None = None,
    prefer_share: Share = 0.5,
    class_field: str | None = "class",
    steps: Count = 1500,
    batch: Count = 256,
    lr: Rate = 3e-3,
    weight_decay: Decay = 0.05,
    hidden: Count = 128,
    test: Sequence[Task] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> ClassifierJudge:
    """A classifier over random subsets of the evidence.

    Args:
        tasks: what to learn from.
        items: every word that can be evidence, as `expand_words` reads it. Each must be able to occur in training: a
            word never seen is noise to the judge and a loophole to a debater.
        labels: every answer word.
        evidence_field: task field with the list of evidence words.
        size: smallest and largest subset, both included.
        prefer: regular expression; in ``prefer_share`` of the samples the words that match it are drawn first.
        class_field: task field with the right label; None takes the text of the right answer.
        steps, batch, lr, weight_decay, hidden: AdamW with a one-cycle learning rate (peak ``lr``) on two hidden layers.
        test: other tasks, to measure on.
        progress: called every 50 steps.

    Returns:
        The judge; its ``report`` holds the last ``loss`` and, if there are test tasks, ``accuracy`` of its first choice
        among all labels on ``n`` random subsets of their evidence.

    Raises:
        ConfigError: a task lacks a field, or a word is not among ``items`` or ``labels``.
    """
    import torch

    if not tasks:
        raise ConfigError("there are no tasks to train a judge on")
    words, classes = expand_words(items), expand_words(labels)
    rng = np.random.default_rng([seed, 0x1D6E])
    columns_NK = evidence_columns(tasks, words, evidence_field)
    target_N = _targets(tasks, classes, class_field)
    prefer_I = _matching(words, prefer)
    network = classifier_network(len(words), len(classes), hidden, generator=torch.Generator().manual_seed(seed))
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=weight_decay, fused=True)

    def draw(columns_BK: NDArray[np.int64]) -> Tensor:
        subset_BK = random_subsets(columns_BK, size, rng, prefer_I=prefer_I, prefer_share=prefer_share)
        return torch.from_numpy(multi_hot(subset_BK, len(words)))

    loss = torch.zeros(())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = _one_cycle(step, steps, lr)
        rows_B = rng.integers(len(tasks), size=batch)
        loss = torch.nn.functional.cross_entropy(network(draw(columns_NK[rows_B])), torch.from_numpy(target_N[rows_B]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        if progress and (step + 1) % 50 == 0:
            progress(step + 1, steps, {"loss": float(loss.detach())})
    report: dict[str, Any] = {"loss": round(float(loss.detach()), 4), "steps": steps, "seed": seed}
    if test:
        repeats = max(1, 4096 // len(test))
        hot_BI = draw(np.repeat(evidence_columns(test, words, evidence_field), repeats, axis=0))
        with torch.inference_mode():
            right_B = network(hot_BI).argmax(1).numpy() == np.repeat(_targets(test, classes, class_field), repeats)
        report.update(accuracy=round(float(right_B.mean()), 4), n=len(right_B))
    return ClassifierJudge(network, words, classes, reads=evidence_field, report=report)


def train_llm_judge(
    tasks: Sequence[Task],
    *,
    model: Model | str | Mapping[str, Any],
    prompt: str,
    evidence_field: str = "evidence",
    size: tuple[Length, Length] = (1, 4),
    drop: Share = 0.1,
    steps: Count = 500,
    batch: Count = 256,
    lr: Rate = 5e-3,
    weight_decay: Decay = 0.01,
    test: Sequence[Task] = (),
    seed: int = 0,
    progress: Progress | None = None,
) -> LLMJudge:
    """A language model that answers after reading random quotes.

    Cross-entropy on the first token of the right answer's text, with random quotes in random order and the answers in
    random order.

    Args:
        tasks: what to learn from; each needs a label.
        model: trained in place; a spec is opened anew (and a ``tiny`` one gets ``seed``).
        prompt: the judge's template; it may name ``question``, ``answers`` and ``items``.
        evidence_field: task field with the list of evidence words.
        size: smallest and largest number of quotes, both included.
        drop: share of quotes lost again, as unverified ones are.
        steps, batch, lr, weight_decay: AdamW with a one-cycle learning rate (peak ``lr``), gradient norm clipped at 1.
        test: other tasks, to measure on.
        progress: called every 20 steps.

    Returns:
        The judge; its ``report`` holds the last ``loss`` and, if there are test tasks, ``accuracy`` with random quotes
        of that size.

    Raises:
        ConfigError: a task lacks a field or label, or a word is not in the vocabulary.
    """
    import torch

    from arena.judges.reading import last_hidden

    if not tasks:
        raise ConfigError("there are no tasks to train a judge on")
    if not isinstance(model, Model):
        model = _own_model(model, seed)
    template = JudgePrompt(prompt)
    rng = np.random.default_rng([seed, 0x11D6])
    quiz = _Quiz(tasks, model, template, evidence_field, size, drop, rng)
    network: Any = model.base
    optimizer = torch.optim.AdamW(network.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    loss = torch.zeros(())
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = _one_cycle(step, steps, lr)
        ids_BT, last_B, target_B = quiz.batch(batch)
        hidden_BH = last_hidden(model, ids_BT)[torch.arange(len(ids_BT)), last_B]
        loss = torch.nn.functional.cross_entropy(network.get_output_embeddings()(hidden_BH), target_B)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        if progress and (step + 1) % 20 == 0:
            progress(step + 1, steps, {"loss": float(loss.detach())})
    report: dict[str, Any] = {"loss": round(float(loss.detach()), 4), "steps": steps, "seed": seed}
    # Rewards are margins: the mean of log-probs keeps them as far apart as the model does.
    judge = LLMJudge(model, prompt, answer_by="text", reads=evidence_field, average="logps")
    if test:
        measured = _Quiz(test, model, template, evidence_field, size, drop, rng)
        views, right = measured.views(max(1, 2048 // len(test)))
        verdicts = judge.judge(views)
        hits = [verdict.choice == label for verdict, label in zip(verdicts, right, strict=True) if verdict.decidable]
        report.update(accuracy=round(sum(hits) / max(len(hits), 1), 4), n=len(hits))
    judge.report.update(report)
    return judge


def _own_model(spec: str | Mapping[str, Any], seed: int) -> Model:
    asked = parse_spec(spec)
    args = {"seed": seed, **asked.args} if asked.kind == "tiny" else dict(asked.args)
    return open_model(Spec(asked.kind, args))


class _Quiz:
    """Prompts with random quotes of random tasks."""

    def __init__(
        self,
        tasks: Sequence[Task],
        model: Model,
        prompt: JudgePrompt,
        field: str,
        size: tuple[int, int],
        drop: float,
        rng: np.random.Generator,
    ) -> None:
        self.tasks = tasks
        self.rng = rng
        self._encoder = model.encoder
        self._prompt = prompt
        self._size, self._drop = size, drop
        self._words = sorted({word for task in tasks for word in _evidence(task, field)})
        self._columns_NK = evidence_columns(tasks, self._words, field)
        self._targets = [self._target(task) for task in tasks]
        self._most = max(len(task.answers) for task in tasks)
        self._views = [JudgeView(task.id, task.question, task.answers) for task in tasks]

    def _target(self, task: Task) -> int:
        if task.label is None:
            raise ConfigError(f"task '{task.id}' has no label to train a judge on")
        return self._encoder.encode_turn(task.answers[task.label], end=False)[0]

    def quotes(self, rows_B: NDArray[np.int64]) -> list[list[str]]:
        """Random evidence words of each task."""
        drawn_BK = random_subsets(self._columns_NK[rows_B], self._size, self.rng, drop=self._drop)
        return [[self._words[column] for column in row if column >= 0] for row in drawn_BK.tolist()]

    def views(self, repeats: int) -> tuple[list[JudgeView], list[int | None]]:
        """What the judge would see of debates with random quotes, and the labels."""
        rows_B = np.repeat(np.arange(len(self.tasks)), repeats)
        views = []
        for index, words in zip(rows_B.tolist(), self.quotes(rows_B), strict=True):
            task, quotes = self.tasks[index], tuple(Quote(word, verified=True) for word in words)
            views.append(JudgeView(task.id, task.question, task.answers, [Statement("", None, "", quotes)]))
        return views, [self.tasks[index].label for index in rows_B.tolist()]

    def batch(self, size: int) -> tuple[Tensor, Tensor, Tensor]:
        """Ids (B, T) padded at the end, index of the last real one (B,), first token of the right answer (B,)."""
        import torch

        rows_B = self.rng.integers(len(self.tasks), size=size)
        rows = []
        keys = self.rng.random((size, self._most)).tolist()
        for index, quotes, key in zip(rows_B.tolist(), self.quotes(rows_B), keys, strict=True):
            view = self._views[index]
            order = sorted(range(len(view.answers)), key=key.__getitem__)
            text = self._prompt.render(view, order, quotes, {})
            rows.append(self._encoder.extend(Context(), [Message("prompt", text)])[0])
        longest = max(map(len, rows))
        ids_BT = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        last_B = torch.tensor([len(row) - 1 for row in rows])
        return ids_BT, last_B, torch.tensor([self._targets[index] for index in rows_B.tolist()])


def _evidence(task: Task, field: str) -> Sequence[str]:
    words = task.fields.get(field)
    if words is None or isinstance(words, str):
        raise ConfigError(f"task '{task.id}': field '{field}' must be a list of words, not {words!r}")
    return list(words)


def _targets(tasks: Sequence[Task], labels: Sequence[str], field: str | None) -> NDArray[np.int64]:
    index = {word: position for position, word in enumerate(labels)}
    found = []
    for task in tasks:
        if field is None and task.label is None:
            raise ConfigError(f"task '{task.id}' has no label to train a judge on")
        right = task.answers[task.label or 0] if field is None else task.fields.get(field)
        if right not in index:
            raise ConfigError(
                f"task '{task.id}': {field or 'right answer'} {right!r} is none of the {len(labels)} labels"
            )
        found.append(index[right])
    return np.asarray(found, dtype=np.int64)


def _matching(words: Sequence[str], pattern: str | None) -> NDArray[np.bool_] | None:
    if pattern is None:
        return None
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"prefer={pattern!r} is not a regular expression: {error}") from None
    found = np.array([bool(compiled.search(word)) for word in words])
    if not found.any():
        raise ConfigError(f"prefer={pattern!r} matches none of the {len(words)} items")
    return found


def _one_cycle(step: int, steps: int, peak: float) -> float:
    """Smith and Topin 2018 (1708.07120): cosine from peak/25 up over 30 % of the steps, then down to peak/25e4."""
    warm = max(0.3 * steps - 1, 1)
    if step <= warm:
        low, high, share = peak / 25, peak, step / warm
    else:
        low, high, share = peak, peak / 25e4, (step - warm) / max(steps - 1 - warm, 1)
    return low + (high - low) * (1 - math.cos(math.pi * min(share, 1.0))) / 2
