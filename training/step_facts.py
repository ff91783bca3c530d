"""The episodes of one optimizer step, and what they looked like apart from anything that the learner says of them."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from arena.protocols import Protocol
from arena.protocols.records import Episode, Task
from arena.rewards import Payoff
from arena.running import bad_quote_share
from arena.training.league import Matchup

__all__ = ["Played", "step_facts"]


@dataclass(frozen=True, slots=True)
class Played:
    """The episodes of one optimizer step, group after group."""

    episodes: list[Episode]
    groups: list[int]
    """Number of the group of each episode."""
    matchups: list[Matchup]
    """Of each group."""

    def sides(self) -> list[frozenset[str]]:
        """Roles of each episode that are played by policies in training."""
        return [self.matchups[group].side for group in self.groups]


def step_facts(
    played: Played,
    payoffs: Sequence[Payoff],
    protocol: Protocol,
    tasks: Mapping[str, Task],
    *,
    trained: Collection[str],
    claims_by: Collection[str],
) -> dict[str, float]:
    """Figures of a step for ``metrics.jsonl``.

    Args:
        played: the step.
        payoffs: what each of its episodes was worth.
        protocol: that was played.
        tasks: by id.
        trained: roles that policies play.
        claims_by: seats that choose what they argue.

    Returns:
        ``episodes``, ``bad_quotes``, ``sampled_tokens``, ``tokens_per_turn``, ``reward/ROLE``, ``reward`` (of roles
        that do not take from each other), ``reward_size``, ``unpaid_turns``; and as far as somebody judges
        ``undecidable``, ``accuracy``, ``belief`` and ``claims_true``.
    """
    return {
        "episodes": float(len(played.episodes)),
        "bad_quotes": bad_quote_share(played.episodes),
        **_spoken(played),
        **_rewards(played, payoffs, protocol),
        **_judged(played, payoffs, protocol, tasks, trained, claims_by),
    }


def _spoken(played: Played) -> dict[str, float]:
    own = [
        turn
        for episode, side in zip(played.episodes, played.sides(), strict=True)
        for turn in episode.turns
        if turn.role in side and turn.tokens is not None
    ]
    sampled = sum(len(turn.tokens.ids) for turn in own if turn.tokens is not None)
    return {"sampled_tokens": float(sampled), "tokens_per_turn": sampled / max(len(own), 1)}


def _rewards(played: Played, payoffs: Sequence[Payoff], protocol: Protocol) -> dict[str, float]:
    """Rewards of roles in training: their mean by role, and over the roles that do not take from each other."""
    by_role: defaultdict[str, list[float]] = defaultdict(list)
    unpaid = 0
    for episode, side, payoff in zip(played.episodes, played.sides(), payoffs, strict=True):
        for turn, reward in zip(episode.turns, payoff.rewards, strict=True):
            if turn.role not in side:
                continue
            if reward is not None:
                by_role[turn.role].append(reward)
            unpaid += reward is None and turn.kept
    everything = [abs(reward) for rewards in by_role.values() for reward in rewards]
    facts = {f"reward/{role}": sum(rewards) / len(rewards) for role, rewards in sorted(by_role.items())}
    facts["unpaid_turns"] = float(unpaid)
    if everything:
        facts["reward_size"] = sum(everything) / len(everything)
    balanced = {role for reward in protocol.rewards if reward.zero_sum for role in reward.values}
    open_ = [reward for role, rewards in by_role.items() if role not in balanced for reward in rewards]
    if open_:
        facts["reward"] = sum(open_) / len(open_)
    return facts


def _judged(
    played: Played,
    payoffs: Sequence[Payoff],
    protocol: Protocol,
    tasks: Mapping[str, Task],
    trained: Collection[str],
    claims_by: Collection[str],
) -> dict[str, float]:
    """What the judge that rewards made of it, beside the truth where tasks have labels."""
    decided = [
        (episode, payoff.verdict, tasks[episode.task].label)
        for episode, payoff in zip(played.episodes, payoffs, strict=True)
        if payoff.verdict is not None and payoff.verdict.decidable
    ]
    facts = {}
    if any(payoff.verdict is not None for payoff in payoffs):
        facts["undecidable"] = 1 - len(decided) / len(played.episodes)
    right = [verdict.score(label) for _, verdict, label in decided if label is not None and verdict.logps]
    if right:
        facts["accuracy"] = sum(right) / len(right)
    argue = [role for role in protocol.seats if role in trained]
    claimants = [role for role in argue if role in claims_by] or argue
    if len(claimants) == 1:  # what it argues is its own choice, or nobody argues for the other answers
        seat = protocol.seats.index(claimants[0])
        claims = [(e.sides[seat], verdict, label) for e, verdict, label in decided if verdict.logps]
        if claims:
            facts["belief"] = sum(math.exp(verdict.logps[claim]) for claim, verdict, _ in claims) / len(claims)
        true = [float(claim == label) for claim, _, label in claims if label is not None]
        if true:
            facts["claims_true"] = sum(true) / len(true)
    return facts
