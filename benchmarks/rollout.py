"""Tokens per second of sampled debates, beside plain calls of ``model.generate``.

    python benchmarks/rollout.py [--json] [--quick] [--only hf|vllm] [--model smollm2] [--device cuda --dtype bfloat16]

Two figures for each model of the backend ``hf``, and one of the backend ``vllm`` (`rollout_vllm`), where vLLM is
installed. ``vs_generate_per_turn``: debates, 64 in flight, sampled by the running batch of the
backend ``hf``, over the same debates with one ``generate`` call a turn. ``vs_one_batched_generate``: 64 contexts that
have been collected in one call of the backend, over one padded ``generate`` call; the smaller of two ratios, for the
first turns of these debates, which share their instructions, and for contexts that have nothing in common. All count
sampled tokens, end tokens included. On a CPU seconds are CPU seconds of the process, on one thread; contestants take
turns, and medians are reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import rollout_vllm
import torch
import transformers

from arena.agents.backend_hf import ContinuousHFBackend
from arena.agents.models import Model, open_model
from arena.agents.types import Completion, SampleRequest
from arena.protocols.records import Sampling

MODELS: dict[str, Any] = {
    "smollm2": "smollm2",
    "tiny": {"kind": "tiny", "words": "w{0..997}", "hidden": 64, "layers": 2, "max_length": 1024},
}
"""Name -> spec."""

Draw = Callable[[SampleRequest], Awaitable[Completion]]


@dataclass(frozen=True)
class Work:
    """Sizes of the debates, in tokens."""

    debates: int = 64
    """In flight, and in all."""
    alone: int = 4
    """Debates of the contestant whose speed does not depend on how many are in flight."""
    turns: int = 4
    """Of a debate; two speakers take turns."""
    shared: int = 48
    """Instructions, the same for all."""
    own: int = 24
    """Question and side, of each speaker of each debate."""
    between: int = 12
    """What stands between two turns of a speaker, beside what the other one said."""
    shortest: int = 6
    longest: int = 24
    """Limits of turns, drawn evenly between both; few turns of an untrained speaker end by themselves."""


QUICK = Work(debates=8, alone=1, turns=2)


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    torch.set_num_threads(options.threads)
    os.environ["OMP_NUM_THREADS"] = str(options.threads)  # vLLM's engine is a process of its own
    found = {} if options.only == "vllm" else {name: _measure(name, options) for name in options.model or MODELS}
    figures = ("vs_generate_per_turn", "vs_one_batched_generate")
    worst = {figure: min((one[figure] for one in found.values()), default=None) for figure in figures}
    engine = _measure_vllm(options)
    if options.json:
        print(json.dumps({**worst, "models": found, "vllm": engine}))
    else:
        _print_table(found, engine)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--quick", action="store_true", help="a few short debates: whether it runs, not how fast")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each figure (default 3)")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="measure this one; repeatable")
    parser.add_argument("--only", choices=["hf", "vllm"], help="measure this backend alone")
    parser.add_argument("--device", default="cpu", help="where to sample (default cpu)")
    parser.add_argument("--dtype", help="float32, bfloat16 or float64; default: the model's")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads (default 1)")
    return parser.parse_args()


def _measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Medians of one model."""
    work = QUICK if options.quick else Work()
    model = open_model(MODELS[name])
    backend = ContinuousHFBackend(model, device=options.device, dtype=options.dtype)
    seen: dict[str, list[float]] = {}
    apart = replace(work, shared=0, own=work.own + work.shared)
    contestants: dict[str, Callable[[], int]] = {
        "running_batch": lambda: play(backend.draw, model, work, work.debates),
        "generate_per_turn": lambda: play(_one_call(model), model, work, work.alone),
        "one_call": lambda: _tokens(answer.ids for answer in backend.generate(_collected(model, work))),
        "one_generate": lambda: _tokens(_generate(model, _collected(model, work))),
        "one_call_apart": lambda: _tokens(answer.ids for answer in backend.generate(_collected(model, apart))),
        "one_generate_apart": lambda: _tokens(_generate(model, _collected(model, apart))),
    }
    _generate(model, _collected(model, QUICK)[:2])
    for repeat in range(options.repeats):
        for contestant, run in contestants.items():
            backend.invalidate()
            speed = _speed(run, options.device)
            seen.setdefault(contestant, []).append(speed)
            _tell(f"{name} {repeat + 1}/{options.repeats} {contestant} {speed:,.1f} tokens/s")
    median = {contestant: statistics.median(speeds) for contestant, speeds in seen.items()}
    batched = (median["one_call"] / median["one_generate"], median["one_call_apart"] / median["one_generate_apart"])
    return {
        "vs_generate_per_turn": median["running_batch"] / median["generate_per_turn"],
        "vs_one_batched_generate": min(batched),
        "sharing_instructions": batched[0],
        "nothing_in_common": batched[1],
        "tokens_per_second": median["running_batch"],
    }


def _measure_vllm(options: argparse.Namespace) -> dict[str, float] | dict[str, None]:
    """Medians of SmolLM2 over vLLM."""
    if options.only == "hf" or not rollout_vllm.installed():
        why = (
            "--only hf"
            if options.only == "hf"
            else "vLLM is not installed here: run it with .venv-vllm (make test-vllm)"
        )
        _tell(f"arena_over_engine is not measured: {why}")
        return {"arena_over_engine": None}
    work = QUICK if options.quick else Work()
    return rollout_vllm.measure(
        MODELS["smollm2"],
        debates=work.debates,
        turns=work.turns,
        tokens=work.longest,
        repeats=options.repeats,
        dtype=options.dtype,
        tell=_tell,
    )


def _tokens(answers: Iterable[Sequence[int]]) -> int:
    return sum(map(len, answers))


def _speed(run: Callable[[], int], device: str) -> float:
    """Tokens a second."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    start = clock()
    tokens = run()
    return tokens / (clock() - start)


# Debates


def play(draw: Draw, model: Model, work: Work, count: int) -> int:
    """Play debates, all in flight, and count the tokens that were sampled."""

    async def everything() -> int:
        return sum(await asyncio.gather(*(_debate(number, draw, model, work) for number in range(count))))

    return asyncio.run(everything())


async def _debate(number: int, draw: Draw, model: Model, work: Work) -> int:
    contexts = [_opening(number, speaker, model, work) for speaker in range(2)]
    rng, sampled = random.Random(f"limits {number}"), 0
    for turn in range(work.turns):
        context, other = contexts[turn % 2], contexts[1 - turn % 2]
        limit = rng.randint(work.shortest, work.longest)
        answer = await draw(SampleRequest(list(context), 1000 * number + turn, Sampling(), limit))
        sampled += len(answer.ids)
        context += answer.ids
        other += [*answer.ids, *_ids(f"between {turn}", work.between, model)]
    return sampled


def _opening(number: int, speaker: int, model: Model, work: Work) -> list[int]:
    # Questions differ in length.
    own = work.own + random.Random(f"length {number}").randint(-8, 8)
    return _ids("instructions", work.shared, model) + _ids(f"question {number} {speaker}", own, model)


def _ids(seed: str, count: int, model: Model) -> list[int]:
    rng, ends = random.Random(seed), set(model.encoder.end_ids)
    ordinary = range(3, model.base.config.vocab_size)
    return [token for token in rng.choices(ordinary, k=count) if token not in ends]


def _collected(model: Model, work: Work) -> list[SampleRequest]:
    """The first turn of every debate, with one limit for all, as ``generate`` has it."""
    return [
        SampleRequest(_opening(number, 0, model, work), number, Sampling(), work.longest)
        for number in range(work.debates)
    ]


# model.generate


def _one_call(model: Model) -> Draw:
    async def draw(request: SampleRequest) -> Completion:
        (ids,) = _generate(model, [request])
        return Completion(tuple(ids), (0.0,) * len(ids), "length")

    return draw


def _generate(model: Model, requests: Sequence[SampleRequest]) -> list[list[int]]:
    """What one ``generate`` call samples: contexts padded on the left, answers up to their end token."""
    network: Any = model.network
    widest = max(len(request.ids) for request in requests)
    rows = [[0] * (widest - len(request.ids)) + list(request.ids) for request in requests]
    mask = [[0] * (widest - len(request.ids)) + [1] * len(request.ids) for request in requests]
    ends = list(model.encoder.end_ids)
    with torch.inference_mode():
        drawn = network.generate(
            input_ids=torch.tensor(rows, device=network.device),
            attention_mask=torch.tensor(mask, device=network.device),
            max_new_tokens=requests[0].max_tokens,
            do_sample=True,
            temperature=1.0,
            top_k=0,
            top_p=1.0,
            pad_token_id=0,
            eos_token_id=ends,
        )
    return [_to_end(row, ends) for row in drawn[:, widest:].tolist()]


def _to_end(ids: list[int], ends: list[int]) -> list[int]:
    stop = next((place for place, token in enumerate(ids) if token in ends), len(ids) - 1)
    return ids[: stop + 1]


def _print_table(found: dict[str, dict[str, float]], engine: dict[str, float] | dict[str, None]) -> None:
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, {platform.machine()}"
    print(f"{versions}; medians of sampled tokens per second")
    if found:
        print(f"\n{'':12}{'tokens/s':>10}{'/ generate per turn':>22}{'/ one batched generate':>25}")
    for name, one in found.items():
        ratios = f"{one['vs_generate_per_turn']:>22.2f}{one['vs_one_batched_generate']:>25.2f}"
        print(f"{name:12}{one['tokens_per_second']:>10,.0f}{ratios}")
    if engine["arena_over_engine"] is not None:
        print(f"\n{'':12}{'tokens/s':>10}{'/ bare engine':>22}")
        print(f"{'vllm':12}{engine['tokens_per_second']:>10,.0f}{engine['arena_over_engine']:>22.3f}")


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
