"""Probes: what is measured while policies train, at the start, now and then, and at the end.

A recipe names them, and each is built from its spec:

    self_play:
      probes:
        exact: {kind: nash_conv, every: 25}

A probe looks and never touches: with it or without, training is the same bit for bit. What it finds goes to
``metrics.jsonl`` as rows of phase ``probe``, from which a study (`arena.training.study`) takes its metrics.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from arena.engine import AnyAgent
from arena.protocols import Protocol as Graph
from arena.protocols.registry import Registry

if TYPE_CHECKING:
    from arena.agents.policy import Policy
    from arena.training.league import League
    from arena.training.recipe import Recipe
    from arena.training.world import World

__all__ = ["PROBES", "Moment", "Probe"]


@dataclass(frozen=True, slots=True)
class Moment:
    """A training at one step, to be looked at."""

    world: World
    """As it is measured: its ``judge`` is the one that measures, never the one that rewards."""
    protocol: Graph
    """That is trained on."""
    policies: Mapping[str, Policy]
    """In training, as they are now."""
    league: League
    step: int
    """Optimizer steps taken in self-play."""

    def lineup(
        self, roles: Sequence[str], *, greedy: bool = False, others: Mapping[str, Any] | None = None
    ) -> dict[str, AnyAgent]:
        """Agents for roles of any protocol: the policies in training, or whoever the recipe names.

        Args:
            roles: speaking seats.
            greedy: take the likeliest token each time.
            others: role (or counted role) -> spec of the agent that sits there instead.
        """
        from arena.training.policies import policy_agent
        from arena.training.world import build_agent

        recipe, built, lineup = self.world.recipe, dict[str, AnyAgent](), dict[str, AnyAgent]()
        for role in roles:
            other = (others or {}).get(role, (others or {}).get(role.rpartition("-")[0]))
            name = recipe.policy_of(role) if other is None else None
            key = name or f"agent {other or recipe.filler_of(role)}"
            if key not in built:
                built[key] = (
                    build_agent(other or recipe.filler_of(role), self.world)
                    if name is None
                    else policy_agent(self.policies[name].id, self.policies[name], recipe.policies[name], greedy=greedy)
                )
            lineup[role] = built[key]
        return lineup


class Probe(Protocol):
    """Measures a moment of training."""

    def measure(self, now: Moment) -> Mapping[str, float]:
        """Measure -> value, NaN where there is none; the names are the same each time."""
        ...

    def check(self, recipe: Recipe, protocol: Graph) -> None:
        """Refuse a recipe that it cannot measure, and its trained protocol, before anything is built.

        Raises:
            ConfigError: why.
        """
        ...


PROBES: Registry[Probe] = Registry("probe")
"""Probes by name. A factory takes the arguments of the spec."""

PROBES.lazy("play", "arena.training.probe_play:PlayProbe", "plays held-out tasks and takes means of what was said")
PROBES.lazy(
    "nash_conv", "arena.training.probe_games:NashConvProbe", "how far policies are from an equilibrium of a game"
)
PROBES.lazy("off_uniform", "arena.training.probe_games:OffUniformProbe", "how far policies are from even shares")
