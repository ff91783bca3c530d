"""The check before the first step passes on sound input and names what is broken."""

from types import SimpleNamespace

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from arena.protocols.errors import SelfCheckError
from arena.training import Learner, LearnerConfig, TrainingSequence
from arena.training.self_check import self_check


@pytest.fixture
def learner():
    config = LlamaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        initializer_range=0.3, tie_word_embeddings=True,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = LlamaForCausalLM(config).double().eval()
    made = Learner(SimpleNamespace(network=network), LearnerConfig(), seed=0)
    made.set_reference()
    return made


def sampled(learner, temperature=1.0):
    """Two roles in one stream, with the log-probs of a plain forward pass as a sampler would report them."""
    ids = [1, 4, 5, 6, 7, 8, 9]
    with torch.no_grad():
        logps = torch.log_softmax(learner.network(torch.tensor([ids])).logits[0] / temperature, -1)
    made = []
    for role, positions in (("a", [2, 3]), ("b", [5, 6])):
        values = [logps[p - 1, ids[p]].item() for p in positions]
        made.append(TrainingSequence(ids, positions, values, [0, 0], role, "e", 2, temperature=temperature))
    return made


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_sound_sequences_pass(learner, temperature):
    report = self_check(learner, sampled(learner, temperature))
    assert report["tokens"] == 4
    assert report["logp_gap"] < 1e-12
    assert report["ratio_max"] == pytest.approx(1.0)
    assert report["kl_max"] == 0.0


def test_a_wrong_temperature_is_found(learner):
    sequences = sampled(learner, 1.3)
    for sequence in sequences:
        sequence.temperature = 1.0
    with pytest.raises(SelfCheckError, match=r"disagree: position \d of '[ab]' in episode 'e'"):
        self_check(learner, sequences)


def test_a_sampler_with_older_weights_is_found(learner):
    sequences = sampled(learner)
    for sequence in sequences:
        sequence.advantages = [1.0, 1.0]
    learner.update(sequences)
    learner.set_reference()
    with pytest.raises(SelfCheckError, match="trainer and sampler disagree"):
        self_check(learner, sequences)


def test_a_reference_that_is_not_the_policy_is_found(learner):
    sequences = sampled(learner)
    for sequence in sequences:
        sequence.advantages = [1.0, 1.0]
    learner.update(sequences)
    fresh = sampled(learner)
    with pytest.raises(SelfCheckError, match="reference is not the policy"):
        self_check(learner, fresh)
    assert self_check(learner, fresh, reference_is_policy=False)["kl_max"] > 0


def test_a_gradient_at_foreign_tokens_is_found(learner, monkeypatch):
    monkeypatch.setattr(learner, "gradient_reach", lambda sequence: [*sequence.positions, 1])
    with pytest.raises(SelfCheckError, match=r"did not sample: positions \[1\]"):
        self_check(learner, sampled(learner))
    monkeypatch.setattr(learner, "gradient_reach", lambda sequence: sequence.positions[1:])
    with pytest.raises(SelfCheckError, match=r"no gradient reaches .* positions \[2\]"):
        self_check(learner, sampled(learner))


def test_missing_log_probs_are_found(learner):
    sequences = sampled(learner)
    sequences[0].logps = None
    with pytest.raises(SelfCheckError, match="log-probs are missing"):
        self_check(learner, sequences)
