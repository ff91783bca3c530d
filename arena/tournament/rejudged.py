"""The same transcripts before other judges: what each of them makes of a tournament's games."""

from __future__ import annotations

from collections.abc import Mapping

from arena.judging import judge_episodes, judge_node
from arena.protocols.errors import LeftError
from arena.protocols.records import Episode, Verdict
from arena.records_json import read_verdict, verdict_fields
from arena.store import RunHandle
from arena.tournament.live import Live, Watcher
from arena.tournament.rounds import Played
from arena.tournament.world import World

__all__ = ["judge_again", "series_of", "stored_verdicts"]

_BLOCK = 64
"""Transcripts whose verdicts are stored together."""


def series_of(judge: str) -> str:
    """Name of the series that holds the verdicts of a further judge."""
    return f"judged/{judge}"


def stored_verdicts(run: RunHandle, judge: str) -> dict[str, Verdict]:
    """Game -> what a further judge said of it, as far as it was asked."""
    rows = run.series(series_of(judge))
    return {key: read_verdict(fields) for row in rows.values() for key, fields in row.items()}


def judge_again(
    world: World, run: RunHandle, played: Played, live: Live, watch: Watcher
) -> dict[str, Mapping[str, Verdict]]:
    """Ask every further judge about all rated games; what was asked before is not asked again.

    Returns:
        Judge -> game -> verdict.

    Raises:
        LeftError: the person who judges has left; what was judged is kept.
    """
    return {name: _judge(name, world, run, played, live, watch) for name in world.judges}


def _judge(
    name: str, world: World, run: RunHandle, played: Played, live: Live, watch: Watcher
) -> Mapping[str, Verdict]:
    known, judge, tasks = stored_verdicts(run, name), world.judges[name], world.by_id
    todo: list[tuple[str, Episode]] = [
        (part, episode)
        for part, episodes in played.episodes.items()
        for episode in episodes
        if episode.key not in known
    ]
    live.stage, live.total, live.done, live.open_end = f"judge {name}", len(known) + len(todo), len(known), False
    watch(live)
    step = max(run.series(series_of(name)), default=-1) + 1
    for part, protocol in world.protocols.items():
        own = [episode for which, episode in todo if which == part]
        node = judge_node(protocol, None).name
        # A person's verdicts are kept one by one: whoever leaves is not asked again.
        size = 1 if getattr(judge, "interactive", False) else _BLOCK
        for start in range(0, len(own), size):
            block = own[start : start + size]
            try:
                verdicts = judge_episodes(protocol, judge, block, tasks, node)
            except LeftError as error:
                left = f"{live.total - live.done} of {live.total} games not judged by '{name}'"
                told = f"The tournament was stopped ({error}) with {left}. Go on by --resume --out {run.store.where}."
                raise LeftError(told) from None
            found = {episode.key: verdict for episode, verdict in zip(block, verdicts, strict=True)}
            run.record(series_of(name), step, {key: verdict_fields(verdict) for key, verdict in found.items()})
            step += 1
            known |= found
            live.done += len(block)
            watch(live)
    return known
