"""Reward models where protocols use judges: picking candidates, paying turns, deciding debates."""

from __future__ import annotations

import pytest
import torch

from arena.agents import ScriptedAgent
from arena.agents.models import tiny
from arena.engine import Engine, Plan
from arena.judges.process_reward import ProcessRewardJudge
from arena.judges.reward_model import RewardModelJudge
from arena.judges.reward_network import RewardNetwork
from arena.judges.reward_opening import attach_head
from arena.protocols.records import Task, VerdictStatus
from arena.rewards import pay

TASK = Task("t", {"question": "who", "answers": ("ann", "bob")}, 0)

PICKED = """
name: picked
fields: [question]
roles:
  solver: {sees: [question]}
  rater: {sees: [question]}
nodes:
  answer: {speak: solver, prompt: Go., best_of: {n: 4, by: rater, value: score}}
edges: [start -> answer -> end]
"""

PAID = """
name: paid
fields: [question, answers]
roles:
  pro: {argues: 0, sees: [question, answers]}
  con: {argues: 1, sees: [question, answers]}
  judge: {sees: [question, answers]}
nodes:
  a: {speak: pro, prompt: Go.}
  b: {speak: con, prompt: Go.}
  verdict: {judge: judge}
edges:
  - start -> a -> b -> verdict -> end
  - {from: b, to: a, times: 1}
rewards: {verdict: verdict, value: {pro: score, con: score}, pay: PAY, zero_sum: false}
"""


@pytest.fixture(scope="module")
def scorer():
    model = tiny("who ann bob x{0..9}", hidden=16, intermediate=32, layers=1, heads=2, initializer_range=0.4, seed=0)
    head = attach_head(model)
    with torch.no_grad():
        head.score.weight.copy_(torch.randn(1, 16, generator=torch.Generator().manual_seed(0)))
    return RewardNetwork(head, model.encoder)


def spoken(protocol, judge, lines):
    """One episode in which each role says its lines."""
    said = {seat: iter(lines[seat]) for seat in protocol.speakers}
    lineup = {seat: ScriptedAgent(seat, lambda ask, seat=seat: next(said[seat])) for seat in protocol.speakers}
    (episode,) = Engine(protocol, judge, seed=0).play([Plan("e", TASK, lineup, (0, 1))])
    return episode


def score(scorer, words):
    question, _, reply = words.partition("|")
    return scorer.score([scorer.encode(question, reply)])[0]


def test_the_candidate_with_the_best_score_is_said(compiled, scorer) -> None:
    words = ["x1", "x2", "x3", "x4"]
    episode = spoken(compiled(PICKED), RewardModelJudge(scorer), {"solver": words})
    best = max(words, key=lambda word: score(scorer, f"who|{word}"))
    assert [turn.text for turn in episode.turns if turn.kept] == [best]


def test_a_debate_is_decided_by_the_scores_of_both_sides(compiled, scorer) -> None:
    judge = RewardModelJudge(scorer)
    episode = spoken(compiled(PAID.replace("PAY", "end")), judge, {"pro": ["x1", "x2"], "con": ["x3", "x4"]})
    verdict = episode.verdicts["verdict"]
    expected = (score(scorer, "who ann|x1 x2"), score(scorer, "who bob|x3 x4"))
    assert verdict.status is VerdictStatus.SCORED
    assert verdict.scores == pytest.approx(expected, abs=1e-6)
    (payoff,) = pay(compiled(PAID.replace("PAY", "end")), judge, [episode], {"t": TASK})
    assert [payoff.rewards[0], payoff.rewards[1]] == pytest.approx(list(expected), abs=1e-6)


def test_process_rewards_pay_each_turn_for_the_change_that_it_made(compiled, scorer) -> None:
    judge = ProcessRewardJudge(scorer, outcome="last", unargued=True)
    protocol = compiled(PAID.replace("PAY", "each_turn"))
    episode = spoken(protocol, judge, {"pro": ["x1", "x2"], "con": ["x3", "x4"]})
    (payoff,) = pay(protocol, judge, [episode], {"t": TASK})
    worth = [score(scorer, f"who ann|{reply}") for reply in ("x1", "x1 x2")]
    assert payoff.rewards[2] == pytest.approx(worth[1] - worth[0], abs=1e-6)
