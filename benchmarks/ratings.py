"""Ratings: how fast, how often their intervals are right, and what sequential tests and adaptive pairing save.

    pip install choix evalica          # to compare with; either may be missing
    python benchmarks/ratings.py [--json] [--quick] [--only speed coverage sprt adaptive] [--tournaments 500]

**Speed.** 1,000 agents of normal strength (standard deviation 1 nat) and 1,000,000 matches of random pairs about 1,000
questions. All contestants begin with the same matches in memory, so that counting is within their time, and end at the
same maximum: the largest difference of a strength to arena's is printed. Medians of wall times in this process;
contestants take turns. `choix` has no ties, so that there are none in the first comparison; its fastest way
(`ilsr_pairwise_dense`) leaves the counting to its caller and is given the counts, which is compared with arena's
`fit_seconds_counted`. `evalica` is timed in its fastest way, with numbered arrays and a ready index, as arena is, and
with lists of names as its documentation shows (`fit_seconds_names`). A bootstrap replicate is a fit of whole questions
drawn with replacement, 200 of them with all intervals and rank intervals; what evalica's own resampling of single
matches takes is measured with a few replicates and scaled up.

**Coverage.** Tournaments in which every game follows Davidson's model exactly, with strengths from -1 to 1 nat, while
games about a question depend on each other: 30 % of the variance (of a normal variable behind each game) is how a
question suits an agent, 20 % how this pairing on this question goes, alike in both orders. Coverage is the share of
agents whose true strength lies in its 95 % interval; `coverage_unclustered` is what intervals that take games as
independent would have had.

**Tests and schedules** are in ratings_simulations.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena.ratings import ELO, Counts, Match, MatchCounter, bradley_terry, elo_table, fit_counts


def main() -> None:
    """Measure, and print a table or JSON."""
    options = _options()
    found: dict[str, Any] = {}
    for part in options.only:
        began = time.perf_counter()
        found |= PARTS[part](options)
        print(f"{part}: {time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(json.dumps(found) if options.json else json.dumps(found, indent=2))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one line of JSON, and nothing else on stdout")
    parser.add_argument("--quick", action="store_true", help="little of everything: whether it runs")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--tournaments", type=int, default=500, help="simulated tournaments (default 500)")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each fit (default 5)")
    options = parser.parse_args()
    if options.quick:
        options.tournaments, options.repeats = min(options.tournaments, 10), 1
    return options


@dataclass(frozen=True)
class Played:
    """Matches as arrays."""

    players: int
    first: NDArray[np.int64]
    second: NDArray[np.int64]
    score: NDArray[np.float64]
    question: NDArray[np.int64]

    @classmethod
    def at_random(cls, players: int, number: int, ties: float) -> Played:
        """Random pairs; a share of ties whoever is stronger."""
        rng = np.random.default_rng(0)
        strength = rng.normal(size=players)
        first = rng.integers(0, players, number)
        second = (first + rng.integers(1, players, number)) % players
        won = rng.random(number) < 1 / (1 + np.exp(strength[second] - strength[first]))
        score = np.where(rng.random(number) < ties, 0.5, won.astype(np.float64))
        return cls(players, first, second, score, rng.integers(0, 1000, number))

    @property
    def names(self) -> list[str]:
        """What the agents are called."""
        return [f"agent {number}" for number in range(self.players)]

    def counts(self) -> Counts:
        """Counted by question."""
        counter = MatchCounter()
        counter.add_arrays(self.first, self.second, self.score, self.question, names=self.names)
        return counter.counts()

    def matches(self) -> list[Match]:
        """As a tournament has them."""
        names = self.names
        columns = self.first.tolist(), self.second.tolist(), self.score.tolist(), self.question.tolist()
        return [Match(names[i], names[j], s, f"q{q}") for i, j, s, q in zip(*columns, strict=True)]


def _speed(options: argparse.Namespace) -> dict[str, Any]:
    size = (100, 20_000) if options.quick else (1000, 1_000_000)
    replicates = 20 if options.quick else 200
    plain, tied = Played.at_random(*size, ties=0.0), Played.at_random(*size, ties=0.15)
    table, tied_table = (np.column_stack([p.first, p.second, p.score]) for p in (plain, tied))
    counts, tied_counts, matches = plain.counts(), tied.counts(), tied.matches()
    ways: dict[str, Callable[[], Any]] = {
        "arena": lambda: bradley_terry(size[0], table).theta,
        "arena tied": lambda: bradley_terry(size[0], tied_table).theta,
        "arena counted": lambda: fit_counts(counts).theta,
        "arena tied counted": lambda: fit_counts(tied_counts).theta,
        "count": tied.counts,
        **_choix_ways(plain),
        **_evalica_ways(plain, tied),
    }
    times, strengths = _taking_turns(ways, options.repeats)
    for name, theta in strengths.items():
        if name != "count":
            own = strengths["arena tied" if "tied" in name else "arena"]
            print(f"{name}: {times[name]:.3f} s, {np.abs(theta - own).max():.1e} nats away", file=sys.stderr)
    bootstrap = _seconds(lambda: elo_table(tied_counts, bootstrap=replicates))
    found = {
        "fit_seconds": times["arena"],
        "fit_seconds_counted": times["arena counted"],
        "fit_seconds_from_matches": _seconds(lambda: elo_table(iter(matches), bootstrap=0)),
        "count_seconds": times["count"],
        "counted_bytes": tied_counts.nbytes,
        "bootstrap_seconds": bootstrap,
        "bootstrap_replicates": replicates,
        "ties": {"fit_seconds": times["arena tied"], "fit_seconds_counted": times["arena tied counted"]},
        "peers": _peers(times),
    }
    if "evalica" in times:
        found["peers"]["evalica"]["bootstrap_seconds_scaled"] = _evalica_bootstrap(tied, replicates)
    return found


def _peers(times: dict[str, float]) -> dict[str, dict[str, float]]:
    peers: dict[str, dict[str, float]] = {}
    if "choix" in times:
        peers["choix"] = {"fit_seconds": times["choix"], "fit_seconds_counted": times["choix counted"]}
    if "evalica" in times:
        peers["evalica"] = {
            "fit_seconds": times["evalica"],
            "fit_seconds_names": times["evalica names"],
            "fit_seconds_ties": times["evalica tied"],
            "fit_seconds_ties_names": times["evalica tied names"],
        }
    return peers


def _choix_ways(plain: Played) -> dict[str, Callable[[], Any]]:
    if not importlib.util.find_spec("choix"):
        print("choix is left out: it is not installed", file=sys.stderr)
        return {}
    import choix

    winner, loser = np.where(plain.score == 1, (plain.first, plain.second), (plain.second, plain.first))
    pairs = list(zip(winner.tolist(), loser.tolist(), strict=True))
    wins = np.zeros((plain.players, plain.players))
    np.add.at(wins, (winner, loser), 1)

    def centred(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        return theta - theta.mean()

    return {
        "choix": lambda: centred(choix.ilsr_pairwise(plain.players, pairs)),
        "choix counted": lambda: centred(choix.ilsr_pairwise_dense(wins)),
    }


def _evalica_ways(plain: Played, tied: Played) -> dict[str, Callable[[], Any]]:
    if not importlib.util.find_spec("evalica"):
        print("evalica is left out: it is not installed", file=sys.stderr)
        return {}
    import evalica
    import pandas as pd

    results = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    numbers = list(range(plain.players))

    def way(fit: Callable[..., Any], played: Played, *, arrays: bool) -> Callable[[], Any]:
        winners = [results[score] for score in played.score.tolist()]
        names = played.names
        sides: tuple[Any, Any] = (played.first, played.second)
        more: dict[str, Any] = {"index": pd.Index(numbers)}
        if not arrays:
            sides, more = tuple([names[k] for k in side.tolist()] for side in sides), {}
        order = numbers if arrays else names

        def run() -> NDArray[np.float64]:
            theta = np.log(fit(*sides, winners, limit=10_000, **more).scores.reindex(order).to_numpy())
            return np.asarray(theta - theta.mean())

        return run

    return {
        "evalica": way(evalica.bradley_terry, plain, arrays=True),
        "evalica names": way(evalica.bradley_terry, plain, arrays=False),
        "evalica tied": way(evalica.newman, tied, arrays=True),
        "evalica tied names": way(evalica.newman, tied, arrays=False),
    }


def _evalica_bootstrap(tied: Played, replicates: int) -> float:
    """Seconds of evalica's bootstrap, from a few of its replicates and the fit that it begins with."""
    import evalica

    results = {1.0: evalica.Winner.X, 0.0: evalica.Winner.Y, 0.5: evalica.Winner.Draw}
    arguments = tied.first, tied.second, [results[score] for score in tied.score.tolist()]
    few = {"limit": 10_000, "bootstrap_method": "percentile", "random_state": 0}
    two, four = (
        _seconds(lambda n=n: evalica.bootstrap(evalica.newman, *arguments, n_resamples=n, **few)) for n in (2, 4)
    )
    return two + (four - two) / 2 * (replicates - 2)


def _taking_turns(ways: dict[str, Callable[[], Any]], repeats: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Median seconds of each, and what it returned; all are run once before."""
    results = {name: way() for name, way in ways.items()}
    seconds = [{name: _seconds(way) for name, way in ways.items()} for _ in range(repeats)]
    return {name: statistics.median(one[name] for one in seconds) for name in ways}, results


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def tournament(seed: int, theta: NDArray[np.float64], tasks: int, *, nu: float = 0.5) -> Played:
    """A round robin in both orders; see the head of this file."""
    from scipy.special import ndtr

    rng = np.random.default_rng([1, seed])
    low, high = np.triu_indices(len(theta), 1)
    suits = rng.normal(size=(tasks, len(theta)))
    shared = math.sqrt(0.3 / 2) * (suits[:, low] - suits[:, high]) + math.sqrt(0.2) * rng.normal(size=(tasks, len(low)))
    half = (theta[low] - theta[high]) / 2
    z = np.exp(half) + np.exp(-half) + nu
    level = ndtr(shared + math.sqrt(0.5) * rng.normal(size=(2, *shared.shape)))
    score = np.where(level > 1 - np.exp(half) / z, 1.0, np.where(level > np.exp(-half) / z, 0.5, 0.0))
    score[1] = 1 - score[1]
    first, second = (np.stack([np.tile(a, (tasks, 1)), np.tile(b, (tasks, 1))]) for a, b in ((low, high), (high, low)))
    question = np.tile(np.arange(tasks)[:, None], (2, 1, len(low)))
    columns = (column.ravel() for column in (first, second, score, question))
    return Played(len(theta), *columns)


def _coverage(options: argparse.Namespace) -> dict[str, Any]:
    agents, tasks = 6, 60
    theta = np.linspace(-1.0, 1.0, agents)
    inside = {kind: np.zeros(agents) for kind in ("bootstrap", "profile", "unclustered", "ranks")}
    for seed in range(options.tournaments):
        played = tournament(seed, theta, tasks)
        counts = played.counts()
        truth = {name: (ELO * theta[k], agents - k) for k, name in enumerate(played.names)}
        apart = MatchCounter()
        apart.add_arrays(played.first, played.second, played.score, np.arange(len(played.first)), names=played.names)
        tables = {
            "bootstrap": elo_table(counts, seed=seed),
            "profile": elo_table(counts, seed=seed, intervals="profile", bootstrap=1),
            "unclustered": elo_table(apart.counts(), seed=seed, bootstrap=200),
        }
        for kind, rows in tables.items():
            inside[kind] += [r.low <= truth[r.name][0] <= r.high for r in sorted(rows, key=lambda r: r.name)]
        inside["ranks"] += [r.rank_low <= truth[r.name][1] <= r.rank_high for r in tables["bootstrap"]]
    shares = {kind: float(hits.sum() / agents / options.tournaments) for kind, hits in inside.items()}
    return {
        "coverage": shares["bootstrap"],
        "coverage_of_each_agent": (inside["bootstrap"] / options.tournaments).tolist(),
        "coverage_profile": shares["profile"],
        "coverage_unclustered": shares["unclustered"],
        "coverage_of_ranks": shares["ranks"],
        "coverage_of": {"tournaments": options.tournaments, "agents": agents, "tasks": tasks},
    }


def _sprt(options: argparse.Namespace) -> dict[str, Any]:
    from ratings_simulations import Pairs, sprt_errors

    from arena.decisions import Sprt

    test = Sprt(elo0=0, elo1=100, alpha=0.05, beta=0.05)
    errors = sprt_errors(test, Pairs(), repeats=100 if options.quick else 20_000)
    bounds = {"elo0": test.elo0, "elo1": test.elo1, "nominal_alpha": test.alpha, "nominal_beta": test.beta}
    return {"sprt": {**asdict(errors), **bounds}}


def _adaptive(options: argparse.Namespace) -> dict[str, Any]:
    from ratings_simulations import adaptive_share

    found = adaptive_share(repeats=2) if options.quick else adaptive_share()
    rest = {"tau_of_round_robin": found.round_robin, "tau_at_half": found.at_half}
    return {"adaptive_games_share": found.share, "adaptive": rest}


PARTS: dict[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "speed": _speed,
    "coverage": _coverage,
    "sprt": _sprt,
    "adaptive": _adaptive,
}

if __name__ == "__main__":
    main()
