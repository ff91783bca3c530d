"""The learner against a plain computation: one sequence at a time, whole logits, naive formulas (2-layer Llama)."""

import copy
import io
import math
import random
from types import SimpleNamespace

import pytest
import torch
from bits import same_bits
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from arena.protocols.errors import ConfigError, NumericalError, ResumeError
from arena.training.learner import KLConfig, Learner, LearnerConfig, ObjectiveConfig, learning_rate
from arena.training.learner_config import OptimizerConfig
from arena.training.packing import pack
from arena.training.sequences import TrainingSequence

# PEFT reads a name that transformers has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

EOS = PAD = 0
VOCABULARY = 19


def network(seed=0, dropout=0.0):
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        tie_word_embeddings=True,
        initializer_range=0.3,
        max_position_embeddings=64,
        attention_dropout=dropout,
        pad_token_id=PAD,
        eos_token_id=EOS,
        bos_token_id=1,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return pure(LlamaForCausalLM(config).double())


def pure(net):
    """Norms in float64: the library's own pass through float32, and its rounding would hide what is compared here."""
    for name, module in list(net.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = torch.nn.RMSNorm(module.weight.shape[0], eps=module.variance_epsilon).double()
            net.set_submodule(name, norm)
    return net


def own_logps(net, sequence):
    """Log-probs of the trained tokens by a plain forward pass over the whole sequence."""
    logps = torch.log_softmax(net(torch.tensor([sequence.ids])).logits[0] / sequence.temperature, -1)
    return torch.stack([logps[place - 1, sequence.ids[place]] for place in sequence.positions])


def learner(net=None, **config):
    config = {"clip_norm": None, "kl": KLConfig(beta=0.3)} | config
    made = Learner(SimpleNamespace(network=net or network()), LearnerConfig(**config), seed=0)
    made.set_reference()
    return made


def debates(seed=0, tasks=3, rollouts=3, temperature=1.0):
    """Two roles share a stream, rollouts a prompt, lengths differ, an end token (= the padding token) is trained."""
    rng = random.Random(seed)
    made = []
    for task in range(tasks):
        prompt = [1, *(rng.randrange(2, VOCABULARY) for _ in range(4 + task)), 5]
        for rollout in range(rollouts):
            said = [rng.randrange(2, VOCABULARY) for _ in range(3)]
            first = [*prompt, said[0], 6, said[1], EOS]
            second = [*first, 5, said[2], *([EOS] * (rollout % 2))]
            at = len(prompt)
            spots = {"a": [at, at + 2, at + 3], "b": list(range(at + 5, len(second)))}
            for role, ids in (("a", first), ("b", second)):
                count = len(spots[role])
                made.append(
                    TrainingSequence(
                        ids=ids,
                        positions=spots[role],
                        logps=[math.log(rng.uniform(0.02, 0.2)) for _ in range(count)],
                        turns=[0, *([1] * (count - 1))],
                        role=role,
                        episode=f"{task}/{rollout}",
                        prompt_length=at,
                        advantages=[rng.choice([-1.5, -0.5, 0.0, 0.7, 1.2]) for _ in range(count)],
                        group=f"task{task}",
                        temperature=temperature,
                    )
                )
    return made


def gradients_of(made, sequences, method="update"):
    """Gradients that an update hands to the optimizer, and its metrics; the weights stay."""
    captured = {}

    def catch():
        captured.update({name: weight.grad.clone() for name, weight in made.parameters.items()})

    before = copy.deepcopy(made.state_dict())
    made._optimizer.step = catch
    metrics = getattr(made, method)(sequences)
    del made._optimizer.step
    made.load_state_dict(before)
    return captured, metrics


def plain(net, reference, sequences, *, beta=0.3, low=0.2, high=0.2):
    """The loss of a step by its definition, with gradients."""
    net.zero_grad()
    surrogate, kl, count = 0.0, 0.0, 0
    for sequence in sequences:
        ids = torch.tensor([sequence.ids])
        logp = torch.log_softmax(net(ids).logits[0] / sequence.temperature, -1)
        with torch.no_grad():
            logq = torch.log_softmax(reference(ids).logits[0] / sequence.temperature, -1)
        for place, old, advantage in zip(sequence.positions, sequence.logps, sequence.advantages, strict=True):
            ratio = torch.exp(logp[place - 1, sequence.ids[place]] - old)
            surrogate = surrogate - torch.minimum(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
            kl = kl + (logp[place - 1].exp() * (logp[place - 1] - logq[place - 1])).sum()
            count += 1
    loss = (surrogate + beta * kl) / count
    loss.backward()
    return loss.item(), kl.item() / count, {name: weight.grad.clone() for name, weight in net.named_parameters()}


def assert_same(got, want, tolerance=1e-10):
    assert got.keys() == want.keys()
    for name in want:
        torch.testing.assert_close(got[name], want[name], rtol=0, atol=tolerance)


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.3])
def test_a_packed_step_equals_the_plain_one(temperature):
    net = network()
    made = learner(net)
    reference = copy.deepcopy(net)
    with torch.no_grad():
        for weight in net.parameters():
            noise = torch.randn(weight.shape, dtype=weight.dtype, generator=torch.Generator().manual_seed(1))
            weight.add_(0.05 * noise)
    sequences = debates(temperature=temperature)
    got, metrics = gradients_of(made, sequences)
    loss, kl, want = plain(copy.deepcopy(net), reference, sequences)
    assert metrics["loss"] == pytest.approx(loss, abs=1e-12)
    assert metrics["kl_per_token"] == pytest.approx(kl, abs=1e-12)
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in want.values()))
    assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-10)
    assert_same(got, want)


def test_shared_prefixes_are_computed_once():
    (one,) = pack(debates(tasks=1, rollouts=2), budget=1000)
    # Prompt 6; rollout 0 reads 3 + 2 more, rollout 1 reads 3 + 3 more (its end token is predicted, not read).
    assert one.mask_RMM is not None
    assert one.ids_RM.shape == (1, 6 + 5 + 6)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("aggregate", ["token_mean", "group_token_mean", "seq_mean_token_mean", "seq_mean_token_sum"])
def test_micro_batches_change_nothing(level, aggregate):
    sequences = debates(tasks=8, rollouts=1)
    objective = ObjectiveConfig(level=level, aggregate=aggregate)
    steps = []
    for tokens in (1000, 60, 30, 1):
        made = learner(micro_batch=tokens, objective=objective)
        steps.append(gradients_of(made, sequences))
    assert len(pack(sequences, budget=1)) == len(sequences)
    assert len(pack(sequences, budget=60)) in range(2, 8)
    for gradients, metrics in steps[1:]:
        assert_same(gradients, steps[0][0])
        for name in ("loss", "kl_per_turn", "clip_frac", "entropy", "ratio_mean", "ratio_max", "grad_norm"):
            assert metrics[name] == pytest.approx(steps[0][1][name], abs=1e-10), name


def test_the_order_of_sequences_changes_nothing():
    sequences = debates()
    shuffled = random.Random(3).sample(sequences, len(sequences))
    assert_same(gradients_of(learner(), sequences)[0], gradients_of(learner(), shuffled)[0])


def test_trees_equal_rows_for_models_without_free_masks():
    made, rows = learner(), learner()
    assert made._net.trees
    rows._net.trees = False
    assert_same(gradients_of(made, debates())[0], gradients_of(rows, debates())[0])


def test_a_sliding_window_gets_rows():
    from transformers import MistralConfig, MistralForCausalLM

    config = MistralConfig(
        vocab_size=19, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, sliding_window=4,
    )  # fmt: skip
    net = pure(MistralForCausalLM(config).double())
    made = learner(net)
    assert not made._net.trees
    sequences = debates()
    assert_same(gradients_of(made, sequences)[0], plain(copy.deepcopy(net), copy.deepcopy(net), sequences)[2])


def long_debates():
    """Rollouts of prompts that are long enough for trunks, with a gap that is context."""
    rng = random.Random(1)
    made = []
    for task in range(3):
        prompt = [1, *(rng.randrange(2, VOCABULARY) for _ in range(32 + 2 * task))]
        for rollout in range(5):
            ids = [*prompt, *(rng.randrange(2, VOCABULARY) for _ in range(12 + rollout % 3))]
            spots = [place for place in range(len(prompt), len(ids)) if place != len(prompt) + 1]
            logps = [math.log(rng.uniform(0.02, 0.2)) for _ in spots]
            advantages = [rng.choice([-1.5, 0.7, 1.2]) for _ in spots]
            made.append(
                TrainingSequence(
                    ids, spots, logps, [0] * len(spots), "a", f"{task}/{rollout}", len(prompt), advantages, f"t{task}"
                )
            )
    return made


@pytest.mark.parametrize("budget", [70, 16384])
@pytest.mark.parametrize("lora", [False, True])
def test_trunks_and_branches_have_the_gradient_of_whole_rows(budget, lora):
    """A prompt computed once sends the gradients of all its rollouts on, through its keys and values."""

    def made():
        net = network()
        if lora:
            net = get_peft_model(net, LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False))
            net = net.double()
        return learner(net, micro_batch=budget)

    with torch.random.fork_rng():
        torch.manual_seed(3)
        trunks = made()
        torch.manual_seed(3)
        rows = made()
    assert trunks._net.token_cost is not None
    trunks._net.token_cost, rows._net.trees, rows._net.token_cost = 1, False, None
    assert any(part.trunks is not None for part in pack(long_debates(), budget=budget, token_cost=1))
    got, metrics = gradients_of(trunks, long_debates())
    want, plain_metrics = gradients_of(rows, long_debates())
    assert metrics["loss"] == pytest.approx(plain_metrics["loss"], rel=1e-10)
    assert metrics["forward_tokens"] < 0.8 * plain_metrics["forward_tokens"]
    for name, gradient in want.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 1.3])
@pytest.mark.parametrize("estimator", ["exact", "k2", "k3", "k1", None])
def test_large_vocabularies_are_cut_into_tiles(monkeypatch, estimator, temperature):
    place = "reward" if estimator == "k1" else "loss"
    kl = KLConfig(beta=0.3, estimator=estimator, place=place) if estimator else KLConfig(beta=0.0)
    sequences = debates(temperature=temperature)

    def step():
        made = learner(kl=kl)
        with torch.no_grad():
            for weight in made.parameters.values():
                weight.mul_(1.1)
        found = made.score(sequences)
        return (*gradients_of(made, sequences), [found.logps, found.ref_logps, found.kl])

    want = step()
    monkeypatch.setattr("arena.training.learner._LOGITS_AT_ONCE", 5 * VOCABULARY)
    got = step()
    assert_same(got[0], want[0])
    assert got[1] == pytest.approx(want[1])
    for one, other in zip(got[2], want[2], strict=True):
        assert one.tolist() == pytest.approx(other.tolist(), abs=1e-12)


def test_no_more_logits_exist_than_fit_a_tile(monkeypatch):
    """Neither in an update nor in scoring, whatever the KL; the reference included."""
    monkeypatch.setattr("arena.training.learner._LOGITS_AT_ONCE", 5 * VOCABULARY)
    sizes = []
    log_softmax = torch.log_softmax
    monkeypatch.setattr(torch, "log_softmax", lambda x, dim: (sizes.append(x.numel()), log_softmax(x, dim))[1])
    for estimator in ("exact", "k3"):
        made = learner(kl=KLConfig(estimator=estimator))
        made.update(debates())
        made.score(debates())
    assert 0 < max(sizes) <= 5 * VOCABULARY


def test_equal_streams_of_two_roles_count_twice():
    one = debates(tasks=1, rollouts=1)[:1]
    twin = copy.deepcopy(one[0])
    twin.role, twin.advantages = "b", [2.0, -1.0, 0.5]
    net = network()
    got, _ = gradients_of(learner(net), [*one, twin])
    assert_same(got, plain(copy.deepcopy(net), copy.deepcopy(net), [*one, twin])[2])


def test_supervised_steps_equal_the_plain_loss():
    net = network()
    sequences = debates()
    for sequence in sequences:
        sequence.logps, sequence.advantages = None, []
    got, metrics = gradients_of(learner(net), sequences, "sft")
    reference = copy.deepcopy(net)
    total = torch.cat([own_logps(reference, sequence) for sequence in sequences])
    loss = -total.mean()
    loss.backward()
    assert metrics["loss"] == pytest.approx(loss.item(), abs=1e-12)
    assert_same(got, {name: weight.grad for name, weight in reference.named_parameters()})
    plain = Learner(SimpleNamespace(network=network()), OptimizerConfig(clip_norm=None), seed=0)
    assert_same(gradients_of(plain, sequences, "sft")[0], got)


def test_gradient_enters_only_where_own_tokens_are_predicted():
    made = learner()
    for sequence in debates():
        assert made.gradient_reach(sequence) == sequence.positions


def test_off_by_one():
    """Training token t alone leaves a gradient at the logits of t - 1 alone."""
    net = network()
    made = learner(net, kl=KLConfig(beta=0.0))
    sequence = TrainingSequence([1, 7, 8, 9, 10, 11], [3], [-2.0], [0], "a", "e", 1, [1.0])
    got, _ = gradients_of(made, [sequence])
    logits = net(torch.tensor([sequence.ids])).logits
    logits.retain_grad()
    log_prob = torch.log_softmax(logits[0], -1)[2, 9]
    (-torch.exp(log_prob + 2.0).clamp(max=1.2)).backward()
    assert logits.grad[0].abs().sum(1).nonzero().flatten().tolist() == [2]
    torch.testing.assert_close(
        got["model.embed_tokens.weight"], net.get_input_embeddings().weight.grad, rtol=0, atol=1e-12
    )


def test_dropout_stays_off_and_the_mode_is_kept():
    net = network(dropout=0.5)
    net.train()
    made = learner(net)
    sequences = debates()
    scores = iter(made.score(sequences).logps.tolist())
    for sequence in sequences:
        sequence.logps = [next(scores) for _ in sequence.positions]
    metrics = made.update(sequences)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-12)
    assert metrics["ratio_mean"] == pytest.approx(1.0, abs=1e-12)
    assert net.training


def lora(net=None):
    net = get_peft_model(net or network(), LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "down_proj"]))
    net = net.double()
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if "lora_B" in name:
                weight.normal_(0.0, 0.2, generator=torch.Generator().manual_seed(2))
    return net


def test_the_reference_of_a_used_adapter_is_its_snapshot():
    net = lora()
    base = {name: weight.clone() for name, weight in net.named_parameters() if not weight.requires_grad}
    made = learner(net, lr=0.02)
    sequences = debates()
    assert made.score(sequences).kl.max() == 0.0
    made.update(sequences)
    assert made.score(sequences).kl.max() > 1e-4
    made.set_reference()
    assert made.score(sequences).kl.max() == 0.0
    for name, weight in net.named_parameters():
        if name in base:
            assert torch.equal(weight, base[name])


def test_the_reference_can_be_the_bare_base():
    net = lora()
    made = learner(net)
    made.set_reference(adapter_off=True)
    sequences = debates()
    with net.disable_adapter(), torch.no_grad():
        want = torch.cat([own_logps(net, sequence) for sequence in sequences]).tolist()
    assert made.score(sequences).ref_logps.tolist() == pytest.approx(want, abs=1e-12)
    with pytest.raises(ConfigError, match="no adapter"):
        learner().set_reference(adapter_off=True)


@pytest.mark.parametrize("field", ["advantages", "logps"])
def test_a_number_that_is_not_finite_stops_the_step(field):
    made = learner()
    sequences = debates()
    made.update(sequences)
    before = made.state_dict()
    getattr(sequences[3], field)[0] = math.nan
    with pytest.raises(NumericalError, match=r"nan of 'b' in episode '0/1'"):
        made.update(sequences)
    assert same_bits(made.state_dict(), before)


def test_a_broken_gradient_stops_the_step():
    made = learner()
    made.update(debates())
    before = made.state_dict()
    sequences = debates()
    sequences[0].logps = [-1e9] * 3
    sequences[0].advantages = [-1.0] * 3
    with pytest.raises(NumericalError, match="weights and optimizer are as before"):
        made.update(sequences)
    assert same_bits(made.state_dict(), before)
    assert all(weight.grad is None for weight in made.parameters.values())


def test_resuming_goes_on_bit_for_bit():
    config = {
        "epochs": 2, "minibatches": 2, "schedule": "linear", "total_steps": 40, "warmup": 3,
        "kl": KLConfig(beta=0.3, target=0.05), "max_kl": 5.0,
    }  # fmt: skip
    whole = learner(**config)
    for step in range(3):
        whole.update(debates(step))
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    resumed = learner(network(seed=9), **config)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for step in range(3, 6):
        assert whole.update(debates(step)) == resumed.update(debates(step))
    assert same_bits(whole.state_dict(), resumed.state_dict())


def test_a_state_of_another_network_is_refused():
    with pytest.raises(ResumeError, match="lacks the weight"):
        learner(lora()).load_state_dict(learner().state_dict())


def test_rewarded_tokens_become_likelier_and_the_reference_holds_them_back():
    sequences = debates(tasks=1, rollouts=1)
    for sequence in sequences:
        sequence.advantages = [1.0] * len(sequence.positions)
    gains = {}
    for beta in (0.0, 20.0):
        made = learner(kl=KLConfig(beta=beta), lr=3e-3)
        start = made.score(sequences).logps
        for _ in range(15):
            scores = iter(made.score(sequences).logps.tolist())
            for sequence in sequences:
                sequence.logps = [next(scores) for _ in sequence.positions]
            made.update(sequences)
        gains[beta] = (made.score(sequences).logps - start).mean()
    assert gains[0.0] > 0.3
    assert 0.0 < gains[20.0] < 0.3 * gains[0.0]


def test_above_the_budget_only_the_reference_pulls():
    made = learner(max_kl=1e-6, lr=0.01)
    sequences = debates()
    assert made.update(sequences)["kl_stop"] == 0.0
    first = made.update(sequences)
    second = made.update(sequences)
    assert (first["kl_stop"], second["kl_stop"]) == (0.0, 1.0)
    assert second["loss"] == pytest.approx(0.3 * second["kl_per_token"])


def test_an_update_ends_early_where_the_budget_is_passed():
    made = learner(max_kl=1e-6, lr=0.01, epochs=3, minibatches=2)
    sequences = debates()
    assert made.update(sequences)["steps"] == 2.0  # the first step begins at the reference, the second has left it
    pulled = made.update(sequences)
    assert (pulled["steps"], pulled["kl_stop"]) == (6.0, 1.0), "what only pulls back goes on to the end"
    assert learner(max_kl=1e3, lr=0.01, epochs=3, minibatches=2).update(sequences)["steps"] == 6.0


def test_what_cannot_be_trained_is_refused_with_its_reason():
    made = learner()
    sequence = debates()[0]
    with pytest.raises(ConfigError, match="nothing to train"):
        made.update([])
    with pytest.raises(ConfigError, match="0 advantages: assign them first"):
        made.update([TrainingSequence([1, 2], [1], [-0.1], [0], "a", "e", 1)])
    sequence.logps = None
    with pytest.raises(ConfigError, match="no log-probs"):
        made.update([sequence])
    bare = Learner(SimpleNamespace(network=network()), LearnerConfig(), seed=0)
    with pytest.raises(ConfigError, match="set_reference"):
        bare.update(debates())
    supervised = Learner(SimpleNamespace(network=network()), OptimizerConfig(lr=1e-2), seed=0)
    supervised.set_reference()
    with pytest.raises(ConfigError, match="enough for sft"):
        supervised.update(debates())
    frozen = network().requires_grad_(False)
    with pytest.raises(ConfigError, match="no trainable parameter"):
        learner(frozen)


def test_schedules():
    linear = LearnerConfig(lr=1.0, warmup=2, schedule="linear", final=0.1, total_steps=12)
    assert [learning_rate(linear, step) for step in (0, 1, 2, 7, 12, 99)] == pytest.approx([0.5, 1, 1, 0.55, 0.1, 0.1])
    cosine = LearnerConfig(lr=1.0, schedule="cosine", final=0.0, total_steps=10)
    assert [learning_rate(cosine, step) for step in (0, 5, 10)] == pytest.approx([1, 0.5, 0])
    assert learning_rate(LearnerConfig(lr=0.2), 1000) == 0.2


@pytest.mark.parametrize(
    "config",
    [
        {"schedule": "linear"},
        {"lrr": 1.0},
        {"kl": {"estimator": "k1"}},
        {"kl": {"beta": 0.1, "floor": 0.2}},
        {"kl": {"beta": 0.0, "target": 1.0}},
        {"objective": {"norm_const": 4.0}},
        {"kl": {"beta": 0.0}, "max_kl": 1.0},
    ],
)
def test_a_config_that_cannot_work_is_refused(config):
    with pytest.raises(ValueError, match="validation error"):
        LearnerConfig.model_validate(config)


def test_constrained_tokens_have_the_distribution_over_what_was_allowed():
    made = learner(kl=KLConfig(beta=0.3, estimator="exact"))
    free = TrainingSequence([1, 5, 7, 3], [2, 3], [-1.0, -1.0], [0, 0], "a", "e", 2, advantages=[1.0, 1.0])
    bound = copy.deepcopy(free)
    bound.allowed = {1: (2, 3, 11)}
    before = torch.log_softmax(made.network(torch.tensor([free.ids])).logits[0].detach(), -1)
    with torch.no_grad():
        for weight in made.parameters.values():
            weight.mul_(1.1)
    logits = made.network(torch.tensor([free.ids])).logits[0].detach()
    p, q = (torch.log_softmax(rows[2, [2, 3, 11]], -1) for rows in (logits, before))
    scores = made.score([free, bound])
    assert scores.logps[1] == pytest.approx(float(torch.log_softmax(logits, -1)[2, 3]), abs=1e-9)
    assert scores.logps[2] == pytest.approx(scores.logps[0], abs=1e-9)
    assert scores.logps[3] == pytest.approx(float(p[1]), abs=1e-9)
    assert scores.kl[3] == pytest.approx(float((p.exp() * (p - q)).sum()), abs=1e-9)
    made.update([free, bound])
    assert all(torch.isfinite(weight).all() for weight in made.parameters.values())


def test_checkpointing_changes_memory_and_no_gradient():
    made = [learner(network(dropout=0.5), checkpointing=checkpointing) for checkpointing in (False, True)]
    kept = []
    for each in made:
        sequences = debates()
        scores = each.score(sequences).logps.tolist()
        for sequence in sequences:
            sequence.logps, scores = scores[: len(sequence.positions)], scores[len(sequence.positions) :]
            sequence.advantages = [1.0] * len(sequence.positions)
        metrics = each.update(sequences)
        assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-9)
        kept.append((metrics["grad_norm"], [p.detach().clone() for p in each.parameters.values()]))
    assert kept[0][0] == pytest.approx(kept[1][0], rel=1e-12)
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(kept[0][1], kept[1][1], strict=True))
    layers = [m for m in made[1].network.modules() if type(m).__name__ == "LlamaDecoderLayer"]
    assert layers
    assert all(layer.gradient_checkpointing for layer in layers)


def two_adapters():
    net = get_peft_model(network(), LoraConfig(r=2, target_modules=["q_proj", "v_proj"]), adapter_name="first")
    net.add_adapter("second", LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(1)
        for name, parameter in net.named_parameters():
            if "lora_" in name:
                parameter.copy_(torch.randn_like(parameter) / 4)
    return net


def test_adapters_of_one_base_are_trained_apart_and_the_base_never():
    net = two_adapters()
    before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
    config = LearnerConfig(clip_norm=None, kl=KLConfig(beta=0.3))
    learners = {a: Learner(SimpleNamespace(network=net), config, seed=0, adapter=a) for a in ("first", "second")}
    for name, each in learners.items():
        assert all(f".{name}." in parameter for parameter in each.parameters)
        each.set_reference()
        each.remember("start")
    for adapter, each in learners.items():
        net.set_adapter("second" if adapter == "first" else "first")  # whoever spoke last
        sequences = debates()
        scores = each.score(sequences).logps.tolist()
        for sequence in sequences:
            sequence.logps, scores = scores[: len(sequence.positions)], scores[len(sequence.positions) :]
            sequence.advantages = [1.0] * len(sequence.positions)
        metrics = each.update(sequences)
        assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-9)
        changed = {n for n, p in net.named_parameters() if not torch.equal(p, before[n])}
        assert changed
        assert all(f".{adapter}." in name for name in changed)
        assert each.kl_to("start", sequences) > 0
        before = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}


def test_moments_in_eight_bits_go_on_after_a_resume():
    pytest.importorskip("bitsandbytes")

    def made():
        config = LlamaConfig(
            vocab_size=64, hidden_size=128, intermediate_size=128, num_hidden_layers=1, num_attention_heads=2
        )
        with torch.random.fork_rng():
            torch.manual_seed(0)
            net = LlamaForCausalLM(config)
        return Learner(SimpleNamespace(network=net), OptimizerConfig(optimizer="adamw_8bit", lr=1e-2), seed=0)

    def teach(each, steps):
        shown = TrainingSequence([1, 2, 3, 4], [2, 3], None, [0, 0], "a", "e", 2)
        return [each.sft([shown])["loss"] for _ in range(steps)]

    whole = made()
    losses = teach(whole, 6)
    assert losses[-1] < losses[0]
    moments = [v for state in whole._optimizer.state.values() for v in state.values() if torch.is_tensor(v)]
    assert any(moment.dtype == torch.uint8 for moment in moments)
    first, second = made(), made()
    teach(first, 3)
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    second.load_state_dict(torch.load(buffer, weights_only=True))
    assert teach(second, 3) == losses[3:]
    assert all(torch.equal(a, b) for a, b in zip(second.parameters.values(), whole.parameters.values(), strict=True))
