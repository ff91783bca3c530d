"""``arena train``: a recipe from warm start to measured generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.output import AsJson, new_folder, now, print_json
from arena.cli.progress import Progress, print_outcome
from arena.protocols.errors import ConfigError

__all__ = ["command"]


def command(
    recipe: Annotated[str, typer.Argument(help="A shipped recipe (see 'arena ls recipes') or a YAML file.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="For example self_play.steps=20.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run directory; one folder a seed where there are several.")] = None,
    seed: Annotated[int, typer.Option(help="Root of all random streams.")] = 0,
    seeds: Annotated[str | None, typer.Option(help="Several seeds, such as 0,1,2.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last finished generation in --out.")] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Train again with shuffled advantages, beside it.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Progress as one JSON object a line, for programs.")] = False,
    json_: AsJson = False,
) -> None:
    """Train the policies of RECIPE by self-play, measure every generation and write a report."""
    from arena.training.launch import launch
    from arena.training.recipe import load_recipe

    loaded = load_recipe(recipe, overrides or ())
    chosen = [seed] if seeds is None else _numbers(seeds)
    folder = out or new_folder(loaded.recipe)
    if resume and out is None:
        raise ConfigError("--resume needs --out: the directory of the run to go on with")
    plain: list[dict[str, Any]] = []
    for number in chosen:
        where = folder if len(chosen) == 1 else folder / f"seed{number}"
        with Progress([loaded.recipe], events=events, quiet=json_) as progress:
            outcome = launch(
                loaded,
                where,
                seed=number,
                created=now(),
                on_event=lambda event: progress.on_event(loaded.recipe, event),
                resume=resume,
                control=control,
            )
        plain.append({"recipe": loaded.recipe, "seed": number, **outcome.plain(), "out": str(where)})
        if not (events or json_):
            print_outcome(loaded.recipe, plain[-1])
            typer.echo(f"report: {where / 'report.html'}")
    if events:
        typer.echo(json.dumps({"event": "done", "results": plain}))
    elif json_:
        print_json(plain[0] if len(plain) == 1 else {"recipe": loaded.recipe, "seeds": chosen, "runs": plain})


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--seeds {text!r} is not a list of numbers: write --seeds 0,1,2") from None
