import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.protocols.errors import ConfigError
from arena.ratings import Match, MatchCounter, count_matches, elo_table, fit_counts

NAMES = ["a", "b", "c"]
MATCHES = st.lists(
    st.builds(
        Match,
        st.sampled_from(NAMES),
        st.sampled_from(NAMES),
        st.sampled_from([0.0, 0.5, 1.0]),
        st.sampled_from(["", "t", "u"]),
        st.sampled_from(["", "p"]),
    )
)


def cells(counts):
    """What was counted, by names."""
    columns = (counts.first_M, counts.second_M, counts.result_M, counts.number_M)
    return {(counts.names[i], counts.names[j], int(result), int(n)) for i, j, result, n in zip(*columns, strict=True)}


@given(MATCHES, st.integers(1, 7))
def test_chunks_count_like_the_whole(matches, size):
    counter = MatchCounter()
    for start in range(0, len(matches), size):
        counter.add(matches[start : start + size])
        counter.counts()  # asking in between changes nothing
    whole = count_matches(matches)
    assert counter.counts().matches == whole.matches == len(matches)
    assert cells(counter.counts()) == cells(whole)
    assert counter.counts().clusters == whole.clusters


@given(MATCHES)
def test_every_kind_of_match_is_one_cell(matches):
    counts = count_matches(matches)
    kinds = {
        (m.first, m.second, m.score, m.task, m.pair if not m.task else "", None if m.task or m.pair else n)
        for n, m in enumerate(matches)
    }
    assert len(counts.number_M) == len(kinds)


def test_clusters_are_tasks_then_pairs_then_single_matches():
    matches = [Match("a", "b", 1.0, task="t", pair="p"), Match("b", "a", 1.0, task="t"), Match("a", "b", 0.0, pair="p")]
    counts = count_matches([*matches, Match("a", "b", 0.0), Match("a", "b", 0.0), Match("a", "b", 1.0, pair="t")])
    assert counts.clusters == 5
    assert sorted(counts.cluster_M.tolist()) == [0, 0, 1, 2, 3, 4]


def test_memory_depends_on_pairs_and_tasks_only():
    rng = np.random.default_rng(0)
    counter, sizes = MatchCounter(), []
    for _ in range(4):
        first = rng.integers(0, 5, 400_000)
        second = (first + rng.integers(1, 5, 400_000)) % 5
        score = rng.integers(0, 3, 400_000) / 2
        counter.add_arrays(first, second, score, rng.integers(0, 10, 400_000), names=list("abcde"))
        sizes.append(counter.counts().nbytes)
    assert counter.counts().matches == 1_600_000
    assert sizes == [sizes[0]] * 4
    assert sizes[0] == 5 * 4 * 10 * 3 * 5 * 8  # ordered pairs, tasks, results; five numbers of eight bytes


def test_arrays_count_like_matches():
    matches = [
        Match("b", "a", 1.0, "x"),
        Match("a", "c", 0.5, "y"),
        Match("c", "b", 0.0, "x"),
        Match("a", "b", 0.0, "y"),
    ]
    counter = MatchCounter()
    number = {name: k for k, name in enumerate("abc")}
    counter.add_arrays(
        [number[m.first] for m in matches],
        [number[m.second] for m in matches],
        [m.score for m in matches],
        [0, 1, 0, 1],
        names=list("abc"),
    )
    assert cells(counter.counts()) == cells(count_matches(matches))


def test_a_table_of_counts_is_that_of_the_matches():
    rng = np.random.default_rng(1)
    matches = []
    for task in range(30):
        for i, j in ((0, 1), (1, 2), (2, 0)):
            matches.append(Match(f"g{i}", f"g{j}", float(rng.integers(0, 3)) / 2, f"t{task}"))
    assert elo_table(count_matches(matches)) == elo_table(matches) == elo_table(iter(matches))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda c: c.add([Match("a", "b", float("nan"))]), "a score is 0, 0.5 or 1"),
        (lambda c: c.add_arrays([0], [1], [0.7], [0], names=["a", "b"]), "match 0 has score 0.7"),
        (lambda c: c.add_arrays([0], [2], [1.0], [0], names=["a", "b"]), "not among the 2"),
        (lambda c: c.add_arrays([-1], [1], [1.0], [0], names=["a", "b"]), "not among the 2"),
        (lambda c: c.add_arrays([0], [1], [1.0], [-3], names=["a", "b"]), "cluster -3"),
        (lambda c: (c.add([Match("x", "y", 1.0)]), c.add_arrays([0], [1], [1], [0], names=["a", "b"])), "same names"),
    ],
)
def test_faults_are_told(call, message):
    with pytest.raises(ConfigError, match=message):
        call(MatchCounter())


def test_the_match_at_fault_is_numbered_from_the_first():
    counter = MatchCounter()
    counter.add([Match("a", "b", 1.0)] * 7)
    with pytest.raises(ConfigError, match="match 9 has score 2"):
        counter.add([Match("a", "b", 1.0), Match("a", "b", 0.0), Match("a", "b", 2.0)])


def test_questions_of_self_play_only_do_not_count_as_clusters():
    rng = np.random.default_rng(2)
    matches = [Match("a", "b", float(rng.integers(0, 2)), f"t{n}") for n in range(20)]
    alone = [Match("a", "a", 1.0, f"u{n}") for n in range(50)]
    assert elo_table(alone + matches) == elo_table(matches)


def test_self_play_is_counted_and_not_rated():
    counts = count_matches([Match("a", "a", 1.0), Match("a", "b", 1.0), Match("b", "a", 1.0)])
    assert counts.matches == 3
    assert counts.without_self_play().matches == 2
    np.testing.assert_allclose(fit_counts(counts).theta, [0, 0], atol=1e-9)
