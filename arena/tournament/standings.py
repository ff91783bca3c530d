"""Where a tournament stands: ratings of who played, and what a reader of them must know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from arena.agents.prices import Usage
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task
from arena.ratings import CrossPlay, Match, Rating, cross_play, elo_table
from arena.records_json import finite
from arena.running import Accuracy, accuracy
from arena.seeds import derive_seed
from arena.store import RunHandle
from arena.tournament.pairing import matches_of
from arena.undecided import NO_VERDICTS, Undecided

__all__ = ["PRIOR", "HowRated", "Standings", "rate", "rated", "standings_of"]

PRIOR = 0.1
"""l2 of the mild prior that is used where games determine no finite ratings."""


@dataclass(frozen=True, slots=True)
class HowRated:
    """How ratings are made from matches; see the keys of the same names in a tournament file."""

    anchor: str | None = None
    seed: int = 0
    ties: Literal["davidson", "half"] = "davidson"
    intervals: Literal["bootstrap", "profile"] = "bootstrap"
    bootstrap: int = 1000
    """0: ratings without intervals."""


@dataclass(frozen=True, slots=True)
class Standings:
    """Where a tournament ended."""

    ratings: list[Rating]
    matches: int
    accuracy: Accuracy
    """Share of verdicts that are the label, where tasks have labels."""
    scores: CrossPlay
    """Mean score of each agent against each other, ties one half."""
    note: str = ""
    """What a reader of the ratings must know: that they were shrunk, or why there are none."""
    usage: Sequence[Usage] = ()
    """What was used of models that are paid for or whose answers are kept, one entry a model."""
    missing: int = 0
    """Games that were not played to their end, as far as the schedule has asked for them."""
    stopped: str = ""
    """Why an agent or judge gave up, or which budget was spent; empty if all was played."""
    undecided: Undecided = NO_VERDICTS
    """How many verdicts cannot be used, why, and whether the tournament was stopped for it."""
    rounds: int = 1
    """Rounds that were played to their end."""
    analysis: Mapping[str, Any] = field(default_factory=dict)
    """All else that follows from the games (`arena.tournament.analysis`), as JSON values."""


def standings_of(
    protocol: Protocol,
    episodes: Sequence[Episode],
    tasks: Iterable[Task],
    *,
    anchor: str | None,
    seed: int,
    run: RunHandle | None = None,
    series: str = "ratings",
) -> Standings:
    """Rate the agents of played games; with ``run`` the table is stored beside the games as ``series``.

    Where the games determine no finite ratings (an agent won or lost all of its games), they are fitted again with a
    mild prior (l2 = 0.1) that pulls them together, and the standings say so.
    """
    by_id = {task.id: task for task in tasks}
    matches = matches_of(protocol, episodes, by_id)
    return rated(matches, episodes, by_id, HowRated(anchor, seed), run, series)


def rated(
    matches: Sequence[Match],
    episodes: Sequence[Episode],
    tasks: Mapping[str, Task],
    how: HowRated,
    run: RunHandle | None = None,
    series: str = "ratings",
) -> Standings:
    """The same from matches, which may come from several protocols.

    Args:
        matches: the decided ones of ``episodes``.
        episodes: all games.
        tasks: by id.
        how: to rate.
        run: where the table is stored.
        series: under which name.
    """
    ratings, note = rate(matches, how)
    if len(matches) < len(episodes):
        left_out = (
            f"{len(episodes) - len(matches)} of {len(episodes)} games had no decidable verdict for one of the seats"
        )
        note = f"{note}; {left_out}" if note else left_out
    standings = Standings(ratings, len(matches), accuracy(episodes, tasks), cross_play(matches), note)
    if run is not None:
        run.record(series, 0, finite({"ratings": [asdict(rating) for rating in ratings], "note": note}))
    return standings


def rate(matches: Sequence[Match], how: HowRated) -> tuple[list[Rating], str]:
    """Ratings by maximum likelihood, or with a prior and a note where that has no finite answer."""
    if not any(match.first != match.second for match in matches):
        return [], "no ratings: no game between two agents was decided"
    anchor, note = how.anchor, ""
    if anchor is not None and all(anchor not in (match.first, match.second) for match in matches):
        anchor, note = None, f"no game of the anchor '{anchor}' was decided, so the mean is at 0"
    seed = derive_seed(how.seed, "bootstrap")
    try:
        return elo_table(
            matches, anchor=anchor, seed=seed, bootstrap=how.bootstrap, ties=how.ties, intervals=how.intervals
        ), note
    except ConfigError as error:
        shrunk = f"ratings are pulled together by a prior (l2 = {PRIOR}): {error}"
        ratings = elo_table(
            matches,
            anchor=anchor,
            seed=seed,
            bootstrap=how.bootstrap,
            ties="half",
            l2=PRIOR,
            intervals=how.intervals,
        )
        return ratings, f"{note}; {shrunk}" if note else shrunk
