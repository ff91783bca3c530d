"""What a tournament says about who is better, from its stored series ``analysis``: one `Part` a question.

Every function takes the value of one key of that series, as `arena.tournament` stores it, and gives a part or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from arena import charts
from arena.charts import Bar, Cycle, Trace
from arena.report.data import Figure, Part, Table
from arena.report.figures import MOST_IN_PICTURE, ratings_by
from arena.report.values import Plain, bar_of, interval_of, p_text, points_text, real, signed

__all__ = ["comparison_part", "online_part", "payoff_part", "protocol_part", "rounds_part", "seat_part", "sprt_part"]

_MOST_ROWS = 200
_TRACES = 6
"""Tests in one picture: as many as there are colours."""
_CYCLES = 6
_METHODS = {"holm": "Holm's correction", "bh": "the correction of Benjamini and Hochberg"}
_DECIDED = {"H0": "no", "H1": "yes", None: "open"}


def comparison_part(rows: Sequence[Plain]) -> Part | None:
    """Every pair of agents: by how much they differ, and whether that can be chance."""
    if not rows:
        return None
    # The clearest first, then the largest.
    ordered = sorted(map(_better_first, rows), key=lambda row: (_p(row), -interval_of(row["difference"]).value))
    clear = sum(_p(row) < 0.05 for row in rows)
    method = _METHODS.get(rows[0]["method"], rows[0]["method"])
    cells = [
        [
            row["first"],
            row["second"],
            points_text(interval_of(row["difference"])),
            p_text(row["p"]),
            p_text(row["p_adjusted"]),
        ]
        for row in ordered[:_MOST_ROWS]
    ]
    columns = ("agent", "against", "difference, Elo", "p", "p, corrected")
    cut = f" The {len(cells)} clearest of {len(rows)}." * (len(cells) < len(rows))
    bars = [_difference(row) for row in ordered[:MOST_IN_PICTURE]]
    picture = charts.interval_plot(
        bars, title="Differences in Elo points with 95 % intervals", reference=(0.0, "equal")
    )
    caption = "Elo points that the first is ahead, 95 % intervals; in grey what may be chance after the correction"
    return Part(
        "Who is better than whom",
        f"{clear} of {len(rows)} pairs differ at 5 % under {method} for {len(rows)} comparisons.",
        [Table("", columns, cells, numbers=columns[2:])],
        [Figure("differences", caption, picture)],
        f"p-values are of a permutation test that exchanges both agents' games question by question.{cut}",
    )


def _better_first(row: Plain) -> Plain:
    """The comparison from the side of who is ahead."""
    found = interval_of(row["difference"])
    if not found.value < 0:
        return row
    turned = {"value": -found.value, "low": -found.high, "high": -found.low, "n": found.n}
    return {**row, "first": row["second"], "second": row["first"], "difference": turned}


def _difference(row: Plain) -> Bar:
    found = interval_of(row["difference"])
    names = f"{charts.short(row['first'], 14)} – {charts.short(row['second'], 14)}"
    return bar_of(names, row["difference"], _p(row) < 0.05, signed(found.value))


def _p(row: Plain) -> float:
    return 1.0 if row["p_adjusted"] is None else float(row["p_adjusted"])


def sprt_part(rows: Sequence[Plain]) -> Part | None:
    """The sequential tests that ended pairings early."""
    if not rows:
        return None
    cells = [
        [
            row["second"],
            row["first"],
            _DECIDED[row["decision"]],
            row["pairs"],
            row["trace"][-1] if row["trace"] else math.nan,
        ]
        for row in rows[:_MOST_ROWS]
    ]
    decided = sum(row["decision"] is not None for row in rows)
    figures = []
    for (elo0, elo1, lower, upper), same in groupby(sorted(rows, key=_bounds), key=_bounds):
        tests = list(same)
        for start in range(0, len(tests), _TRACES):
            traces = [
                Trace(
                    f"{row['second']} over {row['first']}", [real(v) for v in row["trace"]], row["decision"] is not None
                )
                for row in tests[start : start + _TRACES]
            ]
            picture = charts.sprt_chart(
                traces,
                lower=lower,
                upper=upper,
                title="Sequential tests",
                lower_label=f"not better (H0: {signed(elo0)} Elo)",
                upper_label=f"better (H1: {signed(elo1)} Elo)",
            )
            figures.append(Figure("sprt", _sprt_caption(traces), picture))
    alpha, beta = rows[0]["alpha"], rows[0]["beta"]
    return Part(
        "Is it better? Sequential tests",
        f"{decided} of {len(rows)} pairings were decided before their games were used up.",
        [Table("", ("agent", "better than", "decision", "pairs", "log-likelihood ratio"), cells)],
        figures,
        f"Wald's test, pairs of games as the unit: better is claimed wrongly with probability {alpha:g} at most, "
        f"not better with {beta:g}.",
    )


def _bounds(row: Plain) -> tuple[float, float, float, float]:
    return (float(row["elo0"]), float(row["elo1"]), float(row["lower"]), float(row["upper"]))


def _sprt_caption(traces: Sequence[Trace]) -> str:
    what = f"{traces[0].name}: evidence" if len(traces) == 1 else "Evidence"
    hollow = "; a hollow dot is a test that is still open" * any(not trace.decided for trace in traces)
    return f"{what} after each pair of games{hollow}"


def seat_part(roles: Plain) -> Part | None:
    """Ratings by seat, and what the first seat is worth."""
    tables: Mapping[str, Sequence[Plain]] = roles.get("ratings") or {}
    advantage = interval_of(roles.get("advantage"))
    if not tables and not math.isfinite(advantage.value):
        return None
    lead = ""
    if math.isfinite(advantage.value):
        chance = advantage.low <= 0 <= advantage.high
        lead = f"The first seat is worth {points_text(advantage)} Elo points" + (
            ", which may be chance." * chance or "."
        )
    by_role = {role: {row["name"]: _rating_interval(row) for row in rows} for role, rows in tables.items()}
    names = list(dict.fromkeys(name for rows in by_role.values() for name in rows))
    cells = [[name, *(points_text(interval_of(rows.get(name))) for rows in by_role.values())] for name in names]
    return Part(
        "Seats",
        lead,
        [Table("", ("agent", *by_role), cells, numbers=list(by_role))] * bool(cells),
        ratings_by(tables, "seats", "Elo points in each seat"),
        roles.get("note") or "",
    )


def protocol_part(tables: Plain) -> Part | None:
    """Ratings in each of several protocols."""
    by_protocol = {name: found.get("ratings") or () for name, found in tables.items()}
    figures = ratings_by(by_protocol, "protocols", "Elo points in each protocol")
    notes = [f"{name}: {found['note']}." for name, found in tables.items() if found.get("note")]
    return Part("By protocol", "", (), figures, " ".join(notes)) if figures or notes else None


def _rating_interval(row: Plain) -> dict[str, Any]:
    return {"value": row["elo"], "low": row["low"], "high": row["high"], "n": row["games"]}


def payoff_part(view: Plain) -> Part | None:
    """The tournament as a game: the mixture that nobody beats, and cycles that no rating can show."""
    if not view.get("nash"):
        return None
    against: Plain = view.get("ratings") or {}
    mixed = sorted(view["nash"], key=lambda name: (-real(view["nash"][name]), -real(against.get(name))))
    cells = [[name, f"{100 * real(view['nash'][name]):.1f}", real(against.get(name))] for name in mixed]
    columns = ("agent", "share, %", "score against it")
    cycles = [_cycle(row, view) for row in view.get("cycles") or ()][:_CYCLES]
    figures = []
    if cycles:
        caption = "Cycles: each beats the next, with its mean score; in grey what may be chance"
        figures = [Figure("cycles", caption, charts.cycle_chart(cycles, title="Cycles"))]
    note = "The mixture is the one of largest entropy that no agent beats (Nash averaging)."
    return Part(
        "Mixture and cycles",
        _game_told(view, mixed, cycles),
        [Table("", columns, cells[:_MOST_ROWS], numbers=columns[1:])],
        figures,
        f"{note} {view.get('note') or ''}".strip(),
    )


def _game_told(view: Plain, mixed: Sequence[str], cycles: Sequence[Cycle]) -> str:
    inside = [name for name in mixed if real(view["nash"][name]) >= 0.005]
    told = [
        f"{inside[0]} alone is beaten by nobody."
        if len(inside) == 1
        else f"A mixture of {len(inside)} agents is beaten by nobody."
        if inside
        else ""
    ]
    share = real(view.get("transitive_share"))
    if math.isfinite(share):
        told.append(
            f"Differences of ratings explain {100 * share:.0f} % of the results{_rest(view.get('p_transitive'))}."
        )
    circles = real(view.get("intransitive_share"))
    if math.isfinite(circles):
        told.append(f"{100 * circles:.0f} % of the triples of agents go round in a circle; by chance 25 % would.")
    if cycles:
        told.append(_cycles_told(cycles))
    return " ".join(filter(None, told))


def _cycles_told(cycles: Sequence[Cycle]) -> str:
    certain = sum(cycle.low > 0 for cycle in cycles)
    if not certain:
        return "Its cycles may be chance."
    if len(cycles) == 1:
        return "The interval of its one cycle lies above 0."
    return f"The intervals of {certain} of its {len(cycles)} strongest cycles lie above 0."


def _rest(p: float | None) -> str:
    """Whether what ratings leave unexplained can be chance."""
    if p is None:
        return ""
    what = "is more than chance" if p < 0.05 else "can be chance"
    return f"; what they leave {what} (p {p_text(p) if p < 0.001 else f'= {p_text(p)}'})"


def _cycle(row: Plain, view: Plain) -> Cycle:
    names = row["agents"]
    place = {name: index for index, name in enumerate(view["names"])}
    scores = [
        real(view["scores"][place[a]][place[b]]) if a in place and b in place else math.nan
        for a, b in zip(names, [*names[1:], names[0]], strict=True)
    ]
    return Cycle(names, scores, real(row["margin"]), real(row["low"]), real(row["high"]))


def rounds_part(rounds: Sequence[Sequence[Plain]]) -> Part | None:
    """Who met whom, where that depended on results."""
    if len(rounds) < 2:
        return None
    cells = [
        [number, row["first"], row["second"], f"{row['score']:g} – {row['games'] - row['score']:g}"]
        for number, played in enumerate(rounds, 1)
        for row in played
    ]
    columns = ("round", "agent", "against", "points")
    cut = f"The first {_MOST_ROWS} of {len(cells)} pairings." * (len(cells) > _MOST_ROWS)
    return Part("Rounds", "", [Table("", columns, cells[:_MOST_ROWS], cut, numbers=columns[3:])])


def online_part(online: Plain) -> Part | None:
    """Ratings that were kept up after every game, which depend on its order."""
    points: Plain = online.get("elo") or {}
    skills: Plain = online.get("openskill") or {}
    if not points and not skills:
        return None
    names = sorted({*points, *skills}, key=lambda name: -real(points.get(name, (skills.get(name) or {}).get("mu"))))
    columns = ["agent"] + ["Elo"] * bool(points) + ["openskill, mu", "sigma"] * bool(skills)
    rows = []
    for name in names[:_MOST_ROWS]:
        skill = skills.get(name) or {}
        last = [real(skill.get("mu")), real(skill.get("sigma"))] if skills else []
        rows.append([name, *([f"{real(points.get(name)):.0f}"] if points else []), *last])
    note = "Kept up after every game, in the order of play; nothing here is clustered by question."
    return Part("Online ratings", "", [Table("", columns, rows, note, numbers=columns[1:])])
