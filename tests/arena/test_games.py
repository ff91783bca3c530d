"""Games worked out exactly: trees of protocols, values, best responses, NashConv, averages.

Expected values come from OpenSpiel, from Kuhn's own solution of his game, and from games that are solved by hand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from arena.games import (
    Deal,
    Game,
    InformationSet,
    Profile,
    Strategy,
    average_strategy,
    best_response,
    expected_values,
    exploitability,
    from_table,
    nash_conv,
    open_game,
    tabulate,
    uniform,
    values_against,
)
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Task
from arena.tasks import open_tasks

HISTORIES = {"open": "", "after-check": "p", "after-bet": "b", "after-raise": "pb"}
"""Node -> what was bet so far, as OpenSpiel spells it."""

PENNIES = """
name: pennies
roles: {one: {}, two: {}}
nodes:
  left: {speak: one, prompt: Heads or tails?, output: {choice: [heads, tails]}}
  right: {speak: two, prompt: Heads or tails?, output: {choice: [heads, tails]}}
  score: {compute: {one: 1 if left.choice == right.choice else -1}}
edges: [start -> MOVES -> score -> end]
rewards: {zero_sum: true, value: {one: score.one, two: -score.one}}
"""
AT_ONCE, IN_TURN = PENNIES.replace("MOVES", "left & right"), PENNIES.replace("MOVES", "left -> right")


@pytest.fixture(scope="module", params=["kuhn-poker", "kuhn-words"])
def kuhn(request: pytest.FixtureRequest) -> Game:
    return open_game(load_protocol(request.param), open_tasks("kuhn").train)


def card(found: InformationSet) -> int:
    return "JQK".index(found.ask.task.fields["card_one" if found.seat == "first" else "card_two"])


def bets(rule: Callable[[int, str], float]) -> Strategy:
    """Of Kuhn poker: the probability to bet or call by card and history."""

    def strategy(sets: Sequence[InformationSet]) -> list[tuple[float, float]]:
        rows = []
        for found in sets:
            p = rule(card(found), HISTORIES[found.ask.node])
            rows.append((1 - p, p) if found.options[1] == "bet" else (p, 1 - p))
        return rows

    return strategy


def equilibrium(alpha: float) -> Strategy:
    """Kuhn 1950: the equilibria of the first player, and the only one of the second."""
    table = {
        "": (alpha, 0.0, 3 * alpha),
        "pb": (0.0, alpha + 1 / 3, 1.0),
        "p": (1 / 3, 0.0, 1.0),
        "b": (0.0, 1 / 3, 1.0),
    }
    return bets(lambda hold, history: table[history][hold])


def by_node(shares: Mapping[str, Sequence[float]]) -> Strategy:
    return lambda sets: [shares[found.ask.node] for found in sets]


def scripted(seed: int) -> Strategy:
    rng = np.random.default_rng(seed)
    shares = {(hold, history): float(rng.random()) for hold in range(3) for history in HISTORIES.values()}
    return bets(lambda hold, history: shares[hold, history])


# The tree


def test_kuhn_poker_has_twelve_information_sets(kuhn: Game) -> None:
    # Six deals with four decisions and five ends each; three cards and two situations a player.
    assert (kuhn.histories, len(kuhn.information_sets)) == (54, 12)
    assert {seat: len(kuhn.of(seat)) for seat in kuhn.seats} == {"first": 6, "second": 6}


def test_an_information_set_is_what_a_role_was_told() -> None:
    game = open_game(load_protocol("kuhn-words"), open_tasks("kuhn").train)
    told = {str(found) for found in game.of("second")}
    assert {" ".join(text.split()) for text in told} == {
        f"second: hold {hold} : | {move} | ?" for hold in "JQK" for move in ("pass", "bet")
    }


def test_players_who_move_at_once_do_not_know_of_each_other(compiled: Callable[..., Protocol]) -> None:
    at_once, in_turn = (open_game(compiled(text), [Task("t", {})]) for text in (AT_ONCE, IN_TURN))
    assert [found.seat for found in at_once.information_sets] == ["one", "two"]
    assert [found.seat for found in in_turn.information_sets] == ["one", "two", "two"]


def test_deals_come_by_their_weights(compiled: Callable[..., Protocol]) -> None:
    text = """
    name: guess
    roles: {guesser: {}}
    nodes:
      guess: {speak: guesser, prompt: Which?, output: {choice: [a, b]}}
      score: {compute: {won: 1 if guess.choice == coin else 0}}
    edges: [start -> guess -> score -> end]
    rewards: {value: {guesser: score.won}}
    """
    protocol = compiled("fields: [coin]\n" + "\n".join(line[4:] for line in text.splitlines()))
    game = open_game(protocol, [Deal(Task("a", {"coin": "a"}), weight=3.0), Task("b", {"coin": "b"})])
    assert best_response(game, "guesser", uniform).value == 0.75
    assert len(game.information_sets) == 1


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("edges: [start ->", "  note: {speak: one, prompt: Well?}\nedges: [start -> note ->"), "'note' has no choice"),
        (("prompt: Heads", "best_of: {n: 2, value: words}, prompt: Heads"), "several candidates"),
        (
            ("{choice: [heads, tails]}}\n  right", "{choice: [heads, tails], tag: move}}\n  right"),
            "more than its choice",
        ),
        (("value: {one: score.one, two: -score.one}", "value: {one: score.one}"), "no reward pays 'two'"),
        (("edges:", "budget: {seconds: 5}\nedges:"), "counts seconds"),
    ],
)
def test_what_is_no_game_is_refused_with_the_reason(
    compiled: Callable[..., Protocol], change: tuple[str, str], reason: str
) -> None:
    text = AT_ONCE.replace(*change, 1).replace("zero_sum: true, ", "")
    with pytest.raises(ConfigError, match=reason):
        open_game(compiled(text), [Task("t", {})])


def test_debates_with_a_judge_are_no_games() -> None:
    with pytest.raises(ConfigError, match=r"asks a judge or a program.*rests on a verdict"):
        open_game(load_protocol("debate"), [Task("t", {"question": "?", "answers": ("a", "b")})])


def test_an_option_that_a_limit_cuts_is_told(compiled: Callable[..., Protocol]) -> None:
    text = AT_ONCE.replace("[heads, tails]}", "[heads, both of them]}, limit: {words: 1}", 1)
    with pytest.raises(ConfigError, match="'left' is not taken when it is said"):
        open_game(compiled(text), [Task("t", {})])


def test_games_that_are_too_large_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"more than 1,000 histories.*most="):
        open_game(load_protocol("rock-paper-scissors", {"rounds": 4}), [Task("t", {})], most=1000)


def test_a_game_needs_deals(compiled: Callable[..., Protocol]) -> None:
    for deals in ([], [Deal(Task("t", {}), weight=0.0)]):
        with pytest.raises(ConfigError, match="weights above 0"):
            open_game(compiled(AT_ONCE), deals)


# Values


def test_nash_conv_is_that_of_open_spiel(kuhn: Game) -> None:
    pytest.importorskip("pyspiel")
    for seed in range(20):
        found = nash_conv(kuhn, scripted(seed))
        assert found == pytest.approx(_open_spiel(kuhn, scripted(seed)), abs=1e-12)


def _open_spiel(game: Game, strategy: Strategy) -> float:
    import pyspiel

    table = tabulate(game, strategy)
    policy = {}
    for found, row in table.items():
        called = found.options.index("bet" if "bet" in found.options else "call")
        policy[f"{card(found)}{HISTORIES[found.ask.node]}"] = [(0, row[1 - called]), (1, row[called])]
    return float(pyspiel.nash_conv(pyspiel.load_game("kuhn_poker"), policy))


def test_kuhn_poker_is_worth_what_kuhn_says(kuhn: Game) -> None:
    for alpha in (0.0, 0.1, 1 / 3):
        assert expected_values(kuhn, equilibrium(alpha)) == pytest.approx(
            {"first": -1 / 18, "second": 1 / 18}, abs=1e-15
        )
        assert nash_conv(kuhn, equilibrium(alpha)) == pytest.approx(0.0, abs=1e-15)
    assert nash_conv(kuhn, equilibrium(1 / 3 - 0.01)) == pytest.approx(0.0, abs=1e-15)
    assert nash_conv(kuhn, bets(lambda hold, history: 0.5)) == pytest.approx(11 / 12, abs=1e-15)
    assert exploitability(kuhn, uniform) == pytest.approx(11 / 24, abs=1e-15)


def test_a_best_response_wins_what_it_says(kuhn: Game) -> None:
    for seed in range(5):
        other = scripted(seed)
        for seat in kuhn.seats:
            best = best_response(kuhn, seat, other)
            profile: dict[str, Strategy] = {s: best if s == seat else other for s in kuhn.seats}
            assert expected_values(kuhn, profile)[seat] == pytest.approx(best.value, abs=1e-14)
            assert best.value >= expected_values(kuhn, other)[seat] - 1e-14


def test_no_pure_strategy_beats_the_best_response(kuhn: Game) -> None:
    other = scripted(3)
    own = kuhn.of("second")
    values = []
    for choices in np.ndindex(*(2,) * len(own)):
        table = {found: (1.0 - c, float(c)) for found, c in zip(own, choices, strict=True)}
        values.append(expected_values(kuhn, {"first": other, "second": from_table(table)})["second"])
    assert best_response(kuhn, "second", {"first": other}).value == pytest.approx(max(values), abs=1e-14)


def test_matching_pennies(compiled: Callable[..., Protocol]) -> None:
    at_once, in_turn = (open_game(compiled(text), [Task("t", {})]) for text in (AT_ONCE, IN_TURN))
    biased = by_node({"left": (0.7, 0.3), "right": (0.5, 0.5)})
    # The second wins .7 - .3 by showing tails; the first can win nothing against a fair coin.
    assert best_response(at_once, "two", biased).value == pytest.approx(0.4, abs=1e-15)
    assert nash_conv(at_once, biased) == pytest.approx(0.4, abs=1e-15)
    assert nash_conv(at_once, uniform) == 0.0
    # Who sees the other's coin always wins.
    assert best_response(in_turn, "two", uniform).value == 1.0


@pytest.mark.parametrize(
    ("shares", "gain"), [((1 / 3, 1 / 3, 1 / 3), 0.0), ((0.5, 0.25, 0.25), 0.25), ((1, 0, 0), 1.0)]
)
def test_rock_paper_scissors(shares: tuple[float, ...], gain: float) -> None:
    game = open_game(load_protocol("rps-words"), [Task("t", {})])
    strategy = by_node({"left-hand": shares, "right-hand": shares})
    assert (game.histories, len(game.information_sets)) == (13, 2)
    assert expected_values(game, strategy) == pytest.approx({"left": 0.0, "right": 0.0}, abs=1e-15)
    # The best answer to rock is paper: what is won is its share minus that of scissors.
    assert best_response(game, "right", strategy).value == pytest.approx(gain, abs=1e-15)
    assert nash_conv(game, strategy) == pytest.approx(2 * gain, abs=1e-15)


def test_more_rounds_are_a_larger_game() -> None:
    game = open_game(load_protocol("rock-paper-scissors", {"rounds": 2}), [Task("t", {})])
    assert len(game.of("left")) == 1 + 9  # after the first round it knows both hands
    assert nash_conv(game, uniform) == pytest.approx(0.0, abs=1e-15)


def test_exploitability_is_for_two_players_who_share_a_sum(compiled: Callable[..., Protocol]) -> None:
    text = AT_ONCE.replace("zero_sum: true, ", "").replace("two: -score.one", "two: score.one")
    game = open_game(compiled(text), [Task("t", {})])
    with pytest.raises(ConfigError, match="use nash_conv"):
        exploitability(game, uniform)
    assert nash_conv(game, uniform) == 0.0
    agreed = by_node({"left": (0.9, 0.1), "right": (0.9, 0.1)})  # 2 x .9 x .1 are lost; either could win .8
    assert nash_conv(game, agreed) == pytest.approx(2 * (0.8 - 0.64), abs=1e-14)


# Leagues


def test_an_average_wins_as_much_as_drawing_a_member(kuhn: Game) -> None:
    members = [scripted(seed) for seed in range(4)]
    weights = [1.0, 2.0, 0.0, 5.0]
    mixed = average_strategy(kuhn, members, weights)
    for other in (uniform, scripted(9)):
        drawn = values_against(kuhn, mixed, [other])[0]
        each = [values_against(kuhn, member, [other])[0] for member in members]
        for seat in kuhn.seats:
            expected = math.fsum(w * row[seat] for w, row in zip(weights, each, strict=True)) / 8.0
            assert drawn[seat] == pytest.approx(expected, abs=1e-14)


def test_an_average_is_weighted_by_who_comes_there(compiled: Callable[..., Protocol]) -> None:
    text = """
    name: twice
    roles: {one: {}}
    nodes:
      first: {speak: one, prompt: Go?, output: {choice: [go, stay]}}
      second: {speak: one, prompt: Which?, output: {choice: [a, b]}}
      score: {compute: {won: 1 if second.choice == 'a' else 0}}
    edges:
      - start -> first
      - {from: first, to: second, when: first.choice == 'go'}
      - first -> score
      - second -> score -> end
    rewards: {value: {one: score.won}}
    """
    game = open_game(compiled("\n".join(line[4:] for line in text.splitlines())), [Task("t", {})])
    often = by_node({"first": (0.9, 0.1), "second": (1.0, 0.0)})
    seldom = by_node({"first": (0.1, 0.9), "second": (0.0, 1.0)})
    never = by_node({"first": (0.0, 1.0), "second": (0.25, 0.75)})
    rows = dict(zip(("first", "second"), average_strategy(game, [often, seldom])(game.information_sets), strict=True))
    assert rows == {"first": pytest.approx((0.5, 0.5)), "second": pytest.approx((0.9, 0.1))}
    (_, second) = average_strategy(game, [never, never])(game.information_sets)
    assert second == pytest.approx((0.25, 0.75))


def test_weights_of_a_league_must_be_some(kuhn: Game) -> None:
    for weights in ([1.0], [0.0, 0.0], [1.0, -1.0], [1.0, math.nan]):
        with pytest.raises(ConfigError, match="weights of 0 or more"):
            average_strategy(kuhn, [uniform, uniform], weights)


# What is refused


@pytest.mark.parametrize("row", [(0.5, 0.4), (1.2, -0.2), (1.0,), (math.nan, 1.0)])
def test_what_is_no_strategy_is_refused(kuhn: Game, row: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="are no probabilities"):
        expected_values(kuhn, lambda sets: [row for _ in sets])


def test_every_seat_needs_a_strategy(kuhn: Game) -> None:
    profile: Profile = {"first": uniform}
    with pytest.raises(ConfigError, match="no strategy is given for 'second'"):
        nash_conv(kuhn, profile)
    with pytest.raises(ConfigError, match="answered for 0 of 12"):
        nash_conv(kuhn, lambda sets: [])
    with pytest.raises(ConfigError, match="'third' is no player"):
        best_response(kuhn, "third", uniform)


def test_a_player_that_forgets_has_no_best_response(compiled: Callable[..., Protocol]) -> None:
    text = """
    name: forgetful
    roles: {one: {}}
    nodes:
      first: {speak: one, prompt: Which?, to: nobody, output: {choice: [a, b]}}
      second: {speak: one, prompt: Which was it?, output: {choice: [a, b]}}
      score: {compute: {won: 1 if first.choice == second.choice else 0}}
    edges: [start -> first -> second -> score -> end]
    rewards: {value: {one: score.won}}
    """
    game = open_game(compiled("\n".join(line[4:] for line in text.splitlines())), [Task("t", {})])
    assert len(game.information_sets) == 2
    assert expected_values(game, uniform) == {"one": 0.5}
    for ask in (lambda: best_response(game, "one", uniform), lambda: average_strategy(game, [uniform])):
        with pytest.raises(ConfigError, match=r"no perfect recall.*at 'second'"):
            ask()


def test_strategies_are_asked_once_for_all_their_seats(kuhn: Game) -> None:
    asked: list[int] = []

    def counted(sets: Sequence[InformationSet]) -> Any:
        asked.append(len(sets))
        return uniform(sets)

    nash_conv(kuhn, counted)
    nash_conv(kuhn, {"first": counted, "second": counted})
    assert asked == [12, 12]
