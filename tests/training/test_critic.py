"""The critic of a learner: its gradient against plain forward passes, and that nothing moves where there is none."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bits import same_bits
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

from arena.protocols.errors import ConfigError, NumericalError, ResumeError
from arena.training.critic import explained_variance
from arena.training.judge_learning_config import PolicyGradient
from arena.training.learner import KLConfig, Learner, LearnerConfig
from arena.training.learner_config import ValueConfig
from arena.training.packing import pack
from arena.training.selfplay_config import SelfPlayRecipe, inert_self_play
from arena.training.sequences import TrainingSequence, ValueSignal

# PEFT reads a name that transformers has deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")

VOCABULARY, WIDTH = 17, 16


def network(seed: int = 0) -> Any:
    """Two layers in float64, norms included, where the library's would round to float32."""
    config = LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        initializer_range=0.3, max_position_embeddings=64,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net: Any = LlamaForCausalLM(config).double()
    for name, module in list(net.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = torch.nn.RMSNorm(module.weight.shape[0], eps=module.variance_epsilon).double()
            net.set_submodule(name, norm)
    return net.eval()


def learner(net: Any = None, *, critic: bool = True, **config: Any) -> Learner:
    config = {"clip_norm": None, "kl": KLConfig(beta=0.3), **config}
    made = Learner(SimpleNamespace(network=net or network()), LearnerConfig(**config), seed=0, critic=critic)
    made.set_reference()
    return made


def awake(made: Learner) -> Learner:
    """Its head is no longer 0."""
    assert made.critic is not None
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        made.critic.parameters["weight"].copy_(torch.randn(WIDTH, generator=random) / 4)
        made.critic.parameters["bias"].fill_(0.1)
    return made


def sequences(seed: int = 0, count: int = 8) -> list[TrainingSequence]:
    """Rollouts of a few prompts with gaps that others fill; one has no value targets."""
    random = np.random.default_rng(seed)
    made = []
    for number in range(count):
        prompt = [1, 2 + number // 2, 3]
        ids = [*prompt, *random.integers(0, VOCABULARY, 5 + number % 3).tolist()]
        spots = [at for at in range(3, len(ids)) if at != 4]
        size = len(spots)
        signal = ValueSignal(*(random.normal(size=(3, size)) * [[0.3], [1.0], [1.0]]).tolist())
        logps, advantages = random.uniform(-3.5, -2.5, size).tolist(), random.normal(size=size).tolist()
        made.append(
            TrainingSequence(
                ids, spots, logps, [0] * size, "a", f"e{number}", 3, advantages, f"t{number // 2}",
                value=None if number == 2 else signal,
            )
        )  # fmt: skip
    return made


def gradients(made: Learner, given: list[TrainingSequence]) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """What an update hands to the optimizer, the head's as ``critic.NAME``, and its metrics; the weights stay."""
    found: dict[str, torch.Tensor] = {}

    def catch() -> None:
        assert made.critic is not None
        head = {f"critic.{name}": weight for name, weight in made.critic.parameters.items()}
        everything = {**made.parameters, **head}
        found.update({name: weight.grad.clone() for name, weight in everything.items() if weight.grad is not None})

    optimizer: Any = made._optimizer
    before, optimizer.step = made.state_dict(), catch
    metrics = made.update(given)
    del optimizer.step
    made.load_state_dict(before)
    return found, metrics


def plain_values(net: Any, made: Learner, one: TrainingSequence) -> torch.Tensor:
    """Values by their definition: of the last hidden state before each trained token, one sequence at a time."""
    assert made.critic is not None
    hidden = net(torch.tensor([one.ids]), output_hidden_states=True).hidden_states[-1][0]
    head = made.critic.parameters
    return torch.stack([(hidden[at - 1] * head["weight"]).sum() + head["bias"][0] for at in one.positions])


@pytest.mark.parametrize("clip", [None, 0.05])
def test_the_gradient_is_that_of_the_clipped_loss_of_plain_values(clip: float | None) -> None:
    """What the critic adds to the loss, by one forward pass a sequence and the formula of the module."""
    net, given = network(), sequences()
    made = awake(learner(net, value=ValueConfig(coef=0.7, clip=clip)))
    got, metrics = gradients(made, given)
    without, _ = gradients(made, [replace(one, value=None) for one in given])
    net.zero_grad()
    losses = []
    for one in given:
        if one.value is None:
            continue
        for value, old, target in zip(plain_values(net, made, one), one.value.values, one.value.targets, strict=True):
            loss = (value - target) ** 2
            if clip is not None:
                near = old + min(max(float(value.detach()) - old, -clip), clip)
                # Beyond the range the clipped value is a constant.
                loss = loss if float(loss.detach()) >= (near - target) ** 2 else 0 * loss + (near - target) ** 2
            losses.append(loss / 2)
    total = torch.stack(losses).mean()
    head = list(made.critic.parameters.values()) if made.critic is not None else []
    want = torch.autograd.grad(0.7 * total, [*made.parameters.values(), *head], allow_unused=True)
    assert metrics["value_loss"] == pytest.approx(total.item(), abs=1e-12)
    for name, gradient in zip([*made.parameters, "critic.weight", "critic.bias"], want, strict=True):
        added = got[name] - without[name] if name in without else got[name]
        wanted = torch.zeros_like(added) if gradient is None else gradient
        torch.testing.assert_close(added, wanted, rtol=0, atol=1e-10)
    norm = math.sqrt(sum(float(gradient.square().sum()) for gradient in want[-2:] if gradient is not None))
    assert metrics["value_grad_norm"] == pytest.approx(norm, rel=1e-10)


def test_values_are_read_before_each_trained_token_and_begin_at_nothing() -> None:
    net, given = network(), sequences()
    made = learner(net)
    assert all(value == 0.0 for row in made.values(given) for value in row)
    awake(made)
    for one, row in zip(given, made.values(given), strict=True):
        assert row == pytest.approx(plain_values(net, made, one).tolist(), abs=1e-12)
    # The token itself, and what comes after it, has not been seen yet.
    changed = [replace(one, ids=[*one.ids[:-1], (one.ids[-1] + 1) % VOCABULARY]) for one in given]
    assert made.values(changed) == made.values(given)
    with pytest.raises(ConfigError, match="no critic"):
        learner(critic=False).values(given)


def test_micro_batches_change_nothing() -> None:
    """1 x 8, 2 x 4, 8 x 1, and another order."""
    given = sequences()
    found = []
    for order, tokens in ((1, 1000), (1, 40), (1, 1), (-1, 40)):
        made = awake(learner(micro_batch=tokens))
        made._net.trees = False
        found.append(gradients(made, given[::order]))
    packs = [len(pack(given, budget=tokens, trees=False)) for tokens in (1000, 40, 1)]
    assert packs == [1, 2, 8]
    for got, metrics in found[1:]:
        for name in ("loss", "value_loss", "value_grad_norm", "grad_norm", "explained_variance"):
            assert metrics[name] == pytest.approx(found[0][1][name], abs=1e-10), name
        for name, gradient in found[0][0].items():
            torch.testing.assert_close(got[name], gradient, rtol=0, atol=1e-10)


def test_a_critic_without_targets_and_a_detached_one_leave_the_policy_alone() -> None:
    given = sequences()
    apart = awake(learner(clip_norm=0.01, value=ValueConfig(detach=True, coef=100.0)))
    none = awake(learner(clip_norm=0.01))
    assert apart.critic is not None
    head = apart.critic.parameters["weight"].detach().clone()
    apart.update(given)
    none.update([replace(one, value=None) for one in given])
    for name, weight in none.parameters.items():
        assert torch.equal(apart.parameters[name], weight), name
    assert not torch.equal(apart.critic.parameters["weight"], head)


def test_above_the_budget_of_kl_the_critic_still_learns_and_the_policy_is_only_pulled_back() -> None:
    given = sequences()
    made, bare = (learner(max_kl=1e-6, critic=critic) for critic in (True, False))
    for each in (made, bare):
        with torch.no_grad():
            for weight in each.parameters.values():
                weight.mul_(1.05)
        each._last_kl = 1.0
        assert each.update(given)["kl_stop"] == 1.0
    assert made.critic is not None
    assert float(made.critic.parameters["weight"].detach().abs().max()) > 0
    for name, weight in bare.parameters.items():
        torch.testing.assert_close(made.parameters[name], weight, rtol=0, atol=1e-12)


def test_the_head_is_a_group_of_its_own_with_its_learning_rate_and_without_decay() -> None:
    """Adam's first step is the learning rate, whatever the gradient's size."""
    made = learner(lr=1e-3, warmup=2, weight_decay=1.0, value=ValueConfig(lr=10.0))
    assert made.critic is not None
    made.update(sequences())
    assert float(made.critic.parameters["bias"].detach().abs()) == pytest.approx(1e-3 / 2 * 10, rel=1e-4)
    with torch.no_grad():
        made.critic.parameters["weight"].fill_(3.0)
    bare = [replace(one, value=None) for one in sequences()]
    before = made.critic.parameters["weight"].detach().clone()
    made._optimizer.state.clear()
    made.update(bare)
    assert torch.equal(made.critic.parameters["weight"], before), "nothing to learn, and no decay"


def test_an_adapter_has_a_head_beside_it_and_the_base_never_moves() -> None:
    net = get_peft_model(network(), LoraConfig(r=2, target_modules=["q_proj", "down_proj"])).double()
    base = {name: weight.clone() for name, weight in net.named_parameters() if not weight.requires_grad}
    made = awake(learner(net, kl=KLConfig(beta=0.0)))
    given = [replace(one, advantages=[0.0] * len(one.positions)) for one in sequences()]
    adapter = {name: weight.detach().clone() for name, weight in made.parameters.items()}
    made.update(given)
    assert any(not torch.equal(made.parameters[name], weight) for name, weight in adapter.items())
    assert all(torch.equal(weight, base[name]) for name, weight in net.named_parameters() if name in base)


def test_the_head_of_a_network_in_half_precision_is_float32() -> None:
    made = learner(network().bfloat16())
    assert made.critic is not None
    metrics = made.update(sequences())
    assert {weight.dtype for weight in made.critic.parameters.values()} == {torch.float32}
    # With the head at 0 the values are 0, and so is what half precision could have rounded.
    signals = [one.value for one in sequences() if one.value is not None]
    errors = [
        max(target**2, (target - old + min(max(old, -0.2), 0.2)) ** 2)
        for signal in signals
        for old, target in zip(signal.values, signal.targets, strict=True)
    ]
    assert metrics["value_loss"] == pytest.approx(sum(errors) / len(errors) / 2, rel=1e-5)
    assert metrics["value_grad_norm"] > 0


def test_resuming_goes_on_bit_for_bit() -> None:
    config: dict[str, Any] = {"epochs": 2, "minibatches": 2, "schedule": "linear", "total_steps": 40, "warmup": 3}
    whole = learner(**config)
    for step in range(3):
        whole.update(sequences(step))
    file = io.BytesIO()
    torch.save(whole.state_dict(), file)
    file.seek(0)
    resumed = learner(network(seed=9), **config)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for step in range(3, 6):
        assert whole.values(sequences(step)) == resumed.values(sequences(step))
        assert whole.update(sequences(step)) == resumed.update(sequences(step))
    assert same_bits(whole.state_dict(), resumed.state_dict())


def test_a_state_with_another_credit_is_refused() -> None:
    with pytest.raises(ResumeError, match="has no critic and this learner one"):
        learner().load_state_dict(learner(critic=False).state_dict())
    with pytest.raises(ResumeError, match="has a critic and this learner none"):
        learner(critic=False).load_state_dict(learner().state_dict())
    state = learner().state_dict()
    state["critic"]["weight"] = torch.zeros(3)
    with pytest.raises(ResumeError, match="value head is \\(3,\\)"):
        learner().load_state_dict(state)


def test_without_a_critic_nothing_of_it_is_there() -> None:
    made = learner(critic=False)
    metrics = made.update(sequences())
    assert not {"value_loss", "value_grad_norm", "explained_variance"} & metrics.keys()
    assert "critic" not in made.state_dict()
    (group,) = made._optimizer.param_groups
    assert "factor" not in group


def spoilt() -> Iterator[tuple[str, list[TrainingSequence]]]:
    for name in ("values", "targets"):
        given = sequences()
        signal = given[1].value
        assert signal is not None
        getattr(signal, name)[0] = math.nan
        yield name, given


@pytest.mark.parametrize(("name", "given"), list(spoilt()))
def test_a_value_that_is_none_stops_the_step(name: str, given: list[TrainingSequence]) -> None:
    made = learner()
    before = made.state_dict()
    with pytest.raises(NumericalError, match=r"nan of 'a' in episode 'e1'"):
        made.update(given)
    assert same_bits(made.state_dict(), before)


def test_a_broken_gradient_of_the_head_stops_the_step() -> None:
    made = learner(value=ValueConfig(detach=True))
    before = made.state_dict()
    given = sequences()
    assert given[0].value is not None
    given[0].value.targets[0] = 1e300  # its square is infinite
    with pytest.raises(NumericalError, match="weights and optimizer are as before"):
        made.update(given)
    assert same_bits(made.state_dict(), before)


def test_explained_variance_by_hand() -> None:
    def one(values: list[float], to_go: list[float]) -> TrainingSequence:
        return TrainingSequence([1], [], [], [], "a", "e", 1, value=ValueSignal(values, to_go, to_go))

    # Errors 0, 1, 0, -1 have variance 1/2; returns 0, 2, 2, 0 have variance 1.
    assert explained_variance([one([0.0, 1.0], [0.0, 2.0]), one([2.0, 1.0], [2.0, 0.0])]) == pytest.approx(0.5)
    assert explained_variance([one([0.0, 2.0], [0.0, 2.0])]) == 1.0
    assert explained_variance([one([5.0, 5.0], [0.0, 2.0])]) == 0.0, "a constant explains nothing"
    assert explained_variance([one([0.0, 1.0], [2.0, 2.0])]) is None
    assert np.var([0.1] * 3) > 0
    assert explained_variance([one([0.0, 0.2, 0.5], [0.1] * 3)]) is None, "rounding is no variance"
    assert explained_variance([]) is None


def test_it_learns_what_can_be_foreseen_and_no_more() -> None:
    """Half of the return is in the prompt and half is chance, with equal variance: it can explain one half."""
    random = np.random.default_rng(0)

    def rollouts(made: Learner) -> list[TrainingSequence]:
        given = []
        for number in range(64):
            kind = number % 2
            come = kind + float(random.integers(2))
            given.append(
                TrainingSequence([1, 2 + kind, 5, 6], [2, 3], [-2.0, -2.0], [0, 0], "a", f"e{number}", 2, [0.0, 0.0])
            )
            given[-1].value = ValueSignal([0.0, 0.0], [come, come], [come, come])
        for one, row in zip(given, made.values(given), strict=True):
            assert one.value is not None
            one.value = replace(one.value, values=row)
        return given

    made = learner(lr=0.02, kl=KLConfig(beta=0.0), value=ValueConfig(detach=True))
    explained = [made.update(rollouts(made))["explained_variance"] for _ in range(80)]
    assert explained[0] == 0.0
    assert float(np.mean(explained[-20:])) == pytest.approx(0.5, abs=0.05)
    low, high = made.values(rollouts(made)[:2])
    assert (low, high) == (pytest.approx([0.5, 0.5], abs=0.15), pytest.approx([1.5, 1.5], abs=0.15))


# -- recipes


def test_keys_without_effect_are_told() -> None:
    def told(**config: object) -> list[str]:
        recipe = SelfPlayRecipe.model_validate({"learner": {}, **config})
        return [".".join(path) for path, _ in inert_self_play(recipe)]

    assert told(objective="ppo_gae") == []
    assert told(objective="ppo_gae", learner={"value": {"coef": 1.0}}, credit={"lam": 0.9, "discount": 0.99}) == []
    assert told(learner={"value": {"coef": 1.0}}) == ["learner.value"]
    assert told(credit={"lam": 0.9}) == ["credit.lam"]
    assert told(credit={"estimator": "gae", "key": ["role"]}) == ["credit.key"]
    assert told(credit={"roles": {"x": {"lam": 0.9}}}) == ["credit.roles.x.lam"]
    assert told(credit={"roles": {"x": {"estimator": "gae"}}}, learner={"value": {"clip": None}}) == []
    assert told(credit={"estimator": "gae", "returns": "own", "discount": 0.9}) == []


def test_the_name_stands_for_a_critic_over_whole_streams_and_needs_no_group() -> None:
    read = SelfPlayRecipe.model_validate({"objective": "ppo_gae", "learner": {}, "group": 1})
    assert (read.credit.estimator, read.credit.returns, read.credit.lam) == ("gae", "to_go", 0.95)
    again = SelfPlayRecipe.model_validate(read.model_dump())
    assert again.credit == read.credit
    own = SelfPlayRecipe.model_validate({"objective": "ppo_gae", "learner": {}, "credit": {"returns": "own"}})
    assert own.credit.returns == "own"


@pytest.mark.parametrize("value", [{"coef": 0.0}, {"clip": 0.0}, {"lr": math.inf}, {"coef": math.nan}, {"lamda": 1.0}])
def test_a_critic_that_cannot_be_is_refused(value: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="value"):
        LearnerConfig.model_validate({"value": value})


def test_verdicts_have_no_critic() -> None:
    told = PolicyGradient.model_validate({"learner": {"value": {"coef": 1.0}}}).faults()
    assert [path for path, _ in told] == [("learner", "value")]


def test_copies_do_not_share_the_head() -> None:
    made = awake(learner())
    state = copy.deepcopy(made.state_dict())
    made.update(sequences())
    assert made.critic is not None
    assert not torch.equal(state["critic"]["weight"], made.critic.parameters["weight"])
