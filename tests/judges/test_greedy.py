from collections.abc import Sequence

import pytest

from arena.agents import AGENTS, Ask, Context
from arena.judges import JudgeView
from arena.judges.greedy import GreedyQuotes
from arena.judges.verdicts import abstain, normalise
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote, Task, Turn, Verdict, VerdictStatus

WORTH = {"p": 1.0, "q": -2.0, "r": 0.5, "s": 3.0}
"""Nats that a quote adds for answer 0."""


class Sums:
    name = "sums"
    sees_label = False
    calls = 0

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        self.calls += 1
        found = []
        for view in views:
            if "poison" in view.quotes():
                found.append(abstain(self.name, "spoilt"))
                continue
            margin = sum(WORTH[quote] for quote in view.quotes())
            found.append(Verdict(VerdictStatus.SCORED, self.name, normalise([margin, 0.0])))
        return found


def ask(answer, evidence, used=(), bad=()):
    task = Task("t", {"question": "?", "answers": ("a", "b"), "evidence": evidence})
    quotes = [Quote(word, verified=True) for word in used] + [Quote(word, verified=False) for word in bad]
    heard = [Turn(0, 0, "n", "other", 0, "x", 1 - answer, "", quotes=(quote,)) for quote in quotes]
    return Ask("e", "n", "me", 0, 1, Context(), [], 1, answer, task, heard, "evidence")


def test_the_best_unused_item_for_the_own_answer_is_quoted_in_one_judgement():
    judge = Sums()
    agent = AGENTS.build({"kind": "greedy-quotes"}, judge=judge)
    assert isinstance(agent, GreedyQuotes)
    asks = [
        ask(0, ["p", "q", "r", "s"]),
        ask(1, ["p", "q", "r", "s"]),
        ask(0, ["p", "q", "r", "s"], used=["s"]),
        ask(1, ["p", "r"], used=["q"]),
        ask(0, ["p"], used=["p"]),
        ask(0, ["poison", "q"]),
    ]
    assert [act.text for act in agent.act(asks)] == ["s", "q", "p", "r", "", "q"]
    assert judge.calls == 1


def test_it_speaks_only_where_there_is_something_to_quote():
    with pytest.raises(ConfigError, match="quotes a field that is a list"):
        GreedyQuotes(Sums()).act([ask(0, "one text")])
