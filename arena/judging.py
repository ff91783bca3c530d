"""From transcripts to what judges read, and from verdicts to what roles are paid."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena.judges.types import Judge, JudgeView, Statement
from arena.protocols import Node, Protocol
from arena.protocols.errors import ConfigError
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Episode, Task, Turn, Verdict

__all__ = ["Bench", "Payoff", "judge_episodes", "pay"]


@dataclass(slots=True)
class Payoff:
    """What an episode was worth."""

    rewards: list[float | None]
    """One number a turn; None where a verdict behind it is undecidable, or where the speaker argues no answer."""
    verdict: Verdict
    """On the whole transcript."""


class Bench:
    """A judge node of a protocol, and the instrument that sits there.

    It alone decides what the judge may read: turns whose audience holds the judge's role, quotes only if the role hears
    only quotes, the task fields that the role sees, and the label only for an instrument that is declared to need it.
    """

    __slots__ = ("_fields", "_quotes_only", "judge", "node", "protocol", "role")

    def __init__(self, protocol: Protocol, node: Node, judge: Judge) -> None:
        self.protocol = protocol
        self.node = node
        self.judge = judge
        self.role = node.role.name
        self._quotes_only = node.role.hears == "quotes"
        self._fields = [name for name in node.role.sees if name not in ("question", "answers")]

    def statement(self, turn: Turn) -> Statement:
        """The turn as the judge reads it."""
        if self._quotes_only:
            return Statement(turn.role, turn.answer, "", turn.quotes)
        rule = self.protocol.nodes[turn.node].quote
        text = mark_quotes(rule, turn.text, turn.quotes) if rule else turn.text
        return Statement(turn.role, turn.answer, text, turn.quotes)

    def audible(self, turn: Turn) -> bool:
        """Whether the judge may read the turn."""
        return turn.audience is None or self.role in turn.audience

    def view(self, episode: Episode, task: Task, statements: Sequence[Statement] | None = None) -> JudgeView:
        """All that the judge may know of the episode so far, or with other ``statements`` in their place."""
        if statements is None:
            statements = [self.statement(turn) for turn in episode.turns if self.audible(turn)]
        sees = self.node.role.sees
        return JudgeView(
            key=episode.key,
            question=task.question if "question" in sees else "",
            answers=task.answers if "answers" in sees else (),
            statements=statements,
            fields={name: task.fields[name] for name in self._fields if name in task.fields},
            label=task.label if self.judge.sees_label else None,
            answers_argued=episode.sides,
        )

    def prefixes(self, episode: Episode, task: Task) -> list[JudgeView]:
        """Views after 0, 1, ..., all turns: one more than there are turns."""
        statements = [self.statement(turn) if self.audible(turn) else None for turn in episode.turns]
        return [
            self.view(episode, task, [said for said in statements[:length] if said is not None])
            for length in range(len(statements) + 1)
        ]


def judge_episodes(
    protocol: Protocol, judge: Judge, episodes: Sequence[Episode], tasks: Mapping[str, Task], node: str | None = None
) -> list[Verdict]:
    """Judge stored transcripts again, without playing anything. ``node`` defaults to the last judge node."""
    bench = _bench(protocol, judge, node)
    return list(judge.judge([bench.view(episode, tasks[episode.task]) for episode in episodes]))


def pay(protocol: Protocol, judge: Judge, episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Payoff]:
    """Reward of every turn by the protocol's ``rewards``, penalties for bad quotes included.

    With ``pay: each_turn`` the judge is asked after every turn, and a turn earns its speaker the change that it made;
    with ``pay: end`` every turn earns the final value.

    Raises:
        ConfigError: the protocol has no rewards.
    """
    rewards = protocol.rewards
    if rewards is None:
        raise ConfigError(f"protocol '{protocol.name}' has no 'rewards:', so nothing can be trained on it")
    bench = _bench(protocol, judge, rewards.verdict)
    turnwise = rewards.pay == "each_turn"
    views: list[JudgeView] = []
    for episode in episodes:
        task = tasks[episode.task]
        views.extend(bench.prefixes(episode, task) if turnwise else [bench.view(episode, task)])
    verdicts = iter(judge.judge(views))
    paid = []
    for episode in episodes:
        label = tasks[episode.task].label
        stages = [next(verdicts) for _ in range(len(episode.turns) + 1 if turnwise else 1)]
        row: list[float | None] = []
        for index, turn in enumerate(episode.turns):
            if turnwise:
                before, after = (_value(protocol, stages[at], turn.answer, label) for at in (index, index + 1))
                reward = None if before is None or after is None else after - before
            else:
                reward = _value(protocol, stages[0], turn.answer, label)
            if reward is not None and rewards.bad_quote:
                reward += rewards.bad_quote * sum(not quote.good for quote in turn.quotes)
            row.append(reward)
        paid.append(Payoff(row, stages[-1]))
    return paid


def _bench(protocol: Protocol, judge: Judge, node: str | None) -> Bench:
    name = node or (protocol.judge_nodes[-1] if protocol.judge_nodes else None)
    if name is None:
        raise ConfigError(f"protocol '{protocol.name}' has no judge node")
    return Bench(protocol, protocol.nodes[name], judge)


def _value(protocol: Protocol, verdict: Verdict, answer: int | None, label: int | None) -> float | None:
    """Worth of a verdict to the role that argues ``answer``; None where there is none."""
    if answer is None or not verdict.decidable:
        return None
    assert protocol.rewards is not None
    expression = protocol.rewards.value
    names: dict[str, float] = {"margin": verdict.margin(answer)}
    if not expression.names <= names.keys():
        choice = verdict.choice
        names["p"] = math.exp(verdict.logps[answer])
        names["won"] = 0.5 if choice is None else float(choice == answer)
        if label is not None:
            names["correct"] = float(answer == label)
    if missing := expression.names - names.keys() - protocol.params.keys():
        raise ConfigError(
            f"rewards.value of '{protocol.name}' uses '{min(missing)}', which this task does not have (no label)"
        )
    return float(expression({**protocol.params, **names}))
