"""The HTML report of an ``arena run`` or ``arena tournament``, from nothing but its run directory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.passes import pass_rates
from arena.protocols import Protocol
from arena.protocols.draw import to_svg
from arena.protocols.errors import StoreError, UserError
from arena.protocols.records import Episode, Task
from arena.ratings import cross_play, rating_of
from arena.rejudging import Comparison, stored_comparisons
from arena.report import Arm, ReportData, Section, Table, Transcript, transcript_of, write_report
from arena.running import accuracy, stored_protocol, stored_tasks
from arena.store import RunHandle, Store
from arena.tournament import matches_of

__all__ = ["report_run", "run_section"]

_MOST_SHOWN = 8
"""Transcripts in a report; the store has all of them."""


def report_run(folder: Path, path: Path, *, created: str) -> Path:
    """Write the report of a stored run or tournament, finished or not.

    Args:
        folder: run directory.
        path: file to write.
        created: date and time to show.

    Raises:
        StoreError: there is no such run, or it has no episodes yet.
    """
    with Store.open(folder, create=False) as store:
        run = store.run()
        section = run_section(run)
    lead = (
        ""
        if run.status == "done"
        else f"This {run.kind} is not finished (status {run.status}); what is stored is shown."
    )
    return write_report(
        path, ReportData(f"{section.title}: {run.kind}", lead, created, config=run.config, sections=[section])
    )


def run_section(run: RunHandle) -> Section:
    """What there is to say about a stored run.

    Raises:
        StoreError: it has no episodes yet.
    """
    episodes = list(run.episodes())
    if not episodes:
        raise StoreError(f"{run.store.where} holds a {run.kind} without finished episodes")
    tasks = stored_tasks(run)
    judged = accuracy(episodes, tasks)
    protocol, notes = _protocol(run)
    stored = run.series("ratings").get(0, {})
    ratings = [rating_of(row) for row in stored.get("ratings", ())]
    if stored.get("note"):
        notes = [*notes, stored["note"]]
    matches = matches_of(protocol, episodes, tasks) if ratings and protocol else []
    arms = (
        [Arm(episodes[0].protocol, judged.interval, judged.decidable, judged.undecidable)] if _judged(episodes) else []
    )
    beside = stored_comparisons(run.store.directory, episodes, tasks) if run.store.directory else []
    return Section(
        title=episodes[0].protocol,
        protocol=episodes[0].protocol,
        graph_svg=to_svg(protocol) if protocol else "",
        facts=_facts(run, episodes),
        arms=arms + [_judged_by(comparison) for comparison in beside],
        ratings=ratings,
        anchor=run.config.get("anchor"),
        cross_play=cross_play(matches, [rating.name for rating in ratings]) if matches else None,
        tables=[*_side_by_side(beside), *(_checks(protocol, episodes, tasks) if protocol else ())],
        transcripts=_transcripts(run, episodes),
        notes=notes,
    )


def _judged_by(comparison: Comparison) -> Arm:
    found = comparison.accuracies[1]
    return Arm(f"judged by {comparison.names[1]}", found.interval, found.decidable, found.undecidable)


def _side_by_side(comparisons: Sequence[Comparison]) -> list[Table]:
    """The judge of the run and each that judged its transcripts again, if there are some."""
    rows = [
        [
            each.names[1],
            each.both,
            each.agreement,
            each.kappa,
            each.test and each.test.only_second,
            each.test and each.test.only_first,
            each.test and each.test.mid_p,
            each.p_clustered,
        ]
        for each in comparisons
    ]
    columns = ("judge", "both chose", "same choice", "kappa", "only it", "only the run's", "mid-p", "p by cluster")
    own = ", ".join(dict.fromkeys(each.names[0] for each in comparisons))
    note = (
        f"Beside {own}, whose verdicts are those of the run. Kappa is Cohen's. Then how often only one of the two was "
        "right, and two p-values of the hypothesis that both are right equally often: McNemar's mid-p, and one that "
        "exchanges the debates of a question together, as they are not independent."
    )
    return [Table("Judges side by side", columns, rows, note)] * bool(rows)


def _protocol(run: RunHandle) -> tuple[Protocol | None, list[str]]:
    """The protocol as it was played, or a note why there is none."""
    try:
        return stored_protocol(run), []
    except UserError as error:
        return None, [f"The protocol '{run.config['protocol']}' cannot be drawn: {error}"]


def _checks(protocol: Protocol, episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Table]:
    """How often the checks were passed, if there are some."""
    rows = [
        [
            name,
            rate.interval,
            rate.checked,
            ", ".join(f"{n} {reason}" for reason, n in rate.unchecked.items()) or "none",
        ]
        for name, rate in pass_rates(protocol, episodes, tasks).items()
    ]
    columns = ("check", "share passed, 95 % interval", "n", "not checked")
    return [
        Table("Checks", columns, rows, "Where a check ran several times in an episode, the last time counts.")
    ] * bool(rows)


def _judged(episodes: Sequence[Episode]) -> bool:
    return any(episode.verdicts for episode in episodes)


def _facts(run: RunHandle, episodes: Sequence[Episode]) -> dict[str, Any]:
    statuses = Counter(str(turn.status) for episode in episodes for turn in episode.turns)
    stops = Counter(episode.stop for episode in episodes)
    quotes = [quote for episode in episodes for turn in episode.turns for quote in turn.quotes]
    facts: dict[str, Any] = {
        "begun": run.created,
        "seed": run.config["seed"],
        "tasks": str(run.config["tasks"]),
        "judge": _judges(run.config),
        "episodes": len(episodes),
        "failed episodes": sum(episode.error is not None for episode in episodes),
        "turns": ", ".join(f"{count} {status}" for status, count in statuses.items()),
    }
    if not facts["judge"]:
        del facts["judge"]
    if stops.keys() != {"end"}:
        facts["stopped by"] = ", ".join(f"{count} {reason}" for reason, count in stops.items())
    if quotes:
        facts["good quotes"] = f"{sum(quote.good for quote in quotes)} of {len(quotes)}"
    return facts | {f"agent: {name}": str(spec) for name, spec in run.config["agents"].items()}


def _judges(config: Mapping[str, Any]) -> str:
    """Specs of the judges: a run names them by seat, a tournament has one for all."""
    judges: Mapping[str, Any] = config["judges"] if "judges" in config else {"*": config["judge"]}
    return ", ".join(str(spec) if seat == "*" else f"{seat}: {spec}" for seat, spec in judges.items())


def _transcripts(run: RunHandle, episodes: Sequence[Episode]) -> list[Transcript]:
    tasks = stored_tasks(run)
    shown = []
    for episode in itertools.islice(episodes, _MOST_SHOWN):
        fields = [name for name in tasks[episode.task].fields if name not in ("question", "answers")]
        shown.append(transcript_of(tasks[episode.task], episode, episode.key, fields))
    return shown
