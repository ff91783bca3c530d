import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.judges.evidence import evidence_columns, multi_hot, random_subsets
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task

COLUMNS = np.array([[4, 7, 1, 0], [2, 3, -1, -1]] * 3000)


@given(low=st.integers(0, 5), more=st.integers(0, 3), seed=st.integers(0, 2**32), drop=st.sampled_from([0.0, 0.5]))
def test_a_subset_holds_evidence_once_and_padding_last(low, more, seed, drop):
    columns = COLUMNS[:20]
    drawn = random_subsets(columns, (low, low + more), np.random.default_rng(seed), drop=drop)
    for row, had in zip(drawn.tolist(), columns.tolist(), strict=True):
        kept = [index for index in row if index >= 0]
        assert row == kept + [-1] * (len(row) - len(kept))
        assert len(set(kept)) == len(kept)
        assert set(kept) <= set(had)
        available = sum(index >= 0 for index in had)
        assert len(kept) <= min(low + more, available)
        if not drop:
            assert len(kept) >= min(low, available)


def test_sizes_and_members_are_uniform():
    drawn = random_subsets(COLUMNS[::2], (1, 3), np.random.default_rng(0))
    sizes = np.bincount((drawn >= 0).sum(1), minlength=4)[1:]
    assert abs(sizes / 3000 - 1 / 3).max() < 0.04  # over four standard errors
    first = np.bincount(drawn[:, 0], minlength=8)[[4, 7, 1, 0]]
    assert abs(first / 3000 - 1 / 4).max() < 0.04


def test_preferred_items_come_first_in_their_share_of_rows_and_all_items_occur():
    prefer = np.zeros(8, dtype=bool)
    prefer[[4, 7]] = True
    drawn = random_subsets(COLUMNS[::2], (1, 1), np.random.default_rng(0), prefer_I=prefer, prefer_share=0.5)
    # half of the rows always, the others by chance one half
    assert prefer[drawn[:, 0]].mean() == pytest.approx(0.75, abs=0.035)
    assert set(drawn[:, 0].tolist()) == {4, 7, 1, 0}


def test_dropped_quotes_are_lost_at_that_rate():
    drawn = random_subsets(COLUMNS[::2], (4, 4), np.random.default_rng(0), drop=0.1)
    assert (drawn >= 0).mean() == pytest.approx(0.9, abs=0.012)


def test_columns_and_multi_hot_by_hand():
    tasks = [Task("t", {"evidence": ["c", "a"]}), Task("u", {"evidence": ("b",)})]
    columns = evidence_columns(tasks, ["a", "b", "c"])
    assert columns.tolist() == [[2, 0], [1, -1]]
    assert multi_hot(columns, 3).tolist() == [[1, 0, 1], [0, 1, 0]]


def test_wrong_evidence_names_the_task_and_the_word():
    with pytest.raises(ConfigError, match="task 't': evidence 'z' is not among the judge's 1 items"):
        evidence_columns([Task("t", {"evidence": ["z"]})], ["a"])
    with pytest.raises(ConfigError, match="task 't': field 'evidence' must be a list of words, not 'text'"):
        evidence_columns([Task("t", {"evidence": "text"})], ["a"])
    with pytest.raises(ConfigError, match=r"size \(3, 2\)"):
        random_subsets(COLUMNS, (3, 2), np.random.default_rng(0))
