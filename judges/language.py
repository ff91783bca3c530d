"""A language model as judges use it: prompts as ids, log-probs of given continuations, and what it writes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from arena.agents.backends import BACKENDS
from arena.agents.models import Model
from arena.agents.types import Backend, ScoreRequest
from arena.judges.fingerprint import fingerprint
from arena.judges.forms import Forms, Ids
from arena.judges.speech import BRIEF, CUE, Parse, Speaker, Speech, Spoken
from arena.protocols.errors import ConfigError

__all__ = ["JudgeModel"]


class Reader(Protocol):
    """Scores continuations: `arena.judges.reading.NetworkReader`, or a backend."""

    def score(self, prompts: Sequence[Ids], continuations: Sequence[Sequence[Ids]]) -> Sequence[Sequence[float]]:
        """For each prompt the summed log-prob in nats of each of its continuations."""
        ...


class JudgeModel:
    """A model that reads and writes for a judge.

    Args:
        model: network and encoder; it is not trained while it judges.
        cue: words at the beginning of the answer; None: ``Answer:``, and none for a vocabulary of words.
        speech: how much it writes.
        backend: spec of who reads and draws (`arena.agents.backends.BACKENDS`), such as ``vllm``; empty: the network
            itself, whose numbers are the same to the last bit whatever is judged beside.
        tile: see `arena.judges.reading.NetworkReader`.

    Raises:
        ConfigError: a cue for a vocabulary of words.
    """

    def __init__(
        self,
        model: Model,
        *,
        cue: str | None = None,
        speech: Speech = BRIEF,
        backend: str = "",
        tile: int | None = None,
    ) -> None:
        words = model.encoder.one_token_turns
        if words and cue:
            raise ConfigError(f"cue={cue!r} is for chat models, and this one has a vocabulary of words: leave it out")
        self.model = model
        self.speaker = Speaker(model.encoder, ("" if words else CUE) if cue is None else cue, speech)
        self.backend = backend
        self._tile = tile

    @property
    def words(self) -> bool:
        """Whether its vocabulary is one of words."""
        return self.model.encoder.one_token_turns

    @functools.cached_property
    def _drawer(self) -> Backend:
        if self.backend:
            return BACKENDS.build(self.backend, model=self.model, policy=self.model.name)
        from arena.agents.backend_hf import HFBackend  # loads torch, which a check of arguments can do without

        return HFBackend(self.model)

    @functools.cached_property
    def _reader(self) -> Reader:
        if self.backend:
            return _BackendReader(self._drawer)
        from arena.judges.reading import NetworkReader

        return NetworkReader(self.model, tile=self._tile)

    def name(self, kind: str, config: Mapping[str, Any]) -> str:
        """The name of an instrument with these weights."""
        given = {**config, "backend": self.backend} if self.backend else config
        return f"{kind}@{fingerprint(given, self.model.network.state_dict())}"

    def encode(self, text: str) -> Ids:
        """Ids of an answer as the model would write it."""
        return tuple(self.model.encoder.encode_turn(text, end=False))

    def too_long(self, tokens: int) -> str:
        """Why so many tokens cannot be read; empty if they can."""
        limit = self.model.max_length
        return (
            "" if limit is None or tokens <= limit else f"the debate takes {tokens} tokens and the model reads {limit}"
        )

    def read(self, prompts: Sequence[Ids], forms: Sequence[Forms]) -> list[dict[int, float]]:
        """For each prompt: answer -> log of the probability that its spellings have together, in nats.

        Raises:
            BackendError: the model failed.
        """
        if not prompts:
            return []
        scores = self._reader.score(prompts, [each.ids for each in forms])
        return [each.log_shares(found) for each, found in zip(forms, scores, strict=True)]

    def speak(self, asked: Sequence[tuple[str, int, Parse]]) -> list[Spoken]:
        """What it writes on each (prompt, seed, parser); raises as `read` does."""
        return self.speaker.speak(self._drawer, asked) if asked else []


class _BackendReader:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def score(self, prompts: Sequence[Ids], continuations: Sequence[Sequence[Ids]]) -> Sequence[Sequence[float]]:
        return self.backend.score([ScoreRequest(*each) for each in zip(prompts, continuations, strict=True)])
