"""Error rates of sequential tests, where games are drawn by known laws: correlated pairs, ties, a better seat."""

import importlib.util
import math
import sys
from pathlib import Path

import pytest

from arena.decisions import Sprt


@pytest.fixture(scope="module")
def simulations():
    path = Path(__file__).parents[2] / "benchmarks" / "ratings_simulations.py"
    spec = importlib.util.spec_from_file_location("ratings_simulations", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_drawn_pairs_have_the_mean_of_their_elo(simulations):
    shares = simulations.Pairs(ties=0.3, seat=80, question=200).shares(120)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert shares @ [0, 0.25, 0.5, 0.75, 1] == pytest.approx(1 / (1 + 10 ** (-120 / 400)), abs=1e-9)


def test_questions_make_the_games_of_a_pair_alike(simulations):
    # Between equals without ties the two games of a pair, each won by B in half the cases, are independent: 1/4, 1/2,
    # 1/4. Questions that suit one side move pairs from the middle to the ends.
    apart = simulations.Pairs(ties=0, seat=0, question=0).shares(0)
    alike = simulations.Pairs(ties=0, seat=0, question=400).shares(0)
    assert apart == pytest.approx([0.25, 0, 0.5, 0, 0.25], abs=1e-9)
    assert alike[2] < 0.35


@pytest.mark.parametrize(
    ("ties", "seat", "question"), [(0.2, 60, 150), (0.6, 0, 0), (0.0, 200, 0), (0.0, 0, 400)], ids=str
)
@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.05), (0.02, 0.1)])
def test_error_rates_stay_within_alpha_and_beta(simulations, ties, seat, question, alpha, beta):
    repeats = 1500
    test = Sprt(0, 100, alpha=alpha, beta=beta)
    found = simulations.sprt_errors(test, simulations.Pairs(ties, seat, question), repeats=repeats, seed=3)
    assert found.undecided == 0
    for share, most in ((found.alpha, alpha), (found.beta, beta)):
        assert share <= most + 2.5 * math.sqrt(most * (1 - most) / repeats)
    assert (found.pairs_h0 + found.pairs_h1) / 2 < 0.75 * found.fixed
