"""A turn that must be one of some texts is drawn among these, and its ledger says so."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from arena.agents.backend_hf import HFBackend
from arena.agents.choices import choices_of
from arena.agents.encoders import WordEncoder
from arena.agents.models import Model, tiny
from arena.agents.policy import Policy, PolicyAgent
from arena.agents.sampling import branch_seed
from arena.agents.scripted import ScriptedAgent
from arena.agents.types import Act, Ask, Completion, Context, Message, SampleRequest, ScoreRequest
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.loader import compile_document
from arena.protocols.outputs import OutputRule, read_output
from arena.protocols.records import Sampling, Task, TurnStatus
from arena.training import Learner, LearnerConfig
from arena.training.self_check import self_check
from arena.training.sequences import sequences_of

OPTIONS = ("red ball", "red cube", "blue ball of glass", "green")
GAME = """
name: game
fields: [question]
roles: {player: {sees: [question], opening: "{{ question }}"}}
nodes:
  pick: {speak: player, output: {choice: [red ball, red cube, blue ball of glass, green]}}
  talk: {speak: player, limit: {tokens: 2}}
edges: [start -> pick -> talk -> end]
"""


def model() -> Model:
    made = tiny("red blue green ball cube of glass say", hidden=32, initializer_range=0.5)
    made.network.double()
    return made


def ask(text: str = "say", *, seed: int = 1, cue: str = "", **more: Any) -> Ask:
    new = (Message("opening", text), *((Message("cue", cue),) if cue else ()))
    rule = more.pop("output", OutputRule("choice", OPTIONS))
    return Ask("e", "n", "r", 0, seed, Context(), new, None, 0, Task("t", {}), (), output=rule, **more)


class Counting(HFBackend):
    """Counts the requests that an answer took."""

    asked = 0

    def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
        self.asked += len(requests)
        return super().generate(requests)


def conditional(made: Model, temperature: float) -> dict[str, float]:
    """Log-prob of each option by the definition: at every token, the model over the ways that are left."""
    backend, encoder = HFBackend(made), made.encoder
    ids = {text: tuple(encoder.encode_turn(text, end=False)) for text in OPTIONS}
    found = dict.fromkeys(OPTIONS, 0.0)
    context = encoder.extend(Context(), [Message("opening", "say")])[0]
    for text, own in ids.items():
        for place in range(len(own)):
            ways = sorted({other[place] for other in ids.values() if other[:place] == own[:place]})
            (logps,) = backend.score([ScoreRequest([*context, *own[:place]], [[way] for way in ways])])
            weights = {way: math.exp(logp / temperature) for way, logp in zip(ways, logps, strict=True)}
            found[text] += math.log(weights[own[place]] / sum(weights.values()))
    return found


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_options_are_drawn_with_the_probabilities_of_the_constrained_model(temperature: float) -> None:
    made = model()
    expected = conditional(made, temperature)
    assert sum(map(math.exp, expected.values())) == pytest.approx(1.0)
    agent = PolicyAgent("p", HFBackend(made), made.encoder, Sampling(temperature))
    acts = agent.act([ask(seed=seed) for seed in range(3000)])
    for act in acts:
        assert act.status is TurnStatus.OK
        assert act.tokens is not None
        assert act.tokens.logps is not None
        assert sum(act.tokens.logps) == pytest.approx(expected[act.text], abs=1e-9)
    for text, count in Counter(act.text for act in acts).items():
        p = math.exp(expected[text])
        assert abs(count / 3000 - p) < 4.5 * math.sqrt(p * (1 - p) / 3000)


def test_only_forks_are_asked_for() -> None:
    made = model()
    backend = Counting(made)
    agent = PolicyAgent("p", backend, made.encoder)
    (act,) = agent.act([ask(output=OutputRule("choice", ("blue ball of glass", "green")))])
    assert backend.asked == 1
    forks = {"red ball": 2, "red cube": 2, "blue ball of glass": 1, "green": 1}
    for seed in range(12):
        backend.asked = 0
        (act,) = agent.act([ask(seed=seed)])
        assert backend.asked == forks[act.text]
        assert act.tokens is not None
        assert act.tokens.allowed is not None
        assert sum(len(ways) > 1 for ways in act.tokens.allowed) == forks[act.text]
        assert all(token in ways for token, ways in zip(act.tokens.ids, act.tokens.allowed, strict=True))


def test_the_learner_has_the_log_probs_of_the_sampler() -> None:
    """Ratio 1 and KL 0 at the first step: the distribution is the constrained one on both sides."""
    policy = Policy("p", model())
    player = {"player": policy.agent()}
    plans = [Plan(f"e{n}", Task(f"t{n}", {"question": "say " * (1 + n % 3)}), player) for n in range(20)]
    episodes = Engine(compile_document(parse_document(GAME)), {}, seed=3).play(plans)
    sequences = [sequence for episode in episodes for sequence in sequences_of(episode, {"player"})]
    learner = Learner(policy.model, LearnerConfig(), seed=0)
    learner.set_reference()
    report = self_check(learner, sequences, tolerance=1e-6)
    assert report["ratio_max"] == pytest.approx(1.0, abs=1e-6)
    for sequence in sequences:
        sequence.advantages = [1.0] * len(sequence.positions)
    assert learner.update(sequences)["ratio_max"] == pytest.approx(1.0, abs=1e-5)
    with torch.no_grad():
        for weight in policy.model.network.parameters():
            weight.mul_(1.05)
    scores = learner.score(sequences)
    constrained = [s.allowed[n] for s in sequences for n in range(len(s.positions)) if n in s.allowed]
    assert all(len(ways) > 1 for ways in constrained)  # what is certain is not trained
    assert len(constrained) >= 20
    assert scores.kl is not None
    assert max(scores.kl) > 1e-4


def test_words_of_which_one_option_begins_another_end_with_the_end_token() -> None:
    encoder = WordEncoder(["a", "b"])
    assert choices_of(ask("a", output=OutputRule("choice", ("a", "b"))), encoder) == [(3,), (4,)]
    assert choices_of(ask("a", output=OutputRule("choice", ("a", "a b"))), encoder) == [(3, 2), (3, 4, 2)]
    with pytest.raises(ConfigError, match="'c' is not in the model's vocabulary"):
        choices_of(ask("a", output=OutputRule("choice", ("a", "c"))), encoder)


def test_turns_that_say_more_than_the_choice_are_free() -> None:
    encoder = WordEncoder(["red", "blue", "<think>", "</think>"])
    rule = OutputRule("choice", ("red", "blue"))
    assert choices_of(ask("red", output=rule), encoder) is not None
    assert choices_of(ask("red", output=None), encoder) is None
    assert choices_of(ask("red", output=OutputRule("choice", ("red", "blue"), tag="answer")), encoder) is None
    assert choices_of(ask("red", output=OutputRule("regex", pattern="(?P<x>red)")), encoder) is None
    assert choices_of(ask("red", output=rule, max_thinking=5), encoder) is None
    thinking = ask("red <think>", output=rule)
    thinking.context.ids = list(encoder.extend(Context(), thinking.new)[0])
    assert choices_of(thinking, encoder) is None


def test_the_options_of_the_task_count_before_those_of_the_rule() -> None:
    made = model()
    (act,) = PolicyAgent("p", HFBackend(made), made.encoder).act([ask(options=("cube", "glass"))])
    assert act.text in {"cube", "glass"}


def test_a_chat_model_says_an_option_and_ends_its_turn(shared: Any) -> None:
    made = shared.letters()
    rule = OutputRule("choice", ("abba", "aba <e>", "Nein, danke"))
    agent = PolicyAgent("p", HFBackend(made), made.encoder)
    for cue in ("", "Answer:"):
        for seed in range(6):
            asked = ask("Choose.", cue=cue, seed=seed, output=rule)
            (act,) = agent.act([asked])
            assert read_output(rule, act.text)[1] is None
            assert act.status is TurnStatus.OK
            assert act.tokens is not None
            assert act.tokens.ids[-1] == made.encoder.end_ids[0]
            assert act.visible_tokens == len(act.tokens.ids) - 1
            assert asked.context.ids[-len(act.tokens.ids) :] == list(act.tokens.ids)
            said = made.encoder.tokenizer.decode(asked.context.ids)
            assert not cue or f"Answer: {act.text}<e>" in said


def test_a_fault_at_a_fork_is_the_fault_of_that_turn_alone() -> None:
    made = model()

    class Flaky(HFBackend):
        def generate(self, requests: Sequence[SampleRequest]) -> list[Completion]:
            if any(len(request.ids) > 2 and request.seed != 1 for request in requests):
                raise BackendError("gone")
            return super().generate(requests)

    acts: list[Act] = PolicyAgent("p", Flaky(made), made.encoder).act([ask(seed=seed) for seed in range(200)])
    forked = [act for act in acts if act.status is TurnStatus.TRANSPORT]
    assert forked
    assert all(act.tokens is not None and act.tokens.ids == () and act.error == "gone" for act in forked)
    assert {act.text for act in acts if act.status is TurnStatus.OK} <= set(OPTIONS)


def test_forks_draw_from_streams_of_their_own() -> None:
    seeds = {branch_seed(seed, fork) for seed in range(50) for fork in range(1, 5)}
    assert len(seeds) == 200
    assert not seeds & set(range(50))


@pytest.mark.parametrize("options", [OPTIONS, ("red", "red ball")])
def test_a_demonstrated_choice_has_the_tokens_that_a_policy_would_draw(options: tuple[str, ...]) -> None:
    """Options that none begins with end by themselves in a vocabulary of words; others, and free turns, need an end."""
    made = model()
    rule = OutputRule("choice", options)
    policy = PolicyAgent("p", HFBackend(made), made.encoder)
    drawn = policy.act([ask(seed=seed, output=rule) for seed in range(30)])
    for act in drawn:
        shown = ScriptedAgent("s", lambda ask, text=act.text: text).encode_with(made.encoder)
        (same,) = shown.act([ask(output=rule)])
        assert act.tokens is not None
        assert same.tokens is not None
        assert same.tokens.ids == act.tokens.ids
    (free,) = ScriptedAgent("s", lambda ask: "red").encode_with(made.encoder).act([ask(output=None)])
    assert free.tokens is not None
    assert free.tokens.ids[-1] == made.encoder.end_ids[0]
