"""Generalised advantage estimation along a role's own tokens, against numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from arena.agents import from_list
from arena.engine import Engine, Plan
from arena.protocols import load_protocol
from arena.protocols.errors import NumericalError
from arena.protocols.records import Episode, Sampling, Task, TokenSpan, Turn
from arena.rewards import Payoff, pay
from arena.training.crediting import Crediting, PaidTurn, paid_turns
from arena.training.selfplay_config import CreditConfig
from arena.training.sequences import TrainingSequence, sequences_of


def sequence(*turns: int, episode: str = "e", role: str = "a", side: bool = False) -> TrainingSequence:
    """One whose trained tokens belong to these turns, with a token of somebody else before each."""
    count = len(turns)
    positions = [2 * at + 1 for at in range(count)]
    return TrainingSequence([5] * (2 * count), positions, [-1.0] * count, list(turns), role, episode, 1, side=side)


def paid(
    number: int, reward: float, *, final: float = 0.0, episode: str = "e", role: str = "a", side: bool = False
) -> PaidTurn:
    return PaidTurn((episode, role, number), role, reward, {}, final, side)


def credited(
    turns: list[PaidTurn], sequences: list[TrainingSequence], values: list[list[float]], **config: object
) -> list[TrainingSequence]:
    rule = CreditConfig.model_validate({"estimator": "gae", "scale": "none", **config})
    Crediting(rule, {"a": "a", "b": "b"}).by_critic(turns, sequences, values)
    return sequences


def near(*values: float) -> list[float]:
    return [pytest.approx(value, abs=1e-12) for value in values]


# Turn 0 has two tokens and earns 1, then somebody else speaks, and turn 1 has one token and earns 2. With gamma = .5,
# lam = .8 and values .5, .25, -.5:
#   delta_2 = 2 + .5            = 2.5        A_2 = 2.5
#   delta_1 = 1 - .5 * .5 - .25 = .5         A_1 = .5 + .4 * 2.5    = 1.5
#   delta_0 = .5 * .25 - .5     = -.375      A_0 = -.375 + .4 * 1.5 = .225
TWO_TURNS = [paid(0, 1.0), paid(1, 2.0)]
VALUES = [0.5, 0.25, -0.5]
RULE = {"discount": 0.5, "lam": 0.8}
ADVANTAGES = near(0.225, 1.5, 2.5)
TARGETS = near(0.725, 1.75, 2.0)
TO_GO = near(1.0, 2.0, 2.0)


def test_two_turns_with_an_observation_between() -> None:
    (made,) = credited(TWO_TURNS, [sequence(0, 0, 1)], [VALUES], **RULE)
    assert made.value is not None
    assert made.advantages == ADVANTAGES
    assert (made.value.values, made.value.targets, made.value.to_go) == (VALUES, TARGETS, TO_GO)


def test_with_lam_and_discount_of_one_it_is_what_came_minus_what_was_expected() -> None:
    (made,) = credited(TWO_TURNS, [sequence(0, 0, 1)], [VALUES], lam=1.0)
    assert made.advantages == near(3 - 0.5, 3 - 0.25, 2 + 0.5)
    assert made.value is not None
    assert made.value.targets == made.value.to_go == near(3.0, 3.0, 2.0)


def test_a_stream_goes_on_where_a_context_started_afresh() -> None:
    first, second = credited(TWO_TURNS, [sequence(0, 0), sequence(1)], [VALUES[:2], VALUES[2:]], **RULE)
    assert first.advantages + second.advantages == ADVANTAGES


def test_episodes_and_roles_do_not_mix() -> None:
    others = [paid(0, 7.0, role="b"), paid(0, -3.0, episode="f")]
    sequences = [sequence(0, 0, 1), sequence(0, role="b"), sequence(0, episode="f")]
    made = credited([*TWO_TURNS, *others], sequences, [VALUES, [1.0], [2.0]], **RULE)
    assert [each.advantages for each in made] == [ADVANTAGES, near(6.0), near(-5.0)]


def test_a_side_branch_ends_with_its_turn() -> None:
    """Turn 1 is an aside, paid 5: nothing of it reaches turn 0, and nothing of turn 2 reaches it."""
    turns = [paid(0, 1.0), paid(1, 5.0), paid(2, 2.0)]
    stream, aside = credited(turns, [sequence(0, 0, 2), sequence(1, side=True)], [VALUES, [1.5]], **RULE)
    assert stream.advantages == ADVANTAGES
    assert aside.advantages == near(3.5)


def test_what_an_aside_without_a_choice_is_paid_is_due_to_nothing_that_the_stream_did() -> None:
    turns = [paid(0, 1.0), paid(1, 5.0, side=True), paid(2, 2.0)]
    (stream,) = credited(turns, [sequence(0, 0, 2)], [VALUES], **RULE)
    assert stream.advantages == ADVANTAGES


def test_a_value_at_the_end_counts_once_and_what_a_turn_costs_where_it_is_caused() -> None:
    """The outcome 1 is paid to all three turns; the first one was fined a half, and the second one is an aside."""
    turns = [paid(0, 0.5, final=1.0), paid(1, 1.0, final=1.0), paid(2, 1.0, final=1.0)]
    sequences = [sequence(0, 2), sequence(1, side=True)]
    stream, aside = credited(turns, sequences, [[0.0, 0.0], [0.0]], lam=1.0)
    assert stream.value is not None
    assert aside.value is not None
    assert (stream.value.to_go, aside.value.to_go) == (near(0.5, 1.0), near(1.0))
    # Where each turn is worth what it is paid, each is worth the outcome.
    (own,) = credited(turns, [sequence(0, 2)], [[0.0, 0.0]], returns="own", lam=1.0)
    assert own.advantages == near(0.5, 1.0)


def test_a_turn_can_be_a_stream_of_its_own() -> None:
    (made,) = credited(TWO_TURNS, [sequence(0, 0, 1)], [VALUES], returns="own", **RULE)
    # delta_1 = 1 - .25; A_0 = (.5 * .25 - .5) + .4 * .75
    assert made.advantages == near(-0.075, 0.75, 2.5)


def test_the_reward_of_a_turn_without_a_choice_falls_on_the_choice_before_it() -> None:
    (made,) = credited([paid(0, 1.0), paid(1, 2.0), paid(2, 4.0)], [sequence(0, 2)], [[0.0, 0.0]], lam=1.0)
    assert made.advantages == near(7.0, 4.0)
    (made,) = credited([paid(0, 1.0), paid(1, 2.0)], [sequence(1)], [[0.0]], lam=1.0)
    assert made.advantages == near(2.0), "what comes before all choices is due to none"


def test_the_scale_and_the_weight_are_of_advantages_and_not_of_targets() -> None:
    turns = [paid(0, 3.0), paid(0, -1.0, episode="f")]
    made = credited(turns, [sequence(0), sequence(0, episode="f")], [[0.0], [0.0]], scale="batch", weight=0.5)
    # 3 and -1 have a deviation of 2.
    assert [each.advantages for each in made] == [near(0.75), near(-0.25)]
    assert [each.value.targets for each in made if each.value is not None] == [near(3.0), near(-1.0)]


def test_only_roles_whose_rule_asks_a_critic_get_its_credit() -> None:
    config = CreditConfig.model_validate({"scale": "none", "roles": {"b": {"estimator": "gae", "scale": "none"}}})
    made = Crediting(config, {"a": "a", "b": "b"})
    facts = {"task": 0, "role": "a", "node": "say", "visit": 0, "attempt": 0}
    turns = [replace(paid(0, reward, episode=name), facts=facts) for name, reward in (("e", 1.0), ("f", 0.0))]
    turns.append(paid(0, 4.0, role="b"))
    assert (made.asks_critic("a"), made.asks_critic("b")) == (False, True)
    assert made(turns, []) == {("e", "a", 0): 0.5, ("f", "a", 0): -0.5}
    own = sequence(0, role="b")
    made.by_critic(turns, [own], [[1.0]])
    assert own.advantages == near(3.0)


@pytest.mark.parametrize(("reward", "value"), [(math.nan, 0.0), (0.0, math.inf)])
def test_a_number_that_is_none_is_refused(reward: float, value: float) -> None:
    with pytest.raises(NumericalError, match="not finite"):
        credited([paid(0, reward)], [sequence(0)], [[value]])


def test_branches_and_fresh_starts_are_known_from_the_ledger() -> None:
    def said(number: int, *ids: int, fresh: bool = False, side: bool = False) -> Turn:
        span = TokenSpan((1, 2), ids, (-0.5,) * len(ids), "a@v0", Sampling(), fresh=fresh, side=side)
        return Turn(number, number, "say", "a", number, "a", None, "x", tokens=span)

    episode = Episode("e", "p", "t", {"a": "a"}, (), [said(0, 5, 6), said(1, 7, side=True), said(2, 8, fresh=True)])
    found = sequences_of(episode, {"a"})
    assert [(each.turns, each.side) for each in found] == [([0, 0], False), ([1], True), ([2], False)]
    turns = paid_turns([episode], [Payoff([1.0, 5.0, 2.0], None)], [0], [frozenset({"a"})], [])
    assert [turn.side for turn in turns] == [False, True, False]
    credited(turns, found, [VALUES[:2], [1.5], VALUES[2:]], **RULE)
    assert [each.advantages for each in found] == [ADVANTAGES[:2], near(3.5), ADVANTAGES[2:]]


GAME = """
name: game
fields: [answers]
roles:
  first: {sees: [answers]}
nodes:
  say: {speak: first, output: {choice: [stay, go]}}
edges:
  - start -> say -> end
  - {from: say, to: say, times: 1}
rewards:
  - {roles: [first], value: "5 if say.choice == 'go' else 3", pay: end}
  - {roles: [first], value: "-words", pay: turn}
"""


def test_what_is_paid_at_the_end_is_told_apart_from_what_is_paid_by_turn(tmp_path: Path) -> None:
    (tmp_path / "game.yaml").write_text(GAME)
    protocol = load_protocol(tmp_path / "game.yaml")
    task = Task("t", {"answers": ("x", "y")}, 0)
    lineup = {"first": from_list(["stay", "go"])}
    (episode,) = Engine(protocol, {}, seed=0, judging=False).play([Plan("e", task, lineup)])
    (payoff,) = pay(protocol, {}, [episode], {"t": task})
    assert (payoff.rewards, payoff.final) == ([4.0, 4.0], [5.0, 5.0])
    found = paid_turns([episode], [payoff], [0], [frozenset({"first"})], ["first"])
    assert [(turn.reward, turn.final) for turn in found] == [(4.0, 5.0), (4.0, 5.0)]
    lone = Crediting(CreditConfig(estimator="gae", scale="none", lam=1.0), {"first": "first"})
    own = sequence(0, 1, role="first")
    lone.by_critic(found, [own], [[0.0, 0.0]])
    assert own.advantages == near(5.0 - 2.0, 5.0 - 1.0)
