"""``arena ratings``: who is how strong, from a tournament or training."""

from __future__ import annotations

from typing import Annotated

import typer

from arena.cli.output import AsJson, print_json, print_ratings
from arena.protocols.errors import StoreError

__all__ = ["command"]


def command(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="Run directory of a tournament or a training, or a database URL.")
    ],
    as_json: AsJson = False,
) -> None:
    """Print the Bradley-Terry ratings of a run, in Elo points with 95 % intervals, and what else its games tell."""
    from arena.cli.analysis import print_analysis
    from arena.store import Store

    with Store.open(folder, create=False) as store:
        run = store.run()
        # A training stores the ratings of its generations with its other results; a control would be rated apart.
        tables = run.series("results" if run.kind == "train" else "ratings")
        analyses = run.series("analysis") if run.kind == "tournament" else {}
        where, kind, status = store.where, run.kind, run.status
    if not tables:
        raise StoreError(f"{where} holds a {kind} without ratings (status {status}); a finished tournament has them")
    latest = {name: tables[max(tables)][name] for name in ("ratings", "note")}
    analysis = analyses[max(analyses)] if analyses else None
    if as_json:
        print_json(latest if analysis is None else {**latest, "analysis": analysis})
    else:
        print_ratings(latest["ratings"], latest["note"])
        if analysis is not None:
            print_analysis(analysis)
