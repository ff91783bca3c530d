"""What the engine itself costs, beside the same debate driven by other frameworks.

    pip install -e '.[bench]'
    python benchmarks/engine.py [--json] [--quick] [--repeats 5]

Two figures. ``debates_per_second``: seven-turn debates per second of CPU time, with speakers that answer at once.
``critical_path_ratio``: with turns that take 50 ms and 512 debates in flight, how much longer it all takes than the
turns alone would (1 is best). Every measurement is a fresh process; contestants take turns, so that a machine whose
speed drifts treats them alike; medians are reported.

All contestants render the same prompts and say the same. Only arena also keeps what was sampled, token by token, and
commits every debate to SQLite: the others keep texts in memory and let go of them.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import json
import platform
import statistics
import subprocess
import sys
import time

from workload import IN_FLIGHT, LATENCY, TURNS

CONTESTANTS = {
    "arena": ("debate-arena", "with_arena"),
    "langgraph": ("langgraph", "with_langgraph"),
    "pydantic-graph": ("pydantic-graph", "with_pydantic_graph"),
    "autogen-agentchat": ("autogen-agentchat", "with_autogen"),
}
"""Name -> distribution that must be installed, and the file here that plays the debate with it."""

# Peers play fewer debates, or it would take minutes: both figures are per debate.
_DEBATES = {"arena": 4000}
_PEER_DEBATES = 500
_WAVES = {"arena": 10}
_PEER_WAVES = 3


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    if options.worker:
        name, figure, size = options.worker
        print(json.dumps(_measure(name, figure, int(size))))
        return
    names = [name for name in options.only or CONTESTANTS if _is_installed(name)]
    found: dict[str, dict[str, list[float]]] = {name: {} for name in names}
    for repeat in range(options.repeats):
        for figure in ("debates_per_second", "critical_path_ratio"):
            for name in names:
                value = _in_a_process(name, figure, _size(name, figure, options.quick))
                found[name].setdefault(figure, []).append(value)
                _tell(f"{repeat + 1}/{options.repeats} {name} {figure} {value:.4g}")
    medians = {
        name: {figure: statistics.median(values) for figure, values in figures.items()}
        for name, figures in found.items()
    }
    if options.json:
        peers = {name: figures for name, figures in medians.items() if name != "arena"}
        print(json.dumps({**medians.get("arena", {}), "peers": peers}))
    else:
        _print_table(found, medians)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work: whether it runs, not how fast")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each figure (default 5)")
    parser.add_argument("--only", action="append", choices=list(CONTESTANTS), help="measure this one; repeatable")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _is_installed(name: str) -> bool:
    distribution = CONTESTANTS[name][0]
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        _tell(f"{name} is left out: {distribution} is not installed (pip install -e '.[bench]')")
        return False
    return True


def _size(name: str, figure: str, quick: bool) -> int:
    """How many debates."""
    if figure == "debates_per_second":
        count = _DEBATES.get(name, _PEER_DEBATES)
        return count // 10 if quick else count
    return IN_FLIGHT * (1 if quick else _WAVES.get(name, _PEER_WAVES))


def _in_a_process(name: str, figure: str, size: int) -> float:
    command = [sys.executable, __file__, "--worker", name, figure, str(size)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def _measure(name: str, figure: str, size: int) -> float:
    play = importlib.import_module(CONTESTANTS[name][1]).play
    latency = LATENCY if figure == "critical_path_ratio" else 0.0
    play(20, latency)  # imports, caches
    gc.collect()
    if figure == "debates_per_second":
        start = time.process_time()
        play(size, latency)
        return size / (time.process_time() - start)
    start = time.perf_counter()
    play(size, latency)
    return (time.perf_counter() - start) / (size / IN_FLIGHT * TURNS * LATENCY)


def _print_table(found: dict[str, dict[str, list[float]]], medians: dict[str, dict[str, float]]) -> None:
    print(f"Python {platform.python_version()}, {platform.machine()}; medians, with the range in brackets\n")
    print(f"{'':28}{'debates per CPU second':>26}{'time / critical path':>26}")
    for name, figures in found.items():
        speeds, ratios = figures["debates_per_second"], figures["critical_path_ratio"]
        version = importlib.metadata.version(CONTESTANTS[name][0])
        speed = f"{statistics.median(speeds):,.0f} [{min(speeds):,.0f} .. {max(speeds):,.0f}]"
        ratio = f"{statistics.median(ratios):.3f} [{min(ratios):.3f} .. {max(ratios):.3f}]"
        print(f"{f'{name} {version}':28}{speed:>26}{ratio:>26}")
    peers = [figures["debates_per_second"] for name, figures in medians.items() if name != "arena"]
    if peers and "arena" in medians:
        print(f"\narena plays {medians['arena']['debates_per_second'] / max(peers):.1f} times as many as the best peer")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
