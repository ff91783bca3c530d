"""Absolute scores: a language model grades each reply by itself, criterion by criterion, from 1 to 10.

The score of a criterion is the mean of the ten numbers under the probability that the model gives each (G-Eval, Liu et
al. 2023, 2303.16634, equation 1), which says more than the likeliest number alone; or the number that it writes. A
reply is worth the weighted mean over the criteria. Where replies are compared, log p = log_softmax(scale * worth).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from arena.agents.models import Model, open_model
from arena.judges.forms import Forms, log_sum, spread, word_spellings
from arena.judges.language import JudgeModel
from arena.judges.prompts import open_prompt
from arena.judges.reward_text import REPLY_NAMES, Of, Reply, find_replies
from arena.judges.speech import Speech, Spoken, seed_of
from arena.judges.types import JudgeView
from arena.judges.verdicts import MOST_WEIGHT, abstain, scored
from arena.protocols.errors import ConfigError
from arena.protocols.inert import inert_line
from arena.protocols.records import Verdict, VerdictStatus
from arena.protocols.stated import PARSER, Stated, read_number

__all__ = ["Criterion", "RubricJudge", "read_criteria", "rubric"]

LOWEST, HIGHEST = 1, 10
MEMO = 50_000
"""Most grades remembered."""
NAMES = REPLY_NAMES | {
    "criterion": "name of the criterion",
    "description": "what the criterion asks, or empty",
    "lowest": "the lowest score, 1",
    "highest": "the highest score, 10",
    "reasons": "true if the judge writes a rationale first",
}
"""What a template may name."""

GradeBy = Literal["expected", "stated"]
Count = Annotated[int, Field(ge=0, le=10**9)]


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a reply is graded by."""

    name: str
    weight: float = 1.0
    asks: str = ""
    """What it means, in words."""


@dataclass(frozen=True, slots=True)
class _Grade:
    """Of one reply by one criterion."""

    expected: float | None
    """Mean of the numbers under their probabilities; None if these cannot be used."""
    mass: float = 0.0
    """Probability of the ten numbers together among all that the model might write."""
    problem: str = ""
    status: VerdictStatus = VerdictStatus.SCORED
    spoken: Spoken | None = None


class RubricJudge:
    """Grades every reply by itself.

    Args:
        model: the model; it is not trained while it judges.
        criteria: what it grades by, at least one.
        prompt: name of a shipped template or a template text with the names `NAMES`.
        of: the reply: ``all`` statements for an answer, the ``last`` of them, or the ``answer``'s own text. Where there
            are no answers, the last statement is graded alone.
        decide_by: ``expected`` numbers, or ``stated`` ones.
        scale: nats that one point is worth where replies are compared.
        rationale, reserve, thinking, temperature, seed: see `arena.judges.llm.LLMJudge`; with them, or if it decides by
            ``stated`` numbers, the judge also writes its scores. ``expected`` ones are read before it reasons.
        cue: words at the beginning of the score; None: ``Score:``, and none for a vocabulary of words.
        backend, tile: see `arena.judges.language.JudgeModel`.

    Raises:
        ConfigError: there is no criterion, or the model cannot write the numbers.
    """

    sees_label = False

    def __init__(
        self,
        model: Model,
        criteria: Sequence[Criterion],
        *,
        prompt: str = "rubric",
        of: Of = "all",
        decide_by: GradeBy = "expected",
        scale: float = 1.0,
        rationale: int = 0,
        reserve: int = 24,
        thinking: int = 0,
        temperature: float = 0.0,
        seed: int = 0,
        cue: str | None = None,
        backend: str = "",
        tile: int | None = None,
    ) -> None:
        if not criteria:
            raise ConfigError("a rubric needs a criterion: criteria='{accuracy: 2, clarity: 1}'")
        self.criteria = tuple(criteria)
        self.of: Of = of
        self.decide_by: GradeBy = decide_by
        self.scale = scale
        self.speech = Speech(rationale, reserve, thinking, temperature, seed)
        self.stated = decide_by == "stated" or self.speech.reasons
        self.speech.check(writes=self.stated)
        self.source, self._template = open_prompt(prompt, NAMES)
        cue = "Score:" if cue is None and not model.encoder.one_token_turns else cue
        self._language = JudgeModel(model, cue=cue, speech=self.speech, backend=backend, tile=tile)
        self._numbers = self._spelt()
        self._memo: dict[tuple[Reply, Criterion, str], _Grade] = {}
        config: dict[str, Any] = {
            "kind": "rubric",
            "criteria": [dataclasses.astuple(each) for each in self.criteria],
            "prompt": self.source,
            "of": of,
            "scale": scale,
            "cue": self._language.speaker.cue,
        }
        if self.stated:
            config |= {"decide_by": decide_by, "parser": PARSER, **dataclasses.asdict(self.speech)}
            if not temperature:
                del config["seed"]
        self.name = self._language.name("rubric", config)

    def _spelt(self) -> Forms:
        """The spellings of the numbers; what begins with 10 is taken out of what begins with 1."""
        words = self._language.words
        spellings = {
            number: (str(number),) if words else word_spellings(str(number)) for number in range(LOWEST, HIGHEST + 1)
        }
        pairs = [(self._language.encode(text), number) for number, texts in spellings.items() for text in texts]
        return spread(tuple(dict.fromkeys(pairs)))

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; all replies are graded in one batch."""
        if len(self._memo) > MEMO:
            self._memo.clear()
        replies = [find_replies(view, self.of) for view in views]
        asked = {
            self._key(view, reply, criterion): view.key
            for view, of_one in zip(views, replies, strict=True)
            if not isinstance(of_one, str)
            for reply in of_one
            for criterion in self.criteria
        }
        self._grade({key: episode for key, episode in asked.items() if key not in self._memo})
        return [
            abstain(self.name, of_one) if isinstance(of_one, str) else self._verdict(view, of_one)
            for view, of_one in zip(views, replies, strict=True)
        ]

    def _key(self, view: JudgeView, reply: Reply, criterion: Criterion) -> tuple[Reply, Criterion, str]:
        return reply, criterion, view.key if self.speech.temperature else ""

    def _render(self, reply: Reply, criterion: Criterion) -> str:
        values = reply.shown() | {
            "criterion": inert_line(criterion.name),
            "description": inert_line(criterion.asks),
            "lowest": LOWEST,
            "highest": HIGHEST,
            "reasons": self.speech.rationale > 0,
        }
        return self._template({name: values[name] for name in self._template.names})

    def _grade(self, asked: Mapping[tuple[Reply, Criterion, str], str]) -> None:
        """Put a grade for each (reply, criterion) into the memo."""
        texts: dict[tuple[Reply, Criterion, str], str] = {}
        prompts = {}
        for key in asked:
            try:
                text = self._render(key[0], key[1])
                prompt = self._language.speaker.prompt(text)
            except ConfigError as error:
                self._memo[key] = _Grade(None, 0.0, str(error), VerdictStatus.ABSTAIN)
                continue
            longest = self._language.speaker.longest(prompt) if self.stated else len(prompt) + self._numbers.longest - 1
            if why := self._language.too_long(longest):
                self._memo[key] = _Grade(None, 0.0, why, VerdictStatus.TRUNCATED)
                continue
            texts[key], prompts[key] = text, prompt
        shares = self._language.read([*prompts.values()], [self._numbers] * len(prompts))
        spoken: Sequence[Spoken | None] = [None] * len(texts)
        if self.stated:
            requests = [(text, seed_of(self.speech.seed, asked[key], text), _parse) for key, text in texts.items()]
            spoken = self._language.speak(requests)
        for key, found, one in zip(texts, shares, spoken, strict=True):
            self._memo[key] = dataclasses.replace(_expected(found), spoken=one)

    def _verdict(self, view: JudgeView, replies: Sequence[Reply]) -> Verdict:
        grades = [[self._memo[self._key(view, reply, each)] for each in self.criteria] for reply in replies]
        evidence = {"replies": [self._told(of_one) for of_one in grades]}
        scores = []
        for number, of_one in enumerate(grades, start=1):
            values = []
            for criterion, grade in zip(self.criteria, of_one, strict=True):
                value, status, reason = self._value(grade)
                if value is None:
                    why = f"{criterion.name} of reply {number}: {reason}"
                    return abstain(self.name, why, status, evidence=evidence)
                values.append(value * criterion.weight)
            scores.append(math.fsum(values) / math.fsum(each.weight for each in self.criteria))
        return scored(self.name, scores, evidence, answers=view.compared, scale=self.scale)

    def _told(self, grades: Sequence[_Grade]) -> dict[str, Any]:
        """Evidence on one reply."""
        return {each.name: _told(grade) for each, grade in zip(self.criteria, grades, strict=True)}

    def _value(self, grade: _Grade) -> tuple[float | None, VerdictStatus, str]:
        if self.decide_by == "expected" or grade.spoken is None:
            return grade.expected, grade.status, grade.problem
        found = grade.spoken.found
        return found.value, found.status, f"it {found.reason}"


def _parse(text: str, led: bool, cut: bool) -> Stated[float]:
    return read_number(text, LOWEST, HIGHEST, led=led, cut=cut)


def _expected(shares: Mapping[int, float]) -> _Grade:
    whole = log_sum(shares.values())
    if not math.isfinite(whole) or any(map(math.isnan, shares.values())):
        return _Grade(None, 0.0, "the model gives the numbers no probability that can be used", VerdictStatus.ABSTAIN)
    expected = math.fsum(number * math.exp(share - whole) for number, share in shares.items())
    return _Grade(expected, math.exp(whole))


def _told(grade: _Grade) -> dict[str, Any]:
    told: dict[str, Any] = {"expected": grade.expected, "mass": grade.mass}
    if grade.spoken is not None:
        told["stated"] = {"number": grade.spoken.found.value, **grade.spoken.told()}
    if grade.problem:
        told["reason"] = grade.problem
    return told


def read_criteria(given: Sequence[str] | Mapping[str, Any]) -> tuple[Criterion, ...]:
    """Criteria as YAML has them: names, or name -> weight, name -> words, name -> {weight: NUMBER, asks: WORDS}.

    Raises:
        ConfigError: none, or one of another form.
    """
    named = given if isinstance(given, Mapping) else dict.fromkeys(given, 1.0)
    criteria = tuple(_criterion(str(name), value) for name, value in named.items())
    if not criteria or len(criteria) < len(given):
        raise ConfigError("a criterion stands there twice" if criteria else "there are no criteria: name one at least")
    return criteria


def _criterion(name: str, value: Any) -> Criterion:
    parts = dict(value) if isinstance(value, Mapping) else {"asks" if isinstance(value, str) else "weight": value}
    weight, asks = parts.pop("weight", 1.0), parts.pop("asks", "")
    good = isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= MOST_WEIGHT
    if parts or not good or not isinstance(asks, str) or not name.strip():
        raise ConfigError(
            f"criterion '{name}': {value!r:.60} is neither a weight (above 0, at most 1,000,000), nor words, nor "
            "a mapping {weight: NUMBER, asks: WORDS}"
        )
    return Criterion(name.strip(), float(weight), asks.strip())


def rubric(
    *,
    model: str | dict[str, Any],
    criteria: list[str] | dict[str, Any],
    prompt: str = "rubric",
    of: Of = "all",
    decide_by: GradeBy = "expected",
    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0,
    rationale: Count = 0,
    reserve: Annotated[int, Field(ge=1, le=10**9)] = 24,
    thinking: Count = 0,
    temperature: Annotated[float, Field(ge=0, le=1e6)] = 0.0,
    seed: int = 0,
    cue: str | None = None,
    backend: str = "",
) -> RubricJudge:
    """The judge that a spec names: ``rubric:model=smollm2,criteria={accuracy: 2, clarity: 1}``; see `RubricJudge`.

    Raises:
        ConfigError: the criteria are none.
    """
    known = read_criteria(criteria)
    return RubricJudge(
        open_model(model, share=True),
        known,
        prompt=prompt,
        of=of,
        decide_by=decide_by,
        scale=scale,
        rationale=rationale,
        reserve=reserve,
        thinking=thinking,
        temperature=temperature,
        seed=seed,
        cue=cue,
        backend=backend,
    )
