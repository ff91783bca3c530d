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
"""Rows of a tile: 50 MB of float32 or 25 of bfloat16 at 49,000 tokens; smaller tiles slow the products down."""
_CACHED = 1 << 19
"""Entries of a tile that are worked on at once: 2 MB of float32."""
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
        total_N, peaks_N = torch.empty_like(logps_N), torch.empty_like(logps_N)
        entropy_N = torch.empty_like(logps_N if entropy else logps_N[:0])
        needs_hidden, needs_weight = ctx.needs_input_grad[:2]
        slopes_NH = torch.empty_like(hidden_NH) if needs_hidden else None
        for part in _tiles(len(hidden_NH), rows):
            logits_RV = hidden_NH[part] @ weight_VH.T
            sum_R = total_N[part]  # a view, for the sums of exponentials first
            for block in _blocks(logits_RV):
                own = slice(part.start + block.start, part.start + block.stop)
                # In place, a block that fits the cache at a time: torch.logsumexp would take a second tile.
                shifted_KV = _cooled(logits_RV[block].to(wide), temperatures_N, own)
                peak_K1 = shifted_KV.amax(1, keepdim=True)
                shifted_KV.sub_(peak_K1)
                logps_N[own] = shifted_KV.gather(1, targets_N[own, None])[:, 0]
                share_KV = shifted_KV.exp() if entropy else shifted_KV.exp_()
                sum_R[block] = share_KV.sum(1)
                if entropy:
                    entropy_N[own] = -torch.linalg.vecdot(share_KV, shifted_KV)
                peaks_N[own] = peak_K1[:, 0]
                logits_RV[block] = share_KV
            if slopes_NH is not None:
                # Dividing [R, H] is cheaper than dividing [R, V].
                mean_RH = (logits_RV @ weight_VH).div_(sum_R[:, None])
                slopes_NH[part] = _cooled(weight_VH[targets_N[part]].sub_(mean_RH), temperatures_N, part)
            del logits_RV, shifted_KV, share_KV  # before the next tile comes
        if entropy:
            entropy_N.div_(total_N).add_(total_N.log())
        logps_N.sub_(total_N.log_())
        total_N.add_(peaks_N)
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
        surplus_NC = _surplus(hidden_NH, weight_VH[part], targets_N - part.start, total_N, temperatures_N)
        torch.mm(surplus_NC.T, states_NH, out=gradient_VH[part])
        del surplus_NC  # before the next tile comes
    return gradient_VH


def _surplus(
    hidden_NH: Tensor, weight_CH: Tensor, targets_N: Tensor, total_N: Tensor, temperatures_N: Tensor | None
) -> Tensor:
    """p - 1[target] of some columns of the vocabulary: (N, C); targets are counted from the first of them."""
    found_NC = hidden_NH @ weight_CH.T
    for block in _blocks(found_NC):
        share_KC = _cooled(found_NC[block].to(total_N.dtype), temperatures_N, block)
        share_KC.sub_(total_N[block, None]).exp_()
        inside = ((targets_N[block] >= 0) & (targets_N[block] < len(weight_CH))).nonzero()[:, 0]
        share_KC[inside, targets_N[block][inside]] -= 1.0  # before it is rounded
        found_NC[block] = share_KC
    return found_NC


def _cooled(x_RX: Tensor, temperatures_N: Tensor | None, part: slice) -> Tensor:
    return x_RX if temperatures_N is None else x_RX / temperatures_N[part, None].to(x_RX.dtype)


def _tiles(count: int, rows: int) -> Iterator[slice]:
    return (slice(start, min(start + rows, count)) for start in range(0, count, rows))


def _blocks(tile_RX: Tensor) -> Iterator[slice]:
    """Rows of a tile, as many at a time as stay in a processor's cache; on other devices all of them."""
    rows = max(_CACHED // tile_RX.shape[1], 1) if tile_RX.device.type == "cpu" else len(tile_RX)
    return _tiles(len(tile_RX), max(rows, 1))
