"""What an optimizer step costs, beside TRL's GRPOTrainer: seconds and memory, on one turn and on three.

    pip install trl  # to compare with; on a processor
    python benchmarks/training.py [--json] [--quick] [--repeats 3] [--model net] [--case single_turn]

The same weights, prompts, group sizes, numbers of tokens, AdamW (no decay), learning rate, clip of gradients and
objective (clipped ratio, group advantages, k3 to the reference with beta 0.04, mean over tokens), in float32 on one
thread, no checkpointing of activations:

    net        a Llama of 1.1 M parameters over 2,000 words, all of them trained; 8 prompts, groups of 8
    smollm2    SmolLM2-135M, LoRA of rank 8 on all linear layers; 2 prompts, groups of 8

``single_turn`` is a whole step: rollouts of 64 tokens after prompts of 96 (all of that length; end tokens end nothing),
rewards that cost nothing, the reference, forward, backward, update. Arena samples with its backend ``hf``, TRL with
``model.generate``. ``three_turns`` is the part of the learner alone, from finished episodes on: a prompt of 96 tokens,
three turns of 32 in one growing context, 4 tokens (what a chat puts between turns) before the second and the third.
TRL gets them once as separate samples, each a turn with all before it as its prompt, a third of them at a time, so that
it holds no more rows at once than otherwise; and once packed, one sample an episode with a mask of what was not
sampled. What both sides do not share: arena computes the prompt of a group once, with gradient, and splits a step into
passes of one or a few groups, as its default has it; TRL's batch is the whole step (a third of it, if separate), and a
smaller one with accumulation would take less memory there, too.

Every measurement is a fresh process with one step to warm up; contestants take turns. A step's seconds are CPU seconds
of its process, which others on the machine do not lengthen much; those of a process are the median of its steps, and
the ratio is the median over repeats of neighbours. ``memory_ratio`` is the larger of two, that of the largest resident
size above what stood before the first step, and that of the whole process, libraries and weights included; of TRL's
two ways to be fed three turns, the one that takes less memory counts.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

CASES = ("single_turn", "three_turns")
CONTESTANTS = {"single_turn": ("arena", "trl"), "three_turns": ("arena", "trl_separate", "trl_packed")}
SETTINGS = {"lr": 1e-4, "beta": 0.04, "clip": 1.0}


@dataclass(frozen=True)
class Work:
    """Sizes of a step, in tokens."""

    spec: Any
    """Of the model."""
    lora: bool
    prompts: int
    group: int = 8
    prompt: int = 96
    new: int = 64
    """Sampled, where there is one turn."""
    turn: int = 32
    """Sampled in each of three turns."""
    between: int = 4
    """Context before the second and the third turn."""


MODELS = {
    "net": Work(
        {"kind": "tiny", "words": "w{0..1999}", "hidden": 128, "intermediate": 384, "layers": 4, "max_length": 512},
        lora=False,
        prompts=8,
    ),
    "smollm2": Work("smollm2", lora=True, prompts=2),
}


def quick(work: Work) -> Work:
    """The same in small."""
    return replace(work, prompts=1, group=2, prompt=12, new=4, turn=4, between=2)


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.worker:
        print(json.dumps(_measure(*options.worker, options)))
        return
    if importlib.util.find_spec("trl") is None:
        raise SystemExit("there is nothing to compare with: pip install trl")
    cases = options.case or CASES
    found = {name: {case: _compare(name, case, options) for case in cases} for name in options.model or MODELS}
    worst: dict[str, Any] = {}
    for case in cases:
        ratios = [one[case]["ratios"] for one in found.values()]
        worst[case] = {key: (max if key == "memory_ratio" else min)(one[key] for one in ratios) for key in ratios[0]}
    if options.json:
        print(json.dumps({**worst, "models": found}))
    else:
        _print_table(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--quick", action="store_true", help="a few short rollouts: whether it runs, not how fast")
    parser.add_argument("--repeats", type=int, default=3, help="processes of each contestant (default 3)")
    parser.add_argument("--steps", type=int, default=2, help="measured steps of a process (default 2)")
    parser.add_argument("--model", action="append", choices=list(MODELS), help="measure this one; repeatable")
    parser.add_argument("--case", action="append", choices=CASES, help="measure this one; repeatable")
    parser.add_argument("--worker", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare(name: str, case: str, options: argparse.Namespace) -> dict[str, Any]:
    """Medians of each contestant, and of the ratios of neighbours."""
    seen: dict[str, list[dict[str, float]]] = {contestant: [] for contestant in CONTESTANTS[case]}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(options.repeats):
            for contestant, runs in seen.items():
                runs.append(_in_a_process(name, case, contestant, folder, options))
                _tell(f"{name} {case} {repeat + 1}/{options.repeats} {contestant}: " + _figures(runs[-1]))
    peers = [runs for contestant, runs in seen.items() if contestant != "arena"]
    speeds = [_ratio(peer, seen["arena"], "seconds") for peer in peers]
    # The peer that takes the least memory.
    memory = max(_ratio(seen["arena"], peer, key) for peer in peers for key in ("step_mib", "peak_mib"))
    ratios = dict(zip(("speed_ratio", "speed_ratio_packed"), speeds, strict=False)) | {"memory_ratio": memory}
    medians = {
        contestant: {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        for contestant, runs in seen.items()
    }
    return {"ratios": ratios, **medians}


def _ratio(above: list[dict[str, float]], below: list[dict[str, float]], key: str) -> float:
    return statistics.median(first[key] / second[key] for first, second in zip(above, below, strict=True))


def _in_a_process(name: str, case: str, contestant: str, folder: str, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--worker", name, case, contestant, folder, "--steps", str(options.steps)]
    done = subprocess.run(
        [*command, *(["--quick"] if options.quick else [])], stdout=subprocess.PIPE, text=True, check=True
    )
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


# One process ----------------------------------------------------------------------------------------------------------


class Clock:
    """CPU seconds of steps, and memory before the first one."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.before = 0.0

    def tick(self) -> None:
        """A step ends here, or the first one begins."""
        if not self.times:
            self.before = _resident()
        self.times.append(time.process_time())

    def figures(self) -> dict[str, float]:
        """Of the steps after the first one."""
        steps = [after - before for before, after in zip(self.times[1:], self.times[2:], strict=False)]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"seconds": statistics.median(steps), "step_mib": peak - self.before, "peak_mib": peak}


def _resident() -> float:
    """MiB now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _measure(name: str, case: str, contestant: str, folder: str, options: argparse.Namespace) -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    work = quick(MODELS[name]) if options.quick else MODELS[name]
    clock = Clock()
    if contestant == "arena":
        _arena(work, case, options.steps + 1, clock.tick)
    else:
        _trl(work, case, contestant, Path(folder) / name, options.steps + 1, clock.tick)
    return clock.figures()


def _trl(work: Work, case: str, contestant: str, folder: Path, steps: int, tick: Callable[[], None]) -> None:
    import training_trl

    from arena.agents.models import open_model

    vocabulary = _vocabulary(work)
    if work.spec == "smollm2":
        from arena.agents.smollm2 import smollm2_folder

        folder = smollm2_folder()
    elif not folder.is_dir():
        open_model(work.spec).save(folder)
    training_trl.train(
        folder,
        work,
        lora=work.lora,
        turns=None if case == "single_turn" else contestant.removeprefix("trl_"),
        episodes=_episodes(work, vocabulary),
        prompts=_prompts(work, vocabulary),
        settings=SETTINGS,
        steps=steps,
        tick=tick,
    )


def _arena(work: Work, case: str, steps: int, tick: Callable[[], None]) -> None:
    from arena.agents.models import add_lora, open_model
    from arena.training.learner import KLConfig, Learner, LearnerConfig

    model = open_model(work.spec)
    if work.lora:
        model = add_lora(model)
    config = LearnerConfig(
        lr=SETTINGS["lr"],
        betas=(0.9, 0.999),
        clip_norm=SETTINGS["clip"],
        kl=KLConfig(estimator="k3", beta=SETTINGS["beta"]),
    )
    learner = Learner(model, config, seed=0, adapter="default")
    learner.set_reference(adapter_off=work.lora)
    if case == "single_turn":
        play = _player(work, model)
        tick()
        for step in range(steps):
            learner.update(play(step))
            tick()
    else:
        sequences = _finished(work)
        scores = learner.score(sequences, reference=False).logps.tolist()
        for sequence in sequences:
            sequence.logps, scores = scores[: len(sequence.positions)], scores[len(sequence.positions) :]
        tick()
        for _ in range(steps):
            learner.update(sequences)
            tick()


def _player(work: Work, model: Any) -> Callable[[int], list[Any]]:
    """What makes the sequences of a step by sampling."""
    from arena.agents.backend_hf import HFBackend
    from arena.agents.types import SampleRequest
    from arena.protocols.records import Sampling

    class Endless(HFBackend):
        end_ids = ()  # as on the other side

    backend = Endless(model)
    prompts = _prompts(work, _vocabulary(work))

    def play(step: int) -> list[Any]:
        backend.update(f"policy@v{step}")
        asked = [
            SampleRequest(prompt, 10_000 * step + 100 * group + sample, Sampling(), work.new)
            for group, prompt in enumerate(prompts)
            for sample in range(work.group)
        ]
        answers = backend.generate(asked)
        return [
            _sequence(
                list(request.ids), [(list(answer.ids), True)], number // work.group, number % work.group, answer.logps
            )
            for number, (request, answer) in enumerate(zip(asked, answers, strict=True))
        ]

    return play


def _finished(work: Work) -> list[Any]:
    vocabulary = _vocabulary(work)
    return [
        _sequence(prompt, pieces, group, sample)
        for group, (prompt, rollouts) in enumerate(
            zip(_prompts(work, vocabulary), _episodes(work, vocabulary), strict=True)
        )
        for sample, pieces in enumerate(rollouts)
    ]


def _sequence(prompt: list[int], pieces: list[tuple[list[int], bool]], group: int, sample: int, logps: Any = ()) -> Any:
    from arena.training.sequences import TrainingSequence

    ids, positions, turns = list(prompt), [], []
    for number, (piece, own) in enumerate(pieces):
        if own:
            positions += range(len(ids), len(ids) + len(piece))
            turns += [number] * len(piece)
        ids += piece
    advantage = float(sample % 3 - 1)
    return TrainingSequence(
        ids=ids,
        positions=positions,
        logps=list(logps),
        turns=turns,
        role="speaker",
        episode=f"{group}/{sample}",
        prompt_length=len(prompt),
        advantages=[advantage] * len(positions),
        group=str(group),
    )


def _vocabulary(work: Work) -> int:
    return 49_152 if work.spec == "smollm2" else 2_003


def _ids(seed: str, count: int, vocabulary: int) -> list[int]:
    return random.Random(seed).choices(range(3, vocabulary), k=count)


def _prompts(work: Work, vocabulary: int) -> list[list[int]]:
    return [_ids(f"prompt {number}", work.prompt, vocabulary) for number in range(work.prompts)]


def _episodes(work: Work, vocabulary: int) -> list[list[list[tuple[list[int], bool]]]]:
    """By prompt and rollout: pieces of ids, and whether they were sampled."""
    lengths = (work.turn, work.between, work.turn, work.between, work.turn)
    return [
        [
            [
                (_ids(f"piece {prompt} {sample} {number}", length, vocabulary), number % 2 == 0)
                for number, length in enumerate(lengths)
            ]
            for sample in range(work.group)
        ]
        for prompt in range(work.prompts)
    ]


def _figures(run: dict[str, float]) -> str:
    return f"{run['seconds']:.2f} s, {run['step_mib']:,.0f} MiB of {run['peak_mib']:,.0f}"


def _print_table(found: dict[str, dict[str, Any]]) -> None:
    print("CPU seconds of an optimizer step; MiB above what stood before, of the whole process")
    for name, cases in found.items():
        for case, one in cases.items():
            print(f"\n{name}, {case.replace('_', ' ')}")
            for contestant in CONTESTANTS[case]:
                print(f"  {contestant:14}{_figures(one[contestant])}")
            print("  " + ", ".join(f"{key} {value:.2f}" for key, value in one["ratios"].items()))


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
