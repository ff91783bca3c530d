"""Shared, cached, padded or batched: a request has the log-probs of a plain forward pass over its own tokens."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from arena.agents.backend_hf import HFBackend
from arena.agents.encoders import WordEncoder
from arena.agents.models import Model, add_lora, tiny
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling
from arena.testing import check_backend

WORDS = "w{0..40}"


def small(seed: int = 0, **sizes: Any) -> Model:
    """Wide initial weights, so that the distribution depends on every token; float64, so that 1e-9 means something."""
    model = tiny(WORDS, hidden=32, intermediate=48, initializer_range=0.4, seed=seed, max_length=64, **sizes)
    model.network.double()
    return model


def plain_logps(model: Model, context: Sequence[int], ids: Sequence[int], temperature: float = 1.0) -> list[float]:
    """The independent computation: one sequence, no cache, no mask, no padding."""
    network: Any = model.network
    was = network.training
    network.eval()
    with torch.no_grad():
        logits_TV = network(input_ids=torch.tensor([[*context, *ids]]), use_cache=False).logits[0].double()
    network.train(was)
    logps_TV = (logits_TV / temperature).log_softmax(-1)
    start = len(context) - 1
    return [float(logps_TV[start + t, token]) for t, token in enumerate(ids)]


def close(found: Sequence[float], expected: Sequence[float], tolerance: float = 1e-9) -> bool:
    return len(found) == len(expected) and all(abs(a - b) <= tolerance for a, b in zip(found, expected, strict=True))


def ragged(rng: random.Random, count: int, longest: int = 20) -> list[list[int]]:
    return [[1] + [rng.randrange(3, 44) for _ in range(rng.randrange(longest))] for _ in range(count)]


def grown(contexts: list[list[int]], answers: Sequence[Completion], rng: random.Random) -> list[list[int]]:
    new = [[rng.randrange(3, 44) for _ in range(rng.randrange(1, 4))] for _ in contexts]
    return [c + list(a.ids) + n for c, a, n in zip(contexts, answers, new, strict=True)]


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_log_probs_over_several_turns_are_those_of_a_fresh_forward_pass(temperature: float, attention: str) -> None:
    model, rng = small(), random.Random(1)
    model.network.set_attn_implementation(attention)
    backend = HFBackend(model)
    contexts = ragged(rng, 9) * 2
    for turn in range(4):
        sampling = Sampling(temperature)
        limits = [1 + (number + turn) % 5 for number in range(len(contexts))]
        requests = [
            SampleRequest(c, 100 * turn + n, sampling, m) for n, (c, m) in enumerate(zip(contexts, limits, strict=True))
        ]
        answers = backend.generate(requests)
        for context, answer in zip(contexts, answers, strict=True):
            # transformers' eager attention takes its softmax in float32, whatever the weights are
            tolerance = 1e-9 if attention == "sdpa" else 2e-5
            assert close(answer.logps, plain_logps(model, context, answer.ids, temperature), tolerance)
        contexts = grown(contexts, answers, rng)
    assert backend._batch.prefixes.rows  # the turns above did go through kept prefixes


def test_the_kept_prefixes_change_nothing() -> None:
    rng = random.Random(2)
    kept, forgetful = HFBackend(small()), HFBackend(small(), cache_mib=0)
    tight = HFBackend(small(), max_batch=3, max_batch_tokens=64)
    tight._batch.prefixes.limit = 40_000  # so small that cohorts are dropped between and within turns
    contexts = ragged(rng, 12)
    for turn in range(5):
        requests = [SampleRequest(c, 31 * turn + n, Sampling(), 1 + n % 3) for n, c in enumerate(contexts)]
        expected = forgetful.generate(requests)
        for backend in (kept, tight):
            answers = backend.generate(requests)
            assert [a.ids for a in answers] == [a.ids for a in expected]
            assert all(close(a.logps, b.logps) for a, b in zip(answers, expected, strict=True))
        contexts = grown(contexts, expected, rng)
    assert not forgetful._batch.prefixes.rows
    assert tight._batch.prefixes.used <= tight._batch.prefixes.limit


def test_one_token_turns_on_equal_lengths_as_the_games_play_them() -> None:
    model, rng = small(), random.Random(3)
    backend = HFBackend(model)
    prompts = [[1] + [rng.randrange(3, 44) for _ in range(12)] for _ in range(4)]
    contexts = [list(prompt) for prompt in prompts for _ in range(8)]
    for turn in range(4):
        answers = backend.generate([SampleRequest(c, rng.getrandbits(64), Sampling(), 1) for c in contexts])
        for context, answer in zip(contexts, answers, strict=True):
            assert close(answer.logps, plain_logps(model, context, answer.ids))
            context += [*answer.ids, 3 + turn]
    assert {cohort.width for cohort in backend._batch.prefixes.cohorts} == {13, 15, 17, 19}
    assert all(cohort.valid is None for cohort in backend._batch.prefixes.cohorts)


def test_an_answer_does_not_depend_on_the_batch_its_order_or_its_padding() -> None:
    rng = random.Random(4)
    contexts = ragged(rng, 10, longest=30)
    requests = [SampleRequest(c, n, Sampling(1.1, 0.9, 20), 6) for n, c in enumerate(contexts)]
    together = HFBackend(small(), cache_mib=0).generate(requests)
    alone = HFBackend(small(), cache_mib=0)
    order = rng.sample(range(10), 10)
    shuffled = HFBackend(small(), max_batch=4).generate([requests[i] for i in order])
    for number, answer in enumerate(together):
        for other in (alone.generate([requests[number]])[0], shuffled[order.index(number)]):
            assert other.ids == answer.ids
            assert close(other.logps, answer.logps)


def test_draws_follow_the_distribution() -> None:
    model = small()
    answers = HFBackend(model).generate([SampleRequest([1, 5], seed, Sampling(), 1) for seed in range(4000)])
    for token in range(0, 44, 7):
        p = math.exp(plain_logps(model, [1, 5], [token])[0])
        share = sum(a.ids == (token,) for a in answers) / 4000
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / 4000) + 1e-9


def test_a_turn_stops_at_the_end_token_and_keeps_it() -> None:
    model = small()
    requests = [SampleRequest([1, 5 + n % 7], n, Sampling(1.5), 30) for n in range(60)]
    answers = HFBackend(model).generate(requests)
    stopped = [a for a in answers if a.finish == "stop"]
    assert stopped
    assert len(stopped) < len(answers)
    for request, answer in zip(requests, answers, strict=True):
        assert (answer.ids[-1] == WordEncoder.eos_id) == (answer.finish == "stop")
        assert WordEncoder.eos_id not in answer.ids[:-1]
        assert close(answer.logps, plain_logps(model, request.ids, answer.ids, 1.5))


def test_dropout_and_training_mode_do_not_reach_the_ledger() -> None:
    model = small()
    model.network.config.attention_dropout = 0.5
    for layer in model.network.model.layers:
        layer.self_attn.attention_dropout = 0.5
    model.network.train()
    (answer,) = HFBackend(model).generate([SampleRequest([1, 5, 6], 3, Sampling(), 8)])
    assert close(answer.logps, plain_logps(model, [1, 5, 6], answer.ids))
    assert model.network.training


def test_an_update_of_the_weights_is_noticed() -> None:
    model = small()
    backend = HFBackend(model)
    request = [SampleRequest([1, 5, 6, 7], 3, Sampling(), 1)]
    (first,) = backend.generate(request)
    with torch.no_grad():
        for weight in model.network.parameters():
            weight.mul_(1.1)
    longer = [SampleRequest([1, 5, 6, 7, *first.ids, 8], 4, Sampling(), 3)]
    (answer,) = backend.generate(longer)
    assert close(answer.logps, plain_logps(model, longer[0].ids, answer.ids))


def test_scores_are_summed_log_probs_of_each_continuation() -> None:
    model, rng = small(), random.Random(5)
    backend = HFBackend(model)
    contexts = ragged(rng, 6)
    options = [[ids[1:] or [4] for ids in ragged(rng, 4, longest=6)] + [[]] for _ in contexts]
    for _ in range(2):  # the second time from kept prefixes
        scores = backend.score([ScoreRequest(c, o) for c, o in zip(contexts, options, strict=True)])
        for context, texts, found in zip(contexts, options, scores, strict=True):
            assert close(found, [sum(plain_logps(model, context, ids)) for ids in texts])
        contexts = [[*c, 9, 10] for c in contexts]


def test_the_public_conformance_check_accepts_it() -> None:
    check_backend(HFBackend(small()), [[1, 5], [1, 6, 7, 8], [1]])


def test_windowed_attention_takes_the_plain_path() -> None:
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=44,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        sliding_window=4,
        initializer_range=0.4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network: Any = MistralForCausalLM(config).double().eval()
    model = Model(network, small().encoder, "windowed")
    backend, rng = HFBackend(model), random.Random(6)
    contexts = ragged(rng, 6)
    for _ in range(2):
        answers = backend.generate([SampleRequest(c, n, Sampling(), 2 + n % 4) for n, c in enumerate(contexts)])
        for context, answer in zip(contexts, answers, strict=True):
            assert close(answer.logps, plain_logps(model, context, answer.ids))
        contexts = grown(contexts, answers, rng)


def test_an_adapter_answers_by_name_and_leaves_training_as_it_was() -> None:
    base = small()
    untouched = small()
    model = add_lora(add_lora(base, r=4, seed=1, adapter="first"), r=4, seed=2, adapter="second")
    network: Any = model.network
    network.double()
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    network.set_adapter("first")
    trainable = {name for name, weight in network.named_parameters() if weight.requires_grad}
    request = [SampleRequest([1, 5, 6], 7, Sampling(), 5)]
    told = {}
    for adapter in ("first", "second", None):
        (answer,) = HFBackend(model, adapter=adapter).generate(request)
        told[adapter] = answer
        assert {name for name, weight in network.named_parameters() if weight.requires_grad} == trainable
        assert network.active_adapter == "first"
    assert close(told[None].logps, plain_logps(untouched, [1, 5, 6], told[None].ids))
    assert close(told["first"].logps, plain_logps(model, [1, 5, 6], told["first"].ids))
    network.set_adapter("second")
    assert close(told["second"].logps, plain_logps(model, [1, 5, 6], told["second"].ids))
    assert len({answer.logps for answer in told.values()}) == 3
    with pytest.raises(ConfigError, match="no adapter 'third'"):
        HFBackend(model, adapter="third")


def test_failures_say_what_to_do() -> None:
    model = small()
    backend = HFBackend(model, "debater@v3")
    with pytest.raises(ConfigError, match="max_length"):
        backend.generate([SampleRequest([1] * 60, 1, Sampling(), 5)])
    with pytest.raises(ConfigError, match="empty context"):
        backend.generate([SampleRequest([], 1, Sampling(), 5)])
    with torch.no_grad():
        model.network.model.norm.weight.fill_(float("nan"))
    with pytest.raises(BackendError, match=r"debater@v3.*diverged"):
        backend.generate([SampleRequest([1], 1, Sampling(), 5)])
    assert backend.generate([]) == []
