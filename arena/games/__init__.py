"""Protocols that are small games, worked out exactly.

    game = open_game(load_protocol("kuhn-poker"), open_tasks("kuhn").train)
    nash_conv(game, PolicyStrategy(agent))

A game is a protocol in which every speaking node has a ``choice`` output and nothing but these choices and the task
decides what is paid. `open_game` plays it in every way that it can go; then best responses, NashConv and averages over
leagues are exact. A strategy is any function from information sets to probabilities; `PolicyStrategy` is
that of a policy, from its own probabilities. `GameSampler` plays such games for training, at the cost of the draws.
"""

from arena.games.analysis import (
    BestResponse,
    average_strategy,
    best_response,
    expected_values,
    exploitability,
    from_table,
    nash_conv,
    tabulate,
    uniform,
    values_against,
)
from arena.games.policies import PolicyStrategy
from arena.games.sampler import GameSampler, game_sampler
from arena.games.tree import check_game, open_game
from arena.games.types import Deal, Decision, Game, InformationSet, Outcome, Probabilities, Profile, Strategy

__all__ = [
    "BestResponse",
    "Deal",
    "Decision",
    "Game",
    "GameSampler",
    "InformationSet",
    "Outcome",
    "PolicyStrategy",
    "Probabilities",
    "Profile",
    "Strategy",
    "average_strategy",
    "best_response",
    "check_game",
    "expected_values",
    "exploitability",
    "from_table",
    "game_sampler",
    "nash_conv",
    "open_game",
    "tabulate",
    "uniform",
    "values_against",
]
