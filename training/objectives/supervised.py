"""Negative log-likelihood of given tokens."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import aggregate

__all__ = ["IGNORE", "nll", "nll_from_logits", "whiten"]

IGNORE = -100
"""Label of a token that is not trained."""


def nll(
    logps_BT: Tensor,
    mask_BT: Tensor,
    *,
    agg: Aggregate = "token_mean",
    empty_rows: Literal["count", "exclude"] = "count",
    group_ids: Sequence[Hashable] | None = None,
    norm_const: float | None = None,
) -> Tensor:
    """Supervised fine-tuning: -agg log pi over trained tokens. (B, T), (B, T) -> scalar; see `token_weights`."""
    return -aggregate(logps_BT, mask_BT, agg, empty_rows=empty_rows, group_ids=group_ids, norm_const=norm_const)


def nll_from_logits(logits_BTV: Tensor, labels_BT: Tensor, *, label_smoothing: float = 0.0) -> Tensor:
    """Token-mean cross-entropy of unshifted labels: ``logits[:, t - 1]`` predict ``labels[:, t]``.

    Args:
        logits_BTV: (B, T, V).
        labels_BT: (B, T) token ids, `IGNORE` where not trained; the first column is never predicted.
        label_smoothing: share of the target spread evenly over the vocabulary.

    Returns:
        Scalar; 0 when nothing is trained.
    """
    labels_BT = labels_BT[:, 1:]
    trained_BT = labels_BT != IGNORE
    logps_NV = torch.log_softmax(logits_BTV[:, :-1][trained_BT], -1)
    chosen_N = logps_NV.gather(1, labels_BT[trained_BT][:, None])[:, 0]
    loss_N = -(1.0 - label_smoothing) * chosen_N - label_smoothing * logps_NV.mean(-1)
    return loss_N.sum() / max(len(loss_N), 1)


def whiten(x_BT: Tensor, mask_BT: Tensor, *, shift_mean: bool = True, ddof: int = 0) -> Tensor:
    """Scale trained entries to variance 1 over the batch, and to mean 0 unless ``shift_mean`` is off.

    Args:
        x_BT: (B, T).
        mask_BT: (B, T), non-zero where trained.
        shift_mean: False adds the mean back.
        ddof: 1 for the sample variance.

    Returns:
        (B, T), 0 at masked entries; 1e-8 is added to the variance.
    """
    mask_BT = mask_BT != 0
    x_BT = torch.where(mask_BT, x_BT, 0.0)
    count = mask_BT.sum()
    mean = x_BT.sum() / count.clamp(min=1)
    variance = torch.where(mask_BT, x_BT - mean, 0.0).square().sum() / (count - ddof).clamp(min=1)
    out_BT = (x_BT - mean) * torch.rsqrt(variance + 1e-8)
    return torch.where(mask_BT, out_BT if shift_mean else out_BT + mean, 0.0)
