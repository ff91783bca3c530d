"""``arena run``: debates on questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field

from arena.cli.output import (
    AsJson,
    MaxUndecidable,
    SetParams,
    has_left,
    new_folder,
    now,
    pass_rows,
    print_json,
    print_table,
    read_assignments,
    refuse_left,
    refuse_undecided,
    undecided_rows,
    verdict_rows,
)
from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from arena.protocols import Episode, Protocol, Task
    from arena.running import RunSummary
    from arena.transcripts import Listener

__all__ = ["RunFile", "beside", "command"]


class RunFile(BaseModel):
    """Options of ``arena run`` in a file; what is given on the command line goes before it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    protocol: str | None = None
    """Library name, or a path beside this file."""
    tasks: str | None = None
    """Task spec, or a path to a JSONL file beside this file."""
    agents: dict[str, str] = Field(default_factory=dict)
    """Role -> agent spec; a counted role stands for all its seats, ``*`` for all roles that are not named."""
    judge: str | dict[str, str] | None = None
    """Judge spec, or role -> judge spec."""
    n: int | None = Field(None, ge=1)
    """Most tasks."""
    seed: int = 0
    """Root of all random streams."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
    swap: bool = False
    """Play every task twice, with the answers exchanged between the seats."""
    split: str = "test"
    """``train`` or ``test``."""
    max_turns: int | None = Field(None, ge=1)
    """The run stops when so many turns were made; it can be resumed with more."""
    max_tokens: int | None = Field(None, ge=1)
    """The run stops when so many tokens were sampled."""
    max_seconds: float | None = Field(None, gt=0)
    """The run stops after so many seconds."""
    max_undecidable: float | None = Field(None, ge=0, le=1)
    """The run stops when a larger share of its verdicts, of at least 20, cannot be used; absent: 0.5."""


def command(
    protocol: Annotated[
        str | None, typer.Argument(metavar="PROTOCOL", help="A name from `arena ls protocols`, or a YAML file.")
    ] = None,
    tasks: Annotated[
        str | None, typer.Option("--tasks", metavar="SPEC", help="A .jsonl file, or a name from `arena ls tasks`.")
    ] = None,
    agent: Annotated[
        list[str] | None,
        typer.Option("--agent", metavar="ROLE=SPEC", help="Who fills a role; *=SPEC fills the rest. Repeatable."),
    ] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="[ROLE=]SPEC", help="Who judges, or judges as a role. Repeatable."),
    ] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Most tasks; all if absent.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Root of all random streams.  [default: 0]")] = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="DIR", help="Run directory, or a database URL; a new directory in arena-runs/ if absent."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in --out.")] = False,
    params: SetParams = None,
    swap: Annotated[
        bool, typer.Option("--swap", help="Play every task twice, the answers exchanged between the seats.")
    ] = False,
    split: Annotated[str | None, typer.Option("--split", help="train or test.  [default: test]")] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Stop the run after so many turns.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Stop the run after so many sampled tokens.")
    ] = None,
    max_seconds: Annotated[
        float | None, typer.Option("--max-seconds", min=0.001, help="Stop the run after so many seconds.")
    ] = None,
    max_undecidable: MaxUndecidable = None,
    show: Annotated[
        int | None, typer.Option("--show", metavar="N", min=0, help="Print the first N transcripts in full at the end.")
    ] = None,
    prompts: Annotated[
        bool, typer.Option("--prompts", help="In transcripts, also all that each role and judge was told; --show 1.")
    ] = False,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Most episodes at once.")] = 512,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="YAML file with any of these options.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Play a protocol on tasks, print the debates as they are spoken, and store every episode."""
    file = _read(config)
    given = {
        "protocol": protocol,
        "tasks": tasks,
        "n": n,
        "seed": seed,
        "split": split,
        "swap": swap or None,
        "max_turns": max_turns,
        "max_tokens": max_tokens,
        "max_seconds": max_seconds,
        "max_undecidable": max_undecidable,
    }
    chosen = file.model_copy(update={name: value for name, value in given.items() if value is not None})
    if chosen.protocol is None:
        raise ConfigError("which protocol? Give a name from 'arena ls protocols' or a YAML file")
    if chosen.tasks is None:
        raise ConfigError("which tasks? Give --tasks FILE.jsonl or a name from 'arena ls tasks'")
    if resume and out is None:
        raise ConfigError("--resume needs --out DIR: the run to go on with")

    from arena.cli.live import RunDisplay
    from arena.protocols import Budget
    from arena.running import RunConfig, run_episodes
    from arena.transcripts import Listener
    from arena.undecided import MOST_UNDECIDED

    if prompts and show is None:
        show = 1
    settings = RunConfig(
        protocol=chosen.protocol,
        tasks=chosen.tasks,
        agents={**chosen.agents, **_lineup(agent)},
        judges={**_seats(chosen.judge), **_judges(judge)},
        n=chosen.n,
        seed=chosen.seed,
        params={**chosen.params, **read_assignments(params, "--set")},
        swap=chosen.swap,
        split=chosen.split,
    )
    transcripts: list[str] = []
    listener = Listener() if prompts else None
    with RunDisplay(quiet=as_json or show is not None) as display:
        summary = run_episodes(
            settings,
            out or new_folder(Path(chosen.protocol).stem),
            created=now(),
            resume=resume,
            concurrency=concurrency,
            budget=Budget(chosen.max_turns, chosen.max_tokens, chosen.max_seconds),
            max_undecidable=MOST_UNDECIDED if chosen.max_undecidable is None else chosen.max_undecidable,
            on_start=display.start,
            on_turn=display.turn,
            on_batch=display.batch,
            on_end=partial(_keep_transcripts, transcripts, show or 0, listener),
            listener=listener,
            listened=show or 0,
        )
    if as_json:
        usage = [each.plain() for each in summary.usage]
        print_json({**asdict(summary), "usage": usage})
    else:
        for text in transcripts:
            typer.echo(text)
        _show(summary)
    refuse_undecided(summary.undecided, "run", summary.missing, summary.out)
    refuse_left(summary.stopped, "run", summary.missing, summary.out)
    if summary.episodes and summary.failed == summary.episodes:
        raise typer.Exit(1)


def _keep_transcripts(
    kept: list[str],
    most: int,
    listener: Listener | None,
    protocol: Protocol,
    episodes: list[Episode],
    tasks: Mapping[str, Task],
) -> None:
    from arena.transcripts import format_episode

    asks, views = (listener.asks, listener.views) if listener else ((), {})
    for episode in episodes[:most]:
        kept.append(format_episode(episode, protocol, tasks[episode.task], asks, views))
        if listener and episode.turns and not any(ask.episode == episode.key for ask in asks):
            kept.append("What the roles were told is not shown, since this episode was played before.\n")


def _read(path: Path | None) -> RunFile:
    if path is None:
        return RunFile()
    from arena.protocols import read_document, validate_model

    return beside(validate_model(read_document(path), RunFile), path)


def beside(file: RunFile, path: Path) -> RunFile:
    """The options with files that they name counted from the folder of ``path``, where they stand."""
    named = {
        name: str(path.parent / value)
        for name, value, endings in (
            ("protocol", file.protocol, (".yaml", ".yml")),
            ("tasks", file.tasks, (".jsonl",)),
        )
        if value is not None and value.endswith(endings)
    }
    return file.model_copy(update=named)


def _lineup(items: list[str] | None) -> Mapping[str, str]:
    lineup: dict[str, str] = {}
    for item in items or ():
        role, equals, spec = item.partition("=")
        if not equals or not role or not spec:
            raise ConfigError(f"--agent {item!r} is not ROLE=SPEC: write for example --agent proponent=smollm2")
        if role in lineup:
            raise ConfigError(f"--agent fills the role '{role}' twice")
        lineup[role] = spec
    return lineup


def _judges(items: list[str] | None) -> Mapping[str, str]:
    judges: dict[str, str] = {}
    for item in items or ():
        # A spec has its '=' behind a ':', a role has none before its '='.
        role, equals, spec = item.partition("=")
        named = bool(equals) and ":" not in role
        seat, judge = (role, spec) if named else ("*", item)
        if not seat or not judge:
            raise ConfigError(f"--judge {item!r} is not SPEC or ROLE=SPEC: write for example --judge judge=exact")
        if seat in judges:
            raise ConfigError(f"--judge fills the role '{seat}' twice" if named else "--judge is given twice")
        judges[seat] = judge
    return judges


def _seats(judge: str | Mapping[str, str] | None) -> Mapping[str, str]:
    return {"*": judge} if isinstance(judge, str) else judge or {}


def _show(summary: RunSummary) -> None:
    rows = [
        ("episodes", f"{summary.episodes}" + (f", {summary.failed} of them failed" if summary.failed else "")),
        ("turns", ", ".join(f"{count} {status}" for status, count in summary.turns.items()) or "none"),
        *(verdict_rows(summary.accuracy) if summary.accuracy else ()),
        *undecided_rows(summary.undecided),
        *pass_rows(summary.passes),
    ]
    if summary.first_error:
        rows.insert(1, ("first error", summary.first_error))
    if summary.stops.keys() - {"end"}:
        rows.append(("stopped by", ", ".join(f"{reason}: {count}" for reason, count in summary.stops.items())))
    rows += [(f"won by {role}", f"{count}") for role, count in summary.wins.items()]
    typer.echo("")
    print_table(["run", summary.out], rows)
    for note in summary.notes:
        typer.echo(f"note: {note}")
    for usage in summary.usage:
        typer.echo(str(usage))
    if summary.stopped and not has_left(summary.stopped):
        more = "." if summary.stopped.startswith("cancelled") else " and a larger budget."
        typer.echo(
            f"\nThe run was stopped ({summary.stopped}) with {summary.missing} of its episodes unplayed. "
            f"Go on by --resume --out {summary.out}{more}"
        )
    typer.echo(f"\narena report {summary.out}    arena export {summary.out}")
