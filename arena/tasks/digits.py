"""Which digit is it? Real handwritten digits, four grey levels at 4x4, one word a pixel.

scikit-learn's 1797 images of 8x8 (UCI Optical Recognition of Handwritten Digits) are average-pooled to 4x4 and rounded
to 0..4, so that an image is sixteen words `b0=3` ... `b15=0` and a debater can show the judge one pixel a turn, as in
Irving, Christiano and Amodei 2018 (1805.00899). Which wrong answer is worth defending is a property of the judge:
`arena.tasks.distractors.with_distractors` asks it.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task
from arena.protocols.words import expand_words
from arena.tasks.types import TaskSet

__all__ = ["ITEMS", "LABELS", "demonstrator", "digits"]

ITEMS = tuple(expand_words("b{0..15}={0..4}"))
"""Every pixel and value, pixel by pixel: ``b0=0 b0=1 ... b15=4``."""
LABELS = tuple(expand_words("d{0..9}"))
"""The answer words."""

PIXELS, LEVELS = 16, 5
TEST_IMAGES = 600


@lru_cache(maxsize=1)
def _images() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Levels (1797, 16) in 0..4 and classes (1797,)."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    bunch = load_digits()
    pooled = bunch.images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, PIXELS)
    return np.rint(pooled / 16 * (LEVELS - 1)).astype(np.int64), bunch.target.astype(np.int64)


def digits(*, seed: int = 0) -> TaskSet:
    """1197 training and 600 test images, split by ``seed``.

    Each task has ``question``, ``answers`` (the right class and a random wrong one, in random order), ``evidence``
    (sixteen words), ``class`` (the right word; no protocol shows it) and ``candidates`` (all classes).
    """
    levels, classes = _images()
    rng = np.random.default_rng([seed % 2**64, 0xD161])
    order = rng.permutation(len(classes))
    wrong = (classes + rng.integers(1, 10, len(classes))) % 10
    right_first = rng.random(len(classes)) < 0.5
    tasks = [
        _task(int(image), levels[image], int(classes[image]), int(wrong[image]), bool(right_first[image]))
        for image in order
    ]
    return TaskSet(f"digits:seed={seed}", tasks[:-TEST_IMAGES], tasks[-TEST_IMAGES:])


def _task(image: int, levels: NDArray[np.int64], right: int, wrong: int, right_first: bool) -> Task:
    pair = (LABELS[right], LABELS[wrong])
    fields = {
        "question": "Which digit is it?",
        "answers": pair if right_first else pair[::-1],
        "evidence": tuple(ITEMS[pixel * LEVELS + level] for pixel, level in enumerate(levels.tolist())),
        "class": LABELS[right],
        "candidates": LABELS,
    }
    key = f"digit-{image}"
    return Task(key, fields, label=0 if right_first else 1, group=key)


def naive_bayes(tasks: Sequence[Task]) -> NDArray[np.float64]:
    """log P(item | class), shape (10, 80), with add-one smoothing over the levels of a pixel."""
    column = {word: index for index, word in enumerate(ITEMS)}
    counts = np.ones((len(LABELS), len(ITEMS)))
    for task in tasks:
        counts[LABELS.index(task.fields["class"]), [column[word] for word in task.fields["evidence"]]] += 1
    by_pixel = counts.reshape(len(LABELS), PIXELS, LEVELS)
    found: NDArray[np.float64] = np.log(by_pixel / by_pixel.sum(axis=2, keepdims=True)).reshape(counts.shape)
    return found


def demonstrator(*, tasks: TaskSet, share: float = 0.7, temperature: float = 0.7) -> ScriptedAgent:
    """An agent that mostly quotes telling pixels: what a debater's warm start imitates.

    With probability ``share`` it draws from the softmax of [log P(pixel | own answer) - log P(pixel | other answer)] /
    temperature over pixels that nobody quoted yet, by naive Bayes on the training images; else uniformly.

    Args:
        tasks: the digits; their training part fills the tables.
    """
    logps = naive_bayes(list({task.cluster: task for task in tasks.train}.values())) / temperature
    table = [dict(zip(ITEMS, row, strict=True)) for row in logps.tolist()]
    by_label = dict(zip(LABELS, table, strict=True))

    def say(ask: Ask) -> str:
        if ask.answer is None or len(ask.task.answers) != 2:
            raise ConfigError(f"'digits-demonstrator' speaks for one of two answers; node '{ask.node}' gives it none")
        own, other = (by_label[ask.task.answers[index]] for index in (ask.answer, 1 - ask.answer))
        used = {quote.text for turn in ask.heard for quote in turn.quotes}
        left: list[str] = [item for item in ask.task.fields["evidence"] if item not in used]
        if not left:
            return ""
        kind, place = uniforms([ask.seed, ask.seed], [0, 1]).tolist()
        if kind >= share:
            return left[int(place * len(left))]
        weights = [math.exp(own[item] - other[item]) for item in left]
        return left[min(bisect.bisect_right(list(itertools.accumulate(weights)), place * sum(weights)), len(left) - 1)]

    return ScriptedAgent("digits-demonstrator", say)
