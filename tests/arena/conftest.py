"""Small protocols played by scripted agents: what most tests of the engine need."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from arena.agents import Act, Ask, ScriptedAgent
from arena.engine import Engine, Plan
from arena.judges import JudgeView
from arena.protocols import Protocol, parse_document
from arena.protocols.loader import compile_document
from arena.protocols.records import Episode, Task, Turn, Verdict, VerdictStatus

TASK = Task(
    "capital",
    {"question": "Capital of Australia?", "answers": ("Canberra", "Sydney"), "passage": "Canberra is the capital."},
    0,
)


@dataclass
class Played:
    """An episode and what was asked on its way."""

    episode: Episode
    asks: list[Ask] = field(default_factory=list)
    views: list[JudgeView] = field(default_factory=list)

    @property
    def turns(self) -> list[Turn]:
        return self.episode.turns

    def texts(self, *, kept: bool | None = None) -> list[str]:
        return [turn.text for turn in self.turns if kept is None or turn.kept is kept]

    def told(self, role: str, number: int = -1) -> list[str]:
        """What a role was told for one of its asks: the last, if no number is given."""
        return [message.text for message in [ask for ask in self.asks if ask.role == role][number].new]


class RuleJudge:
    """Gives each view the probabilities of the answers that a rule says."""

    name = "rule"
    sees_label = False

    def __init__(self, rule: Callable[[JudgeView], Sequence[float]]) -> None:
        self.rule = rule
        self.views: list[JudgeView] = []

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        self.views += views
        return [self._verdict(self.rule(view)) for view in views]

    def _verdict(self, shares: Sequence[float]) -> Verdict:
        if not shares:
            return Verdict(VerdictStatus.ABSTAIN, self.name)
        tie = shares.count(max(shares)) > 1
        status = VerdictStatus.TIE if tie else VerdictStatus.SCORED
        return Verdict(status, self.name, tuple(math.log(share) if share else -math.inf for share in shares))


Says = Callable[[Ask], str | Act] | Sequence[str | Act]


@pytest.fixture
def compiled() -> Callable[..., Protocol]:
    """The text of a protocol -> the protocol. Its task fields are those that its roles see."""

    def compiled(text: str, **params: Any) -> Protocol:
        seen = dict.fromkeys(
            name for names in re.findall(r"sees: \[(.*?)\]", text) for name in names.split(", ") if name
        )
        fields = f"fields: [{', '.join(seen)}]\n" if seen and "\nfields:" not in text else ""
        return compile_document(parse_document(fields + text), params)

    return compiled


@pytest.fixture
def play(compiled: Callable[..., Protocol]) -> Callable[..., Played]:
    """Play a protocol once. Roles say the lines of a list one after the other, or what a function gives."""

    def play(
        text: str | Protocol,
        says: Mapping[str, Says],
        *,
        task: Task = TASK,
        judge: Callable[[JudgeView], Sequence[float]] | None = None,
        sides: tuple[int, ...] | None = None,
        **options: Any,
    ) -> Played:
        protocol = text if isinstance(text, Protocol) else compiled(text)
        asks: list[Ask] = []
        rule = RuleJudge(judge or (lambda view: [0.75, 0.25]))
        lineup = {seat: _speaker(seat, says, asks) for seat in protocol.speakers}
        (episode,) = Engine(protocol, rule, seed=0, **options).play([Plan("e", task, lineup, sides)])
        return Played(episode, asks, rule.views)

    return play


def _speaker(seat: str, says: Mapping[str, Says], asks: list[Ask]) -> ScriptedAgent:
    given = says.get(seat, says.get(seat.rpartition("-")[0], ()))
    lines = None if callable(given) else iter(given)

    def speak(ask: Ask) -> str | Act:
        asks.append(ask)
        return given(ask) if callable(given) else next(lines)  # type: ignore[arg-type]

    return ScriptedAgent(f"agent-{seat}", speak)
