import math
import sys

import pytest

from arena.protocols.errors import ConfigError, MissingExtraError
from arena.ratings import Match, openskill


def test_two_newcomers_move_as_weng_and_lin_say():
    """Algorithm 4 for two equal teams of one; beta is 25/6, and openskill first widens sigma by tau = 25/300."""
    variance = (25 / 3) ** 2 + (25 / 300) ** 2
    c = math.sqrt(2 * (variance + (25 / 6) ** 2))
    shrunk = math.sqrt(variance * (1 - math.sqrt(variance) / c * variance / c**2 / 4))
    skills = openskill([Match("winner", "loser", 1.0)])
    assert skills["winner"].mu == pytest.approx(25 + variance / c / 2)
    assert skills["loser"].mu == pytest.approx(25 - variance / c / 2)
    assert skills["winner"].sigma == pytest.approx(shrunk)


def test_games_of_many_and_ties():
    skills = openskill([[("gold", 9), ("silver", 4), ("bronze", 4), ("tin", 0)]], players=["absent"])
    assert skills["gold"].mu > skills["silver"].mu == skills["bronze"].mu > skills["tin"].mu
    assert (skills["absent"].mu, skills["absent"].sigma) == (25.0, 25 / 3)
    assert skills["absent"].ordinal == pytest.approx(0)


def test_self_play_moves_nobody():
    assert openskill([Match("a", "a", 1.0)], players=["a"])["a"].mu == 25


@pytest.mark.parametrize("game", [[], [("a", 1)], [("a", 1), ("a", 2)]])
def test_a_game_needs_two_agents(game):
    with pytest.raises(ConfigError, match="game 0 is between"):
        openskill([game])


def test_without_the_library_the_way_to_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "openskill.models", None)
    with pytest.raises(MissingExtraError, match=r"debate-arena\[ratings\]"):
        openskill([Match("a", "b", 1.0)])
