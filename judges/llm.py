"""A language model as judge, read by the log-probabilities of the answers, and by what it writes.

Log-probs: for each order of the answers (`arena.judges.orders`) the prompt is rendered and the distribution over the
next tokens read: all spellings of an answer (``A``, `` A``, ``(A``) summed, then normalised over the answers, mapped
back to the task's order and averaged over the orders, so that no place and no letter has an advantage.

Words: with ``stated``, ``rationale`` or ``thinking`` the judge also writes, on each order, and what it states is parsed
strictly (`arena.protocols.stated`). The two channels are kept apart: `Verdict.logps` is what ``decide_by`` names,
`Verdict.stated` the answer that was stated in every order, and the evidence has both.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from arena.agents.models import Model, load_model, open_model
from arena.judges.forms import Forms, Ids, letter_spellings, log_sum, spread, word_spellings
from arena.judges.language import JudgeModel
from arena.judges.orders import Average, Compare, Order, Speaking, combine, presentations, speaking_orders
from arena.judges.prompts import JudgePrompt, items_of, labels_for
from arena.judges.speech import Speech, Spoken, answer_parser, hear, seed_of
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, certain, decide
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus
from arena.protocols.stated import PARSER, Stated

__all__ = ["LLMJudge", "Question", "llm_judge"]

MEMO = 200_000
"""Most verdicts remembered: debates on the same task repeat themselves, and their prefixes even more."""
MEMO_SPOKEN = 5_000
"""The same where each has texts."""

AnswerBy = Literal["letter", "text"]
Channel = Literal["logps", "stated"]
Moment = Literal["prompt", "rationale"]
Count = Annotated[int, Field(ge=0, le=10**9)]


@dataclass(frozen=True, slots=True)
class Question:
    """A view as the judge reads it in one order of the answers."""

    order: Order
    """Indices of the answers (task order) by place."""
    speakers: Order
    """Answers in the order in which they are argued; empty for the given one."""
    text: str
    """What the model is asked."""
    prompt: Ids
    """Ids after which the answer is read."""
    spelt: Forms
    """How the answers may be spelt there."""

    @property
    def forms(self) -> tuple[Ids, ...]:
        """Token sequences that spell an answer."""
        return self.spelt.ids

    @property
    def owners(self) -> tuple[int, ...]:
        """The answer (task order) that each form spells."""
        return self.spelt.owners

    @property
    def longest(self) -> int:
        """Most tokens that are read at once."""
        return len(self.prompt) + self.spelt.longest - 1


@dataclass(slots=True)
class _Found:
    """What was found for one view."""

    logps: tuple[float, ...] = ()
    evidence: dict[str, Any] = field(default_factory=dict)
    said: Stated[int] | None = None
    problem: tuple[VerdictStatus, str] | None = None
    """Why there are no log-probs."""


class LLMJudge:
    """A language model that reads the debate.

    Args:
        model: the model; it is not trained while it judges.
        prompt: name of a shipped template or a template text (`arena.judges.prompts`); absent: ``rationale`` for a
            judge that writes one, else ``answer``.
        answer_by: ``letter`` reads the labels A, B, ...; ``text`` reads the answers themselves, which suits answers of
            one token (longer answers are compared by their summed log-probs, which favours short ones). Default:
            ``text`` for a word-level vocabulary, else ``letter``.
        cue: words put at the beginning of the answer; None: ``Answer:``, and none for a vocabulary of words.
        reads: task field whose words count as quoted items where the judge's role may see it.
        average, compare: see `arena.judges.orders`.
        statements: ``balanced`` also shows the statements in every order of speaking, for each order of the answers.
        any_case: ``a`` says A, too; for templates that leave the case open.
        stated: also let it write its answer, in each order.
        rationale: most tokens of reasoning that it writes before.
        reserve: most tokens of the answer, which the rationale cannot use up.
        thinking: most tokens of hidden thinking.
        temperature: at which rationale and thinking are drawn.
        seed: of what is drawn.
        decide_by: ``logps``, or ``stated``: all probability on the answer that is stated in every order; undecidable,
            ``contradictory``, if the orders disagree.
        logps_after: read the log-probs after the ``prompt``, or where the ``rationale`` ends.
        backend, tile: see `arena.judges.language.JudgeModel`.
        report: what training measured; kept with the judge.

    Raises:
        ConfigError: options that do not go together.
    """

    sees_label = False

    def __init__(
        self,
        model: Model,
        prompt: str | None = None,
        *,
        answer_by: AnswerBy | None = None,
        cue: str | None = None,
        reads: str = "evidence",
        average: Average = "probs",
        compare: Compare = "all",
        statements: Speaking = "given",
        any_case: bool = False,
        stated: bool = False,
        rationale: int = 0,
        reserve: int = 24,
        thinking: int = 0,
        temperature: float = 0.0,
        seed: int = 0,
        decide_by: Channel = "logps",
        logps_after: Moment = "prompt",
        backend: str = "",
        tile: int | None = None,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        _check_words(
            answer_by=(answer_by or "letter", AnswerBy),
            average=(average, Average),
            compare=(compare, Compare),
            statements=(statements, Speaking),
            decide_by=(decide_by, Channel),
            logps_after=(logps_after, Moment),
        )
        self.speech = Speech(rationale, reserve, thinking, temperature, seed)
        self.stated = stated or self.speech.reasons or decide_by == "stated"
        if logps_after == "rationale" and not self.speech.reasons:
            raise ConfigError("logps_after=rationale needs rationale=TOKENS or thinking=TOKENS")
        self.speech.check(writes=self.stated)
        self.prompt = JudgePrompt(prompt or ("rationale" if rationale else "answer"))
        self.answer_by: AnswerBy = answer_by or ("text" if model.encoder.one_token_turns else "letter")
        if any_case and self.answer_by == "text":
            raise ConfigError("any_case=true is for letters, and this judge answers by text: leave it out")
        self.reads = reads
        self.average: Average = average
        self.compare: Compare = compare
        self.statements: Speaking = statements
        self.prompt.check_statements(statements)
        self.any_case = any_case
        self.decide_by: Channel = decide_by
        self.logps_after: Moment = logps_after
        self.report = dict(report or {})
        self._language = JudgeModel(model, cue=cue, speech=self.speech, backend=backend, tile=tile)
        self._spelt: dict[str, tuple[Ids, ...]] = {}
        self._memo: dict[Any, _Found] = {}
        # A template that names the other fields may look at anything in them; every other one is a function of these.
        self._repeatable = "fields" not in self.prompt.names
        self._named = tuple(name in self.prompt.names for name in ("items", "question", "statements"))
        config = self._config()
        self.name = self._language.name("llm", {**config, "parser": PARSER} if self.stated else config)

    @property
    def model(self) -> Model:
        """The model."""
        return self._language.model

    def _config(self) -> dict[str, Any]:
        """All that makes it the instrument it is, beside the weights: arguments of the class, and its kind."""
        config = {
            "kind": "llm",
            "prompt": self.prompt.source,
            "answer_by": self.answer_by,
            "cue": self._language.speaker.cue,
            "reads": self.reads,
            "average": self.average,
            "compare": self.compare,
            "any_case": self.any_case,
            "stated": self.stated,
        }
        if self.statements != "given":
            config["statements"] = self.statements
        if self.stated:
            config |= {"decide_by": self.decide_by, "logps_after": self.logps_after}
            config |= dataclasses.asdict(self.speech)
            if not self.speech.temperature:
                del config["seed"]
        return config

    def with_model(self, model: Model, **options: Any) -> LLMJudge:
        """The same instrument around other weights, or with other options."""
        config = {name: value for name, value in self._config().items() if name != "kind"}
        return LLMJudge(model, **{**config, "backend": self._language.backend, **options})

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; equal prompts are read once."""
        if len(self._memo) > (MEMO_SPOKEN if self.stated else MEMO):
            self._memo.clear()
        memo = self._memo if self._repeatable else {}
        keys = [self._key(view, index) for index, view in enumerate(views)]
        new = {key: view for key, view in zip(keys, views, strict=True) if key not in memo}
        self._look(new, memo)
        return [self._verdict(memo[key], len(view.answers)) for key, view in zip(keys, views, strict=True)]

    def _key(self, view: JudgeView, index: int) -> Any:
        if not self._repeatable:
            return index
        items, question, statements = self._named
        return (
            view.answers,
            tuple(items_of(view, self.reads)) if items else None,
            view.question if question else None,
            tuple(view.statements) if statements or self.compare == "pairs" or self.statements != "given" else None,
            view.key if self.speech.temperature else None,
        )

    def _verdict(self, found: _Found, count: int) -> Verdict:
        said = found.said.value if found.said is not None else None
        if self.decide_by == "stated" and found.said is not None:
            if said is None:
                return abstain(self.name, found.said.reason, found.said.status, evidence=found.evidence)
            return certain(self.name, said, count, said, evidence=found.evidence)
        if found.problem is not None:
            status, reason = found.problem
            return abstain(self.name, reason, status, evidence=found.evidence, stated=said)
        return decide(self.name, found.logps, found.evidence, said)

    # What is asked

    def questions(self, view: JudgeView) -> list[Question]:
        """The view in every order in which it is read.

        Raises:
            ConfigError: it cannot be decided, whatever the weights.
        """
        count = len(view.answers)
        questions = []
        for order in presentations(count, self.compare):
            forms = self._forms(view, order)
            for speakers in speaking_orders(order, self.statements):
                text = self.prompt.present(view, order, self.reads, speakers)
                questions.append(Question(order, speakers, text, self._language.speaker.prompt(text), forms))
        return questions

    def _forms(self, view: JudgeView, order: Order) -> Forms:
        names = labels_for(len(order)) if self.answer_by == "letter" else [view.answers[index] for index in order]
        pairs = tuple((ids, index) for index, name in zip(order, names, strict=True) for ids in self._spell(name))
        forms = spread(pairs)
        if len(set(forms.owners)) < len(order) or len(dict(pairs)) < len(pairs):
            raise ConfigError("two answers read the same")
        return forms

    def _spell(self, name: str) -> tuple[Ids, ...]:
        """Token sequences that spell an answer."""
        if name not in self._spelt:
            if len(self._spelt) > MEMO:
                self._spelt.clear()
            if self._language.words:
                spellings: tuple[str, ...] = (name,)
            else:
                letters = self.answer_by == "letter"
                spellings = letter_spellings(name, any_case=self.any_case) if letters else word_spellings(name)
            forms = dict.fromkeys(self._language.encode(text) for text in spellings)
            self._spelt[name] = tuple(form for form in forms if form)
        return self._spelt[name]

    # What is found

    def _look(self, views: Mapping[Any, JudgeView], memo: dict[Any, _Found]) -> None:
        """Put what is found for each view into ``memo``; all of them are read, and written on, in one batch."""
        asked: dict[Any, list[Question]] = {}
        for key, view in views.items():
            try:
                asked[key] = self.questions(view)
            except ConfigError as error:
                memo[key] = self._nothing(VerdictStatus.ABSTAIN, str(error))
                continue
            if why := self._too_long(asked[key]):
                memo[key] = self._nothing(VerdictStatus.TRUNCATED, why)
                del asked[key]
        spoken = self._speak({key: views[key] for key in asked}, asked)
        every = [question for questions in asked.values() for question in questions]
        prompts = [question.prompt for question in every]
        if self.logps_after == "rationale":
            prompts = [one.before_answer for each in spoken.values() for one in each]
        shares = iter(self._language.read(prompts, [question.spelt for question in every]))
        for key, questions in asked.items():
            found = self._combine(questions, [next(shares) for _ in questions], len(views[key].answers))
            if key in spoken:
                orders = [question.order for question in questions]
                speakers = [question.speakers for question in questions]
                found.said, found.evidence["stated"] = hear(orders, spoken[key], speakers)
            memo[key] = found

    def _nothing(self, status: VerdictStatus, why: str) -> _Found:
        """For a view that cannot be read."""
        return _Found(said=Stated(None, status, why) if self.stated else None, problem=(status, why))

    def _too_long(self, questions: Sequence[Question]) -> str:
        longest = max(question.longest for question in questions)
        if self.stated:
            longest = max(longest, *(self._language.speaker.longest(question.prompt) for question in questions))
        return self._language.too_long(longest)

    def _speak(self, views: Mapping[Any, JudgeView], asked: Mapping[Any, list[Question]]) -> dict[Any, list[Spoken]]:
        if not self.stated:
            return {}
        letters = self.answer_by == "letter"
        requests = []
        for key, questions in asked.items():
            for question in questions:
                answers = [views[key].answers[index] for index in question.order]
                seed = seed_of(self.speech.seed, views[key].key, question.text)
                requests.append((question.text, seed, answer_parser(answers, letters=letters)))
        spoken = iter(self._language.speak(requests))
        return {key: [next(spoken) for _ in questions] for key, questions in asked.items()}

    def _combine(self, questions: Sequence[Question], shares: Sequence[Mapping[int, float]], count: int) -> _Found:
        normal: list[list[float]] = []
        mass = 0.0
        for found in shares:
            logps = [found[answer] for answer in sorted(found)]
            whole = log_sum(logps)
            lost = next((share for share in (*logps, whole) if not math.isfinite(share)), None)
            if lost is not None:
                why = "no probability at all" if lost == -math.inf else f"a log-prob of {lost}"
                return _Found(problem=(VerdictStatus.ABSTAIN, f"the model gives an answer {why}"))
            normal.append([share - whole for share in logps])
            mass += math.exp(whole)
        orders = [question.order for question in questions]
        speakers = [question.speakers for question in questions]
        combined, evidence = combine(orders, normal, count, self.average, speakers)
        return _Found(combined, {**evidence, "mass": mass / len(shares)})

    def save(self, folder: str | Path) -> None:
        """Write ``judge.json`` and the model; ``llm:path=FOLDER`` reads them back."""
        folder = Path(folder)
        self.model.save(folder / "model")
        config = {**self._config(), "name": self.name, "report": self.report}
        (folder / "judge.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _check_words(**given: tuple[str, Any]) -> None:
    """Refuse a value that is none of its words; specs are checked before, calls from Python are not."""
    for name, (value, words) in given.items():
        if value not in get_args(words):
            raise ConfigError(f"{name}={value!r}: write {' or '.join(get_args(words))}")


def llm_judge(
    *,
    model: str | dict[str, Any] | None = None,
    path: str | None = None,
    prompt: str | None = None,
    answer_by: AnswerBy | None = None,
    cue: str | None = None,
    reads: str | None = None,
    average: Average | None = None,
    compare: Compare | None = None,
    statements: Speaking | None = None,
    any_case: bool | None = None,
    stated: bool | None = None,
    rationale: Count | None = None,
    reserve: Annotated[int, Field(ge=1, le=10**9)] | None = None,
    thinking: Count | None = None,
    temperature: Annotated[float, Field(ge=0, le=1e6)] | None = None,
    seed: int = 0,
    decide_by: Channel | None = None,
    logps_after: Moment | None = None,
    backend: str = "",
) -> LLMJudge:
    """The judge that a spec names: ``llm:model=smollm2``, or ``llm:path=DIR`` for one that was saved.

    Raises:
        ConfigError: neither or both are given, or the folder holds no such judge.
    """
    if (model is None) == (path is None):
        raise ConfigError("an llm judge needs either model=NAME (such as smollm2) or path=FOLDER of a saved judge")
    options = {
        "prompt": prompt,
        "answer_by": answer_by,
        "cue": cue,
        "reads": reads,
        "average": average,
        "compare": compare,
        "statements": statements,
        "any_case": any_case,
        "stated": stated,
        "rationale": rationale,
        "reserve": reserve,
        "thinking": thinking,
        "temperature": temperature,
        "decide_by": decide_by,
        "logps_after": logps_after,
    }
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if path is None:
        assert model is not None
        if reads is not None:
            JudgePrompt(prompt or "answer").check_reads(reads)
        return LLMJudge(open_model(model, share=True), **given, seed=seed, backend=backend)
    if given:
        raise ConfigError(f"'{next(iter(given))}' does not go with path=: a saved judge has options of its own")
    judge = _saved(Path(path), backend)
    return judge.with_model(judge.model, seed=seed) if judge.speech.temperature and seed else judge


def _saved(folder: Path, backend: str) -> LLMJudge:
    try:
        config = json.loads((folder / "judge.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"'{folder}' holds no judge ({error})") from None
    if config.pop("kind", None) != "llm":
        raise ConfigError(f"'{folder}' holds a judge of another kind than llm")
    name = config.pop("name")
    judge = LLMJudge(load_model(folder / "model"), **config)
    if judge.name != name:
        raise ConfigError(f"the judge in '{folder}' is {judge.name}, but was saved as {name}: files are mixed")
    return judge.with_model(judge.model, backend=backend, report=judge.report) if backend else judge
