"""Log-probs of given continuations, from contexts that are forwarded once each."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from arena.agents.hf.contexts import Contexts, Flight
from arena.agents.hf.prefixes import Key
from arena.agents.types import ScoreRequest

__all__ = ["score"]

_Job = tuple[int, int, int]
"""(row of the flight, request, place of the continuation)."""


def score(contexts: Contexts, requests: Sequence[ScoreRequest], adapter: str | None) -> list[list[float]]:
    """Summed log-prob in nats of each continuation after its context; 0 for an empty one."""
    askers: dict[Key, list[int]] = {}
    for number, request in enumerate(requests):
        askers.setdefault(Key(adapter, tuple(request.ids)), []).append(number)
    sums = [[0.0] * len(request.continuations) for request in requests]
    for batch in contexts.batches(list(askers)):
        logits_UV, flight = contexts.prefill(batch)
        contexts.keep(flight)
        first_UV = logits_UV.double().log_softmax(-1)
        jobs = [
            (row, number, place)
            for row, known in enumerate(batch)
            for number in askers[known.key]
            for place, ids in enumerate(requests[number].continuations)
            if len(ids)
        ]
        for row, number, place in jobs:
            sums[number][place] = float(first_UV[row, requests[number].continuations[place][0]])
        longer = [job for job in jobs if len(requests[job[1]].continuations[job[2]]) > 1]
        for start in range(0, len(longer), contexts.max_batch):
            _add_rest(contexts, requests, longer[start : start + contexts.max_batch], flight, sums)
    return sums


def _add_rest(
    contexts: Contexts,
    requests: Sequence[ScoreRequest],
    jobs: Sequence[_Job],
    flight: Flight,
    sums: list[list[float]],
) -> None:
    """Add the log-probs of the second and later tokens of continuations."""
    network = contexts.network
    texts = [tuple(requests[number].continuations[place]) for _, number, place in jobs]
    fed = max(map(len, texts)) - 1
    branch = contexts.selected(flight, [row for row, _, _ in jobs])
    width = branch.width
    # Padded on the right: later slots are invisible to the tokens that count, so no mask is needed for them.
    ids = torch.tensor([text[:-1] + (0,) * (fed + 1 - len(text)) for text in texts], device=network.device)
    starts = torch.tensor(branch.lengths, device=network.device)
    positions = starts[:, None] + torch.arange(fed, device=network.device)
    if branch.valid is not None:
        branch.valid = torch.cat([branch.valid, branch.valid.new_ones(len(jobs), fed)], dim=1)
    if network.model.max_length is not None:
        positions.clamp_(max=network.model.max_length - 1)
    logits = network.forward(ids, positions, branch.cache, branch.valid, width, branch.adapters, keep=fed)
    for index, ((_, number, place), text) in enumerate(zip(jobs, texts, strict=True)):
        logps = logits[index, : len(text) - 1].double().log_softmax(-1)
        sums[number][place] += float(logps[torch.arange(len(text) - 1), list(text[1:])].sum())
