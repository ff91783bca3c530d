"""Objectives beyond the golden vectors: gradients against enumeration, extremes, masked garbage."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.errors import ConfigError, NumericalError
from arena.training.kl_control import KLController
from arena.training.objectives.aggregate import aggregate, masked_sum, token_weights
from arena.training.objectives.kl import exact_kl, kl_per_token
from arena.training.objectives.policy_gradient import policy_loss, ppo_policy

LOGITS = torch.tensor([0.3, -1.2, 0.8, 2.0, -0.4], dtype=torch.float64)
REFERENCE = torch.tensor([1.0, 0.2, -0.7, 0.5, 0.1], dtype=torch.float64)


def expected_gradient(estimator):
    """Gradient of E_p[estimator] with the sampling distribution held fixed, by enumerating the five tokens."""
    logits = LOGITS.clone().requires_grad_()
    logps = torch.log_softmax(logits, 0)
    per_token = kl_per_token(logps[None], torch.log_softmax(REFERENCE, 0)[None], estimator=estimator)[0]
    (logps.detach().exp() * per_token).sum().backward()
    return logits.grad


def true_gradient(forward):
    logits = LOGITS.clone().requires_grad_()
    logp, logq = torch.log_softmax(logits, 0), torch.log_softmax(REFERENCE, 0)
    ((logp.exp() * (logp - logq)) if forward else (logq.exp() * (logq - logp))).sum().backward()
    return logits.grad


def test_the_exact_kl_has_the_gradient_of_its_definition():
    logits = LOGITS.clone().requires_grad_()
    exact_kl(logits[None], REFERENCE[None]).sum().backward()
    torch.testing.assert_close(logits.grad, true_gradient(True), rtol=1e-12, atol=1e-14)


def test_expected_gradients_of_the_estimators():
    torch.testing.assert_close(expected_gradient("k1"), torch.zeros(5, dtype=torch.float64), rtol=0, atol=1e-14)
    torch.testing.assert_close(expected_gradient("k2"), true_gradient(True), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(expected_gradient("k3"), true_gradient(False), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gap", [0.1, 1.0, 9.9, 10.1, 20.0, 50.0, 200.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_pull_of_k3_is_finite_and_never_dies(dtype, gap, sign):
    logps = torch.tensor([[-300.0]], dtype=dtype, requires_grad=True)
    value = kl_per_token(logps, logps.detach() + sign * gap, linear_from=10.0).sum()
    value.backward()
    assert math.isfinite(value.item())
    pull = -sign * logps.grad.item()
    assert math.isfinite(pull)
    assert pull > 0.05


def test_the_tangent_joins_k3_smoothly():
    for gap in (10.0 - 1e-7, 10.0 + 1e-7):
        logps = torch.tensor([[0.0]], dtype=torch.float64, requires_grad=True)
        value = kl_per_token(logps, torch.tensor([[gap]], dtype=torch.float64), linear_from=10.0)
        value.sum().backward()
        assert value.item() == pytest.approx(math.exp(10) - 11, rel=1e-6)
        assert logps.grad.item() == pytest.approx(1 - math.exp(10), rel=1e-6)


@pytest.mark.parametrize("gap", [0.1, 5.0, 50.0, 800.0])
def test_the_exact_kl_survives_any_gap(gap):
    logits = torch.tensor([[gap, 0.0, -math.inf]], requires_grad=True)
    value = exact_kl(logits, torch.tensor([[0.0, gap, 0.0]]))
    value.sum().backward()
    assert math.isfinite(value.item())
    assert logits.grad.isfinite().all()


@given(
    st.lists(st.lists(st.booleans(), min_size=4, max_size=4), min_size=1, max_size=5),
    st.sampled_from([math.nan, 9000.0]),
)
def test_what_lies_under_the_mask_never_matters(rows, garbage):
    mask = torch.tensor(rows)
    torch.manual_seed(len(rows))
    clean = {name: torch.randn(mask.shape, dtype=torch.float64) * mask for name in ("logps", "old", "ref", "adv")}
    dirty = {name: torch.where(mask, value, garbage) for name, value in clean.items()}
    results = []
    for values in (clean, dirty):
        logps = values["logps"].clone().requires_grad_()
        result = ppo_policy(logps, values["old"], values["adv"], mask, ref_logps_BT=values["ref"], beta=0.1)
        result["loss"].backward()
        results.append((result["loss"].item(), torch.where(mask, logps.grad, logps.grad).tolist()))
        assert (logps.grad[~mask] == 0).all()
    assert results[0] == results[1]


def test_the_weights_of_a_step_add_up_over_any_cut():
    mask = torch.tensor([[1, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, 0]])
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    groups = ["p", "q", "q", "p"]
    for agg in ("token_mean", "group_token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "token_sum"):
        weights = token_weights(mask, agg, group_ids=groups)
        parts = sum(masked_sum(x[i : i + 1], mask[i : i + 1], weights[i : i + 1]) for i in range(4))
        assert parts.item() == pytest.approx(aggregate(x, mask, agg, group_ids=groups).item(), abs=1e-14)
    with pytest.raises(ConfigError, match="Did you mean 'token_mean'"):
        token_weights(mask, "token_men")


def test_importance_weights_give_the_exact_expectation():
    """Off-policy samples with ratios reproduce the on-policy gradient: enumerated over five tokens."""
    behaviour, reward = torch.log_softmax(REFERENCE, 0), torch.tensor([1.0, -0.5, 0.2, 0.0, 2.0], dtype=torch.float64)
    logits = LOGITS.clone().requires_grad_()
    logps = torch.log_softmax(logits, 0)
    mask = torch.ones(1, 5)
    loss = policy_loss(logps[None], behaviour[None], reward[None], mask, clip_low=1.0, clip_high=1e9).loss_BT
    (behaviour.exp() * loss[0]).sum().backward()
    other = LOGITS.clone().requires_grad_()
    (-(torch.softmax(other, 0) * reward).sum()).backward()
    torch.testing.assert_close(logits.grad, other.grad, rtol=1e-12, atol=1e-14)


@given(
    st.lists(st.floats(0, 1e6, allow_nan=False), max_size=60),
    st.sampled_from(["additive", "multiplicative"]),
    st.floats(1e-3, 10),
    st.floats(1e-3, 5),
)
def test_the_coefficient_stays_within_its_bounds(kls, form, target, gain):
    control = KLController(0.05, target=target, form=form, gain=gain, floor=0.01, ceiling=2.0)
    for index, kl in enumerate(kls):
        before = control.beta
        if index == len(kls) // 2:
            # Resuming in the middle continues from the same value.
            state, control = (
                control.state_dict(),
                KLController(0.05, target=target, form=form, gain=gain, floor=0.01, ceiling=2.0),
            )
            control.load_state_dict(state)
        after = control.update(kl)
        assert 0.01 <= after <= 2.0
        assert (after >= before) if kl >= target else (after <= before)


def test_the_multiplicative_form_answers_a_doubled_kl_at_once():
    control = KLController(0.05, target=0.8, form="multiplicative", gain=1.0, floor=0.02)
    assert control.update(1.6) == pytest.approx(0.1)
    assert control.update(0.4) == pytest.approx(0.05)
    assert [control.update(0.0) for _ in range(3)][-1] == 0.02


def test_without_a_target_the_coefficient_is_fixed():
    control = KLController(0.3)
    assert [control.update(kl) for kl in (0.0, 5.0)] == [0.3, 0.3]


def test_controller_mistakes():
    with pytest.raises(NumericalError, match="is nan"):
        KLController(0.1, target=1.0).update(math.nan)
    with pytest.raises(ConfigError, match="between floor"):
        KLController(0.1, floor=0.2)
    with pytest.raises(ConfigError, match="must be above 0"):
        KLController(0.1, target=0.0)
