"""What is sampled is exactly what is trained, whichever backend samples: failures that trainers are known for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from arena.agents.policy import Policy, PolicyAgent, agent_for
from arena.agents.scripted import from_list
from arena.agents.types import Completion, SampleRequest, ScoreRequest
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import ConfigError
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Sampling, Task, TurnStatus
from arena.training import Learner, LearnerConfig, TrainingSequence
from arena.training.self_check import self_check
from arena.training.sequences import sequences_of

pytestmark = pytest.mark.slow

TALK = """
name: talk
fields: [question]
roles: {policy: {sees: [question], opening: "Say ab."}, other: {sees: [question]}}
nodes:
  say: {speak: policy, prompt: "{{ question }}", limit: {tokens: 9}}
  reply: {speak: other}
edges: [start -> say -> reply -> end, {from: reply, to: say, times: 3}]
"""
ROUNDING = 2e-4
"""Nats between float32 log-probs of two implementations."""
SYNCS = {"hf": 1000, "vllm": 100, "stand-in": 10, "vllm-server": 100}


@pytest.fixture(
    params=["hf", "stand-in", *(pytest.param(name, marks=pytest.mark.vllm) for name in ("vllm", "vllm-server"))]
)
def kind(request: pytest.FixtureRequest) -> str:
    """Every backend that samples tokens; the client of servers also with a server that needs no vLLM."""
    return str(request.param)


@pytest.fixture
def sampler(kind: str, request: pytest.FixtureRequest) -> Any:
    """The spec of that backend, while what it talks to runs."""
    if kind == "hf":
        return "hf"
    if kind == "vllm":
        request.getfixturevalue("vllm")
        return "vllm"
    url = request.getfixturevalue("vllm_server") if kind == "vllm-server" else request.getfixturevalue("stand_in")[1]
    return {"kind": "vllm-server", "url": url}


class Recorder:
    """A backend that remembers what passed through it."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.policy, self.max_length = inner, inner.policy, inner.max_length
        self.log: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        asked = [tuple(request.ids) for request in requests]
        answers: Sequence[Completion] = self.inner.generate(requests)
        self.log += zip(asked, [answer.ids for answer in answers], strict=True)
        return answers

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        scores: Sequence[Sequence[float]] = self.inner.score(requests)
        return scores


class AsyncRecorder(Recorder):
    async def draw(self, request: SampleRequest) -> Completion:
        asked = tuple(request.ids)
        answer: Completion = await self.inner.draw(request)
        self.log.append((asked, answer.ids))
        return answer


def play(agent: PolicyAgent, count: int = 8, question: str = "ba?") -> list[Episode]:
    """Conversations of four turns each, with an opponent of other tokens."""
    lineup: Any = {"policy": agent, "other": from_list(["abab", "xyz ba", "bab"])}
    plans = [Plan(f"e{n}", Task(f"t{n}", {"question": question * (1 + n)}), lineup) for n in range(count)]
    return Engine(compile_document(parse_document(TALK)), {}, seed=7).play(plans)


def sampled(policy: Policy, temperature: float = 1.0, count: int = 8) -> list[TrainingSequence]:
    episodes = play(policy.agent(Sampling(temperature)), count)
    return [sequence for episode in episodes for sequence in sequences_of(episode, {"policy"})]


def learner_of(policy: Policy) -> Learner:
    made = Learner(policy.model, LearnerConfig(), seed=0)
    made.set_reference()
    return made


def test_1_trained_ids_are_the_sampled_ids_where_reading_the_text_back_gives_others(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    recorder = AsyncRecorder(policy.backend) if hasattr(policy.backend, "draw") else Recorder(policy.backend)
    episodes = play(agent_for(recorder, policy.model.encoder, "p"))
    asked = dict(recorder.log)
    drifted = 0
    for episode in episodes:
        (sequence,) = sequences_of(episode, {"policy"})
        spans = [turn.tokens for turn in episode.turns if turn.role == "policy"]
        place = 0
        for turn, span in zip([t for t in episode.turns if t.role == "policy"], spans, strict=True):
            assert span is not None
            place += len(span.prompt)
            assert asked[tuple(sequence.ids[:place])] == span.ids == tuple(sequence.ids[place : place + len(span.ids)])
            place += len(span.ids)
            said = [token for token in span.ids if token not in policy.model.encoder.end_ids]
            drifted += policy.model.encoder.encode_turn(turn.text, end=False) != said
        assert place == len(sequence.ids)
    assert drifted >= 4  # of 32: the trap was really there


def test_2_gradients_reach_own_tokens_and_no_others(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    made = learner_of(policy)
    for episode in play(policy.agent(), 3):
        (sequence,) = sequences_of(episode, {"policy"})
        own = [span.ids for turn in episode.turns if turn.role == "policy" and (span := turn.tokens) is not None]
        assert [sequence.ids[place] for place in sequence.positions] == [token for ids in own for token in ids]
        assert made.gradient_reach(sequence) == sequence.positions
        assert len(sequence.positions) < len(sequence.ids) / 2


def test_3_a_turn_without_tokens_trains_nothing_and_spoils_nothing(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    (episode,) = play(policy.agent(), 1, "x" * 600)  # fills the context
    (turn,) = [turn for turn in episode.turns if turn.role == "policy"]
    assert turn.status is TurnStatus.TRANSPORT
    assert turn.tokens is not None
    assert turn.tokens.ids == ()
    assert sequences_of(episode, {"policy"}) == []
    sequences = sampled(policy)
    ended = [s for s in sequences if any(s.turns.count(turn) == 1 for turn in s.turns)]
    assert ended  # turns of the end token alone: an empty text, one trained token
    for sequence in sequences:
        sequence.advantages = [1.0] * len(sequence.positions)
    assert all(map(math.isfinite, learner_of(policy).update(sequences).values()))


def test_4_log_probs_belong_to_the_logits_one_place_before(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    made = learner_of(policy)
    off: list[float] = []
    for sequence in sampled(policy):
        logps_TV = shared.plain_logits(policy.model, sequence.ids).log_softmax(-1)
        for place, logp in zip(sequence.positions, sequence.logps or (), strict=True):
            assert float(logps_TV[place - 1, sequence.ids[place]]) == pytest.approx(logp, abs=ROUNDING)
            off.append(abs(float(logps_TV[place, sequence.ids[place]]) - logp))
    assert sum(off) / len(off) > 100 * ROUNDING
    one = TrainingSequence(sequence.ids, sequence.positions[2:3], [-1.0], [0], "policy", "e", 1)
    assert made.gradient_reach(one) == sequence.positions[2:3]


def test_5_padding_is_the_end_token_and_changes_nothing(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    end = policy.model.encoder.tokenizer.eos_token_id
    assert policy.model.encoder.tokenizer.pad_token_id == end
    starts = [policy.model.encoder.encode_turn("ab" * n, end=n % 2 == 0) for n in range(1, 12)]  # ends inside as well
    requests = [SampleRequest(ids, n, Sampling(), 7) for n, ids in enumerate(starts)]
    together = policy.backend.generate(requests)
    for request, answer in zip(requests, together, strict=True):
        (alone,) = policy.backend.generate([request])
        assert alone.ids == answer.ids
        assert alone.logps == pytest.approx(answer.logps, abs=ROUNDING)
    assert any(answer.ids[-1] == end for answer in together)
    sequences = sampled(policy)
    made = learner_of(policy)
    apart = [logp for sequence in sequences for logp in made.score([sequence]).logps.tolist()]
    assert made.score(sequences).logps.tolist() == pytest.approx(apart, abs=ROUNDING)
    trained_ends = [s for s in sequences if any(s.ids[place] == end for place in s.positions)]
    assert trained_ends
    assert all(set(made.gradient_reach(s)) == set(s.positions) for s in trained_ends[:3])


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_6_the_first_ratio_is_one_at_every_temperature(sampler: Any, shared: Any, temperature: float) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    report = self_check(learner_of(policy), sampled(policy, temperature, 24), tolerance=ROUNDING)
    assert report["tokens"] > 60
    assert report["ratio_max"] == pytest.approx(1.0, abs=ROUNDING)


def test_7_dropout_is_off_where_tokens_are_sampled_and_scored(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    policy.model.network.train()
    sequences = sampled(policy)
    report = self_check(learner_of(policy), sequences, tolerance=ROUNDING)
    assert report["ratio_max"] == pytest.approx(1.0, abs=ROUNDING)
    assert policy.model.network.training


def test_15_every_version_is_delivered_and_the_base_stays_as_it_is(kind: str, sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    base = Policy("base", policy.model, adapter=None, sampler=sampler)
    frozen = {name: w.clone() for name, w in policy.model.network.named_parameters() if "lora" not in name}
    context = policy.model.encoder.encode_turn("abba" * 20, end=False)
    ids = policy.model.encoder.encode_turn("abab", end=False)
    request = [ScoreRequest(context, [ids])]
    before = base.backend.score(request)
    for sync in range(SYNCS[kind]):
        shared.shift(policy.model, sync)
        policy.publish()
        if sync % (SYNCS[kind] // 10) == 0:
            (score,) = policy.backend.score(request)[0]
            assert score == pytest.approx(sum(shared.plain_logps(policy.model, context, ids)), abs=ROUNDING)
    assert policy.id == f"p@v{SYNCS[kind]}"
    assert base.backend.score(request) == before
    now = dict(policy.model.network.named_parameters())
    assert all(torch.equal(now[name], weight) for name, weight in frozen.items())
    self_check(learner_of(policy), sampled(policy), tolerance=ROUNDING)


def test_16_a_known_mismatch_gives_the_exact_expectation(kind: str, sampler: Any, shared: Any) -> None:
    """Samples of version 0, weighted by the ratio to their recorded log-probs, have the mean of version 1."""
    policy = Policy("p", shared.letters(lora=1, spread=0.15), sampler=sampler)
    context = policy.model.encoder.encode_turn("abba", end=False)
    count = 300 if kind == "stand-in" else 3000
    answers = policy.backend.generate([SampleRequest(context, seed, Sampling(1.3), 1) for seed in range(count)])
    shared.shift(policy.model, 2, 0.15)
    now_V = (shared.plain_logits(policy.model, context)[-1] / 1.3).log_softmax(-1)
    weights = [math.exp(float(now_V[answer.ids[0]]) - answer.logps[0]) for answer in answers]
    likely = [token for token, logp in enumerate(now_V.tolist()) if logp > math.log(0.05)]
    assert len(likely) > 1
    for token in likely:
        terms = [w * (answer.ids[0] == token) for w, answer in zip(weights, answers, strict=True)]
        mean = sum(terms) / count
        spread = math.sqrt(sum((term - mean) ** 2 for term in terms)) / count
        assert abs(mean - math.exp(float(now_V[token]))) < 4.5 * spread
    unweighted = [sum(answer.ids[0] == token for answer in answers) / count for token in likely]
    assert max(abs(u - math.exp(float(now_V[t]))) for u, t in zip(unweighted, likely, strict=True)) > 0.05


def test_16_the_learner_weights_once_and_refuses_tokens_without_log_probs(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1, spread=0.15), sampler=sampler)
    episodes = play(policy.agent())
    shared.shift(policy.model, 2, 0.15)
    sequences = [sequence for episode in episodes for sequence in sequences_of(episode, {"policy"})]
    ratios = []
    for sequence in sequences:
        sequence.advantages = [1.0] * len(sequence.positions)
        logps_TV = shared.plain_logits(policy.model, sequence.ids).log_softmax(-1)
        ratios += [
            math.exp(float(logps_TV[place - 1, sequence.ids[place]]) - logp)
            for place, logp in zip(sequence.positions, sequence.logps or (), strict=True)
        ]
    metrics = learner_of(policy).update(sequences)
    assert metrics["ratio_mean"] == pytest.approx(sum(ratios) / len(ratios), rel=1e-3)
    assert abs(metrics["ratio_mean"] - 1.0) > 0.01 or metrics["ratio_max"] > 1.1
    span = episodes[0].turns[0].tokens
    assert span is not None
    span.logps = None
    with pytest.raises(ConfigError, match="sampled tokens but no log-probs"):
        sequences_of(episodes[0], {"policy"})


def test_an_agent_adds_what_it_heard_and_said_to_its_context_and_nothing_else(sampler: Any, shared: Any) -> None:
    policy = Policy("p", shared.letters(lora=1), sampler=sampler)
    (episode,) = play(policy.agent(), 1)
    ledger = [token for turn in episode.turns if (span := turn.tokens) for token in (*span.prompt, *span.ids)]
    (sequence,) = sequences_of(episode, {"policy"})
    assert sequence.ids == ledger
