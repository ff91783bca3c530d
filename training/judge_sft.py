"""A language model learns to judge by imitation.

    loss = - mean over tokens of log p(token of the right answer | prompt)

An answer that can be spelt in several ways (``A``, `` A``) is taught in the one that the judge finds likeliest now.
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.judges.reading import NetworkReader
from arena.training.judge_data import Example
from arena.training.judge_learning import LanguageTrainer, Reading
from arena.training.judge_learning_config import SFT

__all__ = ["SFTTrainer"]


class SFTTrainer(LanguageTrainer[SFT]):
    """See the module."""

    def step(self, number: int) -> dict[str, float]:
        """See `JudgeTrainer.step`."""
        drawn, rng = self.drawn(number)
        shown = []
        for index in drawn:
            # A judge that compares pairs has presentations that leave the right answer out.
            options = [reading for reading in self.readings[index] if self.examples[index].label in reading.answers]
            shown.append(options[0 if self.config.orders == "given" else rng.integers(len(options))])
        taught = self._spellings(shown, [self.examples[index] for index in drawn])
        return self.learner.sft(
            [
                reading.sequence(form, self.examples[index].cluster)
                for index, reading, form in zip(drawn, shown, taught, strict=True)
            ]
        )

    def _spellings(self, shown: Sequence[Reading], examples: Sequence[Example]) -> list[int]:
        """Number of the form of the right answer that is taught, for each example."""
        right = [
            [form for form, answer in enumerate(reading.answers) if answer == example.label]
            for reading, example in zip(shown, examples, strict=True)
        ]
        if all(len(forms) == 1 for forms in right):
            return [forms[0] for forms in right]
        options = [[reading.forms[form] for form in forms] for reading, forms in zip(shown, right, strict=True)]
        scores = NetworkReader(self.model).score([reading.prompt for reading in shown], options)
        return [forms[max(range(len(forms)), key=row.__getitem__)] for forms, row in zip(right, scores, strict=True)]
