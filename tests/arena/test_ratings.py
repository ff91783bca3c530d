import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

from arena.protocols.errors import ConfigError, UnknownNameError
from arena.ratings import ELO, Match, bootstrap_ratings, bradley_terry, cross_play, elo, elo_table
from arena.statistics import wilson

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vectors_public.json").read_text())
CASES = [case for case in VECTORS["cases"] if case["algo"] in ("bt_mle", "bt_bootstrap", "elo", "wilson")]


def compute(algo, inputs, options):
    if algo == "wilson":
        interval = wilson(**inputs, **options)
        return {"lo": interval.low, "hi": interval.high}
    if algo == "elo":
        return {"ratings": elo(inputs["games"], **options)}
    if algo == "bt_bootstrap":
        return bootstrap_ratings(inputs["n_players"], inputs["games"], inputs["index_sets"], **options)
    fit = bradley_terry(inputs["n_players"], inputs["games"], **options)
    return {"theta": fit.theta, "nu": fit.nu, "loglik": fit.loglik}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_golden_vectors(case):
    found = compute(case["algo"], case["inputs"], case["options"])
    for key, expected in case["expected"].items():
        if isinstance(expected, dict):
            assert found[key] == pytest.approx(expected, rel=1e-7)
        else:
            np.testing.assert_allclose(found[key], expected, **VECTORS["tolerance"]["float64"])


def negative_loglik(x, games, players):
    """Davidson's model written game by game."""
    total = 0.0
    for i, j, score in games:
        a, b, tie = x[i], x[j], (x[i] + x[j]) / 2 + x[players]
        log_z = np.logaddexp(np.logaddexp(a, b), tie)
        total += {1.0: a, 0.0: b, 0.5: tie}[score] - log_z
    return -total


def played(seed, strengths, count, tie=0.15, tasks=50):
    rng = np.random.default_rng(seed)
    matches = []
    for number in range(count):
        i, j = rng.choice(len(strengths), 2, replace=False)
        first = rng.random() < 1 / (1 + math.exp(strengths[j] - strengths[i]))
        score = 0.5 if rng.random() < tie else float(first)
        matches.append(Match(f"g{i}", f"g{j}", score, task=f"t{number % tasks}"))
    return matches


def test_fit_agrees_with_a_general_optimiser():
    games = [(int(m.first[1]), int(m.second[1]), m.score) for m in played(0, [0, 0.4, 1.0, 1.5], 300)]
    fit = bradley_terry(4, games)
    best = minimize(negative_loglik, np.zeros(5), args=(games, 4), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose(fit.theta, best.x[:4] - best.x[:4].mean(), atol=1e-5)
    assert fit.nu == pytest.approx(math.exp(best.x[4]), rel=1e-4)
    assert fit.loglik == pytest.approx(-best.fun, rel=1e-9)


def test_two_players_have_a_closed_form():
    # 30 wins to 10: odds 3 to 1.
    fit = bradley_terry(2, [(0, 1, 1)] * 30 + [(1, 0, 1)] * 10)
    assert fit.theta[0] - fit.theta[1] == pytest.approx(math.log(3), rel=1e-9)
    assert fit.nu == 0


def test_table_of_a_closed_form():
    matches = [Match("a", "b", 1.0, f"t{i}") for i in range(30)] + [Match("b", "a", 1.0, f"t{i}") for i in range(10)]
    best, worst = elo_table(matches, anchor="b")
    assert (best.name, best.games, best.wins, best.ties, best.losses) == ("a", 40, 30, 0, 10)
    assert best.elo == pytest.approx(400 * math.log10(3))
    assert best.low < best.elo < best.high
    assert (worst.elo, worst.low, worst.high) == (0, 0, 0)


def test_order_of_matches_and_of_sides_changes_nothing():
    matches = played(1, [0, 0.5, 1.0], 200)
    turned = [Match(m.second, m.first, 1 - m.score, m.task) for m in reversed(matches)]
    first = {r.name: r.elo for r in elo_table(matches, bootstrap=0)}
    second = {r.name: r.elo for r in elo_table(turned, bootstrap=0)}
    assert first == pytest.approx(second, abs=1e-8)


def test_self_play_is_allowed_and_ignored():
    matches = played(2, [0, 0.5, 1.0], 200)
    mirror = [Match("g0", "g0", 1.0, f"t{i}") for i in range(50)]
    assert elo_table(matches + mirror) == elo_table(matches)
    assert cross_play(matches + mirror, ["g0", "g1", "g2"]).score[0, 0] == 1.0


def test_repeating_every_question_does_not_narrow_the_interval():
    matches = played(3, [0, 0.7], 200, tasks=100)
    once = elo_table(matches, bootstrap=400)[0]
    both = elo_table(matches * 3, bootstrap=400)[0]
    assert (both.low, both.high) == pytest.approx((once.low, once.high), abs=1e-6)
    apart = elo_table([Match(m.first, m.second, m.score, f"{m.task}/{i}") for i, m in enumerate(matches * 3)])[0]
    assert apart.high - apart.low < 0.75 * (both.high - both.low)


def test_intervals_cover_the_truth():
    hits = 0
    for seed in range(60):
        table = {
            r.name: r
            for r in elo_table(played(seed, [0, 0.5, 1.0], 300, tasks=100), anchor="g0", seed=seed, bootstrap=200)
        }
        hits += table["g2"].low <= ELO * 1.0 <= table["g2"].high
    assert hits >= 50  # of 60 at 95 %: fewer has probability 3e-4


def test_one_question_gives_no_interval():
    table = elo_table([Match("a", "b", 1.0, "t"), Match("a", "b", 0.0, "t")])
    assert all(math.isnan(rating.low) and math.isnan(rating.high) for rating in table)


def test_replicates_in_which_somebody_wins_everything_stay_finite():
    matches = [Match("a", "b", 1.0, f"t{i}") for i in range(5)] + [Match("b", "a", 1.0, "u")]
    best = elo_table(matches)[0]
    assert math.isfinite(best.high)
    assert best.high > best.elo
    tied = [*matches, *(Match("a", "b", 0.5, f"v{i}") for i in range(40))]
    assert all(math.isfinite(r.low + r.high) for r in elo_table(tied, bootstrap=500))


def test_cross_play_counts_both_sides():
    table = cross_play([Match("a", "b", 1.0), Match("b", "a", 0.5), Match("c", "a", 0.0)])
    assert table.names == ("a", "b", "c")
    assert table.score[0].tolist()[1:] == [0.75, 1.0]
    assert table.score[1, 0] == 0.25
    assert math.isnan(table.score[1, 2])
    assert table.games.tolist() == [[0, 2, 1], [2, 0, 0], [1, 0, 0]]


A_BEATS_B = [(0, 1, 1.0), (0, 1, 1.0)]


@pytest.mark.parametrize(
    ("games", "ties", "message"),
    [
        (A_BEATS_B, "half", "0 never lost to any other agent"),
        ([*A_BEATS_B, (1, 0, 0.5)], "davidson", "0 never lost"),  # wins and draws only: theta and nu grow together
        ([(0, 1, 0.5)], "davidson", "use ties='half'"),
        ([(0, 1, 1.0), (1, 0, 1.0), (2, 3, 1.0), (3, 2, 1.0)], "davidson", "never met"),
        ([(0, 1, 0.7)], "half", "a score is 0, 0.5 or 1"),
        ([(0, 0, 1.0)], "half", "leave self-play out"),
        ([(0, 9, 1.0)], "half", "not among"),
        (A_BEATS_B, "draws", "'davidson' or 'half'"),
    ],
)
def test_faults_are_told(games, ties, message):
    players = max(4 if (2, 3, 1.0) in games else 2, 2)
    with pytest.raises(ConfigError, match=message):
        bradley_terry(players, games, ties=ties)


def test_a_draw_can_make_strengths_finite():
    # 0 beats 1 and 1 beats 2, but 0 only drew with 2: found finite by the linear program, though nobody beat 0.
    games = [(0, 1, 1.0), (1, 2, 1.0), (0, 2, 0.5)]
    fit = bradley_terry(3, games * 5)
    best = minimize(negative_loglik, np.zeros(4), args=(games * 5, 3), method="BFGS")
    assert fit.loglik == pytest.approx(-best.fun, rel=1e-6)
    assert np.abs(fit.theta).max() < 10


def test_a_penalty_rates_who_never_lost():
    assert bradley_terry(2, A_BEATS_B, l2=0.1).theta[0] > 0
    with pytest.raises(ConfigError, match="a never lost to any other agent"):
        elo_table([Match("a", "b", 1.0)])
    with pytest.raises(ConfigError, match="nothing to rate"):
        elo_table([Match("a", "a", 1.0)])
    with pytest.raises(UnknownNameError, match="Did you mean 'debater'"):
        elo_table([Match("debater", "b", 1.0), Match("b", "debater", 1.0)], anchor="debator")
