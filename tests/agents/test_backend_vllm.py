"""vLLM draws and scores as a plain forward pass of the trainer's network says it must, for many adapters at once."""

from __future__ import annotations

import asyncio
import gc
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from arena.agents.backends import BACKENDS
from arena.agents.models import Model, add_lora
from arena.agents.policy import AsyncPolicyAgent, Policy
from arena.agents.types import SampleRequest, ScoreRequest
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Sampling, Task
from arena.testing import check_backend

pytestmark = [pytest.mark.slow, pytest.mark.vllm]

TALK = """
name: talk
fields: [question]
roles: {one: {sees: [question]}, two: {sees: [question]}}
nodes:
  first: {speak: one, prompt: "{{ question }}", limit: {tokens: 8}}
  second: {speak: two, prompt: "ba?", limit: {tokens: 8}}
edges: [start -> first -> second -> end, {from: second, to: first, times: 1}]
"""


@pytest.fixture
def made(shared: Any, vllm: Any) -> Any:
    """The module of the model, while the engine runs that all tests share."""
    return shared


def backend(model: Model, policy: str = "x@v0", **options: Any) -> Any:
    return BACKENDS.build({"kind": "vllm", **options}, model=model, policy=policy)


def contexts(model: Model, count: int, longest: int = 90, seed: int = 0) -> list[list[int]]:
    rng = random.Random(seed)
    texts = ["".join(rng.choice("ab") for _ in range(1 + rng.randrange(longest))) for _ in range(count)]
    return [model.encoder.encode_turn(text, end=False) for text in texts]


def long(model: Model) -> list[int]:
    """Longer than the blocks of the cache, so that a stale one would be hit."""
    return model.encoder.encode_turn("abba" * 40, end=False)


def close(found: Sequence[float], expected: Sequence[float], tolerance: float = 5e-5) -> bool:
    return len(found) == len(expected) and all(abs(a - b) <= tolerance for a, b in zip(found, expected, strict=True))


def test_it_passes_the_public_conformance_check(made: Any) -> None:
    model = made.letters(lora=1)
    check_backend(backend(model), contexts(model, 5))
    check_backend(backend(model, adapter=None), contexts(model, 2))


@pytest.mark.parametrize(
    "sampling", [Sampling(), Sampling(0.6), Sampling(1.3), Sampling(1.1, top_p=0.7), Sampling(0.9, top_k=2)]
)
def test_log_probs_are_those_of_the_distribution_that_was_drawn_from(made: Any, sampling: Sampling) -> None:
    model = made.letters(lora=1)
    starts = contexts(model, 12, seed=3)
    answers = backend(model).generate([SampleRequest(c, n, sampling, 6) for n, c in enumerate(starts)])
    for context, answer in zip(starts, answers, strict=True):
        logits_TV = made.plain_logits(model, [*context, *answer.ids])[len(context) - 1 : -1]
        expected = [truncated(logits, sampling)[token] for logits, token in zip(logits_TV, answer.ids, strict=True)]
        assert close(answer.logps, expected)


def truncated(logits_V: torch.Tensor, sampling: Sampling) -> dict[int, float]:
    """By the definition: the likeliest until top_k are counted or top_p is reached, renormalised."""
    p_V = (logits_V / sampling.temperature).softmax(-1).tolist()
    ranked = sorted(range(len(p_V)), key=p_V.__getitem__, reverse=True)[: sampling.top_k or None]
    total, kept, mass = sum(p_V[token] for token in ranked), [], 0.0
    for token in ranked:
        if mass / total >= sampling.top_p:
            break
        kept.append(token)
        mass += p_V[token]
    return {token: math.log(p_V[token] / mass) for token in kept}


def test_frequencies_are_the_probabilities(made: Any) -> None:
    model = made.letters(lora=1)
    (context,) = contexts(model, 1)
    answers = backend(model).generate([SampleRequest(context, seed, Sampling(), 1) for seed in range(3000)])
    p_V = made.plain_logits(model, context)[-1].softmax(-1)
    likely = [token for token, p in enumerate(p_V.tolist()) if p > 0.01]
    assert len(likely) > 2
    for token in likely:
        share = sum(answer.ids[0] == token for answer in answers) / 3000
        p = float(p_V[token])
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / 3000)


def test_continuations_have_the_log_probs_of_a_forward_pass(made: Any) -> None:
    model = made.letters(lora=2)
    speaker = backend(model)
    starts = contexts(model, 3, seed=5)
    texts = ["a", "b", "abba", "abab", "ab" * 20, ""]
    requests = [ScoreRequest(c, [model.encoder.encode_turn(text, end=False) for text in texts]) for c in starts]
    for request, scores in zip(requests, speaker.score(requests), strict=True):
        expected = [sum(made.plain_logps(model, request.ids, ids)) for ids in request.continuations]
        assert close(scores, expected, 2e-4)
    many = speaker.score([ScoreRequest(starts[0], [[token] for token in range(200)])])[0]
    assert close(many, made.plain_logits(model, starts[0])[-1].log_softmax(-1)[:200].tolist(), 2e-4)


def test_adapters_are_mixed_in_one_batch(made: Any) -> None:
    ours = [made.letters(lora=seed) for seed in (1, 2, 3)]
    speakers = [backend(model, f"r{n}@v0") for n, model in enumerate(ours)]
    assert len({id(speaker.engine) for speaker in speakers}) == 1
    starts = contexts(ours[0], 6, seed=7)

    async def talk() -> list[Any]:
        asked = [s.draw(SampleRequest(c, n, Sampling(), 5)) for n, c in enumerate(starts) for s in speakers]
        return await asyncio.gather(*asked)

    answers = iter(asyncio.run(talk()))
    for number, context in enumerate(starts):
        for model, speaker in zip(ours, speakers, strict=True):
            answer = next(answers)
            assert close(answer.logps, made.plain_logps(model, context, answer.ids))
            assert speaker.generate([SampleRequest(context, number, Sampling(), 5)])[0].ids == answer.ids


def test_a_new_version_is_a_new_name_and_the_old_one_goes_on_answering_its_holders(made: Any) -> None:
    policy = Policy("debater", made.letters(lora=4), sampler="vllm")
    context = long(policy.model)
    request = [ScoreRequest(context, [policy.model.encoder.encode_turn("abba", end=False)])]
    old = policy.snapshot()
    before = [sum(made.plain_logps(policy.model, context, ids)) for ids in request[0].continuations]
    assert close(old.backend.score(request)[0], before)
    assert close(policy.backend.score(request)[0], before)
    made.shift(policy.model, 5)
    assert policy.publish() == policy.backend.policy == "debater@v1"
    after = [sum(made.plain_logps(policy.model, context, ids)) for ids in request[0].continuations]
    assert abs(after[0] - before[0]) > 0.01
    assert close(policy.backend.score(request)[0], after)
    assert close(old.backend.score(request)[0], before)


def test_two_policies_of_one_name_and_version_never_share_what_is_cached(made: Any) -> None:
    for seed in (6, 7):
        model = made.letters(lora=seed)
        speaker = backend(model, "same@v1")
        context = long(model)
        ids = model.encoder.encode_turn("abba", end=False)
        assert close(speaker.score([ScoreRequest(context, [ids])])[0], [sum(made.plain_logps(model, context, ids))])
        assert speaker._adapter.name.startswith("same@v1-")


def test_an_adapter_that_nobody_holds_is_given_back(made: Any) -> None:
    model = made.letters(lora=8)
    speaker = backend(model, "short@v0")
    engine, number, folder = speaker.engine, speaker._adapter.number, speaker._adapter.folder
    assert number in engine.loop.run(engine.raw.list_loras())
    made.shift(model, 9)
    speaker.update("short@v1")
    gc.collect()
    assert number not in engine.loop.run(engine.raw.list_loras())
    assert not Path(folder).exists()


def test_the_same_weights_are_delivered_once(made: Any) -> None:
    model = made.letters(lora=1)
    one, two = backend(model, "twin@v0"), backend(model, "twin@v0")
    assert one._adapter is two._adapter


@pytest.mark.parametrize("concurrency", [1, 3])
def test_episodes_do_not_depend_on_what_else_is_in_the_batch(made: Any, concurrency: int) -> None:
    def play(most: int) -> list[Episode]:
        policies = [Policy(name, made.letters(lora=n), sampler="vllm") for n, name in ((1, "p"), (2, "q"))]
        lineup: dict[str, Any] = {
            role: policy.agent(max_tokens=8) for role, policy in zip(("one", "two"), policies, strict=True)
        }
        assert all(isinstance(agent, AsyncPolicyAgent) for agent in lineup.values())
        plans = [Plan(f"e{n}", Task(f"t{n}", {"question": "ab" * n + "?"}), lineup) for n in range(6)]
        return Engine(compile_document(parse_document(TALK)), {}, seed=4, concurrency=most).play(plans)

    for episode, other in zip(play(concurrency), play(64), strict=True):
        assert len(episode.turns) == 4
        for turn, twin in zip(episode.turns, other.turns, strict=True):
            assert turn.tokens is not None
            assert twin.tokens is not None
            assert (turn.text, turn.tokens.prompt, turn.tokens.ids) == (
                twin.text,
                twin.tokens.prompt,
                twin.tokens.ids,
            )
            assert close(turn.tokens.logps or (), twin.tokens.logps or ())


def test_a_request_that_is_given_up_leaves_the_others_alone(made: Any) -> None:
    model = made.letters(lora=1)
    speaker = backend(model)
    starts = contexts(model, 4, seed=13)

    requests = [SampleRequest(context, n, Sampling(), 6) for n, context in enumerate(starts)]
    endless = SampleRequest(starts[0], 0, Sampling(), 400, allowed=model.encoder.encode_turn("a", end=False))

    async def talk() -> list[Any]:
        tasks = [asyncio.ensure_future(speaker.draw(request)) for request in (endless, *requests)]
        await tasks[1]
        tasks[0].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    gone, *answers = asyncio.run(talk())
    assert isinstance(gone, asyncio.CancelledError)
    assert [answer.ids for answer in answers] == [answer.ids for answer in speaker.generate(requests)]


def test_seeds_of_all_64_bits_are_taken(made: Any) -> None:
    model = made.letters(lora=1)
    (context,) = contexts(model, 1)
    speaker = backend(model)
    requests = [SampleRequest(context, seed, Sampling(), 8) for seed in (0, 2**63, 2**64 - 1, 2**63 - 1)]
    assert [a.ids for a in speaker.generate(requests)] == [a.ids for a in speaker.generate(requests)]


def test_what_cannot_work_is_refused_with_the_way_out(made: Any) -> None:
    model = made.letters(lora=1)
    speaker = backend(model)
    with pytest.raises(ConfigError, match=r"temperature 0\.005 is below 0\.01.*write 0"):
        speaker.generate([SampleRequest([1], 0, Sampling(0.005), 1)])
    with pytest.raises(ConfigError, match="empty context"):
        speaker.generate([SampleRequest([], 0, Sampling(), 1)])
    with pytest.raises(ConfigError, match="exceed the 512 of 'letters'"):
        speaker.score([ScoreRequest([1] * 510, [[1, 1, 1]])])
    with pytest.raises(BackendError, match=r"vLLM: .*out-of-vocab"):
        speaker.generate([SampleRequest([1], 0, Sampling(), 1, allowed=[10**6])])
    with pytest.raises(ConfigError, match="no adapter 'other'; it has: default"):
        backend(model, adapter="other")
    with pytest.raises(ConfigError, match="rank 17 needs max_lora_rank=32"):
        backend(made.letters(lora=1, rank=17), max_lora_rank=16)
    with pytest.raises(ConfigError, match="sleep_mode needs a GPU"):
        backend(model, sleep_mode=True)
    with pytest.raises(ConfigError, match=r"cannot sleep: write sleep_mode=true"):
        speaker.engine.sleep()
    base = backend(made.letters())
    with pytest.raises(ConfigError, match=r"changes all weights.*binding: adapter.*backend 'hf'"):
        base.update("x@v1")


def test_a_base_without_adapters_is_served_as_it_is_now(made: Any) -> None:
    model = made.letters(lora=1)
    plain = made.letters()
    (context,) = contexts(model, 1)
    (answer,) = backend(plain).generate([SampleRequest(context, 1, Sampling(), 6)])
    assert close(answer.logps, made.plain_logps(plain, context, answer.ids))
    assert backend(plain).engine is backend(model, adapter=None).engine  # the adapter lies over this very base


def test_a_second_adapter_of_one_network_is_found_by_its_name(made: Any) -> None:
    model = add_lora(made.letters(lora=1), r=4, seed=5, targets=["q_proj", "down_proj"], adapter="other")
    made.shift(model, 21)
    (context,) = contexts(model, 1)
    for name in ("default", "other"):
        model.network.set_adapter(name)  # type: ignore[operator]
        (answer,) = backend(model, f"{name}@v0", adapter=name).generate([SampleRequest(context, 1, Sampling(), 6)])
        assert close(answer.logps, made.plain_logps(model, context, answer.ids))
