"""``arena tournament``: a round robin of agents, and their ratings."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.cli.output import (
    AsJson,
    MaxUndecidable,
    new_folder,
    now,
    print_json,
    print_ratings,
    print_table,
    refuse_undecided,
    undecided_rows,
    verdict_rows,
)

if TYPE_CHECKING:
    from arena.protocols import Protocol
    from arena.tournament import Standings, TournamentConfig

__all__ = ["command"]


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Tournament file (YAML, key `tournament`).")],
    out: Annotated[
        Path | None, typer.Option("--out", help="Run directory; a new one in arena-runs/ if absent.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the tournament that is in --out.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and count the games; play none.")
    ] = False,
    max_undecidable: MaxUndecidable = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Most episodes at once.")] = 512,
    as_json: AsJson = False,
) -> None:
    """Play every agent against every other, both seats, and rate them with intervals."""
    from arena.tournament import load_tournament, run_tournament

    config = load_tournament(file)
    if max_undecidable is not None:
        config = config.model_copy(update={"max_undecidable": max_undecidable})
    if dry_run:
        _tell(_count(config), as_json)
        return
    if resume and out is None:
        from arena.protocols.errors import ConfigError

        raise ConfigError("--resume needs --out DIR: the tournament to go on with")
    from arena.cli.live import Bar

    folder = out or new_folder(config.tournament)
    with Bar("games") as bar:
        standings = run_tournament(
            config,
            folder,
            created=now(),
            resume=resume,
            concurrency=concurrency,
            on_start=bar.start,
            on_batch=bar.batch,
        )
    if as_json:
        usage = [each.plain() for each in standings.usage]
        print_json({**asdict(standings), "usage": usage, "out": str(folder)})
    else:
        _show(standings, folder)
    refuse_undecided(standings.undecided, "tournament", standings.missing, folder)


def _show(standings: Standings, folder: Path) -> None:
    print_ratings([asdict(rating) for rating in standings.ratings], standings.note)
    typer.echo("")
    print_table(
        ["tournament", str(folder)],
        [
            ("decided games", str(standings.matches)),
            *verdict_rows(standings.accuracy),
            *undecided_rows(standings.undecided),
        ],
    )
    for each in standings.usage:
        typer.echo(str(each))
    if standings.stopped:
        typer.echo(
            f"\nThe tournament was stopped ({standings.stopped}) with {standings.missing} of its games unplayed; "
            f"ratings are of what was played. Go on by --resume --out {folder}."
        )
    typer.echo(f"\narena report {folder}    arena export {folder}")


def _count(config: TournamentConfig) -> dict[str, Any]:
    """How much there is to play; builds tasks, so that their faults show now."""
    from arena.agents import AGENTS
    from arena.judges import JUDGES
    from arena.protocols import load_protocol
    from arena.tasks import open_tasks
    from arena.tournament import check_pairing

    protocol = load_protocol(config.protocol, config.params)
    check_pairing(protocol)
    for spec in config.agents.values():
        AGENTS.check(spec, ("judge", "seed", "tasks"))
    JUDGES.check(config.judge, ("seed",))
    tasks = list(open_tasks(config.tasks, seed=config.seed).test)[: config.n]
    for task in tasks:
        protocol.check_task(task)
    pairings = math.comb(len(config.agents), 2)
    games = pairings * len(tasks) * 2
    turns, verdicts = _length(protocol)
    return {
        "agents": len(config.agents),
        "pairings": pairings,
        "tasks": len(tasks),
        "games": games,
        "turns": None if turns is None else games * turns,
        "verdicts": None if verdicts is None else games * verdicts,
    }


def _length(protocol: Protocol) -> tuple[int | None, int | None]:
    """Turns and verdicts of a game; None where its course depends on what is said."""
    if any("." in name for edge in protocol.edges if edge.when is not None for name in edge.when.names):
        return None, None
    flow, turns, verdicts = protocol.flow(), 0, 0
    while flow.ready:
        turns += sum(node.speaks for node in flow.ready)
        verdicts += sum(node.gives_verdict for node in flow.ready)
        flow.advance()
    return turns, verdicts


def _tell(counts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(counts)
    else:
        rows = [(what, "depends on what is said" if count is None else count) for what, count in counts.items()]
        print_table(["to play", "count"], rows, right=["count"])
