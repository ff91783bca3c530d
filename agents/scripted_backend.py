"""A backend that is a program: exact probabilities and no network, for tests of what stands on backends.

    backend = ScriptedBackend("p@v1", lambda context, drawn: {4: 0.75, 5: 0.25}, end_ids=(5,))
    backend = ScriptedBackend.saying(["yes", "no"], encoder)
    agent = agent_for(backend, encoder, "p")

It keeps all promises of `arena.agents.types.Backend` (`arena.testing.check_backend`): draws depend on their request
alone, log-probs are those of the distribution that was drawn from, and `score` knows the same probabilities.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from arena.agents.encoders import Encoder
from arena.agents.sampling import check_sampling, draw
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError, NumericalError

__all__ = ["AsyncScriptedBackend", "ScriptedBackend"]

Ids = tuple[int, ...]
Probabilities = Callable[[Ids, Ids], Mapping[int, float]]


class ScriptedBackend:
    """Draws from the probabilities that a function gives.

    Args:
        policy: name and version in ledgers.
        probabilities: (context, what was drawn after it) -> id -> probability of the next token. Ids that are not in
            it are never drawn; the others need not sum to 1.
        end_ids: ids that end a turn.
        fails: which requests end in a `BackendError`, as if the model had failed.
    """

    def __init__(
        self,
        policy: str,
        probabilities: Probabilities,
        end_ids: Sequence[int],
        *,
        fails: Callable[[SampleRequest], bool] = lambda request: False,
    ) -> None:
        self.policy = policy
        self.probabilities = probabilities
        self.end_ids = tuple(end_ids)
        self.fails = fails

    @classmethod
    def saying(
        cls,
        texts: Sequence[str],
        encoder: Encoder,
        policy: str = "scripted@v0",
        *,
        fails: Callable[[SampleRequest], bool] = lambda request: False,
    ) -> ScriptedBackend:
        """A backend that says one of some texts, each of them as likely, and ends its turn.

        Raises:
            ConfigError: there is no text, or the encoder does not know one.
        """
        if not texts:
            raise ConfigError("a scripted backend has nothing to say: give at least one text")
        turns = [tuple(encoder.encode_turn(text, end=True)) for text in texts]

        def probabilities(context: Ids, drawn: Ids) -> Mapping[int, float]:
            return Counter(turn[len(drawn)] for turn in turns if turn[: len(drawn)] == drawn and len(turn) > len(drawn))

        return cls(policy, probabilities, encoder.end_ids, fails=fails)

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        """See `arena.agents.types.Backend`.

        Raises:
            BackendError: ``fails`` says so, or nothing that may be drawn has a probability.
        """
        for request in requests:
            check_sampling(request.sampling)
            if self.fails(request):
                raise BackendError(f"injected failure of '{self.policy}' at seed {request.seed}")
        return [self._complete(request) for request in requests]

    def score(self, requests: Sequence[ScoreRequest]) -> list[list[float]]:
        """See `arena.agents.types.Backend`."""
        return [
            [self._log_prob(tuple(request.ids), tuple(continuation)) for continuation in request.continuations]
            for request in requests
        ]

    def _complete(self, request: SampleRequest) -> Completion:
        context = tuple(request.ids)
        ids: list[int] = []
        logps: list[float] = []
        while len(ids) < request.max_tokens and not (ids and ids[-1] in self.end_ids):
            token, logp = self._next(request, context, tuple(ids))
            ids.append(token)
            logps.append(logp)
        return Completion(tuple(ids), tuple(logps), "stop" if ids[-1] in self.end_ids else "length")

    def _next(self, request: SampleRequest, context: Ids, drawn: Ids) -> tuple[int, float]:
        import torch

        known = self.probabilities(context, drawn)
        ways = sorted(known if request.allowed is None else set(request.allowed))
        logits_UV = torch.tensor([[_log(known.get(token, 0.0)) for token in ways]], dtype=torch.float64)
        try:
            (place,), (logp,) = draw(logits_UV, [request.seed], [len(drawn)], request.sampling)
        except (NumericalError, IndexError) as error:
            raise BackendError(f"'{self.policy}' gives none of {ways} a probability after {drawn}") from error
        return ways[place], logp

    def _log_prob(self, context: Ids, continuation: Ids) -> float:
        total = 0.0
        for place, token in enumerate(continuation):
            known = self.probabilities(context, continuation[:place])
            if not known.get(token, 0.0):
                return -math.inf
            total += math.log(known[token] / math.fsum(known.values()))
        return total


class AsyncScriptedBackend(ScriptedBackend):
    """A `ScriptedBackend` that takes requests one by one, each of which takes its time.

    Args:
        policy: see `ScriptedBackend`.
        probabilities: see `ScriptedBackend`.
        end_ids: see `ScriptedBackend`.
        seconds: how long a request takes.
        fails: see `ScriptedBackend`.
    """

    def __init__(
        self,
        policy: str,
        probabilities: Probabilities,
        end_ids: Sequence[int],
        *,
        seconds: float = 0.0,
        fails: Callable[[SampleRequest], bool] = lambda request: False,
    ) -> None:
        super().__init__(policy, probabilities, end_ids, fails=fails)
        self.seconds = seconds

    async def draw(self, request: SampleRequest) -> Completion:
        """See `arena.agents.backends.AsyncBackend`."""
        await asyncio.sleep(self.seconds)
        return self.generate([request])[0]


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
