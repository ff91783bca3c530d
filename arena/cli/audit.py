"""``arena audit``: a judge as a measured instrument."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from arena.cli.output import AsJson, new_folder, now, print_json, print_table
from arena.protocols.errors import ConfigError

__all__ = ["command"]


def command(
    judge: Annotated[str, typer.Argument(metavar="SPEC", help="A judge; `arena ls judges` names them.")],
    tasks: Annotated[
        str | None, typer.Option("--tasks", metavar="SPEC", help="A .jsonl file, or a name from `arena ls tasks`.")
    ] = None,
    transcripts: Annotated[
        Path | None,
        typer.Option("--transcripts", metavar="DIR", help="Show the debates of this run, in place of --tasks."),
    ] = None,
    node: Annotated[
        str | None, typer.Option("--node", help="Judge node of the transcripts; the last one if absent.")
    ] = None,
    n: Annotated[int | None, typer.Option("--n", min=1, help="Most tasks or transcripts; all if absent.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Root of all random streams.")] = 0,
    split: Annotated[str, typer.Option("--split", help="train or test.")] = "test",
    sees: Annotated[
        list[str] | None,
        typer.Option("--sees", metavar="FIELD", help="A task field that the judge sees, such as passage. Repeatable."),
    ] = None,
    own: Annotated[
        str | None,
        typer.Option("--own", metavar="AGENT", help="Who writes the statements: an agent of the judge's own family."),
    ] = None,
    other: Annotated[
        str | None,
        typer.Option("--other", metavar="AGENT", help="An agent of another family, to measure self-preference."),
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option("--with", metavar="JUDGE", help="Another judge to compare with. Repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="Run directory; a new one in arena-runs/ if absent.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the audit that is in --out.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure a judge: accuracy, calibration, biases of order, length and family, and what it falls for."""
    if resume and out is None:
        raise ConfigError("--resume needs --out DIR: the audit to go on with")

    from arena.audit import AuditConfig, report_audit, run_audit
    from arena.cli.live import Bar

    config = AuditConfig(
        judge=judge,
        tasks=tasks,
        transcripts=None if transcripts is None else str(transcripts),
        node=node,
        n=n,
        seed=seed,
        split=split,
        sees=tuple(sees or ()),
        own=own,
        other=other,
        beside=tuple(beside or ()),
    )
    folder = out or new_folder("audit")
    with Bar("verdicts") as bar:
        result = run_audit(config, folder, created=now(), resume=resume, on_start=bar.start, on_batch=bar.batch)
    page = report_audit(folder, folder / "report.html", created=now())
    if as_json:
        print_json({"out": str(folder), **result}, indent=None)
    else:
        _show(result)
        typer.echo(f"\n{page}")


def _show(result: Mapping[str, Any]) -> None:
    from arena.audit.report import MEASURES, counted

    undecided = ", ".join(f"{count} {reason}" for reason, count in result["undecidable"].items())
    rows = [
        ("material", result["material"]),
        ("verdicts", f"{result['verdicts']}; questions: {counted(result)}"),
        ("decidable", f"{result['decidable']}" + (f"; {undecided}" if undecided else "")),
        ("accuracy", _interval(result["accuracy"])),
        *((name, _plain(result[name])) for name in ("brier", "ece", "mcc")),
        ("order consistency", _plain(result["order_consistency"])),
    ]
    if raw := result["raw_readings"]:
        rows.append(("single readings", f"letter bias {_interval(raw['position_bias'])}"))
        if spoken := raw["speaking_bias"]:
            rows.append(("", f"speaking bias {_interval(spoken)}"))
        rows.append(("", f"order consistency {_plain(raw['order_consistency'])}"))
    rows.append(("cost", _cost(result["cost"])))
    print_table(["audit of", result["judge"]], rows)
    typer.echo("")
    if not result["decidable"]:
        print_table(["no verdict can be used", "why"], list(result["undecidable_reasons"].items()))
        typer.echo("")
    effects = [(MEASURES[name], _interval(result[name])) for name in MEASURES]
    print_table(["what moves it", "effect, 95 % interval"], effects)
    if found := result["agreement"]:
        typer.echo("")
        others = [
            (spec, _plain(row["agreement"]), _plain(row["cohen_kappa"]), _interval(row["accuracy"]))
            for spec, row in found["with"].items()
        ]
        print_table(["compared with", "same choice", "Cohen's kappa", "its accuracy"], others)
        typer.echo(f"Fleiss' kappa of all {found['judges']}: {_plain(found['fleiss_kappa'])}")


def _interval(row: Mapping[str, Any]) -> str:
    if row["value"] is None:
        return "not measured"
    return f"{row['value']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def _plain(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.3f}"


def _cost(cost: Mapping[str, Any]) -> str:
    parts = [f"{cost['seconds_per_verdict']:.3g} s a verdict"]
    if cost["tokens_per_call"] is not None:
        parts.append(f"{cost['tokens_per_call']:.0f} tokens a call")
    if cost["calls"]:
        parts.append("USD unknown" if cost["usd"] is None else f"{cost['usd']:.4f} USD")
    return ", ".join(parts)
