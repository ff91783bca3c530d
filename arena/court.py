"""Verdicts on stored transcripts: what must be judged is collected, and asked for at once."""

from __future__ import annotations

from collections.abc import Sequence

from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge, JudgeView
from arena.judging import Bench
from arena.protocols import Protocol
from arena.protocols.graph import Node
from arena.protocols.records import Episode, Task, Verdict
from arena.protocols.votes import combine_verdicts

__all__ = ["Court"]


class Court:
    """Judges the episodes of one protocol: `summon` all that will be needed, `decide`, then ask for `verdict`.

    Judge nodes that are not nested are asked anew. Other verdicts are taken as stored: what the fields of a nested
    protocol were bound to is not known any more.
    """

    def __init__(self, protocol: Protocol, judge: AnyJudge) -> None:
        self.protocol = protocol
        self.judge = judge
        self._benches: dict[str, Bench] = {}
        self._views: list[JudgeView] = []
        self._places: dict[tuple[int, str, int], int] = {}
        self._verdicts: Sequence[Verdict] = ()

    def _asks(self, node: Node) -> bool:
        """Whether its verdicts are asked for; what a nested protocol's fields were bound to is not stored."""
        return node.kind == "judge" and node.scope in (None, self.protocol.scope)

    def _combines(self, node: Node) -> bool:
        """Whether its verdict is made of those of other nodes."""
        return node.kind == "vote" and all(self.protocol.nodes[name].gives_verdict for name in node.about)

    def runs(self, episode: Episode, name: str) -> tuple[int, ...]:
        """How many turns there were each time a judge ran: the node itself, or all whose verdicts it combines."""
        node = self.protocol.nodes[name]
        if not self._combines(node):
            return episode.judged.get(name, ())
        every = [self.runs(episode, other) for other in node.about]
        return tuple(sorted({count for counts in every for count in counts}))

    def summon(self, episode: Episode, task: Task, name: str, moment: int, *, prefix: bool) -> None:
        """`verdict` will be asked for the same."""
        node = self.protocol.nodes[name]
        if self._combines(node):
            for other in node.about:
                self.summon(episode, task, other, moment, prefix=prefix)
        elif self._asks(node):
            count = _judged(episode, name, moment, prefix=prefix)
            key = (id(episode), name, -1 if count is None else count)
            if count is None or key in self._places:
                return
            if name not in self._benches:
                self._benches[name] = Bench(self.protocol, node, self.judge)
            self._places[key] = len(self._views)
            self._views.append(self._benches[name].view(episode, task, upto=count))

    def decide(self) -> None:
        """Ask the judge."""
        self._verdicts = ask_judge(self.judge, self._views) if self._views else ()

    def verdict(self, episode: Episode, name: str, moment: int, *, prefix: bool) -> Verdict | None:
        """The verdict of a node; None where it gave none.

        Args:
            episode: that is judged.
            name: judge node, or a vote that gives a verdict.
            moment: as it was then.
            prefix: on the first ``moment`` turns, although the judge was not asked then; else as last asked.
        """
        node = self.protocol.nodes[name]
        if self._combines(node):
            verdicts = [self.verdict(episode, other, moment, prefix=prefix) for other in node.about]
            return combine_verdicts(verdicts, node.rule, name)
        if not self._asks(node):
            return episode.verdicts.get(name) or episode.inner_verdicts.get(name)
        count = _judged(episode, name, moment, prefix=prefix)
        return None if count is None else self._verdicts[self._places[id(episode), name, count]]


def _judged(episode: Episode, name: str, moment: int, *, prefix: bool) -> int | None:
    """How many turns a judge node read; None if it did not run."""
    runs = episode.judged.get(name, ())
    if prefix:
        return moment if runs and moment <= runs[-1] else None
    return max((count for count in runs if count <= moment), default=None)
