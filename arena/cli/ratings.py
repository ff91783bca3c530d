"""``arena ratings``: who is how strong, from a finished tournament or training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arena.cli.output import AsJson, print_json, print_ratings
from arena.protocols.errors import StoreError

__all__ = ["command"]


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of a tournament or a training.")],
    as_json: AsJson = False,
) -> None:
    """Print the Bradley-Terry ratings of a run, in Elo points with 95 % intervals, and what is to be known of them."""
    from arena.store import Store

    with Store.open(folder, create=False) as store:
        run = store.run()
        # A training stores the ratings of its generations with its other results; a control would be rated apart.
        tables = run.series("results" if run.kind == "train" else "ratings")
    if not tables:
        raise StoreError(
            f"{folder} holds a {run.kind} without ratings (status {run.status}); a finished tournament has them"
        )
    latest = {name: tables[max(tables)][name] for name in ("ratings", "note")}
    if as_json:
        print_json(latest)
    else:
        print_ratings(latest["ratings"], latest["note"])
