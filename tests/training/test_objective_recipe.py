"""One line of a recipe switches the objective: each name does something else, and nothing is without effect."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from arena.protocols.errors import ConfigError, NumericalError, SourceError
from arena.training import KLConfig, Learner, LearnerConfig, ObjectiveConfig, TrainingSequence
from arena.training.advantages import assign_advantages
from arena.training.crediting import PaidTurn
from arena.training.judge_learning_config import PolicyGradient
from arena.training.learner_config import ImportanceConfig
from arena.training.objective_config import OBJECTIVES, ObjectiveName, OverlongConfig, with_objective
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay, _paid
from arena.training.selfplay_config import SelfPlayRecipe
from arena.training.shaping import shaped
from arena.training.world import World, build_world

NAMES = list(get_args(ObjectiveName))
CONSTANT = {"dr_grpo": {"norm_const": 2.0}}


def self_play(objective: str, **more: Any) -> SelfPlayRecipe:
    return SelfPlayRecipe.model_validate({"objective": objective, "learner": {"lr": 1e-2}, **more})


# -- names


def test_every_name_is_an_objective() -> None:
    assert list(OBJECTIVES) == NAMES
    for name in NAMES:
        read = self_play(name, learner={"lr": 1e-2, "objective": CONSTANT.get(name, {})})
        assert read.objective == name


def test_what_names_stand_for() -> None:
    gspo = self_play("gspo")
    assert (gspo.learner.objective.level, gspo.credit.estimator) == ("sequence", "grpo")
    assert (gspo.learner.objective.clip_low, gspo.learner.objective.clip_high) == (3e-4, 4e-4)
    assert self_play("rloo").learner.objective.surrogate == "score"
    assert self_play("rloo").credit.estimator == "leave_one_out"
    assert self_play("dapo").learner.objective.clip_high == 0.28
    assert self_play("spiral").credit.estimator == "rae"
    plain = SelfPlayRecipe.model_validate({"learner": {"lr": 1e-2}})
    assert (self_play("ppo").learner, self_play("ppo").credit) == (plain.learner, plain.credit)


def test_what_a_recipe_says_itself_comes_first() -> None:
    read = self_play("dapo", learner={"objective": {"clip_high": 0.3}}, credit={"estimator": "leave_one_out"})
    assert read.learner.objective.clip_high == 0.3
    assert read.learner.objective.mixed_only
    assert read.credit.estimator == "leave_one_out"


def test_an_unknown_name_is_told_with_its_neighbour() -> None:
    with pytest.raises(ValueError, match=r"'grpp' is not known\. Did you mean 'grpo'"):
        with_objective({"objective": "grpp"})
    with pytest.raises(SourceError, match="self_play"):
        load_recipe("facts", {"self_play.objective": "grpp"})


@pytest.mark.parametrize(
    ("learner", "told"),
    [
        ({"objective": {"aggregate": "seq_mean_token_sum_norm"}}, "dr_grpo needs learner.objective.norm_const"),
        ({"objective": {"norm_const": 3.0}}, "norm_const belongs to aggregate"),
        ({"objective": {"surrogate": "score", "level": "sequence"}}, "level has no effect on surrogate score"),
        ({"objective": {"surrogate": "score", "dual_clip": 3.0}}, "dual_clip has no effect on surrogate score"),
        ({"objective": {"surrogate": "score", "clip_high": 0.3}}, "clip_high has no effect on surrogate score"),
        ({"objective": {"overlong": {"max_len": 3, "cache": 4}}}, "cache 4 must lie within max_len 3"),
        ({"kl": {"estimator": "k1"}}, "k1 in the loss does not have the gradient of the KL"),
        ({"kl": {"place": "reward", "estimator": "k3"}}, "k3 in the reward does not have the gradient"),
        ({"kl": {"place": "reward", "estimator": "exact"}}, "exact in the reward does not have the gradient"),
        ({"importance": {"floor": 0.5}}, "floor belongs to mode: mask"),
        ({"kl": {"place": "reward"}, "max_kl": 1.0}, "max_kl pulls back by the KL in the loss"),
    ],
)
def test_what_would_do_nothing_or_the_wrong_thing_is_refused(learner: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        LearnerConfig.model_validate(learner)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"self_play.objective": "dapo", "self_play.credit": {"estimator": "rae", "key": ["role", "node"]}},
            "one episode a task has nothing to be compared with",
        ),
        (
            {"self_play.objective": "ppo_gae", "self_play.learner.objective": {"mixed_only": True}},
            "mixed_only leaves turns out, and a critic needs all",
        ),
    ],
)
def test_dynamic_sampling_of_groups_needs_groups_and_no_critic(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(SourceError, match=told):
        load_recipe("facts", {**changes, "self_play.group": 1})


def test_in_the_reward_the_estimator_need_not_be_named() -> None:
    assert KLConfig.model_validate({"place": "reward"}).estimator == "k1"
    config = LearnerConfig.model_validate({"kl": {"place": "reward"}, "objective": {"surrogate": "score"}})
    assert LearnerConfig.model_validate(config.model_dump()) == config


# -- what becomes of rewards


def learner(**config: Any) -> Learner:
    layout = LlamaConfig(
        vocab_size=12, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
        initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network: Any = LlamaForCausalLM(layout).double()
    network.eval()
    made = Learner(SimpleNamespace(network=network), LearnerConfig(clip_norm=None, **config), seed=0)
    made.set_reference()
    return made


def sequences() -> list[TrainingSequence]:
    """Two episodes of one group; in each a turn of one token and a turn of two."""
    made = []
    for name, ids in (("e0", [1, 4, 5, 6, 7]), ("e1", [1, 4, 8, 9, 10])):
        logps = [-1.0, -2.0, -1.5] if name == "e0" else [-2.5, -0.5, -3.0]
        made.append(TrainingSequence(ids, [2, 3, 4], logps, [0, 1, 1], "a", name, 2, [1.0, -0.5, -0.5], "t"))
    return made


def turns(*rewards: float) -> list[PaidTurn]:
    """The first turns of both episodes, then the second ones."""
    places = [("e0", "a", 0), ("e1", "a", 0), ("e0", "a", 1), ("e1", "a", 1)]
    facts = [{"task": 0, "role": "a", "node": "say", "visit": visit, "attempt": 0} for visit in (0, 0, 1, 1)]
    return [PaidTurn(p, "a", reward, fact) for p, reward, fact in zip(places, rewards, facts, strict=True)]


def test_by_default_rewards_stay_as_they_are_and_no_network_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learner, "score", None)
    given = turns(1.0, 0.0, 0.5, 0.5)
    assert shaped(given, sequences(), learner()) == given


def test_the_kl_of_a_turn_is_taken_off_its_reward() -> None:
    made = learner(kl=KLConfig(place="reward", estimator="k1", beta=0.25))
    given = sequences()
    with torch.no_grad():
        logps = [torch.log_softmax(made.network(torch.tensor([one.ids])).logits[0], -1) for one in given]
    gaps = [
        [said - float(rows[at - 1, one.ids[at]]) for at, said in zip(one.positions, one.logps or (), strict=True)]
        for one, rows in zip(given, logps, strict=True)
    ]
    want = [1 - gaps[0][0] / 4, -gaps[1][0] / 4, 0.5 - (gaps[0][1] + gaps[0][2]) / 4, 0.5 - sum(gaps[1][1:]) / 4]
    assert [turn.reward for turn in shaped(turns(1.0, 0.0, 0.5, 0.5), given, made)] == pytest.approx(want, abs=1e-12)
    bare = Learner(SimpleNamespace(network=made.network), made.config, seed=0)
    with pytest.raises(ConfigError, match="set_reference"):
        shaped(turns(1.0, 0.0, 0.5, 0.5), given, bare)


def test_long_turns_are_punished() -> None:
    made = learner(objective=ObjectiveConfig(overlong=OverlongConfig(max_len=3, cache=2)))
    # One token is within 3 - 2; two are half of the way to 3.
    assert [turn.reward for turn in shaped(turns(1.0, 0.0, 0.5, 0.5), sequences(), made)] == [1.0, 0.0, 0.0, 0.0]


def test_moves_that_all_earned_alike_are_left_out() -> None:
    made = learner(objective=ObjectiveConfig(mixed_only=True))
    given = turns(1.0, 0.0, 0.5, 0.5)
    assert shaped(given, sequences(), made) == given[:2]
    assert shaped(turns(1.0, 1.0, 0.5, 0.5), sequences(), made) == []


# -- what becomes of the loss


def gradients(
    made: Learner, given: list[TrainingSequence] | None = None
) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    found: dict[str, torch.Tensor] = {}

    def catch() -> None:
        found.update({name: weight.grad.clone() for name, weight in made.parameters.items() if weight.grad is not None})

    optimizer: Any = made._optimizer
    optimizer.step = catch
    metrics = made.update(sequences() if given is None else given)
    return found, metrics


def score_gradient(made: Learner, weights: list[float]) -> dict[str, torch.Tensor]:
    """Of -sum_n w_n log pi_n over the tokens of all sequences, by plain forward passes."""
    made.network.zero_grad()
    logps = torch.cat(
        [
            torch.log_softmax(made.network(torch.tensor([one.ids])).logits[0], -1)[
                [at - 1 for at in one.positions], [one.ids[at] for at in one.positions]
            ]
            for one in sequences()
        ]
    )
    (-(logps * torch.tensor(weights, dtype=torch.float64)).sum()).backward()  # type: ignore[no-untyped-call]
    return {name: weight.grad.clone() for name, weight in made.parameters.items() if weight.grad is not None}


def test_the_score_surrogate_is_the_score_function_and_has_no_ratio() -> None:
    # Advantages 1, -1/2, -1/2 in both rows, whose sums are averaged.
    made = learner(objective=ObjectiveConfig(surrogate="score", aggregate="seq_mean_token_sum"), kl=KLConfig(beta=0.0))
    got, metrics = gradients(made)
    want = score_gradient(made, [0.5, -0.25, -0.25] * 2)
    for name, gradient in want.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-5, atol=1e-6)  # norms are float32
    assert metrics["clip_frac"] == 0.0
    assert metrics["ratio_mean"] != pytest.approx(1.0, abs=0.01)  # what was sampled came from another policy


def test_a_kl_in_the_reward_is_measured_and_not_in_the_loss() -> None:
    paid, without, beside = (
        learner(kl=KLConfig(place="reward", estimator="k1", beta=0.5)),
        learner(kl=KLConfig(beta=0.0)),
        learner(kl=KLConfig(beta=0.5)),
    )
    for made in (paid, without, beside):
        with torch.no_grad():
            for weight in made.parameters.values():
                weight.mul_(1.1)
    (got, metrics), (want, _), (other, _) = gradients(paid), gradients(without), gradients(beside)
    assert all(torch.equal(got[name], want[name]) for name in want)
    assert any(not torch.equal(other[name], want[name]) for name in want)
    logps, references = paid.score(sequences()).logps, paid.score(sequences()).ref_logps
    assert references is not None
    assert metrics["kl_per_token"] == pytest.approx(float((logps - references).mean()), abs=1e-12)
    assert metrics["beta"] == 0.5


def test_weights_of_another_sampler_give_the_exact_expectation() -> None:
    """Every token once, weighted by the sampler's chance of it: the gradient of the trainer's expected reward."""
    made = learner(
        importance=ImportanceConfig(cap=1e6), kl=KLConfig(beta=0.0), objective=ObjectiveConfig(aggregate="token_sum")
    )
    random = torch.Generator().manual_seed(3)
    sampler = torch.log_softmax(torch.randn(12, generator=random, dtype=torch.float64), 0)
    rewards = torch.randn(12, generator=random, dtype=torch.float64)
    drawn = [
        TrainingSequence([1, 4, token], [2], [float(q)], [0], "a", f"e{token}", 2, [float(q.exp() * rewards[token])])
        for token, q in enumerate(sampler)
    ]
    found, metrics = gradients(made, drawn)
    assert metrics["ratio_max"] == pytest.approx(1.0, abs=1e-6)
    made.network.zero_grad()
    expected = (torch.softmax(made.network(torch.tensor([[1, 4]])).logits[0, 1], 0) * rewards).sum()
    (-expected).backward()  # type: ignore[no-untyped-call]
    for name, weight in made.parameters.items():
        if weight.grad is not None:
            torch.testing.assert_close(found[name], weight.grad, rtol=1e-5, atol=1e-6)


def test_weights_are_cut_and_never_touch_the_kl() -> None:
    kept, cut = (
        learner(importance=ImportanceConfig(cap=cap), kl=KLConfig(beta=0.5), objective=ObjectiveConfig(clip_high=1.0))
        for cap in (1e6, 1e-9)
    )
    only_kl = learner(kl=KLConfig(beta=0.5))
    for made in (kept, cut, only_kl):
        with torch.no_grad():
            for weight in made.parameters.values():
                weight.mul_(1.1)
    paid = [replace(one, advantages=[0.0] * 3) for one in sequences()]
    (got, metrics), (whole, _) = gradients(cut), gradients(kept)
    (want, _) = gradients(only_kl, paid)
    assert metrics["importance_mean"] == pytest.approx(1e-9)
    for name, gradient in want.items():
        torch.testing.assert_close(got[name], gradient, rtol=1e-6, atol=1e-8)
    assert any(not torch.allclose(whole[name], gradient) for name, gradient in want.items())


# -- numbers that are none

EVERY_LOSS: list[dict[str, Any]] = [
    {},
    {"objective": ObjectiveConfig(surrogate="score")},
    {"objective": ObjectiveConfig(level="sequence")},
    {"kl": KLConfig(beta=0.1, estimator="k3")},
    {"kl": KLConfig(beta=0.1, estimator="k1", place="reward")},
    {"importance": ImportanceConfig()},
]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


@pytest.mark.parametrize("config", EVERY_LOSS, ids=[str(index) for index in range(len(EVERY_LOSS))])
@pytest.mark.parametrize("field", ["logps", "advantages"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_no_number_in_a_live_slot_is_an_error_and_the_optimizer_stands(
    config: dict[str, Any], field: str, bad: float
) -> None:
    made = learner(**config)
    made.update(sequences())
    before = made.state_dict()
    spoilt = sequences()
    getattr(spoilt[1], field)[2] = bad
    with pytest.raises(NumericalError, match="not finite"):
        made.update(spoilt)
    assert same(made.state_dict(), before)


def test_no_number_in_a_masked_slot_changes_nothing() -> None:
    """A turn that nobody paid is context: whatever its sampler said of it."""
    given = sequences()
    assert given[1].logps is not None
    given[1].logps[1:] = [float("nan"), float("inf")]
    clean = sequences()
    by_turn = {("e0", "a", 0): 1.0, ("e0", "a", 1): -0.5, ("e1", "a", 0): 1.0}
    found = []
    for raw in (given, clean):
        kept = [_paid(one, by_turn) for one in raw]
        assign_advantages(kept, by_turn)
        found.append(gradients(learner(), kept))
    assert found[0][1] == found[1][1]
    assert all(torch.equal(found[0][0][name], found[1][0][name]) for name in found[1][0])


# -- whole trainings

SMALL: dict[str, Any] = {
    "judge.train.steps": 30, "evaluation.judge.train.steps": 30, "warm_start.steps": 2, "warm_start.tasks": 4,
    "warm_start.learner.warmup": 0, "warm_start.learner.total_steps": 2, "self_play.generations": 1,
    "self_play.steps": 2, "self_play.tasks": 4, "self_play.group": 4, "self_play.learner.total_steps": 8,
    "self_play.learner.lr": 1e-2, "self_play.learner.epochs": 2,
}  # fmt: skip

SWITCHES: dict[str, dict[str, Any]] = {
    **{name: {"self_play.objective": name} for name in NAMES if name != "dr_grpo"},
    "dr_grpo": {"self_play.objective": "dr_grpo", "self_play.learner.objective.norm_const": 64.0},
    "kl: k2": {"self_play.learner.kl": {"estimator": "k2", "beta": 0.3}},
    "kl: k3": {"self_play.learner.kl": {"estimator": "k3", "beta": 0.3}},
    "kl: exact": {"self_play.learner.kl": {"estimator": "exact", "beta": 0.3}},
    "kl: in the reward": {"self_play.learner.kl": {"place": "reward", "beta": 0.3}},
    "kl: none": {"self_play.learner.kl": {"beta": 0.0}},
    "credit: to_go": {"self_play.credit": {"returns": "to_go"}},
    "credit: none": {"self_play.credit": {"estimator": "none"}},
    "credit: scale": {"self_play.credit": {"scale": "none"}},
    "credit: gae by turn": {"self_play.credit": {"estimator": "gae", "returns": "own"}},
    "credit: gae, lam": {"self_play.credit": {"estimator": "gae", "lam": 0.0}},
    "value: detach": {"self_play.objective": "ppo_gae", "self_play.learner.value": {"detach": True}},
    "value: lr": {"self_play.objective": "ppo_gae", "self_play.learner.value": {"lr": 3.0}},
    "importance": {"self_play.learner.importance": {"cap": 1.00001, "floor": 0.99999, "mode": "mask"}},
    "overlong": {
        "self_play.learner.objective.overlong": {"max_len": 1, "cache": 1},
        "self_play.credit.estimator": "none",
    },
}


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(load_recipe("facts", SMALL), 0, lambda event: None)


@pytest.fixture(scope="module")
def weights(world: World, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    found = {}
    for name, switch in SWITCHES.items():
        recipe = load_recipe("facts", {**SMALL, **switch})
        player = SelfPlay(replace(world, recipe=recipe), tmp_path_factory.mktemp("run"), lambda event: None)
        player.run()
        parameters = player.policies["debater"].model.network.parameters()
        found[name] = torch.cat([weight.detach().reshape(-1) for weight in parameters])
    return found


@pytest.mark.slow
def test_each_line_trains_other_weights(weights: dict[str, torch.Tensor]) -> None:
    for one, other in itertools.combinations(weights, 2):
        assert not torch.equal(weights[one], weights[other]), f"{one} and {other} train the same weights"
        assert torch.isfinite(weights[one]).all()


def test_the_document_names_every_objective() -> None:
    text = (Path(__file__).parents[2] / "docs" / "objectives.md").read_text(encoding="utf-8")
    assert not [name for name in NAMES if f"`{name}`" not in text]


def test_training_a_judge_refuses_what_shapes_the_rewards_of_turns() -> None:
    learner = {
        "lr": 1e-3,
        "kl": {"place": "reward"},
        "objective": {"mixed_only": True, "overlong": {"max_len": 4, "cache": 2}},
    }
    told = PolicyGradient.model_validate({"learner": learner}).faults()
    assert {path for path, _ in told} == {
        ("learner", "kl", "place"), ("learner", "objective", "mixed_only"), ("learner", "objective", "overlong")
    }  # fmt: skip
