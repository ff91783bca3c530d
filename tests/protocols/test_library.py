"""The protocols that ship: each is sound, and plays as its golden transcript says.

``golden/NAME.yaml`` is a script: a task, what each role says in its turns (attempts and candidates included), and the
probabilities that each judge gives, in the order in which it is asked. ``golden/NAME.txt`` is the transcript with all
that the roles were told. After a change that is meant, ``ARENA_GOLDEN=write pytest tests/protocols/test_library.py``
writes them anew; read the diff.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arena.agents.scripted import ScriptedAgent, fixed, from_list, from_script
from arena.agents.types import Ask
from arena.engine import Engine, Plan
from arena.judges.types import JudgeView
from arena.protocols import library, load_protocol
from arena.protocols.documents import read_document
from arena.protocols.records import Task, Verdict, VerdictStatus
from arena.transcripts import JudgeRecorder, Recorder, format_episode

GOLDEN = Path(__file__).parent / "golden"
SCRIPTS = sorted(path.stem for path in GOLDEN.glob("*.yaml"))
FOLDER = Path(load_protocol.__code__.co_filename).parent / "library"


class Script:
    """What is played, as `golden/NAME.yaml` says it."""

    def __init__(self, name: str) -> None:
        data: Any = read_document(GOLDEN / f"{name}.yaml").data
        self.protocol: str = data.get("protocol", name)
        self.params: dict[str, Any] = data.get("params", {})
        self.sides: tuple[int, ...] | None = tuple(data["sides"]) if "sides" in data else None
        self.says: dict[str, list[str]] = data.get("says", {})
        self.verdicts: dict[str, list[list[float]]] = data.get("verdicts", {})
        fields = dict(data["task"])
        self.task = Task(name, fields, fields.pop("label", None))

    def speaker(self) -> ScriptedAgent:
        return from_script(self.says, name="script")

    def judge(self, seat: str) -> JudgeRecorder:
        return JudgeRecorder(FixedJudge(seat, self.verdicts.get(seat, [])))


class FixedJudge:
    """Gives the probabilities of a list, one after the other."""

    sees_label = False

    def __init__(self, name: str, probabilities: Sequence[Sequence[float]]) -> None:
        self.name = name
        self.left = list(probabilities)

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [Verdict(VerdictStatus.SCORED, self.name, tuple(map(math.log, self.left.pop(0)))) for _ in views]


def play(name: str) -> str:
    script = Script(name)
    protocol = load_protocol(script.protocol, script.params)
    asks: list[Ask] = []
    lineup = {seat: Recorder(script.speaker(), asks) for seat in protocol.speakers}
    judges = {seat: script.judge(seat) for seat in protocol.judging_seats}
    engine = Engine(protocol, judges, seed=0)
    (episode,) = engine.play([Plan("golden", script.task, lineup, script.sides)])
    for seat, judge in judges.items():
        assert judge.inner.left == [], f"{seat} has verdicts left"
    for seat, lines in script.says.items():
        assert len(lines) == len(episode.turns_of(seat)), f"{seat} has lines left"
    return format_episode(episode, protocol, script.task, asks, {seat: judge.views for seat, judge in judges.items()})


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_protocol_plays_as_its_golden_transcript_says(name: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    transcript = play(name)
    if os.environ.get("ARENA_GOLDEN") == "write":
        golden.write_text(transcript, encoding="utf-8")
    assert transcript == golden.read_text(encoding="utf-8")


def test_every_protocol_that_ships_has_a_golden_transcript() -> None:
    assert library().keys() == {Script(name).protocol for name in SCRIPTS}
    assert sorted(path.stem for path in GOLDEN.glob("*.txt")) == SCRIPTS


@pytest.mark.parametrize("name", library())
def test_a_protocol_that_ships_says_what_it_is(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.name == name
    assert protocol.summary
    assert len(protocol.summary) <= 130
    assert protocol.paper or name == "evidence-oracle"


@pytest.mark.parametrize("name", library())
def test_editors_find_the_schema_in_the_first_line(name: str) -> None:
    first = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=../protocol.schema.json"


def test_the_table_of_the_docs_names_them_all() -> None:
    tour = Path(__file__).parent.parent.parent / "docs" / "protocols.md"
    if not tour.is_file():
        pytest.skip("the tests run without the source tree")
    rows = [line for line in tour.read_text(encoding="utf-8").splitlines() if line.startswith("| [")]
    named = [re.findall(r"\[([a-z-]+)\]\(../protocols/library/\1.yaml\)", row.split("|")[1]) for row in rows]
    assert {name for names in named for name in names} == library().keys()


_MOVES: dict[str, tuple[list[str], list[str], str]] = {
    # What the first and the second player say, and what the first one wins: the ante, or ante and bet, or by the card.
    "check-check": (["check"], ["check"], "1 by the card"),
    "check-bet-fold": (["check", "fold"], ["bet"], "-1"),
    "check-bet-call": (["check", "call"], ["bet"], "2 by the card"),
    "bet-fold": (["bet"], ["fold"], "1"),
    "bet-call": (["bet"], ["call"], "2 by the card"),
}


@pytest.mark.parametrize("history", _MOVES)
@pytest.mark.parametrize("cards", ["JQ", "JK", "QJ", "QK", "KJ", "KQ"])
def test_kuhn_poker_pays_by_the_rules(history: str, cards: str) -> None:
    first, second, rule = _MOVES[history]
    protocol = load_protocol("kuhn-poker")
    lineup = {"first": from_list(first), "second": from_list(second)}
    task = Task("deal", {"card_one": cards[0], "card_two": cards[1]})
    (episode,) = Engine(protocol, {}, seed=0).play([Plan("k", task, lineup)])
    chips, *by_card = rule.split(maxsplit=1)
    ahead = 1 if "JQK".index(cards[0]) > "JQK".index(cards[1]) else -1
    (payoff,) = [turn.fields["first"] for turn in episode.turns if turn.node == "payoff"]
    assert payoff == int(chips) * (ahead if by_card else 1)


_HANDS = ("rock", "paper", "scissors", "nothing at all")
_WINS = {("rock", "scissors"), ("paper", "rock"), ("scissors", "paper"), *((hand, _HANDS[3]) for hand in _HANDS[:3])}


@pytest.mark.parametrize("left", _HANDS)
@pytest.mark.parametrize("right", _HANDS)
def test_a_round_of_rock_paper_scissors_pays_by_the_rules(left: str, right: str) -> None:
    protocol = load_protocol("rock-paper-scissors", {"rounds": 1})
    plan = Plan("k", Task("hands", {}), {"left": fixed(left), "right": fixed(right)})
    (episode,) = Engine(protocol, {}, seed=0).play([plan])
    assert episode.turns[-1].fields["left"] == ((left, right) in _WINS) - ((right, left) in _WINS)
