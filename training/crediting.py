"""Credit: from what turns were paid to advantages, by the rule of each role (`CreditConfig`).

Where a rule asks a critic (``estimator: gae``), each token has an advantage of its own: see `arena.training.streams`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from arena.protocols.records import Episode
from arena.rewards import Payoff
from arena.training.advantages import credit, group_advantages
from arena.training.returns import RoleBaseline
from arena.training.selfplay_config import CreditConfig, CreditRule
from arena.training.sequences import TrainingSequence
from arena.training.streams import assign_by_critic

__all__ = ["Crediting", "PaidTurn", "Place", "paid_turns"]

Place: TypeAlias = tuple[str, str, int]
"""Episode key, role, and which turn of the role it is: what `arena.training.advantages.assign_advantages` asks for."""


@dataclass(frozen=True, slots=True)
class PaidTurn:
    """A turn of a role in training, and what it was paid."""

    place: Place
    role: str
    reward: float
    facts: Mapping[str, Hashable]
    """By name: what a `CreditRule.key` can ask for, but for the prompt."""
    final: float = 0.0
    """The part of the reward that is a value at the end, which each turn of the role is paid."""
    side: bool = False
    """A side branch, from which the role's stream did not go on."""


def paid_turns(
    episodes: Sequence[Episode],
    payoffs: Sequence[Payoff],
    groups: Sequence[int],
    sides: Sequence[frozenset[str]],
    seats: Sequence[str],
    claims: Collection[str] = (),
) -> list[PaidTurn]:
    """The turns that were paid, episode after episode.

    Args:
        episodes: of one step.
        payoffs: of each.
        groups: number of the group of each episode.
        sides: roles of each episode that are in training.
        seats: the arguing roles, in the order of `Episode.sides`.
        claims: nodes whose turns choose what their speaker argues. Compared with equal choices only, a choice would
            never be better or worse than another: these turns argue no answer yet.
    """
    numbers = {role: number for number, role in enumerate(seats)}
    found = []
    for episode, payoff, group, side in zip(episodes, payoffs, groups, sides, strict=True):
        ordinals: dict[str, int] = {}
        final = payoff.final or [0.0] * len(payoff.rewards)
        for turn, reward, last in zip(episode.turns, payoff.rewards, final, strict=True):
            # Not compared by ordinal: after an attempt more, or on another branch, it counts other moves.
            ordinal = ordinals[turn.role] = ordinals.get(turn.role, -1) + 1
            if reward is None or turn.role not in side:
                continue
            seat = numbers.get(turn.role, len(episode.sides))
            argues = seat < len(episode.sides) and turn.node not in claims
            facts: dict[str, Hashable] = {
                "task": group,
                "role": turn.role,
                "node": turn.node,
                "visit": turn.visit,
                "attempt": turn.attempt,
                "answer": episode.sides[seat] if argues else None,
            }
            aside = turn.tokens is not None and turn.tokens.side
            found.append(PaidTurn((episode.key, turn.role, ordinal), turn.role, reward, facts, last, aside))
    return found


class Crediting:
    """Advantages of paid turns.

    Args:
        config: the rules.
        groups: trained role -> its counted role, which a rule may name.
    """

    def __init__(self, config: CreditConfig, groups: Mapping[str, str]) -> None:
        self._rules: dict[str, CreditRule] = {role: config.rule_of(role, group) for role, group in groups.items()}
        self._baselines = {
            id(rule): RoleBaseline(decay=rule.decay) for rule in self._rules.values() if rule.estimator == "rae"
        }

    def asks_critic(self, role: str) -> bool:
        """Whether a critic says what the role's tokens are compared with."""
        return self._rules[role].estimator == "gae"

    def by_critic(
        self,
        turns: Sequence[PaidTurn],
        sequences: Sequence[TrainingSequence],
        values: Sequence[Sequence[float]],
    ) -> None:
        """Give the tokens of roles whose credit asks a critic their advantages: see `arena.training.streams`.

        Args:
            turns: paid, of one step; those of other roles are passed over.
            sequences: with the tokens of turns that were paid, of these roles alone; filled in place.
            values: of each sequence, what the critic expects before each trained token.

        Raises:
            NumericalError: a reward or a value is not finite.
        """
        for rule in {id(rule): rule for rule in self._rules.values() if rule.estimator == "gae"}.values():
            own = [turn for turn in turns if self._rules[turn.role] is rule]
            places = [place for place, sequence in enumerate(sequences) if self._rules[sequence.role] is rule]
            assign_by_critic(rule, own, [sequences[place] for place in places], [values[place] for place in places])

    def __call__(self, turns: Sequence[PaidTurn], sequences: Sequence[TrainingSequence]) -> dict[Place, float]:
        """Advantage of each turn, in the order of the turns, but for those of roles whose credit asks a critic.

        Args:
            turns: paid, of one step.
            sequences: with the tokens of these turns, where a rule compares by prompt.

        Raises:
            NumericalError: a reward is not finite.
        """
        prompts = self._prompts(sequences)
        advantages: dict[Place, float] = {}
        turns = [turn for turn in turns if not self.asks_critic(turn.role)]
        for rule in {id(rule): rule for rule in self._rules.values()}.values():
            own = [turn for turn in turns if self._rules[turn.role] is rule]
            if own:
                found = self._of(rule, own, prompts)
                advantages |= dict(zip((turn.place for turn in own), found.tolist(), strict=True))
        return {turn.place: advantages[turn.place] for turn in turns}

    def state_dict(self) -> list[list[tuple[Any, float]]]:
        """Running means by key, rule after rule."""
        return [list(baseline.averages.items()) for baseline in self._baselines.values()]

    def load_state_dict(self, state: Sequence[Sequence[tuple[Any, float]]]) -> None:
        """Go on from a saved state."""
        for baseline, saved in zip(self._baselines.values(), state, strict=True):
            baseline.averages = dict(saved)

    def _prompts(self, sequences: Sequence[TrainingSequence]) -> dict[Place, tuple[int, ...]]:
        """Every token before the first trained one of each turn."""
        if not any("prompt" in rule.key for rule in self._rules.values()):
            return {}
        found: dict[Place, tuple[int, ...]] = {}
        for sequence in sequences:
            for position, turn in zip(sequence.positions, sequence.turns, strict=True):
                place = (sequence.episode, sequence.role, turn)
                if place not in found:
                    found[place] = tuple(sequence.ids[:position])
        return found

    def _of(
        self, rule: CreditRule, turns: Sequence[PaidTurn], prompts: Mapping[Place, tuple[int, ...]]
    ) -> NDArray[np.float64]:
        returns = _to_go(turns, rule.discount) if rule.returns == "to_go" else [turn.reward for turn in turns]
        keys = [
            tuple(prompts.get(turn.place) if name == "prompt" else turn.facts[name] for name in rule.key)
            for turn in turns
        ]
        if rule.estimator == "grpo":
            found = group_advantages(returns, keys, kind="grpo")
        elif rule.estimator == "rae":
            found = credit(self._running(rule, returns, keys), keys, baseline="none", scale=rule.scale)
        else:
            assert rule.estimator != "gae"
            found = credit(returns, keys, baseline=rule.estimator, scale=rule.scale)
        return rule.weight * found

    def _running(self, rule: CreditRule, returns: Sequence[float], keys: Sequence[Hashable]) -> NDArray[np.float64]:
        """Returns minus the running mean of their key, which starts at the first mean and moves once a step."""
        baseline, values = self._baselines[id(rule)], np.asarray(returns, np.float64)
        centred = np.empty_like(values)
        members: dict[Hashable, list[int]] = {}
        for index, key in enumerate(keys):
            members.setdefault(key, []).append(index)
        for key, indices in members.items():
            mean = math.fsum(values[indices]) / len(indices)
            before = baseline.averages.setdefault(key, mean)
            baseline.advantages([mean], [key])
            centred[indices] = values[indices] - before
        return centred


def _to_go(turns: Sequence[PaidTurn], discount: float) -> list[float]:
    """Own reward and the discounted ones of later paid turns of the role in the same episode."""
    returns = [0.0] * len(turns)
    carried: dict[tuple[str, str], float] = {}
    for index in range(len(turns) - 1, -1, -1):
        stream = turns[index].place[:2]
        returns[index] = carried[stream] = turns[index].reward + discount * carried.get(stream, 0.0)
    return returns
