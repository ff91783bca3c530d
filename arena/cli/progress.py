"""Live progress of training runs, and the table at their end."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import typer
from rich.live import Live
from rich.table import Table

from arena.cli.output import Terminal, print_table

__all__ = ["Progress", "print_judge", "print_outcome"]

_SHOWN = (
    ("accuracy", "judge right", "{:.0%}"),
    ("kl_per_turn", "KL", "{:.2f}"),
    ("bad_quotes", "bad quotes", "{:.0%}"),
    ("undecidable", "undecidable", "{:.0%}"),
    ("reward", "reward", "{:.2f}"),
    ("claims_true", "claims true", "{:.0%}"),
    ("tokens_per_turn", "tokens a turn", "{:.1f}"),
    ("tokens_per_second", "tokens/s", "{:.0f}"),
    ("loss", "loss", "{:.2f}"),
)
_BY_NAME = ("kl_per_turn", "reward", "loss")
"""Figures that are told by policy or by role where there is no one number for all of them."""
_NAMED = 3
"""Policies or roles of which they are shown."""
_PROBED = 2
"""Measures of each probe that are shown."""
_ASIDE = ("alarm", "gate", "probe")
"""Phases that are no stage of their own."""


class Progress:
    """Shows events of one or several runs: a live table on a terminal, a line now and then elsewhere.

    Args:
        names: the runs.
        events: print every event as a JSON line instead.
        quiet: on standard error, so that standard output stays one JSON document.
    """

    def __init__(self, names: Sequence[str], *, events: bool = False, quiet: bool = False) -> None:
        self._events = events
        self._console = Terminal(stderr=quiet, highlight=False)
        self._rows: dict[str, dict[str, Any]] = {name: {} for name in names}
        self._probed: dict[str, dict[str, str]] = {name: {} for name in names}
        self._width = max(8, *map(len, names))
        self._started = time.monotonic()
        self._told: dict[str, tuple[Any, ...]] = {}
        terminal = not events and (sys.stderr if quiet else sys.stdout).isatty()
        self._live = Live(console=self._console, refresh_per_second=5, get_renderable=self._table) if terminal else None

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def on_event(self, name: str, event: dict[str, Any]) -> None:
        """Show one event of the run ``name``."""
        if self._events:
            typer.echo(json.dumps(event))
            sys.stdout.flush()
            return
        if event.get("event") != "phase" or event["phase"] in _ASIDE:
            self._aside(name, event)
            return
        row = self._rows[name]
        if _stage(row) != _stage(event):
            row.clear()
        row.update(event)
        if self._live is None:
            self._tell(name, row)

    def _aside(self, name: str, event: Mapping[str, Any]) -> None:
        """What happens beside the stages: alarms and gates are a line of their own, probes join the figures."""
        told = ""
        if event.get("phase") == "probe":
            self._probed[name][event["probe"]] = _measures(event)
        if event.get("phase") == "alarm":
            told = f"ALARM {event['alarm']} at step {event['at']}: {event['why']}"
        elif event.get("phase") == "gate":
            outcome = "is the champion" if event["promoted"] else f"does not replace {event['champion']}"
            told = f"{event['challenger']} {outcome} ({event['pairs']} pairs of games, score {event['score']})"
        if told:
            self._console.print(
                f"{time.monotonic() - self._started:5.0f} s  {name:{self._width}s} {told}",
                markup=False,
                soft_wrap=True,
            )

    def _tell(self, name: str, row: Mapping[str, Any]) -> None:
        """One line at the beginning of a stage and at its end."""
        key = (*_stage(row), row.get("step") == row.get("of"))
        if self._told.get(name) == key:
            return
        self._told[name] = key
        self._console.print(
            f"{time.monotonic() - self._started:5.0f} s  {name:{self._width}s} {_label(row):28s} {self._shown(name)}",
            markup=False,
            soft_wrap=True,
        )

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for header in (f"{time.monotonic() - self._started:.0f} s", "stage", "", "figures"):
            table.add_column(header)
        for name, row in self._rows.items():
            table.add_row(name, _label(row), _bar(row), self._shown(name))
        return table

    def _shown(self, name: str) -> str:
        """The figures of a run, and while it plays itself what its probes found last."""
        row = self._rows[name]
        probed = self._probed[name].values() if row.get("phase") == "self-play" else ()
        return "  ".join(filter(None, [_figures(row), *probed]))


def _stage(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row.get("run"), row.get("phase"), row.get("generation"), row.get("round"), row.get("part"))


def _label(row: Mapping[str, Any]) -> str:
    if not row:
        return "starting"
    text = str(row["phase"])
    if "generation" in row:
        text += f", generation {row['generation']}"
    if "round" in row:
        text += f", round {row['round']}"
    if "part" in row:
        text += f": {row['part']}"
    return f"{text} ({row['run']})" if row.get("run") else text


def _bar(row: Mapping[str, Any], width: int = 20) -> str:
    if not row.get("of"):
        return ""
    filled = round(width * int(row["step"]) / int(row["of"]))
    return "━" * filled + "╌" * (width - filled)


def _figures(row: Mapping[str, Any]) -> str:
    parts = [
        f"{called} {form.format(value)}" for key, title, form in _SHOWN for called, value in _values(row, key, title)
    ]
    if "games" in row:
        parts.append(f"{row['games']} games")
    return "  ".join(parts)


def _values(row: Mapping[str, Any], key: str, title: str) -> list[tuple[str, float]]:
    """The number of a column with what it is called; several where only policies or roles have one."""
    if isinstance(row.get(key), float):
        return [(title, row[key])]
    if key not in _BY_NAME:
        return []
    found = []
    for name, value in row.items():
        first, _, last = name.partition("/")  # reward/ROLE, POLICY/kl_per_turn
        if last and key in (first, last) and isinstance(value, float):
            found.append((f"{title} {last if key == first else first}", value))
    return found[:_NAMED]


def _measures(event: Mapping[str, Any]) -> str:
    """What a probe found, short."""
    found = [f"{name} {value:.3g}" for name, value in event.items() if isinstance(value, float)]
    return f"{event['probe']}: {', '.join(found[:_PROBED])}" if found else ""


def print_outcome(name: str, plain: Mapping[str, Any]) -> None:
    """The tables of one training run, as `arena.training.launch.Outcome.plain` gives them."""
    typer.echo(f"\n{name}: judge accuracy by arm, 95 % intervals clustered by task")
    if plain["same_judge"]:
        typer.echo("WARNING: the judge that rewarded training measured it as well (same_judge: true)")
    twin = any("training_judge" in row for row in plain["arms"].values())
    headers = ["arm", "accuracy", "95 % interval", "n", "undecidable", *(["training judge"] if twin else [])]
    rows = [
        (
            arm,
            _share(row["accuracy"]),
            "-" if row["accuracy"] is None else f"{row['low']:.3f} .. {row['high']:.3f}",
            row["n"],
            sum(row["undecidable"].values()),
            *([_share(row.get("training_judge", {}).get("accuracy"))] if twin else []),
        )
        for arm, row in plain["arms"].items()
    ]
    print_table(headers, rows, right=headers[1:])
    _print_generations(f"{name}: generations", plain)
    if "best_response" in plain:
        _print_response(name, plain["best_response"])
    if "control" in plain:
        control = plain["control"]
        _print_generations(f"{name}: control with shuffled advantages", {**control, "kl": [None] * len(control["elo"])})


def _print_response(name: str, told: Mapping[str, Any]) -> None:
    """What a trained response won; nothing is certain but that so much can be won."""
    if any(told[name] is None or not math.isfinite(told[name]) for name in ("value", "low", "high")):
        typer.echo(f"\n{name}: what a trained response to {told['against']} wins is not known: no game was settled")
        return
    sides = ", ".join(f"{side} {gain['value']:+.3f}" for side, gain in told["sides"].items())
    typer.echo(
        f"\n{name}: a trained response to {told['against']} wins {told['value']:+.3f} more than it, in units of the "
        f"reward (95 % interval {told['low']:+.3f} .. {told['high']:+.3f}; {sides}): at least so much can be exploited"
    )


def _print_undecided(generations: Sequence[Mapping[str, Any]]) -> None:
    """How many of the verdicts that training rested on could not be used, and why."""
    verdicts = sum(row["verdicts"] for row in generations)
    if not verdicts:
        return
    reasons: Counter[str] = Counter()
    for row in generations:
        reasons.update(row["by_status"])
    told = f"{reasons.total() / verdicts:.1%} of {verdicts}" + (f": {_reasons(reasons)}" if reasons else "")
    typer.echo(f"undecidable verdicts in self-play: {told}")


def _reasons(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items() if count) or "0"


def print_judge(name: str, plain: Mapping[str, Any]) -> None:
    """What the training of a judge came to, as `arena.training.judge_launch.JudgeOutcome.plain` gives it."""
    from arena.training.judge_reporting import FIGURES

    data = plain["data"]
    typer.echo(f"\n{name}: the judge on {data['held_out']} held-out examples, 95 % intervals clustered by question")
    columns = [part for part in ("before", "after", "teacher") if plain[part] is not None]
    rows: list[tuple[str, ...]] = [
        (title, *(_interval(plain[part][key]) for part in columns)) for key, title in FIGURES.items()
    ]
    limit = f"undecidable (at most {plain['max_undecidable']:.0%})"
    rows.append((limit, *(_undecidable(plain[part]) for part in columns)))
    print_table(["", *columns], rows, right=columns)
    if (fitted := plain["calibration"]) is not None:
        typer.echo(_calibration(fitted))
    rise = plain["gain"]
    typer.echo(f"accuracy rose by {rise['value']:+.3f} [{rise['low']:+.3f}, {rise['high']:+.3f}], paired by question")
    if "bayes_accuracy" in data:
        typer.echo(f"the best that any judge can reach here: {data['bayes_accuracy']:.3f}")
    for number, row in enumerate(plain["labels"], 1):
        typer.echo(_labels(row, number if len(plain["labels"]) > 1 else 0))
    typer.echo(f"judge: {plain['judge']}")


def _calibration(fitted: Mapping[str, Any]) -> str:
    lapse = f", lapse rate {fitted['lapse']:.3f}" if fitted["lapse"] else ""
    return (
        f"calibrated on {fitted['examples']} examples (temperature {fitted['temperature']:.3g}{lapse}): ECE "
        f"{fitted['ece_before']['value']:.3f} -> {fitted['ece_after']['value']:.3f}, log loss "
        f"{fitted['log_loss_before']['value']:.3f} -> {fitted['log_loss_after']['value']:.3f}"
    )


def _labels(row: Mapping[str, Any], number: int) -> str:
    by = "the data" if row["by"] == "truth" else row["by"]
    text = f"labels{f' of round {number}' if number else ''} by {by}: {row['used']} learned from"
    if row["left_out"]:
        text += f"; left out: {', '.join(f'{count} {why}' for why, count in row['left_out'].items())}"
    return text + ("" if row["right"] is None else f"; {row['right']:.1%} agree with the data")


def _interval(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _undecidable(row: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{count} {why}" for why, count in row["undecidable"].items())
    return reasons or "0"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _print_generations(title: str, plain: Mapping[str, Any]) -> None:
    if not plain["elo"]:
        return
    rows = []
    for number, (elo, (low, high)) in enumerate(zip(plain["elo"], plain["elo_intervals"], strict=True)):
        row: list[str] = [f"gen{number}", f"{elo:+.0f}", "anchor" if number == 0 else f"{low:+.0f} .. {high:+.0f}"]
        for key, form in (("exploitability", "{:.3f}"), ("kl", "{:.2f}"), ("bad_quotes", "{:.1%}")):
            values = plain.get(key) or []
            row.append(form.format(values[number]) if number < len(values) and values[number] is not None else "-")
        rows.append(row)
    typer.echo(f"\n{title}")
    if plain.get("note"):
        typer.echo(f"note: {plain['note']}")
    headers = ["generation", "Elo", "95 % interval", "exploitability", "KL, nats a turn", "bad quotes"]
    print_table(headers, rows, right=headers[1:])
