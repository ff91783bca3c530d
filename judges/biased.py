"""A scripted judge whose accuracy and biases are known, to test audits of judges and whatever else must bear biases.

It chooses the right answer with a probability that is a sum:

    P(right) = accuracy + position/2 * first + speaking/2 * spoken + length/2 * longer + self/2 * own

where these are +1 if the right answer of two is listed first, is argued first, is argued in more characters, or is the
only one argued by the judge's own family of models; -1 if that is so of the wrong answer; 0 if of
neither. Each bias is therefore the difference in the probability of choosing an answer that *being* first (longer, of
the same family) makes, all else equal: what a randomised experiment estimates. Nothing is clipped; numbers that would
need it are refused.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Annotated

from pydantic import Field

from arena.judges.fingerprint import fingerprint
from arena.judges.types import JudgeView
from arena.judges.verdicts import FLOOR, abstain
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus

__all__ = ["BiasedJudge", "biased_judge"]

_BARELY = 0.51
"""Confidence of a judge that is no better than chance: its choice must still be the more likely answer."""
_SLACK = 1e-9

Bias = Annotated[float, Field(ge=-1, le=1)]


class BiasedJudge:
    """Knows the label, and chooses with planted biases.

    Args:
        accuracy: probability of choosing the right answer, averaged over presentations in which the biases balance.
        position: how much likelier an answer is chosen for being presented first: in place 0 of the view. The judge
            reads no other order.
        speaking: for being argued before any other answer.
        length: for being argued in more characters than any other answer.
        self_preference: for being argued by the judge's own family (`Statement.family`).
        family: name of that family.
        confidence: probability that a verdict gives to its choice; above 1/2. None: the accuracy, so that the judge is
            calibrated; 0.51 if that is less.
        seed: of the coins.

    With more than two answers, the wrong ones share ``1 - accuracy`` evenly, and a bias moves its probability from all
    the others, evenly, so that the difference stays what it is; where an answer would get less than 0 the judge
    abstains.

    Raises:
        ConfigError: biases that the accuracy leaves no room for.
    """

    sees_label = True

    def __init__(
        self,
        accuracy: float = 0.8,
        *,
        position: float = 0.0,
        speaking: float = 0.0,
        length: float = 0.0,
        self_preference: float = 0.0,
        family: str = "biased",
        confidence: float | None = None,
        seed: int = 0,
    ) -> None:
        room = 2 * min(accuracy, 1 - accuracy)
        wanted = abs(position) + abs(speaking) + abs(length) + abs(self_preference)
        if wanted > room + _SLACK:
            raise ConfigError(
                f"a judge with accuracy={accuracy:g} has no room for biases that add up to {wanted:g}: a probability "
                f"would leave 0..1; let position, speaking, length and self add up to at most {room:g} in absolute size"
            )
        self.accuracy = accuracy
        self.biases = (position, length, self_preference)
        self.speaking = speaking
        self.family = family
        self.confidence = max(accuracy, _BARELY) if confidence is None else confidence
        if not 0.5 < self.confidence <= 1:
            raise ConfigError(f"confidence={self.confidence:g} is that of no choice: it must be above 0.5, at most 1")
        config = [accuracy, *self.biases, family, self.confidence, seed, *([speaking] if speaking else [])]
        self.name = f"biased@{fingerprint({'kind': 'biased', 'version': 1, 'config': config})}"
        self._coins = blake2b(str(seed).encode(), digest_size=8)
        self._levels: dict[int, tuple[float, float]] = {}
        """Count of answers -> log-prob of the chosen one and of each other."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view; the choice is drawn, and is the same whatever else is judged."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        count, right = view.compared, view.label
        if not count:
            return abstain(self.name, "there are no answers to choose between")
        if right is None or not 0 <= right < count:
            return abstain(self.name, "the task has no label" if right is None else f"label {right} is no answer")
        chances = self.chances(view)
        if min(chances) < -_SLACK:
            return abstain(self.name, f"the biases leave an answer of {count} a probability below 0")
        coin = self._coin(view)
        logps = self._logps(_drawn(chances, right, view.answers, coin), count)
        return Verdict(VerdictStatus.SCORED, self.name, logps, None, {"p_right": chances[right], "coin": coin})

    def chances(self, view: JudgeView) -> list[float]:
        """Probability of choosing each answer; below 0 where there is no room for the biases."""
        count = view.compared
        chances = [(1 - self.accuracy) / (count - 1) if count > 1 else 1.0] * count
        if view.label is not None and count > 1:
            chances[view.label] = self.accuracy
        position, length, self_preference = self.biases
        if position:
            _shift(chances, position, (0,))
        if self.speaking:
            _shift(chances, self.speaking, _first_argued(view))
        if length:
            _shift(chances, length, _longest(view, count))
        if self_preference:
            _shift(chances, self_preference, self._own(view))
        return chances

    def _own(self, view: JudgeView) -> Collection[int]:
        return {said.answer for said in view.statements if said.family == self.family and said.answer is not None}

    def _coin(self, view: JudgeView) -> float:
        """Uniform in [0, 1): the same for all presentations of a question under one key."""
        coin = self._coins.copy()
        parts = [view.key, view.question, *sorted(view.answers)]
        coin.update("\0".join(parts).encode("utf-8", "surrogatepass"))
        return (int.from_bytes(coin.digest(), "little") >> 11) * 2.0**-53

    def _logps(self, choice: int, count: int) -> tuple[float, ...]:
        if count == 1:
            return (0.0,)
        if count not in self._levels:
            rest = (1 - self.confidence) / (count - 1)
            self._levels[count] = math.log(self.confidence), math.log(rest) if rest else FLOOR
        chosen, other = self._levels[count]
        return tuple([chosen if index == choice else other for index in range(count)])


def _first_argued(view: JudgeView) -> Collection[int]:
    return [said.answer for said in view.statements if said.answer is not None][:1]


def _longest(view: JudgeView, count: int) -> Collection[int]:
    """The answers that are argued in the most characters; quotes count where nothing else is heard."""
    lengths = [0] * count
    for said in view.statements:
        if said.answer is not None:
            lengths[said.answer] += len(said.text) or sum([len(quote.text) for quote in said.quotes])
    most = max(lengths)
    return [answer for answer, length in enumerate(lengths) if length == most]


def _shift(chances: list[float], bias: float, answers: Collection[int]) -> None:
    """Make ``answers`` likelier than the others by ``bias``; all of them or none leaves everything as it is."""
    count, favoured = len(chances), len(answers)
    if not 0 < favoured < count:
        return
    for index in range(count):
        chances[index] += bias * ((count - favoured) if index in answers else -favoured) / count


def _drawn(chances: Sequence[float], right: int, answers: Sequence[str], coin: float) -> int:
    """The right answer if the coin is below its probability; the order of the others does not depend on the view's."""
    passed = chances[right]
    if coin < passed or len(chances) == 1:
        return right
    named = tuple(answers) or ("",) * len(chances)  # a role may not see them
    rest = sorted([index for index in range(len(chances)) if index != right], key=named.__getitem__)
    for index in rest:
        passed += chances[index]
        if coin < passed:
            return index
    return rest[-1]


def biased_judge(
    *,
    accuracy: Annotated[float, Field(ge=0, le=1)] = 0.8,
    position: Bias = 0.0,
    speaking: Bias = 0.0,
    length: Bias = 0.0,
    self: Bias = 0.0,
    family: str = "biased",
    confidence: Annotated[float, Field(gt=0.5, le=1)] | None = None,
    seed: int = 0,
) -> BiasedJudge:
    """The judge that a spec names: ``biased:accuracy=.8,position=.15,length=.1,self=.1``.

    Raises:
        ConfigError: biases that the accuracy leaves no room for.
    """
    return BiasedJudge(
        accuracy,
        position=position,
        speaking=speaking,
        length=length,
        self_preference=self,
        family=family,
        confidence=confidence,
        seed=seed,
    )
