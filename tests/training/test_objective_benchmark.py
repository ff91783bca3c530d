"""The benchmark of token log-probs ends with the promised JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "objectives.py"


@pytest.mark.slow
def test_it_ends_with_the_promised_json() -> None:
    command = [sys.executable, str(SCRIPT), "--json", "--quick", "--repeats", "1", "--only", "naive", "--only", "arena"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result = json.loads(done.stdout)
    assert set(result) == {"49k"}
    assert set(result["49k"]) == {"float32", "bfloat16"}
    for heads in result["49k"].values():
        assert set(heads) == {"frozen", "trained"}
        for contestants in heads.values():
            assert set(contestants) == {"naive", "arena"}
            for one in contestants.values():
                assert set(one) == {"seconds", "mib"}
                assert one["seconds"] > 0
