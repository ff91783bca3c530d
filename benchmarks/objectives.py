"""What log-probs of tokens cost from hidden states on, forward and backward: time and memory.

    pip install trl cut-cross-entropy  # to compare with; they may be missing, and the second needs CUDA
    python benchmarks/objectives.py [--json] [--quick] [--repeats 3] [--device cuda]

2,048 hidden states of width 576 (SmolLM2's) and an output layer of 49,152 or 128,256 tokens, in float32 and bfloat16,
frozen (as under LoRA) or trained. Contestants: log_softmax of all logits and a gather (`naive`), TRL's chunked function
if TRL is installed, on CUDA Apple's kernels (`kernel`, cut-cross-entropy) if they are, and
`arena.training.objectives.token_logps`. Every measurement is a fresh process; contestants take turns; medians are
reported. Seconds are those of the processor (of the clock on CUDA or with several threads). Memory is the largest
resident size above what stood before the first call, its gradients included (on CUDA what the allocator peaked at).
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROWS, WIDTH = 2048, 576
VOCABULARIES = {"49k": 49_152, "128k": 128_256}
DTYPES = ("float32", "bfloat16")
HEADS = ("frozen", "trained")
METHODS = ("naive", "trl", "kernel", "arena")
NEEDS = {"trl": "trl", "kernel": "cut_cross_entropy"}
"""Contestant -> package that it takes."""
CHUNK = 32_768
"""Columns of TRL's tiles, as its trainers take them."""


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    if options.worker:
        print(json.dumps(_measure(*options.worker, options)))
        return
    methods = [name for name in options.only or METHODS if name != "kernel" or options.device != "cpu"]
    for name, package in NEEDS.items():
        if name in methods and importlib.util.find_spec(package) is None:
            methods.remove(name)
            print(f"{name} is left out: {package} is not installed", file=sys.stderr)
    cases = [(v, d, h) for v in (["49k"] if options.quick else VOCABULARIES) for d in DTYPES for h in HEADS]
    found: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for repeat in range(options.repeats):
        for case in cases:
            for method in _fit(methods, case):
                found.setdefault((*case, method), []).append(_in_a_process(method, *case, options))
                last = found[*case, method][-1]
                print(
                    f"{repeat + 1}/{options.repeats} {' '.join(case)} {method}: {last['seconds']:.2f} s, "
                    f"{last['mib']:.0f} MiB",
                    file=sys.stderr,
                )
    medians = {
        key: {name: statistics.median(one[name] for one in values) for name in ("seconds", "mib")}
        for key, values in found.items()
    }
    if options.json:
        print(json.dumps(_tree(medians)))
    else:
        _print(medians, cases, methods)


def _fit(methods: list[str], case: tuple[str, str, str]) -> list[str]:
    """Contestants that can do a case: cut-cross-entropy has no gradient in float32."""
    return [name for name in methods if name != "kernel" or case[1] == "bfloat16"]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--quick", action="store_true", help="few rows and one vocabulary: whether it runs")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each (default 3)")
    parser.add_argument("--only", action="append", choices=METHODS, help="a contestant; may be repeated (default all)")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of torch (default 1)")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def _in_a_process(method: str, vocabulary: str, dtype: str, head: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", method, vocabulary, dtype, head]
    command += ["--device", options.device, "--threads", str(options.threads), *(["--quick"] if options.quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def _measure(method: str, vocabulary: str, dtype: str, head: str, options: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.set_num_threads(options.threads)
    random = torch.Generator().manual_seed(0)
    size, kind = VOCABULARIES[vocabulary], getattr(torch, dtype)
    rows = 64 if options.quick else ROWS
    hidden = torch.randn(rows, WIDTH, generator=random).to(options.device, kind).requires_grad_()
    weight = (torch.randn(size, WIDTH, generator=random) / WIDTH**0.5).to(options.device, kind)
    weight.requires_grad_(head == "trained")
    targets = torch.randint(size, (rows,), generator=random).to(options.device)
    function = _FUNCTIONS[method]()
    small = hidden[:2].detach().requires_grad_()
    function(small, weight.detach(), targets[:2]).sum().backward()  # imports, first calls of the kernels
    # What one thread computes is not longer because other programs compute too.
    clock = time.process_time if options.device == "cpu" and options.threads == 1 else time.perf_counter
    before = _peak(options.device, reset=True)
    start = clock()
    function(hidden, weight, targets).mean().backward()
    _wait(options.device)
    return {"seconds": clock() - start, "mib": (_peak(options.device) - before) / 2**20}


def _naive() -> Callable[..., Any]:
    import torch

    def naive(hidden: Any, weight: Any, targets: Any) -> Any:
        return torch.log_softmax((hidden @ weight.T).float(), -1).gather(1, targets[:, None])[:, 0]

    return naive


def _trl() -> Callable[..., Any]:
    from trl.kernels import ChunkedLogProbFunction

    return lambda hidden, weight, targets: ChunkedLogProbFunction.apply(
        hidden, weight, None, targets, 1.0, CHUNK, None, 1.0, ()
    )[0]


def _kernel() -> Callable[..., Any]:
    from cut_cross_entropy import linear_cross_entropy  # type: ignore[import-not-found]

    # Without a filter: by default, gradients that are small are dropped.
    return lambda hidden, weight, targets: (
        -linear_cross_entropy(hidden, weight, targets, reduction="none", filter_eps=None)
    )


def _arena() -> Callable[..., Any]:
    from arena.training.objectives.token_logps import token_logps

    return token_logps


_FUNCTIONS: dict[str, Callable[[], Callable[..., Any]]] = {
    "naive": _naive,
    "trl": _trl,
    "kernel": _kernel,
    "arena": _arena,
}


def _peak(device: str, *, reset: bool = False) -> int:
    """Bytes: on a CPU the largest resident size since the last reset (Linux), or else so far."""
    if device == "cpu":
        status = Path("/proc/self/status")
        if not status.is_file():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if reset:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is resident now
        return int(next(line for line in status.read_text().splitlines() if line.startswith("VmHWM")).split()[1]) * 1024
    import torch

    if reset:
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return torch.cuda.max_memory_allocated()


def _wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def _tree(medians: dict[tuple[str, ...], dict[str, float]]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for (vocabulary, dtype, head, method), values in medians.items():
        tree.setdefault(vocabulary, {}).setdefault(dtype, {}).setdefault(head, {})[method] = values
    return tree


def _print(
    medians: dict[tuple[str, ...], dict[str, float]], cases: list[tuple[str, str, str]], methods: list[str]
) -> None:
    print(f"{'vocabulary, type, head':28}" + "".join(f"{method:>22}" for method in methods))
    for case in cases:
        cells = []
        for method in methods:
            one = medians.get((*case, method))
            cells.append("" if one is None else f"{one['seconds']:.2f} s, {one['mib']:,.0f} MiB")
        print(f"{', '.join(case):28}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
