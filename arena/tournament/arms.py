"""The truth side: what the deciding judge makes of the tasks when nobody, one agent or the evidence helps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from arena.agents.types import Agent
from arena.engine import Engine, sampled_tokens
from arena.playing import play_stored
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode
from arena.running import balanced_plans
from arena.seeds import derive_seed
from arena.store import RunHandle
from arena.tournament.config import TournamentArm
from arena.tournament.entries import build_lineup
from arena.tournament.live import Live, Watcher
from arena.tournament.world import World
from arena.undecided import UndecidedLimit

__all__ = ["ALL_AGENTS", "ArmsPlayed", "arm_protocol", "play_arms", "row_names"]

ALL_AGENTS = "agents"
"""Lineup of an arm that is measured with each agent of the tournament."""

STAGE = "arm"
"""First part of the names of stages that hold games of arms."""


@dataclass(slots=True)
class ArmsPlayed:
    """Games of all arms."""

    rows: dict[str, list[Episode]] = field(default_factory=dict)
    """Row of the table -> its games."""
    stopped: str = ""
    """Why not all was played."""
    notes: list[str] = field(default_factory=list)
    missing: int = 0


def arm_protocol(arm: TournamentArm, tokens: int | None = None) -> Protocol:
    """The protocol of an arm; ``tokens`` is what it may spend where ``equal_tokens`` says so."""
    params = arm.params if tokens is None else {**arm.params, "tokens": tokens}
    return load_protocol(arm.protocol, params)


def row_names(name: str, arm: TournamentArm, entries: Sequence[str]) -> list[str]:
    """Rows of the table that an arm makes."""
    return [f"{name}_{entry}" for entry in entries] if arm.lineup == ALL_AGENTS else [name]


def play_arms(
    world: World,
    run: RunHandle,
    concurrency: int,
    live: Live,
    watch: Watcher,
    on_batch: Callable[[list[Episode]], None],
    enough: Callable[[], bool],
) -> ArmsPlayed:
    """Play every arm on the tasks of the tournament, each task with its answers in both orders of the seats."""
    played = ArmsPlayed()
    for name, arm in world.config.arms.items():
        tokens = None if arm.equal_tokens is None else _spent(played, arm.equal_tokens, world)
        protocol = arm_protocol(arm, tokens)
        for row, lineup in _lineups(name, arm, protocol, world).items():
            plans = balanced_plans(f"{STAGE}/{row}/", protocol, world.tasks, lineup, both=True)
            engine = Engine(
                protocol, world.judge, seed=derive_seed(world.config.seed, STAGE, row), concurrency=concurrency
            )
            live.stage, live.total, live.done, live.open_end = f"{STAGE} {row}", len(plans), 0, False
            live.done = len(run.finished(f"{STAGE}/{row}"))
            watch(live)

            def heard(batch: list[Episode]) -> None:
                live.batch(batch)
                on_batch(batch)
                watch(live)

            limit = UndecidedLimit(world.config.max_undecidable)
            episodes = play_stored(engine, plans, run, f"{STAGE}/{row}", heard, limit, enough=enough)
            played.rows[row] = episodes
            if len(episodes) < len(plans):
                played.missing += len(plans) - len(episodes)
                if not limit.passed:
                    played.stopped = engine.stopped or "cost budget"
                    return played
                played.notes.append(f"arm '{row}' was stopped, since too many verdicts cannot be used: {limit.found}")
    return played


def _lineups(name: str, arm: TournamentArm, protocol: Protocol, world: World) -> dict[str, Mapping[str, Agent]]:
    """Rows of an arm with who speaks in them."""
    roles = protocol.speakers
    if arm.lineup is None or not roles:
        return {name: {}}
    if arm.lineup == ALL_AGENTS:
        return {
            row: build_lineup(entry, roles, world.build_agent)
            for row, entry in zip(row_names(name, arm, tuple(world.entries)), world.entries.values(), strict=True)
        }
    if isinstance(arm.lineup, str) and arm.lineup in world.entries:
        return {name: build_lineup(world.entries[arm.lineup], roles, world.build_agent)}
    return {name: dict.fromkeys(roles, world.build_agent(arm.lineup))}


def _spent(played: ArmsPlayed, other: str, world: World) -> int:
    """Tokens that another arm sampled on a question, on average over its rows, rounded up.

    Raises:
        ConfigError: it sampled none that were counted.
    """
    rows = row_names(other, world.config.arms[other], tuple(world.entries))
    episodes = [episode for row in rows for episode in played.rows.get(row, ())]
    tokens = sum(sampled_tokens(turn) for episode in episodes for turn in episode.turns)
    if not tokens:
        raise ConfigError(
            f"arm '{other}' sampled no tokens that its agents count, so nothing can be given as many: remove "
            "equal_tokens, and set the protocol's parameter 'tokens' under params"
        )
    return math.ceil(tokens / len(episodes))
