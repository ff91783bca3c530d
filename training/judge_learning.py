"""Language models that learn to judge: what imitation and policy gradients share.

The trained tokens are those that the judge is read by: `LLMJudge` renders each order of the answers into a prompt and
names the token sequences that spell each answer there. Optimizer steps are those of `arena.training.learner`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from arena.agents.models import Model, add_lora, open_model
from arena.judges import JUDGES
from arena.judges.llm import LLMJudge
from arena.judges.types import JudgeView
from arena.protocols.errors import ConfigError
from arena.protocols.registry import Spec, parse_spec
from arena.seeds import derive_seed
from arena.training.judge_data import Example
from arena.training.judge_learning_config import LanguageMethod
from arena.training.learner import Learner
from arena.training.sequences import TrainingSequence

__all__ = ["LanguageTrainer", "Reading", "check_apart", "readings"]

Method = TypeVar("Method", bound=LanguageMethod)
Ids = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """One presentation of an example: what the judge reads, and how it can answer."""

    prompt: Ids
    forms: tuple[Ids, ...]
    """Token sequences that spell an answer."""
    answers: tuple[int, ...]
    """Which answer (task order) each form spells."""

    def choices(self, form: int) -> list[Ids]:
        """For each token of a form, the tokens that forms have there after the same beginning; its own among them."""
        ids = self.forms[form]
        return [
            tuple(sorted({other[at] for other in self.forms if len(other) > at and other[:at] == ids[:at]}))
            for at in range(len(ids))
        ]

    def sequence(self, form: int, key: str) -> TrainingSequence:
        """The prompt with one form as what is trained; log-probs and advantages are left to the caller."""
        ids, start = self.forms[form], len(self.prompt)
        return TrainingSequence(
            ids=[*self.prompt, *ids],
            positions=list(range(start, start + len(ids))),
            logps=None,
            turns=[0] * len(ids),
            role="judge",
            episode=key,
            prompt_length=start,
            group=key,
        )


def readings(judge: LLMJudge, view: JudgeView) -> list[Reading]:
    """Every presentation of a view, as the judge reads it.

    Raises:
        ConfigError: the judge could not decide it, whatever its weights.
    """
    questions = judge.questions(view)
    longest, limit = max(question.longest for question in questions), judge.model.max_length
    if limit is not None and longest > limit:
        raise ConfigError(f"the debate takes {longest} tokens and the model reads {limit}")
    return [Reading(question.prompt, question.forms, question.owners) for question in questions]


def check_apart(reading: Reading) -> None:
    """Whether no form begins with another one, so that they are the leaves of a tree.

    Raises:
        ConfigError: one does.
    """
    for ids in reading.forms:
        if any(len(other) < len(ids) and ids[: len(other)] == other for other in reading.forms):
            raise ConfigError("one answer begins with another: verdicts cannot be sampled, unless by letters")


class LanguageTrainer(Generic[Method]):
    """Trains a language model as judge; a `JudgeTrainer` but for `step`.

    Args:
        config: the method.
        start: the judge to begin with: ``model``, or ``path`` of a saved one, and its options.
        seed: of fresh weights and of what is drawn.
    """

    def __init__(self, config: Method, start: Spec, *, seed: int) -> None:
        self.config = config
        self.seed = seed
        self._judge = _own_judge(config, start, seed)
        self.learner = Learner(self._judge.model, config.learner, seed=derive_seed(seed, "learner") % 2**31)  # type: ignore[attr-defined]
        self.examples: list[Example] = []
        self.readings: list[list[Reading]] = []
        """For each example, one for each presentation order."""

    @property
    def model(self) -> Model:
        """What is trained."""
        return self._judge.model

    def begin(self, examples: Sequence[Example]) -> None:
        """Learn from these; every example is rendered once.

        Raises:
            ConfigError: the judge cannot read one of them.
        """
        self.examples = list(examples)
        self.readings = []
        for example in examples:
            try:
                self.readings.append(readings(self._judge, example.view))
            except ConfigError as error:
                raise ConfigError(f"'{example.view.key}' cannot be learned from: {error}") from None

    def judge(self) -> LLMJudge:
        """A copy of the judge as it is now."""
        model = self._judge.model
        network: Any = copy.deepcopy(model.network)
        network.eval().requires_grad_(False)
        return self._judge.with_model(Model(network, model.encoder, model.name, model.source))

    def state_dict(self) -> dict[str, Any]:
        """See `JudgeTrainer.state_dict`."""
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `JudgeTrainer.load_state_dict`."""
        self.learner.load_state_dict(state)

    def drawn(self, number: int) -> tuple[list[int], np.random.Generator]:
        """Numbers of the examples of a step, and the generator of whatever else it draws."""
        rng = np.random.default_rng(derive_seed(self.seed, "batch", number))
        size = min(self.config.batch, len(self.examples))
        return rng.choice(len(self.examples), size=size, replace=False).tolist(), rng


def _own_judge(config: LanguageMethod, start: Spec, seed: int) -> LLMJudge:
    """The judge of a spec around weights that nobody else holds."""
    args = dict(start.args)
    model = args.pop("model", None)
    if model is None:
        built = JUDGES.build(Spec(start.kind, args))
        assert isinstance(built, LLMJudge)
        judge, own = built, built.model
        own.network.requires_grad_(True)
    else:
        asked = parse_spec(model) if isinstance(model, dict) or str(model).partition(":")[0] == "tiny" else model
        if isinstance(asked, Spec) and asked.kind == "tiny":
            asked = Spec("tiny", {"seed": derive_seed(seed, "weights") % 2**31, **asked.args})
        own = open_model(asked)
        judge = LLMJudge(own, **args)
    if config.binding == "adapter":
        own = add_lora(own, seed=derive_seed(seed, "adapter") % 2**31, **config.lora)
        judge = judge.with_model(own)
    return judge
