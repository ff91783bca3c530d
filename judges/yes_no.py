"""Questions to a language model that are answered by yes or no, each asked both ways round.

Whether a reply keeps to a principle is asked twice, as "does it keep to it" and as "does it break it". A model that is
fond of one word says too much of it both times, and in the mean of p(yes, it keeps) and p(no, it breaks) that cancels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena.agents.models import Model
from arena.judges.forms import Forms, Ids, log_sum, spread, word_spellings
from arena.judges.language import JudgeModel
from arena.judges.prompts import open_prompt
from arena.judges.reward_text import REPLY_NAMES, Reply
from arena.protocols.errors import ConfigError
from arena.protocols.inert import inert_line
from arena.protocols.records import VerdictStatus

__all__ = ["Leaning", "NoLeaning", "YesNo", "YesNoPrompt"]

MEMO = 100_000
"""Most answers remembered."""
NAMES = REPLY_NAMES | {
    "principle": "the principle, or empty",
    "way": "'keeps' or 'breaks': which way round it is asked",
}
"""What a template may name."""
_WAYS = ("keeps", "breaks")
_YES, _NO = 1, 0


class YesNoPrompt:
    """A template (`arena.protocols.templates`) with the names `NAMES`.

    Args:
        source: the name of a shipped template (``constitution``, ``critic``), or a template text.

    Raises:
        ConfigError: no such template, a syntax error, a name that it cannot know, or it asks one way only.
    """

    def __init__(self, source: str) -> None:
        self.source, self.template = open_prompt(source, NAMES)
        if "way" not in self.template.names:
            example = "{% if way == 'keeps' %}Is it so?{% else %}Is it not so?{% endif %}"
            raise ConfigError(f"the judge's prompt asks one way round only: write {example}")

    def render(self, reply: Reply, principle: str, way: str) -> str:
        """The prompt. Whatever is not the judge's own is printable, a line at a time, without forged tags.

        Raises:
            ConfigError: the template fails on these values.
        """
        values = reply.shown() | {"principle": inert_line(principle), "way": way}
        return self.template({name: values[name] for name in self.template.names}).strip()


@dataclass(frozen=True, slots=True)
class Leaning:
    """What the model says of one reply by one principle."""

    keeps: float
    """p(yes), of yes and no, where it is asked whether the reply keeps to it."""
    breaks: float
    """p(yes), of yes and no, where it is asked whether the reply breaks it."""
    mass: float
    """Probability of yes and no together among all that it might write; the mean of both ways."""

    @property
    def p(self) -> float:
        """Probability that the reply keeps to it."""
        return (self.keeps + 1.0 - self.breaks) / 2

    @property
    def consistent(self) -> bool:
        """Whether it leans the same way both times."""
        return (self.keeps > 0.5) != (self.breaks > 0.5)


@dataclass(frozen=True, slots=True)
class NoLeaning:
    """Why the model says nothing of a reply."""

    status: VerdictStatus
    reason: str


class YesNo:
    """Asks a model.

    Args:
        model: network and encoder; it is not trained meanwhile.
        prompt: name of a shipped template or a template text.
        cue, backend, tile: see `arena.judges.language.JudgeModel`.
    """

    def __init__(
        self, model: Model, prompt: str, *, cue: str | None = None, backend: str = "", tile: int | None = None
    ) -> None:
        self.prompt = YesNoPrompt(prompt)
        self.language = JudgeModel(model, cue=cue, backend=backend, tile=tile)
        self._memo: dict[tuple[Reply, str], Leaning | NoLeaning] = {}

    @functools.cached_property
    def _forms(self) -> Forms:
        """The spellings of both words; raises ConfigError if the model's vocabulary lacks one."""
        words = ((_YES, "Yes"), (_NO, "No"))
        pairs = [(self.language.encode(text), owner) for owner, word in words for text in self._spellings(word)]
        return spread(tuple(dict.fromkeys(pairs)))

    def _spellings(self, word: str) -> tuple[str, ...]:
        if self.language.words:
            return (word.lower(),)
        return tuple(text for case in (word, word.lower()) for text in word_spellings(case))

    def ask(self, questions: Sequence[tuple[Reply, str]]) -> list[Leaning | NoLeaning]:
        """What the model says of each (reply, principle); equal ones are asked once, and all in one batch.

        Raises:
            BackendError: the model failed.
        """
        if len(self._memo) > MEMO:
            self._memo.clear()
        new: dict[tuple[Reply, str], list[Ids]] = {}
        for question in dict.fromkeys(questions):
            if question not in self._memo:
                prompts = self._prompts(*question)
                if isinstance(prompts, NoLeaning):
                    self._memo[question] = prompts
                else:
                    new[question] = prompts
        every = [ids for prompts in new.values() for ids in prompts]
        shares = iter(self.language.read(every, [self._forms] * len(every)))
        for question in new:
            self._memo[question] = _leaning(next(shares), next(shares))
        return [self._memo[question] for question in questions]

    def _prompts(self, reply: Reply, principle: str) -> list[Ids] | NoLeaning:
        """Ids after which yes or no is read, one way round and the other."""
        try:
            prompts = [self.language.speaker.prompt(self.prompt.render(reply, principle, way)) for way in _WAYS]
            why = self.language.too_long(max(map(len, prompts)) + self._forms.longest - 1)
        except ConfigError as error:
            return NoLeaning(VerdictStatus.ABSTAIN, str(error))
        return NoLeaning(VerdictStatus.TRUNCATED, why) if why else prompts


def _leaning(keeps: Mapping[int, float], breaks: Mapping[int, float]) -> Leaning | NoLeaning:
    shares: list[float] = []
    for found in (keeps, breaks):
        whole = log_sum(found.values())
        if not math.isfinite(whole) or any(map(math.isnan, found.values())):
            return NoLeaning(VerdictStatus.ABSTAIN, "the model gives yes or no a log-prob that is no number")
        shares += [math.exp(found[_YES] - whole), math.exp(whole)]
    yes_keeps, mass_keeps, yes_breaks, mass_breaks = shares
    return Leaning(yes_keeps, yes_breaks, (mass_keeps + mass_breaks) / 2)
