"""The HTML report of an ``arena run`` or ``arena tournament``, from nothing but its run directory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena.passes import pass_rates
from arena.protocols import Protocol
from arena.protocols.draw import to_svg
from arena.protocols.errors import StoreError, UserError
from arena.protocols.records import Episode, Task
from arena.ratings import CrossPlay, Rating, cross_play, rating_of
from arena.rejudging import Comparison, stored_comparisons
from arena.report import Arm, ReportData, Section, Table, Transcript, transcript_of, write_report
from arena.report.tournaments import analysis_parts, how_rated, mixture_of, tournament_lead
from arena.running import accuracy, stored_protocol, stored_tasks
from arena.store import RunHandle, Store
from arena.tournament import matches_of

__all__ = ["report_data", "report_run", "run_section"]

_MOST_SHOWN = 8
"""Transcripts in a report; the store has all of them."""
_MOST_AGENTS = 16
"""Agents whose specs stand at the top; the configuration below has all."""


def report_run(folder: str | Path, path: Path, *, created: str) -> Path:
    """Write the report of a stored run or tournament, finished or not.

    Args:
        folder: run directory, or the URL of a database.
        path: file to write.
        created: date and time to show.

    Raises:
        StoreError: there is no such run, or it has no episodes yet.
    """
    return write_report(path, report_data(folder, created=created))


def report_data(folder: str | Path, *, created: str) -> ReportData:
    """What that report shows.

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
    title = f"{section.title}: {run.kind}"
    return ReportData(title, lead, created, config=run.config, sections=[section])


@dataclass(frozen=True, slots=True)
class _Games:
    """Episodes of one protocol."""

    protocol: Protocol | None
    """None if it cannot be compiled any more."""
    episodes: list[Episode]


def run_section(run: RunHandle) -> Section:
    """What there is to say about a stored run.

    Raises:
        StoreError: it has no episodes yet.
    """
    games, notes = _games(run)
    episodes = [episode for each in games for episode in each.episodes]
    if not episodes:
        raise StoreError(f"{run.store.where} holds a {run.kind} without finished episodes")
    tasks = stored_tasks(run)
    stored, analysis = _latest(run, "ratings"), _latest(run, "analysis")
    ratings, anchor = [rating_of(row) for row in stored.get("ratings", ())], run.config.get("anchor")
    notes = [*notes, *filter(None, [stored.get("note")]), *(analysis.get("notes") or ())]
    beside = stored_comparisons(run.store.directory, episodes, tasks) if run.store.directory else []
    alone = games[0].protocol if len(games) == 1 else None
    return Section(
        title=str(run.config.get("tournament") or episodes[0].protocol),
        lead=tournament_lead(ratings, anchor),
        protocol=", ".join(dict.fromkeys(episode.protocol for episode in episodes)),
        graph_svg=to_svg(alone) if alone else "",
        facts=_facts(run, episodes),
        arms=[] if analysis.get("arms") else [*_own_arm(episodes, tasks), *map(_judged_by, beside)],
        ratings=ratings,
        anchor=anchor,
        rated=how_rated(run.config, ratings) if run.kind == "tournament" else "",
        cross_play=_cross_play(games, tasks, ratings),
        mixture=mixture_of(analysis),
        parts=analysis_parts(analysis, stored.get("ratings", ())),
        tables=[*_side_by_side(beside), *(table for each in games for table in _checks(each, tasks))],
        transcripts=_transcripts(run, episodes),
        notes=notes,
    )


def _latest(run: RunHandle, name: str) -> Mapping[str, Any]:
    """The last row of a series; empty where there is none."""
    rows = run.series(name)
    return rows[max(rows)] if rows else {}


def _games(run: RunHandle) -> tuple[list[_Games], list[str]]:
    """Episodes by protocol, and why a protocol cannot be drawn. Of a tournament, those that are rated."""
    several = bool(run.config.get("protocols"))
    by_part: dict[str, list[Episode]] = {}
    for stage in run.stages():
        first, _, rest = stage.partition("/")
        if run.kind == "tournament" and first != "tournament":
            continue  # arms: other protocols, with tables of their own
        by_part.setdefault(rest.partition("/")[2] if several else "", []).extend(run.episodes(stage))
    protocols, notes = _protocols(run)
    return [_Games(protocols.get(episodes[0].protocol), episodes) for episodes in by_part.values()], notes


def _protocols(run: RunHandle) -> tuple[dict[str, Protocol], list[str]]:
    """What was played, by name, and a note for each that cannot be compiled any more."""
    found, notes = {}, []
    for step in run.series("protocol") or (0,):
        try:
            protocol = stored_protocol(run, step)
        except UserError as error:
            notes.append(f"The protocol '{run.config.get('protocol') or step + 1}' cannot be drawn: {error}")
        else:
            found[protocol.name] = protocol
    return found, notes


def _cross_play(games: Sequence[_Games], tasks: Mapping[str, Task], ratings: Sequence[Rating]) -> CrossPlay | None:
    """Who did how well against whom, the best first."""
    if not ratings:
        return None
    matches = [m for each in games if each.protocol for m in matches_of(each.protocol, each.episodes, tasks)]
    return cross_play(matches, [rating.name for rating in ratings]) if matches else None


def _own_arm(episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Arm]:
    if not any(episode.verdicts for episode in episodes):
        return []
    judged = accuracy(episodes, tasks)
    return [Arm(episodes[0].protocol, judged.interval, judged.decidable, judged.undecidable)]


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


def _checks(games: _Games, tasks: Mapping[str, Task]) -> list[Table]:
    """How often the checks were passed, if there are some."""
    if games.protocol is None:
        return []
    rows = [
        [
            name,
            rate.interval,
            rate.checked,
            ", ".join(f"{n} {reason}" for reason, n in rate.unchecked.items()) or "none",
        ]
        for name, rate in pass_rates(games.protocol, games.episodes, tasks).items()
    ]
    columns = ("check", "share passed, 95 % interval", "n", "not checked")
    return [
        Table("Checks", columns, rows, "Where a check ran several times in an episode, the last time counts.")
    ] * bool(rows)


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
    if "schedule" in run.config:
        facts["schedule"] = _spec(run.config["schedule"])
    agents = list(run.config["agents"].items())
    facts |= {f"agent: {name}": _spec(spec) for name, spec in agents[:_MOST_AGENTS]}
    return facts | ({"more agents": len(agents) - _MOST_AGENTS} if len(agents) > _MOST_AGENTS else {})


def _judges(config: Mapping[str, Any]) -> str:
    """Specs of the judges: a run names them by seat; a tournament has one that decides, and perhaps others by name."""
    judges = {"*": config["judge"]} if "judge" in config else {}
    judges.update(config.get("judges") or {})
    return ", ".join(_spec(spec) if seat == "*" else f"{seat}: {_spec(spec)}" for seat, spec in judges.items())


def _spec(spec: Any) -> str:
    """A spec as one would write it."""
    if isinstance(spec, Mapping) and "kind" in spec:
        arguments = ", ".join(f"{name}={value}" for name, value in spec.items() if name != "kind")
        return f"{spec['kind']}: {arguments}" if arguments else str(spec["kind"])
    return str(spec)


def _transcripts(run: RunHandle, episodes: Sequence[Episode]) -> list[Transcript]:
    tasks = stored_tasks(run)
    shown = []
    for episode in itertools.islice(episodes, _MOST_SHOWN):
        fields = [name for name in tasks[episode.task].fields if name not in ("question", "answers")]
        shown.append(transcript_of(tasks[episode.task], episode, episode.key, fields))
    return shown
