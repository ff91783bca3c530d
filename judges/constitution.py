"""A constitution as judge: a language model says principle by principle whether a reply keeps to it.

Every principle is asked both ways round (`arena.judges.yes_no`). Constitutional AI (Bai et al. 2022, 2212.08073,
section 4.1) labels by one principle at a time as well; there two replies are compared, here each stands alone. What a
reply is worth is the weighted mean over the principles of p(it keeps to it), or the share that it keeps. Where replies
are compared, log p = log_softmax(logit(worth)): the odds of each.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from arena.agents.models import Model, open_model
from arena.judges.reward_text import Of, find_replies
from arena.judges.types import JudgeView
from arena.judges.verdicts import FLOOR, MOST_WEIGHT, abstain, scored
from arena.judges.yes_no import Leaning, NoLeaning, YesNo
from arena.protocols.compiler.sources import find_protocol
from arena.protocols.documents import read_document
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict

__all__ = ["ConstitutionJudge", "Worth", "constitution", "read_principles"]

Worth = Literal["mean", "kept"]
"""What a reply is worth: the mean of p(it keeps to a principle), or the share of the principles that it keeps."""
Weight = Annotated[float, Field(gt=0, le=1e6)]


class ConstitutionJudge:
    """Scores every reply by itself, by principles.

    Args:
        model: the model; it is not trained while it judges.
        principles: text -> positive weight, at least one.
        worth: see `Worth`; a principle whose p is exactly 0.5 is half kept.
        prompt: name of a shipped template or a template text (`arena.judges.yes_no.YesNoPrompt`).
        of: the reply: the ``last`` statement for an answer, ``all`` of them, or the ``answer``'s own text.
        cue, backend, tile: see `arena.judges.language.JudgeModel`.

    Where there are no answers, the last statement is scored alone.
    """

    sees_label = False
    kind = "constitution"

    def __init__(
        self,
        model: Model,
        principles: Mapping[str, float],
        *,
        worth: Worth = "mean",
        prompt: str = "constitution",
        of: Of = "last",
        cue: str | None = None,
        backend: str = "",
        tile: int | None = None,
    ) -> None:
        self.principles = dict(principles)
        self.worth: Worth = worth
        self.of: Of = of
        self._asker = YesNo(model, prompt, cue=cue, backend=backend, tile=tile)
        config = {
            "kind": self.kind,
            "principles": list(self.principles.items()),
            "worth": worth,
            "prompt": self._asker.prompt.source,
            "of": of,
            "cue": self._asker.language.speaker.cue,
        }
        self.name = self._asker.language.name(self.kind, config)

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; all that is to be asked is asked in one batch."""
        replies = [find_replies(view, self.of) for view in views]
        alone = [reply for of_one in replies if isinstance(of_one, list) for reply in of_one]
        asked = [(reply, principle) for reply in alone for principle in self.principles]
        said = iter(self._asker.ask(asked))
        return [
            self._verdict(view, [[next(said) for _ in self.principles] for _ in of_one])
            if isinstance(of_one, list)
            else abstain(self.name, of_one)
            for view, of_one in zip(views, replies, strict=True)
        ]

    def _verdict(self, view: JudgeView, said: Sequence[Sequence[Leaning | NoLeaning]]) -> Verdict:
        leanings: list[list[Leaning]] = []
        for of_one in said:
            leanings.append([])
            for found in of_one:
                if isinstance(found, NoLeaning):
                    return abstain(self.name, found.reason, found.status)
                leanings[-1].append(found)
        masses = [leaning.mass for of_one in leanings for leaning in of_one]
        evidence = {"replies": list(map(self._told, leanings)), "mass": math.fsum(masses) / len(masses)}
        scores = list(map(self._score, leanings))
        return scored(self.name, scores, evidence, answers=view.compared, strengths=list(map(_logit, scores)))

    def _score(self, leanings: Sequence[Leaning]) -> float:
        weights = list(self.principles.values())
        kept = [leaning.p if self.worth == "mean" else _step(leaning.p) for leaning in leanings]
        return math.fsum(map(math.prod, zip(weights, kept, strict=True))) / math.fsum(weights)

    def _told(self, leanings: Sequence[Leaning]) -> list[dict[str, Any]]:
        """Evidence on one reply."""
        return [
            {"principle": text, "p": said.p, "keeps": said.keeps, "breaks": said.breaks, "consistent": said.consistent}
            for text, said in zip(self.principles, leanings, strict=True)
        ]


def _step(p: float) -> float:
    return 0.5 if p == 0.5 else float(p > 0.5)


def _logit(p: float) -> float:
    """log p / (1 - p) in nats; a reply that is certainly better is so by `FLOOR` and no more."""
    if not 0.0 < p < 1.0:
        return -FLOOR / 2 if p > 0.5 else FLOOR / 2
    return max(FLOOR / 2, min(-FLOOR / 2, math.log(p) - math.log1p(-p)))


def read_principles(source: str | Sequence[str] | Mapping[str, float]) -> dict[str, float]:
    """Principles with their weights.

    Args:
        source: the principles themselves (with weights, if it is a mapping), a file with one principle a line, a YAML
            file with such a list or mapping, or a protocol that has a list ``principles``: its path, or its name if it
            comes with the package (``critique-revise``).

    Raises:
        ConfigError: there are none, one is empty or there twice, or the file holds none.
        SourceError: the file cannot be read.
        UnknownNameError: no protocol of that name.
    """
    given: Any = _from_file(source) if isinstance(source, str) else source
    pairs = list(given.items()) if isinstance(given, Mapping) else [(text, 1.0) for text in given]
    for text, weight in pairs:
        if not isinstance(text, str) or not text.strip():
            raise ConfigError(f"a principle must be a text, not {text!r:.60}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight <= MOST_WEIGHT:
            raise ConfigError(
                f"the weight of principle {text[:60]!r} must be a number above 0, at most 1,000,000, not {weight!r:.60}"
            )
    principles = {text.strip(): float(weight) for text, weight in pairs}
    if not principles or len(principles) < len(pairs):
        raise ConfigError("a principle stands there twice" if pairs else "there are no principles: name one at least")
    return principles


def _from_file(source: str) -> Any:
    if source.endswith(".txt"):
        try:
            return list(filter(str.strip, Path(source).read_text(encoding="utf-8").splitlines()))
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the principles in '{source}' cannot be read: {error}") from None
    document = read_document(find_protocol(source))
    found = document.get(("lists", "principles")) if document.has(("lists", "principles")) else document.get(())
    if not isinstance(found, list) and not (isinstance(found, dict) and not document.has(("nodes",))):
        raise ConfigError(f"'{source}' holds no principles: write a list of texts, or 'lists: {{principles: [...]}}'")
    return found


def constitution(
    *,
    model: str | dict[str, Any],
    principles: str | Annotated[list[str], Field(min_length=1)] | dict[str, Weight] = "critique-revise",
    worth: Worth = "mean",
    prompt: str = "constitution",
    of: Of = "last",
    cue: str | None = None,
    backend: str = "",
) -> ConstitutionJudge:
    """The judge that a spec names: ``constitution:model=smollm2``; see `ConstitutionJudge` and `read_principles`.

    Raises:
        ConfigError: the principles are none.
    """
    known = read_principles(principles)
    opened = open_model(model, share=True)
    return ConstitutionJudge(opened, known, worth=worth, prompt=prompt, of=of, cue=cue, backend=backend)
