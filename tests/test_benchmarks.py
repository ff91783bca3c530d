import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def run(script, *arguments):
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=BENCHMARKS.parent)


def test_the_engine_benchmark_ends_with_the_promised_json():
    result = json.loads(
        run("engine.py", "--json", "--quick", "--repeats", "1", "--only", "arena").stdout.splitlines()[-1]
    )
    assert set(result) == {"debates_per_second", "critical_path_ratio", "peers"}
    assert result["peers"] == {}
    assert result["debates_per_second"] > 0
    assert result["critical_path_ratio"] >= 1


def test_the_rollout_benchmark_ends_with_the_promised_json():
    result = rollout("--only", "hf", "--model", "tiny")
    assert set(result) == {"vs_generate_per_turn", "vs_one_batched_generate", "models", "vllm"}
    assert set(result["models"]) == {"tiny"}
    assert result["vs_generate_per_turn"] > 0
    assert result["vllm"] == {"arena_over_engine": None}


def test_the_audit_benchmark_ends_with_the_promised_json():
    result = json.loads(run("audit.py", "--json", "--seeds", "1", "--n", "40").stdout.splitlines()[-1])
    assert set(result) == {"inside", "of", "width", "seconds"}
    assert set(result["inside"]) == {"accuracy", "position_bias", "length_bias", "self_preference"}


@pytest.mark.slow
def test_the_training_benchmark_ends_with_the_promised_json():
    pytest.importorskip("trl")
    done = run("training.py", "--json", "--quick", "--repeats", "1", "--steps", "1", "--model", "net")
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result) == {"single_turn", "three_turns", "models"}
    assert set(result["single_turn"]) == {"speed_ratio", "memory_ratio"}
    assert set(result["three_turns"]) == {"speed_ratio", "speed_ratio_packed", "memory_ratio"}
    assert all(value > 0 for case in ("single_turn", "three_turns") for value in result[case].values())


@pytest.mark.slow
@pytest.mark.vllm
def test_the_rollout_benchmark_measures_arena_over_the_bare_engine():
    result = rollout("--only", "vllm")
    assert result["models"] == {}
    assert result["vs_generate_per_turn"] is None
    assert result["vllm"]["arena_over_engine"] > 0


def test_the_check_of_a_gpu_says_what_it_needs_where_there_is_none():
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = subprocess.run([sys.executable, BENCHMARKS / "gpu_check.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no CUDA device" in done.stderr
    assert done.stdout == ""


def rollout(*arguments):
    return json.loads(run("rollout.py", "--json", "--quick", "--repeats", "1", *arguments).stdout.splitlines()[-1])
