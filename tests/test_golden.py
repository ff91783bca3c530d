"""Objectives and metrics against golden vectors from independent float64 references."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

HERE = Path(__file__).parent
DOCUMENT = json.loads((HERE / "data" / "vectors_public.json").read_text())
CASES = DOCUMENT["cases"]


@pytest.fixture(scope="module")
def adapter():
    spec = importlib.util.spec_from_file_location("golden_adapter", HERE / "golden_adapter.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compare(got, want, tolerance, where):
    if isinstance(want, dict):
        for key in want:
            compare(got[key], want[key], tolerance, f"{where}.{key}")
        return
    got, want = np.asarray(got, float), np.asarray(want, float)
    assert got.shape == want.shape, where
    scale = np.abs(want).max() if want.size else 0.0
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance["atol"] + tolerance["rtol"] * scale, err_msg=where)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_case(case, dtype, adapter, monkeypatch):
    monkeypatch.setattr(adapter, "DTYPE", getattr(torch, dtype))
    result = adapter.compute(case["algo"], case["inputs"], case["options"])
    for key, want in case["expected"].items():
        compare(result[key], want, DOCUMENT["tolerance"][dtype], f"{case['id']} {key}")
