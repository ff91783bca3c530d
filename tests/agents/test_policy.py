from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from arena.agents.backend_hf import HFBackend
from arena.agents.encoders import ChatEncoder
from arena.agents.models import Model, tiny
from arena.agents.policy import Policy, PolicyAgent
from arena.agents.types import Act, Ask, Completion, Context, Message, SampleRequest, ScoreRequest
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Sampling, Task, TurnStatus
from arena.testing import check_agent

TASK = Task("t", {})
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}:{{ m.content }}<e>{% endfor %}{% if add_generation_prompt %}<s>assistant:"
    "{% endif %}"
)


def ask(context: Context, *new: Message, seed: int = 1, max_tokens: int | None = 1) -> Ask:
    return Ask("e", "n", "r", 0, seed, context, new, max_tokens, 0, TASK, ())


class Recorder:
    """A backend that remembers what passed through it."""

    def __init__(self, inner: HFBackend) -> None:
        self.inner, self.policy = inner, inner.policy
        self.log: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        answers = self.inner.generate(requests)
        self.log += [(tuple(r.ids), a.ids) for r, a in zip(requests, answers, strict=True)]
        return answers

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        return self.inner.score(requests)


def ambiguous() -> Model:
    """A chat model of letters whose tokenizer merges: ``a``, ``b`` drawn one by one would be read back as ``ab``."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("a", "b"), ("ab", "a"), ("b", "a"), ("ba", "ba")]
    vocabulary = [*letters, *("".join(pair) for pair in merges)]
    core = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, merges))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    core.decoder = decoders.ByteLevel()
    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<e>", bos_token="<s>")
    tokenizer.chat_template = TEMPLATE
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network: Any = LlamaForCausalLM(config).eval()
    ab = [tokenizer.convert_tokens_to_ids(token) for token in ("a", "b", "ab", "ba")]
    network.lm_head = torch.nn.Linear(32, len(tokenizer), bias=True)
    with torch.no_grad():  # speaks a's and b's only, and ends now and then
        network.lm_head.weight.zero_()
        network.lm_head.bias.fill_(-20.0)
        network.lm_head.bias[ab] = 0.0
        network.lm_head.bias[tokenizer.eos_token_id] = -1.5
    return Model(network, ChatEncoder(tokenizer), "letters")


def test_the_ledger_holds_the_sampled_ids_where_reading_the_text_back_would_give_others() -> None:
    model = ambiguous()
    backend = Recorder(HFBackend(model, "letters@v1"))
    agent = PolicyAgent("x", backend, model.encoder, max_tokens=9)
    drifted = 0
    for episode in range(6):
        context, ledger = Context(), []
        backend.log.clear()
        for turn in range(4):
            new = [Message("heard", "abab"), Message("prompt", "ba?")]
            if turn == 0:
                new.insert(0, Message("opening", "rules"))
            (act,) = agent.act([ask(context, *new, seed=100 * episode + turn, max_tokens=None)])
            span = act.tokens
            assert span is not None
            assert span.logps is not None
            assert not span.fresh
            assert span.policy == "letters@v1"
            ledger += span.prompt
            assert backend.log[turn] == (tuple(ledger), span.ids)
            ledger += span.ids
            assert context.ids == ledger
            kept = [token for token in span.ids if token not in model.encoder.end_ids]
            assert act.text == model.encoder.decode(kept)
            assert act.status is (TurnStatus.OK if kept != list(span.ids) else TurnStatus.TRUNCATED)
            drifted += model.encoder.tokenizer(act.text, add_special_tokens=False)["input_ids"] != kept
    assert drifted > 12  # of 24: the trap was really there


def test_a_policy_agent_passes_the_public_conformance_check() -> None:
    model = tiny("a b c d", hidden=16, heads=2)

    def asks() -> list[Ask]:
        return [
            ask(Context(), Message("opening", "a b"), Message("cue", "c"), seed=s, max_tokens=m)
            for s, m in [(1, 1), (2, 4), (3, None), (1, 1)]
        ]

    check_agent(PolicyAgent("x", HFBackend(model), model.encoder, max_tokens=6), asks)
    chatty = ambiguous()
    check_agent(PolicyAgent("y", HFBackend(chatty), chatty.encoder, max_tokens=6), asks)


def test_status_of_a_turn() -> None:
    model = tiny("a b")
    with torch.no_grad():
        model.network.model.norm.weight.zero_()  # all words alike
    agent = PolicyAgent("x", HFBackend(model), model.encoder, max_tokens=2)
    one_word = agent.act([ask(Context(), Message("cue", "a"), seed=s, max_tokens=1) for s in range(20)])
    assert {act.status for act in one_word} == {TurnStatus.OK}
    longer = agent.act([ask(Context(), Message("cue", "a"), seed=s, max_tokens=9) for s in range(60)])
    assert {act.status for act in longer} == {TurnStatus.OK, TurnStatus.TRUNCATED}
    for act in longer:
        assert act.tokens is not None
        assert len(act.tokens.ids) <= 2  # the agent's own limit is the smaller one
        assert (act.status is TurnStatus.OK) == (act.tokens.ids[-1] == 2)


def test_a_failing_model_fails_the_turn_and_the_context_goes_on() -> None:
    model = tiny("a b c")

    class Flaky(Recorder):
        down = True

        def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
            if self.down:
                raise BackendError("the server is gone")
            return super().generate(requests)

    backend = Flaky(HFBackend(model))
    agent = PolicyAgent("x", backend, model.encoder)
    contexts = [Context(), Context()]
    acts: list[Act] = agent.act([ask(context, Message("opening", "a b")) for context in contexts])
    for act in acts:
        assert (act.status, act.text, act.error) == (TurnStatus.TRANSPORT, "", "the server is gone")
        assert act.tokens is not None
        assert (act.tokens.prompt, act.tokens.ids, act.tokens.logps) == ((1, 3, 4), (), ())
    backend.down = False
    (act,) = agent.act([ask(contexts[0], Message("cue", "c"))])
    assert act.tokens is not None
    assert act.tokens.prompt == (5,)
    assert backend.log == [((1, 3, 4, 5), act.tokens.ids)]


def test_a_full_context_fails_that_turn_alone() -> None:
    model = tiny("a b c", max_length=8)
    agent = PolicyAgent("x", HFBackend(model), model.encoder)
    long, short = (ask(Context(), Message("opening", text), max_tokens=4) for text in ("a " * 7, "a b"))
    full, fine = agent.act([long, short])
    assert full.status is TurnStatus.TRANSPORT
    assert "fills the 8" in str(full.error)
    assert fine.status is not TurnStatus.TRANSPORT
    (tight,) = agent.act([ask(Context(), Message("opening", "a " * 5), max_tokens=4, seed=3)])
    assert tight.tokens is not None
    assert len(tight.tokens.ids) <= 2


def test_a_policy_counts_versions_and_its_snapshot_stays_behind() -> None:
    policy = Policy("debater", tiny("a b c", initializer_range=0.5), version=3)
    old = policy.snapshot()
    agent = policy.agent(Sampling(0.7))
    assert (agent.name, old.id) == ("debater@v3", "debater@v3")
    with torch.no_grad():
        for weight in policy.model.network.parameters():
            weight.mul_(2.0)
    assert policy.publish() == "debater@v4"
    request = [ScoreRequest([1, 3], [[4]])]
    assert agent.backend.policy == "debater@v4"
    assert agent.backend.score(request) != old.backend.score(request)
    assert not any(weight.requires_grad for weight in old.model.network.parameters())


def test_nonsense_arguments_are_refused() -> None:
    model = tiny("a b")
    with pytest.raises(ConfigError, match="max_tokens"):
        PolicyAgent("x", HFBackend(model), model.encoder, max_tokens=0)
    with pytest.raises(ConfigError, match="temperature"):
        PolicyAgent("x", HFBackend(model), model.encoder, Sampling(-1.0))


THINKING = "<think> </think> a b c"


class Says:
    """A backend that says what it is given, up to the limit."""

    policy, max_length = "says@v1", None

    def __init__(self, encoder: Any, *words: str) -> None:
        self.ids = [token for text in words for token in encoder.encode_turn(text, end=False)] + [encoder.end_ids[0]]

    def generate(self, requests: Sequence[SampleRequest]) -> Sequence[Completion]:
        found = []
        for request in requests:
            ids = tuple(self.ids[: request.max_tokens])
            found.append(Completion(ids, (-0.5,) * len(ids), "stop" if ids[-1] == self.ids[-1] else "length"))
        return found

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("said", "most_thinking", "most_visible", "expected"),
    [
        # status, text, thinking, sampled ids, of which thinking
        ("<think> a b </think> c a", 9, 9, ("ok", "c a", "a b", 7, 4)),
        ("<think> a b </think> c a", 4, 3, ("ok", "c a", "a b", 7, 4)),
        ("<think> a b </think> c a", 4, 2, ("truncated", "c a", "a b", 6, 4)),
        ("<think> a b </think> c a", 9, 1, ("truncated", "c", "a b", 5, 4)),
        ("<think> a b </think> c a", 3, 9, ("truncated", "", "a b", 3, 3)),
        ("<think> a b c", 3, 9, ("truncated", "", "a b", 3, 3)),
        ("<think> a b c", 9, 9, ("ok", "", "a b c", 5, 4)),
        ("a b c", 9, 2, ("truncated", "a b", "", 2, 0)),
        ("a b c", 9, 9, ("ok", "a b c", "", 4, 0)),
        ("<think> a b </think> c a", None, 9, ("ok", "c a", "a b", 7, 4)),
        ("<think> a b </think> c a", None, 5, ("truncated", "c", "a b", 5, 4)),
    ],
)
def test_thinking_and_what_is_said_have_limits_of_their_own(
    said: str, most_thinking: int | None, most_visible: int, expected: tuple[str, str, str, int, int]
) -> None:
    encoder = tiny(THINKING).encoder
    asked = ask(Context(), Message("opening", "a"), max_tokens=most_visible + (most_thinking or 0))
    asked.max_thinking = most_thinking
    (act,) = PolicyAgent("x", Says(encoder, said), encoder).act([asked])
    assert act.tokens is not None
    found = (act.status.value, act.text, act.thinking, len(act.tokens.ids), act.tokens.thinking)
    assert found == expected
    assert act.thinking_tokens == act.tokens.thinking
    assert asked.context.ids == [*act.tokens.prompt, *act.tokens.ids]
    assert len(act.tokens.logps or ()) == len(act.tokens.ids)


def test_thinking_that_the_prompt_begins_is_found() -> None:
    encoder = tiny(THINKING).encoder
    (act,) = PolicyAgent("x", Says(encoder, "a b </think> c"), encoder).act(
        [ask(Context(), Message("opening", "a"), Message("cue", "<think>"), max_tokens=None)]
    )
    assert (act.text, act.thinking, act.thinking_tokens) == ("c", "a b", 3)
