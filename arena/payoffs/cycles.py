"""What no rating can show: cycles, and how much of a payoff matrix they are.

An antisymmetric matrix is the sum of differences of ratings and of cycles, and the two are orthogonal (Hodge
decomposition; Jiang, Lim, Yao and Ye 2011, "Statistical ranking and combinatorial Hodge theory"; section 2 of Balduzzi
et al. 2018).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from arena.payoffs.matrices import Floats, antisymmetric

__all__ = ["cyclic_triples", "decided_triples", "energies", "sides_of", "transitive_share"]


def transitive_share(flow: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Share of a matrix that is differences of ratings: |grad r|^2 / |A|^2 at the least-squares ratings r.

    The rest is cycles. With equal weights r is the mean of each row.

    Args:
        flow: [P, P] antisymmetric.
        weights: [P, P] symmetric, not negative, such as numbers of games; None: 1 each.

    Returns:
        0 to 1; NaN where the matrix is 0.

    Raises:
        ConfigError: the matrix is not antisymmetric, or empty.
    """
    flow_PP = antisymmetric(flow)
    ends_2E = np.array(np.triu_indices(len(flow_PP), 1))
    weight_E = np.ones(ends_2E.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)[tuple(ends_2E)]
    ratings, total = energies(flow_PP[tuple(ends_2E)][None], weight_E, ends_2E)
    return float(ratings[0] / total[0]) if total[0] > 0 else float("nan")


def energies(flow_RE: Floats, weight_E: Floats, ends_2E: NDArray[np.intp]) -> tuple[Floats, Floats]:
    """Squared length of the part of flows that ratings explain, and of all: [R] each.

    The ratings solve L r = div, with the Laplacian L of the weights and the divergence div of the flow, and the length
    of their differences is div' L^+ div.

    Args:
        flow_RE: [R, E] flows on the edges of one graph, from its first end to its second.
        weight_E: [E] not negative.
        ends_2E: [2, E] agents that each edge joins.
    """
    P, E = int(ends_2E.max()) + 1, len(weight_E)
    incidence_EP = np.zeros((E, P))
    incidence_EP[np.arange(E), ends_2E[0]] = 1.0
    incidence_EP[np.arange(E), ends_2E[1]] = -1.0
    divergence_RP = (flow_RE * weight_E) @ incidence_EP
    laplacian_PP = incidence_EP.T @ (weight_E[:, None] * incidence_EP)
    explained_R = ((divergence_RP @ np.linalg.pinv(laplacian_PP)) * divergence_RP).sum(1)
    return explained_R, (flow_RE**2) @ weight_E


def cyclic_triples(payoff: ArrayLike) -> NDArray[np.intp]:
    """All triples (a, b, c) in which a beats b, b beats c and c beats a.

    Args:
        payoff: [P, P] antisymmetric.

    Returns:
        [M, 3] indices, the smallest first, by falling margin of the weakest side.

    Raises:
        ConfigError: the matrix is not antisymmetric, or empty.
    """
    payoff_PP = antisymmetric(payoff)
    beats_PP = payoff_PP > 0
    found = []
    for a in range(len(payoff_PP)):
        b_M, c_M = np.nonzero(beats_PP[a][:, None] & beats_PP & beats_PP[:, a])  # a beats b, b beats c, c beats a
        later_M = (b_M > a) & (c_M > a)
        found.append(np.column_stack([np.full(later_M.sum(), a), b_M[later_M], c_M[later_M]]))
    triples_M3 = np.concatenate(found)
    return triples_M3[np.argsort(-sides_of(payoff_PP, triples_M3).min(1), kind="stable")]


def sides_of(payoff_PP: Floats, triples_M3: NDArray[np.intp]) -> Floats:
    """[M, 3] margins of the three sides of each cycle."""
    return payoff_PP[triples_M3, np.roll(triples_M3, -1, axis=1)]


def decided_triples(payoff_PP: Floats) -> int:
    """How many triples there are none of whose three sides is even."""
    decided_PP = (payoff_PP != 0).astype(np.int64)
    return int(np.trace(decided_PP @ decided_PP @ decided_PP)) // 6
