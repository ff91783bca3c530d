"""The gate: whether a generation is better than the champion, by a sequential test on games that nobody trains on.

Each task is a pair of games: the same sides, the seats exchanged. The judge that measures decides. The test
(`arena.decisions.Sprt`) looks after every batch and stops as soon as it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from arena.agents.types import Agent
from arena.decisions import Sprt, sprt_pairs
from arena.engine import Engine
from arena.protocols import Protocol
from arena.protocols.records import Task
from arena.seeds import derive_seed
from arena.tournament import check_pairing, entered, matches_of, pairing_plans
from arena.training.selfplay_config import GateConfig
from arena.training.world import World

__all__ = ["Gate", "GateResult"]


@dataclass(frozen=True, slots=True)
class GateResult:
    """How a test ended."""

    champion: str
    challenger: str
    promoted: bool
    """Whether the test decided for the challenger; undecided at the end of the tasks is no promotion."""
    decision: str | None
    """``H0``, ``H1``, or None where the tasks ran out."""
    pairs: int
    """Complete pairs of games that were looked at."""
    llr: float
    """Log-likelihood ratio at the end."""
    score: float
    """Mean score of the challenger, ties one half; NaN without a decided pair."""

    def row(self) -> dict[str, Any]:
        """For the metrics."""
        names = ("champion", "challenger", "promoted", "decision", "pairs", "llr")
        return {**{name: getattr(self, name) for name in names}, "score": None if self.pairs == 0 else self.score}


class Gate:
    """Tests challengers.

    Args:
        config: see `GateConfig`.
        protocol: that is trained on.
        world: whose measuring judge decides.
        tasks: to play on.

    Raises:
        ConfigError: two agents cannot meet in the protocol.
    """

    def __init__(self, config: GateConfig, protocol: Protocol, world: World, tasks: Sequence[Task]) -> None:
        check_pairing(protocol)
        self.config = config
        self.protocol = protocol
        self.world = world.measuring()
        self.tasks = list(tasks)

    def test(self, champion: str, challenger: str, lineups: Mapping[str, Mapping[str, Agent]]) -> GateResult:
        """Let them play until one hypothesis is accepted or the tasks are used up.

        Args:
            champion: name.
            challenger: name.
            lineups: of both, seat -> agent.
        """
        config = self.config
        test = Sprt(config.elo0, config.elo1, alpha=config.alpha, beta=config.beta)
        named = {name: entered(name, lineups[name]) for name in (champion, challenger)}
        plans = pairing_plans(self.protocol, self.tasks, champion, challenger, named)
        seed = derive_seed(self.world.seed, "gate", challenger)
        by_id = {task.id: task for task in self.tasks}
        points: list[float] = []
        for at in range(0, len(plans), 2 * config.batch):
            # Sides alternate from task to task within `pairing_plans`; both games of a task stand side by side.
            engine = Engine(self.protocol, self.world.judge, seed=seed, concurrency=1024)
            episodes = engine.play(plans[at : at + 2 * config.batch])
            new = sprt_pairs(matches_of(self.protocol, episodes, by_id), champion, challenger)
            points += new
            if any(test.update(point) is not None for point in new):
                break
        score = sum(points) / (2 * len(points)) if points else float("nan")
        return GateResult(
            champion, challenger, test.decision == "H1", test.decision, len(points), float(test.llr), score
        )
