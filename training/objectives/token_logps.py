"""Log-probs of given tokens from hidden states, without the logits of all tokens at once.

    logp_n = z_n[target_n] - log sum_v exp z_n[v],   z_n = h_n W^T / temperature_n

Rows are taken in tiles. With a frozen head (LoRA) the gradient with respect to h_n is known up to the factor that comes
from above, (W[target_n] - p_n W) / temperature_n, so it is computed in the forward pass, while the tile's logits are
there, and kept: [N, H] instead of [N, V]. A trained head needs the logits once more for its own gradient, a part of the
vocabulary at a time.
Log-sum-exps and probabilities are float32, whatever the type of the states; float64 stays float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError

__all__ = ["token_logps", "token_logps_and_entropy"]

ROWS = 256
"""Rows of a tile: 50 MB of float32 logits at 49,000 tokens; smaller tiles only slow the products down."""
_COLUMNS = 64
"""Fewest columns of a tile across the vocabulary, which has as many entries as one of ROWS rows if that allows it."""


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
    return _checked(hidden_NH, weight_VH, targets_N, temperatures_N, rows, entropy=False)[0]


def token_logps_and_entropy(
    hidden_NH: Tensor, weight_VH: Tensor, targets_N: Tensor, *, temperatures_N: Tensor | None = None, rows: int = ROWS
) -> tuple[Tensor, Tensor]:
    """`token_logps`, and beside it (N,) the entropy in nats of each row's distribution, without gradient."""
    return _checked(hidden_NH, weight_VH, targets_N, temperatures_N, rows, entropy=True)


def _checked(
    hidden_NH: Tensor, weight_VH: Tensor, targets_N: Tensor, temperatures_N: Tensor | None, rows: int, *, entropy: bool
) -> tuple[Tensor, Tensor]:
    if hidden_NH.dtype != weight_VH.dtype:
        raise ConfigError(f"states are {hidden_NH.dtype} and the output layer {weight_VH.dtype}: cast one of them")
    if hidden_NH.shape[1:] != weight_VH.shape[1:] or targets_N.shape != hidden_NH.shape[:1]:
        raise ConfigError(
            f"states {tuple(hidden_NH.shape)}, weights {tuple(weight_VH.shape)} and targets {tuple(targets_N.shape)} "
            "do not fit: they are (N, H), (V, H) and (N,)"
        )
    if rows < 1:
        raise ConfigError(f"tiles of {rows} rows: give at least 1")
    found: tuple[Tensor, Tensor] = _TokenLogps.apply(  # type: ignore[no-untyped-call]
        hidden_NH, weight_VH, targets_N, temperatures_N, rows, entropy
    )
    return found


class _TokenLogps(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        targets_N: Tensor,
        temperatures_N: Tensor | None,
        rows: int,
        entropy: bool,
    ) -> tuple[Tensor, Tensor]:
        """See `token_logps`; the second result is empty unless the entropy is asked for."""
        wide = torch.float64 if hidden_NH.dtype == torch.float64 else torch.float32
        logps_N = torch.empty(len(hidden_NH), dtype=wide, device=hidden_NH.device)
        total_N, entropy_N = torch.empty_like(logps_N), torch.empty_like(logps_N if entropy else logps_N[:0])
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        slopes_NH = torch.empty_like(hidden_NH) if needs_hidden else None
        for part in _tiles(len(hidden_NH), rows):
            logits_RV = _logits(hidden_NH[part], weight_VH, temperatures_N, part, wide)
            peak_R1 = logits_RV.amax(1, keepdim=True)
            logits_RV.sub_(peak_R1)
            chosen_R = logits_RV.gather(1, targets_N[part, None])[:, 0]
            # In place, unless the logits are still needed: torch.logsumexp would take a second tile.
            share_RV = logits_RV.exp() if entropy else logits_RV.exp_()
            sum_R = share_RV.sum(1)
            logps_N[part] = chosen_R - sum_R.log()
            total_N[part] = peak_R1[:, 0] + sum_R.log()
            if entropy:
                entropy_N[part] = sum_R.log() - torch.linalg.vecdot(share_RV, logits_RV) / sum_R
            if slopes_NH is not None:
                # Dividing [R, H] is cheaper than dividing [R, V].
                mean_RH = (share_RV.to(weight_VH.dtype) @ weight_VH).div_(sum_R[:, None])
                slopes_NH[part] = _cooled(weight_VH[targets_N[part]] - mean_RH, temperatures_N, part)
            del logits_RV, share_RV  # before the next tile comes
        # What only a trained head needs is not kept for a frozen one.
        ctx.save_for_backward(
            slopes_NH, *((hidden_NH, weight_VH, targets_N, total_N, temperatures_N) if needs_weight else ())
        )
        ctx.rows = rows
        ctx.mark_non_differentiable(entropy_N)
        return logps_N, entropy_N

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """The kept slopes times what comes from above; for the weights, tile by tile."""
        above_N = gradients[0]
        slopes_NH, *kept = ctx.saved_tensors
        hidden = None if slopes_NH is None else slopes_NH * above_N[:, None].to(slopes_NH.dtype)
        weight = _weight_gradient(above_N, ctx.rows, *kept) if kept else None
        return hidden, weight, None, None, None, None


def _weight_gradient(
    above_N: Tensor,
    rows: int,
    hidden_NH: Tensor,
    weight_VH: Tensor,
    targets_N: Tensor,
    total_N: Tensor,
    temperatures_N: Tensor | None = None,
) -> Tensor:
    """sum_n above_n (1[target_n] - p_n) h_n / temperature_n: (V, H).

    The log-sum-exps are known by now, so that these tiles are parts of the vocabulary: each is one product over all
    rows, whose sums are wide inside of it, and nothing is added up in memory.
    """
    gradient_VH = torch.empty_like(weight_VH)
    states_NH = _cooled(hidden_NH * -above_N[:, None].to(hidden_NH.dtype), temperatures_N, slice(None))
    count, size = len(hidden_NH), len(weight_VH)
    for part in _tiles(size, max(rows * size // max(count, 1), _COLUMNS)):
        share_NC = _logits(hidden_NH, weight_VH[part], temperatures_N, slice(None), total_N.dtype)
        share_NC.sub_(total_N[:, None]).exp_()
        inside = ((targets_N >= part.start) & (targets_N < part.stop)).nonzero()[:, 0]
        share_NC[inside, targets_N[inside] - part.start] -= 1.0
        torch.mm(share_NC.to(hidden_NH.dtype).T, states_NH, out=gradient_VH[part])
        del share_NC  # before the next tile comes
    return gradient_VH


def _logits(
    hidden_RH: Tensor, weight_VH: Tensor, temperatures_N: Tensor | None, part: slice, wide: torch.dtype
) -> Tensor:
    """(R, V) float32 or wider, the caller's to overwrite."""
    logits_RV = (hidden_RH @ weight_VH.T).to(wide)
    return logits_RV if temperatures_N is None else logits_RV.div_(temperatures_N[part, None].to(wide))


def _cooled(x_RX: Tensor, temperatures_N: Tensor | None, part: slice) -> Tensor:
    return x_RX if temperatures_N is None else x_RX / temperatures_N[part, None].to(x_RX.dtype)


def _tiles(count: int, rows: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))
