"""Exploitability by a trained best response, for games too large to be solved.

    NashConv(pi) = sum over sides of [ max u_side(best response, pi) - u_side(pi, pi) ]    Lanctot et al. 2017
                                                                                          (arXiv 1711.00832)

The maximum is looked for by training: from the champion on, one side at a time against the frozen champion, by the
objective of the recipe, without a pull to anything unless told. What is found is a lower bound, up to the noise of the
games: a training that fails finds nothing to exploit. Small games are solved exactly instead (probe ``nash_conv``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from arena.protocols.records import Episode, Task
from arena.rewards import returns
from arena.running import balanced_plans
from arena.statistics import Interval, mean_interval
from arena.training.evaluation import Stage
from arena.training.policies import Generation
from arena.training.recipe import BestResponseRecipe, Recipe
from arena.training.selfplay import SelfPlay
from arena.training.selfplay_config import SelfPlayRecipe
from arena.training.world import Listener, World

__all__ = ["BestResponse", "best_response", "responding"]


@dataclass(frozen=True, slots=True)
class BestResponse:
    """What could be won against a generation."""

    against: str
    """The generation."""
    gain: Interval
    """Sum of the gains of all sides, in units of the reward, with its 95 % interval, clustered by question."""
    sides: Mapping[str, Interval]
    """The gain of each side, by its roles."""

    def plain(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "against": self.against,
            **asdict(self.gain),
            "sides": {name: asdict(gain) for name, gain in self.sides.items()},
        }


def best_response(
    world: World,
    stage: Stage,
    champion: Generation,
    config: BestResponseRecipe,
    out: Path,
    on_event: Listener,
    *,
    resume: bool = False,
) -> BestResponse:
    """Train a best response to a generation, and measure what it gains on held-out tasks.

    Args:
        world: that the generation was trained in; the judge that rewards rewards here, the one that measures measures.
        stage: plays and keeps the games.
        champion: the generation.
        config: how long to train, and on how many tasks to measure.
        out: run directory of the response.
        on_event: receives progress.
        resume: go on with what is in ``out``.
    """
    recipe = responding(world.recipe, config)

    def relabelled(event: dict[str, Any]) -> None:
        if event.get("phase") != "alarm":  # to win at any price is what it is for
            on_event({**event, "run": "best response"})

    keep = partial(stage.run.record_all, "best_response/metrics")
    player = SelfPlay(replace(world, recipe=recipe), out, relabelled, start=champion, keep=keep)
    response = player.run(resume=resume).generations[-1]
    tasks = {task.id: task for task in world.tasks.test[: config.held_out]}
    return _measured(player, stage, champion, response, tasks, config.samples)


def _measured(
    player: SelfPlay,
    stage: Stage,
    champion: Generation,
    response: Generation,
    tasks: Mapping[str, Task],
    samples: int,
) -> BestResponse:
    """What a response wins in the place of each side, beyond what the champion wins there."""
    protocol = player.protocol
    own = stage.lineup(champion, protocol.speakers)
    best = stage.lineup(response, protocol.speakers, called="best-response")

    def played(name: str, side: frozenset[str]) -> list[Episode]:
        lineup = {role: best[role] if role in side else own[role] for role in protocol.speakers}
        plans = balanced_plans("", protocol, tasks.values(), lineup, both=True, samples=samples)
        return stage.play(protocol, f"{stage.label}best_response/{name}", plans)

    even = played("nobody", frozenset())
    before = returns(protocol, stage.world.judge, even, tasks)
    gains: dict[str, list[float]] = {}
    for side in player.league.sides:
        name = "+".join(sorted(side))
        after = returns(protocol, stage.world.judge, played(name, side), tasks)
        gains[name] = [_of(side, won) - _of(side, was) for won, was in zip(after, before, strict=True)]
    clusters = [tasks[episode.task].cluster for episode in even]
    total = [math.fsum(each) for each in zip(*gains.values(), strict=True)]
    sides = {name: _interval(values, clusters) for name, values in gains.items()}
    return BestResponse(champion.name, _interval(total, clusters), sides)


def _interval(values: Sequence[float], clusters: Sequence[str]) -> Interval:
    """Of the games that are known; by game where there is one question only."""
    known = [(value, cluster) for value, cluster in zip(values, clusters, strict=True) if math.isfinite(value)]
    of = [cluster for _, cluster in known]
    return mean_interval([value for value, _ in known], of if len(set(of)) > 1 else None)


def responding(recipe: Recipe, config: BestResponseRecipe) -> Recipe:
    """The recipe that trains a response: one generation against its own generation 0, which is the champion."""
    own = recipe.self_play.model_dump(mode="json")
    learner: dict[str, Any] = own["learner"]
    updates = config.steps * learner["epochs"] * learner["minibatches"]
    learner = learner | {"max_kl": None, "total_steps": updates, "warmup": min(updates // 10, 20)}
    learner["kl"] = learner["kl"] | {"target": None, "beta": config.kl, "floor": 0.0}
    learner["kl"]["ceiling"] = max(learner["kl"]["ceiling"], config.kl)
    changed = {
        **own,
        "generations": 1,
        "steps": config.steps,
        "league": {"mix": {"latest": 1.0}, "sides": own["league"]["sides"]},
        "reference": {"at": "start"},
        "gate": None,
        "probes": {},
        "alarms": {},
        "learner": learner,
    }
    return recipe.model_copy(update={"self_play": SelfPlayRecipe.model_validate(changed), "warm_start": None})


def _of(side: frozenset[str], won: Mapping[str, float | None]) -> float:
    """What the roles of a side win together, 0 those that no reward pays; NaN where some of it is not known."""
    values = [won.get(role, 0.0) for role in sorted(side)]
    return math.fsum(math.nan if value is None else value for value in values)
