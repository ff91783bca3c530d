"""Agents that say numbers and a judge that decides for the largest one: tournaments that are played in no time.

A plugin: once it is loaded, files may name ``number`` (``number:elo=80`` draws from a Gumbel distribution, so that the
chance to say the larger number is that of the Bradley-Terry model), ``script`` (``script:says="1 2 3"``, by task) and
the judge ``largest``.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from arena.agents import AGENTS, Act, Ask, ScriptedAgent
from arena.judges import JUDGES, JudgeView
from arena.protocols.records import Verdict, VerdictStatus

FLOOR = -50.0


@AGENTS.register("number", summary="says a number that is larger by strength")
def number(*, elo: float = 0.0, words: int = 0, name: str = "number") -> ScriptedAgent:
    """``words`` of padding before it; each counts as a token."""

    def say(ask: Ask) -> Act:
        gumbel = -math.log(-math.log(random.Random(ask.seed).random()))
        return Act(f"{'so ' * words}{elo / 400 * math.log(10) + gumbel:.9f}", visible_tokens=words + 1)

    return ScriptedAgent(name, say)


@AGENTS.register("script", summary="says a number by task")
def script(*, says: str, name: str = "script") -> ScriptedAgent:
    """The n-th number on task ``tn``; the last one on all others."""
    numbers = says.split()
    return ScriptedAgent(name, lambda ask: numbers[min(int(ask.task.id[1:]), len(numbers) - 1)])


class Largest:
    """Decides for whoever said the largest number, for neither if they are equal, and not at all if one is -1.

    It gives the right answer three quarters where nobody speaks but it may see a passage, and one half where not."""

    name = "largest@1"
    sees_label = False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """See `arena.judges.Judge`."""
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        said = {s.answer: float(s.text.split()[-1]) for s in view.statements}
        if -1.0 in said.values():
            return Verdict(VerdictStatus.ABSTAIN, self.name, evidence={"reason": "somebody is mute"})
        if not said:
            told = view.fields.get("passage")
            said = {0: 1.0} if told is None else {int(told.split()[-1]): 1.0}
        best = max(said.values())
        winners = [index for index in range(len(view.answers)) if said.get(index) == best]
        status = VerdictStatus.SCORED if len(winners) == 1 else VerdictStatus.TIE
        share = math.log(1 / len(winners))
        return Verdict(status, self.name, tuple(share if i in winners else FLOOR for i in range(len(view.answers))))


JUDGES.register("largest", summary="decides for the largest number")(Largest)


def write_tasks(path: Path, count: int, *, labels: bool = True) -> None:
    """Questions with two answers; labels alternate."""
    rows = []
    for index in range(count):
        row: dict[str, Any] = {"id": f"t{index}", "question": f"Q{index}?", "answers": ["yes", "no"]}
        row["passage"] = f"it is answer {index % 2}"
        rows.append(row | ({"label": index % 2} if labels else {}))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_file(path: Path, **changes: Any) -> Path:
    """A tournament of three agents on ``q.jsonl`` beside it."""
    agents = {"ann": "number:elo=0", "bob": "number:elo=100", "cy": "number:elo=200"}
    config: dict[str, Any] = {
        "tournament": "cup",
        "protocol": "debate",
        "params": {"rounds": 1},
        "tasks": "q.jsonl",
        "n": 6,
        "agents": agents,
        "judge": "largest",
    }
    config |= changes
    path.write_text(yaml.safe_dump({key: value for key, value in config.items() if value is not None}, sort_keys=False))
    return path
