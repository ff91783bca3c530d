"""Games of policies: the exact probabilities of what a model chooses, and episodes that cost their draws only."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from arena.agents import ScriptedAgent
from arena.agents.models import Model, tiny
from arena.agents.policy import Policy, PolicyAgent
from arena.agents.types import ScoreRequest
from arena.engine import Engine, Plan
from arena.games import GameSampler, PolicyStrategy, game_sampler, nash_conv, open_game, tabulate
from arena.protocols import Protocol, load_protocol
from arena.protocols.errors import ConfigError
from arena.protocols.records import Episode, Sampling, Task
from arena.rewards import pay
from arena.tasks import open_tasks

WORDS = "hold J Q K : pass bet ?"
TASKS = open_tasks("kuhn", seed=1).train

TWO_WORDS = """
name: long-names
roles: {one: {opening: play}, two: {opening: play}}
message: "{{ text }}"
nodes:
  left: {speak: one, prompt: "?", output: {choice: [raise high, raise low, fold]}}
  right: {speak: two, prompt: "?", output: {choice: [raise high, raise low, fold]}}
  score: {compute: {one: 1 if left.choice == right.choice else -1}}
edges: [start -> left -> right -> score -> end]
rewards: {zero_sum: true, value: {one: score.one, two: -score.one}}
"""


def model(seed: int, words: str = WORDS) -> Model:
    """In float64, so that batches of other sizes give the same numbers up to 1e-15."""
    made = tiny(words, hidden=16, layers=1, heads=2, initializer_range=1.0, seed=seed)
    made.network.double()
    return made


def agent(seed: int, *, words: str = WORDS, temperature: float = 1.0, name: str = "p") -> PolicyAgent:
    return Policy(name, model(seed, words)).agent(Sampling(temperature))


@pytest.fixture(scope="module")
def kuhn() -> Protocol:
    return load_protocol("kuhn-words")


@pytest.fixture
def long_names(compiled: Callable[..., Protocol]) -> Protocol:
    return compiled(TWO_WORDS)


def same(expected: Sequence[Episode], found: Sequence[Episode]) -> None:
    """All fields of all turns, spans and episodes; log-probs up to rounding."""
    assert len(expected) == len(found)
    for one, two in zip(copy.deepcopy(expected), copy.deepcopy(found), strict=True):
        for turn, other in zip(one.turns, two.turns, strict=True):
            if turn.tokens is not None:
                assert other.tokens is not None
                assert other.tokens.logps == pytest.approx(turn.tokens.logps, abs=1e-12)
                other.tokens.logps = turn.tokens.logps
        assert one == two


# Strategies


def test_a_policy_plays_as_its_agent_samples(kuhn: Protocol) -> None:
    player = agent(3)
    game = open_game(kuhn, TASKS)
    lineup = {"first": player, "second": player}
    plans = [Plan(f"{number}", TASKS[number % 6], lineup) for number in range(3000)]
    counts: dict[tuple[str, str, str], list[int]] = {}
    cards = {task.id: task.fields for task in TASKS}
    for episode in Engine(kuhn, {}, seed=0).play(plans):
        for turn in episode.turns:
            if turn.tokens is not None:
                card = cards[episode.task]["card_one" if turn.role == "first" else "card_two"]
                counts.setdefault((turn.role, turn.node, card), [0, 0])[turn.fields["index"]] += 1
    assert len(counts) == 12
    for found, row in tabulate(game, PolicyStrategy(player)).items():
        card = found.ask.task.fields["card_one" if found.seat == "first" else "card_two"]
        bet, total = counts[found.seat, found.ask.node, card][1], sum(counts[found.seat, found.ask.node, card])
        deviation = math.sqrt(row[0] * row[1] / total)
        assert abs(bet / total - row[1]) <= 4.5 * deviation + 1e-9


def test_log_probs_of_a_text_add_up_over_its_forks(long_names: Protocol) -> None:
    player = agent(1, words="play ? raise high low fold")
    game = open_game(long_names, [Task("t", {})])
    row = tabulate(game, PolicyStrategy(player))[game.of("one")[0]]
    encoder, backend = player.encoder, player.backend
    context = [1, *encoder.encode_turn("play ?", end=False)]
    raised, high, low, fold = encoder.encode_turn("raise high low fold", end=False)
    first, second = backend.score(
        [ScoreRequest(context, [[raised], [fold]]), ScoreRequest([*context, raised], [[high], [low]])]
    )
    p_raise, p_high = (math.exp(a) / (math.exp(a) + math.exp(b)) for a, b in (first, second))
    assert row == pytest.approx((p_raise * p_high, p_raise * (1 - p_high), 1 - p_raise), abs=1e-14)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_temperature_changes_what_is_played(kuhn: Protocol, temperature: float) -> None:
    game = open_game(kuhn, TASKS)
    plain, changed = (tabulate(game, PolicyStrategy(agent(2, temperature=t))) for t in (1.0, temperature))
    for found in game.information_sets:
        odds = (plain[found][0] / plain[found][1]) ** (1 / temperature)
        assert changed[found][0] == pytest.approx(odds / (1 + odds), rel=1e-12)


def test_at_temperature_zero_the_likeliest_is_certain(kuhn: Protocol) -> None:
    game = open_game(kuhn, TASKS)
    plain, greedy = (tabulate(game, PolicyStrategy(agent(2, temperature=t))) for t in (1.0, 0.0))
    for found in game.information_sets:
        assert greedy[found] == tuple(float(p == max(plain[found])) for p in plain[found])


def test_a_strategy_follows_the_weights(kuhn: Protocol) -> None:
    policy = Policy("p", model(5))
    game, strategy = open_game(kuhn, TASKS), PolicyStrategy(policy.agent())
    before = nash_conv(game, strategy)
    for parameter in policy.model.network.parameters():
        parameter.data.mul_(0.5)
    policy.publish()
    assert nash_conv(game, strategy) != before
    assert nash_conv(game, strategy) == nash_conv(game, PolicyStrategy(policy.agent()))


def test_cut_distributions_are_refused(kuhn: Protocol) -> None:
    cut = Policy("p", model(0)).agent(Sampling(top_p=0.9))
    with pytest.raises(ConfigError, match="top_p 1 and top_k 0 only"):
        PolicyStrategy(cut)
    with pytest.raises(ConfigError, match="top_p 1 and top_k 0 only"):
        GameSampler(kuhn, seed=0).play([Plan("k", TASKS[0], {"first": cut, "second": cut})])
    assert game_sampler(kuhn, [cut], seed=0) is None


# The sampler


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_a_sampler_plays_the_episodes_of_an_engine(kuhn: Protocol, temperature: float) -> None:
    one, two = agent(0, temperature=temperature), agent(1, name="q")
    lineups = [{"first": one, "second": one}, {"first": one, "second": two}, {"first": two, "second": one}]
    plans = [Plan(f"3/{number}", TASKS[number % 6], lineups[number % 3]) for number in range(120)]
    expected = Engine(kuhn, {}, seed=7, judging=False).play(plans)
    sampler = GameSampler(kuhn, seed=7)
    for _ in range(2):  # what is remembered gives the same
        episodes = sampler.play(plans)
        same(expected, episodes)
    assert sampler.pay(episodes) == pay(kuhn, {}, expected, {task.id: task for task in TASKS})


def test_choices_of_several_tokens_are_played_as_by_an_engine(long_names: Protocol) -> None:
    one, two = (agent(seed, words="play ? raise high low fold", name=f"p{seed}") for seed in (1, 2))
    tasks = [Task("t", {}), Task("u", {})]
    plans = [Plan(f"{number}", tasks[number % 2], {"one": one, "two": two}) for number in range(60)]
    same(Engine(long_names, {}, seed=3).play(plans), GameSampler(long_names, seed=3).play(plans))


def test_rounds_and_hands_at_once_are_played_as_by_an_engine() -> None:
    protocol = load_protocol("rps-words", {"rounds": 3})
    one, two = (agent(seed, words="play ? rock paper scissors", name=f"p{seed}") for seed in (1, 2))
    task = Task("t", {})
    plans = [Plan(f"{number}", task, {"left": one, "right": two}) for number in range(60)]
    same(Engine(protocol, {}, seed=3).play(plans), GameSampler(protocol, seed=3).play(plans))


def test_a_sampler_follows_weights_names_and_versions(kuhn: Protocol) -> None:
    policy = Policy("p", model(4))
    player = policy.agent()
    plans = [Plan(f"{number}", TASKS[number % 6], {"first": player, "second": player}) for number in range(60)]
    sampler = GameSampler(kuhn, seed=0)
    before = sampler.play(plans)
    for parameter in policy.model.network.parameters():
        parameter.data.mul_(-1.0)
    player.name = policy.publish()
    after = sampler.play(plans)
    same(Engine(kuhn, {}, seed=0).play(plans), after)
    assert {episode.lineup["first"] for episode in after} == {"p@v1"}
    assert [episode.turns for episode in before] != [episode.turns for episode in after]


class Counting:
    """A backend that counts the contexts that it was asked about."""

    def __init__(self, player: PolicyAgent) -> None:
        self.inner, self.asked = player.backend, list[tuple[int, ...]]()
        self.policy, self.max_length = player.backend.policy, 512
        player.backend = self  # type: ignore[assignment]

    def score(self, requests: Sequence[ScoreRequest]) -> Sequence[Sequence[float]]:
        self.asked += [tuple(request.ids) for request in requests]
        return self.inner.score(requests)


def test_each_distinct_context_goes_through_the_net_once_a_call(kuhn: Protocol) -> None:
    player = agent(0)
    backend = Counting(player)
    plans = [Plan(f"{number}", TASKS[number % 6], {"first": player, "second": player}) for number in range(400)]
    sampler = GameSampler(kuhn, seed=0)
    for _ in range(2):
        backend.asked.clear()
        sampler.play(plans)
        assert len(backend.asked) == len(set(backend.asked)) == 12


def test_only_policies_can_be_sampled(kuhn: Protocol) -> None:
    scripted = ScriptedAgent("shy", lambda ask: "pass")
    with pytest.raises(ConfigError, match=r"'shy' \(first\) is no agent that samples from a model"):
        GameSampler(kuhn, seed=0).play([Plan("k", TASKS[0], {"first": scripted, "second": scripted})])
    assert game_sampler(kuhn, [agent(0), scripted], seed=0) is None
    assert game_sampler(load_protocol("debate"), [agent(0)], seed=0) is None
    assert game_sampler(kuhn, [agent(0)], seed=0) is not None


def test_keys_are_unique_and_payoffs_those_of_the_last_call(kuhn: Protocol) -> None:
    player = agent(0)
    plan = Plan("k", TASKS[0], {"first": player, "second": player})
    sampler = GameSampler(kuhn, seed=0)
    with pytest.raises(ConfigError, match="the same key"):
        sampler.play([plan, plan])
    (episode,) = sampler.play([plan])
    sampler.play([])
    with pytest.raises(ConfigError, match="'k' was not played by the last call"):
        sampler.pay([episode])


def test_a_lineup_must_fit(kuhn: Protocol) -> None:
    player = agent(0)
    with pytest.raises(ConfigError, match="'second' that nobody fills"):
        GameSampler(kuhn, seed=0).play([Plan("k", TASKS[0], {"first": player})])


def test_draws_are_those_of_the_seeds(kuhn: Protocol) -> None:
    """Other roots give other episodes, in the shares of the strategy."""
    player = agent(3)
    plans = [Plan(f"{number}", TASKS[0], {"first": player, "second": player}) for number in range(2000)]
    one, two = (GameSampler(kuhn, seed=seed).play(plans) for seed in (0, 1))
    assert [e.turns[1].text for e in one] != [e.turns[1].text for e in two]
    shares = np.mean([[e.turns[1].text == "bet" for e in run] for run in (one, two)], axis=1)
    assert abs(shares[0] - shares[1]) < 0.06
