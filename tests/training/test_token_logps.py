"""Log-probs of tokens without all logits, beside the plain way."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from arena.protocols.errors import ConfigError
from arena.training.objectives.token_logps import token_logps, token_logps_and_entropy

N, H, V = 7, 5, 11


def inputs(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    hidden = torch.randn(N, H, generator=random, dtype=torch.float64).to(dtype)
    weight = torch.randn(V, H, generator=random, dtype=torch.float64).to(dtype)
    targets = torch.randint(V, (N,), generator=random)
    temperatures = 0.5 + torch.rand(N, generator=random, dtype=torch.float64)
    return hidden, weight, targets, temperatures


def plain(hidden: Tensor, weight: Tensor, targets: Tensor, temperatures: Tensor | None) -> Tensor:
    logits = (hidden @ weight.T).double()
    logits = logits if temperatures is None else logits / temperatures[:, None]
    return torch.log_softmax(logits, -1).gather(1, targets[:, None])[:, 0]


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
@pytest.mark.parametrize("cooled", [False, True])
@pytest.mark.parametrize("trained", [False, True])
def test_values_and_gradients_are_those_of_log_softmax(rows: int, cooled: bool, trained: bool) -> None:
    hidden, weight, targets, temperatures = inputs()
    given = temperatures if cooled else None
    above = torch.arange(1.0, N + 1, dtype=torch.float64)
    found = []
    for function in (plain, lambda h, w, t, temp: token_logps(h, w, t, temperatures_N=temp, rows=rows)):
        leaf, head = hidden.clone().requires_grad_(), weight.clone().requires_grad_(trained)
        logps = function(leaf, head, targets, given)
        (logps * above).sum().backward()
        found.append((logps.detach(), leaf.grad, head.grad))
    for want, got in zip(*found, strict=True):
        assert (want is None) == (got is None)
        if want is not None:
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def test_gradients_stand_against_differences() -> None:
    hidden, weight, targets, temperatures = inputs()
    leaves = (hidden.requires_grad_(), weight.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda h, w: token_logps(h, w, targets, temperatures_N=temperatures, rows=3), leaves
    )


def test_half_precision_adds_up_in_float32() -> None:
    hidden, weight, targets, _ = inputs(torch.bfloat16)
    want = plain(hidden.double(), weight.double(), targets, None)
    leaf = hidden.clone().requires_grad_()
    got = token_logps(leaf, weight, targets)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=0, atol=0.05)  # the products themselves are bfloat16
    got.sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.dtype == torch.bfloat16


def test_huge_logits_overflow_nowhere() -> None:
    hidden, weight, targets, _ = inputs()
    leaf = (hidden * 1e4).requires_grad_()
    logps = token_logps(leaf, weight, targets, rows=2)
    logps.sum().backward()
    assert torch.isfinite(logps).all()
    assert leaf.grad is not None
    assert torch.isfinite(leaf.grad).all()


def test_nothing_to_score_is_nothing() -> None:
    _, weight, _, _ = inputs()
    leaf, head = torch.zeros(0, H, dtype=torch.float64).requires_grad_(), weight.requires_grad_()
    logps = token_logps(leaf, head, torch.zeros(0, dtype=torch.long))
    assert logps.shape == (0,)
    logps.sum().backward()
    assert head.grad is not None
    assert (head.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("cached", [1, 3 * V, 1 << 20])
def test_blocks_of_a_tile_change_nothing(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, cached: int) -> None:
    monkeypatch.setattr("arena.training.objectives.token_logps._CACHED", cached)
    monkeypatch.setattr("arena.training.objectives.token_logps._COLUMNS", 4)
    hidden, weight, targets, temperatures = inputs(dtype)
    leaf, head = hidden.requires_grad_(), weight.requires_grad_()
    logps, entropy = token_logps_and_entropy(leaf, head, targets, temperatures_N=temperatures, rows=3)
    logps.sum().backward()
    exact, exact_head = hidden.detach().double().requires_grad_(), weight.detach().double().requires_grad_()
    rows = torch.log_softmax(exact @ exact_head.T / temperatures[:, None], -1)
    want = rows.gather(1, targets[:, None])[:, 0]
    want.sum().backward()
    loose = 1e-12 if dtype == torch.float64 else 0.05
    found = (logps, entropy, leaf.grad, head.grad)
    for got, right in zip(found, (want, -(rows.exp() * rows).sum(1), exact.grad, exact_head.grad), strict=True):
        assert got is not None
        assert right is not None
        torch.testing.assert_close(got.double(), right, rtol=loose, atol=loose)


def test_what_does_not_fit_is_told() -> None:
    hidden, weight, targets, _ = inputs()
    with pytest.raises(ConfigError, match="cast one of them"):
        token_logps(hidden.float(), weight, targets)
    with pytest.raises(ConfigError, match=r"\(7, 5\), weights \(11, 5\) and targets \(6,\) do not fit"):
        token_logps(hidden, weight, targets[:6])
    with pytest.raises(ConfigError, match="tiles of 0 rows"):
        token_logps(hidden, weight, targets, rows=0)
