"""The game that the matches of a tournament describe."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.payoffs.cycles import cyclic_triples, decided_triples, energies, sides_of
from arena.payoffs.matrices import Floats
from arena.payoffs.nash import maxent_nash
from arena.protocols.errors import ConfigError
from arena.ratings import Match, cross_play
from arena.statistics import resample_weights

__all__ = ["Cycle", "PayoffView", "payoff_view"]

_BLOCK = 200  # bootstrap replicates that are drawn together
_CELLS = 10_000_000  # pairs of agents times replicates: 80 MB; of more than 140 agents there are fewer replicates
_MOST = 300  # agents: the number of triples grows with their cube


@dataclass(frozen=True, slots=True)
class Cycle:
    """Three agents of which each beats the next one and the last beats the first."""

    agents: tuple[str, str, str]
    margin: float
    """Mean score above one half of the weakest of its three sides."""
    low: float
    """95 % interval of the margin by bootstrap over tasks; below 0 the cycle may be chance. NaN where there is none.
    The strongest cycles of many are chosen because they are strong, and so look a bit stronger than they are."""
    high: float


@dataclass(frozen=True, slots=True)
class PayoffView:
    """A tournament as a zero-sum game between agents."""

    names: tuple[str, ...]
    """Agents that met all others here."""
    scores: Floats
    """[P, P] mean score of row against column; 0.5 on the diagonal."""
    games: NDArray[np.int64]
    """[P, P] matches."""
    nash: dict[str, float]
    """Weight of each agent in the mixture that no agent beats."""
    ratings: dict[str, float]
    """Mean score of each agent against that mixture, 0.5 at most: Nash averaging."""
    value: float
    """The least mean score of the mixture against any agent."""
    transitive_share: float
    """Share of the matrix (squared log-odds, by number of matches) that differences of ratings explain, 0 to 1; NaN
    where all scores are one half. Chance takes its part from it, the more the fewer games there are."""
    p_transitive: float
    """How often chance alone makes the rest at least as large where ratings explain everything: a p-value by bootstrap
    over tasks. NaN for fewer than three agents or two tasks."""
    intransitive_share: float
    """Share of the triples with three winners that are cycles; a quarter of them where every score is a coin."""
    cycles: tuple[Cycle, ...]
    """The strongest."""
    note: str = ""
    """Who was left out, and why."""

    def row(self) -> dict[str, Any]:
        """The same as plain JSON, without what is not a number."""

        def plain(value: float) -> float | None:
            return value if np.isfinite(value) else None

        return {
            "names": list(self.names),
            "scores": self.scores.tolist(),
            "games": self.games.tolist(),
            "nash": self.nash,
            "ratings": self.ratings,
            "value": self.value,
            "transitive_share": plain(self.transitive_share),
            "p_transitive": plain(self.p_transitive),
            "intransitive_share": plain(self.intransitive_share),
            "cycles": [
                {"agents": list(c.agents), "margin": c.margin, "low": plain(c.low), "high": plain(c.high)}
                for c in self.cycles
            ],
            "note": self.note,
        }


def payoff_view(
    matches: Sequence[Match],
    names: Sequence[str] | None = None,
    *,
    cycles: int = 5,
    bootstrap: int = 1000,
    seed: int = 0,
) -> PayoffView:
    """The game that a tournament's matches describe.

    Nothing is put in place of a pair that never met. Where such pairs exist, agents are left out, those with the fewest
    opponents first, until all that are left have met, and the view says so.

    Args:
        matches: who met whom; self-play tells nothing here.
        names: agents to look at, in this order; None takes all, in the order in which they first appear.
        cycles: how many of the strongest to report.
        bootstrap: replicates of the intervals of their margins and of the p-value, whole tasks resampled; 0 for none.
        seed: of the bootstrap.

    Raises:
        ConfigError: no two agents met, or there are too many agents.
    """
    played = [match for match in matches if match.first != match.second]
    table = cross_play(played, names)
    if len(table.names) > _MOST:
        raise ConfigError(
            f"{len(table.names)} agents are too many for a payoff matrix with cycles: give the names of {_MOST} at most"
        )
    kept, note = _complete(table.names, table.games)
    if len(kept) < 2:
        raise ConfigError("no two of the agents met, so there is no payoff matrix: let them meet")
    score_PP, games_PP = table.score[np.ix_(kept, kept)], table.games[np.ix_(kept, kept)]
    np.fill_diagonal(score_PP, 0.5)
    inside = tuple(table.names[index] for index in kept)
    payoff_PP = score_PP - 0.5
    weight_P = maxent_nash(payoff_PP)
    triples_M3 = cyclic_triples(payoff_PP)
    decided = decided_triples(payoff_PP)
    drawn = _Drawn.of(played, inside, bootstrap, seed)
    return PayoffView(
        inside,
        score_PP,
        games_PP,
        dict(zip(inside, weight_P.tolist(), strict=True)),
        dict(zip(inside, (score_PP @ weight_P).tolist(), strict=True)),
        float((weight_P @ score_PP).min()),
        *_transitivity(drawn),
        len(triples_M3) / decided if decided else float("nan"),
        _strongest(inside, payoff_PP, triples_M3[:cycles], drawn),
        note,
    )


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Points on every edge (i < j) of the complete graph of agents, as they are and in resamples of clusters."""

    ends_2E: NDArray[np.intp]
    clusters: int
    points_XE: Floats
    """[1 + R, E] of the first end; row 0 is what was played."""
    games_XE: Floats

    @classmethod
    def of(cls, matches: Sequence[Match], names: Sequence[str], replicates: int, seed: int) -> _Drawn:
        """Count, and draw."""
        from scipy.sparse import coo_array

        ends_2E = np.array(np.triu_indices(len(names), 1))
        edge = {(names[i], names[j]): number for number, (i, j) in enumerate(ends_2E.T.tolist())}
        clusters: dict[Hashable, int] = {}
        rows = []
        for index, match in enumerate(matches):
            if (place := edge.get((match.first, match.second))) is not None:
                score = match.score
            elif (place := edge.get((match.second, match.first))) is not None:
                score = 1 - match.score
            else:
                continue
            cluster: Hashable = ("task", match.task) if match.task else ("pair", match.pair) if match.pair else index
            rows.append((clusters.setdefault(cluster, len(clusters)), place, score))
        row_N, edge_N, score_N = np.array(rows).T
        place_2N, shape = (row_N.astype(np.intp), edge_N.astype(np.intp)), (len(clusters), len(edge))
        points_CE = coo_array((score_N, place_2N), shape=shape).tocsr()
        games_CE = coo_array((np.ones(len(rows)), place_2N), shape=shape).tocsr()
        replicates = min(replicates, _CELLS // len(edge)) if len(clusters) > 1 else 0
        rng = np.random.default_rng(seed)
        blocks = [np.ones((1, len(clusters)))] + [
            resample_weights(rng, min(_BLOCK, replicates - start), len(clusters))
            for start in range(0, replicates, _BLOCK)
        ]
        points_XE, games_XE = (np.vstack([block @ cells for block in blocks]) for cells in (points_CE, games_CE))
        return cls(ends_2E, len(clusters), points_XE, games_XE)


def _transitivity(drawn: _Drawn) -> tuple[float, float]:
    """Share of the squared log-odds that ratings explain, and the p-value of "all but chance".

    What ratings leave unexplained is linear in the flow. Where they explain everything in truth, it is the unexplained
    part of the noise, and a resample's flow less the flow seen is noise of the same law (Davison and Hinkley 1997,
    section 4.4).
    """
    won_XE, lost_XE = drawn.points_XE + 0.5, drawn.games_XE - drawn.points_XE + 0.5  # 0.5 keeps the logarithm finite
    flow_XE, weight_E = np.log(won_XE / lost_XE), drawn.games_XE[0]
    explained, total = (float(part[0]) for part in energies(flow_XE[:1], weight_E, drawn.ends_2E))
    share = explained / total if total > 0 else float("nan")
    if len(flow_XE) == 1 or len(weight_E) < 3:
        return share, float("nan")
    # Resamples vary by (C - 1) / C too little; a pair none of whose tasks were drawn says nothing about its noise.
    noise_RE = np.where(drawn.games_XE[1:] > 0, flow_XE[1:] - flow_XE[0], 0.0)
    explained_R, total_R = energies(noise_RE * np.sqrt(drawn.clusters / (drawn.clusters - 1)), weight_E, drawn.ends_2E)
    larger = int((total_R - explained_R >= total - explained - 1e-9).sum())
    return share, (1 + larger) / (1 + len(noise_RE))


def _strongest(
    names: Sequence[str], payoff_PP: Floats, triples_M3: NDArray[np.intp], drawn: _Drawn
) -> tuple[Cycle, ...]:
    """The cycles with the intervals of their margins."""
    margin_M = sides_of(payoff_PP, triples_M3).min(1)
    low_M = high_M = np.full(len(triples_M3), np.nan)
    if len(drawn.points_XE) > 1 and len(triples_M3):
        with np.errstate(invalid="ignore"):  # a side none of whose tasks were drawn is not known there
            score_RE = drawn.points_XE[1:] / drawn.games_XE[1:] - 0.5
        number = {(i, j): edge for edge, (i, j) in enumerate(drawn.ends_2E.T.tolist())}
        side_M3 = [
            [number[min(side), max(side)] for side in zip(triple, np.roll(triple, -1).tolist(), strict=True)]
            for triple in triples_M3.tolist()
        ]
        sign_M3 = np.where(triples_M3 < np.roll(triples_M3, -1, axis=1), 1.0, -1.0)
        low_M, high_M = np.nanquantile((score_RE[:, side_M3] * sign_M3).min(-1), [0.025, 0.975], axis=0)
    return tuple(
        Cycle((names[a], names[b], names[c]), float(margin), float(low), float(high))
        for (a, b, c), margin, low, high in zip(triples_M3.tolist(), margin_M, low_M, high_M, strict=True)
    )


def _complete(names: Sequence[str], games_PP: NDArray[np.int64]) -> tuple[list[int], str]:
    """Indices of agents that all met, and what to say of the others."""
    kept = list(range(len(names)))
    while kept:
        met = (games_PP[np.ix_(kept, kept)] > 0).sum(1)
        if met.min() >= len(kept) - 1:
            break
        del kept[len(kept) - 1 - int(np.argmin(met[::-1]))]
    left = [name for index, name in enumerate(names) if index not in kept]
    return kept, f"left out, because they did not meet all others: {', '.join(left)}" if left else ""
