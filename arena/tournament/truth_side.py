"""The truth side of a tournament: parts of its analysis that need labels, or other judges of the same transcripts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from arena.decisions import compare_scores
from arena.metrics import reliability
from arena.protocols.records import Episode, Verdict
from arena.running import Accuracy, accuracy
from arena.seeds import derive_seed
from arena.tournament.material import Material, plain_interval
from arena.tournament.pairing import decided
from arena.tournament.standings import rate
from arena.tournament.world import World
from arena.truth import arm_result, compare_arms, gaps_recovered, honesty, persuasion

__all__ = ["arms_of", "calibration_of", "judges_of", "truth_of"]


def arms_of(material: Material) -> dict[str, Any]:
    """Judge accuracy by arm, the games of the tournament on the same tasks among them; every pair of arms; and the
    performance gap recovered."""
    tasks = {task.id: task for task in material.world.tasks}
    if all(task.label is None for task in tasks.values()):
        return {}
    groups = {
        name if name not in material.arms.rows else f"{name} (tournament)": episodes
        for name, episodes in (
            (part or material.world.protocols[part].name, [each for each in games if each.task in tasks])
            for part, games in material.played.episodes.items()
        )
    } | material.arms.rows
    results = [arm_result(name, episodes, tasks) for name, episodes in groups.items() if episodes]
    rows = [
        {
            "arm": each.arm,
            "accuracy": plain_interval(each.accuracy),
            "tokens": each.tokens,
            "undecidable": each.undecidable,
        }
        for each in results
    ]
    found: dict[str, Any] = {"arms": rows}
    if len(groups) > 1:
        config = material.world.config
        seed = derive_seed(config.seed, "arms")
        found["arms_compared"] = [
            asdict(each) | {"difference": plain_interval(each.difference)}
            for each in compare_arms(groups, tasks, method=config.correction, seed=seed)
        ]
    if {"blind", "oracle"} <= material.arms.rows.keys():
        found["gap_recovered"] = [asdict(gap) for gap in gaps_recovered(groups, tasks)]
    return found


def truth_of(material: Material) -> dict[str, Any]:
    """Whether agents that persuade inform the judge, and how often honesty wins."""
    world, tasks = material.world, material.world.by_id
    if all(task.label is None for task in tasks.values()):
        return {}
    seats = next(iter(world.protocols.values())).seats
    alike = [part for part, protocol in world.protocols.items() if protocol.seats == seats]
    episodes = [episode for part in alike for episode in material.played.episodes[part]]
    if not episodes:
        return {}
    found, share = persuasion(episodes, tasks, seats), honesty(episodes, tasks, seats)
    return {
        "truth": [
            {
                "agent": each.agent,
                "right": plain_interval(each.right),
                "wrong": plain_interval(each.wrong),
                "accuracy": plain_interval(each.accuracy),
            }
            for each in found.agents
        ],
        "persuasion_correlation": plain_interval(found.correlation),
        "honesty": {"honest": plain_interval(share.honest), "dishonest": plain_interval(share.dishonest)},
    }


def judges_of(material: Material) -> dict[str, Any]:
    """The deciding judge and each further one on the same transcripts."""
    if not material.judged:
        return {}
    world, episodes = material.world, material.played.all
    own = {episode.key: episode.verdict for episode in episodes if episode.verdict is not None}
    verdicts: dict[str, Mapping[str, Verdict]] = {world.judge.name: own, **material.judged}
    scores = {name: _right(episodes, given, world) for name, given in verdicts.items()}
    clusters: dict[Hashable, Hashable] = {episode.key: world.by_id[episode.task].cluster for episode in episodes}
    tests = {
        test.second: test
        for test in compare_scores(scores, clusters, method=world.config.correction)
        if test.first == world.judge.name
    }
    rows = []
    for name, given in verdicts.items():
        matches = [
            match
            for part, protocol in world.protocols.items()
            for _, match in decided(protocol, material.played.episodes[part], world.by_id, given)
        ]
        test, (ratings, note) = tests.get(name), rate(matches, material.how)
        measured = _accuracy(episodes, given, world)
        undecidable = sum(measured.undecidable.values())
        rows.append(
            {
                "judge": name,
                "accuracy": plain_interval(measured.interval),
                "undecidable": undecidable / max(1, undecidable + measured.decidable),
                "ratings": [asdict(rating) for rating in ratings],
                "note": note,
                "mcnemar_p": None if test is None or test.mcnemar is None else test.mcnemar.mid_p,
                "p": None if test is None else test.p,
                "p_adjusted": None if test is None else test.p_adjusted,
                "difference": None if test is None else plain_interval(test.difference),
            }
        )
    return {"judges": rows}


def _right(episodes: Sequence[Episode], verdicts: Mapping[str, Verdict], world: World) -> dict[Any, float]:
    """Game -> whether its verdict is the label, where a verdict chose and there is a label."""
    found = {}
    for episode in episodes:
        label, verdict = world.by_id[episode.task].label, verdicts.get(episode.key)
        if label is not None and verdict is not None and verdict.choice is not None:
            found[episode.key] = float(verdict.choice == label)
    return found


def _accuracy(episodes: Sequence[Episode], verdicts: Mapping[str, Verdict], world: World) -> Accuracy:
    told = (
        replace(episode, verdicts={"verdict": verdicts[episode.key]} if episode.key in verdicts else {})
        for episode in episodes
    )
    return accuracy(told, world.by_id)


def calibration_of(material: Material) -> dict[str, Any]:
    """What the deciding judge claimed, and how often it was right, by confidence."""
    confidence, right = [], []
    for episode in material.played.all:
        label, verdict = material.world.by_id[episode.task].label, episode.verdict
        if label is not None and verdict is not None and verdict.decidable and verdict.logps:
            confidence.append(min(1.0, math.exp(max(verdict.logps))))
            right.append(verdict.score(label))
    return {"calibration": [asdict(each) for each in reliability(confidence, right)]} if confidence else {}
