"""The HTML report of an ``arena run`` or ``arena tournament``, from nothing but its run directory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from arena.protocols import Protocol, load_protocol
from arena.protocols.draw import to_svg
from arena.protocols.errors import StoreError, UserError
from arena.protocols.records import Episode
from arena.ratings import cross_play, rating_of
from arena.report import Arm, ReportData, Section, Transcript, transcript_of, write_report
from arena.running import accuracy, stored_tasks
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
    protocol, notes = _protocol(run.config)
    stored = run.series("ratings").get(0, {})
    ratings = [rating_of(row) for row in stored.get("ratings", ())]
    if stored.get("note"):
        notes = [*notes, stored["note"]]
    matches = matches_of(protocol, episodes, tasks) if ratings and protocol else []
    arms = (
        [Arm(episodes[0].protocol, judged.interval, judged.decidable, judged.undecidable)] if _judged(episodes) else []
    )
    return Section(
        title=episodes[0].protocol,
        protocol=episodes[0].protocol,
        graph_svg=to_svg(protocol) if protocol else "",
        facts=_facts(run, episodes),
        arms=arms,
        ratings=ratings,
        anchor=run.config.get("anchor"),
        cross_play=cross_play(matches, [rating.name for rating in ratings]) if matches else None,
        transcripts=_transcripts(run, episodes),
        notes=notes,
    )


def _protocol(config: Mapping[str, Any]) -> tuple[Protocol | None, list[str]]:
    """The protocol as it is now, if it is still what was played; else a note."""
    name = config["protocol"]
    try:
        protocol = load_protocol(name, config["params"])
    except UserError as error:
        return None, [f"The protocol '{name}' cannot be drawn: {error}"]
    if protocol.fingerprint != config["protocol_fingerprint"]:
        return None, [f"The protocol '{name}' has been changed since it was played, so it is not drawn."]
    return protocol, []


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
