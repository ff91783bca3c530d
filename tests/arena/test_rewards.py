"""Rewards of turns, worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from arena.agents import ScriptedAgent, from_list
from arena.engine import Engine, Plan
from arena.judges import JudgeView
from arena.protocols import Expression, Protocol, load_protocol
from arena.protocols.errors import ConfigError, NumericalError
from arena.protocols.graph import BestOf, Node, Reward, Role, Scope
from arena.protocols.records import Episode, Quote, Sampling, Task, TokenSpan, Turn, TurnStatus, Verdict, VerdictStatus
from arena.protocols.templates import Template
from arena.rewards import pay

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
        self.asked = 0

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        self.asked += len(views)
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


def test_a_protocol_without_rewards_cannot_be_trained_on(tmp_path: Path) -> None:
    protocol = replace(game(tmp_path, "margin", "end"), rewards=())
    with pytest.raises(ConfigError, match="has no 'rewards:'"):
        pay(protocol, Counting(), [], {})


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
    verdict = payoffs[1].verdict
    assert verdict is not None
    assert verdict.status is VerdictStatus.TRANSPORT
    assert "no answer" in verdict.evidence["reason"]


# -- transcripts and protocols made by hand: first and second argue, worker and checker do not


@pytest.fixture
def base(tmp_path: Path) -> Protocol:
    protocol = game(tmp_path, "margin", "end")
    worker, checker = Role("worker", ()), Role("checker", (), check="exact:field=x")
    more = [
        Node("work", "speak", worker, 3),
        Node("test", "verify", checker, 4, about=("work",)),
        Node("tally", "vote", Role("tally", ()), 5, about=("one", "two"), votes_on_answers=True),
        Node(
            "both", "vote", Role("both", ()), 6, about=("verdict", "second-verdict"), votes_on_answers=True, rule="mean"
        ),
        replace(protocol.nodes["verdict"], name="second-verdict", group="second-verdict"),
        Node("answer-1", "speak", worker, 7, group="answer"),
        Node("answer-2", "speak", worker, 8, group="answer"),
    ]
    nodes = {**protocol.nodes, **{node.name: node for node in more}}
    return replace(protocol, nodes=nodes, roles={**protocol.roles, "worker": worker, "checker": checker})


def reward(values: Mapping[str, str], *, verdict: str | None = None, **options: Any) -> Reward:
    return Reward(tuple(values), verdict, {seat: Expression(value) for seat, value in values.items()}, **options)


def turn(index: int, node: str, role: str, *, fields: Mapping[str, Any] | None = None, **options: Any) -> Turn:
    options = {"superstep": index, "visit": 0, "text": "", "answer": None, **options}
    return Turn(index=index, node=node, role=role, agent=role, fields=fields or {}, **options)


def paid(
    protocol: Protocol, turns: list[Turn], *rewards: Reward, task: Task = TASK, **options: Any
) -> list[float | None]:
    options = {"sides": (0, 1), **options}
    episode = Episode("e", "game", "t", {}, turns=turns, **options)
    return pay(replace(protocol, rewards=rewards), Counting(), [episode], {"t": task})[0].rewards


GOOD = (Quote("e1", True),)
BAD = (Quote("zz", False),)


def test_a_judge_that_never_ran_pays_nothing(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD)]
    value = reward({"first": "margin"}, verdict="verdict")
    assert paid(base, turns, value) == [None]
    assert paid(base, turns, value, judged={"verdict": (1,)}) == [1.0]


def test_turns_after_the_last_judgement_change_nothing_and_are_not_paid_by_the_change(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "one", "first", quotes=(Quote("e2", True),))]
    value = reward({"first": "margin"}, verdict="verdict", pay="each_turn")
    assert paid(base, turns, value, judged={"verdict": (1,)}) == [1.0, None]


def test_turns_of_a_failed_episode_earn_nothing_and_are_not_judged(base: Protocol) -> None:
    judge = Counting()
    episode = Episode(
        "e",
        "game",
        "t",
        {},
        (0, 1),
        [turn(0, "one", "first")],
        stop="error",
        error="one: down",
        judged={"verdict": (1,)},
    )
    protocol = replace(base, rewards=(reward({"first": "margin"}, verdict="verdict"),))
    (payoff,) = pay(protocol, judge, [episode], {"t": TASK})
    assert (payoff.rewards, payoff.verdict, judge.asked) == ([None], None, 0)


def test_rewards_add_up_and_each_pays_its_own_roles(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "two", "second"), turn(2, "work", "worker")]
    both = [
        reward({"first": "won", "second": "won"}, verdict="verdict"),
        reward({"second": "0.25", "worker": "1"}, pay="end"),
    ]
    assert paid(base, turns, *both, judged={"verdict": (2,)}) == [1.0, 0.25, 1.0]


def test_a_role_is_paid_for_the_answer_that_it_argues_at_the_end(base: Protocol) -> None:
    turns = [turn(0, "one", "first", answer=0, quotes=GOOD)]
    value = reward({"first": "margin"}, verdict="verdict")
    assert paid(base, turns, value, judged={"verdict": (1,)}, sides=(1, 0)) == [-1.0]


def test_correct_is_about_the_own_answer_and_for_who_argues_none_about_the_verdict(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "two", "second"), turn(2, "work", "worker")]
    value = reward({"first": "correct", "second": "correct", "worker": "correct"}, verdict="verdict")
    # The judge decides for x, which is wrong; second argues y, which is right.
    assert paid(base, turns, value, judged={"verdict": (3,)}) == [0.0, 1.0, 0.0]
    unlabelled = Task("t", TASK.fields)
    with pytest.raises(ConfigError, match="uses 'correct', which task 't' does not have"):
        paid(base, turns, value, judged={"verdict": (3,)}, task=unlabelled)
    with pytest.raises(ConfigError, match="uses 'won', but 'worker' argues no answer"):
        paid(base, turns, reward({"worker": "won"}, verdict="verdict"), judged={"verdict": (3,)})


def test_values_read_the_fields_of_the_last_turns_of_nodes(base: Protocol) -> None:
    turns = [
        turn(0, "work", "worker", text="a b c"),
        turn(1, "test", "checker", fields={"score": 0.2}),
        turn(2, "test", "checker", fields={"score": 0.7}),
    ]
    assert paid(base, turns, reward({"worker": "test.score - work.words / 10"})) == [pytest.approx(0.4), None, None]


def test_a_node_that_never_ran_pays_nothing_unless_the_value_asks_for_it(base: Protocol) -> None:
    turns = [turn(0, "work", "worker")]
    assert paid(base, turns, reward({"worker": "test.score"})) == [None]
    assert paid(base, turns, reward({"worker": "1 - test.score"})) == [None]
    assert paid(base, turns, reward({"worker": "0 if test.score == none else 1"})) == [0.0]
    assert paid(base, turns, reward({"worker": "test.visits + work.visits"})) == [1.0]


def test_a_group_is_a_tuple_over_its_nodes(base: Protocol) -> None:
    turns = [
        turn(0, "answer-1", "worker", fields={"choice": "x"}),
        turn(1, "answer-2", "worker", fields={"choice": "y"}),
    ]
    assert paid(base, turns, reward({"worker": "count(answer.choice, 'x')"})) == [1.0, 1.0]
    assert paid(base, turns, reward({"worker": "1 if answer_2.choice == 'y' else 0"})) == [1.0, 1.0]


@pytest.mark.parametrize("k", [800, -1, 10**400, 1e300, "much", ["much"], None])
def test_what_has_no_value_for_what_was_said_is_not_paid(base: Protocol, k: Any) -> None:
    # exp and product overflow, there is no log; texts and lists are no numbers.
    value = reward({"worker": "exp(work.k) * log(work.k) * 1e300"})
    assert paid(base, [turn(0, "work", "worker", fields={"k": k})], value) == [None]
    assert paid(base, [turn(0, "work", "worker", fields={"k": k})], value, reward({"worker": "1"})) == [None]


@pytest.mark.parametrize("x", ["much", 10**400, math.inf, math.nan, None])
def test_what_is_no_finite_number_is_not_paid(base: Protocol, x: Any) -> None:
    assert paid(base, [turn(0, "work", "worker", fields={"x": x})], reward({"worker": "work.x"})) == [None]


def test_low_level_turns_earn_what_the_next_check_finds(base: Protocol) -> None:
    turns = [
        turn(0, "work", "worker"),
        turn(1, "test", "checker", fields={"score": 0.0}),
        turn(2, "work", "worker"),
        turn(3, "test", "checker", fields={"score": 1.0}),
        turn(4, "work", "worker"),
    ]
    low = reward({"worker": "test.score"}, pay="next")
    assert paid(base, turns, low) == [0.0, None, 1.0, None, None]
    high = reward({"worker": "10"})
    assert paid(base, turns, low, high) == [10.0, None, 11.0, None, 10.0]


def test_what_runs_in_the_same_superstep_is_not_next(base: Protocol) -> None:
    turns = [turn(0, "work", "worker"), turn(1, "test", "checker", superstep=0, fields={"score": 1.0})]
    assert paid(base, turns, reward({"worker": "test.score"}, pay="next")) == [None, None]


def test_the_next_verdict_of_a_judge_is_the_one_on_the_transcript_as_it_was(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "one", "first", quotes=(Quote("e2", True),))]
    value = reward({"first": "margin"}, verdict="verdict", pay="next")
    assert paid(base, turns, value, judged={"verdict": (1, 2)}) == [1.0, 2.0]


def test_a_turn_earns_its_own_value(base: Protocol) -> None:
    span = TokenSpan((1,), (2, 3, 4), None, "p", Sampling(), thinking=2)
    turns = [
        turn(0, "work", "worker", text="a b", fields={"x": 3}, quotes=BAD),
        turn(1, "work", "worker", text="a, b", fields={"x": None}, status=TurnStatus.PARSE_ERROR, tokens=span),
        turn(2, "answer-1", "worker", text="well, yes"),
        turn(3, "answer-1", "worker", text="", visible_tokens=7),
    ]
    assert paid(base, turns, reward({"worker": "words"}, pay="turn")) == [2.0, 2.0, 2.0, 0.0]
    assert paid(base, turns, reward({"worker": "tokens"}, pay="turn")) == [2.0, 1.0, 3.0, 7.0]
    assert paid(base, turns, reward({"worker": "0 if ok else -1"}, pay="turn")) == [0.0, -1.0, 0.0, 0.0]
    assert paid(base, turns, reward({"worker": "-bad_quotes"}, pay="turn", bad_quote=-0.5)) == [-1.5, 0.0, 0.0, 0.0]
    # x: none of a turn that could not be read; nothing of a node without it, so that other rewards still pay.
    own = reward({"worker": "x"}, pay="turn")
    assert paid(base, turns, own) == [3.0, None, None, None]
    assert paid(base, turns, own, reward({"worker": "1"})) == [4.0, None, 1.0, 1.0]


def test_failed_attempts_earn_by_turn_only_and_lost_candidates_nothing(base: Protocol) -> None:
    best = replace(base.nodes["one"], best_of=BestOf(2, None, Expression("words")))
    protocol = replace(base, nodes={**base.nodes, "one": best})
    failed = TurnStatus.PARSE_ERROR
    turns = [
        turn(0, "work", "worker", kept=False, status=failed, superstep=0),
        turn(1, "work", "worker", attempt=1, superstep=0),
        turn(2, "one", "first", kept=False, superstep=1),
        turn(3, "one", "first", sample=1, superstep=1),
    ]
    form = reward({"worker": "0 if ok else -1", "first": "1"}, pay="turn")
    assert paid(protocol, turns, form) == [-1.0, 0.0, None, 1.0]
    assert paid(protocol, turns, form, reward({"worker": "5", "first": "5"})) == [-1.0, 5.0, None, 6.0]


def test_zero_sum_is_checked_where_all_values_are_known(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "two", "second")]
    fair = reward({"first": "margin", "second": "margin"}, verdict="verdict", zero_sum=True)
    assert paid(base, turns, fair, judged={"verdict": (2,)}) == [1.0, -1.0]
    unfair = reward({"first": "margin", "second": "0"}, verdict="verdict", zero_sum=True)
    assert paid(base, turns, unfair) == [None, None]
    with pytest.raises(NumericalError, match=r"protocol 'game', episode 'e': .*'first': 1.0.*'second': 0.0"):
        paid(base, turns, unfair, judged={"verdict": (2,)})


def test_zero_sum_pays_all_roles_or_none(base: Protocol) -> None:
    turns = [turn(0, "one", "first", fields={"k": 1}), turn(1, "two", "second", fields={"k": None})]
    value = {"first": "one.k", "second": "two.k"}
    assert paid(base, turns, reward(value)) == [1.0, None]
    assert paid(base, turns, reward(value, zero_sum=True)) == [None, None]
    turns[1].fields = {"k": -1}
    assert paid(base, turns, reward(value, zero_sum=True)) == [1.0, -1.0]


def test_a_verdict_pays_nobody_zero_sum_where_both_argue_the_same_answer(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "two", "second")]
    value = {"first": "2 * won - 1", "second": "2 * won - 1"}
    judged = {"verdict": (2,)}
    fair = reward(value, verdict="verdict", zero_sum=True)
    assert paid(base, turns, fair, judged=judged) == [1.0, -1.0]
    assert paid(base, turns, fair, judged=judged, sides=(1, 1)) == [None, None]
    assert paid(base, turns, reward(value, verdict="verdict"), judged=judged, sides=(1, 1)) == [-1.0, -1.0]


def test_a_vote_on_answers_pays_by_its_stored_verdict(base: Protocol) -> None:
    turns = [turn(0, "one", "first"), turn(1, "tally", "tally", fields={"choice": "y"})]
    stored = {"tally": Verdict(VerdictStatus.SCORED, "tally", (math.log(0.25), math.log(0.75)))}
    value = reward({"first": "p", "second": "p"}, verdict="tally")
    assert paid(base, turns, value, verdicts=stored) == [pytest.approx(0.25), None]
    assert paid(base, turns, value) == [None, None]


def test_judges_that_a_vote_combines_are_asked(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "one", "first", quotes=(Quote("e2", True),))]
    value = reward({"first": "p"}, verdict="both")
    # One judge ran after the first quote, the other after the second: p is 1/(1+e^-1) and 1/(1+e^-2).
    mean = (1 / (1 + math.exp(-1)) + 1 / (1 + math.exp(-2))) / 2
    assert paid(base, turns, value, judged={"verdict": (1,), "second-verdict": (2,)}) == [pytest.approx(mean)] * 2


def test_values_may_name_what_a_judge_decided(base: Protocol) -> None:
    turns = [turn(0, "one", "first", quotes=GOOD), turn(1, "work", "worker")]
    judged = {"verdict": (2,)}
    assert paid(base, turns, reward({"worker": "verdict.margin"}), judged=judged)[1] == pytest.approx(1.0)
    assert paid(base, turns, reward({"worker": "1 if verdict.winner == 'first' else 0"}), judged=judged)[1] == 1.0
    assert paid(base, turns, reward({"worker": "1 if verdict.choice == 'y' else 0"}), judged=judged)[1] == 0.0


def test_a_nested_verdict_on_answers_of_its_own_pays_who_argued_them(base: Protocol) -> None:
    true_false = (Template("true"), Template("false"))
    inner = Scope("sub", {}, ("answers",), bound={"answers": true_false}, parent=base.scope)
    con = Role("sub.con", ("answers",), argues=1, seat="first", scope=inner)
    judge = Role("sub.judge", ("answers",), is_judge=True, seat="judge", scope=inner)
    more = [Node("sub.con", "speak", con, 20, scope=inner), Node("sub.verdict", "judge", judge, 21, scope=inner)]
    nested = replace(
        base,
        nodes={**base.nodes, **{node.name: node for node in more}},
        roles={**base.roles, "sub.con": con, "sub.judge": judge},
    )
    stored = {"sub.verdict": Verdict(VerdictStatus.SCORED, "j", (math.log(0.25), math.log(0.75)))}
    turns = [turn(0, "sub.con", "first")]
    # first argues side 0 of the task, but "false" of the nested question.
    value = reward({"first": "p"}, verdict="sub.verdict")
    assert paid(nested, turns, value, inner_verdicts=stored, judged={"sub.verdict": (1,)}) == [pytest.approx(0.75)]
    with pytest.raises(ConfigError, match="'correct', which task 't' does not have"):
        paid(nested, turns, reward({"first": "correct"}, verdict="sub.verdict"), inner_verdicts=stored)
