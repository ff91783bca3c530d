"""Rewards from verdicts, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from arena.agents import ScriptedAgent, from_list
from arena.engine import Engine, Plan
from arena.judges import JudgeView
from arena.judging import ask_judge, judge_episodes, pay
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Task, Verdict, VerdictStatus

TASK = Task("t", {"answers": ("x", "y"), "evidence": ["e1", "e2", "e3"]}, 1)

GAME = """
name: game
fields: [answers, evidence]
roles:
  first: {{argues: 0, sees: [answers, evidence]}}
  second: {{argues: 1, sees: [answers, evidence]}}
  judge: {{sees: [answers], hears: quotes}}
nodes:
  one: {{speak: first, quote: {{field: evidence, form: whole, once: true}}}}
  two: {{speak: second, quote: {{field: evidence, form: whole, once: true}}}}
  verdict: {{judge: judge}}
edges:
  - start -> one -> two -> verdict -> end
  - {{from: two, to: one, times: 1}}
rewards: {{verdict: verdict, value: "{value}", pay: {pay}, bad_quote: -0.5}}
"""


def game(tmp_path: Path, value: str, pay_when: str) -> Protocol:
    path = tmp_path / "game.yaml"
    path.write_text(GAME.format(value=value, pay=pay_when))
    return load_protocol(path)


class Counting:
    """log p(x) - log p(y) = (good quotes) nats; nothing to decide before the first quote if ``picky``."""

    name = "counting"
    sees_label = False

    def __init__(self, *, picky: bool = False) -> None:
        self.picky = picky

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        verdicts = []
        for view in views:
            margin = float(len(view.quotes()))
            if self.picky and margin == 0:
                verdicts.append(Verdict(VerdictStatus.ABSTAIN, self.name))
                continue
            total = math.log(1 + math.exp(margin))
            verdicts.append(Verdict(VerdictStatus.SCORED, self.name, (margin - total, -total)))
        return verdicts


def play(protocol: Protocol, first: list[str], second: list[str], judge: Counting) -> list[float | None]:
    lineup: dict[str, ScriptedAgent] = {"first": from_list(first), "second": from_list(second)}
    episodes = Engine(protocol, judge, seed=0, judging=False).play([Plan("e", TASK, lineup)])
    return pay(protocol, judge, episodes, {"t": TASK})[0].rewards


def test_each_turn_earns_the_change_it_made(tmp_path: Path) -> None:
    protocol = game(tmp_path, "tanh(margin / 2)", "each_turn")
    rewards = play(protocol, ["e1", "e3"], ["e1", "nonsense"], Counting())
    gain = math.tanh(0.5), math.tanh(1.0)
    # first quotes e1; second repeats it (bad); first quotes e3; second makes one up (bad)
    assert rewards == pytest.approx([gain[0], -0.5, gain[1] - gain[0], -0.5])


def test_a_good_quote_that_helps_the_other_side_costs_its_speaker(tmp_path: Path) -> None:
    protocol = game(tmp_path, "margin", "each_turn")
    assert play(protocol, ["e1", "e1"], ["e2", "e3"], Counting()) == pytest.approx([1.0, -1.0, -0.5, -1.0])


def test_pay_at_the_end_gives_every_turn_the_final_value(tmp_path: Path) -> None:
    protocol = game(tmp_path, "won", "end")
    assert play(protocol, ["e1", "e1"], ["e2", "e3"], Counting()) == pytest.approx([1.0, 0.0, 0.5, 0.0])


def test_an_undecidable_verdict_pays_nobody_and_is_not_a_loss(tmp_path: Path) -> None:
    protocol = game(tmp_path, "margin", "each_turn")
    rewards = play(protocol, ["e1", "e2"], ["e3", "zz"], Counting(picky=True))
    assert rewards[0] is None
    assert rewards[1:] == pytest.approx([-1.0, 1.0, -0.5])


def test_stored_transcripts_are_judged_again_without_playing(tmp_path: Path) -> None:
    protocol = game(tmp_path, "margin", "end")
    lineup = {"first": from_list(["e1", "e2"]), "second": from_list(["e3", "no"])}
    episodes = Engine(protocol, Counting(), seed=0).play([Plan("e", TASK, lineup)])
    again = judge_episodes(protocol, Counting(), episodes, {"t": TASK})
    assert again == [episodes[0].verdicts["verdict"]]


def test_a_protocol_without_rewards_cannot_be_trained_on(tmp_path: Path) -> None:
    text = GAME.format(value="margin", pay="end")
    path = tmp_path / "game.yaml"
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith("rewards")))
    with pytest.raises(ConfigError, match="has no 'rewards:'"):
        pay(load_protocol(path), Counting(), [], {})


def test_turns_of_one_superstep_share_the_change_that_it_made(tmp_path: Path) -> None:
    path = tmp_path / "game.yaml"
    text = GAME.format(value="margin", pay="each_turn")
    path.write_text(
        text.replace("start -> one -> two -> verdict", "start -> one & two -> verdict").replace(
            "  - {from: two, to: one, times: 1}\n", ""
        )
    )
    protocol = load_protocol(path)
    # Both quote at the same time and blindly: two good quotes move the margin to 2 for the first and -2 for the second.
    assert play(protocol, ["e1"], ["e2"], Counting()) == pytest.approx([2.0, -2.0])


class Fails(Counting):
    """Fails on views with a quote of e3, and on every batch that holds one."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        if any("e3" in view.quotes() for view in views):
            raise TimeoutError("no answer")
        return super().judge(views)


def test_a_judge_that_fails_on_one_transcript_pays_the_others(tmp_path: Path) -> None:
    protocol = game(tmp_path, "margin", "end")
    second = from_list(["e2", "zz"])
    plans = [Plan(f"e{i}", TASK, {"first": from_list([f"e{i}", "no"]), "second": second}) for i in (1, 3)]
    episodes = Engine(protocol, Fails(), seed=0, judging=False).play(plans)
    payoffs = pay(protocol, Fails(), episodes, {"t": TASK})
    assert payoffs[0].rewards == pytest.approx([2.0, -2.0, 1.5, -2.5])
    assert payoffs[1].rewards == [None] * 4
    assert payoffs[1].verdict.status is VerdictStatus.TRANSPORT
    assert "no answer" in payoffs[1].verdict.evidence["reason"]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "something else than a list of verdicts"),
        (["A"], "something else than a list of verdicts"),
        ([], "0 verdicts on 1 views"),
        ([Verdict(VerdictStatus.SCORED, "odd", (0.0,))], "1 log-probs for 2 answers"),
        ([Verdict(VerdictStatus.TIE, "odd")], "0 log-probs for 2 answers"),
        ([Verdict(VerdictStatus.SCORED, "odd", (math.nan, 0.0))], "no distribution"),
        ([Verdict(VerdictStatus.SCORED, "odd", (5.0, 3.0))], "no distribution"),
    ],
)
def test_a_judge_that_breaks_its_contract_is_named(answer: object, told: str) -> None:
    class Odd:
        name = "odd"
        sees_label = False

        def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
            return answer  # type: ignore[return-value]

    with pytest.raises(BackendError, match=f"judge 'odd' gave .*{told}"):
        ask_judge(Odd(), [JudgeView("e", "q", ("x", "y"), [], {}, None, (0, 1))])
