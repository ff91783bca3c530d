"""What a tournament says about truth and judges, from its stored series ``analysis``: one `Part` a question.

Every function takes values of that series, as `arena.tournament` stores them, and gives a part or none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from arena import charts
from arena.report.data import Figure, Part, Table
from arena.report.figures import MOST_IN_PICTURE, ratings_by
from arena.report.values import Plain, bar_of, interval_of, p_text, percent_text, points_text, real, signed
from arena.statistics import Interval

__all__ = ["arms_part", "calibration_part", "covariate_part", "honesty_part", "judges_part"]

_ENDS = {"blind": -1, "oracle": 1}
"""Arms between which the others lie."""


def arms_part(arms: Sequence[Plain], gaps: Sequence[Plain], compared: Sequence[Plain]) -> Part | None:
    """Judge accuracy with each kind of help, and how much of the gap between none and all of it was closed."""
    if not arms:
        return None
    arms = sorted(arms, key=lambda row: _ENDS.get(row["arm"], 0))
    by_arm = {row["arm"]: row for row in gaps}
    columns = ["arm", "accuracy, %", "tokens a verdict", "undecidable, %"] + ["gap recovered, %"] * bool(gaps)
    cells = [
        [
            row["arm"],
            percent_text(interval_of(row["accuracy"])),
            _rounded(row.get("tokens")),
            _share(row.get("undecidable")),
            *([_gap_text(by_arm.get(row["arm"]))] if gaps else []),
        ]
        for row in arms
    ]
    bars = [bar_of(row["arm"], row["accuracy"], row["arm"] not in _ENDS) for row in arms]
    caption = "Share of right verdicts, 95 % intervals"
    figures = [Figure("accuracy", caption, charts.interval_plot(bars, title=caption, percent=True))]
    if gaps:
        figures.append(_gap_figure(gaps))
    notes = [f"{row['arm']}: {row['note']}." for row in gaps if row.get("note")]
    tables = [Table("", columns, cells, numbers=columns[1:]), *_arms_compared(compared)]
    return Part("Accuracy of the verdicts", "", tables, figures, " ".join(notes))


def _arms_compared(rows: Sequence[Plain]) -> list[Table]:
    """Arms on the same questions; what took more tokens is no fair comparison, and is marked."""
    cells = [
        [
            row["first"],
            row["second"],
            percent_text(interval_of(row["difference"])),
            p_text(row.get("p")),
            p_text(row.get("p_adjusted")),
            "yes" if row.get("same_tokens") else "no",
        ]
        for row in rows
    ]
    columns = ("arm", "against", "ahead by, %", "p", "p, corrected", "equal tokens")
    return [Table("", columns, cells, numbers=columns[2:5])] * bool(cells)


def _gap_figure(gaps: Sequence[Plain]) -> Figure:
    caption = "Performance gap recovered: from the judge alone (0 %) to the judge with the evidence (100 %)"
    ends = [v for row in gaps for v in (real(row["value"]), real(row["low"]), real(row["high"])) if math.isfinite(v)]
    # An interval may reach very far where the gap is small; an arrow says that it does.
    x_range = (max(-1.0, min(0.0, *ends)), min(2.0, max(1.0, *ends)) + 0.05) if ends else None
    bars = [bar_of(row["arm"], row) for row in gaps]
    picture = charts.bar_chart(bars, title=caption, percent=True, reference=(1.0, "all evidence"), x_range=x_range)
    return Figure("gap-recovered", caption, picture)


def _gap_text(row: Plain | None) -> str:
    return "–" if row is None or row["value"] is None else percent_text(interval_of(row))


def honesty_part(agents: Sequence[Plain], correlation: Plain | None, honesty: Plain) -> Part | None:
    """How often each agent wins with the right answer, and with the wrong one."""
    if not agents:
        return None
    columns = ("agent", "wins arguing the right answer, %", "the wrong one, %", "judge right in its games, %")
    cells = [
        [row["agent"], *(percent_text(interval_of(row[key])) for key in ("right", "wrong", "accuracy"))]
        for row in agents
    ]
    shown = agents[:MOST_IN_PICTURE]
    groups = {f"{key} answer": [bar_of(row["agent"], row[key]) for row in shown] for key in ("right", "wrong")}
    caption = "Games won by who argued the right and the wrong answer, 95 % intervals"
    picture = charts.grouped_plot(groups, title=caption, percent=True, reference=(0.5, "even"))
    won, found = interval_of(honesty.get("honest")), interval_of(correlation)
    lead = []
    if math.isfinite(won.value):
        lead.append(f"Who argued the right answer won {percent_text(won)} % of the games.")
    if math.isfinite(found.value):
        lead.append(
            "Over agents, how often one wins and how often the judge is right in its games go together with "
            f"r = {_effect_text(found)}."
        )
    return Part(
        "Persuasion and truth",
        " ".join(lead),
        [Table("", columns, cells, numbers=columns[1:])],
        [Figure("honesty", caption, picture)],
    )


def judges_part(rows: Sequence[Plain]) -> Part | None:
    """The same transcripts under several judges."""
    if not rows:
        return None
    columns = ("judge", "accuracy, %", "undecidable, %", "ahead of the first, %", "McNemar's p", "p by question")
    cells = [
        [
            row["judge"],
            percent_text(interval_of(row["accuracy"])),
            _share(row.get("undecidable")),
            percent_text(_behind(row.get("difference"))),
            p_text(row.get("mcnemar_p")),
            p_text(row.get("p_adjusted")),
        ]
        for row in rows
    ]
    tables = {row["judge"]: row.get("ratings") or () for row in rows}
    figures = ratings_by(tables, "judges", "Elo points under each judge")
    note = (
        "The first judge decided the games, the others read the same transcripts. Both p-values are of equal accuracy; "
        "the second exchanges all games of a question together and is corrected for the number of judges."
    )
    return Part("Under other judges", "", [Table("", columns, cells, numbers=columns[1:])], figures, note)


def _behind(row: Plain | None) -> Interval:
    """The difference the other way round: stored is the first judge minus this one."""
    found = interval_of(row)
    return Interval(-found.value, -found.high, -found.low, found.n)


def calibration_part(bins: Sequence[Plain]) -> Part | None:
    """What the judge claimed and what came true."""
    if not bins:
        return None
    caption = "Stated confidence and share right; a dot's area is how many verdicts it stands for"
    picture = charts.reliability_chart(
        [each["confidence"] for each in bins],
        [each["accuracy"] for each in bins],
        [each["count"] for each in bins],
        title=caption,
    )
    return Part("Calibration of the judge", "", (), [Figure("reliability", caption, picture)])


def covariate_part(found: Plain, ratings: Sequence[Plain]) -> Part | None:
    """What properties of the speeches are worth by themselves, and the ratings without them."""
    if not found.get("names"):
        return None
    pairs = list(zip(found["names"], found["coefficients"], strict=True))
    columns = ("property", "effect, Elo")
    cells = [[name, points_text(interval_of(row))] for name, row in pairs]
    caption = "Elo points that having more of it is worth, 95 % intervals; in grey what may be chance"
    bars = [bar_of(name, row, not _may_be_nought(row), signed(real((row or {}).get("value")))) for name, row in pairs]
    picture = charts.interval_plot(bars, title=caption, reference=(0.0, "none"))
    freed = {"as played": ratings, "without these properties": found.get("ratings") or ()}
    return Part(
        "Ratings without style",
        "",
        [Table("", columns, cells, numbers=columns[1:])],
        [Figure("style", caption, picture), *ratings_by(freed, "without-style", "Elo points")],
        found.get("note", ""),
    )


def _may_be_nought(row: Plain) -> bool:
    found = interval_of(row)
    return found.low <= 0 <= found.high


def _effect_text(found: Interval) -> str:
    known = math.isfinite(found.low) and math.isfinite(found.high)
    return _effect(found.value) + (f" [{_effect(found.low)}, {_effect(found.high)}]" if known else "")


def _effect(value: float) -> str:
    return f"{value:+.2f}".replace("-", "\N{MINUS SIGN}") if math.isfinite(value) else "–"


def _rounded(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"
