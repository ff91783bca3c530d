"""Learning from pairs of replies, one preferred to the other, without a reward model.

With s = log pi(y) - log ref(y) summed over the trained tokens of a reply, its mean s/|y|, and m = beta (s_chosen -
s_rejected), each loss is a mean over pairs of

    dpo         -log sigmoid m                              Rafailov et al. 2023 (2305.18290) eq. 7
                label_smoothing e: (1 - e) of it + e of -log sigmoid(-m): cDPO (Mitchell 2023)
                sft_coef: + the chosen reply's mean-token NLL: RPO (Pang et al. 2024, 2404.19733)
    robust_dpo  ((1 - e) (-log sigmoid m) - e (-log sigmoid(-m))) / (1 - 2e)     Chowdhury et al. 2024 (2403.00409)
    hinge       max(0, 1 - m)                               SLiC (Zhao et al. 2023, 2305.10425), on the DPO margin
    ipo         (s_chosen - s_rejected - 1/(2 beta))^2      Azar et al. 2023 (2310.12036) eq. 17
    dpo_norm    -log sigmoid of m with means                Tulu 3 (Lambert et al. 2024, 2411.15124) section 5.1
    simpo       -log sigmoid(beta (mean log pi_chosen - mean log pi_rejected) - gamma)    Meng et al. 2024 (2405.14734)
    orpo        NLL + lam (-log sigmoid(log odds_chosen - log odds_rejected))             Hong et al. 2024 (2403.07691)
    spin        -log sigmoid(lambda (s_data - s_generated)) Chen et al. 2024 (2401.01335) eq. 4.7: data against the
                previous policy's own replies, which is its reference
    una         -log sigmoid m                              Wang et al. 2024 (2408.15339): pairwise UNA is DPO

Replies to one prompt may differ in length; a reply without trained tokens counts with s = 0. What is left out: the
terms that hold for one dataset only (weights of pairs, filtering). Choices where write-ups differ: IPO sums log-ratios
as the paper does and takes means on request; SimPO's gamma is subtracted after beta; ORPO's NLL is over the reply only,
averaged a pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, relu

from arena.protocols.errors import ConfigError
from arena.training.objectives.precision import wide

__all__ = ["Pairs", "Replies", "dpo", "dpo_norm", "hinge", "ipo", "orpo", "robust_dpo", "simpo", "spin", "una_pairwise"]


@dataclass(frozen=True)
class Replies:
    """Replies, each with the log-probs of its tokens in nats; what lies under a masked entry never matters."""

    logps_BT: Tensor
    """(B, T) policy, with gradient."""
    mask_BT: Tensor
    """(B, T), non-zero where trained."""
    ref_logps_BT: Tensor | None = None
    """(B, T) frozen reference; None for objectives without one."""

    def log_prob(self, *, mean: bool = False) -> Tensor:
        """(B,) log pi(y), or its mean over tokens."""
        return self._total(wide(self.logps_BT), mean)

    def log_ratio(self, *, mean: bool = False) -> Tensor:
        """(B,) log pi(y) - log ref(y), or its mean over tokens.

        Raises:
            ConfigError: there is no reference.
        """
        if self.ref_logps_BT is None:
            raise ConfigError("this objective needs log-probs of a reference: give ref_logps_BT")
        return self._total(wide(self.logps_BT) - wide(self.ref_logps_BT.detach()), mean)

    def _total(self, x_BT: Tensor, mean: bool) -> Tensor:
        kept_BT = self.mask_BT != 0
        total_B = torch.where(kept_BT, x_BT, 0.0).sum(1)
        return total_B / kept_BT.sum(1).clamp(min=1) if mean else total_B


@dataclass(frozen=True)
class Pairs:
    """Preferred replies, and in the same rows those they are preferred to."""

    chosen: Replies
    rejected: Replies

    def lead(self, *, mean: bool = False, reference: bool = True) -> Tensor:
        """(B,) by how much the chosen reply's log-ratio (without reference, log-prob) exceeds the other's."""
        if reference:
            return self.chosen.log_ratio(mean=mean) - self.rejected.log_ratio(mean=mean)
        return self.chosen.log_prob(mean=mean) - self.rejected.log_prob(mean=mean)

    def nll(self) -> Tensor:
        """(B,) mean-token negative log-likelihood of the chosen replies."""
        return -self.chosen.log_prob(mean=True)


def dpo(
    pairs: Pairs,
    *,
    beta: float,
    label_smoothing: float = 0.0,
    sft_coef: float = 0.0,
    reference_free: bool = False,
) -> dict[str, Tensor]:
    """Direct preference optimisation.

    Args:
        pairs: with references, unless ``reference_free``.
        beta: nats of implicit reward that a nat of log-ratio is worth.
        label_smoothing: share of pairs whose label is taken to be wrong.
        sft_coef: weight of the chosen replies' mean-token NLL.
        reference_free: compare log-probs instead of log-ratios.

    Returns:
        Scalar ``loss``; ``margins`` (B,), beta times the lead of the chosen reply; ``accuracy``, the share of pairs
        with a positive margin. The last two without gradient.
    """
    margins_B = beta * pairs.lead(reference=not reference_free)
    loss_B = _smoothed(margins_B, label_smoothing)
    return _result(loss_B + sft_coef * pairs.nll() if sft_coef else loss_B, margins_B)


def robust_dpo(pairs: Pairs, *, beta: float, label_smoothing: float) -> dict[str, Tensor]:
    """DPO whose expectation is that of clean labels when a share of them is flipped; returns as `dpo`.

    Raises:
        ConfigError: half of the labels or more would be wrong.
    """
    if not 0 <= label_smoothing < 0.5:
        raise ConfigError(f"label_smoothing={label_smoothing} is not a share of wrong labels below 0.5")
    margins_B = beta * pairs.lead()
    right_B, wrong_B = -logsigmoid(margins_B), -logsigmoid(-margins_B)
    loss_B = ((1.0 - label_smoothing) * right_B - label_smoothing * wrong_B) / (1.0 - 2.0 * label_smoothing)
    return _result(loss_B, margins_B)


def hinge(pairs: Pairs, *, beta: float) -> dict[str, Tensor]:
    """Hinge loss on the margin of DPO; returns as `dpo`."""
    margins_B = beta * pairs.lead()
    return _result(relu(1.0 - margins_B), margins_B)


def ipo(pairs: Pairs, *, beta: float, length_normalize: bool = False) -> dict[str, Tensor]:
    """Identity preference optimisation: the lead is pulled to 1/(2 beta) nats. Returns as `dpo`.

    Args:
        pairs: with references.
        beta: the paper's tau.
        length_normalize: compare mean log-ratios (TRL, with the authors' consent) instead of sums (the paper).
    """
    lead_B = pairs.lead(mean=length_normalize)
    return _result((lead_B - 1.0 / (2.0 * beta)).square(), beta * lead_B)


def dpo_norm(pairs: Pairs, *, beta: float) -> dict[str, Tensor]:
    """DPO on mean log-ratios, so that long replies gain nothing by their length; returns as `dpo`."""
    margins_B = beta * pairs.lead(mean=True)
    return _result(-logsigmoid(margins_B), margins_B)


def simpo(pairs: Pairs, *, beta: float, gamma: float, label_smoothing: float = 0.0) -> dict[str, Tensor]:
    """Mean log-probs as rewards, without reference, with a target margin ``gamma``; returns as `dpo`."""
    margins_B = beta * pairs.lead(mean=True, reference=False)
    return _result(_smoothed(margins_B - gamma, label_smoothing), margins_B)


def orpo(pairs: Pairs, *, lam: float) -> dict[str, Tensor]:
    """Likelihood of the chosen reply plus ``lam`` times the loss of its odds over the other's; returns as `dpo`.

    The odds are of mean log-probs; log(1 - p) is computed stably where p is close to 1.
    """
    margins_B = _log_odds(pairs.chosen.log_prob(mean=True)) - _log_odds(pairs.rejected.log_prob(mean=True))
    return _result(pairs.nll() - lam * logsigmoid(margins_B), margins_B)


def spin(pairs: Pairs, *, lambda_: float) -> dict[str, Tensor]:
    """Self-play fine-tuning: data (chosen) against replies of the previous policy (rejected); returns as `dpo`."""
    return dpo(pairs, beta=lambda_)


def una_pairwise(pairs: Pairs, *, beta: float) -> dict[str, Tensor]:
    """UNA on pairs, where the unknown offset of the implicit reward cancels: `dpo`."""
    return dpo(pairs, beta=beta)


def _smoothed(margins_B: Tensor, share: float) -> Tensor:
    loss_B = -logsigmoid(margins_B)
    return (1.0 - share) * loss_B - share * logsigmoid(-margins_B) if share else loss_B


def _log_odds(logp_B: Tensor) -> Tensor:
    """log(p / (1 - p)) of p = exp(logp) < 1."""
    # Maechler 2012, "Accurately computing log(1 - exp(-|a|))": expm1 near 0, log1p elsewhere; each branch sees only
    # what it can bear, since the gradient of the other must not be NaN.
    near_B = logp_B > -0.6931471805599453
    at_B = torch.where(near_B, logp_B, -1.0)
    far_B = torch.where(near_B, -1.0, logp_B)
    return logp_B - torch.where(near_B, torch.log(-torch.expm1(at_B)), torch.log1p(-torch.exp(far_B)))


def _result(loss_B: Tensor, margins_B: Tensor) -> dict[str, Tensor]:
    margins_B = margins_B.detach()
    return {"loss": loss_B.mean(), "margins": margins_B, "accuracy": (margins_B > 0).to(margins_B.dtype).mean()}
