"""From transcripts to what judges read, and from verdicts to what roles are paid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from arena.judges.types import Judge, JudgeView, Statement
from arena.protocols import Node, Protocol
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Episode, Task, Turn, Verdict, VerdictStatus

__all__ = ["FAULTS", "Bench", "Payoff", "ask_judge", "judge_episodes", "pay"]

FAULTS = (BackendError, OSError, TimeoutError)
"""What a model, a server or the machine may do at any time: recorded as a status, and the others go on. Everything else
is a bug and ends the run."""

_SLACK = 1e-2
"""Probabilities in float32, or rounded by hand, need not add up to 1 exactly."""


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
            return Statement(turn.role, turn.answer, "", tuple(quote for quote in turn.quotes if quote.good))
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
        """Views before the first superstep that spoke and after each of them."""
        said: list[Statement] = []
        views = [self.view(episode, task, [])]
        for _, turns in itertools.groupby(episode.turns, key=lambda turn: turn.superstep):
            said += [self.statement(turn) for turn in turns if self.audible(turn)]
            views.append(self.view(episode, task, list(said)))
        return views


def ask_judge(judge: Judge, views: Sequence[JudgeView]) -> Sequence[Verdict]:
    """One verdict a view; where the batch fails, each view alone, so that a fault does not take its siblings along."""
    try:
        verdicts = judge.judge(views)
    except FAULTS as error:
        if len(views) == 1:
            reason = f"{type(error).__name__}: {error}"
            return [Verdict(VerdictStatus.TRANSPORT, judge.name, evidence={"reason": reason})]
        return [verdict for view in views for verdict in ask_judge(judge, [view])]
    if not isinstance(verdicts, Sequence) or not all(isinstance(verdict, Verdict) for verdict in verdicts):
        raise BackendError(f"judge '{judge.name}' gave something else than a list of verdicts")
    if len(verdicts) != len(views):
        raise BackendError(f"judge '{judge.name}' gave {len(verdicts)} verdicts on {len(views)} views")
    for view, verdict in zip(views, verdicts, strict=True):
        _check_verdict(judge, view, verdict)
    return verdicts


def _check_verdict(judge: Judge, view: JudgeView, verdict: Verdict) -> None:
    """A verdict that may be used must be a distribution over the answers."""
    if not verdict.decidable:
        return
    count = len(view.answers_argued)
    if len(verdict.logps) != count:
        raise BackendError(f"judge '{judge.name}' gave {len(verdict.logps)} log-probs for {count} answers ({view.key})")
    # A NaN makes the comparison false as well.
    if not abs(sum(map(math.exp, verdict.logps)) - 1.0) <= _SLACK:
        raise BackendError(
            f"judge '{judge.name}' gave log-probs that are no distribution: {verdict.logps} ({view.key}); "
            "normalise them over the answers"
        )


def judge_episodes(
    protocol: Protocol, judge: Judge, episodes: Sequence[Episode], tasks: Mapping[str, Task], node: str | None = None
) -> list[Verdict]:
    """Judge stored transcripts again, without playing anything. ``node`` defaults to the last judge node."""
    bench = _bench(protocol, judge, node)
    return list(ask_judge(judge, [bench.view(episode, tasks[episode.task]) for episode in episodes]))


def pay(protocol: Protocol, judge: Judge, episodes: Sequence[Episode], tasks: Mapping[str, Task]) -> list[Payoff]:
    """Reward of every turn by the protocol's ``rewards``, penalties for bad quotes included.

    With ``pay: each_turn`` the judge is asked after every superstep, and each turn of it earns its speaker the change
    that the superstep made; with ``pay: end`` every turn earns the final value. Turns of a failed episode earn None.

    Raises:
        ConfigError: the protocol has no rewards.
    """
    rewards = protocol.rewards
    if rewards is None:
        raise ConfigError(f"protocol '{protocol.name}' has no 'rewards:', so nothing can be trained on it")
    bench = _bench(protocol, judge, rewards.verdict)
    turnwise = rewards.pay == "each_turn"
    views: list[JudgeView] = []
    counts: list[int] = []
    for episode in episodes:
        task = tasks[episode.task]
        new = bench.prefixes(episode, task) if turnwise else [bench.view(episode, task)]
        views += new
        counts.append(len(new))
    verdicts = ask_judge(judge, views)
    paid = []
    start = 0
    for episode, count in zip(episodes, counts, strict=True):
        stages = verdicts[start : start + count]
        start += count
        label = tasks[episode.task].label
        row: list[float | None] = []
        stage, superstep = 0, -1
        for turn in episode.turns:
            if turn.superstep != superstep:
                stage, superstep = stage + 1, turn.superstep
            reward = None
            if episode.error is None and turnwise:
                before, after = (_value(protocol, stages[at], turn.answer, label) for at in (stage - 1, stage))
                reward = None if before is None or after is None else after - before
            elif episode.error is None:
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
        names["p"] = math.exp(verdict.logps[answer])
        names["won"] = verdict.score(answer)
        if label is not None:
            names["correct"] = float(answer == label)
    if missing := expression.names - names.keys():
        raise ConfigError(
            f"rewards.value of '{protocol.name}' uses '{min(missing)}', which this task does not have (no label)"
        )
    return float(expression(names))
