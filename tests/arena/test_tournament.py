"""Tournaments: who met whom, what counted, and ratings that are known by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from arena.agents import ScriptedAgent
from arena.agents.types import Act, Ask
from arena.engine import Engine
from arena.judges import JudgeView
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Task, Verdict, VerdictStatus
from arena.tournament import Standings, check_pairing, entered, matches_of, pairing_plans, standings_of

FLOOR = -50.0


class Loudest:
    """Decides for whoever said the larger number, for the last answer if that is 0, and not at all if one said -1."""

    name = "loudest@1"
    sees_label = False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        verdicts = []
        for view in views:
            said = {int(s.text.split()[-1]): s.answer for s in view.statements}
            if -1 in said:
                verdicts.append(Verdict(VerdictStatus.ABSTAIN, self.name, evidence={"reason": "mute"}))
                continue
            best = said[max(said)] if max(said) > 0 else len(view.answers) - 1
            logps = tuple(0.0 if index == best else FLOOR for index in range(len(view.answers)))
            verdicts.append(Verdict(VerdictStatus.SCORED, self.name, logps))
        return verdicts


@pytest.fixture
def protocol() -> Protocol:
    return load_protocol("debate", {"rounds": 1})


def tasks(count: int, answers: tuple[str, ...] = ("x", "y")) -> list[Task]:
    return [Task(f"t{number}", {"question": "?", "answers": answers}, 0) for number in range(count)]


def numbers(*by_task: int) -> ScriptedAgent:
    return ScriptedAgent("numbers", lambda ask: str(by_task[int(ask.task.id[1:])]))


def play(protocol: Protocol, questions: list[Task], first: ScriptedAgent, second: ScriptedAgent) -> list[Episode]:
    lineups = {name: entered(name, dict.fromkeys(protocol.seats, a)) for name, a in (("one", first), ("two", second))}
    plans = pairing_plans(protocol, questions, "one", "two", lineups)
    return Engine(protocol, Loudest(), seed=0).play(plans)


def rate(protocol: Protocol, questions: list[Task], episodes: list[Episode], anchor: str | None = "two") -> Standings:
    return standings_of(protocol, episodes, questions, anchor=anchor, seed=0)


def test_each_pairing_is_played_from_both_seats_with_the_same_sides(protocol: Protocol) -> None:
    questions = tasks(2)
    episodes = play(protocol, questions, numbers(1, 1), numbers(2, 2))
    seats = [(e.key, e.lineup["proponent"], e.lineup["opponent"], e.sides) for e in episodes]
    assert seats == [
        ("one|two/t0/0", "one", "two", (0, 1)),
        ("one|two/t0/1", "two", "one", (0, 1)),
        ("one|two/t1/0", "one", "two", (1, 0)),
        ("one|two/t1/1", "two", "one", (1, 0)),
    ]
    assert {(m.pair, m.task) for m in matches_of(protocol, episodes, {t.id: t for t in questions})} == {
        ("one|two/t0", "t0"),
        ("one|two/t1", "t1"),
    }


def test_three_wins_to_one_are_four_hundred_times_log_three_points(protocol: Protocol) -> None:
    questions = tasks(4)
    standings = rate(protocol, questions, play(protocol, questions, numbers(2, 2, 2, 1), numbers(1, 1, 1, 2)))
    elo = {rating.name: rating.elo for rating in standings.ratings}
    assert elo == pytest.approx({"one": 400 * math.log10(3), "two": 0.0})
    assert (standings.matches, standings.note) == (8, "")
    assert standings.scores.score[0, 1] == pytest.approx(0.75)


def test_an_agent_that_wins_everything_is_rated_and_the_reader_told(protocol: Protocol) -> None:
    questions = tasks(3)
    standings = rate(protocol, questions, play(protocol, questions, numbers(2, 2, 2), numbers(1, 1, 1)))
    assert [rating.name for rating in standings.ratings] == ["one", "two"]
    assert math.isfinite(standings.ratings[0].elo)
    assert "prior" in standings.note


def test_games_without_a_verdict_for_a_seat_are_left_out_and_counted(protocol: Protocol) -> None:
    questions = tasks(4, ("x", "y", "z"))
    # undecided on t2; on t3 the judge decides for z, which nobody argued
    standings = rate(protocol, questions, play(protocol, questions, numbers(2, 1, -1, 0), numbers(1, 2, 1, -5)))
    assert standings.matches == 4
    assert "4 of 8 games had no decidable verdict for one of the seats" in standings.note
    assert standings.accuracy.undecidable == {"abstain": 2}
    assert {rating.name: rating.elo for rating in standings.ratings} == pytest.approx({"one": 0.0, "two": 0.0})


def test_nothing_decided_and_an_anchor_without_games_end_in_a_note(protocol: Protocol) -> None:
    questions = tasks(2)
    mute = rate(protocol, questions, play(protocol, questions, numbers(-1, -1), numbers(1, 1)))
    assert (mute.ratings, mute.matches) == ([], 0)
    assert mute.note.startswith("no ratings")
    episodes = play(protocol, questions, numbers(2, 1), numbers(1, 2))
    absent = rate(protocol, questions, episodes, anchor="three")
    assert len(absent.ratings) == 2
    assert absent.note == "no game of the anchor 'three' was decided, so the mean is at 0"


def test_a_lineup_of_several_agents_plays_under_one_name(protocol: Protocol) -> None:
    first, second = numbers(1), numbers(2)
    lineup = entered("team", {"proponent": first, "opponent": second})
    assert [agent.name for agent in lineup.values()] == ["team", "team"]
    assert lineup["proponent"] is not lineup["opponent"]


def test_protocols_in_which_nobody_can_meet_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="1 arguing seats; a pairing needs two"):
        check_pairing(load_protocol("consultancy"))


def test_an_agent_from_afar_is_asked_as_such_under_another_name() -> None:
    class FromAfar:
        name = "afar"

        async def answer(self, ask: Ask) -> Act:
            return Act("hello")

    lineup = entered("team", {"proponent": FromAfar(), "opponent": numbers(1)})
    assert [hasattr(agent, "answer") for agent in lineup.values()] == [True, False]
    assert [hasattr(agent, "act") for agent in lineup.values()] == [False, True]


COUNTED = """
name: counted
fields: [question, answers]
roles:
  debater: {argues: 0, count: 2, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  speech: {speak: debater}
  verdict: {judge: judge}
edges: [start -> speech -> verdict -> end]
"""


def test_the_two_seats_of_a_counted_role_can_meet(tmp_path: Path) -> None:
    path = tmp_path / "counted.yaml"
    path.write_text(COUNTED)
    protocol = load_protocol(path)
    questions = tasks(2)
    episodes = play(protocol, questions, numbers(2, 2), numbers(1, 1))
    assert [(e.lineup["debater-1"], e.lineup["debater-2"]) for e in episodes[:2]] == [("one", "two"), ("two", "one")]
    assert [m.score for m in matches_of(protocol, episodes, {t.id: t for t in questions})] == [1.0, 0.0, 1.0, 0.0]


VOTED = """
name: voted
fields: [question, answers]
roles:
  ann: {argues: 0, sees: [question, answers]}
  bob: {argues: 1, sees: [question, answers]}
nodes:
  a: {speak: ann, output: {choice: answers}}
  b: {speak: bob, output: {choice: answers}}
  vote: {vote: [a, b]}
edges: [start -> a & b -> vote -> end]
"""


def test_a_vote_on_the_answers_decides_a_game_and_a_speaking_judge_cannot_be_paired(tmp_path: Path) -> None:
    path = tmp_path / "voted.yaml"
    path.write_text(VOTED)
    check_pairing(load_protocol(path))
    path.write_text(VOTED.replace(", output: {choice: answers}", "").replace("{vote: [a, b]}", "{speak: ann}"))
    with pytest.raises(ConfigError, match="gives no verdict, so no game in it is ever decided"):
        check_pairing(load_protocol(path))
    path.write_text(
        COUNTED.replace("speech: {speak: debater}", "speech: {speak: debater}\n  asks: {speak: judge}").replace(
            "speech ->", "speech -> asks ->"
        )
    )
    with pytest.raises(ConfigError, match="'judge' of protocol 'counted' speaks without arguing"):
        check_pairing(load_protocol(path))
