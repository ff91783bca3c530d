import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "ratings.py"


def test_it_ends_with_the_promised_json():
    command = [sys.executable, str(BENCHMARK), "--json", "--quick", "--tournaments", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=BENCHMARK.parents[1])
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"fit_seconds", "bootstrap_seconds", "peers", "coverage", "sprt", "adaptive_games_share"} <= set(found)
    assert set(found["peers"]) == {"choix", "evalica"}
    assert all(peer["fit_seconds"] > 0 for peer in found["peers"].values())
    assert {"alpha", "beta"} <= set(found["sprt"])
    assert 0 < found["adaptive_games_share"] <= 1
