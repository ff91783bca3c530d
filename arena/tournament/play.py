"""A tournament from its file to its ratings: games, arms, further judges, analysis."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from arena.agents.prices import used_by
from arena.protocols import sources_of
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode
from arena.records_json import finite
from arena.running import record_tasks
from arena.store import RunHandle, Store, is_url
from arena.tournament.analysis import analyse
from arena.tournament.arms import ArmsPlayed, play_arms
from arena.tournament.begun import begun, enter, record_speed
from arena.tournament.checks import check_tasks, check_tournament
from arena.tournament.config import SpecLike, TournamentConfig
from arena.tournament.live import Live, Watcher
from arena.tournament.material import Material
from arena.tournament.rejudged import judge_again
from arena.tournament.rounds import Games
from arena.tournament.standings import HowRated, Standings, rated
from arena.tournament.world import World, build_schedule, build_world, identity_of
from arena.undecided import UndecidedLimit

__all__ = ["run_tournament", "with_added"]

_GROWS = ("agents", "arms", "judges")
"""What may have more entries when a tournament is resumed."""


def run_tournament(
    config: TournamentConfig,
    out: str | Path,
    *,
    created: str,
    resume: bool = False,
    add: Mapping[str, SpecLike] | None = None,
    concurrency: int = 512,
    on_start: Callable[[int, int], None] | None = None,
    on_batch: Callable[[list[Episode]], None] | None = None,
    watch: Watcher | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Standings:
    """Play what the schedule asks for, store every game in ``out``, rate the agents and analyse the games.

    Args:
        config: what to play; a resumed tournament must have the same, but for what decides no game (budgets, limits,
            how ratings are made), and may have more agents, arms and judges.
        out: run directory, or a database URL that many processes may share.
        created: time stamp to store with the run.
        resume: go on with a tournament that is there.
        add: agents that join the tournament that is there, by name; only the games that they need are played. They are
            stored with it and need not be named again.
        concurrency: most games in flight; one where a person takes part.
        on_start: called with (games that the schedule asks for at the beginning, games already stored).
        on_batch: called with the games that finished together.
        watch: called with what is known so far when a stage begins and after each batch.
        clock: seconds, for the speed that a dry run estimates time from.

    Raises:
        UserError: a mistake in the file, its tasks, agents or judges; nothing was played.
        ResumeError: the directory holds another tournament.
    """
    resume = resume or bool(add)
    stored = begun(out) if resume or is_url(out) else None
    if stored is not None:
        config = with_added(config, {row["name"]: row["spec"] for row in stored.added if row["spec"] is not None})
    elif add:
        raise ConfigError(f"{out} holds no tournament that {', '.join(add)} could join: play it first")
    config = with_added(config, add or {})
    check_tournament(config)
    world = build_world(config)
    check_tasks(world)
    if any(getattr(person, "interactive", False) for person in world.everybody()):
        concurrency = 1
    with Store.open(out) as store:
        run = store.begin("tournament", identity_of(world), created=created, resume=resume, grows=_GROWS, share=True)
        entered = enter(run, world, stored, add or {})
        record_tasks(run, world.playable)
        for step, protocol in enumerate(world.protocols.values()):
            run.record("protocol", step, sources_of(protocol))
        playing = _Playing(world, run, entered, concurrency, on_start, on_batch, watch)
        started = clock()
        standings = playing.play()
        record_speed(run, playing.live.played, playing.live.tokens, clock() - started)
    return standings


def with_added(config: TournamentConfig, added: Mapping[str, SpecLike]) -> TournamentConfig:
    """The tournament with more agents.

    Raises:
        ConfigError: one is there already, and is another.
    """
    for name, spec in added.items():
        if config.agents.get(name, spec) != spec:
            raise ConfigError(
                f"the tournament has an agent '{name}' already, {config.agents[name]!r}: choose another name"
            )
    return config.model_copy(update={"agents": {**config.agents, **added}})


class _Playing:
    """One call of `run_tournament`."""

    def __init__(
        self,
        world: World,
        run: RunHandle,
        entered: Mapping[str, int],
        concurrency: int,
        on_start: Callable[[int, int], None] | None,
        on_batch: Callable[[list[Episode]], None] | None,
        watch: Watcher | None,
    ) -> None:
        config = world.config
        self.world = world
        self.run = run
        self.entered = entered
        self.concurrency = concurrency
        self.on_start = on_start
        self.on_batch = on_batch or (lambda batch: None)
        self.watch = watch or (lambda live: None)
        self.limit = UndecidedLimit(config.max_undecidable)
        self.how = HowRated(config.anchor, config.seed, config.ties, config.intervals, config.bootstrap)
        self.live = Live(self.how)

    def play(self) -> Standings:
        """Everything, and what came of it."""
        first = tuple(name for name, begun in self.entered.items() if begun == 0)
        schedule = build_schedule(self.world.config, first)
        self.live.open_end = not schedule.static
        games = Games(self.world, self.run, self.limit, self.concurrency, self.live, self._watched, self.on_batch)
        played = games.play(schedule, self.entered)
        undecided = self.limit.found
        # Before all else: an arm or a further judge that fails costs no ratings.
        standings = rated(played.matches, played.all, self.world.by_id, self.how, self.run)
        arms, judged = ArmsPlayed(), {}
        if not (played.stopped or undecided.too_many):
            arms = play_arms(
                self.world, self.run, self.concurrency, self.live, self.watch, self.on_batch, games.cost_spent
            )
            judged = judge_again(self.world, self.run, played, self.live, self.watch)
        analysis = analyse(Material(self.world, played, arms, judged))
        self.run.record("analysis", 0, finite(analysis))
        stopped = played.stopped or arms.stopped
        self.run.finish("stopped" if stopped or undecided.too_many else "done")
        return replace(
            standings,
            usage=used_by(self.world.everybody()),
            missing=played.missing + arms.missing,
            stopped="" if undecided.too_many else stopped,
            undecided=undecided,
            rounds=len(played.state.rounds),
            analysis=analysis,
        )

    def _watched(self, live: Live) -> None:
        if self.on_start is not None:
            start, self.on_start = self.on_start, None
            start(live.total, live.done)
        self.watch(live)
