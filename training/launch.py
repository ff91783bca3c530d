"""From a recipe to everything it makes: judge, policies, measurements, store and ``results.json``.

OUT/config.json        recipe as resolved, seed
OUT/judge/             the judge that rewards, if the recipe trained it
OUT/evaluation_judge/  the same of the judge that measures
OUT/metrics.jsonl      one row a logged step
OUT/generations/genK/  model folders, loadable by transformers
OUT/checkpoint.pt      state after the last finished generation
OUT/run.sqlite         every evaluation game, and the rows of metrics as the series ``metrics``
OUT/results.json       what ``arena train --json`` prints
OUT/report.html        the same for people
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from arena.judges.classifier import ClassifierJudge
from arena.judges.llm import LLMJudge
from arena.judges.types import Judge
from arena.protocols import load_protocol
from arena.ratings import CrossPlay
from arena.records_json import finite
from arena.running import fingerprint_tasks
from arena.store import RunHandle, Store
from arena.tasks import open_tasks
from arena.training.best_response import BestResponse, best_response
from arena.training.evaluation import Results, Stage, evaluate
from arena.training.recipe import Arm, DemonstrationSource, JudgeRecipe, Recipe
from arena.training.selfplay import SelfPlay, Trained
from arena.training.world import Listener, World, build_world

__all__ = ["Outcome", "launch", "one_setting"]


_NO_RESULT: dict[str, Any] = {
    "judge": {"max_undecidable"},
    "evaluation": {"judge": {"max_undecidable"}},
    "seeds": True,
    "variants": True,
    "metrics": True,
}
"""Keys of a recipe that decide when to stop and nothing of what comes out; a resumed run may change them."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finished training run."""

    recipe: Recipe
    seed: int
    out: Path
    world: World
    trained: Trained
    results: Results
    control: Results | None
    """The same training with shuffled advantages, measured in the same way."""
    response: BestResponse | None
    """What a trained response won against the champion, if the recipe asks for it."""
    seconds: Mapping[str, float]
    """``trained``: judge, warm start and self-play; ``total``: with all measurements."""

    def plain(self) -> dict[str, Any]:
        """What ``--json`` prints for this run."""
        row = {
            "arms": {name: arm.plain() for name, arm in self.results.arms.items()},
            **_tables(self.results),
            "ratings": [asdict(rating) for rating in self.results.ratings],
            "cross_play": _matrix(self.results.cross_play),
            "kl": self.trained.kl,
            "kl_peak": self.trained.kl_peak,
            "undecidable": self.trained.undecided,
            "champion": self.trained.generations[self.trained.champion].name,
            "alarms": self.trained.alarms,
            "judge": {"name": self.world.judge.name, **self.world.judge_report},
            "evaluation_judge": {"name": self.world.measures.name, **self.world.measures_report},
            "same_judge": self.recipe.evaluation.same_judge,
            "seconds": dict(self.seconds),
        }
        if self.response is not None:
            row["best_response"] = self.response.plain()
        if self.control is not None:
            row["control"] = {
                "arms": {name: arm.plain() for name, arm in self.control.arms.items()},
                **_tables(self.control),
            }
        return row


def _tables(results: Results) -> dict[str, Any]:
    return {
        "elo": results.elo(),
        "elo_intervals": [[rating.low, rating.high] for rating in results.ratings],
        "exploitability": [interval.value for interval in results.exploitability],
        "exploitability_intervals": [[interval.low, interval.high] for interval in results.exploitability],
        "note": results.note,
        "bad_quotes": [arm.bad_quotes for name, arm in results.arms.items() if "_gen" in name],
    }


def _matrix(table: CrossPlay | None) -> dict[str, Any] | None:
    if table is None:
        return None
    return {"names": list(table.names), "score": table.score.tolist(), "games": table.games.tolist()}


def _protocols(recipe: Recipe) -> list[tuple[str, Mapping[str, Any]]]:
    """All protocols that a recipe plays, with their parameters."""
    mixes = recipe.warm_start.demonstrations if recipe.warm_start is not None else []
    parts: list[Arm | DemonstrationSource] = [*recipe.evaluation.arms.values(), *mixes]
    return [*((part.protocol, recipe.params_of(part)) for part in parts), (recipe.protocol, recipe.params)]


def launch(
    recipe: Recipe,
    out: Path,
    *,
    seed: int,
    created: str,
    on_event: Listener,
    resume: bool = False,
    control: bool = False,
) -> Outcome:
    """Train as the recipe says, measure, store and write the report.

    Args:
        recipe: what to do.
        out: run directory.
        seed: root of all random streams.
        created: time stamp to store with the run.
        on_event: receives progress.
        resume: go on with the run that is in ``out``.
        control: train a second time from the same start with shuffled advantages.

    Raises:
        ResumeError: ``out`` holds another run.
        SelfCheckError: training would start from a false premise.
    """
    from arena.training.reporting import write_combined_report

    started = time.perf_counter()
    tasks = open_tasks(recipe.tasks, seed=seed)
    identity = {
        "recipe": recipe.model_dump(mode="json", exclude=_NO_RESULT),
        "seed": seed,
        "control": control,
        "protocol_fingerprints": {name: load_protocol(name, params).fingerprint for name, params in _protocols(recipe)},
        "tasks_fingerprint": fingerprint_tasks([*tasks.train, *tasks.test]),
    }
    with Store.open(out) as store, one_setting(recipe.threads):
        run = store.begin("train", identity, created=created, resume=resume)
        (out / "config.json").write_text(json.dumps(identity, indent=2) + "\n")
        world = build_world(recipe, seed, on_event)
        _save_judge(world.judge, recipe.judge, out / "judge")
        _save_judge(world.measures, recipe.evaluation.judge, out / "evaluation_judge")
        trained = SelfPlay(world, out, on_event, keep=partial(run.record_all, "metrics")).run(
            resume=resume, started=started
        )
        ended = time.perf_counter()
        results = evaluate(world, trained.generations, run, on_event, champion=trained.champion)
        shuffled = _control(world, trained, out, run, on_event, resume=resume) if control else None
        response = _response(world, trained, out, run, on_event, resume=resume)
        seconds = {"trained": trained.seconds, "total": trained.seconds + time.perf_counter() - ended}
        outcome = Outcome(recipe, seed, out, world, trained, results, shuffled, response, seconds)
        plain = finite({"recipe": recipe.recipe, "seed": seed, **outcome.plain()})
        (out / "results.json").write_text(json.dumps(plain, indent=2, allow_nan=False) + "\n")
        run.record("results", 0, plain)
        run.finish("done")
    write_combined_report(out / "report.html", [out], title=f"{recipe.recipe}, seed {seed}", created=created)
    return outcome


def _save_judge(judge: Judge, config: JudgeRecipe | None, folder: Path) -> None:
    if config is not None and config.train is not None:
        assert isinstance(judge, ClassifierJudge | LLMJudge)
        judge.save(folder)


@contextmanager
def one_setting(threads: int) -> Iterator[None]:
    """Torch on a fixed number of threads, and what is loaded by now kept out of the garbage collector's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    # Full collections walk every object of torch and transformers: up to half a second each time, all through a run.
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        torch.set_num_threads(before)


def _response(
    world: World, trained: Trained, out: Path, run: RunHandle, on_event: Listener, *, resume: bool
) -> BestResponse | None:
    config = world.recipe.evaluation.best_response
    if config is None:
        return None
    stage = Stage(world.measuring(), run, on_event, "")
    champion = trained.generations[trained.champion]
    return best_response(world, stage, champion, config, out / "best_response", on_event, resume=resume)


def _control(world: World, trained: Trained, out: Path, run: RunHandle, on_event: Listener, *, resume: bool) -> Results:
    """The same policies from the same generation 0, moved by advantages that are dealt out at random."""
    recipe = world.recipe
    shuffled = recipe.self_play.model_copy(update={"shuffle_advantages": True})
    twin = replace(world, recipe=recipe.model_copy(update={"self_play": shuffled}))

    def relabelled(event: dict[str, Any]) -> None:
        on_event({**event, "run": "control"})

    keep = partial(run.record_all, "control/metrics")
    player = SelfPlay(twin, out / "control", relabelled, start=trained.generations[0], keep=keep)
    controlled = player.run(resume=resume)
    arms = {name: arm for name, arm in recipe.evaluation.arms.items() if arm.lineup == "generations"}
    return evaluate(
        twin,
        controlled.generations,
        run,
        relabelled,
        champion=controlled.champion,
        label="control/",
        arms=arms,
    )
