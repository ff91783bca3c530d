"""A few games played by stand-ins, to see how many tokens the real ones will read and say."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from arena.agents.random_agent import random_agent
from arena.agents.types import Act, Ask
from arena.engine import Engine, Plan
from arena.judges.types import JudgeView
from arena.protocols import Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task, Verdict, VerdictStatus

__all__ = ["CHARS", "FREE_TURN", "Measured", "try_games"]

CHARS = 4
"""Characters of a token, about, in English under today's encodings."""
FREE_TURN = 200
"""Tokens of a turn to which the protocol sets no bound."""


@dataclass(slots=True)
class Measured:
    """What was asked for in games of a protocol."""

    calls: Counter[str] = field(default_factory=Counter)
    """Role -> turns; ``""`` for the judge."""
    prompt: Counter[str] = field(default_factory=Counter)
    """The same for tokens of requests."""
    completion: Counter[str] = field(default_factory=Counter)
    games: int = 0


def try_games(protocol: Protocol, tasks: Sequence[Task]) -> Measured:
    """Play each task once.

    Raises:
        ConfigError: a game failed.
    """
    found = Measured()
    talkers = {role: _Talker(role, found) for role in protocol.speakers}
    episodes = Engine(protocol, _Reader(found), seed=0).play([Plan(f"try/{t.id}", t, talkers) for t in tasks])
    if failed := [episode.error for episode in episodes if episode.error is not None]:
        raise ConfigError(f"a tried game of protocol '{protocol.name}' failed: {failed[0]}")
    found.games = len(episodes)
    return found


class _Talker:
    """Says as much as a turn may hold, in the form that is asked for, and counts what it was told."""

    def __init__(self, role: str, found: Measured) -> None:
        self.name = f"stand-in for {role}"
        self.role = role
        self._found = found
        self._said = random_agent()
        self._context: Counter[str] = Counter()

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """See `arena.agents.Agent`."""
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Ask) -> Act:
        (act,) = self._said.act([ask])
        bounds = [n for n in (ask.max_tokens, None if ask.max_words is None else math.ceil(ask.max_words * 4 / 3)) if n]
        tokens = min(bounds, default=FREE_TURN)
        if ask.output is None:
            words = max(0, (ask.max_words or tokens * 3 // 4) - len(act.text.split()))
            act = Act(f"{act.text} {'word ' * words}".strip())
        self._context[ask.episode] += sum(len(message.text) for message in ask.new)
        self._found.calls[self.role] += 1
        self._found.prompt[self.role] += math.ceil(self._context[ask.episode] / CHARS)
        self._found.completion[self.role] += tokens
        self._context[ask.episode] += len(act.text)
        return act


class _Reader:
    """Decides for the first answer, and counts what it read."""

    name = "stand-in for the judge"
    sees_label = False

    def __init__(self, found: Measured) -> None:
        self._found = found

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """See `arena.judges.Judge`."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        texts = [
            view.question,
            *view.answers,
            *(said.text for said in view.statements),
            *map(str, view.fields.values()),
        ]
        self._found.calls[""] += 1
        self._found.prompt[""] += math.ceil(sum(map(len, texts)) / CHARS)
        if not view.compared:
            return Verdict(VerdictStatus.SCORED, self.name, scores=(0.5,))
        logps = (0.0, *(-50.0 for _ in range(view.compared - 1)))
        return Verdict(VerdictStatus.SCORED, self.name, logps)
