"""Log-probs of given tokens from hidden states, without the logits of all tokens at once.

    logp_n = z_n[target_n] - log sum_v exp z_n[v],   z_n = h_n W^T / temperature_n

Rows are taken in tiles. With a frozen head (LoRA) the gradient with respect to h_n is known up to the factor that comes
from above, (W[target_n] - p_n W) / temperature_n, so it is computed in the forward pass, while the tile's logits are
there, and kept: [N, H] instead of [N, V]. A trained head needs the logits once more for its own gradient, tile by tile.
Log-sum-exps and probabilities are float32, whatever the type of the states; float64 stays float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError

__all__ = ["token_logps"]

ROWS = 256
"""Rows of a tile: 50 MB of float32 logits at 49,000 tokens; smaller tiles only slow the products down."""


def token_logps(
    hidden_NH: Tensor, weight_VH: Tensor, targets_N: Tensor, *, temperatures_N: Tensor | None = None, rows: int = ROWS
) -> Tensor:
    """Log-prob in nats of each target.

    Args:
        hidden_NH: (N, H) states before the output layer; float32, float64 or bfloat16.
        weight_VH: (V, H) of the output layer, of the same type; frozen or with gradient.
        targets_N: (N,) token ids.
        temperatures_N: (N,) that logits are divided by; 1 if absent.
        rows: of a tile.

    Returns:
        (N,) float32 (float64 for float64), with gradients for states and weights.

    Raises:
        ConfigError: shapes or types do not fit.
    """
    if hidden_NH.dtype != weight_VH.dtype:
        raise ConfigError(f"states are {hidden_NH.dtype} and the output layer {weight_VH.dtype}: cast one of them")
    if hidden_NH.shape[1:] != weight_VH.shape[1:] or targets_N.shape != hidden_NH.shape[:1]:
        raise ConfigError(
            f"states {tuple(hidden_NH.shape)}, weights {tuple(weight_VH.shape)} and targets {tuple(targets_N.shape)} "
            "do not fit: they are (N, H), (V, H) and (N,)"
        )
    if rows < 1:
        raise ConfigError(f"tiles of {rows} rows: give at least 1")
    found: Tensor = _TokenLogps.apply(hidden_NH, weight_VH, targets_N, temperatures_N, rows)  # type: ignore[no-untyped-call]
    return found


class _TokenLogps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_NH: Tensor, weight_VH: Tensor, targets_N: Tensor, temperatures_N: Tensor | None, rows: int
    ) -> Tensor:
        """See `token_logps`."""
        wide = torch.float64 if hidden_NH.dtype == torch.float64 else torch.float32
        logps_N = torch.empty(len(hidden_NH), dtype=wide, device=hidden_NH.device)
        total_N = torch.empty_like(logps_N)
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        slopes_NH = torch.empty_like(hidden_NH) if needs_hidden else None
        for part in _tiles(len(hidden_NH), rows):
            logits_RV = _logits(hidden_NH[part], weight_VH, temperatures_N, part, wide)
            total_N[part] = torch.logsumexp(logits_RV, 1)
            logps_N[part] = logits_RV.gather(1, targets_N[part, None])[:, 0] - total_N[part]
            if slopes_NH is not None:
                share_RV = logits_RV.sub_(total_N[part, None]).exp_().to(weight_VH.dtype)
                slopes_RH = weight_VH[targets_N[part]] - share_RV @ weight_VH
                slopes_NH[part] = _cooled(slopes_RH, temperatures_N, part)
        # What only a trained head needs is not kept for a frozen one.
        ctx.save_for_backward(
            slopes_NH, *((hidden_NH, weight_VH, targets_N, total_N, temperatures_N) if needs_weight else ())
        )
        ctx.rows = rows
        return logps_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The kept slopes times what comes from above; for the weights, tile by tile."""
        (above_N,) = gradients
        slopes_NH, *kept = ctx.saved_tensors
        hidden = None if slopes_NH is None else slopes_NH * above_N[:, None].to(slopes_NH.dtype)
        weight = _weight_gradient(above_N, ctx.rows, *kept) if kept else None
        return hidden, weight, None, None, None


def _weight_gradient(
    above_N: Tensor,
    rows: int,
    hidden_NH: Tensor,
    weight_VH: Tensor,
    targets_N: Tensor,
    total_N: Tensor,
    temperatures_N: Tensor | None = None,
) -> Tensor:
    """sum_n above_n (1[target_n] - p_n) h_n / temperature_n: (V, H), added up in float32 or wider."""
    gradient_VH = torch.zeros(weight_VH.shape, dtype=total_N.dtype, device=weight_VH.device)
    for part in _tiles(len(hidden_NH), rows):
        share_RV = _logits(hidden_NH[part], weight_VH, temperatures_N, part, total_N.dtype)
        share_RV.sub_(total_N[part, None]).exp_()
        states_RH = _cooled(hidden_NH[part] * above_N[part, None].to(hidden_NH.dtype), temperatures_N, part)
        if gradient_VH.dtype == hidden_NH.dtype:
            gradient_VH.addmm_(share_RV.T, states_RH, alpha=-1.0)
        else:
            gradient_VH -= share_RV.to(hidden_NH.dtype).T @ states_RH
        gradient_VH.index_add_(0, targets_N[part], states_RH.to(gradient_VH.dtype))
    return gradient_VH.to(weight_VH.dtype)


def _logits(
    hidden_RH: Tensor, weight_VH: Tensor, temperatures_N: Tensor | None, part: slice, wide: torch.dtype
) -> Tensor:
    return _cooled((hidden_RH @ weight_VH.T).to(wide), temperatures_N, part)


def _cooled(x_RX: Tensor, temperatures_N: Tensor | None, part: slice) -> Tensor:
    return x_RX if temperatures_N is None else x_RX / temperatures_N[part, None].to(x_RX.dtype)


def _tiles(count: int, rows: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))
