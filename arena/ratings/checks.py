"""Whether results determine finite ratings; if not, what would help.

Strengths are finite if and only if no group of players beat all others without a loss (Zermelo 1929; Ford 1957): in the
graph of who beat whom a path leads from everybody to everybody. With ties in a model of their own (Davidson 1970) there
are exceptions in both directions, which a linear program decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from arena.protocols.errors import ConfigError
from arena.ratings.likelihood import Design, Sparse, Tally
from arena.ratings.matches import Floats

__all__ = ["check_finite", "diverging", "strongly_connected"]

_CURE = "play more tasks, or set l2 (0.1 is a mild prior)"
_NAMED = 10
"""Most names in a message."""


def check_finite(design: Design, tally: Tally, names: Sequence[str], l2: float) -> None:
    """Raise unless the likelihood of the first replicate has its maximum at finite strengths.

    Args:
        design: pairs without covariates.
        tally: their results.
        names: [P] players.
        l2: weight of the penalty; any makes all strengths finite.

    Raises:
        ConfigError: no finite ratings, with the reason and the cure.
    """
    if tally.tie_KR[:, 0].any() and not (tally.win_KR[:, 0].any() or tally.loss_KR[:, 0].any()):
        raise ConfigError("every match is a tie, so Davidson's tie parameter has no finite value: use ties='half'")
    if l2 > 0 or strongly_connected(design, tally)[0]:
        return
    check_met(design, names)
    if tally.tie_KR[:, 0].any() and diverging(design, tally) is None:
        return
    unbeaten_P = _unbeaten(design, tally)
    top = [name for name, unbeaten in zip(names, unbeaten_P, strict=True) if unbeaten]
    raise ConfigError(f"{_listed(top)} never lost to any other agent, so no finite rating fits: {_CURE}")


def check_met(design: Design, names: Sequence[str]) -> None:
    """Raise unless matches connect all players, whoever won them."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(design.first_K)), (design.first_K, design.second_K)), shape=(design.players,) * 2)
    _, group_P = connected_components(graph, directed=False)
    apart = [name for name, group in zip(names, group_P, strict=True) if group != group_P[0]]
    if apart:
        raise ConfigError(
            f"the matches fall into groups that never met ({_listed(apart)} and {names[0]}): "
            f"their ratings cannot be compared. Let them meet, or set l2 (0.1 is a mild prior)"
        )


def strongly_connected(design: Design, tally: Tally) -> NDArray[np.bool_]:
    """[R] whether in each replicate wins lead from every player to every other."""
    i, j, P = design.first_K, design.second_K, design.players
    R = tally.replicates
    connected_R = np.zeros(R, dtype=np.bool_)
    # A few dozen wins of each player connect all as a rule, so that most of many pairs need no look.
    for step in sorted({max(1, len(i) // (32 * P)), 1}, reverse=True):
        first_K, second_K = i[::step], j[::step]
        won_KR, lost_KR = tally.win_KR[::step] > 0, tally.loss_KR[::step] > 0
        for r in np.flatnonzero(~connected_R):
            winner = np.concatenate([first_K[won_KR[:, r]], second_K[lost_KR[:, r]]])
            loser = np.concatenate([second_K[won_KR[:, r]], first_K[lost_KR[:, r]]])
            connected_R[r] = _reaches_all(winner, loser, P) and _reaches_all(loser, winner, P)
        if connected_R.all():
            break
    return connected_R


def _reaches_all(start_E: NDArray[np.int64], end_E: NDArray[np.int64], players: int) -> bool:
    """Whether edges lead from player 0 to all others."""
    reached_P = np.zeros(players, dtype=np.bool_)
    reached_P[0] = True
    count = 1
    while True:
        reached_P[end_E[reached_P[start_E]]] = True
        now = int(reached_P.sum())
        if now in (count, players):
            return now == players
        count = now


def diverging(design: Design, tally: Tally) -> Floats | None:
    """A direction of (theta, beta, log nu) [Q] in which the likelihood of the first replicate grows for ever, or None.

    Along it no observed outcome's probability falls and some rise: each observed outcome must stay the greatest of its
    pair's three (Albert and Anderson 1984 for logistic models), which a linear program decides. Ties do not tie
    strengths down by themselves: an agent that only wins and draws has no finite rating.
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array, csr_array, hstack, vstack

    K = len(design.first_K)
    Q = design.players + design.covariates + 1
    with_ties = bool(tally.tie_KR[:, 0].any())
    # The logits of the pair's outcomes as rows of coefficients: half of eta, log nu, and minus half of eta.
    win: Sparse = hstack([design.differences / 2, csr_array(design.x_KF) / 2, coo_array((K, 1))]).tocsr()
    tie: Sparse = coo_array((np.ones(K), (np.arange(K), np.full(K, Q - 1))), shape=(K, Q)).tocsr()
    # What an outcome's logit must not lose to another's, by the outcome that was seen.
    gains = []
    for seen_K, rivals in (
        (tally.win_KR[:, 0] > 0, (2 * win, win - tie)),
        (tally.loss_KR[:, 0] > 0, (-2 * win, -win - tie)),
        (tally.tie_KR[:, 0] > 0, (tie - win, tie + win)),
    ):
        gains += [rival[seen_K] for rival in (rivals if with_ties else rivals[:1]) if seen_K.any()]
    gains_GQ = vstack(gains).tocsr()
    result = linprog(-gains_GQ.sum(axis=0), A_ub=-gains_GQ, b_ub=np.zeros(gains_GQ.shape[0]), bounds=(-1, 1))
    if result.fun is None or result.fun >= -1e-7:
        return None
    return np.asarray(result.x)


def _unbeaten(design: Design, tally: Tally) -> NDArray[np.bool_]:
    """[P] who belongs to a smallest group that no player outside of it ever beat; of several the one named first."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    won_K, lost_K = tally.win_KR[:, 0] > 0, tally.loss_KR[:, 0] > 0
    winner_E = np.concatenate([design.first_K[won_K], design.second_K[lost_K]])
    loser_E = np.concatenate([design.second_K[won_K], design.first_K[lost_K]])
    wins = coo_array((np.ones(len(winner_E)), (winner_E, loser_E)), shape=(design.players,) * 2)
    _, part_P = connected_components(wins, directed=True, connection="strong")
    beaten = np.zeros(design.players, dtype=np.bool_)
    beaten[part_P[loser_E[part_P[winner_E] != part_P[loser_E]]]] = True
    first = next(part for part in part_P if not beaten[part])
    return np.asarray(part_P == first)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
