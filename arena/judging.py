"""From transcripts to what judges read, and back to verdicts."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from arena.judges.types import AnyJudge, AsyncJudge, JudgeView, Statement
from arena.protocols import Node, Protocol, Role
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.graph import Scope
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict, VerdictStatus

__all__ = [
    "FAULTS",
    "Bench",
    "answers_scope",
    "ask_judge",
    "check_verdict",
    "deciding_nodes",
    "failed_verdict",
    "is_async",
    "judge_episodes",
]

T = TypeVar("T")

FAULTS = (BackendError, OSError, TimeoutError)
"""What a model, a server or the machine may do at any time: recorded as a status, and the others go on. Everything else
is a bug and ends the run."""

_SLACK = 1e-2
"""Probabilities in float32, or rounded by hand, need not add up to 1 exactly."""


class Bench:
    """A place from which a judge reads a protocol, and the instrument that sits there.

    It alone decides what the judge may read: turns that are kept and whose audience holds the judge's seat, of its own
    scope and of the nodes in ``reads``, a revision in place of its draft; quotes only if the role hears only quotes;
    the task fields that the role sees; and the label only for an instrument that is declared to need it.

    Args:
        protocol: whose transcripts are read.
        node: judge node, or one that has candidates rated.
        judge: who reads.
        role: who rates the candidates of ``node``; absent: the role of the node.
    """

    __slots__ = (
        "_answers",
        "_fields",
        "_nodes",
        "_own_answers",
        "_quotes_only",
        "_seat",
        "judge",
        "node",
        "protocol",
        "role",
    )

    def __init__(self, protocol: Protocol, node: Node, judge: AnyJudge, role: Role | None = None) -> None:
        self.protocol = protocol
        self.node = node
        self.judge = judge
        self.role = role or node.role
        scope = self.role.scope or protocol.scope
        self._seat = self.role.seat
        self._quotes_only = self.role.hears == "quotes"
        self._fields = [name for name in self.role.sees if name not in ("question", "answers")]
        self._nodes = _readable(protocol, node, scope, self._seat)
        owner = answers_scope(scope)
        self._own_answers = owner != ""
        self._answers = frozenset(
            name for name, other in protocol.nodes.items() if answers_scope(other.scope or protocol.scope) == owner
        )
        """Nodes whose speakers argue the answers that the judge decides between."""

    def reads(self, turn: Turn) -> bool:
        """Whether the judge may read the turn (a draft too: whether a revision stands for it is another matter)."""
        if turn.node not in self._nodes or not turn.kept:
            return False
        if turn.status is TurnStatus.REFUSED:
            return False
        return turn.audience is None or self._seat in turn.audience or turn.role == self._seat

    def statement(
        self,
        turn: Turn,
        texts: Sequence[str] | None = None,
        argued: Sequence[int | None] | None = None,
        sides: Sequence[int] | None = None,
    ) -> Statement:
        """The turn as the judge reads it; the other arguments are those of `view`."""
        answer = self._argued(turn, argued, sides)
        if self._quotes_only:
            return Statement(turn.role, answer, "", tuple(quote for quote in turn.quotes if quote.good))
        if texts is not None:
            return Statement(turn.role, answer, texts[turn.index], turn.quotes)
        text = mark_quotes(self.protocol.nodes[turn.node].quote, turn.text, turn.quotes)
        return Statement(turn.role, answer, text, turn.quotes)

    def _argued(self, turn: Turn, argued: Sequence[int | None] | None, sides: Sequence[int] | None) -> int | None:
        """Index of the argued answer among those that the judge decides between."""
        if turn.node not in self._answers:
            return None
        if not self._own_answers:
            return turn.answer
        # `Turn.answer` counts answers of the task: what was argued of a nested protocol's own, it does not say.
        if argued is not None and turn.index >= 0:
            return argued[turn.index]
        node = self.protocol.nodes[turn.node]
        if node.claims and turn.fields.get("index") is not None:
            return int(turn.fields["index"])
        seat = node.role.argues
        return seat if seat is None or sides is None else sides[seat]

    def view(
        self,
        episode: Episode,
        task: Task,
        *,
        sides: tuple[int, ...] | None = None,
        upto: int | None = None,
        since: int = 0,
        candidate: Turn | None = None,
        without: Collection[int] = (),
        texts: Sequence[str] | None = None,
        argued: Sequence[int | None] | None = None,
    ) -> JudgeView:
        """All that the judge may know.

        Args:
            episode: so far.
            task: that it is about, as the judge's scope knows it: fields that a nested scope binds stand in it, and no
                label beside answers of its own.
            sides: which of the task's answers each seat argues; absent: those of the episode.
            upto: only this many turns of the episode.
            since: how many turns there were when the judge's scope was last entered.
            candidate: a turn to be rated as if it had been said.
            without: indices of turns that are passed over: the others that may be picked in place of the candidate.
            texts: what readers read of each turn (inert, quotes marked), if that is known.
            argued: which answer of its scope each turn argued, if that is known.
        """
        read = [turn for turn in episode.turns[since:upto] if self.reads(turn)]
        replaced = {turn.replaces for turn in read}
        if candidate is not None:
            replaced.add(candidate.replaces)
        statements = [
            self.statement(turn, texts, argued, sides)
            for turn in read
            if turn.index not in replaced and turn.index not in without
        ]
        if candidate is not None:
            statements.append(self.statement(candidate, sides=sides))
        sees = self.role.sees
        return JudgeView(
            key=episode.key,
            question=task.question if "question" in sees else "",
            answers=task.answers if "answers" in sees else (),
            statements=statements,
            fields={name: task.fields[name] for name in self._fields if name in task.fields},
            label=task.label if self.judge.sees_label else None,
            answers_argued=episode.sides if sides is None else sides,
        )


def _readable(protocol: Protocol, node: Node, scope: Scope, seat: str) -> frozenset[str]:
    """Names of the nodes whose turns may be read from ``node`` at all."""
    inside = f"{scope.name}." if scope.name else ""
    named = protocol.nodes if node.reads is None else node.reads
    return frozenset(name for name in named if name.startswith(inside) and protocol.nodes[name].reaches(seat))


def answers_scope(scope: Scope) -> str:
    """Name of the scope whose ``answers`` are those of ``scope``: ``""`` where they are the task's."""
    while scope.parent is not None and "answers" not in scope.bound:
        scope = scope.parent
    return scope.name


def deciding_nodes(protocol: Protocol) -> list[str]:
    """Names of the nodes, judges and votes, that give a verdict on the task's answers, in the order of the file."""
    return [
        node.name
        for node in protocol.nodes.values()
        if node.gives_verdict and answers_scope(node.scope or protocol.scope) == ""
    ]


def is_async(judge: AnyJudge) -> bool:
    """Whether the judge answers one view at a time, from afar."""
    return hasattr(judge, "verdict")


def ask_judge(judge: AnyJudge, views: Sequence[JudgeView]) -> Sequence[Verdict]:
    """One verdict a view; where a batch fails, each view alone, so that a fault does not take its siblings along."""
    if is_async(judge):
        return _wait(_gather(judge, views))  # type: ignore[arg-type]
    try:
        verdicts = judge.judge(views)  # type: ignore[union-attr]
    except FAULTS as error:
        if len(views) == 1:
            return [failed_verdict(judge, error)]
        return [verdict for view in views for verdict in ask_judge(judge, [view])]
    if not isinstance(verdicts, Sequence) or not all(isinstance(verdict, Verdict) for verdict in verdicts):
        raise BackendError(f"judge '{judge.name}' gave something else than a list of verdicts")
    if len(verdicts) != len(views):
        raise BackendError(f"judge '{judge.name}' gave {len(verdicts)} verdicts on {len(views)} views")
    for view, verdict in zip(views, verdicts, strict=True):
        check_verdict(judge, view, verdict)
    return verdicts


async def _gather(judge: AsyncJudge, views: Sequence[JudgeView]) -> list[Verdict]:
    async def one(view: JudgeView) -> Verdict:
        try:
            verdict = await judge.verdict(view)
        except FAULTS as error:
            return failed_verdict(judge, error)
        check_verdict(judge, view, verdict)
        return verdict

    return list(await asyncio.gather(*map(one, views)))


def _wait(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end in a loop of its own; in a thread, since the caller may have a running loop (a notebook)."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def failed_verdict(judge: AnyJudge, error: BaseException) -> Verdict:
    """What is recorded where a judge failed."""
    return Verdict(VerdictStatus.TRANSPORT, judge.name, evidence={"reason": f"{type(error).__name__}: {error}"})


def check_verdict(judge: AnyJudge, view: JudgeView, verdict: Verdict) -> None:
    """A verdict that may be used must be a distribution over the answers.

    Raises:
        BackendError: it is none.
    """
    if not isinstance(verdict, Verdict):
        raise BackendError(f"judge '{judge.name}' gave {type(verdict).__name__} instead of a verdict ({view.key})")
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
    protocol: Protocol, judge: AnyJudge, episodes: Sequence[Episode], tasks: Mapping[str, Task], node: str | None = None
) -> list[Verdict]:
    """Judge stored transcripts again, each as it was when the judge node last ran, without playing anything.

    Args:
        protocol: that was played.
        judge: who judges now.
        episodes: to be judged; where the node never ran, the verdict is ``abstain``.
        tasks: by id.
        node: judge node; absent: the last one that is not nested.

    Raises:
        ConfigError: there is no such judge node, or it is nested: what its fields were bound to is not stored.
    """
    bench = Bench(protocol, _judge_node(protocol, node), judge)
    upto = [episode.judged.get(bench.node.name, (None,))[-1] for episode in episodes]
    ran = [(episode, count) for episode, count in zip(episodes, upto, strict=True) if count is not None]
    verdicts = iter(ask_judge(judge, [bench.view(episode, tasks[episode.task], upto=count) for episode, count in ran]))
    silent = {"reason": f"'{bench.node.name}' never ran"}
    return [
        Verdict(VerdictStatus.ABSTAIN, judge.name, evidence=silent) if count is None else next(verdicts)
        for count in upto
    ]


def _judge_node(protocol: Protocol, name: str | None) -> Node:
    outer = [node for node in protocol.judge_nodes if protocol.nodes[node].scope in (None, protocol.scope)]
    if name is None and not outer:
        raise ConfigError(f"protocol '{protocol.name}' has no judge node")
    name = name or outer[-1]
    if name not in outer:
        what = "is nested: its stored verdicts stand" if name in protocol.judge_nodes else "is none of its judge nodes"
        raise ConfigError(f"'{name}' of protocol '{protocol.name}' {what} (there is: {', '.join(outer) or 'none'})")
    return protocol.nodes[name]
