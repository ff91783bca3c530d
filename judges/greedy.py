"""The one-step exploiter: quotes whatever convinces a given judge most, right now.

It needs no training, so its score against a policy tells how much the policy leaves on the table (a lower bound on
exploitability; a best response that plans ahead could do better).
"""

from __future__ import annotations

from collections.abc import Sequence

from arena.agents.types import Act, Ask
from arena.judges import JUDGES
from arena.judges.types import Judge, JudgeView, Statement
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote, TurnStatus

__all__ = ["GreedyQuotes", "greedy_quotes"]


class GreedyQuotes:
    """Tries every item of the quoted field that nobody quoted yet, and says the one with the best margin for it.

    The judge sees the answers and all good quotes that the speaker heard, whatever else the protocol would show it.
    Ties go to the item that comes first in the field.
    """

    def __init__(self, judge: Judge, *, name: str = "greedy-quotes") -> None:
        self.judge = judge
        self.name = name

    def act(self, asks: Sequence[Ask]) -> list[Act]:
        """One turn an ask; all candidates of all asks are judged in one call."""
        views: list[JudgeView] = []
        options: list[list[str]] = []
        for ask in asks:
            said = [quote for turn in ask.heard for quote in turn.quotes if quote.good]
            used = {quote.text for quote in said}
            options.append([item for item in self._field(ask) if item not in used])
            views += [_view(ask, [*said, Quote(item, verified=True)]) for item in options[-1]]
        verdicts = iter(self.judge.judge(views))
        acts = []
        for ask, items in zip(asks, options, strict=True):
            assert ask.answer is not None
            margins = []
            for _ in items:
                verdict = next(verdicts)
                margins.append(verdict.margin(ask.answer) if verdict.decidable else float("-inf"))
            acts.append(Act(items[margins.index(max(margins))]) if items else Act("", TurnStatus.REFUSED))
        return acts

    def _field(self, ask: Ask) -> Sequence[str]:
        items = ask.task.fields.get(ask.quote_field or "")
        if ask.answer is None or items is None or isinstance(items, str):
            raise ConfigError(
                f"agent '{self.name}' can only speak for an answer, where the protocol quotes a field that is a list; "
                f"node '{ask.node}' of task '{ask.task.id}' is not so"
            )
        found: Sequence[str] = items
        return found


def _view(ask: Ask, quotes: Sequence[Quote]) -> JudgeView:
    said = Statement(ask.role, ask.answer, "", tuple(quotes))
    return JudgeView(ask.episode, ask.task.question, ask.task.answers, [said])


def greedy_quotes(*, judge: Judge | str) -> GreedyQuotes:
    """The exploiter of a judge, or of the judge that a spec names."""
    return GreedyQuotes(JUDGES.build(judge) if isinstance(judge, str) else judge)
