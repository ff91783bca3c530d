"""What follows from the games of a tournament, as tables that fit into a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from arena.cli.output import print_table

__all__ = ["print_analysis"]

_MOST = 12
"""Rows of a table of pairs, the clearest ones."""
_METHODS = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


def print_analysis(found: Mapping[str, Any]) -> None:
    """Print the series ``analysis`` of a tournament (`arena.tournament.analysis`), each part that is there."""
    for name, part in _PARTS.items():
        if found.get(name):
            part(found)
    for note in found.get("notes", ()):
        typer.echo(f"left out: {note}")


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], left: int = 1) -> None:
    typer.echo(f"\n{title}")
    print_table(headers, rows, right=headers[left:])


def _roles(found: Mapping[str, Any]) -> None:
    roles = found["roles"]
    if roles["advantage"] is not None:
        typer.echo(f"\nthe seat '{roles['seats'][0]}' is worth {_points(roles['advantage'])} Elo points")


def _payoffs(found: Mapping[str, Any]) -> None:
    view = found["payoffs"]
    weights = sorted(view["nash"].items(), key=lambda item: -item[1])
    mixed = ", ".join(f"{name} {weight:.2f}" for name, weight in weights if weight >= 0.005)
    share = view["transitive_share"]
    rows = [("mixture that nobody beats", mixed)]
    if share is not None:
        rows.append(("explained by one rating each", f"{share:.0%}"))
    rows += [
        ("cycle", f"{' > '.join([*c['agents'], c['agents'][0]])}, by {_number(c['margin'], '+.2f')} at least")
        for c in view["cycles"]
    ]
    typer.echo("")
    print_table(["as a game between agents", ""], rows)


def _clearness(row: Mapping[str, Any]) -> tuple[float, float, float]:
    """The clearest pairs come first, then the largest differences: a correction may make many p-values 1."""
    return row["p_adjusted"], row["p"], -abs((row["difference"] or {"value": 0.0})["value"])


def _compared(found: Mapping[str, Any]) -> None:
    tested = [row for row in found["compared"] if row["p_adjusted"] is not None]
    shown = sorted(tested, key=_clearness)[:_MOST]
    if not shown:
        return
    rows = [
        (
            f"{row['first']} - {row['second']}",
            _points(row["difference"]),
            _number(row["p"], ".4f"),
            _number(row["p_adjusted"], ".4f"),
        )
        for row in shown
    ]
    more = f", the {_MOST} clearest of {len(tested)}" if len(tested) > _MOST else ""
    method = _METHODS[shown[0]["method"]]
    _table(f"pairs of agents{more}", ["pair", "Elo difference", "p", f"p ({method})"], rows)


def _sprt(found: Mapping[str, Any]) -> None:
    def decided(row: Mapping[str, Any]) -> str:
        after = f"after {row['pairs']} pairs of games"
        told = {
            "H0": f"H0 {after}: by {row['elo0']:g} Elo or less",
            "H1": f"H1 {after}: by {row['elo1']:g} Elo or more",
        }
        return told.get(row["decision"], f"not decided {after}")

    rows = [(f"{row['second']} better than {row['first']}?", decided(row)) for row in found["sprt"]]
    typer.echo("")
    print_table(["sequential tests", ""], rows)


def _covariates(found: Mapping[str, Any]) -> None:
    fit = found["covariates"]
    rows = [(name, _points(each)) for name, each in zip(fit["names"], fit["coefficients"], strict=True)]
    _table("what else decides games, and ratings are freed of", ["covariate", "Elo points"], rows)


def _arms(found: Mapping[str, Any]) -> None:
    gaps = {row["arm"]: row for row in found.get("gap_recovered", ())}
    rows = []
    for row in found["arms"]:
        gap = gaps.get(row["arm"])
        rows.append(
            (
                row["arm"],
                _share(row["accuracy"]),
                "-" if row["tokens"] is None else f"{row['tokens']:.0f}",
                f"{row['undecidable']:.1%}",
                "-" if gap is None else "undefined" if gap["value"] is None else _share(gap, "+.2f"),
            )
        )
    headers = ["arm", "judge accuracy", "tokens", "undecidable", "gap recovered"]
    _table("judge accuracy by arm, 95 % intervals clustered by task", headers, rows)
    _arm_pairs(found.get("arms_compared", ()))
    for note in dict.fromkeys(gap["note"] for gap in gaps.values() if gap["note"]):
        typer.echo(f"gap recovered: {note}")


def _arm_pairs(compared: Sequence[Mapping[str, Any]]) -> None:
    tested = [row for row in compared if row["p_adjusted"] is not None]
    shown = sorted(tested, key=_clearness)[:_MOST]
    if not shown:
        return
    rows = [
        (
            f"{row['first']} - {row['second']}",
            _share(row["difference"], "+.3f"),
            _number(row["p_adjusted"], ".4f"),
            "yes" if row["same_tokens"] else "no",
        )
        for row in shown
    ]
    more = f", the {_MOST} clearest of {len(tested)}" if len(tested) > _MOST else ""
    headers = ["arms", "difference of accuracy", f"p ({_METHODS[shown[0]['method']]})", "equal tokens"]
    _table(f"pairs of arms{more}", headers, rows)


def _truth(found: Mapping[str, Any]) -> None:
    rows = [
        (row["agent"], _share(row["right"]), _share(row["wrong"]), _share(row["accuracy"])) for row in found["truth"]
    ]
    _table("wins by what is argued", ["agent", "right answer", "wrong answer", "judge right"], rows)
    if (honest := found.get("honesty")) is not None:
        typer.echo(f"honest {_share(honest['honest'])}, dishonest {_share(honest['dishonest'])}")
    if (correlation := found.get("persuasion_correlation")) is not None:
        typer.echo(f"correlation of persuasiveness with judge accuracy: {_share(correlation, '+.2f')}")


def _judges(found: Mapping[str, Any]) -> None:
    rows = [
        (
            row["judge"],
            _share(row["accuracy"]),
            f"{row['undecidable']:.1%}",
            _number(row["mcnemar_p"], ".4f"),
            _ranking(row["ratings"]),
        )
        for row in found["judges"]
    ]
    headers = ["judge", "accuracy", "undecidable", "McNemar p", "ranking"]
    _table("the same transcripts before other judges", headers, rows)


def _ranking(ratings: Sequence[Mapping[str, Any]]) -> str:
    """``a > b = c > d``: the best five."""
    told = ""
    for above, rating in zip([None, *ratings], ratings[:5], strict=False):
        sign = "" if above is None else " = " if above["rank"] == rating["rank"] else " > "
        told += f"{sign}{rating['name']}"
    return told


_PARTS = {
    "roles": _roles,
    "payoffs": _payoffs,
    "compared": _compared,
    "sprt": _sprt,
    "covariates": _covariates,
    "arms": _arms,
    "truth": _truth,
    "judges": _judges,
}


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _points(interval: Mapping[str, Any] | None) -> str:
    """Elo points with their interval."""
    return _share(interval, "+.0f")


def _share(interval: Mapping[str, Any] | None, form: str = ".3f") -> str:
    if interval is None:
        return "-"
    low, high = (_number(interval[end], form) for end in ("low", "high"))
    return f"{_number(interval['value'], form)} [{low}, {high}]"
