"""``arena train``: a recipe from its start to measured policies, or to a measured judge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.cli.output import AsJson, new_folder, now, print_json, print_table
from arena.cli.progress import Progress, print_judge, print_outcome
from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from arena.training.judge_recipes import JudgeTraining
    from arena.training.recipe import Recipe

__all__ = ["command"]


def command(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see 'arena ls recipes') or a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="For example self_play.steps=20.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; one folder a seed where there are several.")] = None,
    seed: Annotated[
        int | None, typer.Option(help="Root of all random streams; the recipe's own seeds if absent.")
    ] = None,
    seeds: Annotated[str | None, typer.Option(help="Several seeds, such as 0,1,2, instead of the recipe's.")] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Most trainings at once; as many as CPU cores if absent.")
    ] = None,
    track: Annotated[
        list[str] | None, typer.Option(help="Send metrics on: tensorboard, wandb:project=NAME or trackio.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and tell what it will take; train nothing.")
    ] = False,
    alone: Annotated[
        bool, typer.Option("--alone", help="The recipe as it stands, without its variants and metrics.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last finished generation in --out.")] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Train again with shuffled advantages, beside it.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Progress as one JSON object a line, for programs.")] = False,
    json_: AsJson = False,
) -> None:
    """Train as RECIPE says: policies by self-play, measured by generation, or a judge, measured before and after."""
    from arena.training.judge_recipes import JudgeTraining, load_any_recipe
    from arena.training.trackers import TRACKERS, tracked

    for spec in track or ():
        TRACKERS.check(spec, ("folder", "name"))
    loaded = load_any_recipe(recipe, overrides or ())
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds: give one of them")
    if control and isinstance(loaded, JudgeTraining):
        raise ConfigError(f"--control is for self-play, and recipe '{loaded.recipe}' trains a judge: leave it out")
    if dry_run:
        if isinstance(loaded, JudgeTraining):
            raise ConfigError("--dry-run is for self-play; `arena validate` checks the recipe of a judge")
        _plan(loaded, json_)
        return
    own = [0] if isinstance(loaded, JudgeTraining) else loaded.seeds
    chosen = [seed] if seed is not None else own if seeds is None else _numbers(seeds)
    folder = out or new_folder(loaded.recipe)
    if resume and out is None:
        raise ConfigError("--resume needs --out: the directory of the run to go on with")
    if not alone and not isinstance(loaded, JudgeTraining) and (loaded.metrics or loaded.variants):
        if control or events:
            raise ConfigError("--control and --events are for one training: add --alone, which leaves the variants out")
        from arena.cli.study import run_study

        options = [*(["--resume"] if resume else []), *(part for spec in track or () for part in ("--track", spec))]
        run_study(loaded, recipe, overrides or (), folder, chosen, options=options, jobs=jobs, as_json=json_)
        return
    plain: list[dict[str, Any]] = []
    for number in chosen:
        where = folder if len(chosen) == 1 else folder / f"seed{number}"
        with (
            Progress([loaded.recipe], events=events, quiet=json_) as progress,
            tracked(lambda event: progress.on_event(loaded.recipe, event), track or (), where, where.name) as on_event,
        ):
            outcome = _launch(
                loaded,
                where,
                seed=number,
                created=now(),
                on_event=on_event,
                resume=resume,
                control=control,
            )
        plain.append({"recipe": loaded.recipe, "seed": number, **outcome, "out": str(where)})
        if not (events or json_):
            _print(loaded, plain[-1], where)
    if events:
        typer.echo(json.dumps({"event": "done", "results": plain}))
    elif json_:
        print_json(plain[0] if len(plain) == 1 else {"recipe": loaded.recipe, "seeds": chosen, "runs": plain})


def _plan(recipe: Recipe, as_json: bool) -> None:
    """What a training will take."""
    from arena.training.plan import plan_training

    plan = plan_training(recipe)
    if as_json:
        print_json({"recipe": recipe.recipe, **plan.plain()})
        return
    rows: list[tuple[str, Any]] = [
        ("trainings", plan.trainings),
        ("optimizer steps of each", plan.steps),
        ("episodes", plan.episodes),
        ("turns of policies in an episode", "depends on what is said" if plan.turns is None else plan.turns),
        ("most sampled tokens a step", "depends on what is said" if plan.tokens_a_step is None else plan.tokens_a_step),
        ("most sampled tokens", "depends on what is said" if plan.tokens is None else plan.tokens),
        ("frozen members in memory", plan.members),
        ("weights, gradients, moments, references", f"{plan.megabytes:,.1f} MB, and activations"),
    ]
    for name, policy in plan.policies.items():
        roles = ", ".join(policy.roles) or "no role of the trained protocol"
        rows.append(
            (f"policy {name}", f"{policy.trained:,} of {policy.parameters:,} parameters trained; plays {roles}")
        )
    print_table([recipe.recipe, "plan"], [(what, str(value)) for what, value in rows])


def _launch(recipe: Recipe | JudgeTraining, out: Path, *, control: bool, **options: Any) -> dict[str, Any]:
    """Run a recipe of either kind; returns what ``--json`` prints."""
    from arena.training.recipe import Recipe

    if isinstance(recipe, Recipe):
        from arena.training.launch import launch

        return launch(recipe, out, control=control, **options).plain()
    from arena.training.judge_launch import launch_judge

    return launch_judge(recipe, out, **options).plain()


def _print(recipe: Recipe | JudgeTraining, plain: Mapping[str, Any], out: Path) -> None:
    from arena.training.recipe import Recipe

    if isinstance(recipe, Recipe):
        print_outcome(recipe.recipe, plain)
    else:
        print_judge(recipe.recipe, plain)
    typer.echo(f"report: {out / 'report.html'}")


def _numbers(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text!r} is not a list of numbers: write --seeds 0,1,2") from None
    if len(set(found)) < len(found):
        raise ConfigError(f"--seeds {text!r} names a seed twice")
    return found
