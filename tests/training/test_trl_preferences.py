"""Preference objectives beside TRL's own trainers, on the same log-probs: values and gradients.

The trainers' loss methods run as they are, on trainers that were never set up; what a network would say is given to
them. Each difference that is known has a test of its own, and stands in docs/objectives.md.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from arena.training.objectives.pointwise import kto
from arena.training.objectives.preference import Pairs, Replies, dpo, dpo_norm, hinge, ipo, orpo, robust_dpo, simpo

pytest.importorskip("trl")

B, T, V = 4, 6, 7
PROMPT = 2
"""Tokens of every prompt; the other T - PROMPT are at most the reply's."""
ACCELERATOR = SimpleNamespace(device=torch.device("cpu"), gather=lambda x: x, gather_for_metrics=lambda x: x)


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bare(trainer: type, **settings: Any) -> Any:
    """A trainer with nothing but what its loss reads."""
    made: Any = object.__new__(trainer)
    common = {"accelerator": ACCELERATOR, "model": SimpleNamespace(training=True), "aux_loss_enabled": False}
    common |= {"_metrics": {"train": defaultdict(list)}, "_total_train_tokens": 0, "_tp_size": 1}
    made.__dict__.update(common | settings)
    return made


def says(logps_BT: Tensor) -> Any:
    """A network with TRL's fused output layer that finds these log-probs of all tokens but the first.

    That layer gives 0 where a label is to be ignored.
    """

    def forward(*, labels: Tensor, **_: Any) -> Any:
        kept = labels[:, 1:] != -100
        blank = torch.zeros_like(logps_BT)
        return SimpleNamespace(
            log_probs=torch.where(kept, logps_BT, 0.0), entropy=blank, mean_logits=blank, is_top1=kept
        )

    return forward


def replies(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, T) token mask of replies of unequal lengths, and (B, T - 1) log-probs of policy and reference."""
    lengths = torch.randint(1, T - PROMPT + 1, (B,), generator=random(seed))
    mask = (torch.arange(T) >= PROMPT) & (torch.arange(T) < PROMPT + lengths[:, None])
    policy, reference = (-3 * torch.rand(B, T - 1, generator=random(seed + n), dtype=torch.float64) for n in (1, 2))
    return mask, policy, reference


def assert_same(ours: Tensor, theirs: Tensor, leaf: Tensor, tolerance: float = 1e-12) -> None:
    (want,) = torch.autograd.grad(theirs, leaf, retain_graph=True)
    (got,) = torch.autograd.grad(ours, leaf, retain_graph=True)
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)
    assert want.abs().max() > 0


def trl_dpo(loss_type: str, beta: float, smoothing: float = 0.0) -> tuple[Tensor, Tensor, Pairs]:
    """TRL's loss, the log-probs it depends on, and the same pairs for us."""
    from trl.trainer.dpo_trainer import DPOTrainer

    chosen, rejected = replies(10), replies(20)
    leaf = torch.cat([chosen[1], rejected[1]]).requires_grad_()
    sums = [torch.where(mask[:, 1:], reference, 0.0).sum(1) for mask, _, reference in (chosen, rejected)]
    inputs = {
        "input_ids": torch.ones(2 * B, T, dtype=torch.long),
        "attention_mask": torch.ones(2 * B, T, dtype=torch.long),
        "completion_mask": torch.cat([chosen[0], rejected[0]]).long(),
        "ref_chosen_logps": sums[0],
        "ref_rejected_logps": sums[1],
    }
    trainer = bare(
        DPOTrainer, beta=beta, label_smoothing=smoothing, loss_types=[loss_type], loss_weights=[1.0],
        f_divergence_type="reverse_kl", ld_alpha=None, precompute_ref_logps=True, use_weighting=False,
    )  # fmt: skip
    loss = trainer._compute_loss(says(leaf), inputs, False)
    pairs = Pairs(*(Replies(leaf[rows], mask[:, 1:], reference)
                    for rows, (mask, _, reference) in ((slice(B), chosen), (slice(B, None), rejected))))  # fmt: skip
    return loss, leaf, pairs


@pytest.mark.parametrize(
    ("loss_type", "ours"),
    [
        ("sigmoid", lambda pairs: dpo(pairs, beta=0.3)),
        ("hinge", lambda pairs: hinge(pairs, beta=0.3)),
        ("robust", lambda pairs: robust_dpo(pairs, beta=0.3, label_smoothing=0.1)),
        ("ipo", lambda pairs: ipo(pairs, beta=0.3, length_normalize=True)),
        ("sigmoid_norm", lambda pairs: dpo_norm(pairs, beta=0.3)),
    ],
)
def test_dpo_and_its_kin(loss_type: str, ours: Any) -> None:
    theirs, leaf, pairs = trl_dpo(loss_type, 0.3, 0.1 if loss_type == "robust" else 0.0)
    assert_same(ours(pairs)["loss"], theirs, leaf)


def test_difference_ipo_sums_in_the_paper_and_averages_in_trl() -> None:
    theirs, _, pairs = trl_dpo("ipo", 0.3)
    lead_B = pairs.lead(mean=False)
    assert ipo(pairs, beta=0.3)["loss"].item() == pytest.approx((lead_B - 1 / 0.6).square().mean().item())
    assert abs(ipo(pairs, beta=0.3)["loss"].item() - theirs.item()) > 0.1


def test_difference_trl_ignores_label_smoothing_in_the_loss_sigmoid() -> None:
    plain, smoothed = trl_dpo("sigmoid", 0.3, 0.0), trl_dpo("sigmoid", 0.3, 0.2)
    assert plain[0].item() == smoothed[0].item()
    assert dpo(smoothed[2], beta=0.3, label_smoothing=0.2)["loss"].item() != pytest.approx(plain[0].item(), rel=1e-3)


def trl_kto(labels: Tensor, spoil: bool = False) -> tuple[Tensor, Tensor, Replies, Replies]:
    from trl.trainer.kto_trainer import KTOTrainer

    (mask, policy, reference), (other_mask, other_policy, other_reference) = replies(30), replies(40)
    if spoil:
        policy[0, PROMPT - 1] = float("nan")
    leaf = policy.clone().requires_grad_()
    batch = {
        "input_ids": torch.ones(B, T, dtype=torch.long),
        "attention_mask": torch.ones(B, T, dtype=torch.long),
        "completion_mask": mask.long(),
        "KL_input_ids": torch.ones(B, T, dtype=torch.long),
        "KL_attention_mask": torch.ones(B, T, dtype=torch.long),
        "KL_completion_mask": other_mask.long(),
        "label": labels,
        "ref_logps": torch.where(mask[:, 1:], reference, 0.0).sum(1),
        "ref_KL_logps": torch.where(other_mask[:, 1:], other_reference, 0.0).sum(1),
    }
    trainer = bare(
        KTOTrainer, beta=0.2, desirable_weight=1.3, undesirable_weight=0.7, loss_type="kto", calculate_KL=True,
        precompute_ref_logps=True,
    )  # fmt: skip
    calls = iter([says(other_policy), says(leaf)])  # the mismatched replies are scored first

    def network(**kwargs: Any) -> Any:
        return next(calls)(**kwargs)

    loss = trainer._compute_loss(network, batch, False)
    return (
        loss,
        leaf,
        Replies(leaf, mask[:, 1:], reference),
        Replies(other_policy, other_mask[:, 1:], other_reference),
    )


@pytest.mark.parametrize("labels", [[1, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
def test_kto(labels: list[int]) -> None:
    theirs, leaf, own, mismatched = trl_kto(torch.tensor(labels))
    result = kto(own, torch.tensor(labels), mismatched, beta=0.2, lambda_d=1.3, lambda_u=0.7)
    assert_same(result["loss"], theirs, leaf)


def test_difference_kto_of_trl_leaves_out_replies_that_are_not_a_number() -> None:
    labels = torch.tensor([1, 0, 1, 0])
    theirs, _, own, mismatched = trl_kto(labels, spoil=True)
    assert torch.isfinite(theirs)
    assert torch.isnan(kto(own, labels, mismatched, beta=0.2)["loss"])


def logits_and_labels(seed: int, lengths: tuple[list[int], list[int]]) -> tuple[Tensor, dict[str, Tensor], Pairs]:
    """(2B, T, V) logits, TRL's batch, and the same pairs for us; a reply follows a prompt of PROMPT tokens."""
    leaf = torch.randn(2 * B, T, V, generator=random(seed), dtype=torch.float64).requires_grad_()
    ids = torch.randint(V, (2 * B, T), generator=random(seed + 1))
    ends = PROMPT + torch.tensor([*lengths[0], *lengths[1]])
    places = torch.arange(T)
    attention = (places < ends[:, None]).long()
    labels = torch.where((places >= PROMPT) & (attention == 1), ids, -100)
    batch = {
        f"{side}_{name}": value[rows]
        for side, rows in (("chosen", slice(B)), ("rejected", slice(B, None)))
        for name, value in (("input_ids", ids), ("attention_mask", attention), ("labels", labels))
    }
    logps = torch.log_softmax(leaf[:, :-1], -1).gather(2, ids[:, 1:, None])[..., 0]
    mask = labels[:, 1:] != -100
    return leaf, batch, Pairs(Replies(logps[:B], mask[:B]), Replies(logps[B:], mask[B:]))


UNEQUAL = ([1, 4, 2, 3], [2, 2, 4, 1])
EQUAL = ([4, 4, 4, 4], [2, 2, 4, 1])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_simpo(smoothing: float) -> None:
    from trl.experimental.cpo.cpo_trainer import CPOTrainer

    leaf, batch, pairs = logits_and_labels(50, UNEQUAL)
    trainer = bare(
        CPOTrainer, beta=2.0, simpo_gamma=0.5, label_smoothing=smoothing, loss_type="simpo", cpo_alpha=0.0, alpha=0.0,
        is_encoder_decoder=False, pad_token_id=0,
    )  # fmt: skip
    theirs, _ = trainer.get_batch_loss_metrics(lambda *_, **__: SimpleNamespace(logits=leaf), batch)
    assert_same(simpo(pairs, beta=2.0, gamma=0.5, label_smoothing=smoothing)["loss"], theirs, leaf)


def trl_orpo(leaf: Tensor, batch: dict[str, Tensor]) -> Tensor:
    from trl.experimental.orpo.orpo_trainer import ORPOTrainer

    trainer = bare(ORPOTrainer, beta=0.4, is_encoder_decoder=False, padding_value=0)
    loss: Tensor = trainer.get_batch_loss_metrics(lambda *_, **__: SimpleNamespace(logits=leaf), batch)[0]
    return loss


def test_orpo_with_its_known_difference() -> None:
    """TRL's likelihood is a mean over all tokens of the batch, prompts included; ours over replies, pair by pair."""
    leaf, batch, pairs = logits_and_labels(60, UNEQUAL)
    logps = torch.log_softmax(leaf[:B, :-1], -1).gather(2, batch["chosen_input_ids"][:, 1:, None])[..., 0]
    read = batch["chosen_attention_mask"][:, 1:] == 1
    likelihood = -logps[read].mean()
    ours = orpo(pairs, lam=0.4)["loss"] - pairs.nll().mean() + likelihood
    assert_same(ours, trl_orpo(leaf, batch), leaf, 1e-6)  # TRL's odds are float32
    assert abs((pairs.nll().mean() - likelihood).item()) > 0.01


def test_orpo_agrees_where_prompts_are_one_token_and_replies_equally_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.PROMPT", 1)
    leaf, batch, pairs = logits_and_labels(70, EQUAL)
    assert_same(orpo(pairs, lam=0.4)["loss"], trl_orpo(leaf, batch), leaf, 1e-6)


def test_difference_an_empty_reply_is_no_number_in_trl() -> None:
    leaf, batch, pairs = logits_and_labels(80, ([0, 4, 2, 3], [2, 2, 4, 1]))
    assert torch.isnan(trl_orpo(leaf, batch))
    assert torch.isfinite(simpo(pairs, beta=2.0, gamma=0.5)["loss"])
