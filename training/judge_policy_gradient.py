"""A language model learns to judge from what its verdicts are worth.

For each question and each presentation order o of its answers the judge's answer distribution p_o is read, verdicts a
are sampled from it, and each earns

    r(o, a) = correct [a is right]  +  consistent mean over the other orders o' of (share of verdicts in o' that say a)

The advantage of a verdict is its reward minus the mean of its question and order. With ``samples: exact`` every answer
stands in for its samples, weighted by its probability, which gives the gradient of the expected reward itself (the
other orders' verdicts held fixed, whose turn comes in theirs):

    d/dtheta E r = sum_a p_o(a) (r(o, a) - E_o r) d/dtheta log p_o(a)

Verdicts are drawn among the ways to spell the answers (``A``, `` A``), token by token; those of one answer earn the
same. So probabilities, ratios and the KL are those of verdicts, whatever else the model might have said. The rewards
are those of verdicts that are stated; being paid for the likeliest answer, a judge grows surer than it is right, and
surer still if it is paid for consistency, which the KL to the start bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.judges.reading import NetworkReader
from arena.protocols.registry import Spec
from arena.training.judge_data import Example
from arena.training.judge_learning import Ids, LanguageTrainer, Reading, check_apart
from arena.training.judge_learning_config import PolicyGradient
from arena.training.self_check import self_check
from arena.training.sequences import TrainingSequence

__all__ = ["PolicyGradientTrainer", "Presented", "agreement"]

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Presented:
    """A question in one order of its answers, and the verdicts there."""

    question: int
    """Which of the step's questions it is."""
    example: Example
    reading: Reading
    logps: list[list[float]]
    """Of each form, token by token, among the tokens that forms have there."""
    shares_F: Floats
    """Share of the verdicts that each form makes up: of the samples, or its probability among the forms."""

    @property
    def answers(self) -> NDArray[np.int64]:
        """(F,) the answer that each form spells."""
        return np.asarray(self.reading.answers, dtype=np.int64)

    @property
    def votes(self) -> Floats:
        """(A,) share of the verdicts for each answer."""
        votes_A = np.zeros(len(self.example.view.answers))
        np.add.at(votes_A, self.answers, self.shares_F)
        return votes_A


class PolicyGradientTrainer(LanguageTrainer[PolicyGradient]):
    """See the module."""

    def __init__(self, config: PolicyGradient, start: Spec, *, seed: int) -> None:
        super().__init__(config, start, seed=seed)
        self.learner.set_reference()

    def begin(self, examples: Sequence[Example]) -> None:
        """See `JudgeTrainer.begin`."""
        super().begin(examples)
        for found in self.readings:
            for reading in found:
                check_apart(reading)

    def step(self, number: int) -> dict[str, float]:
        """See `JudgeTrainer.step`.

        Raises:
            SelfCheckError: before the first step, what is trained is not what was read.
        """
        drawn, rng = self.drawn(number)
        presented = self._present(drawn, rng)
        agreed = agreement(presented)
        rewards = [self._rewards(one, agreed_A) for one, agreed_A in zip(presented, agreed, strict=True)]
        sequences = _sequences(presented, rewards)
        if number == 0:
            self_check(self.learner, sequences)
        return self.learner.update(sequences) | _facts(presented, rewards, agreed)

    def _present(self, drawn: Sequence[int], rng: np.random.Generator) -> list[Presented]:
        """Every order of the drawn questions, and verdicts from the judge's answer distribution there."""
        asked = [(place, index, reading) for place, index in enumerate(drawn) for reading in self.readings[index]]
        options = [[form[:end] for form in r.forms for end in range(1, len(form) + 1)] for _, _, r in asked]
        scores = NetworkReader(self.model).score([reading.prompt for _, _, reading in asked], options)
        presented = []
        for (place, index, reading), sums in zip(asked, scores, strict=True):
            logps = _by_token(reading, sums)
            shares_F = self._shares(np.array([sum(row) for row in logps]), rng)
            presented.append(Presented(place, self.examples[index], reading, logps, shares_F))
        return presented

    def _shares(self, logps_F: Floats, rng: np.random.Generator) -> Floats:
        probs_F = np.exp(logps_F - logps_F.max())
        probs_F /= probs_F.sum()
        samples = self.config.samples
        return probs_F if samples == "exact" else rng.multinomial(samples, probs_F) / samples

    def _rewards(self, one: Presented, agreed_A: Floats) -> Floats:
        """(F,) what each verdict earns."""
        paid, label = self.config.rewards, one.example.label
        right_F = one.answers == (-1 if label is None else label)
        earned_F: Floats = paid.correct * right_F + paid.consistent * agreed_A[one.answers]
        return earned_F


def agreement(presented: Sequence[Presented]) -> list[Floats]:
    """For each question and order: (A,) share of verdicts for each answer, averaged over the question's other orders.

    Where a question has one order only, nothing can agree: 0.
    """
    orders: dict[int, list[Floats]] = {}
    for one in presented:
        orders.setdefault(one.question, []).append(one.votes)
    found = []
    for votes in orders.values():
        total_A = np.sum(votes, axis=0)
        found += [(total_A - votes_A) / max(len(votes) - 1, 1) for votes_A in votes]
    return found


def _by_token(reading: Reading, sums: Sequence[float]) -> list[list[float]]:
    """Log-prob of each token of each form among the tokens that some form has there.

    ``sums`` are the model's log-probs of every beginning of every form, form after form.
    """
    beginnings = [form[:end] for form in reading.forms for end in range(1, len(form) + 1)]
    found = dict(zip(beginnings, sums, strict=True))

    def logp(begin: Ids, token: int, others: Ids) -> float:
        options = [found[(*begin, other)] for other in others]
        return found[(*begin, token)] - float(np.logaddexp.reduce(options))

    return [
        [logp(ids[:at], ids[at], others) for at, others in enumerate(reading.choices(form))]
        for form, ids in enumerate(reading.forms)
    ]


def _sequences(presented: Sequence[Presented], rewards: Sequence[Floats]) -> list[TrainingSequence]:
    """One for each verdict that occurs, with its advantage times its share of the verdicts."""
    found, weights = [], []
    for number, (one, reward_F) in enumerate(zip(presented, rewards, strict=True)):
        baseline = float(one.shares_F @ reward_F)
        for form in np.flatnonzero(one.shares_F).tolist():
            found.append(_sampled(one.reading, form, one.logps[form], f"{number}"))
            weights.append(float(one.shares_F[form] * (reward_F[form] - baseline)))
    # The learner takes the mean over all trained tokens; meant is the mean over presentations of the sum over verdicts.
    scale = sum(len(sequence.positions) for sequence in found) / len(presented)
    for sequence, weight in zip(found, weights, strict=True):
        sequence.advantages = [scale * weight] * len(sequence.positions)
    return found


def _sampled(reading: Reading, form: int, logps: Sequence[float], key: str) -> TrainingSequence:
    """A verdict as the learner takes it: drawn among the forms, token by token; what has no alternative is context."""
    whole, choices = reading.sequence(form, key), reading.choices(form)
    free = [at for at, others in enumerate(choices) if len(others) > 1]
    return replace(
        whole,
        positions=[whole.positions[at] for at in free],
        turns=[0] * len(free),
        logps=[logps[at] for at in free],
        allowed={number: choices[at] for number, at in enumerate(free)},
    )


def _facts(presented: Sequence[Presented], rewards: Sequence[Floats], agreed: Sequence[Floats]) -> dict[str, float]:
    """What the step's verdicts came to."""
    facts = {
        "reward": _mean([one.shares_F @ reward_F for one, reward_F in zip(presented, rewards, strict=True)]),
        "agreement": _mean([one.votes @ agreed_A for one, agreed_A in zip(presented, agreed, strict=True)]),
    }
    right = [one.votes[one.example.label] for one in presented if one.example.label is not None]
    return facts | ({"accuracy": _mean(right)} if right else {})


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values))
