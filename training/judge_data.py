"""What judges are trained and measured on: views as the engine makes them, each with the right answer.

Every source gives the same thing, whether its debates were played, stored, made of random evidence or of preference
pairs, so that any method can learn from any source. Held-out examples share no cluster (question, prompt) with those
that are learned from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from arena.judges.types import JudgeView
from arena.protocols.errors import ConfigError
from arena.protocols.registry import Registry

__all__ = ["DATA", "Example", "LabelledViews"]


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One thing to judge, and the judgement that is right."""

    view: JudgeView
    """What the judge may know. It holds no label, whatever the judge that is trained declares."""
    label: int | None
    """Index of the right answer, in the order of ``view.answers``; None where nobody knows it."""
    cluster: str
    """Unit of statistics and of holding out: the question, image or prompt that it is about."""
    margin: float | None = None
    """How much better the right answer is, where the data says so."""
    steps: tuple[float, ...] = ()
    """For process rewards: how good each statement is by itself, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class LabelledViews:
    """What to learn from, and what to measure on."""

    train: Sequence[Example]
    held_out: Sequence[Example]
    notes: Mapping[str, float | int | str] = field(default_factory=dict)
    """What is known of the data beforehand, such as ``bayes_accuracy``, or what was left out; kept with the results."""

    def check(self) -> None:
        """Whether there is something to learn from and to measure on, and nothing in both.

        Raises:
            ConfigError: a part is empty, an example to measure on has no label, or a cluster is in both parts.
        """
        for name, part in (("train", self.train), ("held-out", self.held_out)):
            if not part:
                raise ConfigError(f"the data has no {name} examples: give it more tasks, pairs or transcripts")
        unknown = next((example for example in self.held_out if example.label is None), None)
        if unknown is not None:
            raise ConfigError(f"'{unknown.view.key}' has no label: what is measured on must be labelled")
        if shared := {one.cluster for one in self.train} & {one.cluster for one in self.held_out}:
            raise ConfigError(f"{len(shared)} questions are in both parts of the data, such as '{min(shared)}'")


DATA: Registry[LabelledViews] = Registry("judge data")
"""Sources of labelled views by name; the factories take ``seed`` besides their arguments."""

_HERE = "arena.training.judge_sources"
DATA.lazy("quotes", f"{_HERE}:quotes", "random quotes of each task's evidence, heard by a judge that hears quotes")
DATA.lazy("played", f"{_HERE}:played", "debates that agents play now, as the protocol's judge hears them")
DATA.lazy("run", f"{_HERE}:stored", "transcripts of a run directory, as the protocol's judge heard them")

_PAIRS = "arena.training.preference_data"
DATA.lazy("preferences", f"{_PAIRS}:preferences", "preference pairs from a JSONL file")
DATA.lazy(
    "synthetic-preferences", f"{_PAIRS}:synthetic_preferences", "pairs of word lists with a known share of wrong labels"
)
DATA.lazy("synthetic-steps", f"{_PAIRS}:synthetic_steps", "chains of sums with a known share of wrong step labels")
