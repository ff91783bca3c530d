"""A person at the terminal judges.

The person reads what a model would read: the question, the answers in an order drawn for each case, and what was said.
Asked for are an answer, how sure the person is of it, and why; all three are kept, and the distribution is made of the
confidence. Where there are no answers, what was said last is given a score. End of input (Ctrl-D) ends the session:
what was judged before is kept.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from arena.agents.human import Person
from arena.judges.fingerprint import fingerprint
from arena.judges.types import JudgeView, Statement
from arena.judges.verdicts import abstain, certain, decide, normalise, scored
from arena.protocols.errors import LeftError
from arena.protocols.inert import inert
from arena.protocols.records import Verdict

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["HumanJudge", "human_judge", "read_confidence"]

_UNDECIDED = "(I cannot decide)"
_NUMBER = re.compile(r"(\d+(?:[.,]\d+)?|[.,]\d+)\s*(%?)")
_MOST = 10
"""Best score of what was said, where there are no answers; 0 is the worst."""


class HumanJudge:
    """Asks a person, one case after the other.

    Args:
        name: who the person is; part of the instrument's name.
        seed: of the order in which the answers are shown, drawn for each case and kept in the evidence. A person is
            asked once a case: who has read it in one order cannot judge it anew in the other.
        read: see `arena.agents.human.Person`.
        console: see `arena.agents.human.Person`.
    """

    sees_label = False
    interactive = True
    """Episodes are best played one after the other."""

    def __init__(
        self,
        name: str = "human",
        *,
        seed: int = 0,
        read: Callable[[str], str] | None = None,
        console: Console | None = None,
    ) -> None:
        self.name = f"human@{fingerprint({'kind': 'human', 'form': 1, 'person': name})}"
        self.person = name
        self.seed = seed
        self._asked = Person(read, console)

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order.

        Raises:
            LeftError: the input has ended.
        """
        try:
            return [self._one(view) for view in views]
        except EOFError:
            raise LeftError(f"{self.person} has left: the input has ended") from None

    def _one(self, view: JudgeView) -> Verdict:
        count = view.compared
        if count and not view.answers:
            return abstain(self.name, "the answers are not shown to the judge's role, so a person cannot choose one")
        order = _order(f"{self.seed}\0{view.key}", count)
        self._show(view, order)
        return self._choose(view, order) if count else self._rate()

    def _show(self, view: JudgeView, order: Sequence[int]) -> None:
        person = self._asked
        person.rule(f"judge {view.key}")
        if view.question:
            person.show(f"Question: {inert(view.question)}", "bold")
        for place, answer in enumerate(order, start=1):
            person.show(f"  {place}. {inert(view.answers[answer])}")
        for name, value in view.fields.items():
            person.show(f"{name}:", "dim")
            person.show(_quoted(_flat(value)))
        for said in view.statements:
            argues = f", who argues for {order.index(said.answer) + 1}" if said.answer in order else ""
            person.show(f"{said.role}{argues}:", "dim")
            person.show(_quoted(_text(said)))

    def _choose(self, view: JudgeView, order: list[int]) -> Verdict:
        person, count = self._asked, len(order)
        person.show("Which answer is right?", "bold")
        place = person.choose([*(view.answers[answer] for answer in order), _UNDECIDED])
        if place is None or place == count:
            return self._abstain(order)
        sure = self._confidence(count) if count > 1 else 1.0
        evidence = {"order": order, "confidence": sure, "explanation": self._explanation(), "person": self.person}
        choice = order[place]
        return _distribution(self.name, choice, count, sure, evidence)

    def _abstain(self, order: list[int]) -> Verdict:
        why = self._explanation()
        reason = f"the person cannot decide: {why}" if why else "the person cannot decide"
        evidence = {"order": order, "explanation": why, "person": self.person}
        return abstain(self.name, reason, evidence=evidence)

    def _confidence(self, count: int) -> float:
        least = round(100 / count)
        while True:
            typed = self._asked.line(f"how sure are you, {least} to 100 %> ")
            sure = read_confidence(typed, count)
            if sure is not None:
                return sure
            self._asked.show(
                f"Type a number from {least} to 100, or from {1 / count:.2g} to 1: guessing is right in {least} % "
                "of such cases.",
                "dim",
            )

    def _rate(self) -> Verdict:
        person = self._asked
        person.show(f"What is the last of it worth, from 0 to {_MOST}?", "bold")
        while (worth := _number(person.line("score> "))) is None or worth > _MOST:
            person.show(f"Type a number from 0 to {_MOST}.", "dim")
        return scored(self.name, [worth], {"explanation": self._explanation(), "person": self.person}, answers=0)

    def _explanation(self) -> str:
        self._asked.show("Say why, and end with an empty line; only an empty line leaves it out.", "dim")
        try:
            return self._asked.lines(optional=True)
        except EOFError:  # Ctrl-D instead of an empty line; the next question finds the input ended again
            return ""


def read_confidence(text: str, answers: int) -> float | None:
    """What a person means by ``80``, ``80 %``, ``.8`` or ``0,8``; None if it is no number, above 1 or below chance.

    A number up to 1 without a per cent sign is a probability: below chance, which is what 1 % would be, nobody answers.
    """
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    number = float(found[1].replace(",", "."))
    sure = number / 100 if found[2] or number > 1 else number
    least = 1 / answers
    # What was asked for is a whole number of per cent, so 33 % is chance of three.
    return max(sure, least) if least - 0.005 <= sure <= 1 else None


def _number(text: str) -> float | None:
    found = _NUMBER.fullmatch(text)
    return None if found is None or found[2] else float(found[1].replace(",", "."))


def _distribution(judge: str, choice: int, count: int, sure: float, evidence: Mapping[str, Any]) -> Verdict:
    """The chosen answer with its confidence, the others with equal parts of the rest."""
    if sure == 1:
        return certain(judge, choice, count, choice, evidence=evidence)
    rest = (1 - sure) / (count - 1)
    shares = [sure if answer == choice else rest for answer in range(count)]
    if abs(sure - rest) < 1e-9:
        shares = [1.0] * count  # a tie is one of equal numbers
    return decide(judge, normalise(list(map(math.log, shares))), evidence, choice)


def _order(stream: str, count: int) -> list[int]:
    """A permutation that depends on ``stream`` alone."""
    order = list(range(count))
    seed = int.from_bytes(blake2b(stream.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    random.Random(seed).shuffle(order)
    return order


def _text(said: Statement) -> str:
    return said.text or "\n".join(f"<verified>{quote.text}</verified>" for quote in said.quotes if quote.good)


def _flat(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_flat(item)}" for key, item in value.items())
    return " ".join(map(_flat, value)) if isinstance(value, list | tuple) else str(value)


def _quoted(text: str) -> str:
    """With a bar before each line, so that nothing that was said looks like a question of the program."""
    return "\n".join(f"  \N{BOX DRAWINGS LIGHT VERTICAL} {line}" for line in text.splitlines() or [""])


def human_judge(*, name: str = "human", seed: int = 0) -> HumanJudge:
    """A person at the terminal; ``name`` tells several people apart."""
    return HumanJudge(name, seed=seed)
