import itertools
import json
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize

from arena.payoffs import cyclic_triples, maxent_nash, maximin, payoff_view, transitive_share
from arena.protocols.errors import ConfigError
from arena.ratings import Match

# Balduzzi et al. 2018, section 2: a cycle and a ladder.
CYCLE = np.array([[0.0, 1, -1], [-1, 0, 1], [1, -1, 0]])
LADDER = np.array([[0.0, 1, 2], [-1, 0, 1], [-2, -1, 0]])


def antisymmetric(size, *, whole=False):
    numbers = st.integers(-3, 3) if whole else st.floats(-1, 1)
    entries = arrays(np.float64, (size, size), elements=numbers.map(float))
    return entries.map(lambda square: np.triu(square, 1) - np.triu(square, 1).T)


def test_rock_paper_scissors_is_played_evenly():
    np.testing.assert_allclose(maxent_nash(CYCLE), [1 / 3] * 3, atol=1e-7)
    weights, value = maximin(CYCLE)
    np.testing.assert_allclose(weights, [1 / 3] * 3, atol=1e-7)
    assert value == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("amount", [0.0, 0.1, 0.25, 0.4, 0.5])
def test_between_cycle_and_ladder_nash_is_known(amount):
    # Balduzzi et al. 2018, example 4: A = C + e T has the Nash equilibrium ((1 + e) / 3, (1 - 2 e) / 3, (1 + e) / 3).
    expected = [(1 + amount) / 3, (1 - 2 * amount) / 3, (1 + amount) / 3]
    np.testing.assert_allclose(maxent_nash(CYCLE + amount * LADDER), expected, atol=1e-6)


@pytest.mark.parametrize("amount", [0.51, 0.7, 5.0])
def test_beyond_one_half_the_best_of_the_ladder_is_left(amount):
    np.testing.assert_allclose(maxent_nash(CYCLE + amount * LADDER), [1, 0, 0], atol=1e-9)


def test_copies_share_the_weight_of_the_original():
    # Section 3.1: with scissors entered twice, the mixture is (1/3, 1/3, 1/6, 1/6).
    twice = [0, 1, 2, 2]
    np.testing.assert_allclose(maxent_nash(CYCLE[np.ix_(twice, twice)]), [1 / 3, 1 / 3, 1 / 6, 1 / 6], atol=1e-7)


def test_skew_rock_paper_scissors_has_a_closed_form():
    # Three agents in a cycle: each plays in proportion to the side that it is not on.
    ab, bc, ca = 0.1, 0.3, 0.2
    payoff = np.array([[0, ab, -ca], [-ab, 0, bc], [ca, -bc, 0]])
    np.testing.assert_allclose(maxent_nash(payoff), np.array([bc, ca, ab]) / (ab + bc + ca), atol=1e-7)


def test_equals_are_all_played():
    np.testing.assert_allclose(maxent_nash(np.zeros((4, 4))), [0.25] * 4)
    # Two unbeaten agents that are even, and one that loses to both.
    payoff = np.array([[0, 0, 1], [0, 0, 1], [-1, -1, 0.0]])
    np.testing.assert_allclose(maxent_nash(payoff), [0.5, 0.5, 0], atol=1e-7)


@given(st.integers(2, 6).flatmap(lambda size: antisymmetric(size, whole=True)))
def test_no_agent_beats_the_mixture_and_no_such_mixture_is_more_even(payoff):
    weights = maxent_nash(payoff)
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    scale = max(1.0, np.abs(payoff).max())
    assert (weights @ payoff).min() >= -1e-5 * scale

    def entropy(p):
        return -sum(x * math.log(x) for x in p if x > 1e-12)

    # Any mixture that a general solver finds from here is no more even.
    found = minimize(
        lambda p: float(np.sum(p * np.log(np.maximum(p, 1e-12)))),
        weights,
        bounds=[(0, 1)] * len(payoff),
        constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "ineq", "fun": lambda p: p @ payoff}],
        method="SLSQP",
    )
    if found.success and (found.x @ payoff).min() > -1e-9:
        assert entropy(weights) >= entropy(found.x) - 1e-4


def test_maximin_of_matching_pennies_with_a_prize():
    # Of [[a, b], [c, d]] without a saddle the row mixes as d - c to a - b, for (a d - b c) / (a - b - c + d).
    weights, value = maximin([[2, -3], [-1, 2]])
    np.testing.assert_allclose(weights, [3 / 8, 5 / 8], atol=1e-9)
    assert value == pytest.approx(1 / 8)


@given(arrays(np.float64, (3, 4), elements=st.floats(-1, 1)))
def test_maximin_and_minimax_are_one_value(payoff):
    _, value = maximin(payoff)
    _, other = maximin(-payoff.T)
    assert value == pytest.approx(-other, abs=1e-7)


def test_shares_of_cycle_and_ladder():
    assert transitive_share(CYCLE) == pytest.approx(0, abs=1e-12)
    assert transitive_share(LADDER) == pytest.approx(1)
    # Orthogonal parts: |T|^2 = 2 (1 + 1 + 4) = 12, |C|^2 = 6.
    assert transitive_share(CYCLE + LADDER) == pytest.approx(12 / 18)
    assert math.isnan(transitive_share(np.zeros((3, 3))))


@given(antisymmetric(5))
def test_unweighted_ratings_are_row_means(flow):
    # Balduzzi et al. 2018, proposition 1: the gradient part is that of the mean of each row.
    if np.abs(flow).max() < 1e-3:
        return
    means = flow.mean(1)
    share = ((means[:, None] - means) ** 2).sum() / (flow**2).sum()
    assert transitive_share(flow) == pytest.approx(share, abs=1e-9)


def test_pairs_that_never_met_have_no_say():
    flow = LADDER.copy()
    flow[0, 2], flow[2, 0] = 99.0, -99.0
    weights = np.ones((3, 3))
    weights[0, 2] = weights[2, 0] = 0
    assert transitive_share(flow, weights) == pytest.approx(1)


@given(st.integers(3, 8).flatmap(lambda size: antisymmetric(size, whole=True)))
def test_cycles_are_those_of_networkx(payoff):
    graph = nx.DiGraph([(a, b) for a, b in itertools.permutations(range(len(payoff)), 2) if payoff[a, b] > 0])
    theirs = {tuple(c[c.index(min(c)) :] + c[: c.index(min(c))]) for c in nx.simple_cycles(graph, 3) if len(c) == 3}
    ours = cyclic_triples(payoff)
    assert {tuple(triple) for triple in ours.tolist()} == theirs
    margins = [min(payoff[a, b], payoff[b, c], payoff[c, a]) for a, b, c in ours]
    assert margins == sorted(margins, reverse=True)


def games(rng, chances, tasks):
    """Both orders on every task; ``chances[a, b]`` is how often a beats b."""
    matches = []
    for (a, b), chance in chances.items():
        for task, (first, second) in itertools.product(range(tasks), ((a, b), (b, a))):
            won = rng.random() < chance
            matches.append(Match(first, second, float(won == (first == a)), f"t{task}", f"{a}|{b}/t{task}"))
    return matches


def test_view_of_a_planted_cycle():
    chances = {("rock", "paper"): 0.2, ("paper", "scissors"): 0.2, ("scissors", "rock"): 0.2}
    chances |= {("rock", "pebble"): 0.9, ("paper", "pebble"): 0.9, ("scissors", "pebble"): 0.9}
    view = payoff_view(games(np.random.default_rng(0), chances, 100))
    (cycle,) = view.cycles
    assert cycle.agents == ("rock", "scissors", "paper")
    assert 0.15 < cycle.low < cycle.margin < cycle.high < 0.45
    assert view.nash["pebble"] == 0
    assert sum(view.nash.values()) == pytest.approx(1)
    assert max(view.ratings.values()) <= 0.5 + 1e-6
    assert view.ratings["pebble"] < 0.2
    assert view.value == pytest.approx(0.5, abs=1e-5)
    assert view.intransitive_share == 1 / 4  # of four triples, the one without the pebble
    assert 0.2 < view.transitive_share < 0.9


def test_chance_is_told_from_cycles():
    # What is transitive but for chance, with questions that suit one side, is called cyclic in 5 of 100 cases.
    strengths = dict(zip("abcde", (0.8, 0.5, 0.0, -0.3, -1.0), strict=True))
    called, repeats = 0, 120
    for seed in range(repeats):
        rng, matches = np.random.default_rng([11, seed]), []
        for (a, b), task in itertools.product(itertools.combinations(strengths, 2), range(40)):
            gap = strengths[a] - strengths[b] + rng.normal(scale=0.7)
            for first, second in ((a, b), (b, a)):
                won = rng.random() < 1 / (1 + math.exp(-gap))
                matches.append(Match(first, second, float(won == (first == a)), f"t{task}", f"{a}|{b}/t{task}"))
        called += payoff_view(matches, bootstrap=200).p_transitive < 0.05
    assert called <= 0.05 * repeats + 2.5 * math.sqrt(repeats * 0.05 * 0.95)
    planted = dict.fromkeys((("a", "b"), ("b", "c"), ("c", "a")), 0.75)
    assert payoff_view(games(np.random.default_rng(0), planted, 40)).p_transitive < 0.01


def test_view_of_a_ladder_has_no_cycle():
    chances = {("a", "b"): 0.7, ("b", "c"): 0.7, ("a", "c"): 0.85}
    view = payoff_view(games(np.random.default_rng(0), chances, 300))
    assert view.cycles == ()
    assert view.intransitive_share == 0
    assert view.nash == {"a": 1.0, "b": 0.0, "c": 0.0}
    assert view.transitive_share > 0.99
    assert view.scores[0, 1] == pytest.approx(0.7, abs=0.05)
    assert view.games[0, 1] == 600


def test_margin_of_a_cycle_by_chance_reaches_below_zero():
    # All are even; where three happen to form a cycle, the interval knows better (in most cases).
    below = seen = 0
    for seed in range(30):
        view = payoff_view(games(np.random.default_rng(seed), dict.fromkeys(itertools.combinations("abc", 2), 0.5), 20))
        seen += len(view.cycles)
        below += sum(cycle.low <= 0 for cycle in view.cycles)
    assert seen >= 3
    assert below == seen


def test_interval_of_a_margin_is_that_of_a_bootstrap_written_out():
    chances = {("a", "b"): 0.8, ("b", "c"): 0.7, ("c", "a"): 0.75}
    matches = games(np.random.default_rng(4), chances, 40)
    (cycle,) = payoff_view(matches, bootstrap=4000).cycles
    rng = np.random.default_rng(99)
    by_task = {f"t{t}": [m for m in matches if m.task == f"t{t}"] for t in range(40)}
    drawn = []
    for _ in range(800):
        points = {pair: [] for pair in chances}
        for task in rng.integers(0, 40, 40):
            for m in by_task[f"t{task}"]:
                pair = (m.first, m.second) if (m.first, m.second) in points else (m.second, m.first)
                points[pair].append(m.score if pair[0] == m.first else 1 - m.score)
        drawn.append(min(np.mean(p) for p in points.values()) - 0.5)
    np.testing.assert_allclose((cycle.low, cycle.high), np.quantile(drawn, [0.025, 0.975]), atol=0.015)


def test_whoever_did_not_meet_all_is_left_out_and_named():
    matches = games(np.random.default_rng(0), {("a", "b"): 0.6, ("a", "c"): 0.6, ("b", "c"): 0.5, ("a", "d"): 0.5}, 10)
    view = payoff_view(matches)
    assert view.names == ("a", "b", "c")
    assert view.note == "left out, because they did not meet all others: d"
    assert set(view.nash) == {"a", "b", "c"}


def test_row_is_plain_json():
    matches = games(np.random.default_rng(0), {("a", "b"): 0.5}, 1)
    row = payoff_view([*matches, Match("a", "a", 1.0)]).row()
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert row["scores"] == [[0.5, row["scores"][0][1]], [row["scores"][1][0], 0.5]]
    assert row["games"] == [[0, 2], [2, 0]]
    assert (row["intransitive_share"], row["p_transitive"]) == (None, None)


def test_what_is_no_game_is_refused():
    with pytest.raises(ConfigError, match="no two of the agents met"):
        payoff_view([Match("a", "a", 1.0)])
    with pytest.raises(ConfigError, match="301 agents are too many"):
        payoff_view([Match(f"a{n}", f"a{n + 1}", 1.0) for n in range(300)])
    with pytest.raises(ConfigError, match="not antisymmetric"):
        maxent_nash([[0, 1], [1, 0]])
    with pytest.raises(ConfigError, match="finite"):
        maximin([[math.nan]])
    with pytest.raises(ConfigError, match="two axes"):
        maximin([])
