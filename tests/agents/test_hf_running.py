"""Requests join and leave one running batch, and none of it shows in what they are answered."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from arena.agents.backend_hf import ContinuousHFBackend, HFBackend, hf_backend
from arena.agents.models import Model, add_lora, tiny
from arena.agents.types import Completion, SampleRequest
from arena.protocols.errors import BackendError
from arena.protocols.records import Sampling

WORDS = "w{0..40}"


def small(**sizes: Any) -> Model:
    model = tiny(WORDS, hidden=32, intermediate=48, initializer_range=0.4, max_length=256, **sizes)
    model.network.double()
    return model


def adapted() -> Model:
    model = add_lora(add_lora(small(), r=4, seed=1, adapter="first"), r=4, seed=2, adapter="second")
    model.network.double()
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    return model


def contexts(count: int, longest: int = 40, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    return [[1] + [rng.randrange(3, 44) for _ in range(rng.randrange(longest))] for _ in range(count)]


def same(found: Sequence[Completion], expected: Sequence[Completion], tolerance: float = 1e-9) -> bool:
    return all(
        one.ids == two.ids
        and one.finish == two.finish
        and all(abs(a - b) <= tolerance for a, b in zip(one.logps, two.logps, strict=True))
        for one, two in zip(found, expected, strict=True)
    )


def alone(model: Model, requests: Sequence[SampleRequest], adapter: str | None = None) -> list[Completion]:
    backend = HFBackend(model, adapter=adapter, cache_mib=0, max_batch=1)
    return [backend.generate([request])[0] for request in requests]


async def episode(backend: ContinuousHFBackend, number: int, turns: int, log: list[Any]) -> None:
    """A role whose context grows, with turns of very different lengths."""
    rng = random.Random(f"episode {number}")
    context = [1] + [rng.randrange(3, 44) for _ in range(rng.randrange(1, 60))]
    for turn in range(turns):
        request = SampleRequest(list(context), 100 * number + turn, Sampling(1.2), rng.randrange(1, 30))
        answer = await backend.draw(request)
        log.append((number, turn, request, answer))
        context += [*answer.ids, *(rng.randrange(3, 44) for _ in range(rng.randrange(1, 6)))]


def play(backend: ContinuousHFBackend, count: int = 12, turns: int = 4) -> list[Any]:
    log: list[Any] = []

    async def everything() -> None:
        await asyncio.gather(*(episode(backend, number, turns, log) for number in range(count)))

    asyncio.run(everything())
    return log


def test_turns_in_the_running_batch_are_answered_as_if_they_were_alone() -> None:
    model = small()
    backend = ContinuousHFBackend(model)
    log = play(backend)
    requests = [request for _, _, request, _ in log]
    assert same([answer for *_, answer in log], alone(model, requests))
    assert backend._batch.most_rows > 6
    assert backend._batch.prefixes.rows
    assert not backend._batch.busy


def test_a_short_turn_does_not_wait_for_a_long_one() -> None:
    log = play(ContinuousHFBackend(small()))
    done = [(number, turn) for number, turn, *_ in log]
    overtaken = sum(done.index((a, 1)) < done.index((b, 0)) for a in range(12) for b in range(12) if a != b)
    assert overtaken > 3


def test_which_requests_are_together_depends_on_the_requests_alone() -> None:
    first, second = (play(ContinuousHFBackend(small())) for _ in range(2))
    assert [(number, turn) for number, turn, *_ in first] == [(number, turn) for number, turn, *_ in second]
    assert same([answer for *_, answer in first], [answer for *_, answer in second], tolerance=0.0)


def test_there_are_never_more_rows_than_asked_for() -> None:
    model = small()
    requests = [SampleRequest(ids, n, Sampling(), 3 + n % 9) for n, ids in enumerate(contexts(20))]
    backend = HFBackend(model, max_batch=3)
    assert same(backend.generate(requests), alone(model, requests))
    assert backend._batch.most_rows == 3
    narrow = HFBackend(model, max_batch_tokens=40)  # so that its rows hold 160 tokens at most
    assert same(narrow.generate(requests), alone(model, requests))
    assert 1 < narrow._batch.most_rows < 8


def test_rows_become_longer_than_the_memory_that_they_began_with() -> None:
    model = small()
    requests = [SampleRequest([1, 5 + n], n, Sampling(), 150) for n in range(12)]
    answers = HFBackend(model).generate(requests)
    assert max(len(answer.ids) for answer in answers) > 64
    assert same(answers, alone(model, requests))


def test_rows_of_one_batch_speak_through_different_adapters() -> None:
    model = adapted()
    network: Any = model.network
    network.set_adapter("first")
    trainable = {name for name, weight in network.named_parameters() if weight.requires_grad}
    backends = {adapter: ContinuousHFBackend(model, adapter=adapter) for adapter in ("first", "second", None)}
    requests = [SampleRequest(ids, n, Sampling(), 4 + n % 7) for n, ids in enumerate(contexts(9))]

    async def everything() -> list[Completion]:
        speakers = backends.values()
        return list(await asyncio.gather(*(speaker.draw(request) for speaker in speakers for request in requests)))

    drawn = asyncio.run(everything())
    answers = [drawn[start : start + 9] for start in (0, 9, 18)]
    assert len({id(backend._batch) for backend in backends.values()}) == 1
    assert backends[None]._batch.most_rows > 20  # of 27; some turns end at their first token
    for adapter, found in zip(backends, answers, strict=True):
        assert same(found, alone(model, requests, adapter))
    assert not same(answers[0], answers[1])
    assert network.active_adapter == "first"
    assert {name for name, weight in network.named_parameters() if weight.requires_grad} == trainable
    assert not any(module._forward_pre_hooks for module in network.modules())


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # of peft
def test_adapters_that_cannot_be_mixed_take_turns() -> None:
    base = small()
    config = LoraConfig(r=4, target_modules=["q_proj"], use_dora=True, task_type="CAUSAL_LM", init_lora_weights=False)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network: Any = get_peft_model(base.network, config).double().eval()
    model = Model(network, base.encoder, "dora")
    requests = [SampleRequest(ids, n, Sampling(), 5) for n, ids in enumerate(contexts(5))]
    backends = [ContinuousHFBackend(model, adapter=adapter) for adapter in ("default", None)]

    async def everything() -> list[Completion]:
        return list(await asyncio.gather(*(backend.draw(request) for backend in backends for request in requests)))

    answers = asyncio.run(everything())
    assert same(answers[:5], alone(model, requests, "default"))
    assert same(answers[5:], alone(model, requests, None))
    assert not same(answers[:5], answers[5:])


def test_a_request_that_fails_takes_no_other_along(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small()
    backend = ContinuousHFBackend(model, "p@v2")
    forward = backend._batch.network.forward

    def failing(ids: torch.Tensor, *rest: Any, **more: Any) -> torch.Tensor:
        if (ids == 17).any():
            raise RuntimeError("out of memory")
        return forward(ids, *rest, **more)

    monkeypatch.setattr(backend._batch.network, "forward", failing)
    requests = [SampleRequest([1, 4, 5 + n, 6], n, Sampling(temperature=0.0), 2) for n in range(15)]

    async def everything() -> list[Any]:
        return list(await asyncio.gather(*map(backend.draw, requests), return_exceptions=True))

    answers = asyncio.run(everything())
    expected = alone(model, requests)
    failed = [n for n, answer in enumerate(answers) if isinstance(answer, BackendError)]
    must = [n for n, (r, e) in enumerate(zip(requests, expected, strict=True)) if 17 in r.ids or e.ids[0] == 17]
    assert failed == must
    assert 12 in failed
    assert "p@v2: out of memory" in str(answers[12])
    others = [n for n in range(15) if n not in failed]
    assert same([answers[n] for n in others], [expected[n] for n in others])


def test_a_bug_reaches_whoever_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = ContinuousHFBackend(small())
    monkeypatch.setattr(backend._batch.network, "forward", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(backend.draw(SampleRequest([1, 5], 1, Sampling(), 2)))
    with pytest.raises(ZeroDivisionError):
        backend.generate([SampleRequest([1, 5], 1, Sampling(), 2)])


def test_a_request_that_nobody_waits_for_leaves_the_batch() -> None:
    backend = ContinuousHFBackend(small())
    request = SampleRequest([1, 5], 1, Sampling(1.5), 200)

    async def impatient() -> None:
        other = asyncio.ensure_future(backend.draw(SampleRequest([1, 6, 7], 2, Sampling(), 60)))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(backend.draw(request), 0)
        task = asyncio.ensure_future(backend.draw(request))
        while backend._batch.most_rows < 2:
            await asyncio.sleep(0)
        with pytest.raises(BackendError, match="2 requests are under way"):
            backend.update("p@v1")
        task.cancel()
        await asyncio.gather(other, task, return_exceptions=True)
        assert same([other.result()], alone(backend.model, [SampleRequest([1, 6, 7], 2, Sampling(), 60)]))

    asyncio.run(impatient())
    assert not backend._batch.busy
    backend.update("p@v1")
    # A loop of its own each time, as engines have them.
    assert asyncio.run(backend.draw(request)) == backend.generate([request])[0]


def test_an_interrupted_step_leaves_a_batch_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = HFBackend(small())
    requests = [SampleRequest([1, 5 + n], n, Sampling(), 9) for n in range(6)]
    with monkeypatch.context() as patched:
        patched.setattr(backend._batch, "_advance", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            backend.generate(requests)
    assert not backend._batch.busy
    assert same(backend.generate(requests), alone(backend.model, requests))


def _interrupt() -> None:
    raise KeyboardInterrupt


def test_what_contexts_begin_with_is_forwarded_once() -> None:
    model = small()
    opening = contexts(1, seed=5)[0] + [7] * 80
    requests = [SampleRequest([*opening, 9 + n, *([4] * (n % 3))], n, Sampling(), 1) for n in range(20)]
    seen: list[int] = []
    embeddings: Any = model.network.get_input_embeddings()
    hook = embeddings.register_forward_hook(lambda _, args, __: seen.append(args[0].numel()))
    answers = HFBackend(model).generate(requests)
    hook.remove()
    assert sum(seen) <= len(opening) + 20 * 4
    assert same(answers, alone(model, requests))


def test_word_models_are_asked_by_superstep_and_others_one_by_one() -> None:
    model = small()
    assert not hasattr(hf_backend(model), "draw")
    model.encoder.one_token_turns = False
    assert hasattr(hf_backend(model, cache_mib=1), "draw")
