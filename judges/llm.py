"""A language model as judge, read by the log-probabilities of the answers, in every presentation order.

For each cyclic order of the answers (both orders, if there are two) the prompt is rendered and the next-token
distribution read: all surface forms of an answer (``A``, `` A``) summed, then normalised over the answers. The verdict
is the mean of these log-probs over the orders, normalised again, so a preference for a letter or a place cancels (Zheng
et al. 2023, 2306.05685, section 3.4, does the same with stated answers). What the judge would *say* is another channel:
`Verdict.stated`.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from arena.agents.backend_hf import HFBackend
from arena.agents.models import Model, load_model, open_model
from arena.agents.types import Context, Message, SampleRequest
from arena.judges.exact import stated_answer
from arena.judges.fingerprint import fingerprint
from arena.judges.prompts import JudgePrompt, labels_for
from arena.judges.reading import Ids, NetworkReader
from arena.judges.types import JudgeView
from arena.judges.verdicts import abstain, decide, normalise
from arena.protocols.errors import ConfigError
from arena.protocols.records import Sampling, Verdict, VerdictStatus

__all__ = ["LLMJudge", "llm_judge"]

MEMO = 200_000
"""Most verdicts remembered: debates on the same task repeat themselves, and their prefixes even more."""

AnswerBy = Literal["letter", "text"]


class LLMJudge:
    """A language model that reads the debate.

    Args:
        model: the model; it is not trained while it judges.
        prompt: name of a shipped template or a template text (`arena.judges.prompts`).
        answer_by: ``letter`` reads the labels A, B, ...; ``text`` reads the answers themselves, which suits answers of
            one token (longer answers are compared by their summed log-probs, which favours short ones). Default:
            ``text`` for a word-level vocabulary, else ``letter``.
        cue: words put at the beginning of the judge's own turn, for ``letter`` only.
        reads: task field whose words count as quoted items where the judge's role may see it.
        stated: also let it write an answer (up to 12 tokens, greedily, answers in task order) and parse that strictly.
        tile: rows computed at once (`arena.judges.reading.NetworkReader`).
        report: what training measured; kept with the judge.
    """

    sees_label = False

    def __init__(
        self,
        model: Model,
        prompt: str = "answer",
        *,
        answer_by: AnswerBy | None = None,
        cue: str = "Answer:",
        reads: str = "evidence",
        stated: bool = False,
        tile: int | None = None,
        report: Mapping[str, Any] | None = None,
    ) -> None:
        if answer_by not in (None, "letter", "text"):
            raise ConfigError(f"answer_by={answer_by!r}: write letter or text")
        self.model = model
        self.prompt = JudgePrompt(prompt)
        words = model.encoder.one_token_turns
        self.answer_by: AnswerBy = answer_by or ("text" if words else "letter")
        self.cue = "" if words else cue
        self.reads = reads
        self.stated = stated
        self.report = dict(report or {})
        self._spaced = not words
        self._spelt: dict[str, set[Ids]] = {}
        self._reader = NetworkReader(model, tile=tile)
        self._memo: dict[Any, tuple[tuple[float, ...], dict[str, Any]]] = {}
        # A template that names the other fields may look at anything in them; every other one is a function of these.
        self._repeatable = "fields" not in self.prompt.names
        self._named = tuple(name in self.prompt.names for name in ("items", "question", "statements"))
        self.name = f"llm@{fingerprint(self._config(), model.network.state_dict())}"

    def _config(self) -> dict[str, Any]:
        return {
            "kind": "llm",
            "prompt": self.prompt.source,
            "answer_by": self.answer_by,
            "cue": self.cue,
            "reads": self.reads,
            "stated": self.stated,
        }

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; equal prompts are read once."""
        if len(self._memo) > MEMO:
            self._memo.clear()
        memo = self._memo if self._repeatable else {}
        keys = [self._key(view, index) for index, view in enumerate(views)]
        new = {key: view for key, view in zip(keys, views, strict=True) if key not in memo}
        self._read(new, memo)
        verdicts = []
        for view, key in zip(views, keys, strict=True):
            logps, evidence = memo[key]
            if logps:
                verdicts.append(decide(self.name, logps, evidence, self._say(view) if self.stated else None))
            else:
                status = VerdictStatus.TRUNCATED if "tokens" in evidence else VerdictStatus.ABSTAIN
                verdicts.append(abstain(self.name, evidence["reason"], status))
        return verdicts

    def _key(self, view: JudgeView, index: int) -> Any:
        if not self._repeatable:
            return index
        items, question, statements = self._named
        return (
            view.answers,
            tuple(self._items(view)) if items else None,
            view.question if question else None,
            tuple(view.statements) if statements else None,
        )

    def _items(self, view: JudgeView) -> list[str]:
        items = view.quotes()
        return [*items, *view.fields[self.reads]] if self.reads in view.fields else items

    def _read(self, views: Mapping[Any, JudgeView], memo: dict[Any, tuple[tuple[float, ...], dict[str, Any]]]) -> None:
        """Put the verdict of each view into ``memo``."""
        prompts: list[Ids] = []
        options: list[list[Ids]] = []
        asked: list[tuple[Any, list[tuple[int, ...]], list[list[int]]]] = []  # key, orders, owner of each option
        for key, view in views.items():
            try:
                orders, ids, forms, owners = self._questions(view)
                longest = max(map(len, ids)) + max(len(form) for options in forms for form in options) - 1
                if self.model.max_length is not None and longest > self.model.max_length:
                    reason = f"the debate takes {longest} tokens and the model reads {self.model.max_length}"
                    memo[key] = ((), {"reason": reason, "tokens": longest})
                    continue
            except ConfigError as error:
                memo[key] = ((), {"reason": str(error)})
                continue
            prompts += ids
            options += forms
            asked.append((key, orders, owners))
        scores = iter(self._reader.score(prompts, options))
        for key, orders, owners in asked:
            memo[key] = _combine(orders, [next(scores) for _ in orders], owners)

    def _questions(self, view: JudgeView) -> tuple[list[tuple[int, ...]], list[Ids], list[list[Ids]], list[list[int]]]:
        """For each order: the answers' indices, the prompt's ids, the continuations, and the answer of each."""
        count = len(view.answers)
        if count < 2:
            raise ConfigError(f"there is nothing to decide between {count} answers")
        orders = [tuple((start + place) % count for place in range(count)) for start in range(count)]
        prompts, options, owners = [], [], []
        for order in orders:
            prompts.append(self._encode(view, order))
            names = labels_for(count) if self.answer_by == "letter" else [view.answers[index] for index in order]
            forms = {form: index for index, name in zip(order, names, strict=True) for form in self._forms(name)}
            if len(set(forms.values())) < count:
                raise ConfigError("two answers read the same")
            options.append([*forms])
            owners.append([*forms.values()])
        return orders, prompts, options, owners

    def _encode(self, view: JudgeView, order: Sequence[int]) -> Ids:
        fields = {name: value for name, value in view.fields.items() if name not in ("question", "answers")}
        text = self.prompt.render(view, order, self._items(view) if self._named[0] else (), fields)
        messages = [Message("prompt", text)]
        if self.cue:
            messages.append(Message("cue", self.cue))
        return tuple(self.model.encoder.extend(Context(), messages)[0])

    def _forms(self, name: str) -> set[Ids]:
        """Token sequences that spell an answer."""
        if name not in self._spelt:
            if len(self._spelt) > MEMO:
                self._spelt.clear()
            spellings = (name, f" {name}") if self._spaced else (name,)
            forms = {tuple(self.model.encoder.encode_turn(text, end=False)) for text in spellings}
            self._spelt[name] = {form for form in forms if form}
        return self._spelt[name]

    @functools.cached_property
    def _speaker(self) -> HFBackend:
        return HFBackend(self.model, self.name)

    def _say(self, view: JudgeView) -> int | None:
        """The answer that the model writes, if it writes one."""
        ids = self._encode(view, range(len(view.answers)))
        request = SampleRequest(ids, seed=0, sampling=Sampling(temperature=0.0), max_tokens=12)
        drawn = self._speaker.generate([request])[0]
        return stated_answer(self.model.encoder.decode(drawn.ids), view.answers)[0]

    def save(self, folder: str | Path) -> None:
        """Write ``judge.json`` and the model; ``llm:path=FOLDER`` reads them back."""
        folder = Path(folder)
        self.model.save(folder / "model")
        config = {**self._config(), "name": self.name, "report": self.report}
        (folder / "judge.json").write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")


def _combine(
    orders: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], owners: Sequence[Sequence[int]]
) -> tuple[tuple[float, ...], dict[str, Any]]:
    """Sum forms, normalise in each order, average over the orders, normalise."""
    count = len(orders[0])
    by_order: list[tuple[float, ...]] = []
    masses = []
    for numbers, owner in zip(scores, owners, strict=True):
        mass = [0.0] * count
        top = max(numbers)
        if not math.isfinite(top):
            return (), {"reason": f"the model gives the answers a log-prob of {top}"}
        for number, answer in zip(numbers, owner, strict=True):
            mass[answer] += math.exp(number - top)
        if min(mass) <= 0.0:
            return (), {"reason": "the model gives an answer no probability at all"}
        masses.append(sum(mass) * math.exp(top))
        by_order.append(normalise([math.log(share) for share in mass]))
    mean = normalise([sum(column) / len(by_order) for column in zip(*by_order, strict=True)])
    choices = {max(range(count), key=logps.__getitem__) for logps in by_order}
    evidence = {
        "orders": [{"order": list(order), "logps": list(logps)} for order, logps in zip(orders, by_order, strict=True)],
        "order_consistent": len(choices) == 1,
        "mass": sum(masses) / len(masses),
    }
    return mean, evidence


def llm_judge(
    *,
    model: str | dict[str, Any] | None = None,
    path: str | None = None,
    prompt: str = "answer",
    answer_by: AnswerBy | None = None,
    cue: str = "Answer:",
    reads: str = "evidence",
    stated: bool = False,
) -> LLMJudge:
    """The judge that a spec names: ``llm:model=smollm2``, or ``llm:path=DIR`` for one that was saved.

    Raises:
        ConfigError: neither or both are given, or the folder holds no such judge.
    """
    if (model is None) == (path is None):
        raise ConfigError("an llm judge needs either model=NAME (such as smollm2) or path=FOLDER of a saved judge")
    if path is None:
        assert model is not None
        opened = open_model(model, share=True)
        return LLMJudge(opened, prompt, answer_by=answer_by, cue=cue, reads=reads, stated=stated)
    folder = Path(path)
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
    return judge
