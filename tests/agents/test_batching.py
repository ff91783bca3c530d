"""What all backends over an engine have in common, shown with an engine that is a model in this process."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from typing import Any

import pytest

from arena.agents.adapters import AdapterShelf, PublishedAdapter
from arena.agents.backend_hf import HFBackend
from arena.agents.batching import Answer, BatchingBackend, Question, Speaker
from arena.agents.loops import LoopThread
from arena.agents.models import Model, add_lora, tiny
from arena.agents.policy import AsyncPolicyAgent, PolicyAgent, agent_for
from arena.agents.types import SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling
from arena.testing import check_backend


class ModelBackend(BatchingBackend):
    """Asks a model in this process, as an engine would be asked."""

    def __init__(self, model: Model, loop: LoopThread, policy: str = "x@v0") -> None:
        super().__init__(Speaker(model.name, model.encoder.end_ids, model.max_length), policy, loop)
        self.inner = HFBackend(model)
        self.shelf = AdapterShelf()
        self.loaded: list[str] = []
        self.asked: list[Question] = []
        self.fault: Exception | None = None

    @property
    def _shelf(self) -> AdapterShelf:
        return self.shelf

    async def _load(self, adapter: PublishedAdapter) -> None:
        if self.fault is not None:
            raise self.fault
        self.loaded.append(adapter.name)

    async def _ask(self, question: Question, adapter: PublishedAdapter | None) -> Answer:
        self.asked.append(question)
        if self.fault is not None:
            raise self.fault
        request = SampleRequest(
            question.ids, question.seed, question.sampling, question.max_tokens, allowed=question.allowed
        )
        (drawn,) = self.inner.generate([request])
        (scores,) = self.inner.score([ScoreRequest(question.ids, [[token] for token in question.scored])])
        return Answer(drawn.ids, drawn.logps, dict(zip(question.scored, scores, strict=True)))


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    running = LoopThread("test")
    yield running
    running.close()


def model(**sizes: Any) -> Model:
    return tiny("w{0..40}", hidden=32, heads=2, initializer_range=0.4, max_length=32, **sizes)


def test_it_passes_the_public_conformance_check(loop: LoopThread) -> None:
    check_backend(ModelBackend(model(), loop), [[1, 5], [1, 6, 7], [1]])


def test_continuations_are_read_token_by_token_and_what_they_share_is_asked_once(loop: LoopThread) -> None:
    backend = ModelBackend(model(), loop)
    continuations = [[4, 5, 6], [4, 5, 7], [8], []]
    found = backend.score([ScoreRequest([1, 3], continuations)])
    assert found[0] == pytest.approx(backend.inner.score([ScoreRequest([1, 3], continuations)])[0], abs=1e-5)
    assert [(q.ids, q.scored) for q in backend.asked] == [
        ([1, 3], (4, 8)),
        ([1, 3, 4], (5,)),
        ([1, 3, 4, 5], (6, 7)),
    ]


def test_many_choices_are_asked_in_portions_that_engines_take(loop: LoopThread) -> None:
    backend = ModelBackend(tiny("w{0..400}", hidden=16, heads=2), loop)
    (found,) = backend.score([ScoreRequest([1], [[token] for token in range(300)])])
    assert [len(question.scored) for question in backend.asked] == [128, 128, 44]
    assert len(found) == 300


def test_requests_are_answered_from_any_event_loop(loop: LoopThread) -> None:
    backend = ModelBackend(model(), loop)
    requests = [SampleRequest([1, 5], seed, Sampling(), 3) for seed in range(4)]

    async def talk() -> list[Any]:
        return await asyncio.gather(*map(backend.draw, requests))

    assert asyncio.run(talk()) == asyncio.run(talk()) == backend.generate(requests)


@pytest.mark.parametrize("logp", [math.nan, -math.inf])
def test_a_token_without_a_log_prob_is_a_fault_of_the_engine(loop: LoopThread, logp: float) -> None:
    backend = ModelBackend(model(), loop)

    async def broken(question: Question, adapter: PublishedAdapter | None) -> Answer:
        return Answer((4,), (logp,))

    backend._ask = broken  # type: ignore[method-assign]
    with pytest.raises(BackendError, match="no number for the log-prob"):
        backend.generate([SampleRequest([1], 0, Sampling(), 1)])


def test_a_version_that_is_not_loaded_does_not_answer(loop: LoopThread) -> None:
    adapted = add_lora(model(), r=2)
    backend = ModelBackend(adapted, loop, "p@v0")
    backend.follow(adapted, "default")
    (first,) = backend.loaded
    assert first.startswith("p@v0-")
    backend.fault = BackendError("no room")
    with pytest.raises(BackendError, match="no room"):
        backend.update("p@v1")
    assert backend.policy == "p@v0"
    backend.fault = None
    backend.update("p@v2")
    assert backend.policy == "p@v2"
    assert backend.loaded[1].startswith("p@v2-")


def test_only_adapters_can_be_updated(loop: LoopThread) -> None:
    backend = ModelBackend(model(), loop)
    backend.follow(model(), "default")  # a network without adapters
    with pytest.raises(ConfigError, match="changes all weights of its model"):
        backend.update("p@v1")
    with pytest.raises(ConfigError, match="no adapter 'other'; it has: default"):
        backend.follow(add_lora(model(), r=2), "other")


def test_an_agent_speaks_as_its_backend_takes_requests(loop: LoopThread) -> None:
    own = model()
    backend = ModelBackend(own, loop)
    assert type(agent_for(backend, own.encoder, "x")) is AsyncPolicyAgent

    class Plain:
        policy = "x"

        def generate(self, requests: Any) -> Any: ...

        def score(self, requests: Any) -> Any: ...

    assert type(agent_for(Plain(), own.encoder, "x")) is PolicyAgent


def test_a_loop_gives_results_and_faults_to_those_who_wait() -> None:
    async def double(number: int) -> int:
        if number < 0:
            raise ValueError(number)
        return 2 * number

    loop = LoopThread("test")
    assert loop.run(double(4)) == 8
    assert asyncio.run(loop.hop(double(5))) == 10
    with pytest.raises(ValueError, match="-1"):
        loop.run(double(-1))
    loop.close()
    loop.close()
