"""A critic: a language model says of a reply by itself with which probability it is correct.

The question is asked both ways round (`arena.judges.yes_no`), as P(True) of Kadavath et al. 2022, 2207.05221, asks it
one way. Where replies are compared, log p = log_softmax(logit(p(true))): the probability that a reply is correct, given
that exactly one of them is and that the critic's errors on them are independent.
"""

from __future__ import annotations

from typing import Any

from arena.agents.models import Model, open_model
from arena.judges.constitution import ConstitutionJudge
from arena.judges.reward_text import Of

__all__ = ["CriticJudge", "critic"]

QUESTION = "The reply is correct."


class CriticJudge(ConstitutionJudge):
    """A constitution of one principle, that what is said is correct, with a prompt of its own."""

    kind = "critic"

    def __init__(
        self,
        model: Model,
        prompt: str = "critic",
        *,
        of: Of = "last",
        cue: str | None = None,
        backend: str = "",
        tile: int | None = None,
    ) -> None:
        super().__init__(model, {QUESTION: 1.0}, prompt=prompt, of=of, cue=cue, backend=backend, tile=tile)


def critic(
    *,
    model: str | dict[str, Any],
    prompt: str = "critic",
    of: Of = "last",
    cue: str | None = None,
    backend: str = "",
) -> CriticJudge:
    """The judge that a spec names: ``critic:model=smollm2``."""
    return CriticJudge(open_model(model, share=True), prompt, of=of, cue=cue, backend=backend)
