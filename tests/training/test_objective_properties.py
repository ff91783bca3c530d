"""What holds for every objective, tried on the inputs of the golden vectors: masked entries never matter, nor padding,
nor the order of rows."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch

from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import masked_sum, token_weights
from arena.training.objectives.kl import kl_per_token
from arena.training.objectives.policy_gradient import policy_loss, score_loss
from arena.training.objectives.supervised import nll

HERE = Path(__file__).parent.parent
CASES: list[dict[str, Any]] = json.loads((HERE / "data" / "vectors_public.json").read_text())["cases"]
ORDERED = {"pro", "rae", "ppo_ptx", "kto"}
"""Rows have a meaning (ranks, time), or batches of two sizes stand side by side."""
MASKED = [case for case in CASES if any(name.endswith("mask") for name in case["inputs"]) and case["algo"] != "hrl_tar"]


def ids(cases: list[dict[str, Any]]) -> list[str]:
    return [case["id"] for case in cases]


@pytest.fixture(scope="module")
def adapter() -> Any:
    spec = importlib.util.spec_from_file_location("golden_adapter", HERE / "golden_adapter.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def beside(inputs: dict[str, Any]) -> Iterator[tuple[np.ndarray, list[str]]]:
    """Each mask, and the names of the (B, T) or (B, T, ...) numbers that it masks."""
    for name in (name for name in inputs if name.endswith("mask")):
        mask, kind = np.asarray(inputs[name]), name.removesuffix("mask")
        others = {each.removesuffix("mask") for each in inputs if each.endswith("mask")} - {kind, ""}
        found = []
        for each, values in inputs.items():
            theirs = any(other in each for other in others) if kind == "" else kind not in each
            if each != name and not theirs and np.shape(values)[:2] == mask.shape:
                found.append(each)
        yield mask, found


def assert_same(got: dict[str, Any], want: dict[str, Any], where: str, cut: bool = False) -> None:
    for name, value in want.items():
        if isinstance(value, dict):
            continue
        ours, theirs = np.asarray(got[name], float), np.asarray(value, float)
        if cut and ours.ndim > 1:
            ours = ours[tuple(slice(0, size) for size in theirs.shape)]
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=f"{where}: {name}")


@pytest.mark.parametrize("case", MASKED, ids=ids(MASKED))
def test_what_is_masked_never_matters(case: dict[str, Any], adapter: Any) -> None:
    want = adapter.compute(case["algo"], case["inputs"], case["options"])
    for garbage in (9000.0, -9000.0, float("nan")):
        inputs = copy.deepcopy(case["inputs"])
        for mask, names in beside(inputs):
            for name in names:
                values = np.asarray(inputs[name], float)
                if name == "actions":
                    continue  # an index must be one
                values[mask == 0] = garbage
                inputs[name] = values.tolist()
        got = adapter.compute(case["algo"], inputs, case["options"])
        assert_same(got, want, f"{case['algo']} with {garbage} under the mask")


@pytest.mark.parametrize("case", MASKED, ids=ids(MASKED))
def test_padding_never_matters(case: dict[str, Any], adapter: Any) -> None:
    options = case["options"]
    want = adapter.compute(case["algo"], case["inputs"], options)
    inputs = copy.deepcopy(case["inputs"])
    widths = {mask.shape[1] for mask, _ in beside(inputs)}
    for name, values in inputs.items():
        shape = np.shape(values)
        # (B, T, ...) and the (B, T + 1) state values.
        if len(shape) >= 2 and (shape[1] in widths or (name == "v" and shape[1] - 1 in widths)):
            more = [(0, 0), (0, 2), *[(0, 0)] * (len(shape) - 2)]
            inputs[name] = np.pad(np.asarray(values), more).tolist()
    assert_same(adapter.compute(case["algo"], inputs, options), want, f"{case['algo']}, two columns wider", cut=True)


# Of equally good candidates RRHF learns the first.
ROWS = [
    case
    for case in MASKED
    if case["algo"] not in ORDERED and "mask" in case["inputs"] and "tied rewards" not in case["tags"]
]


@pytest.mark.parametrize("case", ROWS, ids=ids(ROWS))
def test_the_order_of_rows_never_matters(case: dict[str, Any], adapter: Any) -> None:
    rows = len(case["inputs"]["mask"])
    order = np.random.default_rng(0).permutation(rows)
    inputs = {
        name: [values[row] for row in order] if isinstance(values, list) and len(values) == rows else values
        for name, values in case["inputs"].items()
    }
    want = adapter.compute(case["algo"], case["inputs"], case["options"])
    got = adapter.compute(case["algo"], inputs, case["options"])
    for name, value in want.items():
        there = np.asarray(value, float)
        moved = there[order] if there.ndim and len(there) == rows else there
        np.testing.assert_allclose(np.asarray(got[name], float), moved, rtol=1e-9, atol=1e-12, err_msg=name)


SETS = {
    "kto": [["logps", "ref_logps", "mask", "labels"], ["kl_logps", "kl_ref_logps", "kl_mask"]],
    "ppo_ptx": [["logps", "old_logps", "advantages", "mask"], ["ptx_logps", "ptx_mask"]],
}
"""Batches that stand side by side, each in an order of its own."""
BESIDE = [case for case in CASES if case["algo"] in SETS]


@pytest.mark.parametrize("case", BESIDE, ids=ids(BESIDE))
def test_the_order_of_rows_never_matters_within_batches_side_by_side(case: dict[str, Any], adapter: Any) -> None:
    inputs = copy.deepcopy(case["inputs"])
    orders = {}
    for seed, names in enumerate(SETS[case["algo"]]):
        for name in (name for name in names if name in inputs):
            order = np.random.default_rng(seed).permutation(len(inputs[name]))
            orders[f"grad_{name}"] = order
            inputs[name] = [inputs[name][row] for row in order]
    want = adapter.compute(case["algo"], case["inputs"], case["options"])
    got = adapter.compute(case["algo"], inputs, case["options"])
    for name, value in want.items():
        there = np.asarray(value, float)
        moved = there[orders[name]] if name in orders else there
        np.testing.assert_allclose(np.asarray(got[name], float), moved, rtol=1e-9, atol=1e-12, err_msg=name)


PLANNED = [case for case in CASES if case["algo"] == "hrl_tar"]


@pytest.mark.parametrize("garbage", [9000.0, -9000.0, float("nan")])
@pytest.mark.parametrize("case", PLANNED, ids=ids(PLANNED))
def test_what_is_nobodys_never_matters_to_planner_and_executor(
    case: dict[str, Any], garbage: float, adapter: Any
) -> None:
    inputs = copy.deepcopy(case["inputs"])
    outside = {"hi_": np.asarray(inputs["hi_mask"]) == 0, "lo_": np.asarray(inputs["lo_segments"]) < 0}
    for name in ("hi_logps", "hi_rewards", "lo_logps", "lo_rewards"):
        values = np.asarray(inputs[name], float)
        values[outside[name[:3]]] = garbage
        inputs[name] = values.tolist()
    want = adapter.compute(case["algo"], case["inputs"], case["options"])
    assert_same(adapter.compute(case["algo"], inputs, case["options"]), want, "hrl_tar")


ROWS_OF_A_STEP, TOKENS = 8, 5
CUTS = {"1 x 8": 8, "2 x 4": 4, "8 x 1": 1}


def policy_part(rows: slice, level: Any, surrogate: str, step: dict[str, Any], leaf: Any) -> Any:
    """The loss of some rows of a step, by the weights of the whole."""
    mask, weights = step["mask"][rows], step["weights"][rows]
    signal = (leaf[rows], step["old"][rows], step["advantages"][rows], mask)
    loss = score_loss(*signal) if surrogate == "score" else policy_loss(*signal, level=level)
    kl = kl_per_token(leaf[rows], step["reference"][rows], mask)
    return masked_sum(loss.loss_BT, mask, weights) + 0.1 * masked_sum(kl, mask, weights)


@pytest.mark.parametrize("agg", get_args(Aggregate))
@pytest.mark.parametrize(
    ("surrogate", "level"), [("clip", "token"), ("clip", "sequence"), ("clip", "sequence_sum"), ("score", "token")]
)
def test_micro_batches_of_a_step_never_matter(agg: Any, surrogate: str, level: Any) -> None:
    random = torch.Generator().manual_seed(0)
    lengths = torch.tensor([5, 1, 3, 0, 2, 4, 5, 1])
    step: dict[str, Any] = {
        name: torch.randn(ROWS_OF_A_STEP, TOKENS, generator=random, dtype=torch.float64)
        for name in ("logps", "old", "reference", "advantages")
    }
    step["mask"] = torch.arange(TOKENS) < lengths[:, None]
    step["weights"] = token_weights(step["mask"], agg, group_ids=list("ppqqppqr"))
    found = {}
    for cut, size in CUTS.items():
        leaf = step["logps"].clone().requires_grad_()
        losses = []
        for start in range(0, ROWS_OF_A_STEP, size):
            losses.append(policy_part(slice(start, start + size), level, surrogate, step, leaf))
            losses[-1].backward()  # as a trainer does: gradients add up
        found[cut] = (torch.stack(losses).sum().detach(), leaf.grad)
    for cut in ("2 x 4", "8 x 1"):
        for got, want in zip(found[cut], found["1 x 8"], strict=True):
            torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("agg", get_args(Aggregate))
def test_likelihoods_of_micro_batches_add_up(agg: Any) -> None:
    logps = -torch.rand(ROWS_OF_A_STEP, TOKENS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    mask = torch.arange(TOKENS) < torch.tensor([5, 1, 3, 0, 2, 4, 5, 1])[:, None]
    weights = token_weights(mask, agg)
    for size in CUTS.values():
        parts = [
            -masked_sum(logps[at : at + size], mask[at : at + size], weights[at : at + size])
            for at in range(0, ROWS_OF_A_STEP, size)
        ]
        assert float(torch.stack(parts).sum()) == pytest.approx(float(nll(logps, mask, agg=agg)), abs=1e-14)
