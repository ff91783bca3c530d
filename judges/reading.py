"""Log-probabilities of given continuations under a local network, the same to the last bit in every batch.

The last bits of a matrix product depend on its shape. Small networks therefore work on tiles of a fixed number of rows,
each row padded at the end to a length that depends on itself alone; large ones take one prompt at a time, which on a
CPU costs next to nothing. Padding comes after everything that is read, so causal attention needs no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from arena.agents.models import Model

__all__ = ["NetworkReader", "last_hidden"]

Ids = tuple[int, ...]
SMALL = 2_000_000
"""Parameters below which a tile costs less than the overhead of its calls."""


def last_hidden(model: Model, ids_BT: Tensor) -> Tensor:
    """Hidden states (B, T, H) after the last layer, without the logits."""
    base: Any = model.base
    hidden: Tensor = base.base_model(input_ids=ids_BT, use_cache=False).last_hidden_state
    return hidden


class NetworkReader:
    """Scores continuations at temperature 1.

    Args:
        model: the language model; run in evaluation mode.
        tile: rows computed at once; 128 for networks of less than two million parameters, else 1.
    """

    def __init__(self, model: Model, *, tile: int | None = None) -> None:
        self.model = model
        small = sum(weight.numel() for weight in model.base.parameters()) < SMALL
        self.tile = tile or (128 if small else 1)
        self._round = 4 if self.tile > 1 else 1

    def score(self, prompts: Sequence[Ids], continuations: Sequence[Sequence[Ids]]) -> list[list[float]]:
        """For each prompt the summed log-prob in nats of each of its continuations (at least one token each)."""
        found = [[0.0] * len(options) for options in continuations]
        needs: dict[Ids, list[tuple[int, int, int, int]]] = {}  # row -> (position, token, prompt, option)
        for number, (prompt, options) in enumerate(zip(prompts, continuations, strict=True)):
            for option, ids in enumerate(options):
                wanted = needs.setdefault(prompt + ids[:-1], [])
                for offset, token in enumerate(ids, start=len(prompt) - 1):
                    wanted.append((offset, token, number, option))
        buckets: dict[int, list[Ids]] = {}
        for row in needs:
            buckets.setdefault(-(-len(row) // self._round) * self._round, []).append(row)
        base: Any = self.model.base
        base.eval()
        with torch.inference_mode():
            for length, rows in buckets.items():
                for start in range(0, len(rows), self.tile):
                    self._read(rows[start : start + self.tile], length, needs, found)
        return found

    def _read(
        self, rows: list[Ids], length: int, needs: dict[Ids, list[tuple[int, int, int, int]]], found: list[list[float]]
    ) -> None:
        base: Any = self.model.base
        padded = [row + (0,) * (length - len(row)) for row in rows]
        padded += [(0,) * length] * (self.tile - len(rows))
        hidden_BTH = last_hidden(self.model, torch.tensor(padded, device=base.device))
        place: dict[tuple[int, int], int] = {}
        picks: list[tuple[int, int, int, int]] = []
        for index, row in enumerate(rows):
            for position, token, number, option in needs[row]:
                picks.append((place.setdefault((index, position), len(place)), token, number, option))
        spots = [*place] + [(0, 0)] * (-len(place) % self.tile)
        at_B, at_T = torch.tensor(spots, device=base.device).unbind(1)
        # One product of the same shape for every tile of positions.
        logps_PV = torch.cat(
            [
                torch.log_softmax(base.get_output_embeddings()(hidden_BH).float(), dim=-1)
                for hidden_BH in torch.split(hidden_BTH[at_B, at_T], self.tile)
            ]
        )
        spots_N, tokens_N = torch.tensor([pick[:2] for pick in picks], device=base.device).unbind(1)
        for (_, _, number, option), logp in zip(picks, logps_PV[spots_N, tokens_N].tolist(), strict=True):
            found[number][option] += logp
