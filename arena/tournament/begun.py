"""A tournament that was begun: who takes part and since when, and what is left of it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.engine import sampled_tokens
from arena.protocols.errors import StoreError
from arena.store import RunHandle, Store
from arena.tournament.config import SpecLike
from arena.tournament.estimate import Speed
from arena.tournament.rounds import round_of
from arena.tournament.world import World

__all__ = ["Begun", "SoFar", "begun", "enter", "played_so_far", "record_speed"]

_ADDED = "added"
"""Series of the agents that came later: step -> name, spec (None if the file has it) and first round."""
_SAMPLE = 200
"""Stored games that the length of others is estimated from."""


@dataclass(frozen=True, slots=True)
class Begun:
    """What is known of a tournament that was begun."""

    names: tuple[str, ...]
    """Who takes part, added ones included."""
    added: tuple[Mapping[str, Any], ...]
    """Rows of the series ``added``."""
    rounds: int
    """How many were begun; at least 1, since whoever comes now comes after those that are there."""


def begun(out: str | Path) -> Begun | None:
    """What is there; None if nothing is."""
    try:
        with Store.open(out, create=False) as store:
            run = store.run()
            if run.kind != "tournament":
                return None  # `Store.begin` says what it is instead
            rounds = [number for stage in run.stages() if (number := round_of(stage)) is not None]
            added = tuple(row for _, row in sorted(run.series(_ADDED).items()))
            return Begun(tuple(run.config["agents"]), added, max(rounds, default=0) + 1)
    except StoreError:
        return None  # there is nothing yet, or `Store.open` says below what is wrong with it


@dataclass(frozen=True, slots=True)
class SoFar:
    """What a tournament that was begun tells of what is left of it."""

    added: Mapping[str, SpecLike]
    """Agents that the file does not have."""
    stages: Mapping[str, int]
    """Stage -> games."""
    sampled: float | None
    """Tokens that a rated game sampled on average; None where none is stored, or none are counted."""
    speed: Speed | None


def played_so_far(out: str | Path) -> SoFar | None:
    """What is stored of a tournament; None if nothing is."""
    stored = begun(out)
    if stored is None:
        return None
    with Store.open(out, create=False) as store:
        run = store.run()
        stages = {stage: len(run.finished(stage)) for stage in run.stages()}
        rows = list(run.series("speed").values())
        rated_ones = next((stage for stage in stages if round_of(stage) is not None), None)
        games = [] if rated_ones is None else list(itertools.islice(run.episodes(rated_ones), _SAMPLE))
    tokens = sum(sampled_tokens(turn) for episode in games for turn in episode.turns)
    seconds = sum(float(row["seconds"]) for row in rows)
    speed = None
    if seconds > 0:
        totals = {name: sum(row[name] for row in rows) / seconds for name in ("tokens", "games")}
        speed = Speed(totals["tokens"], totals["games"], f"as measured over {sum(row['games'] for row in rows)} games")
    added = {row["name"]: row["spec"] for row in stored.added if row["spec"] is not None}
    return SoFar(added, stages, tokens / len(games) if tokens else None, speed)


def enter(run: RunHandle, world: World, stored: Begun | None, add: Mapping[str, SpecLike]) -> dict[str, int]:
    """Who takes part from which round on, in the order of entry; those that are new are stored."""
    if stored is None:
        return dict.fromkeys(world.entries, 0)
    known = {row["name"]: int(row["round"]) for row in stored.added}
    step = len(stored.added)
    # Whom the store knows without a round was there at the beginning, or was named by a process that died right then.
    grown = {name for row in run.series("config-growth").values() for name in row.get("agents", {})}
    for name in world.entries:
        if name not in known and (name not in stored.names or name in grown):
            run.record(_ADDED, step, {"name": name, "spec": add.get(name), "round": stored.rounds})
            known[name] = stored.rounds
            step += 1
    there = {name: known.get(name, 0) for name in world.entries}
    return dict(sorted(there.items(), key=lambda item: item[1]))


def record_speed(run: RunHandle, games: int, tokens: int, seconds: float) -> None:
    """How fast games were played, for the estimates of dry runs."""
    if games and seconds > 0:
        step = max(run.series("speed"), default=-1) + 1
        run.record("speed", step, {"games": games, "tokens": tokens, "seconds": seconds})
