"""Spellings of answers: summed, and none of them twice."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.judges.forms import Forms, letter_spellings, log_sum

A, B, CLOSE, OPEN, ZERO, ONE = 1, 2, 3, 4, 5, 6


def test_a_spelling_that_goes_on_from_another_of_the_same_answer_is_counted_with_it():
    forms = Forms({(A,): 0, (A, CLOSE): 0, (OPEN, A): 0, (B,): 1})
    assert forms.ids == ((A,), (OPEN, A), (B,))
    assert forms.owners == (0, 0, 1)
    shares = forms.log_shares([math.log(0.5), math.log(0.1), math.log(0.2)])
    assert [math.exp(shares[answer]) for answer in (0, 1)] == pytest.approx([0.6, 0.2])


def test_what_goes_on_to_another_answer_is_taken_out():
    forms = Forms({(ONE,): 1, (ONE, ZERO): 10, (ZERO,): 0})
    shares = forms.log_shares([math.log(0.5), math.log(0.2), math.log(0.1)])
    assert [math.exp(shares[number]) for number in (1, 10, 0)] == pytest.approx([0.3, 0.2, 0.1])
    assert forms.log_shares([-1.0, -1.0, -1.0])[1] == -math.inf


def test_letters_are_written_in_upper_case_unless_the_case_is_open():
    assert set(letter_spellings("A")) == {"A", " A", "A)", " A)", "A.", " A.", "(A", " (A"}
    assert set(letter_spellings("A", any_case=True)) > {"a", " (a"}


def test_nothing_and_nan_are_told_apart():
    assert log_sum([]) == -math.inf
    assert log_sum([-math.inf, -math.inf]) == -math.inf
    assert math.isnan(log_sum([-1.0, math.nan]))
    assert math.isnan(log_sum([math.nan, -1.0]))


@given(st.dictionaries(st.text("ab", min_size=1, max_size=4), st.integers(0, 2), min_size=1, max_size=12))
def test_shares_are_the_probability_of_beginning_with_a_spelling(spelt):
    """Every text of four letters is equally likely; it counts for the longest spelling that it begins with."""
    forms = Forms({tuple(map(ord, text)): owner for text, owner in spelt.items()})
    texts = [f"{number:04b}".replace("0", "a").replace("1", "b") for number in range(16)]
    counts = dict.fromkeys(forms.owners, 0)
    for text in texts:
        longest = max((one for one in spelt if text.startswith(one)), key=len, default=None)
        if longest is not None:
            counts[spelt[longest]] += 1
    shares = forms.log_shares([-len(ids) * math.log(2) for ids in forms.ids])
    assert {owner: round(16 * math.exp(share), 6) for owner, share in shares.items()} == counts
