"""Does an audit find the biases that a judge is known to have?

    python benchmarks/audit.py [--json] [--seeds 20] [--n 2000]

A scripted judge with planted biases is audited once a seed: other questions, other coins, another design. ``inside``
counts how often each planted number lies in the audit's interval, ``width`` is that of the widest interval, and
``seconds`` are CPU seconds of the process for one audit.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from arena.audit import AuditConfig, run_audit

SPEC = "biased:accuracy=.8,position=.15,length=.1,self=.1"
PLANTED = {"accuracy": 0.8, "position_bias": 0.15, "length_bias": 0.1, "self_preference": 0.1}


def audit(seed: int, n: int) -> dict[str, Any]:
    """The document of one audit."""
    config = AuditConfig(SPEC, f"claims:test={n},train=0", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        return run_audit(config, Path(folder) / "audit", created="")


def main() -> None:
    """Audit, and print one line a planted number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--n", type=int, default=2000, help="questions an audit")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    options = parser.parse_args()
    start = time.process_time()
    found = [audit(seed, options.n) for seed in range(options.seeds)]
    seconds = (time.process_time() - start) / options.seeds
    inside = {
        name: sum(each[name]["low"] <= value <= each[name]["high"] for each in found) for name, value in PLANTED.items()
    }
    width = {name: max(each[name]["high"] - each[name]["low"] for each in found) for name in PLANTED}
    for name, value in PLANTED.items():
        print(f"{name:16} {value:.2f} inside {inside[name]} of {options.seeds} intervals, widest {width[name]:.3f}")
    print(f"{seconds:.1f} CPU seconds an audit of {options.n} questions")
    if options.json:
        print(json.dumps({"inside": inside, "of": options.seeds, "width": width, "seconds": seconds}))


if __name__ == "__main__":
    main()
