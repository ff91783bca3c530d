"""Learning from given targets: likelihood of tokens, and scores of replies (reward models)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Literal

import torch
from torch import Tensor

from arena.training.objectives import Aggregate
from arena.training.objectives.aggregate import aggregate
from arena.training.objectives.precision import widened

__all__ = ["IGNORE", "nll", "nll_from_logits", "rm_bt", "rm_pointwise", "whiten"]

IGNORE = -100
"""Label of a token that is not trained."""


@widened
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


@widened
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


@widened
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


@widened
def rm_bt(
    chosen_B: Tensor,
    rejected_B: Tensor,
    *,
    margin_B: Tensor | None = None,
    soft_label_B: Tensor | None = None,
    center_coef: float = 0.0,
) -> dict[str, Tensor]:
    """Bradley-Terry loss of a reward model: ``-log sigmoid(r_chosen - r_rejected - margin)``, mean over pairs.

    Ouyang et al. 2022 (2203.02155, equation 1); the margin of Touvron et al. 2023 (2307.09288, equation 2); soft labels
    of RLAIF (Lee et al. 2023, 2309.00267); centring of Eisenstein et al. 2023 (2312.09244):
    ``center_coef * (r_chosen + r_rejected)^2``, which pins the level that pairs leave open.

    Args:
        chosen_B: (B,) scores of the preferred replies.
        rejected_B: (B,) scores of the others.
        margin_B: (B,) by how much the chosen reply should lead.
        soft_label_B: (B,) probability that the chosen reply is the better one; 1 if absent.
        center_coef: weight of centring.

    Returns:
        ``loss``, a scalar, and ``accuracy``, the share of pairs whose chosen reply scores more (a tie counts half).
    """
    lead_B = chosen_B - rejected_B
    aim_B = lead_B if margin_B is None else lead_B - margin_B
    loss_B = -torch.nn.functional.logsigmoid(aim_B)
    if soft_label_B is not None:
        loss_B = soft_label_B * loss_B - (1.0 - soft_label_B) * torch.nn.functional.logsigmoid(-aim_B)
    if center_coef:
        loss_B = loss_B + center_coef * (chosen_B + rejected_B).square()
    accuracy = ((lead_B > 0).to(lead_B.dtype) + 0.5 * (lead_B == 0).to(lead_B.dtype)).mean()
    return {"loss": loss_B.mean(), "accuracy": accuracy.detach()}


@widened
def rm_pointwise(
    scores: Tensor, targets: Tensor, *, kind: Literal["mse", "bce"], weights: Tensor | None = None
) -> Tensor:
    """Regression or classification of scores, weighted mean over entries; any shape, all the same.

    ``bce`` reads scores as log-odds: outcome verifiers (Cobbe et al. 2021, 2110.14168) and process rewards, one entry a
    step (Uesato et al. 2022, 2211.14275; Lightman et al. 2023, 2305.20050).

    Args:
        scores: what the model gives.
        targets: for ``bce`` in [0, 1].
        kind: ``mse`` or ``bce``.
        weights: 0 leaves an entry out, whatever it holds; 1 if absent.
    """
    kept = torch.ones_like(scores) if weights is None else weights
    scores = torch.where(kept != 0, scores, 0.0)
    if kind == "mse":
        loss = (scores - targets).square()
    else:
        loss = torch.nn.functional.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    return (torch.where(kept != 0, loss, 0.0) * kept).sum() / kept.sum().clamp(min=1e-12)
