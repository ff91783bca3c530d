"""Tournaments as a game: who beats whom, the mixture that nobody beats, and cycles that no rating can show.

* `payoff_view`: all of it for the matches of a tournament.
* `maxent_nash` and `maximin`: mixtures of agents, of a payoff matrix A in which A_ij is what i gains from j.
* `transitive_share`, `cyclic_triples`: what ratings explain of such a matrix, and what they cannot.
"""

from arena.payoffs.cycles import cyclic_triples, transitive_share
from arena.payoffs.nash import maxent_nash, maximin
from arena.payoffs.view import Cycle, PayoffView, payoff_view

__all__ = ["Cycle", "PayoffView", "cyclic_triples", "maxent_nash", "maximin", "payoff_view", "transitive_share"]
