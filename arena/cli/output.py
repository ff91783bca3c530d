"""What all verbs print with: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from unicodedata import category

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.protocols.errors import ConfigError

if TYPE_CHECKING:
    from arena.passes import PassRate
    from arena.running import Accuracy
    from arena.statistics import Interval
    from arena.undecided import Undecided

__all__ = [
    "AsJson",
    "MaxUndecidable",
    "SetParams",
    "Terminal",
    "console",
    "has_left",
    "new_folder",
    "now",
    "pass_rows",
    "print_json",
    "print_ratings",
    "print_table",
    "read_assignments",
    "refuse_left",
    "refuse_undecided",
    "undecided_rows",
    "verdict_rows",
    "visible",
]

MaxUndecidable = Annotated[
    float | None,
    typer.Option(
        "--max-undecidable",
        min=0,
        max=1,
        help="Stop when a larger share of the verdicts, of at least 20, cannot be used.  [default: 0.5]",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output instead of text.")]
SetParams = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the protocol. Repeatable.")
]

_WIDE = 10_000
_LEFT = "has left: the input has ended"
"""What the reason says if work was stopped since a person who speaks or judges in it left."""


class Terminal(Console):
    """A console that leaves a closed pipe to the frame, which knows the exit code."""

    def on_broken_pipe(self) -> None:
        """Raise what the frame looks for."""
        raise BrokenPipeError


def console() -> Console:
    """Standard output; unlimited width when it is not a terminal, so that nothing is cut for `grep`."""
    return Terminal(highlight=False, width=None if sys.stdout.isatty() else _WIDE)


def print_json(data: Any, indent: int | None = 2) -> None:
    """``data`` as JSON on standard output, on one line if ``indent`` is None; NaN and infinity become null."""
    plain_ascii = "utf" not in (getattr(sys.stdout, "encoding", None) or "").lower()
    typer.echo(json.dumps(_finite(data), ensure_ascii=plain_ascii, allow_nan=False, indent=indent))


def _finite(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if hasattr(data, "tolist"):  # an array of numpy, without importing it
        return _finite(data.tolist())
    return None if isinstance(data, float) and not math.isfinite(data) else data


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]], *, right: Sequence[str] = ()) -> None:
    """A plain table. ``right`` names the columns of numbers. Cells are text, never markup."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for header in headers:
        table.add_column(header, justify="right" if header in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(visible(str(cell))) for cell in row))
    console().print(table)


def print_ratings(ratings: Sequence[Mapping[str, Any]], note: str) -> None:
    """A table of ratings (the fields of `arena.ratings.Rating`), in the order given, and what must be known of them."""

    def points(value: float | None) -> str:
        return "?" if value is None or not math.isfinite(value) else f"{value:+.0f}"

    counts = ["games", "wins", "ties", "losses"]
    ranked = any(row.get("rank_high") for row in ratings)  # runs of older versions know no ranks
    rows = [
        [
            row["name"],
            points(row["elo"]),
            f"{points(row['low'])} .. {points(row['high'])}",
            *([f"{row['rank_low']} .. {row['rank_high']}"] if ranked else []),
            *(row[name] for name in counts),
        ]
        for row in ratings
    ]
    if rows:
        headers = ["agent", "Elo", "95 % interval", *(["ranks"] if ranked else []), *counts]
        print_table(headers, rows, right=headers[1:])
    if note:
        typer.echo(f"note: {note}")


def verdict_rows(accuracy: Accuracy) -> list[tuple[str, str]]:
    """How many verdicts can be used, why the others cannot, and the share that is right where tasks have labels."""
    ties = f", {accuracy.ties} of them ties" if accuracy.ties else ""
    rows = [("verdicts", f"{accuracy.decidable} decidable{ties}{_reasons(accuracy.undecidable)}")]
    if (interval := accuracy.interval) is not None:
        half = ", a tie counts half" if accuracy.ties else ""
        rows.append(("accuracy", f"{_share(interval)}{half}"))
    return rows


def undecided_rows(undecided: Undecided) -> list[tuple[str, str]]:
    """The share of verdicts that cannot be used, and why; nothing where none was given."""
    return [("undecided", str(undecided))] if undecided.verdicts else []


def refuse_undecided(undecided: Undecided, what: str, missing: int, out: str | Path) -> None:
    """End a verb whose work was stopped for undecidable verdicts; ``out`` holds what was played.

    Raises:
        typer.Exit: with code 1, after a message on standard error, if it was.
    """
    if not undecided.too_many:
        return
    typer.echo(
        f"\nThe {what} was stopped with {missing} of its episodes unplayed, since too many verdicts cannot be used "
        f"(the limit is {undecided.limit:.0%}): {visible(str(undecided))}.\nPlay with another judge in another folder, "
        f"judge what is stored by another one (arena judge {out} --judge SPEC), or go on with this one by --resume "
        f"--out {out} and a larger --max-undecidable.",
        err=True,
    )
    raise typer.Exit(1)


def has_left(stopped: str) -> bool:
    """Whether work was stopped for this reason: a person who speaks or judges in it has left."""
    return _LEFT in stopped


def refuse_left(stopped: str, what: str, missing: int, out: str | Path) -> None:
    """End a verb whose work was stopped since a person left; ``out`` holds what was played.

    Raises:
        typer.Exit: with code 1, after a message on standard error, if one has.
    """
    if not has_left(stopped):
        return
    typer.echo(
        f"\nThe {what} was stopped ({stopped}) with {missing} of its episodes unplayed. Go on by --resume --out {out}.",
        err=True,
    )
    raise typer.Exit(1)


def pass_rows(passes: Mapping[str, PassRate]) -> list[tuple[str, str]]:
    """For each check the share that passed it, and how many could not be checked."""
    rows = []
    for name, rate in passes.items():
        share = "nothing was checked" if rate.interval is None else _share(rate.interval)
        rows.append((f"passed {name}", share + _reasons(rate.unchecked, "not checked: ")))
    return rows


def _share(interval: Interval) -> str:
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}] of {interval.n}"


def _reasons(counts: Mapping[str, int], what: str = "") -> str:
    return f"; {what}{', '.join(f'{count} {reason}' for reason, count in counts.items())}" if counts else ""


def visible(text: str) -> str:
    """``text`` with all that prints as nothing, steers a terminal or turns lines round told by its number.

    Line feeds, tabs and blanks of any width stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() or category(c) == "Zs" else f"\\u{ord(c):04x}" for c in text)


def now() -> str:
    """The time to store with a run: UTC, seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def new_folder(name: str) -> Path:
    """A run directory that does not exist yet: ``arena-runs/NAME-DATE-TIME``, numbered if two begin in one second."""
    base = Path("arena-runs") / f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    candidates = (base, *(base.with_name(f"{base.name}-{number}") for number in range(2, 1000)))
    return next(folder for folder in candidates if not folder.exists())


def read_assignments(items: Sequence[str] | None, option: str) -> Mapping[str, Any]:
    """``["rounds=5", "words=80"]`` -> ``{"rounds": 5, "words": 80}``; see `arena.protocols.documents.read_value`.

    Raises:
        ConfigError: an item is not NAME=VALUE, or a name comes twice.
    """
    from arena.protocols.documents import read_value

    found: dict[str, Any] = {}
    for item in items or ():
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{option} {item!r} is not NAME=VALUE")
        if name.strip() in found:
            raise ConfigError(f"{option} gives '{name.strip()}' twice")
        found[name.strip()] = read_value(value)
    return found
