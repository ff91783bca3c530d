"""The pictures of a report, as figures with names and captions; and as files of their own."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from arena import charts
from arena.protocols.errors import ConfigError, StoreError
from arena.ratings import CrossPlay, Rating
from arena.report.data import Arm, Calibration, Curve, Figure, Forest, Section
from arena.report.values import Plain, real, signed

__all__ = [
    "MOST_IN_PICTURE",
    "Format",
    "arms_figure",
    "calibration_figure",
    "cross_play_figure",
    "curve_figure",
    "forest_figure",
    "ratings_by",
    "ratings_figure",
    "section_figures",
    "slug",
    "write_figures",
]

Format = Literal["svg", "png"]

_LONGEST = 60  # characters of a file's name

MOST_IN_PICTURE = 40
"""Rows of a picture: with more of them nobody finds a name. Tables have all."""


def section_figures(section: Section) -> list[Figure]:
    """Every picture of a section but the drawing of its protocol, in the order of the page."""
    figures = [arms_figure(section.arms)] if section.arms else []
    if section.ratings:
        figures.append(ratings_figure(section.ratings, section.anchor))
    if section.cross_play is not None:
        figures.append(cross_play_figure(section.cross_play, section.mixture))
    figures += [figure for part in section.parts for figure in part.figures]
    figures += [curve_figure(curve) for curve in section.curves]
    figures += [forest_figure(forest) for forest in section.forests]
    return figures + [calibration_figure(calibration) for calibration in section.calibrations]


def write_figures(folder: Path, sections: Sequence[Section], form: Format) -> list[Path]:
    """Write every picture of a report as a file that needs no page around it.

    Args:
        folder: made if it is missing; pictures of the same name are replaced.
        sections: of the report; where there are several, names begin with the section's title.
        form: ``svg``, or ``png`` about 1,500 pixels wide.

    Returns:
        The files, in the order of the page.

    Raises:
        ConfigError: the report has no picture, or this machine has no font for a PNG.
        MissingExtraError: what draws PNG is not installed.
        StoreError: a file cannot be written.
    """
    named = [
        (f"{slug(section.title)}-" * (len(sections) > 1) + slug(figure.name), figure)
        for section in sections
        for figure in section_figures(section)
    ]
    if not named:
        raise ConfigError("there is no picture in this report: nothing was rated, judged or measured yet")
    taken: Counter[str] = Counter()
    written = []
    for name, figure in named:
        taken[name] += 1
        path = folder / f"{name}{f'-{taken[name]}' if taken[name] > 1 else ''}.{form}"
        document = charts.standalone(figure.svg, figure.caption)
        _write(path, charts.png(document) if form == "png" else document.encode())
        written.append(path)
    return written


def slug(words: str) -> str:
    """A file name of letters, digits and hyphens, whatever the words are."""
    name = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")
    if len(name) > _LONGEST:
        name = name[:_LONGEST].rpartition("-")[0] or name[:_LONGEST]
    return name or "figure"


def arms_figure(arms: Sequence[Arm]) -> Figure:
    """Accuracy of each arm."""
    bars = [
        charts.Bar(arm.name, arm.interval.value, arm.interval.low, arm.interval.high, not arm.baseline)
        for arm in arms
        if arm.interval is not None
    ]
    picture = charts.interval_plot(bars, title="Accuracy of the verdicts with 95 % intervals", percent=True)
    return Figure("accuracy", "Share of right verdicts, 95 % intervals", picture)


def ratings_figure(ratings: Sequence[Rating], anchor: str | None) -> Figure:
    """The forest plot of a rating table."""
    shown = ratings[:MOST_IN_PICTURE]
    bars = [charts.Bar(r.name, r.elo, r.low, r.high, r.name != anchor, signed(r.elo)) for r in shown]
    picture = charts.interval_plot(bars, title="Elo points with 95 % intervals", reference=(0.0, anchor or "mean"))
    best = f", the best {len(shown)} of {len(ratings)}" * (len(shown) < len(ratings))
    return Figure("ratings", f"Elo points, 95 % intervals{best}", picture)


def ratings_by(tables: Mapping[str, Sequence[Plain]], name: str, what: str) -> list[Figure]:
    """Rating tables beside each other, if at least two have rows: the same agents by seat, by judge, by protocol.

    Args:
        tables: name -> rows as they are stored.
        name: of the file.
        what: the caption, to which the intervals are added.
    """
    groups = {group: [_rating_bar(row) for row in rows[:MOST_IN_PICTURE]] for group, rows in tables.items() if rows}
    if len(groups) < 2:
        return []
    caption = f"{what}, 95 % intervals"
    return [Figure(name, caption, charts.grouped_plot(groups, title=caption, reference=(0.0, "")))]


def _rating_bar(row: Plain) -> charts.Bar:
    return charts.Bar(row["name"], real(row["elo"]), real(row["low"]), real(row["high"]))


def cross_play_figure(table: CrossPlay, mixture: Mapping[str, float]) -> Figure:
    """Who did how well against whom, and the share of each in the mixture, if there is one."""
    names = table.names[:MOST_IN_PICTURE]
    count = len(names)
    picture = charts.heat_map(
        names,
        names,
        table.score[:count, :count].tolist(),
        title="Mean score of the row against the column",
        counts=table.games[:count, :count].tolist(),
        shares=[mixture.get(name, float("nan")) for name in names] if mixture else None,
        shares_label="mixture",
    )
    caption = "Cross-play: mean score of the row against the column"
    if mixture:
        caption += "; at the right, the mixture of agents that nobody beats"
    if count < len(table.names):
        caption += f"; the best {count} of {len(table.names)}"
    return Figure("cross-play", caption, picture)


def curve_figure(curve: Curve) -> Figure:
    """A line chart."""
    picture = charts.line_chart(
        curve.series,
        title=curve.title,
        x_label=curve.x_label,
        y_label=curve.y_label,
        y_range=curve.y_range,
        reference=curve.reference,
    )
    return Figure(curve.title, curve.title, picture)


def forest_figure(forest: Forest) -> Figure:
    """Estimates with intervals."""
    picture = charts.interval_plot(forest.bars, title=forest.title, reference=forest.reference)
    return Figure(forest.title, forest.title, picture)


def calibration_figure(found: Calibration) -> Figure:
    """A reliability diagram."""
    picture = charts.reliability_chart(found.confidence, found.accuracy, found.counts, title=found.title)
    return Figure("reliability", found.title, picture)


def _write(path: Path, data: bytes) -> None:
    """Beside the target first, so that half a picture never has its name."""
    unfinished = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            unfinished.write_bytes(data)
            os.replace(unfinished, path)
        finally:
            unfinished.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"the picture {path} cannot be written: {error.strerror or error}") from error
