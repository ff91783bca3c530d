"""A probe that plays: what the policies do on held-out tasks, in any protocol, with others in some of the seats.

    after: {kind: play, tasks: 300, measure: {exact: final.exact}}
    blind: {kind: play, tasks: 300, lineup: {critic: random-choice}, measure: {exact: final.exact}}
    hacked: {kind: play, protocol: claims, measure: {belief: {role: claimant, value: p}}}

A measure is an expression as the rewards of protocols have them, over ``NODE.field`` and, where a verdict is given, a
role's ``p``, ``won``, ``margin``, ``correct`` and ``score``; its value is the mean over episodes. Where a verdict is
given and tasks have labels, ``accuracy`` and ``mcc`` (Matthews 1975) of the judge come on top.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from arena.engine import Engine
from arena.judging import deciding_nodes
from arena.metrics import mcc
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.expressions import Expression
from arena.protocols.graph import Reward
from arena.protocols.records import Episode
from arena.reward_terms import OF_VERDICT, Terms
from arena.rewards import returns
from arena.running import balanced_plans
from arena.training.probes import Moment
from arena.training.recipe import Recipe

__all__ = ["PlayProbe"]


class PlayProbe:
    """See the module.

    Args:
        measure: name -> expression, or {role, value} for what a certain role gets.
        tasks: most held-out tasks.
        samples: episodes of each task (and each way to divide its answers among the seats).
        protocol: another one than is trained on.
        params: of the other protocol; of the trained one, they go over the recipe's.
        lineup: role -> agent who sits there instead of whom the recipe names.
        greedy: let the policies take the likeliest token each time.
        both: play with the first two answers exchanged between the seats as well.
        seed: of all draws; the same at each look, so that looks differ by what was learned.
    """

    def __init__(
        self,
        *,
        measure: Mapping[str, Any] | None = None,
        tasks: int = 200,
        samples: int = 1,
        protocol: str | None = None,
        params: Mapping[str, Any] | None = None,
        lineup: Mapping[str, Any] | None = None,
        greedy: bool = False,
        both: bool = True,
        seed: int = 0,
    ) -> None:
        if tasks < 1 or samples < 1:
            raise ConfigError(f"tasks={tasks} and samples={samples} of a probe must be 1 or more")
        self.measures = {name: _measure(name, value) for name, value in (measure or {}).items()}
        self.tasks, self.samples, self.greedy, self.both, self.seed = tasks, samples, greedy, both, seed
        self.protocol, self.params, self.lineup = protocol, dict(params or {}), dict(lineup or {})

    def measure(self, now: Moment) -> dict[str, float]:
        """See `arena.training.probes.Probe`.

        Raises:
            ConfigError: a measure speaks of what the protocol does not have.
        """
        protocol = self._protocol(now.world.recipe, now.protocol)
        tasks = list(now.world.tasks.test)[: self.tasks]
        by_id = {task.id: task for task in tasks}
        lineup = now.lineup(protocol.speakers, greedy=self.greedy, others=self.lineup)
        plans = balanced_plans("", protocol, tasks, lineup, both=self.both, samples=self.samples)
        episodes = Engine(protocol, now.world.judge, seed=self.seed, concurrency=1024).play(plans)
        found = {}
        for name, (role, expression) in self.measures.items():
            seat = self._seat(protocol, name, role, expression)
            paid = replace(protocol, rewards=(_as_reward(protocol, seat, expression),))
            values = [won[seat] for won in returns(paid, now.world.judge, episodes, by_id)]
            known = [value for value in values if value is not None]
            found[name] = math.fsum(known) / len(known) if known else math.nan
        return found | self._judged(protocol, episodes, {task.id: task.label for task in tasks})

    def check(self, recipe: Recipe, protocol: Protocol) -> None:
        """See `arena.training.probes.Probe`.

        Raises:
            ConfigError: a measure or a role that the protocol does not have, nothing to measure, or nobody who judges.
        """
        protocol = self._protocol(recipe, protocol)
        if not self.measures and not deciding_nodes(protocol):
            raise ConfigError(f"it measures nothing: give 'measure', since protocol '{protocol.name}' has no verdict")
        if protocol.judging_seats and recipe.judge is None:
            raise ConfigError(f"somebody judges in protocol '{protocol.name}', and the recipe has no judge")
        for name, (role, expression) in self.measures.items():
            seat = self._seat(protocol, name, role, expression)
            try:
                Terms(protocol, _as_reward(protocol, seat, expression))
            except ConfigError as error:
                raise ConfigError(f"measure '{name}': {error}") from None
        strangers = [role for role in self.lineup if not _plays(protocol, role)]
        if strangers:
            raise ConfigError(f"lineup: '{strangers[0]}' does not speak in protocol '{protocol.name}'")

    def _protocol(self, recipe: Recipe, trained: Protocol) -> Protocol:
        same = self.protocol in (None, recipe.protocol)
        if same and not self.params:
            return trained
        return load_protocol(self.protocol or recipe.protocol, {**(recipe.params if same else {}), **self.params})

    def _seat(self, protocol: Protocol, name: str, role: str | None, expression: Expression) -> str:
        """Whose value a measure is; of what is the same for all, anybody's."""
        if role is not None:
            if role not in protocol.roles:
                raise ConfigError(f"measure '{name}': '{role}' is no role of protocol '{protocol.name}'")
            return role
        own = sorted(expression.names & OF_VERDICT)
        if own and len(protocol.seats) != 1:
            raise ConfigError(
                f"measure '{name}': '{own[0]}' is a role's, and {len(protocol.seats)} argue in protocol "
                f"'{protocol.name}': write {{role: ..., value: ...}}"
            )
        return protocol.seats[0] if own else protocol.speakers[0]

    def _judged(
        self, protocol: Protocol, episodes: Sequence[Episode], labels: Mapping[str, int | None]
    ) -> dict[str, float]:
        if not deciding_nodes(protocol):
            return {}
        decided = [
            (labels[episode.task], episode.verdict)
            for episode in episodes
            if episode.verdict is not None and episode.verdict.decidable and episode.verdict.logps
        ]
        known = [(label, verdict) for label, verdict in decided if label is not None]
        if not known:
            return {}
        right = math.fsum(verdict.score(label) for label, verdict in known) / len(known)
        chosen = [(label, verdict.choice) for label, verdict in known if verdict.choice is not None]
        correlation = mcc([label for label, _ in chosen], [choice for _, choice in chosen]) if chosen else math.nan
        return {"accuracy": right, "mcc": correlation, "undecidable": 1 - len(decided) / len(episodes)}


def _measure(name: str, value: Any) -> tuple[str | None, Expression]:
    role = None
    if isinstance(value, Mapping):
        if not {"value"} <= value.keys() <= {"role", "value"}:
            raise ConfigError(f"measure '{name}' is {dict(value)}: write an expression, or {{role: ..., value: ...}}")
        role, value = value.get("role"), value["value"]
    try:
        return role, Expression(str(value))
    except ValueError as error:
        raise ConfigError(f"measure '{name}': {error}") from None


def _as_reward(protocol: Protocol, seat: str, expression: Expression) -> Reward:
    speaks = bool(expression.names & OF_VERDICT)
    nodes = deciding_nodes(protocol)
    if speaks and not nodes:
        raise ConfigError(f"protocol '{protocol.name}' gives no verdict")
    return Reward(roles=(seat,), verdict=nodes[-1] if speaks else None, values={seat: expression})


def _plays(protocol: Protocol, role: str) -> bool:
    return any(role in (seat, protocol.roles[seat].group) for seat in protocol.speakers)
