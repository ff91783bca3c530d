"""The games of a tournament, round after round; what is stored is not played again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from arena.agents.prices import used_by
from arena.engine import Engine, Plan, sampled_tokens
from arena.playing import play_stored
from arena.protocols import Budget
from arena.protocols.records import Episode
from arena.ratings import Match
from arena.scheduling import Pairing, Result, Schedule, State
from arena.seeds import derive_seed
from arena.store import RunHandle
from arena.tournament.live import Live, Watcher
from arena.tournament.pairing import decided, game_plans
from arena.tournament.world import World
from arena.undecided import UndecidedLimit

__all__ = ["STAGE", "Games", "Played", "round_of"]

STAGE = "tournament"
"""First part of the names of stages that hold rated games."""

_SPENT = "spent"


def stage_of(number: int, part: str) -> str:
    """The stage of a round: ``tournament``, ``tournament/1``; of several protocols ``tournament/1/NAME``."""
    if part:
        return f"{STAGE}/{number}/{part}"
    return f"{STAGE}/{number}" if number else STAGE


def round_of(stage: str) -> int | None:
    """Number of the round that a stage belongs to; None for stages of other things."""
    first, *rest = stage.split("/")
    return None if first != STAGE else int(rest[0]) if rest else 0


@dataclass(slots=True)
class Played:
    """Games of a tournament."""

    episodes: dict[str, list[Episode]] = field(default_factory=dict)
    """Protocol (its name in the file) -> games, round after round, in the order of the schedule."""
    decided: list[tuple[Episode, Match]] = field(default_factory=list)
    """All decided games of all protocols with their matches, in the order of the schedule."""
    state: State = field(default_factory=lambda: State((), ()))
    """Complete rounds."""
    pairs: dict[tuple[str, str], None] = field(default_factory=dict)
    """Names of those who were paired, in the order in which they first were; incomplete rounds count."""
    missing: int = 0
    """Games that the last round has asked for and that were not played to their end."""
    stopped: str = ""
    """Why the last round is not complete; empty if the schedule is at its end."""

    @property
    def all(self) -> list[Episode]:
        """The games of all protocols."""
        return [episode for episodes in self.episodes.values() for episode in episodes]

    @property
    def matches(self) -> list[Match]:
        """Those of the decided games."""
        return [match for _, match in self.decided]


class Games:
    """Plays the rounds of a tournament.

    Args:
        world: who plays.
        run: where games are stored.
        limit: of verdicts that cannot be used.
        concurrency: most games in flight.
        live: told how far it is.
        watch: called with ``live`` when a round begins and after each batch.
        on_batch: called with the games that finished together.
    """

    def __init__(
        self,
        world: World,
        run: RunHandle,
        limit: UndecidedLimit,
        concurrency: int,
        live: Live,
        watch: Watcher,
        on_batch: Callable[[list[Episode]], None],
    ) -> None:
        self.world = world
        self.run = run
        self.limit = limit
        self.live = live
        self.watch = watch
        self.on_batch = on_batch
        seed = derive_seed(world.config.seed, "tournament")
        self.engines = {
            part: Engine(protocol, world.judge, seed=seed, concurrency=concurrency)
            for part, protocol in world.protocols.items()
        }
        self.numbers = {task.id: number for number, task in enumerate(world.playable)}
        earlier = run.series(_SPENT)
        self.step = run.worker.id if run.worker is not None else max(earlier, default=-1) + 1
        """Of this call in the series of what was spent."""
        self.before = sum(float(row["cost"]) for row in earlier.values())
        """US dollars that earlier calls spent."""
        self.recorded = 0.0
        self.tokens = 0
        """Sampled in the games of all rounds so far."""
        self.games = 0
        """Of complete rounds."""

    def play(self, schedule: Schedule, entered: Mapping[str, int]) -> Played:
        """Play until the schedule is at its end or something stops it.

        Args:
            schedule: says who meets whom.
            entered: who takes part -> number of the round from which on.
        """
        played = Played({part: [] for part in self.world.protocols})
        tasks, spare = (tuple(task.id for task in these) for these in (self.world.tasks, self.world.spare))
        rounds: list[tuple[Result, ...]] = []
        while True:
            there = {name: begun for name, begun in entered.items() if begun <= len(rounds)}
            seed, since = self.world.config.seed, max(there.values())
            state = State(tuple(there), tasks, tuple(rounds), seed, since, spare)
            played.state = state
            pairings = list(schedule.next_round(state))
            late = max(entered.values())
            if not pairings and late > len(rounds):
                rounds += [()] * (late - len(rounds))  # who was added waits for a round that has no games
                continue
            if not pairings:
                return played
            affordable = self._affordable(len(rounds), pairings)
            results = self._round(len(rounds), affordable, played)
            if len(affordable) < len(pairings):
                played.missing += len(self.engines) * 2 * (len(pairings) - len(affordable))
                played.stopped = played.stopped or "games budget"
            if played.stopped or results is None:
                return played
            rounds.append(results)

    def _affordable(self, number: int, pairings: Sequence[Pairing]) -> Sequence[Pairing]:
        """Those that the budget of games is enough for, and those that were begun under a larger one."""
        most = self.world.config.budget.games
        if most is None:
            return pairings
        enough = max(0, (most - self.games) // (2 * len(self.engines)))
        begun = {
            key.rpartition("/")[0].removeprefix(f"{part}/")
            for part in self.engines
            for key in self.run.finished(stage_of(number, part))
        }
        return [
            pairing
            for place, pairing in enumerate(pairings)
            if place < enough or f"{pairing.first}|{pairing.second}/{pairing.task}" in begun
        ]

    def _round(self, number: int, pairings: Sequence[Pairing], played: Played) -> tuple[Result, ...] | None:
        """One round; None if it was stopped, with the reason in ``played``."""
        live = self.live
        live.round, live.stage, live.names = number, "games", played.state.names
        plans = {part: self._plans(part, pairings) for part in self.engines}
        live.total += sum(map(len, plans.values()))
        played.pairs |= dict.fromkeys((pairing.first, pairing.second) for pairing in pairings)
        found: dict[Pairing, list[tuple[float | None, int]]] = {pairing: [] for pairing in pairings}
        for part, planned in plans.items():
            episodes = self._part(number, part, planned, played)
            self._collect(part, episodes, planned, found, played)
            if len(episodes) < len(planned):
                played.missing += len(planned) - len(episodes)
        live.matches = played.matches
        if played.missing:
            return None
        self.games += len(found) * 2 * len(self.engines)
        return tuple(
            Result(pairing, tuple(s for s, _ in games if s is not None), len(games), sum(tokens for _, tokens in games))
            for pairing, games in found.items()
        )

    def _plans(self, part: str, pairings: Sequence[Pairing]) -> list[tuple[Pairing, Plan]]:
        world, tasks = self.world, self.world.by_id
        prefix = f"{part}/" if part else ""
        return [
            (pairing, plan)
            for pairing in pairings
            for plan in game_plans(
                world.protocols[part],
                tasks[pairing.task],
                self.numbers[pairing.task],
                (pairing.first, pairing.second),
                world.lineups[part],
                prefix,
            )
        ]

    def _part(self, number: int, part: str, planned: Sequence[tuple[Pairing, Plan]], played: Played) -> list[Episode]:
        """The games of a round in one protocol."""
        if played.stopped:
            return []
        stage, protocol, engine = stage_of(number, part), self.world.protocols[part], self.engines[part]
        stored = list(self.run.episodes(stage)) if self.run.finished(stage) else []
        self.live.done += len(stored)
        self.live.matches += [match for _, match in decided(protocol, stored, self.world.by_id)]
        self.watch(self.live)
        engine.budget = self._tokens_left(stored)

        def heard(batch: list[Episode]) -> None:
            self.live.batch(batch)
            self.live.matches += [match for _, match in decided(protocol, batch, self.world.by_id)]
            self.live.undecided = self.limit.found
            self._record_cost()
            self.on_batch(batch)
            self.watch(self.live)

        plans = [plan for _, plan in planned]
        episodes = play_stored(engine, plans, self.run, stage, heard, self.limit, enough=self.cost_spent)
        if len(episodes) < len(plans):
            played.stopped = engine.stopped or ("cost budget" if self.cost_spent() else "undecidable verdicts")
        return episodes

    def _collect(
        self,
        part: str,
        episodes: Sequence[Episode],
        planned: Sequence[tuple[Pairing, Plan]],
        found: Mapping[Pairing, list[tuple[float | None, int]]],
        played: Played,
    ) -> None:
        pairing_of = {plan.key: pairing for pairing, plan in planned}
        pairs = list(decided(self.world.protocols[part], episodes, self.world.by_id))
        scores = {episode.key: match.score for episode, match in pairs}
        for episode in episodes:
            tokens = sum(map(sampled_tokens, episode.turns))
            score = scores.get(episode.key)
            # In the second game of a pairing its first agent sits in the second seat.
            exchanged = episode.key.endswith("/1")
            own = score if score is None or not exchanged else 1.0 - score
            found[pairing_of[episode.key]].append((own, tokens))
            self.tokens += tokens
        played.episodes[part] += episodes
        played.decided += pairs

    def _tokens_left(self, stored: Sequence[Episode]) -> Budget:
        most = self.world.config.budget.tokens
        if most is None:
            return Budget()
        spent = sum(sampled_tokens(turn) for episode in stored for turn in episode.turns)
        return Budget(tokens=most - self.tokens - spent)

    def _cost(self) -> float:
        return sum(usage.cost or 0.0 for usage in used_by(self.world.everybody()))

    def cost_spent(self) -> bool:
        """Whether the money of the tournament is spent; that of earlier calls counts."""
        most = self.world.config.budget.cost
        return most is not None and self.before + self._cost() >= most

    def _record_cost(self) -> None:
        """Keep what was spent, so that a resumed tournament goes on with the rest of its money."""
        if self.world.config.budget.cost is None or (cost := self._cost()) <= self.recorded:
            return
        self.run.record(_SPENT, self.step, {"cost": cost})
        self.recorded = cost
