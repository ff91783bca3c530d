"""Orders of the answers, and one distribution out of several."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from arena.judges.orders import average, combine, presentations, respoken, speaking_orders, state, strengths
from arena.judges.types import Statement
from arena.protocols.errors import ConfigError
from arena.protocols.records import VerdictStatus
from arena.protocols.stated import Stated

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors_public.json").read_text(encoding="utf-8"))


def logs(*shares):
    return [math.log(share) for share in shares]


def test_two_orders_are_combined_as_the_golden_vectors_say():
    (case,) = [case for case in VECTORS["cases"] if case["algo"] == "judge_swap_average"]
    inputs = case["inputs"]
    found = []
    for first_ab, first_ba in zip(inputs["p_ab"], inputs["p_ba"], strict=True):  # p of whoever stands first
        by_order = [logs(first_ab, 1 - first_ab), logs(1 - first_ba, first_ba)]
        whole, _ = combine([(0, 1), (1, 0)], by_order, 2, "probs")
        found.append(math.exp(whole[0]))
    assert found == pytest.approx(case["expected"]["p_a"], abs=1e-12)


def test_a_preference_for_a_place_cancels_in_the_mean_of_log_probs():
    signal, place = 0.7, 3.0  # log-odds
    by_order = [
        logs(1 / (1 + math.exp(-signal - sign * place)), 1 / (1 + math.exp(signal + sign * place))) for sign in (1, -1)
    ]
    assert average(by_order, "logps")[0] == pytest.approx(-math.log1p(math.exp(-signal)))
    assert math.exp(average(by_order, "probs")[0]) == pytest.approx(
        (math.exp(by_order[0][0]) + math.exp(by_order[1][0])) / 2
    )


@pytest.mark.parametrize("count", [2, 3, 5, 26])
def test_every_answer_stands_in_every_place_once(count):
    orders = presentations(count)
    assert len(orders) == count
    assert all(sorted(column) == list(range(count)) for column in zip(*orders, strict=True))
    pairs = presentations(count, "pairs")
    assert sorted(pairs) == sorted(itertools.permutations(range(count), 2))


def test_one_answer_is_nothing_to_decide():
    with pytest.raises(ConfigError, match="between 1 answers"):
        presentations(1)


def test_for_two_answers_pairs_are_the_same_as_all():
    assert presentations(2) == presentations(2, "pairs")


def test_pairs_that_agree_with_strengths_give_them_back():
    truth = np.array([1.2, -0.4, 0.1, -0.9])
    pairs = {}
    for i, j in itertools.combinations(range(4), 2):
        p = 1 / (1 + math.exp(truth[j] - truth[i]))
        pairs[i, j] = logs(p, 1 - p)
    assert strengths(pairs, 4) == pytest.approx(truth.tolist())
    orders = presentations(4, "pairs")
    by_order = [pairs[tuple(sorted(order))] for order in orders]
    whole, evidence = combine(orders, by_order, 4, "probs")
    assert np.exp(whole) == pytest.approx(np.exp(truth) / np.exp(truth).sum())
    assert evidence["order_consistent"]


@settings(max_examples=30)
@given(st.lists(st.floats(0.02, 0.98), min_size=6, max_size=6))
def test_strengths_are_the_likeliest_ones(shares):
    pairs = {pair: logs(p, 1 - p) for pair, p in zip(itertools.combinations(range(4), 2), shares, strict=True)}

    def loss(s):
        terms = [(p, 1 - p, s[i] - s[j]) for (i, j), p in zip(pairs, shares, strict=True)]
        return sum(a * np.logaddexp(0, -gap) + b * np.logaddexp(0, gap) for a, b, gap in terms) + 1e-12 * s @ s

    best = minimize(loss, np.zeros(4), tol=1e-12).x
    assert strengths(pairs, 4) == pytest.approx((best - best.mean()).tolist(), abs=1e-4)


def test_pairs_that_are_certain_have_finite_strengths():
    pairs = {(0, 1): (-1e-13, -30.0), (1, 2): (-1e-13, -30.0), (0, 2): (-800.0, 0.0)}
    found = strengths(pairs, 3)
    assert all(map(math.isfinite, found))


def test_an_order_that_changes_the_choice_is_told():
    _, evidence = combine([(0, 1), (1, 0)], [logs(0.6, 0.4), logs(0.3, 0.7)], 2, "probs")
    assert not evidence["order_consistent"]
    assert [each["order"] for each in evidence["orders"]] == [[0, 1], [1, 0]]


def test_what_is_stated_counts_if_it_is_stated_wherever_it_is_shown():
    orders = presentations(3, "pairs")  # 01 10 02 20 12 21
    winner = [Stated(order.index(2) if 2 in order else 0) for order in orders]
    assert state(orders, winner) == Stated(2)
    circle = {frozenset((0, 1)): 0, frozenset((1, 2)): 1, frozenset((0, 2)): 2}
    said = [Stated(order.index(circle[frozenset(order)])) for order in orders]
    assert state(orders, said).status is VerdictStatus.CONTRADICTORY
    said[3] = Stated(None, VerdictStatus.TRUNCATED, "states none of the 2 answers")
    found = state(orders, said)
    assert (found.status, found.reason) == (
        VerdictStatus.TRUNCATED,
        "in the order 3 1 it states none of the 2 answers",
    )


def said(*answers):
    return [Statement("pro" if answer == 0 else "con", answer, str(number)) for number, answer in enumerate(answers)]


def test_each_side_speaks_first_in_every_round_equally_often():
    assert speaking_orders((1, 0), "balanced") == [(0, 1), (1, 0)]
    assert speaking_orders((2, 0, 1), "balanced") == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert speaking_orders((1, 0)) == [()]
    made = said(0, 1, 0, 1)
    assert [each.text for each in respoken(made, (1, 0))] == ["1", "0", "3", "2"]
    assert respoken(made, (0, 1)) == respoken(made, ()) == made


def test_what_argues_for_nothing_stays_in_its_place_and_no_statement_is_lost():
    made = said(None, 0, None, 1, 1)
    assert [each.text for each in respoken(made, (1, 0))] == ["0", "3", "2", "1", "4"]
    assert [each.text for each in respoken(said(0, 0, 1), (1, 0))] == ["2", "0", "1"]


@given(st.lists(st.sampled_from([0, 1, 2, None]), max_size=9), st.permutations([0, 1, 2]))
def test_statements_of_one_side_keep_their_order(answers, speakers):
    made = said(*answers)
    found = respoken(made, tuple(speakers))
    assert sorted(each.text for each in found) == sorted(each.text for each in made)
    for side in (0, 1, 2, None):
        kept = [each.text for each in found if each.answer == side]
        assert kept == [each.text for each in made if each.answer == side]
