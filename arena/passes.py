"""How often what was said passed the checks of a protocol: what comes of a run beside its verdicts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task, Turn
from arena.statistics import Interval, clustered_proportion

__all__ = ["PassRate", "pass_at_k", "pass_hat_k", "pass_rates"]


@dataclass(frozen=True, slots=True)
class PassRate:
    """How many episodes passed a check; where it ran several times in an episode, the last time counts."""

    interval: Interval | None
    """Share that passed, with its 95 % interval clustered by task; None where nothing could be checked."""
    checked: int
    """Checks that came to an end."""
    unchecked: Mapping[str, int]
    """Reason -> count of those that did not: the status of the turn, or ``episode failed`` where there is none."""


@dataclass(slots=True)
class _Found:
    scores: list[float] = field(default_factory=list)
    clusters: list[str] = field(default_factory=list)
    unchecked: Counter[str] = field(default_factory=Counter)


def pass_rates(protocol: Protocol, episodes: Iterable[Episode], tasks: Mapping[str, Task]) -> dict[str, PassRate]:
    """Check -> how often it was passed, in file order; the checks of a group of nodes count together."""
    checks = {node.name: node.group for node in protocol.nodes.values() if node.kind == "verify"}
    found: defaultdict[str, _Found] = defaultdict(_Found)
    for episode in episodes:
        last = {turn.node: turn for turn in episode.turns if turn.node in checks and turn.kept}
        for node, group in checks.items():
            _count(found[group], last.get(node), episode, tasks[episode.task])
    return {group: _rate(found[group]) for group in dict.fromkeys(checks.values())}


def _count(found: _Found, turn: Turn | None, episode: Episode, task: Task) -> None:
    passed = turn.fields.get("passed") if turn is not None else None
    if passed is not None:
        found.scores.append(float(passed))
        found.clusters.append(task.cluster)
    elif turn is not None:
        found.unchecked[str(turn.status)] += 1
    elif episode.error is not None:
        found.unchecked["episode failed"] += 1


def _rate(found: _Found) -> PassRate:
    interval = clustered_proportion(found.scores, found.clusters) if found.scores else None
    return PassRate(interval, len(found.scores), dict(sorted(found.unchecked.items())))


def pass_at_k(n: int, c: int, k: int) -> float:
    """Chance that one of k samples passes, unbiased from c passes in n samples: Chen et al. 2021 (2107.03374) eq. 1.

    Raises:
        ConfigError: not 0 <= c <= n and 1 <= k <= n.
    """
    _check_counts(n, c, k)
    # A product instead of binomials, which overflow.
    return 1.0 - math.prod(max(n - c - i, 0) / (n - i) for i in range(k))


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Chance that all of k samples pass, unbiased from c passes in n samples: Yao et al. 2024 (2406.12045).

    Raises:
        ConfigError: not 0 <= c <= n and 1 <= k <= n.
    """
    _check_counts(n, c, k)
    return math.prod(max(c - i, 0) / (n - i) for i in range(k))


def _check_counts(n: int, c: int, k: int) -> None:
    if not (0 <= c <= n and 1 <= k <= n):
        raise ConfigError(f"{c} passes of {n} samples, {k} at a time: there must be 0 <= passes <= samples, and enough")
