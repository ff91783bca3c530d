"""What training came to, on held-out tasks: judge accuracy by arm, cross-play of generations, exploitability.

Every game goes through the same engine and store as any other run. Who judges here is the judge that measures, not the
one that rewarded training; what the latter makes of the trained policies' debates stands beside it. A policy that has
learned to please one judge shows as a gap between the two.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from arena.agents.types import Agent
from arena.engine import Engine, Plan
from arena.judging import deciding_nodes, judge_episodes
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import UndecidedError
from arena.protocols.records import Episode, Task
from arena.ratings import CrossPlay, Rating
from arena.running import (
    Accuracy,
    accuracy,
    bad_quote_share,
    balanced_plans,
    play_stored,
    record_protocol,
    record_tasks,
)
from arena.seeds import derive_seed
from arena.statistics import Interval, clustered_proportion
from arena.store import RunHandle
from arena.tournament import entered, matches_of, pairing_plans, standings_of
from arena.training.policies import Generation, PolicyLoader, policy_agent
from arena.training.recipe import Arm
from arena.training.world import Listener, World, build_agent
from arena.undecided import UndecidedLimit

__all__ = ["ArmResult", "Results", "Stage", "evaluate"]


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One row of the accuracy table."""

    accuracy: Accuracy
    bad_quotes: float
    """Share of turns whose quote was fabricated or repeated."""
    protocol: str
    rewarding: Accuracy | None = None
    """Accuracy of the judge that rewarded training, on the same debates; for arms of trained policies."""

    def plain(self) -> dict[str, Any]:
        """For ``--json``."""
        row = _plain(self.accuracy)
        if self.rewarding is not None:
            row["training_judge"] = _plain(self.rewarding)
        return row


def _plain(measured: Accuracy) -> dict[str, Any]:
    interval = measured.interval
    row: dict[str, Any] = {"accuracy": None, "low": None, "high": None, "n": 0}
    if interval is not None:
        row = {"accuracy": interval.value, "low": interval.low, "high": interval.high, "n": interval.n}
    return row | {"decidable": measured.decidable, "undecidable": dict(measured.undecidable)}


@dataclass(frozen=True, slots=True)
class Results:
    """All that was measured."""

    arms: Mapping[str, ArmResult]
    ratings: list[Rating]
    """By generation, generation 0 at Elo 0; empty without a tournament."""
    cross_play: CrossPlay | None
    note: str
    """What a reader of the ratings must know; empty where there is nothing."""
    exploitability: list[Interval]
    """For each generation: score of the exploiter against it minus one half, with its interval."""

    def elo(self) -> list[float]:
        """Elo by generation."""
        return [rating.elo for rating in self.ratings]


class Stage:
    """Plays the games of one stage of the evaluation and keeps them."""

    def __init__(self, world: World, run: RunHandle, on_event: Listener, label: str) -> None:
        self.world, self.run, self.on_event, self.label = world, run, on_event, label
        self.loader = PolicyLoader(world.recipe, world.seed)
        self.agents: dict[tuple[str, str], Agent] = {}
        """By generation and policy (or spec, for roles that nobody is trained in)."""

    def play(self, protocol: Protocol, stage: str, plans: Sequence[Plan]) -> list[Episode]:
        """Play the games of a stage that are not stored yet; all of them, in the order of the plans.

        Raises:
            UndecidedError: too many verdicts cannot be used.
        """
        seed = derive_seed(self.world.seed, "evaluation", stage)
        engine = Engine(protocol, self.world.judge, seed=seed, concurrency=1024)
        self.on_event(
            {
                "event": "phase",
                "phase": "evaluation",
                "part": stage.removeprefix(self.label),
                "games": len(plans),
                "run": self.label,
            }
        )
        keyed = [replace(plan, key=f"{stage}/{plan.key}") for plan in plans]
        judge = self.world.recipe.evaluation.judge or self.world.recipe.judge
        limit = UndecidedLimit(1.0 if judge is None else judge.max_undecidable)
        episodes = play_stored(engine, keyed, self.run, stage, limit=limit)
        if judge is not None and limit.passed:
            key = "judge" if self.world.recipe.evaluation.judge is None else "evaluation.judge"
            raise UndecidedError(
                f"{stage}: too many verdicts cannot be used ({key}.max_undecidable is {judge.max_undecidable:g}): "
                f"{limit.found}. Take another judge or mend what it is asked; or raise the limit "
                f"({key}.max_undecidable=...), and go on by --resume"
            )
        return episodes

    def lineup(self, generation: Generation, roles: tuple[str, ...], *, called: str = "") -> dict[str, Agent]:
        """Agents of a generation, named after it (or ``called``), in ``roles``; roles without a policy get theirs."""
        recipe, lineup, called = self.world.recipe, {}, called or generation.name
        for role in roles:
            name = recipe.policy_of(role)
            key = (called, name) if name is not None else ("", str(recipe.filler_of(role)))
            if key not in self.agents:
                if name is None:
                    self.agents[key] = build_agent(recipe.filler_of(role), self.world)
                else:
                    policy = self.loader.one(name, generation, suffix=f"-{called}")
                    self.agents[key] = policy_agent(called, policy, recipe.policies[name])
            lineup[role] = self.agents[key]
        return lineup


def evaluate(
    world: World,
    generations: Sequence[Generation],
    run: RunHandle,
    on_event: Listener,
    *,
    champion: int = -1,
    label: str = "",
    arms: Mapping[str, Arm] | None = None,
) -> Results:
    """Measure the generations as the recipe's ``evaluation`` says.

    Args:
        world: tasks and judges.
        generations: snapshots, generation 0 first.
        run: where the games are stored; games that are there are not played again.
        on_event: receives progress.
        champion: which generation ``last`` means.
        label: prefix of the stages in the store.
        arms: other arms than the recipe's.
    """
    recipe, stage = world.recipe, Stage(world.measuring(), run, on_event, label)
    config = recipe.evaluation
    tasks = list(world.tasks.test)[: config.tasks]
    response = config.best_response
    record_tasks(run, world.tasks.test[: max(config.tasks, 0 if response is None else response.held_out)])
    results = {}
    for name, arm in (config.arms if arms is None else arms).items():
        protocol = load_protocol(arm.protocol, recipe.params_of(arm))
        for row, lineup in _lineups(name, arm, protocol, generations, champion, stage).items():
            key = f"{label}arm/{row}"
            episodes = stage.play(protocol, key, balanced_plans("", protocol, tasks, lineup, both=True))
            by_id = {task.id: task for task in tasks}
            rewarding = _rewarding(world, arm, protocol, episodes, by_id)
            measured = accuracy(episodes, by_id)
            results[row] = ArmResult(measured, bad_quote_share(episodes), protocol.name, rewarding)
    protocol = load_protocol(recipe.protocol, recipe.params)
    record_protocol(run, protocol)
    ratings, cross, note = _tournament(protocol, tasks[: config.tournament], generations, stage)
    exploitability = _exploit(protocol, tasks[: config.exploiter_tasks], generations, stage)
    return Results(results, ratings, cross, note, exploitability)


def _lineups(
    name: str, arm: Arm, protocol: Protocol, generations: Sequence[Generation], champion: int, stage: Stage
) -> dict[str, dict[str, Agent]]:
    """Rows of an arm: one, or one a generation."""
    roles = protocol.speakers
    if not roles or arm.lineup is None:
        return {name: {}}
    if arm.lineup == "generations":
        return {f"{name}_{generation.name}": stage.lineup(generation, roles) for generation in generations}
    if arm.lineup == "last":
        return {name: stage.lineup(generations[champion], roles)}
    return {name: dict.fromkeys(roles, build_agent(arm.lineup, stage.world))}


def _rewarding(
    world: World, arm: Arm, protocol: Protocol, episodes: Sequence[Episode], tasks: Mapping[str, Task]
) -> Accuracy | None:
    """What the judge that rewarded training makes of debates of trained policies, if it is another than measures."""
    if world.judge.name == world.measures.name or arm.lineup not in ("last", "generations"):
        return None
    node = _rejudged_node(protocol)
    if node is None:
        return None
    verdicts = judge_episodes(protocol, world.judge, episodes, tasks, node)
    told = [
        replace(episode, verdicts={node: verdict} if episode.error is None else {})
        for episode, verdict in zip(episodes, verdicts, strict=True)
    ]
    return accuracy(told, tasks)


def _rejudged_node(protocol: Protocol) -> str | None:
    """The judge node that decides last, if transcripts can be judged again from there; None if a vote does."""
    last = deciding_nodes(protocol)[-1]
    outer = protocol.nodes[last].scope in (None, protocol.scope)
    return last if outer and last in protocol.judge_nodes else None


def _tournament(
    protocol: Protocol, tasks: Sequence[Task], generations: Sequence[Generation], stage: Stage
) -> tuple[list[Rating], CrossPlay | None, str]:
    if not tasks or len(generations) < 2 or len(protocol.seats) != 2:
        return [], None, ""
    lineups = {g.name: entered(g.name, stage.lineup(g, protocol.seats)) for g in generations}
    plans = [
        plan
        for first, second in itertools.combinations(lineups, 2)
        for plan in pairing_plans(protocol, tasks, first, second, lineups)
    ]
    episodes = stage.play(protocol, f"{stage.label}tournament", plans)
    standings = standings_of(
        protocol,
        episodes,
        tasks,
        anchor=generations[0].name,
        seed=stage.world.seed,
        run=stage.run,
        series=f"{stage.label}ratings",
    )
    order = [generation.name for generation in generations]
    ratings = sorted(standings.ratings, key=lambda rating: order.index(rating.name))
    return ratings, standings.scores, standings.note


def _exploit(
    protocol: Protocol, tasks: Sequence[Task], generations: Sequence[Generation], stage: Stage
) -> list[Interval]:
    spec = stage.world.recipe.evaluation.exploiter
    if spec is None or len(protocol.seats) != 2:
        return []
    exploiter = build_agent(spec, stage.world)
    own = entered(exploiter.name, dict.fromkeys(protocol.seats, exploiter))
    plans = []
    for generation in generations:
        other = entered(generation.name, stage.lineup(generation, protocol.seats))
        lineups = {generation.name: other, exploiter.name: own}
        plans += pairing_plans(protocol, tasks, exploiter.name, generation.name, lineups)
    episodes = stage.play(protocol, f"{stage.label}exploitability", plans)
    matches = matches_of(protocol, episodes, {task.id: task for task in tasks})
    measured = []
    for generation in generations:
        games = [m for m in matches if generation.name in (m.first, m.second)]
        scores = [m.score if m.first == exploiter.name else 1.0 - m.score for m in games]
        share = clustered_proportion(scores, [m.task for m in games])
        measured.append(Interval(share.value - 0.5, share.low - 0.5, share.high - 0.5, share.n))
    return measured
