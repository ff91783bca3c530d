"""What holds for every objective, tried on the inputs of the golden vectors: masked entries never matter, nor padding,
nor the order of rows."""

from __future__ import annotations

import copy
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
