"""Log-probabilities of given continuations under a local network, the same to the last bit in every batch.

The last bits of a matrix product depend on its shape. Small networks therefore work on tiles of a fixed number of rows,
each row padded at the end to a length that depends on itself alone; large ones take one prompt at a time, which on a
CPU costs next to nothing, and go on from its keys and values where a continuation is longer than a token. Padding comes
after everything that is read, so causal attention needs no mask.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from arena.agents.models import Model
from arena.judges.forms import Ids

__all__ = ["NetworkReader", "last_hidden"]

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
        base: Any = model.base
        # Renamed in transformers 5; both names are in use.
        names = inspect.signature(base.base_model.forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"

    def score(self, prompts: Sequence[Ids], continuations: Sequence[Sequence[Ids]]) -> list[list[float]]:
        """For each prompt the summed log-prob in nats of each of its continuations (at least one token each)."""
        base: Any = self.model.base
        base.eval()
        with torch.inference_mode():
            if self.tile > 1:
                return self._tiled(prompts, continuations)
            known: dict[tuple[Ids, tuple[Ids, ...]], list[float]] = {}
            for prompt, options in zip(prompts, continuations, strict=True):
                key = (prompt, tuple(options))
                if key not in known:
                    known[key] = self._alone(*key)
            return [known[prompt, tuple(options)] for prompt, options in zip(prompts, continuations, strict=True)]

    def _tiled(self, prompts: Sequence[Ids], continuations: Sequence[Sequence[Ids]]) -> list[list[float]]:
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
        for length, rows in buckets.items():
            for start in range(0, len(rows), self.tile):
                self._read(rows[start : start + self.tile], length, needs, found)
        return found

    def _alone(self, prompt: Ids, options: tuple[Ids, ...]) -> list[float]:
        tails = {ids[:-1] for ids in options}
        tails = {one for one in tails if not any(one != other and one == other[: len(one)] for other in tails)}
        first_1V, cache = self._go_on(prompt, None, keep=tails != {()})
        found = {}
        for tail in sorted(tails):
            # A cache grows when it is read from, and not all sorts can be cut back.
            logps_TV = torch.cat([first_1V, self._go_on(tail, copy.deepcopy(cache))[0]]) if tail else first_1V
            for ids in options:
                if ids[:-1] == tail[: len(ids) - 1]:
                    found[ids] = float(logps_TV[torch.arange(len(ids)), list(ids)].sum())
        return [found[ids] for ids in options]

    def _go_on(self, ids: Ids, cache: Any, *, keep: bool = True) -> tuple[Tensor, Any]:
        """Log-probs (T, V) after each id, only the last one of a prompt, and the keys and values up to there."""
        base: Any = self.model.base
        given = {} if cache is None else {self._cache_name: cache}
        out = base.base_model(input_ids=torch.tensor([ids], device=base.device), use_cache=keep, **given)
        hidden_TH = out.last_hidden_state[0] if given else out.last_hidden_state[0, -1:]
        logits_TV = base.get_output_embeddings()(hidden_TH).float()
        return torch.log_softmax(logits_TV, dim=-1), out[self._cache_name] if keep else None

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
