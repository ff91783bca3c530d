"""Renders `ReportData`: Jinja2 with everything escaped by default, charts as inline SVG."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from arena import charts
from arena.protocols.errors import StoreError
from arena.protocols.records import Turn, Verdict
from arena.ratings import Rating
from arena.report import figures
from arena.report.data import Figure, Link, Part, ReportData, Table
from arena.statistics import Interval
from arena.transcripts import shortened
from arena.whole_files import write_whole

__all__ = ["render_report", "visible", "write_report"]

_BESIDE = 5  # columns of a table that has room beside a figure
_MOST = 20_000  # characters of one text; a model that ran away must not make the page unreadable


def write_report(path: str | Path, data: ReportData) -> Path:
    """Write the page, whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    path = Path(path)
    page = render_report(data)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, lambda stream: stream.write(page))
    except OSError as error:
        raise StoreError(f"the report {path} cannot be written: {error.strerror or error}") from error
    return path


def render_report(data: ReportData) -> str:
    """The page as text."""
    return _environment().get_template("report.html.j2").render(data=data)


def visible(text: object) -> Markup:
    """Escaped text in which characters that hide or reorder others are shown by their number."""
    whole = str(text)
    cut = whole[:_MOST]
    parts = [
        Markup('<span class="hidden">U+{:04X}</span>').format(ord(piece)) if _is_hidden(piece) else escape(piece)
        for piece in _pieces(cut)
    ]
    if len(whole) > _MOST:
        parts.append(Markup('<span class="hidden">{} more characters</span>').format(len(whole) - _MOST))
    return Markup("").join(parts)


def _is_hidden(piece: str) -> bool:
    return len(piece) == 1 and charts.is_hidden(piece)


def _pieces(text: str) -> list[str]:
    """Runs of harmless text and single hidden characters."""
    pieces: list[str] = []
    start = 0
    for index, character in enumerate(text):
        if not character.isprintable() and charts.is_hidden(character):
            pieces += [text[start:index], character]
            start = index + 1
    return [piece for piece in [*pieces, text[start:]] if piece] if pieces else [text]


def _finalize(value: Any) -> Any:
    """What every ``{{ }}`` passes through: only markup made here escapes escaping."""
    if isinstance(value, Markup):
        return value
    if value is None:
        return "–"
    return visible(value)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("arena.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        percent=_percent,
        points=_points,
        cell=_cell,
        value=_value,
        said=_said,
        plain_value=_plain_value,
        chance=_chance,
        trusted=Markup,
        picture=_picture,
        rank=_rank,
        plain=_plain,
    )
    environment.globals.update(
        numeric_columns=_numeric_columns,
        probabilities=_probabilities,
        ranked=_ranked,
        is_wide=_is_wide,
        arms_figure=figures.arms_figure,
        calibration_figure=figures.calibration_figure,
        cross_play_figure=figures.cross_play_figure,
        curve_figure=figures.curve_figure,
        forest_figure=figures.forest_figure,
        ratings_figure=figures.ratings_figure,
    )
    return environment


def _plain(text: str) -> Markup:
    """For places that hold text only, such as the page's title."""
    return Markup(charts.plain(text))


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{100 * value:.1f}"


def _points(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:+.0f}".replace("-", "\N{MINUS SIGN}").replace("+0", "0")


def _numeric_columns(table: Table) -> list[bool]:
    """Which columns hold numbers, and are aligned right."""
    columns = range(len(table.columns))
    return [
        table.columns[i] in table.numbers or any(isinstance(row[i], int | float | Interval) for row in table.rows)
        for i in columns
    ]


def _cell(value: Any) -> Any:
    """A table cell: numbers short, texts as they are, links to files and nowhere else."""
    if isinstance(value, Link):
        # With one slash at most in front: two would name another machine.
        place = re.sub("^/+", "/", quote(os.fsencode(value.file)))
        return Markup('<a href="{}">{}</a>').format(place, visible(value.text))
    if isinstance(value, Interval):
        return f"{value.value:.3f} [{value.low:.3f}, {value.high:.3f}]"
    if isinstance(value, float):
        return "–" if math.isnan(value) else f"{value:.3f}".replace("-", "\N{MINUS SIGN}")
    return value


def _value(value: Any) -> Any:
    """A fact or a task field: nested values as JSON, lists of words as words."""
    if isinstance(value, Sequence) and not isinstance(value, str) and all(isinstance(item, str) for item in value):
        return "  ".join(value)
    if isinstance(value, Mapping | Sequence) and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False, indent=1, default=str)
    return value


def _chance(logp: float) -> str:
    return _percent(math.exp(logp))


def _plain_value(value: Any) -> str:
    """Something read from a turn, on one line."""
    return json.dumps(shortened(value), ensure_ascii=False, default=str)


def _said(turn: Turn) -> Markup:
    """The text of a turn with its quotes marked as verified or bad."""
    quotes = {quote.text: quote for quote in turn.quotes if quote.text}
    if not quotes:
        return visible(turn.text)
    # Longest first, so that a quote inside another does not split it.
    pattern = "|".join(re.escape(text) for text in sorted(quotes, key=len, reverse=True))
    parts = []
    for index, piece in enumerate(re.split(f"({pattern})", turn.text[:_MOST])):
        if index % 2 == 0:
            parts.append(visible(piece))
            continue
        quote = quotes[piece]
        kind, why = (
            ("good", "verified") if quote.good else ("bad", "repeated" if quote.verified else "not in the source")
        )
        parts.append(Markup('<mark class="{}" title="{}">{}</mark>').format(kind, why, visible(piece)))
    return Markup("").join(parts)


def _probabilities(verdict: Verdict, answers: Sequence[str]) -> list[tuple[str, float]]:
    """Answer and probability, in task order; empty unless the verdict can be used."""
    if not verdict.decidable or len(verdict.logps) != len(answers):
        return []
    return [(answer, math.exp(logp)) for answer, logp in zip(answers, verdict.logps, strict=True)]


def _is_wide(part: Part) -> bool:
    """Whether a table of it needs the width of the page, so that its figures stand below."""
    return any(len(table.columns) > _BESIDE for table in part.tables)


def _ranked(ratings: Sequence[Rating]) -> bool:
    """Whether ranks are known: runs of earlier versions have none."""
    return any(rating.rank for rating in ratings)


def _rank(rating: Rating) -> str:
    """The place in the table and those that the matches allow."""
    if not rating.rank_low or rating.rank_low == rating.rank_high:
        return f"{rating.rank}" if rating.rank else "–"
    return f"{rating.rank_low} – {rating.rank_high}"


def _picture(figure: Figure) -> Markup:
    """What `arena.charts` drew; its labels are escaped there."""
    return Markup(figure.svg)
