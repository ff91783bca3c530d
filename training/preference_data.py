"""Preference pairs as labelled views: from a file, or synthetic ones whose noise is known.

A pair is a view whose two answers are the replies themselves, in an order drawn by the seed; the label says which one
was preferred. A reward model reads it with ``of: answer``.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from arena.judges.types import JudgeView, Statement
from arena.protocols.errors import ConfigError, Fault, SourceError
from arena.seeds import derive_seed
from arena.training.judge_data import Example, LabelledViews

__all__ = ["preferences", "read_pairs", "synthetic_preferences", "synthetic_steps"]

Count = Annotated[int, Field(ge=1, le=10**9)]
Part = Annotated[float, Field(gt=0, lt=1)]
Noise = Annotated[float, Field(ge=0, lt=0.5)]

IntArray = NDArray[np.int64]

_OWN = ("question", "prompt", "chosen", "rejected", "margin", "group", "id")
_MOST_FAULTS = 50


def preferences(*, path: str, held_out: Part = 0.2, seed: int = 0) -> LabelledViews:
    """Pairs from a file of JSON objects, one a line.

        {"question": "Who?", "chosen": "Ann, since ...", "rejected": "Bob.", "margin": 2, "group": "q17"}

    ``prompt`` is another name for ``question``. ``margin`` (how much better) and ``group`` (pairs that belong together;
    else those of the same question do) may be absent. Other keys are fields that the judge's prompt may show.

    Args:
        path: of the file.
        held_out: share of the groups to measure on.
        seed: of what is held out, and of the order of the replies.

    Raises:
        SourceError: lines that are no such pair, all of them told.
        ConfigError: there is no such file.
    """
    examples = read_pairs(path, seed=seed)
    clusters = sorted({example.cluster for example in examples})
    count = min(max(round(held_out * len(clusters)), 1), len(clusters) - 1)
    chosen = set(random.Random(f"held out {seed}").sample(clusters, count)) if len(clusters) > 1 else set()
    return LabelledViews(
        [example for example in examples if example.cluster not in chosen],
        [example for example in examples if example.cluster in chosen],
    )


def read_pairs(path: str | Path, *, seed: int = 0) -> list[Example]:
    """All pairs of a file; see `preferences`."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")  # texts may hold other line breaks
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"'{path}' cannot be read as a file of preference pairs: {error}") from None
    examples: list[Example] = []
    faults: list[Fault] = []
    known = _Known()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            example = _pair(json.loads(line), number, seed)
            known.check(example)
            examples.append(example)
        except json.JSONDecodeError as error:
            faults.append(Fault(str(path), number, error.colno, "", f"no JSON: {error.msg}"))
        except ConfigError as error:
            faults.append(Fault(str(path), number, 1, "", str(error)))
        except (ValueError, RecursionError) as error:  # numbers of thousands of digits, endless nesting
            faults.append(Fault(str(path), number, 1, "", f"cannot be read: {error}"))
    if faults:
        raise SourceError(faults[:_MOST_FAULTS])
    return examples


class _Known:
    """What the pairs before had: no two may share an id, and pairs of one prompt share their group."""

    def __init__(self) -> None:
        self._keys: set[str] = set()
        self._clusters: dict[str, str] = {}

    def check(self, example: Example) -> None:
        """Look at one more pair.

        Raises:
            ConfigError: its id came before, or its prompt stood in another group.
        """
        view = example.view
        if view.key in self._keys:
            raise ConfigError(f"the id '{view.key}' came before")
        self._keys.add(view.key)
        prompt = repr((view.question, sorted(view.fields.items())))
        before = self._clusters.setdefault(prompt, example.cluster)
        if before != example.cluster:
            raise ConfigError(
                f"this prompt stood in group '{before}' before, and stands in '{example.cluster}' here: it could be "
                "learned from and held out at once, so pairs of one prompt share their group"
            )


def _pair(data: Any, number: int, seed: int) -> Example:
    if not isinstance(data, dict):
        raise ConfigError('a pair is an object: write {"question": ..., "chosen": ..., "rejected": ...}')
    question = data.get("question", data.get("prompt"))
    for name, value in (("question", question), ("chosen", data.get("chosen")), ("rejected", data.get("rejected"))):
        if not isinstance(value, str):
            raise ConfigError(f"'{name}' must be a text, not {value!r:.60}")
    if data["chosen"] == data["rejected"]:
        raise ConfigError("'chosen' and 'rejected' are the same text: there is nothing to prefer")
    margin = data.get("margin")
    if margin is not None and (
        isinstance(margin, bool) or not isinstance(margin, int | float) or not 0 <= margin < 1e9
    ):
        raise ConfigError(f"'margin' says how much better the chosen reply is: a number from 0 up, not {margin!r:.60}")
    fields = {name: value for name, value in data.items() if name not in _OWN}
    group = data.get("group")
    cluster = str(question if group is None else group)
    key = str(data["id"]) if "id" in data else f"line {number}"
    return _example(key, str(question), (data["chosen"], data["rejected"]), cluster, seed, margin, fields)


def _example(
    key: str,
    question: str,
    replies: tuple[str, str],
    cluster: str,
    seed: int,
    margin: float | None = None,
    fields: Mapping[str, Any] | None = None,
) -> Example:
    """A pair, the preferred reply given first, in an order drawn for its key."""
    label = derive_seed(seed, "order of replies", key) % 2
    answers = replies if label == 0 else replies[::-1]
    view = JudgeView(key, question, answers, fields=fields or {}, answers_argued=(0, 1))
    return Example(view, label, cluster, None if margin is None else float(margin))


def synthetic_preferences(
    *,
    noise: Noise = 0.1,
    clean: bool = False,
    words: Count = 16,
    length: Count = 4,
    questions: Count = 2,
    train: Count = 20_000,
    held_out: Count = 4000,
    seed: int = 0,
) -> LabelledViews:
    """Pairs of word lists whose better one is known, and whose labels are wrong with a known probability.

    Each question ``q0``, ``q1``, ... values every word ``g0``, ``g1``, ... by a whole number from -3 to 3 that nobody
    is told; a reply is worth the sum over its words. In a pair the worths differ. A share ``noise`` of the labels,
    drawn at random whatever the pair, names the worse reply. So the best rule of all prefers the reply that is worth
    more, and its accuracy on noisy labels is 1 - ``noise``.

    Args:
        noise: share of flipped labels, in training and, unless ``clean``, in what is measured on.
        clean: measure on true labels, on which the best rule is always right.
        words: how many words there are.
        length: words in a reply.
        questions: how many questions there are, each with values of its own.
        train: pairs to learn from.
        held_out: pairs to measure on.
        seed: of values and pairs.

    Returns:
        The pairs; ``notes`` hold ``noise``, ``held_out_labels`` (``noisy`` or ``true``) and ``bayes_accuracy``, that of
        the best rule on the labels that are measured on.
    """
    rng = np.random.default_rng(derive_seed(seed, "synthetic preferences"))
    worth_QW = rng.integers(-3, 4, size=(questions, words))
    if (worth_QW.max(1) == worth_QW.min(1)).any():
        raise ConfigError(f"words={words}: give a question words of different worth to choose between")

    def drawn(part: str, count: int, flip: float) -> tuple[list[Example], float]:
        asked_N = rng.integers(questions, size=count)
        first_NL, second_NL = _two_replies(rng, worth_QW, asked_N, length)
        worth_N2 = np.stack([_worth(worth_QW, asked_N, each) for each in (first_NL, second_NL)], axis=1)
        better_N = worth_N2.argmax(1)
        label_N = better_N.copy()
        label_N[rng.permutation(count)[: round(flip * count)]] ^= 1  # the stated share, neither more nor less
        replies = [[" ".join(f"g{word}" for word in row) for row in each.tolist()] for each in (first_NL, second_NL)]
        examples = []
        for number, (asked, label) in enumerate(zip(asked_N.tolist(), label_N.tolist(), strict=True)):
            answers = (replies[0][number], replies[1][number])
            key = f"{part}/{number}"
            examples.append(Example(JudgeView(key, f"q{asked}", answers, answers_argued=(0, 1)), label, key))
        return examples, float((better_N == label_N).mean())

    learned, _ = drawn("train", train, noise)
    measured, best = drawn("held out", held_out, 0.0 if clean else noise)
    notes: dict[str, float | int | str] = {
        "noise": noise,
        "held_out_labels": "true" if clean else "noisy",
        "bayes_accuracy": best,
    }
    return LabelledViews(learned, measured, notes)


def _two_replies(
    rng: np.random.Generator, worth_QW: IntArray, asked_N: IntArray, length: int
) -> tuple[IntArray, IntArray]:
    """Two replies (N, length) to each question, drawn anew until they differ in worth."""
    found = [rng.integers(worth_QW.shape[1], size=(len(asked_N), length)) for _ in range(2)]
    while len(same := np.flatnonzero(_worth(worth_QW, asked_N, found[0]) == _worth(worth_QW, asked_N, found[1]))):
        for each in found:
            each[same] = rng.integers(worth_QW.shape[1], size=(len(same), length))
    return found[0], found[1]


def _worth(worth_QW: IntArray, asked_N: IntArray, reply_NL: IntArray) -> IntArray:
    worth_N: IntArray = worth_QW[asked_N[:, None], reply_NL].sum(1)
    return worth_N


def synthetic_steps(
    *,
    noise: Noise = 0.1,
    modulus: Annotated[int, Field(ge=3, le=26)] = 5,
    length: Count = 4,
    train: Count = 4000,
    held_out: Count = 1000,
    seed: int = 0,
) -> LabelledViews:
    """Chains of additions modulo a number, one statement a step, some of whose step labels are wrong.

    The question ``3 +4 +1`` asks for the sum; a chain says ``3+4=2``, ``2+1=3`` where the modulus is 5. One of two
    chains is right throughout, the other errs in one step and goes on from there, so that its answer is another one.
    A share ``noise`` of the step labels that are learned from, drawn at random, is the wrong way round. What is
    measured on is which chain is right, without noise: the best rule is always right.

    Args:
        noise: share of wrong step labels.
        modulus: numbers are below it.
        length: steps of a chain.
        train: pairs of chains to learn from.
        held_out: pairs to measure on.
        seed: of the chains.
    """
    rng = np.random.default_rng(derive_seed(seed, "synthetic steps"))

    def drawn(part: str, count: int, flip: float) -> list[Example]:
        wrong = np.zeros(count * 2 * length, dtype=bool)
        wrong[rng.permutation(len(wrong))[: round(flip * len(wrong))]] = True
        flips = wrong.reshape(count, 2 * length).tolist()
        return [_two_chains(rng, f"{part}/{number}", modulus, length, flips[number]) for number in range(count)]

    notes: dict[str, float | int | str] = {"step_noise": noise, "held_out_labels": "true", "bayes_accuracy": 1.0}
    return LabelledViews(drawn("train", train, noise), drawn("held out", held_out, 0.0), notes)


def _two_chains(rng: np.random.Generator, key: str, modulus: int, length: int, flips: list[bool]) -> Example:
    start, *addends = rng.integers(modulus, size=length + 1).tolist()
    label, place, shift = rng.integers([2, length, modulus - 1]).tolist()
    errors = [[shift + 1 if answer != label and step == place else 0 for step in range(length)] for answer in range(2)]
    chains = [_chain(start, addends, each, modulus) for each in errors]
    said = [
        Statement(f"chain-{answer + 1}", answer, steps[step])
        for step in range(length)
        for answer, (steps, _) in enumerate(chains)
    ]
    good = [step != place or answer == label for step in range(length) for answer in range(2)]
    grades = tuple(float(each != flipped) for each, flipped in zip(good, flips, strict=True))
    question = " ".join([str(start), *(f"+{addend}" for addend in addends)])
    answers = (str(chains[0][1]), str(chains[1][1]))
    return Example(JudgeView(key, question, answers, said, answers_argued=(0, 1)), label, key, steps=grades)


def _chain(start: int, addends: list[int], errors: list[int], modulus: int) -> tuple[list[str], int]:
    """The steps as they are said, and the last number."""
    steps, number = [], start
    for addend, error in zip(addends, errors, strict=True):
        result = (number + addend + error) % modulus
        steps.append(f"{number}+{addend}={result}")
        number = result
    return steps, number
