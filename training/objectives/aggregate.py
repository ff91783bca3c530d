"""One number from many tokens.

Every aggregation of the literature is a weighted sum whose weights depend on the mask alone. They are computed once for
a whole optimizer step, so that cutting the step into micro-batches cannot change its loss:

    loss = sum_bt w_bt x_bt

    token_mean               w = 1 / tokens                              DAPO (arXiv 2503.14476)
    group_token_mean         w = 1 / (groups * tokens of the group)
    seq_mean_token_mean      w = 1 / (rows * tokens of the row)          GRPO (arXiv 2402.03300)
    seq_mean_token_sum       w = 1 / rows                                REINFORCE
    seq_mean_token_sum_norm  w = 1 / (rows * norm_const)                 Dr. GRPO (arXiv 2503.20783)
    token_sum                w = 1
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from arena.protocols.errors import ConfigError, suggest
from arena.training.objectives import Aggregate
from arena.training.objectives.precision import widened

__all__ = ["aggregate", "masked_sum", "token_weights"]


def token_weights(
    mask_BT: Tensor,
    agg: Aggregate = "token_mean",
    *,
    group_ids: Sequence[Hashable] | None = None,
    empty_rows: Literal["count", "exclude"] = "count",
    norm_const: float | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Weight of each token in the loss.

    Args:
        mask_BT: (B, T), non-zero where a token is trained.
        agg: see the module.
        group_ids: (B,) prompt group of each row, for ``group_token_mean``; without it each row is its own group.
        empty_rows: whether rows (or groups) without a trained token count in the denominator.
        norm_const: the constant of ``seq_mean_token_sum_norm`` (default: T).
        dtype: of the result.

    Returns:
        (B, T), 0 at masked tokens; all 0 when nothing is trained.

    Raises:
        ConfigError: unknown aggregation.
    """
    if agg not in get_args(Aggregate):
        raise ConfigError(f"aggregate '{agg}' is not known.{suggest(agg, get_args(Aggregate))}")
    mask_BT = mask_BT != 0
    weights_BT = mask_BT.to(dtype)
    tokens_B = weights_BT.sum(1)
    rows = (tokens_B > 0).sum() if empty_rows == "exclude" else torch.tensor(len(tokens_B), device=mask_BT.device)
    if agg == "token_mean":
        return weights_BT / tokens_B.sum().clamp(min=1)
    if agg == "token_sum":
        return weights_BT
    if agg == "seq_mean_token_mean":
        return weights_BT / (tokens_B.clamp(min=1) * rows.clamp(min=1))[:, None]
    if agg == "group_token_mean":
        return weights_BT / _group_tokens(tokens_B, group_ids, empty_rows)[:, None]
    divisor = (norm_const or mask_BT.shape[1]) if agg == "seq_mean_token_sum_norm" else 1.0
    return weights_BT / (divisor * rows.clamp(min=1))


def _group_tokens(tokens_B: Tensor, group_ids: Sequence[Hashable] | None, empty_rows: str) -> Tensor:
    """(B,) number of groups times the tokens in the row's group."""
    keys = list(range(len(tokens_B))) if group_ids is None else list(group_ids)
    index: dict[Hashable, int] = {}
    numbers = torch.tensor([index.setdefault(key, len(index)) for key in keys], device=tokens_B.device)
    tokens_G = torch.zeros(len(index), dtype=tokens_B.dtype, device=tokens_B.device).index_add_(0, numbers, tokens_B)
    groups = int((tokens_G > 0).sum()) if empty_rows == "exclude" else len(index)
    return tokens_G.clamp(min=1)[numbers] * max(groups, 1)


@widened
def masked_sum(x_BT: Tensor, mask_BT: Tensor, weights_BT: Tensor) -> Tensor:
    """Weighted sum over trained tokens; masked entries may hold anything, NaN included."""
    return (torch.where(mask_BT != 0, x_BT, 0.0) * weights_BT.to(x_BT.dtype)).sum()


@widened
def aggregate(
    x_BT: Tensor,
    mask_BT: Tensor,
    agg: Aggregate = "token_mean",
    *,
    group_ids: Sequence[Hashable] | None = None,
    empty_rows: Literal["count", "exclude"] = "count",
    norm_const: float | None = None,
) -> Tensor:
    """`masked_sum` with the `token_weights` of this batch alone."""
    weights_BT = token_weights(
        mask_BT, agg, group_ids=group_ids, empty_rows=empty_rows, norm_const=norm_const, dtype=x_BT.dtype
    )
    return masked_sum(x_BT, mask_BT, weights_BT)
