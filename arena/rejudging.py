"""Judging stored transcripts again by another judge, beside the verdicts that are there: the work of ``arena judge``.

Nothing is played and nothing that is stored is changed: the new verdicts have a store of their own, by default in the
folder ``judged`` of the run directory, where the report of the run finds them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from arena.judges import JUDGES
from arena.judges.types import AnyJudge
from arena.judging import judge_episodes, judge_node
from arena.metrics import McNemar, cohen_kappa, mcnemar, paired_permutation
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError, ResumeError, StoreError
from arena.protocols.records import Episode, Task, Verdict
from arena.records_json import read_verdict, verdict_fields
from arena.running import Accuracy, accuracy, played_games, stored_protocol, stored_tasks
from arena.store import DATABASE, Store

__all__ = ["FOLDER", "Comparison", "compare", "comparison_json", "rejudge", "stored_comparisons"]

FOLDER = "judged"
"""Where a run directory keeps the verdicts of other judges, one folder a judge."""

_BLOCK = 64
"""Episodes whose verdicts are stored together."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two judges on the same transcripts."""

    node: str
    """Judge node whose transcripts were judged."""
    names: tuple[str, str]
    """Of the judge whose verdicts the run holds, and of the new one."""
    accuracies: tuple[Accuracy, Accuracy]
    both: int
    """Transcripts on which both chose an answer."""
    agreement: float | None
    """Share of these with the same choice; None if there are none."""
    kappa: float | None
    """Cohen's."""
    test: McNemar | None
    """Whether both are right equally often; None where no task has a label."""
    p_clustered: float | None
    """The same by sign changes of whole clusters, which holds where several debates are about one question."""


def rejudge(
    folder: Path,
    spec: str,
    *,
    created: str,
    node: str | None = None,
    seed: int = 0,
    name: str | None = None,
    out: Path | None = None,
    resume: bool = False,
    on_start: Callable[[int, int], None] | None = None,
    on_batch: Callable[[Sequence[Episode]], None] | None = None,
) -> tuple[Comparison, Path]:
    """Judge what a run directory holds by another judge.

    Args:
        folder: run directory of a run or tournament, finished or not.
        spec: of the judge.
        created: time stamp to store.
        node: judge node; None takes the last that is not nested.
        seed: for judges that draw.
        name: of the folder in ``judged``; None takes the judge's own name, so that another prompt is another folder.
        out: run directory to write instead.
        resume: go on with verdicts of this judge that are there; none of them is asked for again.
        on_start: called with (episodes, episodes judged already).
        on_batch: called with episodes as they are judged.

    Returns:
        Both judges side by side, and where the verdicts are.

    Raises:
        UserError: there is no such run or judge, or the node cannot be judged again.
        ResumeError: there are verdicts already, and they are not to be gone on with, or are of another judge or run.
        LeftError: the person who judges has left; what was judged is kept.
    """
    with Store.open(folder, create=False) as source:
        run = source.run()
        protocol, tasks, episodes = stored_protocol(run), stored_tasks(run), played_games(run)
        fingerprint = run.fingerprint
    if not episodes or not tasks:
        raise ConfigError(f"{folder} holds a {run.kind} without {'tasks' if episodes else 'episodes'} to judge again")
    node = judge_node(protocol, node).name
    if name is not None and (not name or name != _slug(name) or name.startswith(".")):
        raise ConfigError(f"--name {name!r} is not the name of a folder: use letters, digits, '.', '_' and '-'")
    judge = JUDGES.build(spec, seed=seed)
    where = out or folder / FOLDER / (name or _slug(judge.name))
    identity = {
        "judge": JUDGES.identity(spec),
        "judge_fingerprint": judge.name,
        "node": node,
        "seed": seed,
        "run_fingerprint": fingerprint,
    }
    # A person's verdicts are kept one by one: whoever leaves is not asked again.
    size = 1 if getattr(judge, "interactive", False) else _BLOCK
    with Store.open(where) as store:
        if not resume and (there := _count(store)) is not None:
            raise ResumeError(
                f"{where} already holds verdicts on {there} of {len(episodes)} transcripts: add --resume to judge the "
                "others and to show them all, or choose another --name"
            )
        handle = store.begin("judge", identity, created, resume=resume)
        known = _stored(handle.series("verdicts"))
        todo = [episode for episode in episodes if episode.key not in known]
        if on_start is not None:
            on_start(len(episodes), len(episodes) - len(todo))
        step = len(known)
        for start in range(0, len(todo), size):
            block = todo[start : start + size]
            found = _judged(protocol, judge, block, tasks, node)
            handle.record("verdicts", step + start, {key: verdict_fields(verdict) for key, verdict in found.items()})
            known |= found
            if on_batch is not None:
                on_batch(block)
        handle.finish("done")
    return compare(episodes, tasks, known, node, judge.name), where


def _count(store: Store) -> int | None:
    """How many verdicts a store holds; None for one that is new."""
    try:
        return len(_stored(store.run().series("verdicts")))
    except StoreError:
        return None


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name)


def _judged(
    protocol: Protocol, judge: AnyJudge, episodes: Sequence[Episode], tasks: Mapping[str, Task], node: str
) -> dict[str, Verdict]:
    verdicts = judge_episodes(protocol, judge, episodes, tasks, node)
    return {episode.key: verdict for episode, verdict in zip(episodes, verdicts, strict=True)}


def _stored(rows: Mapping[int, Mapping[str, Any]]) -> dict[str, Verdict]:
    return {key: read_verdict(fields) for row in rows.values() for key, fields in row.items()}


def compare(
    episodes: Sequence[Episode], tasks: Mapping[str, Task], verdicts: Mapping[str, Verdict], node: str, name: str
) -> Comparison:
    """Both judges side by side.

    Args:
        episodes: with the verdicts of the first judge.
        tasks: by id.
        verdicts: episode key -> verdict of the second judge; episodes without one are left out.
        node: judge node.
        name: of the second judge.
    """
    judged = [episode for episode in episodes if episode.key in verdicts]
    first = [episode.verdicts.get(node) for episode in judged]
    second = [verdicts[episode.key] for episode in judged]
    chosen = [
        (a.choice, b.choice, tasks[episode.task])
        for episode, a, b in zip(judged, first, second, strict=True)
        if a is not None and a.choice is not None and b.choice is not None
    ]
    labelled = [(a == task.label, b == task.label, task.cluster) for a, b, task in chosen if task.label is not None]
    right = [row[0] for row in labelled], [row[1] for row in labelled]
    clusters = [row[2] for row in labelled]
    return Comparison(
        node=node,
        names=(next((verdict.judge for verdict in first if verdict is not None), "no verdict"), name),
        accuracies=(_accuracy(judged, first, tasks, node), _accuracy(judged, second, tasks, node)),
        both=len(chosen),
        agreement=sum(a == b for a, b, _ in chosen) / len(chosen) if chosen else None,
        kappa=cohen_kappa([a for a, _, _ in chosen], [b for _, b, _ in chosen]) if chosen else None,
        test=mcnemar(right[0], right[1]) if labelled else None,
        p_clustered=paired_permutation(right[0], right[1], clusters) if labelled else None,
    )


def _accuracy(
    episodes: Sequence[Episode], verdicts: Sequence[Verdict | None], tasks: Mapping[str, Task], node: str
) -> Accuracy:
    given = zip(episodes, verdicts, strict=True)
    return accuracy((replace(each, verdicts={} if v is None else {node: v}) for each, v in given), tasks)


def stored_comparisons(folder: Path, episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Comparison]:
    """What other judges said of a run, by the name of their folder; what cannot be read is passed over."""
    found = []
    for path in sorted((folder / FOLDER).glob(f"*/{DATABASE}")):
        try:
            with Store.open(path.parent, create=False) as store:
                run = store.run()
                verdicts = _stored(run.series("verdicts"))
        except StoreError:
            continue
        found.append(compare(episodes, tasks, verdicts, run.config["node"], run.config["judge_fingerprint"]))
    return found


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """As JSON values: ``original`` and ``judge`` side by side, and how they differ."""
    first, second = map(_plain, comparison.names, comparison.accuracies)
    return {
        "node": comparison.node,
        "original": first,
        "judge": second,
        "both": comparison.both,
        "agreement": comparison.agreement,
        "cohen_kappa": comparison.kappa,
        "mcnemar": None if comparison.test is None else asdict(comparison.test),
        "p_equally_accurate": comparison.p_clustered,
    }


def _plain(name: str, found: Accuracy) -> dict[str, Any]:
    interval = None if found.interval is None else asdict(found.interval)
    return {
        "judge": name,
        "accuracy": interval,
        "decidable": found.decidable,
        "ties": found.ties,
        "undecidable": dict(found.undecidable),
    }
