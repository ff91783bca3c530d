"""What a report shows, as plain values; every part may be absent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arena.charts import Bar, Series
from arena.protocols.records import Episode, Task, Turn, Verdict
from arena.ratings import CrossPlay, Rating
from arena.statistics import Interval

__all__ = [
    "Arm",
    "Calibration",
    "Curve",
    "Figure",
    "Forest",
    "Link",
    "Part",
    "ReportData",
    "Section",
    "Table",
    "Transcript",
    "transcript_of",
]


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of answering the same questions: a debate, a consultancy, the judge alone."""

    name: str
    interval: Interval | None
    """Accuracy of the verdicts; None where nothing could be decided."""
    decidable: int | None = None
    """Verdicts that could be used; None: the n of the interval."""
    undecidable: Mapping[str, int] = field(default_factory=dict)
    """Reason -> count of the verdicts that could not be used."""
    baseline: bool = False
    """Drawn in grey: it is there to compare with."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One line chart."""

    title: str
    series: Sequence[Series]
    x_label: str = "step"
    y_label: str = ""
    y_range: tuple[float, float] | None = None
    reference: tuple[float, str] | None = None
    """A horizontal line and its label, such as a KL target."""


@dataclass(frozen=True, slots=True)
class Forest:
    """Estimates with intervals, one below the other."""

    title: str
    bars: Sequence[Bar]
    reference: tuple[float, str] | None = None
    """A vertical line and its label, such as no effect."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """A reliability diagram: one entry a bin in each of the three."""

    title: str
    confidence: Sequence[float]
    accuracy: Sequence[float]
    counts: Sequence[int]


@dataclass(frozen=True, slots=True)
class Link:
    """A cell of a table that leads to another file."""

    text: str
    file: str
    """Path of the file, seen from the page's own folder."""


@dataclass(frozen=True, slots=True)
class Table:
    """Any other table: numbers are aligned right, texts left."""

    title: str
    """Empty for a table under another heading."""
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Cells: texts, ints, floats (three digits), `Interval`, `Link` or None."""
    note: str = ""
    numbers: Collection[str] = ()
    """Columns of texts that are numbers, and stand to the right too."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture that is drawn already."""

    name: str
    """What its file is called, without the ending."""
    caption: str
    svg: str
    """What a function of `arena.charts` returned: *trusted* markup, with its labels escaped."""


@dataclass(frozen=True, slots=True)
class Part:
    """One finding of a section: its words, then tables and figures beside each other."""

    title: str
    lead: str = ""
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Transcript:
    """One debate to read."""

    question: str
    answers: Sequence[str]
    label: int | None
    """Index of the right answer; None where nobody knows."""
    turns: Sequence[Turn]
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Judge node -> verdict."""
    title: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Other task fields to show, such as the evidence."""
    error: str | None = None
    stop: str = "end"
    """Why the episode stopped."""
    inner_verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Of nested protocols, on answers of their own."""


@dataclass(frozen=True, slots=True)
class Section:
    """One game, or one run of a protocol."""

    title: str
    lead: str = ""
    """One paragraph: what was done and what came of it."""
    protocol: str = ""
    graph_svg: str = ""
    """The drawing of the protocol: *trusted* markup from `arena.protocols.draw`, as figures are from `arena.charts`."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Name -> value, shown as a list."""
    arms: Sequence[Arm] = ()
    ratings: Sequence[Rating] = ()
    anchor: str | None = None
    """The agent at 0 points, if any."""
    cross_play: CrossPlay | None = None
    curves: Sequence[Curve] = ()
    tables: Sequence[Table] = ()
    transcripts: Sequence[Transcript] = ()
    notes: Sequence[str] = ()
    forests: Sequence[Forest] = ()
    calibrations: Sequence[Calibration] = ()
    parts: Sequence[Part] = ()
    """Further findings, shown after the ratings."""
    rated: str = ""
    """How the ratings and their intervals were made."""
    mixture: Mapping[str, float] = field(default_factory=dict)
    """Agent -> its share of a mixture of them all, drawn beside the cross-play."""


@dataclass(frozen=True, slots=True)
class ReportData:
    """A whole report."""

    title: str
    lead: str = ""
    date: str = ""
    """Passed in, so that the same run gives the same page."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Seed, versions, machine, command."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """The whole configuration; shown folded."""
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()


def transcript_of(task: Task, episode: Episode, title: str = "", fields: Sequence[str] = ()) -> Transcript:
    """The transcript of an episode.

    Args:
        task: its task, with label.
        episode: what was played.
        title: heading; empty takes the task's id.
        fields: task fields to show beside question and answers.
    """
    return Transcript(
        question=task.question,
        answers=task.answers,
        label=task.label,
        turns=episode.turns,
        verdicts=episode.verdicts,
        inner_verdicts=episode.inner_verdicts,
        title=title or task.id,
        fields={name: task.fields[name] for name in fields if name in task.fields},
        error=episode.error,
        stop=episode.stop,
    )
