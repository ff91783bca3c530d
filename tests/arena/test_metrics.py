"""Metrics by hand, from papers, and beside scikit-learn; the golden vectors are in tests/test_golden.py."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as reference

from arena.metrics import (
    Bin,
    brier,
    cohen_kappa,
    ece,
    fleiss_kappa,
    judge_swap_average,
    mcc,
    mcnemar,
    order_consistency,
    paired_permutation,
    reliability,
)
from arena.protocols.errors import ConfigError

labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=40).filter(
    lambda pairs: len({label for pair in pairs for label in pair}) > 1
)


def test_brier_of_two_classes_is_twice_that_of_the_event() -> None:
    assert brier([0.8, 0.3], [1, 0]) == pytest.approx((0.2**2 + 0.3**2) / 2)
    assert brier([[0.2, 0.8], [0.7, 0.3]], [1, 0]) == pytest.approx(0.2**2 + 0.3**2)


def test_confidences_on_an_edge_belong_to_the_bin_below() -> None:
    found = reliability([0.0, 0.3, 0.300001, 0.7, 1.0], [0, 1, 0, 1, 1], bins=10)
    assert [(each.low, each.high, each.count) for each in found] == [
        (0.0, 0.1, 1),
        (0.2, 0.3, 1),
        (0.3, 0.4, 1),
        (0.6, 0.7, 1),
        (0.9, 1.0, 1),
    ]
    assert found[1] == Bin(0.2, 0.3, 1, 0.3, 1.0)


def test_calibration_error_is_weighted_and_its_maximum_is_not() -> None:
    conf, correct = [0.9, 0.9, 0.9, 0.6], [1, 1, 0, 0]  # gaps |2/3 - 0.9| of three, 0.6 of one
    assert ece(conf, correct) == pytest.approx((3 * (0.9 - 2 / 3) + 0.6) / 4)
    assert ece(conf, correct, kind="mce") == pytest.approx(0.6)


@given(labels)
def test_mcc_is_that_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    truth, said = zip(*pairs, strict=True)
    assert mcc(truth, said) == pytest.approx(reference.matthews_corrcoef(truth, said), abs=1e-12)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
def test_cohens_kappa_is_that_of_scikit_learn(weights: Any) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(0, 4, 200)
    b = np.where(rng.random(200) < 0.5, a, rng.integers(0, 4, 200))
    expected = reference.cohen_kappa_score(a, b, weights=weights)
    assert cohen_kappa(a, b, n_classes=4, weights=weights) == pytest.approx(expected)


def test_brier_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    probs, outcomes = rng.random(50), rng.integers(0, 2, 50)
    assert brier(probs, outcomes) == pytest.approx(reference.brier_score_loss(outcomes, probs))


def test_agreement_without_choice_is_complete() -> None:
    assert cohen_kappa([1, 1], [1, 1]) == 1.0
    assert fleiss_kappa([[3, 0], [3, 0]]) == 1.0


def test_fleiss_refuses_rows_of_different_sums() -> None:
    with pytest.raises(ConfigError, match="leave incomplete rows out"):
        fleiss_kappa([[2, 1], [1, 1]])


def test_two_fleiss_judges_by_hand() -> None:
    # agreement 2/3; shares 1/2 and 1/2, so chance 1/2
    assert fleiss_kappa([[2, 0], [0, 2], [1, 1]]) == pytest.approx((2 / 3 - 0.5) / 0.5)


def test_swapped_orders_are_averaged() -> None:
    assert judge_swap_average([0.7], [0.6]).tolist() == pytest.approx([0.55])


def test_order_consistency_counts_equal_choices() -> None:
    assert order_consistency([0, 1, 1, 0], [0, 1, 0, 0]) == 0.75
    assert math.isnan(order_consistency([], []))


def test_mcnemar_of_fagerlands_example() -> None:
    # Fagerland, Lydersen and Laake 2013, table 1: 1 and 7 discordant pairs
    found = mcnemar([True] * 1 + [False] * 7 + [True] * 3, [False] * 1 + [True] * 7 + [True] * 3)
    assert (found.only_first, found.only_second) == (1, 7)
    assert found.exact == pytest.approx(2 * (1 + 8) / 256)
    assert found.mid_p == pytest.approx(2 * (1 + 8) / 256 - 8 / 256)
    assert found.chi2 == pytest.approx(4.5)
    assert found.chi2_p == pytest.approx(0.0339, abs=5e-5)


def test_mcnemar_of_equal_judges() -> None:
    found = mcnemar([True, False, True], [False, True, True])
    assert found.exact == 1.0
    assert found.mid_p == pytest.approx(1 - 0.5 / 2)
    assert mcnemar([True], [True]).exact == 1.0


def test_permutations_of_few_clusters_are_gone_through() -> None:
    first, second = [1, 1, 1, 0, 1], [0, 0, 1, 0, 0]
    sums = [1, 1, 0, 0, 1]
    extreme = [abs(sum(s * d for s, d in zip(signs, sums, strict=True))) >= 3 for signs in product([1, -1], repeat=5)]
    assert paired_permutation(first, second) == pytest.approx(sum(extreme) / 32)


def test_a_cluster_is_exchanged_as_a_whole() -> None:
    first, second = [1] * 6, [0] * 6
    assert paired_permutation(first, second) == pytest.approx(2 / 64)
    assert paired_permutation(first, second, ["a"] * 3 + ["b"] * 3) == pytest.approx(2 / 4)


def test_many_clusters_are_drawn_from_and_p_is_never_zero() -> None:
    p = paired_permutation([1] * 40, [0] * 40, replicates=500)
    assert p == pytest.approx(1 / 501)


def test_without_samples_nothing_is_known() -> None:
    assert all(math.isnan(value) for value in (brier([], []), ece([], []), mcc([], []), cohen_kappa([], [])))


@pytest.mark.parametrize(
    "call",
    [
        lambda: brier([0.5], [0, 1]),
        lambda: brier([[0.5, 0.5]], [2]),
        lambda: ece([1.5], [1]),
        lambda: ece([0.5], [1], kind="rmse"),  # type: ignore[arg-type]
        lambda: cohen_kappa([0, 3], [0, 1], n_classes=2),
        lambda: order_consistency([0], []),
        lambda: mcnemar([True], []),
    ],
)
def test_wrong_input_is_told(call: Any) -> None:
    with pytest.raises(ConfigError):
        call()
