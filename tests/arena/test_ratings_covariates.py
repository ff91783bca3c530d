import math

import numpy as np
import pytest

from arena.protocols.errors import ConfigError, UnknownNameError
from arena.ratings import ELO, Match, elo_table, fit_with_covariates, relative_difference

sm = pytest.importorskip("statsmodels.api")


def styled(seed, number=900):
    """Matches in which the stronger agent is terse, and judges like words: (matches, [N, 2] words and seat)."""
    rng = np.random.default_rng(seed)
    strength, wordy = {"terse": 0.6, "plain": 0.2, "wordy": 0.0}, {"terse": -1.0, "plain": 0.0, "wordy": 1.0}
    matches, features = [], []
    for n in range(number):
        first, second = rng.choice(list(strength), 2, replace=False)
        words = wordy[first] - wordy[second] + rng.normal()
        eta = strength[first] - strength[second] + 0.8 * words + 0.3
        matches.append(Match(str(first), str(second), float(rng.random() < 1 / (1 + math.exp(-eta))), f"t{n % 60}"))
        features.append([words, 1.0])
    return matches, np.array(features)


def test_the_fit_is_that_of_a_logistic_regression():
    matches, features = styled(0)
    agents = [[(m.first == name) - (m.second == name) for name in ("plain", "wordy")] for m in matches]
    peer = sm.Logit([m.score for m in matches], np.column_stack([agents, features])).fit(disp=0)
    found = fit_with_covariates(matches, features, ["words", "seat"], anchor="terse")
    rating = {r.name: r.elo for r in found.ratings}
    np.testing.assert_allclose([rating["plain"], rating["wordy"]], ELO * peer.params[:2], rtol=1e-5)
    np.testing.assert_allclose([c.value for c in found.coefficients], ELO * peer.params[2:], rtol=1e-5)
    widths = [c.high - c.low for c in found.coefficients]
    np.testing.assert_allclose(widths, 2 * 1.96 * ELO * peer.bse[2:], rtol=0.25)  # tasks do not matter here


def test_style_can_turn_the_ranking_round():
    matches, features = styled(1)
    assert elo_table(matches, bootstrap=0)[0].name == "wordy"
    found = fit_with_covariates(matches, features, ["words", "seat"])
    assert found.ratings[0].name == "terse"
    assert found.coefficients[0].low < ELO * 0.8 < found.coefficients[0].high


def test_the_unit_of_a_covariate_is_its_coefficients_unit():
    matches, features = styled(2)
    one = fit_with_covariates(matches, features[:, :1], ["words"], bootstrap=200)
    thousands = fit_with_covariates(matches, 1000 * features[:, :1], ["words"], bootstrap=200)
    assert 1000 * thousands.coefficients[0].value == pytest.approx(one.coefficients[0].value, rel=1e-6)
    assert 1000 * thousands.coefficients[0].low == pytest.approx(one.coefficients[0].low, rel=1e-4)


def test_ties_and_profiles():
    matches, features = styled(3)
    tied = [Match(m.first, m.second, 0.5, m.task) if n % 5 == 0 else m for n, m in enumerate(matches)]
    by_profile = fit_with_covariates(tied, features, ["words", "seat"], intervals="profile").coefficients
    by_bootstrap = fit_with_covariates(tied, features, ["words", "seat"], bootstrap=2000).coefficients
    for one, other in zip(by_profile, by_bootstrap, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=10)


def test_relative_difference():
    assert relative_difference([3, 0, 5], [1, 0, 0]).tolist() == [0.5, 0.0, 1.0]


WORDS = "words"


@pytest.mark.parametrize(
    ("features", "names", "message"),
    [
        (lambda m, x: np.column_stack([x[:, 0], -2 * x[:, 0]]), [WORDS, "copies"], "'words' and 'copies' say the same"),
        (lambda m, x: [[len(a.first) - len(a.second)] for a in m], [WORDS], "a matter of the agents alone"),
        (lambda m, x: np.zeros((len(m), 1)), [WORDS], "a matter of the agents alone"),
        (lambda m, x: [[a.score - 0.5] for a in m], [WORDS], "did not converge: 'words' tells the winners"),
        (lambda m, x: np.where(x[:, :1] > 99, 0, math.nan), [WORDS], "'words' of match 0 is nan"),
        (lambda m, x: x, [WORDS], "give each match a row"),
        (lambda m, x: x[:0, :0], [], "give each match a row"),
    ],
)
def test_faults_are_told_with_their_cure(features, names, message):
    matches, x = styled(4, 200)
    with pytest.raises(ConfigError, match=message):
        fit_with_covariates(matches, features(matches, x), names)


def test_there_must_be_a_match():
    with pytest.raises(ConfigError, match="nothing to rate"):
        fit_with_covariates([], [], [WORDS])


def test_a_penalty_makes_separated_results_finite():
    matches, _ = styled(5, 200)
    found = fit_with_covariates(matches, [[m.score - 0.5] for m in matches], [WORDS], l2=0.1, bootstrap=50)
    assert math.isfinite(found.coefficients[0].value + found.coefficients[0].low + found.coefficients[0].high)


def test_an_anchor_that_did_not_play_is_told():
    matches, x = styled(6, 200)
    with pytest.raises(UnknownNameError, match="Did you mean 'terse'"):
        fit_with_covariates(matches, x, [WORDS, "seat"], anchor="trese")
