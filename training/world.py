"""What a recipe's policies are trained and measured on: tasks, the judge that rewards, the judge that measures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from arena.agents import AGENTS
from arena.agents.types import Agent
from arena.judges.nobody import NoJudge
from arena.judges.types import Judge
from arena.protocols.errors import ConfigError
from arena.seeds import derive_seed
from arena.tasks import TaskSet, open_tasks
from arena.training.judge_training import build_judge
from arena.training.recipe import JudgeRecipe, Recipe

__all__ = ["Listener", "World", "build_agent", "build_world"]

Listener = Callable[[dict[str, Any]], None]
"""Receives progress: ``{"event": "phase", "phase": ..., "step": ..., "of": ..., ...metrics}``."""


@dataclass(frozen=True, slots=True)
class World:
    """What a recipe's policies are trained and measured on."""

    recipe: Recipe
    seed: int
    tasks: TaskSet
    judge: Judge
    """Who rewards."""
    judge_report: Mapping[str, float]
    """Held-out figures of the judge's training; empty for a judge that was not trained."""
    measures: Judge
    """Who measures: another instrument, unless the recipe says ``same_judge``."""
    measures_report: Mapping[str, float]
    """The same of the judge that measures."""

    def measuring(self) -> World:
        """The world as it is measured: whatever asks for its judge gets the one that measures."""
        return replace(self, judge=self.measures, judge_report=self.measures_report)


def build_world(recipe: Recipe, seed: int, on_event: Listener) -> World:
    """Tasks and judges of a recipe; judges are trained first if the recipe says so.

    Raises:
        ConfigError: tasks that are trained on would be tested on, or the judge that rewards is the one that measures.
    """
    tasks = open_tasks(recipe.tasks, seed=seed)
    shared = {task.cluster for task in tasks.train} & {task.cluster for task in tasks.test}
    if shared and not tasks.exhaustive:
        raise ConfigError(
            f"{len(shared)} questions of '{tasks.name}' would be trained on and tested on, such as '{min(shared)}'; "
            f"hold some out: tasks: {{kind: jsonl, path: FILE, held_out: 0.2}}"
        )

    def built(config: JudgeRecipe, stream: str) -> tuple[Judge, Mapping[str, float]]:
        def progress(step: int, of: int, metrics: Mapping[str, float]) -> None:
            on_event({"event": "phase", "phase": stream, "step": step, "of": of, **metrics})

        numbered = derive_seed(seed, stream) % 2**31
        return build_judge(config.kind, config.args, config.train, tasks, seed=numbered, progress=progress)

    judge: Judge = NoJudge()
    report: Mapping[str, float] = {}
    if recipe.judge is not None:
        judge, report = built(recipe.judge, "judge")
    measures, measures_report = judge, report
    if recipe.evaluation.judge is not None:
        measures, measures_report = built(recipe.evaluation.judge, "evaluation judge")
        if measures.name == judge.name:
            raise ConfigError(
                f"evaluation.judge is {judge.name}, the very instrument that rewards training: name another one, or "
                "remove it and write evaluation.same_judge: true"
            )
    if recipe.distractors is not None:
        wanted, draw = recipe.distractors, derive_seed(seed, "distractors") % 2**31
        # Each judge is given the wrong answers that it finds credible itself.
        learned = tasks.with_distractors(judge, train=wanted.train, test=wanted.test, seed=draw)
        tested = tasks.with_distractors(measures, train=wanted.train, test=wanted.test, seed=draw)
        tasks = TaskSet(tasks.name, learned.train, tested.test)
    return World(recipe, seed, tasks, judge, report, measures, measures_report)


def build_agent(spec: str | Mapping[str, Any], world: World) -> Agent:
    """An agent that is not trained, given the tasks and the judge if its kind asks for them."""
    return AGENTS.build(spec, tasks=world.tasks, judge=world.judge, seed=world.seed)
