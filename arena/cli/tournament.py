"""``arena tournament``: agents meet, and are rated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arena.cli.output import (
    AsJson,
    MaxUndecidable,
    has_left,
    new_folder,
    now,
    print_json,
    print_ratings,
    print_table,
    refuse_left,
    refuse_undecided,
    undecided_rows,
    verdict_rows,
)

if TYPE_CHECKING:
    from arena.tournament import Standings, TournamentConfig
    from arena.tournament.estimate import Estimate, Speed

__all__ = ["command"]


def command(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Tournament file (YAML, key `tournament`).")],
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, or a database URL; a new directory in arena-runs/ if absent."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the tournament that is in --out.")] = False,
    add: Annotated[
        list[str] | None,
        typer.Option("--add", metavar="NAME=SPEC", help="An agent that joins the tournament in --out. Repeatable."),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything; tell games, calls, tokens, cost and time. Play none."),
    ] = False,
    speed: Annotated[
        float | None,
        typer.Option("--speed", metavar="TOKENS_PER_S", min=0.001, help="For the time that --dry-run tells."),
    ] = None,
    max_undecidable: MaxUndecidable = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Most episodes at once.")] = 512,
    as_json: AsJson = False,
) -> None:
    """Play the agents of FILE against each other, both seats, and rate them with intervals."""
    from arena.protocols.errors import ConfigError
    from arena.tournament import load_tournament, run_tournament

    config = load_tournament(file)
    if max_undecidable is not None:
        config = config.model_copy(update={"max_undecidable": max_undecidable})
    added = _agents(add)
    if speed is not None and not dry_run:
        raise ConfigError("--speed is for the time that --dry-run tells: leave it out, or add --dry-run")
    if dry_run:
        _tell(_estimate(config, added, out, speed), as_json)
        return
    if (resume or added) and out is None:
        what = "--resume" if resume else "--add"
        raise ConfigError(f"{what} needs --out DIR: the tournament to {'go on with' if resume else 'join'}")
    from arena.cli.board import Board

    where = out or str(new_folder(config.tournament))
    with Board(quiet=as_json) as board:
        standings = run_tournament(
            config, where, created=now(), resume=resume, add=added, concurrency=concurrency, watch=board.watch
        )
    shown = _shown(where)
    if as_json:
        usage = [each.plain() for each in standings.usage]
        print_json({**asdict(standings), "usage": usage, "out": shown})
    else:
        _show(standings, shown)
    refuse_undecided(standings.undecided, "tournament", standings.missing, shown)
    refuse_left(standings.stopped, "tournament", standings.missing, shown)


def _agents(items: list[str] | None) -> dict[str, Any]:
    """``["dan=fixed:text=no"]`` -> ``{"dan": "fixed:text=no"}``."""
    from arena.protocols.errors import ConfigError

    found: dict[str, Any] = {}
    for item in items or ():
        name, equals, spec = item.partition("=")
        if not equals or not name or not spec or ":" in name:
            raise ConfigError(f"--add {item!r} is not NAME=SPEC: write for example --add dan=smollm2")
        if name in found:
            raise ConfigError(f"--add names '{name}' twice")
        found[name] = spec
    return found


def _shown(where: str) -> str:
    """A directory, or a URL without its password."""
    from arena.store import Store, is_url

    if not is_url(where):
        return where
    with Store.open(where, create=False) as store:
        return store.where


def _show(standings: Standings, where: str) -> None:
    from arena.cli.analysis import print_analysis

    print_ratings([asdict(rating) for rating in standings.ratings], standings.note)
    print_analysis(standings.analysis)
    typer.echo("")
    print_table(
        ["tournament", where],
        [
            ("decided games", str(standings.matches)),
            *verdict_rows(standings.accuracy),
            *undecided_rows(standings.undecided),
        ],
    )
    for each in standings.usage:
        typer.echo(str(each))
    if standings.stopped and not has_left(standings.stopped):
        typer.echo(
            f"\nThe tournament was stopped ({standings.stopped}) with {standings.missing} of its games unplayed; "
            f"ratings are of what was played. Go on by --resume --out {where}"
            + (" and a larger budget." if standings.stopped.endswith("budget") else ".")
        )
    typer.echo(f"\narena report {where}    arena export {where}")


def _estimate(config: TournamentConfig, added: Mapping[str, Any], out: str | None, speed: float | None) -> Estimate:
    """What is to be played; games that are in ``out`` already are not, and tell how long theirs took."""
    from arena.tournament import check_tournament
    from arena.tournament.begun import played_so_far
    from arena.tournament.estimate import Speed, estimate
    from arena.tournament.play import with_added

    so_far = None if out is None else played_so_far(out)
    known = {} if so_far is None else so_far.added
    grown = with_added(with_added(config, known), added)
    check_tournament(grown)
    measured: Speed | None = None if so_far is None else so_far.speed
    return estimate(
        grown,
        stored={} if so_far is None else so_far.stages,
        sampled=None if so_far is None else so_far.sampled,
        speed=measured if speed is None else Speed(speed),
    )


def _tell(found: Estimate, as_json: bool) -> None:
    if as_json:
        print_json(found.plain())
        return
    unsure = {"exact": "", "at most": " at most", "estimate": " (estimate: pairings depend on results)"}
    open_count = "depends on what is said"
    rows: list[tuple[str, Any]] = [
        ("schedule", found.schedule),
        ("agents", found.agents),
        ("pairings", found.pairings),
        ("tasks", found.tasks),
        ("rounds", found.rounds),
        ("games", f"{found.games}{unsure[found.games_are]}"),
        *([("games stored already", found.stored)] if found.stored else []),
        ("turns", open_count if found.turns is None else found.turns),
        ("verdicts", open_count if found.verdicts is None else found.verdicts),
        *((f"games of arm {row}", games) for row, games in found.arms.items()),
        *([("verdicts of further judges", found.rejudged)] if found.rejudged else []),
    ]
    print_table(["to play", "count"], rows, right=["count"])
    if found.models:
        headers = ["model", "calls", "tokens in (estimate)", "tokens out (estimate)", "US dollars (estimate)"]
        typer.echo("")
        print_table(headers, [_model(name, use) for name, use in found.models.items()], right=headers[1:])
        typer.echo(f"tokens: {found.tokens_from}")
        typer.echo("cost: " + ("not known" if found.cost is None else f"{found.cost:.2f} USD, nothing cached"))
    time = "not known" if found.seconds is None else f"about {found.seconds:.0f} s"
    typer.echo(f"time: {time} ({found.seconds_from})")
    for note in found.notes:
        typer.echo(f"note: {note}")


def _model(name: str, use: Any) -> tuple[str, ...]:
    bill = "no bill" if use.own else "no price known" if use.cost is None else f"{use.cost:.4f}"
    return (name, f"{use.calls:,}", f"{use.prompt_tokens:,}", f"{use.completion_tokens:,}", bill)
