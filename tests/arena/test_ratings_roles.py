import math

import numpy as np
import pytest

from arena.protocols.errors import ConfigError
from arena.ratings import ELO, Match, role_ratings

sm = pytest.importorskip("statsmodels.api")


def played(seed, strength, gamma, tasks, *, self_play=False):
    """Every pair in both seats on every task, the first seat stronger by ``gamma`` nats."""
    rng = np.random.default_rng(seed)
    return [
        Match(f"g{i}", f"g{j}", float(rng.random() < 1 / (1 + math.exp(strength[j] - strength[i] - gamma))), f"t{task}")
        for task in range(tasks)
        for i in range(len(strength))
        for j in range(len(strength))
        if self_play or i != j
    ]


def test_self_play_alone_tells_the_advantage():
    # 30 wins of the first seat to 10: odds 3 to 1.
    matches = [Match("a", "a", float(n < 30), f"t{n}") for n in range(40)]
    found = role_ratings(matches)
    assert found.advantage.value == pytest.approx(400 * math.log10(3))
    assert found.advantage.low < found.advantage.value < found.advantage.high
    assert found.advantage.n == 40
    first, second = (found.ratings[role][0] for role in ("first", "second"))
    assert first.elo == pytest.approx(200 * math.log10(3))
    assert second.elo == pytest.approx(-200 * math.log10(3))
    assert (first.wins, first.losses, second.wins, second.losses) == (30, 10, 10, 30)


def test_the_advantage_is_the_intercept_of_a_logistic_regression():
    matches = played(0, [0.0, 0.6, -0.4], 0.5, 40, self_play=True)
    X = [[1.0, *((m.first == f"g{k}") - (m.second == f"g{k}") for k in (1, 2))] for m in matches]
    peer = sm.Logit([m.score for m in matches], np.array(X, dtype=float)).fit(disp=0)
    assert role_ratings(matches).advantage.value == pytest.approx(ELO * peer.params[0], rel=1e-6)


def test_ratings_by_role_are_those_of_a_regression_with_agents_in_seats():
    matches = played(1, [0.0, 0.6, -0.4], 0.5, 60)
    seats = [f"g{k}" for k in range(3)]
    # One agent in the first seat is the base.
    X = [[*((m.first == s) for s in seats[1:]), *(-(m.second == s) for s in seats)] for m in matches]
    peer = sm.Logit([m.score for m in matches], np.array(X, dtype=float)).fit(disp=0)
    found = role_ratings(matches, roles=("pro", "con"))
    pro, con = ({r.name: r.elo for r in found.ratings[role]} for role in ("pro", "con"))
    expected = ELO * np.array([0.0, *peer.params])
    np.testing.assert_allclose([*pro.values()], sorted(expected[:3] - expected.mean(), reverse=True), rtol=1e-5)
    assert con["g1"] - pro["g0"] == pytest.approx(expected[4] - expected[0], rel=1e-5)
    assert [r.rank for r in found.ratings["pro"]] == [1, 2, 3]
    assert all(r.rank_low <= r.rank <= r.rank_high <= 3 for r in found.ratings["con"])


def test_the_advantages_interval_covers():
    inside = 0
    for seed in range(60):
        interval = role_ratings(played(seed, [0.0, 0.6, -0.4], 0.5, 20), bootstrap=200, seed=seed).advantage
        inside += interval.low <= ELO * 0.5 <= interval.high
    assert inside >= 51


def test_two_agents_that_only_meet_each_other_have_no_ratings_by_role():
    matches = played(2, [0.0, 0.3], 0.5, 30)
    found = role_ratings(matches)
    assert found.ratings == {}
    assert "never met" in found.note
    with_self_play = role_ratings(played(2, [0.0, 0.3], 0.5, 30, self_play=True))
    assert set(with_self_play.ratings) == {"first", "second"}
    assert with_self_play.note == ""


def test_swapping_all_seats_turns_the_advantage_round():
    matches = played(3, [0.0, 0.3, 0.9], 0.5, 30)
    turned = [Match(m.second, m.first, 1 - m.score, m.task) for m in matches]
    assert role_ratings(turned).advantage.value == pytest.approx(-role_ratings(matches).advantage.value, abs=1e-6)


@pytest.mark.parametrize(
    ("matches", "message"),
    [
        ([], "no match"),
        ([Match("a", "b", 1.0), Match("a", "b", 0.0)], "'first seat' is a matter of the agents alone"),
        ([Match("a", "b", 1.0), Match("b", "a", 1.0)], "'first seat' tells the winners from the losers"),
        ([Match("a", "a", 1.0)] * 3, "'first seat' tells the winners from the losers"),
    ],
)
def test_faults_are_told(matches, message):
    with pytest.raises(ConfigError, match=message):
        role_ratings(matches)
