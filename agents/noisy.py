"""An agent that passes on what it heard, not always unharmed: noise that no speaker can foresee, nor is trained on."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from arena.agents.sampling import uniforms
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Ask
from arena.protocols.errors import ConfigError
from arena.protocols.words import expand_words

__all__ = ["noisy_channel"]


def noisy_channel(
    *, words: str, rate: Annotated[float, Field(ge=0, le=1)] = 0.1, name: str = "noisy-channel"
) -> ScriptedAgent:
    """Says the last turn of another role again; each word of it may have become another one.

    Where it revises a draft (``revise: channel``), who reads the revision never sees the draft. What is replaced, and
    by what, is drawn from the turn's own random stream.

    Args:
        words: what a word can become, any equally likely, itself among them: ``yes no``, ``"{0..9}"`` in a file
            (`arena.protocols.words.expand_words`).
        rate: how often a word is replaced.
        name: key in lineups and ratings.

    Raises:
        ConfigError: there are no words.
    """
    known = expand_words(words)
    if not known:
        raise ConfigError(f"words={words!r} of agent '{name}' holds none: write noisy-channel:words=yes no")

    def say(ask: Ask) -> str:
        heard = next((turn.text for turn in reversed(ask.heard) if turn.role != ask.role), "").split()
        draws = uniforms([ask.seed] * (2 * len(heard)), list(range(2 * len(heard)))).reshape(-1, 2)
        return " ".join(
            known[int(which * len(known))] if hit < rate else word
            for word, (hit, which) in zip(heard, draws.tolist(), strict=True)
        )

    return ScriptedAgent(name, say)
