"""Every public function of the objectives on the inputs of the golden vectors: bfloat16 is added up in float32, and a
GPU, where there is one, finds the same.

Functions are found by `__all__`, so that a new one cannot be forgotten: it is reached by a golden case, or has inputs
of its own here.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import arena.training.objectives
from arena.training.objectives.precision import wide

HERE = Path(__file__).parent.parent
CASES: list[dict[str, Any]] = json.loads((HERE / "data" / "vectors_public.json").read_text())["cases"]
MODULES = [info.name for info in pkgutil.iter_modules(arena.training.objectives.__path__)]


def public_functions() -> dict[str, Callable[..., Any]]:
    """``module.name`` of everything in `__all__` that is called with tensors or numbers."""
    found: dict[str, Callable[..., Any]] = {}
    for name in MODULES:
        module = importlib.import_module(f"arena.training.objectives.{name}")
        for each in module.__all__:
            thing = getattr(module, each)
            if inspect.isfunction(thing):
                found[f"{name}.{each}"] = thing
    return found


@pytest.fixture(scope="module")
def adapter() -> Any:
    spec = importlib.util.spec_from_file_location("golden_adapter", HERE / "golden_adapter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- functions that no golden case calls by name


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MASK = torch.tensor([[1, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]])
TARGETS = torch.tensor([3, 0, 2])


def _token_logps(name: str) -> Callable[..., Tensor]:
    def call(hidden: Tensor, weight: Tensor) -> Tensor:
        from arena.training.objectives import token_logps

        found = getattr(token_logps, name)(hidden, weight, TARGETS, rows=2)
        return found if isinstance(found, Tensor) else found[0] + found[1]

    return call


def _policy(name: str) -> Callable[..., Tensor]:
    def call(logps: Tensor, old: Tensor, advantages: Tensor) -> Tensor:
        from arena.training.objectives import policy_gradient

        loss_BT: Tensor = getattr(policy_gradient, name)(logps, old, advantages, MASK).loss_BT
        return loss_BT

    return call


def _masked_sum(x: Tensor, weights: Tensor) -> Tensor:
    from arena.training.objectives.aggregate import masked_sum

    return masked_sum(x, MASK, weights)


def _weights(mask: Tensor) -> Tensor:
    from arena.training.objectives.aggregate import token_weights

    return token_weights(mask, "seq_mean_token_mean", dtype=torch.float32)


def _entropy(logits: Tensor) -> Tensor:
    from arena.training.objectives.actor_critic import entropy

    return entropy(logits, MASK)


def _kl_from_logps(p: Tensor, q: Tensor) -> Tensor:
    from arena.training.objectives.kl import kl_from_logps

    return kl_from_logps(torch.log_softmax(wide(p), -1), torch.log_softmax(wide(q), -1))


def _expectile(u: Tensor) -> Tensor:
    from arena.training.objectives.value_based import expectile

    return expectile(u, tau=0.7)


POLICY = (-normal(3, 4).abs(), -normal(3, 4).abs(), normal(3, 4, seed=2))
STATES = (normal(3, 4), normal(5, 4, seed=1))
OWN: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "aggregate.masked_sum": (_masked_sum, (normal(3, 4), normal(3, 4, seed=1).abs())),
    "aggregate.token_weights": (_weights, (MASK.double(),)),
    "actor_critic.entropy": (_entropy, (normal(3, 4, 5),)),
    "kl.kl_from_logps": (_kl_from_logps, (normal(3, 5), normal(3, 5, seed=1))),
    "policy_gradient.policy_loss": (_policy("policy_loss"), POLICY),
    "policy_gradient.score_loss": (_policy("score_loss"), POLICY),
    "token_logps.token_logps": (_token_logps("token_logps"), STATES),
    "token_logps.token_logps_and_entropy": (_token_logps("token_logps_and_entropy"), STATES),
    "value_based.expectile": (_expectile, (normal(7),)),
}
NUMBERS = {"kl.best_of_n_kl", "constrained.constrained_advantages", "constrained.scalarise", "constrained.pareto_front"}
"""Float64 numbers without gradient, whatever they are given."""
ELSEWHERE = {
    "bt_bootstrap", "bt_mle", "brier", "cohen_kappa", "ece", "elo", "fleiss_kappa", "judge_swap_average", "pass_at_k",
    "pass_hat_k", "wilson",
}  # fmt: skip
"""Golden cases of ratings and metrics."""
CHAINED = {"grpo", "dr_grpo", "dapo", "gspo", "ps_rl"}
"""The adapter reads advantages that it has just computed as if they were inputs, and would round them once more."""
TYPES = {"precision.wide", "precision.widened"}
"""What half precision is kept out by; tested through all others."""


def test_no_public_function_is_forgotten(adapter: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    called: set[str] = set()

    def watched(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def watching(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return function(*args, **kwargs)

        return watching

    functions = public_functions()
    for name, function in functions.items():
        monkeypatch.setattr(f"arena.training.objectives.{name}", watched(name, function))
    for algo in {case["algo"] for case in CASES} - ELSEWHERE:
        case = next(case for case in CASES if case["algo"] == algo)
        adapter.compute(algo, copy.deepcopy(case["inputs"]), case["options"])
    assert not set(functions) - called - set(OWN) - TYPES
    assert not (set(OWN) | NUMBERS | TYPES) - set(functions), "a name here is no function any more"


def rounded(value: Any) -> Any:
    """Numbers as bfloat16 has them."""
    if isinstance(value, float):
        return float(torch.tensor(value, dtype=torch.bfloat16))
    if isinstance(value, list):
        return [rounded(each) for each in value]
    return value


def numbers(result: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, np.ndarray]]:
    for name, value in result.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}.")
        else:
            yield prefix + name, np.asarray(value, float)


def assert_near(got: dict[str, Any], want: dict[str, Any], tolerance: dict[str, float]) -> None:
    found = dict(numbers(got))
    for name, value in numbers(want):
        kind = "gradient" if name.startswith("grad_") else "value"
        scale = np.abs(value).max(initial=1e-3)
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance[kind] * scale, err_msg=name)


TENSORS = [
    case
    for case in CASES
    if case["inputs"].keys() & {"logps", "logits", "q", "u", "chosen", "p_logits"}
    or any(name.endswith("mask") for name in case["inputs"])
]
NARROW = [case for case in TENSORS if case["algo"] not in CHAINED]


@pytest.mark.parametrize("case", NARROW, ids=[case["id"] for case in NARROW])
def test_half_precision_is_added_up_in_float32(case: dict[str, Any], adapter: Any, monkeypatch: Any) -> None:
    inputs = {name: rounded(value) for name, value in case["inputs"].items()}
    want = adapter.compute(case["algo"], copy.deepcopy(inputs), case["options"])
    monkeypatch.setattr(adapter, "DTYPE", torch.bfloat16)
    got = adapter.compute(case["algo"], inputs, case["options"])
    # Gradients come back in bfloat16, whose 8 bits are half a unit of 2^-8 off.
    assert_near(got, want, {"value": 1e-5, "gradient": 2.0**-8})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", sorted(OWN))
def test_narrow_inputs_of_the_other_functions(name: str, dtype: torch.dtype) -> None:
    function, inputs = OWN[name]
    narrow = [x.to(dtype).requires_grad_(x.dtype.is_floating_point) for x in inputs]
    exact = [x.detach().double().requires_grad_() for x in narrow]
    got, want = function(*narrow), function(*exact)
    assert got.dtype == torch.float32
    # The products of a half-precision network are half precision; sums of them are not.
    loose = 0.02 if name.startswith("token_logps") and dtype != torch.float32 else 1e-5
    torch.testing.assert_close(got.double(), want.double(), rtol=loose, atol=loose)
    if want.requires_grad:
        got.sum().backward()  # type: ignore[no-untyped-call]
        want.sum().backward()  # type: ignore[no-untyped-call]
        bits = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-9}[dtype]
        for mine, theirs in zip(narrow, exact, strict=True):
            assert (mine.grad is None) == (theirs.grad is None)
            if theirs.grad is not None:
                assert mine.grad is not None
                assert mine.grad.dtype == dtype
                atol = (bits + (loose if loose > 1e-3 else 0.0)) * float(theirs.grad.abs().max())
                torch.testing.assert_close(mine.grad.double(), theirs.grad, rtol=0, atol=atol)


def test_sums_of_many_tokens_survive_half_precision() -> None:
    """4,096 log-probs of -1/8 add up to -512, where bfloat16 alone would stop at -32."""
    from arena.training.objectives.preference import Replies
    from arena.training.objectives.supervised import nll

    logps = torch.full((1, 4096), -0.125, dtype=torch.bfloat16)
    ones = torch.ones_like(logps)
    assert nll(logps, ones, agg="token_sum").item() == 512.0
    assert Replies(logps, ones).log_prob().item() == -512.0


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
def test_a_gpu_finds_the_same(adapter: Any) -> None:
    for case in TENSORS:
        want = adapter.compute(case["algo"], copy.deepcopy(case["inputs"]), case["options"])
        with torch.device("cuda"):
            got = adapter.compute(case["algo"], copy.deepcopy(case["inputs"]), case["options"])
        assert_near(got, want, {"value": 1e-9, "gradient": 1e-9})


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize("name", sorted(OWN))
def test_a_gpu_finds_the_same_for_the_other_functions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, inputs = OWN[name]
    want = function(*inputs)
    for constant in ("MASK", "TARGETS"):
        monkeypatch.setattr(f"{__name__}.{constant}", globals()[constant].cuda())
    torch.testing.assert_close(function(*(x.cuda() for x in inputs)).cpu(), want, rtol=1e-9, atol=1e-9)
