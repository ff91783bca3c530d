import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "engine.py"


def run(*arguments):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=True, cwd=SCRIPT.parents[1]
    )


def test_the_engine_benchmark_ends_with_the_promised_json():
    result = json.loads(run("--json", "--quick", "--repeats", "1", "--only", "arena").stdout.splitlines()[-1])
    assert set(result) == {"debates_per_second", "critical_path_ratio", "peers"}
    assert result["peers"] == {}
    assert result["debates_per_second"] > 0
    assert result["critical_path_ratio"] >= 1


def test_the_rollout_benchmark_ends_with_the_promised_json():
    script = SCRIPT.parent / "rollout.py"
    command = [sys.executable, str(script), "--json", "--quick", "--repeats", "1", "--model", "tiny"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=SCRIPT.parents[1])
    result = json.loads(done.stdout.splitlines()[-1])
    assert set(result) == {"vs_generate_per_turn", "vs_one_batched_generate", "models"}
    assert set(result["models"]) == {"tiny"}
    assert result["vs_generate_per_turn"] > 0
