"""What a tournament will take, before it is played: games, calls, tokens, money and time.

Counts of games are exact where pairings do not depend on results. Tokens are estimates: a few games are played by
stand-ins that say as much as each turn may hold, and their prompts are measured at four characters a token; where games
of the tournament are stored already, what these sampled is taken instead.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arena.protocols import Protocol, load_protocol
from arena.protocols.records import Task
from arena.protocols.registry import parse_spec
from arena.scheduling import Pairing, Result, Schedule, State, size
from arena.seeds import derive_seed
from arena.tournament.arms import arm_protocol, row_names
from arena.tournament.config import TournamentConfig
from arena.tournament.entries import entries_of
from arena.tournament.needs import ModelUse, Needs
from arena.tournament.world import build_schedule, opened_tasks

__all__ = ["Estimate", "Speed", "estimate"]

_MOST_ROUNDS = 500
_FIRST_ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast games were played before."""

    tokens_per_s: float
    games_per_s: float = 0.0
    """0 where only tokens are known."""
    source: str = "given"


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is to be played."""

    agents: int
    pairings: int
    """Pairs of agents."""
    tasks: int
    games: int
    """Those that are rated, stored ones included."""
    games_are: str
    """``exact``, ``at most`` or ``estimate``."""
    stored: int
    """Games that are in the store already."""
    rounds: int
    schedule: str
    arms: Mapping[str, int]
    """Row of the table of accuracies -> games."""
    rejudged: int
    """Verdicts of further judges."""
    turns: int | None
    """Of the rated games; None where their number depends on what is said."""
    verdicts: int | None
    models: Mapping[str, ModelUse] | None = None
    """Model -> what it is asked for in games and arms that are not stored; None where no game could be tried."""
    tokens_from: str = ""
    """Where the numbers of tokens come from."""
    seconds: float | None = None
    seconds_from: str = ""
    notes: Sequence[str] = ()

    @property
    def cost(self) -> float | None:
        """US dollars; None where some price is unknown."""
        costs = [use.cost for use in (self.models or {}).values()]
        return None if self.models is None or None in costs else sum(cost for cost in costs if cost is not None)

    def plain(self) -> dict[str, Any]:
        """As JSON values."""
        models = None if self.models is None else {
            name: {
                "calls": use.calls,
                "prompt_tokens": use.prompt_tokens,
                "completion_tokens": use.completion_tokens,
                "cost": use.cost,
            }
            for name, use in self.models.items()
        }  # fmt: skip
        names = (
            "agents", "pairings", "tasks", "games", "games_are", "stored", "rounds", "schedule", "arms", "rejudged",
            "turns", "verdicts", "tokens_from", "seconds", "seconds_from", "notes",
        )  # fmt: skip
        return {name: getattr(self, name) for name in names} | {"models": models, "cost": self.cost}


def estimate(
    config: TournamentConfig,
    *,
    stored: Mapping[str, int] | None = None,
    sampled: float | None = None,
    speed: Speed | None = None,
) -> Estimate:
    """What a checked tournament will take. Builds its tasks, so that their faults show; no agent and no judge.

    Args:
        config: of the tournament.
        stored: stage -> games that are stored already.
        sampled: tokens that a stored game sampled on average; None: as tried games have it.
        speed: for the time.

    Raises:
        UserError: a fault of the tasks.
    """
    stored = stored or {}
    entries = entries_of(config.agents)
    protocols = {part: load_protocol(of.protocol, of.params) for part, of in config.played().items()}
    schedule = build_schedule(config, tuple(entries))
    _, tasks, spare = opened_tasks(config, schedule)
    for protocol in protocols.values():
        for task in (*tasks, *spare):
            protocol.check_task(task)
    for arm in config.arms.values():
        protocol = arm_protocol(arm)
        for task in tasks:
            protocol.check_task(task)
    begin = State(tuple(entries), _ids(tasks), seed=config.seed, spare=_ids(spare))
    pairings, rounds, games_are = _simulated(schedule, begin, config, len(protocols))
    games = len(pairings) * 2 * len(protocols)
    arms = {
        row: len(tasks) * _orders(arm_protocol(arm), tasks)
        for name, arm in config.arms.items()
        for row in row_names(name, arm, tuple(entries))
    }
    done = sum(count for stage, count in stored.items() if stage.split("/")[0] == "tournament")
    lengths = [_length(protocol) for protocol in protocols.values()]
    per_pairing = [
        None if None in column else sum(n for n in column if n is not None) * 2 for column in zip(*lengths, strict=True)
    ]
    use = Needs(config, entries, tasks, max(0.0, 1 - done / games) if games else 0.0, sampled)
    use.games(protocols, pairings)
    use.arms(arms, stored)
    use.rejudged(protocols, len(pairings))
    seconds, seconds_from = _time(speed, use, games + sum(arms.values()) - sum(stored.values()))
    return Estimate(
        agents=len(entries),
        pairings=len({(p.first, p.second) for p in pairings}),
        tasks=len(tasks),
        games=games,
        games_are=games_are,
        stored=done,
        rounds=rounds,
        schedule=parse_spec(config.schedule).kind,
        arms=arms,
        rejudged=len(config.judges) * games,
        turns=None if per_pairing[0] is None else per_pairing[0] * len(pairings),
        verdicts=None if per_pairing[1] is None else per_pairing[1] * len(pairings),
        models=dict(use.models) if use.known else None,
        tokens_from=use.source,
        seconds=seconds,
        seconds_from=seconds_from,
        notes=use.notes,
    )


def _simulated(
    schedule: Schedule, begin: State, config: TournamentConfig, protocols: int
) -> tuple[list[Pairing], int, str]:
    """Pairings of the whole schedule, how many rounds they make, and how far that is known.

    A schedule that looks at results is shown those of coins. One that stops early is followed to its end; of one that
    tells its size, the first rounds stand for all others.
    """
    total = size(schedule, begin)
    most = _MOST_ROUNDS if total is None else _FIRST_ROUNDS
    games_are = (
        "exact" if schedule.static or total is not None else "at most" if config.sprt is not None else "estimate"
    )
    rng = random.Random(derive_seed(config.seed, "dry run"))
    rounds: list[tuple[Result, ...]] = []
    pairings: list[Pairing] = []
    # Without a decided game nothing stops early.
    coins = 0 if config.sprt is not None else 2 * protocols
    while len(rounds) < most and (chosen := schedule.next_round(replace(begin, rounds=tuple(rounds)))):
        pairings += chosen
        rounds.append(tuple(Result(each, tuple(float(rng.random() < 0.5) for _ in range(coins)), 2) for each in chosen))
    count = len(rounds)
    if total is not None and pairings:
        count = math.ceil(count * total / len(pairings))
        pairings = list(itertools.islice(itertools.cycle(pairings), total))
    if config.budget.games is not None and config.budget.games < len(pairings) * 2 * protocols:
        pairings, games_are = pairings[: config.budget.games // (2 * protocols)], "at most"
    return pairings, count, games_are


def _ids(tasks: Sequence[Task]) -> tuple[str, ...]:
    return tuple(task.id for task in tasks)


def _orders(protocol: Protocol, tasks: Sequence[Task]) -> int:
    """Games of an arm on a task; see `arena.running.balanced_plans`."""
    return 2 if protocol.seats and all(len(task.answers) > 1 for task in tasks) else 1


def _length(protocol: Protocol) -> tuple[int | None, int | None]:
    """Turns and verdicts of a game; None where its course depends on what is said."""
    course = protocol.course()
    if course is None:
        return None, None
    return sum(node.speaks for node in course), sum(node.gives_verdict for node in course)


def _time(speed: Speed | None, use: Needs, games: int) -> tuple[float | None, str]:
    if speed is None:
        return None, "no speed is known: give --speed TOKENS_PER_S, or --out of a tournament that was played"
    if speed.tokens_per_s > 0 and use.tokens > 0:
        return use.tokens / speed.tokens_per_s, f"{speed.tokens_per_s:.0f} tokens/s, {speed.source}"
    if speed.games_per_s > 0:
        return games / speed.games_per_s, f"{speed.games_per_s:.2f} games/s, {speed.source}"
    return None, "the speed that is known is of no use for these games"
