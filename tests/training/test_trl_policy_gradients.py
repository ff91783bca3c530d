"""Policy-gradient objectives beside TRL's own trainers, from rewards to gradients, on the same log-probs.

Advantages, importance weights and losses come from the trainers' methods as they are, on trainers that were never set
up; what networks and reward functions would say is given to them. Each difference that is known has a test of its own,
and stands in docs/objectives.md.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from arena.training.advantages import group_advantages
from arena.training.objectives.importance import sampler_weights
from arena.training.objectives.policy_gradient import ppo_policy
from arena.training.objectives.reinforce import rloo
from arena.training.returns import overlong_penalty

pytest.importorskip("trl")

GROUPS, SIZE, T = 4, 3, 5
B = GROUPS * SIZE
IDS = [f"p{group}" for group in range(GROUPS) for _ in range(SIZE)]
REWARDS = [1.0, 0.0, 0.5, 1.0, 0.2, 0.9, -0.3, 0.1, 1.0, 1.0, 0.0, 0.7]
LENGTHS = [5, 1, 3, 2, 4, 5, 2, 1, 3, 3, 5, 2]
MASK = torch.arange(T) < torch.tensor(LENGTHS)[:, None]
PER_GENERATION = {"steps_per_generation": 1, "gradient_accumulation_steps": 1, "per_device_train_batch_size": B}


class Trl:
    """A trainer with nothing but what its advantages and its loss read, and the log-probs of all networks."""

    def __init__(self, trainer: type, rewards: list[float] | None = None, spread: float = 0.4, **settings: Any) -> None:
        random = torch.Generator().manual_seed(7)
        old, reference, drawn, now = (torch.randn(B, T, generator=random, dtype=torch.float64) for _ in range(4))
        self.old = -2 + 0.5 * old
        self.reference = self.old + 0.3 * reference
        self.sampled = (self.old + 0.5 * drawn).float().double()  # TRL keeps those of the sampler in float32
        self.leaf = (self.old + spread * now).requires_grad_()
        self.rewards = REWARDS if rewards is None else rewards
        self.policy = SimpleNamespace(training=True, is_gradient_checkpointing=False)
        self.frozen, self.changed = object(), object()
        self.trainer: Any = object.__new__(trainer)
        made: Any = self.trainer
        common = {
            "accelerator": SimpleNamespace(
                device=torch.device("cpu"), process_index=0, num_processes=1, gather=lambda x: x,
                gather_for_metrics=lambda x: x, reduce=lambda x, reduction: x,
            ),
            "model": self.policy, "ref_model": self.frozen, "_tokenizer": SimpleNamespace(pad_token_id=0),
            "_metrics": {"train": defaultdict(list)}, "_pending_extra_logs": {}, "_pending_metrics": {},
            "_logs": {"prompt": [], "completion": [], "rewards": defaultdict(list), "advantages": []},
            "reward_func_names": ["one"], "reward_weights": torch.ones(1, dtype=torch.float64), "tools": None,
            "environments": None, "environment_factories": None, "pad_to_multiple_of": None, "use_vllm": False,
            "mask_truncated_completions": False, "num_iterations": 2, "num_generations": SIZE,
            "reward_clip_range": None, "multi_objective_aggregation": "sum_then_normalize", "scale_rewards": "group",
            "log_multimodal": False,
            "normalize_advantages": False, "aux_loss_enabled": False, "beta": 0.0, "epsilon_low": 0.2,
            "epsilon_high": 0.2, "importance_sampling_level": "token", "top_entropy_quantile": 1.0,
            "off_policy_mask_threshold": None, "vllm_importance_sampling_correction": True,
            "_entropy_bonus_enabled": False, "current_gradient_accumulation_steps": 1,
        }  # fmt: skip
        arguments = {"gradient_checkpointing_kwargs": None, "delta": None, "use_bias_correction_kl": False}
        arguments |= PER_GENERATION | settings.pop("args", {})
        made.__dict__.update(common | settings | {"args": SimpleNamespace(**arguments)})
        made.__dict__["_generate"] = self._generate
        made.__dict__["_calculate_rewards"] = lambda *_: torch.tensor(self.rewards, dtype=torch.float64)[:, None]
        made.__dict__["_get_per_token_logps_and_entropies"] = self._logps
        self.inputs = made._generate_and_score_completions([{"prompt": name} for name in IDS])
        self.advantages: Tensor = self.inputs["advantages"]

    def _generate(self, prompts: list[str]) -> tuple[Any, ...]:
        completions = [[1] * length for length in LENGTHS]
        texts = ["" for _ in prompts]
        if "RLOO" in type(self.trainer).__name__:
            return [[1]] * B, completions, texts
        logps = [row[:length].tolist() for row, length in zip(self.sampled, LENGTHS, strict=True)]
        sampled = logps if self.trainer.use_vllm else None
        return [[1]] * B, completions, None, texts, sampled, {}, None, None

    def _logps(self, model: Any, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        table = {id(self.policy): self.old, id(self.frozen): self.reference, id(self.changed): self.leaf}
        return table[id(model)], torch.zeros(B, T, dtype=torch.float64), None

    def loss(self) -> Tensor:
        loss: Tensor = self.trainer._compute_loss(self.changed, self.inputs)
        return loss


def grpo(**settings: Any) -> Trl:
    from trl.trainer.grpo_trainer import GRPOTrainer

    return Trl(GRPOTrainer, loss_type=settings.pop("loss_type", "grpo"), **settings)


def assert_same(ours: Tensor, trl: Trl, tolerance: float = 1e-12) -> None:
    theirs = trl.loss()
    (want,) = torch.autograd.grad(theirs, trl.leaf)
    (got,) = torch.autograd.grad(ours, trl.leaf)
    torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    assert want.abs().max() > 0


def ours(trl: Trl, advantages: Any, **options: Any) -> Tensor:
    # TRL corrects its deviation by a count in float32; all that follows is in float64, and compared as such.
    torch.testing.assert_close(torch.as_tensor(advantages), trl.advantages, rtol=1e-7, atol=1e-7)
    if "beta" in options:
        options["ref_logps_BT"] = trl.reference
    return ppo_policy(trl.leaf, trl.old, trl.advantages, MASK, **options)["loss"]


@pytest.mark.parametrize("beta", [0.0, 0.1])
@pytest.mark.parametrize("scale", ["group", "batch", "none"])
def test_grpo(scale: Any, beta: float) -> None:
    trl = grpo(scale_rewards=scale, beta=beta)
    advantages = group_advantages(REWARDS, IDS, scale=scale)
    assert_same(ours(trl, advantages, agg="seq_mean_token_mean", beta=beta), trl)


def test_grpo_with_a_second_clip() -> None:
    trl = grpo(args={"delta": 1.5}, spread=1.0)
    assert_same(ours(trl, group_advantages(REWARDS, IDS), agg="seq_mean_token_mean", dual_clip=1.5), trl)


def test_dr_grpo() -> None:
    trl = grpo(loss_type="dr_grpo", scale_rewards="none", max_completion_length=64)
    advantages = group_advantages(REWARDS, IDS, kind="dr_grpo")
    assert_same(ours(trl, advantages, agg="seq_mean_token_sum_norm", norm_const=64.0), trl)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_dapo(beta: float) -> None:
    trl = grpo(loss_type="dapo", epsilon_high=0.28, beta=beta)
    assert_same(ours(trl, group_advantages(REWARDS, IDS), agg="token_mean", clip_high=0.28, beta=beta), trl)


def test_the_overlong_penalty_of_dapo() -> None:
    from trl.rewards.other_rewards import get_soft_overlong_punishment

    lengths = list(range(1, 130))
    theirs = get_soft_overlong_punishment(100, 20)([[0] * length for length in lengths])
    assert overlong_penalty(lengths, max_len=100, cache=20).tolist() == pytest.approx(theirs)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_gspo(beta: float) -> None:
    trl = grpo(importance_sampling_level="sequence", epsilon_low=3e-2, epsilon_high=4e-2, beta=beta)
    options = {"agg": "seq_mean_token_mean", "level": "sequence", "clip_low": 3e-2, "clip_high": 4e-2, "beta": beta}
    assert_same(ours(trl, group_advantages(REWARDS, IDS), **options), trl)


@pytest.mark.parametrize("mode", ["truncate", "mask"])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_grpo_with_importance_weights_of_the_sampler(level: Any, mode: Any) -> None:
    trl = grpo(
        use_vllm=True, vllm_importance_sampling_mode=f"{level}_{mode}", beta=0.1,
        vllm_importance_sampling_clip_min=None, vllm_importance_sampling_clip_max=1.5,
    )  # fmt: skip
    weights = sampler_weights(trl.old, trl.sampled, MASK, cap=1.5, level=level, mode=mode)
    advantages = group_advantages(REWARDS, IDS)
    assert_same(ours(trl, advantages, agg="seq_mean_token_mean", beta=0.1, importance_BT=weights), trl)


def trl_rloo(**settings: Any) -> Trl:
    from trl.trainer.rloo_trainer import RLOOTrainer

    return Trl(RLOOTrainer, **settings)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_rloo(beta: float) -> None:
    trl = trl_rloo(beta=beta)
    result = rloo(
        trl.leaf, trl.old, REWARDS, IDS, MASK, ref_logps_BT=trl.reference, form="clipped_sequence", kl_beta=beta
    )
    torch.testing.assert_close(result["advantages"], trl.advantages, rtol=1e-12, atol=1e-12)
    assert_same(result["loss"], trl)


def test_rloo_of_the_paper_has_trls_gradient_before_the_first_step() -> None:
    """TRL clips one ratio a row; the paper has no ratio. Where it is 1 the gradients are equal, and later they part."""
    for spread, equal in ((0.0, True), (0.4, False)):
        trl = trl_rloo(spread=spread)
        (want,) = torch.autograd.grad(trl.loss(), trl.leaf)
        (got,) = torch.autograd.grad(rloo(trl.leaf, trl.old, REWARDS, IDS, MASK)["loss"], trl.leaf)
        assert torch.allclose(got, want, rtol=1e-12, atol=1e-12) == equal


def test_difference_a_group_that_earned_alike_is_rounding_noise_over_eps_in_trl() -> None:
    alike = [0.7] * SIZE + REWARDS[SIZE:]  # three times 0.7, divided by 3, is not 0.7
    assert (group_advantages(alike, IDS)[:SIZE] == 0.0).all()
    assert (grpo(rewards=alike).advantages[:SIZE] != 0.0).all()


def test_difference_an_overflowing_ratio_is_clipped_and_still_no_number_in_trls_gradient() -> None:
    trl = grpo()
    with torch.no_grad():
        trl.leaf[0, 0] = trl.old[0, 0] + 800.0  # exp overflows in float64
    assert trl.advantages[0] > 0
    theirs, mine = trl.loss(), ours(trl, group_advantages(REWARDS, IDS), agg="seq_mean_token_mean")
    assert mine.item() == pytest.approx(theirs.item())
    (want,) = torch.autograd.grad(theirs, trl.leaf)
    (got,) = torch.autograd.grad(mine, trl.leaf)
    assert torch.isnan(want[0, 0])
    assert got[0, 0] == 0.0
    assert torch.isfinite(got).all()


def test_difference_garbage_under_the_mask_is_no_number_in_trl() -> None:
    trl = grpo()
    with torch.no_grad():
        trl.leaf[~MASK] = 9000.0
    theirs, mine = trl.loss(), ours(trl, group_advantages(REWARDS, IDS), agg="seq_mean_token_mean")
    assert torch.isnan(theirs)
    assert torch.isfinite(mine)


def test_difference_the_mean_of_micro_batches_is_not_that_of_the_step_in_trls_bnpo() -> None:
    """``bnpo`` averages tokens in each micro-batch; our weights, like TRL's ``dapo``, are those of the whole step."""
    trl = grpo(loss_type="bnpo")
    whole = trl.loss().item()
    parts = []
    for rows in (slice(0, 6), slice(6, B)):
        cut = {name: value[rows] for name, value in trl.inputs.items() if name != "num_items_in_batch"}
        trl.trainer.__dict__["_get_per_token_logps_and_entropies"] = lambda *_, at=rows, **__: (
            trl.leaf[at], torch.zeros(6, T, dtype=torch.float64), None
        )  # fmt: skip
        parts.append(trl.trainer._compute_loss(trl.changed, cut).item())
    assert abs(sum(parts) / 2 - whole) > 1e-3
    assert ours(trl, group_advantages(REWARDS, IDS)).item() == pytest.approx(whole)
