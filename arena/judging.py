"""From transcripts to what judges read, and back to verdicts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge, JudgeView, Statement
from arena.protocols import Node, Protocol, Role
from arena.protocols.errors import ConfigError
from arena.protocols.graph import Scope
from arena.protocols.quotes import mark_quotes
from arena.protocols.records import Episode, Task, Turn, TurnStatus, Verdict, VerdictStatus

__all__ = [
    "Bench",
    "answers_scope",
    "deciding_nodes",
    "judge_episodes",
    "judge_node",
]


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
            return Statement(turn.role, answer, texts[turn.index], turn.quotes, said=turn.text)
        text = mark_quotes(self.protocol.nodes[turn.node].quote, turn.text, turn.quotes)
        return Statement(turn.role, answer, text, turn.quotes, said=turn.text)

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
    bench = Bench(protocol, judge_node(protocol, node), judge)
    upto = [episode.judged.get(bench.node.name, (None,))[-1] for episode in episodes]
    ran = [(episode, count) for episode, count in zip(episodes, upto, strict=True) if count is not None]
    verdicts = iter(ask_judge(judge, [bench.view(episode, tasks[episode.task], upto=count) for episode, count in ran]))
    silent = {"reason": f"'{bench.node.name}' never ran"}
    return [
        Verdict(VerdictStatus.ABSTAIN, judge.name, evidence=silent) if count is None else next(verdicts)
        for count in upto
    ]


def judge_node(protocol: Protocol, name: str | None) -> Node:
    """The node whose transcripts can be judged again: ``name``, or the last judge node that is not nested.

    Raises:
        ConfigError: there is no such node.
    """
    outer = [node for node in protocol.judge_nodes if protocol.nodes[node].scope in (None, protocol.scope)]
    if name is None and not outer:
        raise ConfigError(f"protocol '{protocol.name}' has no judge node")
    name = name or outer[-1]
    if name not in outer:
        what = "is nested: its stored verdicts stand" if name in protocol.judge_nodes else "is none of its judge nodes"
        raise ConfigError(f"'{name}' of protocol '{protocol.name}' {what} (there is: {', '.join(outer) or 'none'})")
    return protocol.nodes[name]
