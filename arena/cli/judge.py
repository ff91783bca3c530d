"""``arena judge``: stored transcripts judged again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena.cli.output import AsJson, now, print_json, print_table, verdict_rows

if TYPE_CHECKING:
    from arena.rejudging import Comparison

__all__ = ["command"]


def command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory of a run or tournament.")],
    judge: Annotated[str, typer.Option("--judge", metavar="SPEC", help="Who judges; see `arena ls judges`.")],
    node: Annotated[
        str | None, typer.Option("--node", help="Judge node of the protocol; the last one if absent.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="For judges that draw.")] = 0,
    name: Annotated[
        str | None, typer.Option("--name", help="Folder in DIR/judged for the verdicts; the judge's name if absent.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the verdicts to this directory instead.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with this judge's verdicts that are there; none is asked for again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Judge stored transcripts by another judge, without playing anything; its verdicts stand beside the originals."""
    from arena.cli.live import Bar
    from arena.rejudging import comparison_json, rejudge

    with Bar("episodes") as bar:
        comparison, where = rejudge(
            folder,
            judge,
            created=now(),
            node=node,
            seed=seed,
            name=name,
            out=out,
            resume=resume,
            on_start=bar.start,
            on_batch=bar.batch,
        )
    if as_json:
        print_json({"out": str(where), **comparison_json(comparison)})
    else:
        _show(comparison)
        typer.echo(f"\n{where}    arena report {folder}")


def _show(comparison: Comparison) -> None:
    for name, found in zip(comparison.names, comparison.accuracies, strict=True):
        print_table(["judge", name], verdict_rows(found))
        typer.echo("")
    rows = [("both chose", f"{comparison.both}")]
    if comparison.agreement is not None:
        rows.append(("same choice", f"{comparison.agreement:.3f}, Cohen's kappa {comparison.kappa:.3f}"))
    if (test := comparison.test) is not None:
        rows.append(("only one right", f"{test.only_first} the first, {test.only_second} the second"))
        rows.append(("p, equally accurate", f"McNemar mid-p {test.mid_p:.3g}, by cluster {comparison.p_clustered:.3g}"))
    print_table(["side by side", ""], rows)
