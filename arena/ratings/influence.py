"""What each cluster of matches contributes to the ratings: its influence on them, and the variance that follows."""

from __future__ import annotations

import numpy as np

from arena.ratings.bootstrap import Sample
from arena.ratings.local import SparsePairs
from arena.ratings.matches import Floats

__all__ = ["influences", "model_covariance"]


def influences(sample: Sample, x_Q: Floats, l2: float) -> Floats:
    """[Q, C]: how much the parameters move, to first order, when a cluster counts once more.

    The inverse information times the score of each cluster (Huber 1967; Liang and Zeger 1986). The sum of their outer
    products is the cluster-robust (sandwich) covariance of the parameters.

    Args:
        sample: the matches.
        x_Q: parameters of greatest likelihood.
        l2: penalty that they were fitted with.
    """
    score_QC = np.concatenate([_slopes(sample, x_Q), _tie_slopes(sample, x_Q)[None]])
    return np.asarray(model_covariance(sample, x_Q, l2) @ score_QC)


def model_covariance(sample: Sample, x_Q: Floats, l2: float) -> Floats:
    """[Q, Q] inverse information: the covariance of the parameters if all matches were independent."""
    local = SparsePairs(sample.design, sample.tally, l2).at(x_Q[:, None])
    covariance_QQ = np.linalg.inv(local.matrix()[0])
    # The information was made regular along the sum of strengths, which does not vary.
    P = sample.design.players
    covariance_QQ[:P] -= covariance_QQ[:P].mean(0)
    covariance_QQ[:, :P] -= covariance_QQ[:, :P].mean(1, keepdims=True)
    return covariance_QQ


def _chances(sample: Sample, x_Q: Floats) -> Floats:
    """[3, K] probabilities of a win of the first side, a tie, and a loss."""
    eta_K = sample.design.eta(x_Q[:, None])[:, 0]
    log_nu = x_Q[-1] if sample.tally.tied[0] else -np.inf
    logits = np.stack([eta_K / 2, np.full_like(eta_K, log_nu), -eta_K / 2])
    chances = np.exp(logits - logits.max(0))
    return np.asarray(chances / chances.sum(0))


def _slopes(sample: Sample, x_Q: Floats) -> Floats:
    """[P + F, C] derivative of each cluster's log-likelihood by strengths and coefficients."""
    from scipy.sparse import csr_array

    chance_3K = _chances(sample, x_Q)
    K = chance_3K.shape[1]
    # Of a result: half of what the first side got above the second, less what was expected.
    slope_3K = (np.array([[1.0], [0.0], [-1.0]]) - (chance_3K[0] - chance_3K[2])) / 2
    columns = np.arange(3 * K).reshape(3, K).T.ravel()
    rows = csr_array((slope_3K.T.ravel(), columns, np.arange(0, 3 * K + 1, 3)), shape=(K, 3 * K))
    pull_KC = rows @ sample.by_cluster
    covariates_FC = (pull_KC.T @ sample.design.x_KF).T
    return np.concatenate([(sample.design.gathers @ pull_KC).toarray(), covariates_FC])


def _tie_slopes(sample: Sample, x_Q: Floats) -> Floats:
    """[C] derivative of each cluster's log-likelihood by log nu."""
    if not sample.tally.tied[0]:
        return np.zeros(sample.clusters)
    above_3K = np.array([[0.0], [1.0], [0.0]]) - _chances(sample, x_Q)[1]
    return np.asarray(sample.by_cluster.T @ above_3K.ravel())
