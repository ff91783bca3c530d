"""A tiny model and its data, and one rank of two that share an optimizer step: for `test_twenty_failures`.

    python two_ranks.py RANK FOLDER

Both ranks are given all sequences of the step, so that the weights of their tokens are those of the whole step. Each
computes half of the packs, and the gradients are added up before the optimizer sees them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed
from transformers import LlamaConfig, LlamaForCausalLM

from arena.training import KLConfig, Learner, LearnerConfig, ObjectiveConfig, TrainingSequence

RANKS = 2
STEPS: list[dict[str, Any]] = [
    {"aggregate": "token_mean"},
    {"aggregate": "group_token_mean"},
    {"aggregate": "seq_mean_token_mean"},
    {"aggregate": "seq_mean_token_sum"},
    {"aggregate": "token_mean", "level": "sequence"},
]
"""Objectives whose step is compared."""


def network() -> Any:
    """Two layers in float64, norms included: the library's own pass through float32."""
    config = LlamaConfig(
        vocab_size=19, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        tie_word_embeddings=False, initializer_range=0.3, max_position_embeddings=64, pad_token_id=0, eos_token_id=0,
        bos_token_id=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net: Any = LlamaForCausalLM(config).double().eval()
    for name, module in list(net.named_modules()):
        if type(module).__name__.endswith("RMSNorm"):
            norm = torch.nn.RMSNorm(module.weight.shape[0], eps=module.variance_epsilon).double()
            net.set_submodule(name, norm)
    return net


def learner(kind: type[Learner] = Learner, **config: Any) -> Learner:
    """Whose reference is not its policy."""
    net = network()
    made = kind(
        SimpleNamespace(network=net), LearnerConfig(**{"clip_norm": None, "kl": KLConfig(beta=0.3), **config}), seed=0
    )
    made.set_reference()
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1.1)
    return made


def sequences() -> list[TrainingSequence]:
    """Eight, with one to eight trained tokens, in groups of unequal size."""
    made = []
    for number in range(8):
        count = number + 1
        ids = [1, 2 + number % 3, *((5 * number + 3 * place) % 17 + 2 for place in range(count))]
        logps = [-2.0 - 0.1 * ((number + place) % 7) for place in range(count)]
        advantages = [(-1.0) ** number * (0.5 + 0.2 * place) for place in range(count)]
        group = "few" if number < 3 else "many"
        places = list(range(2, 2 + count))
        made.append(TrainingSequence(ids, places, logps, [0] * count, "a", f"e{number}", 2, advantages, group))
    return made


def step(
    made: Learner, given: Sequence[TrainingSequence], reduce: Callable[[torch.Tensor], object] | None = None
) -> tuple[dict[str, torch.Tensor], float]:
    """The gradient that an update hands to the optimizer, after ``reduce`` has seen it, and the loss."""
    found: dict[str, torch.Tensor] = {}

    def catch() -> None:
        for name, weight in made.parameters.items():
            assert weight.grad is not None
            if reduce is not None:
                reduce(weight.grad)
            found[name] = weight.grad.clone()

    optimizer: Any = made._optimizer
    optimizer.step = catch
    metrics = made.update(given)
    return found, metrics["loss"]


class Half(Learner):
    """Computes every second pack of a step."""

    rank = 0

    def _batch(self, *arguments: Any) -> Any:
        batch = super()._batch(*arguments)
        batch.packs = batch.packs[self.rank :: RANKS]
        return batch


def main(rank: int, folder: Path) -> None:
    """Be one of the ranks, and leave the gradients of all steps in a file."""
    torch.set_num_threads(1)
    Half.rank = rank
    store = f"file://{folder / 'store'}"
    distributed.init_process_group("gloo", store, timedelta(seconds=120), world_size=RANKS, rank=rank)
    found = []
    for objective in STEPS:
        made = learner(Half, micro_batch=1, objective=ObjectiveConfig(**objective))
        gradients, loss = step(made, sequences(), distributed.all_reduce)
        total = torch.tensor(loss, dtype=torch.float64)
        distributed.all_reduce(total)
        found.append({**gradients, "loss": total})
    torch.save(found, folder / f"rank{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
