"""Probes of small games: exact measures of policies in training and of their league."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arena.agents.models import tiny
from arena.agents.policy import Policy
from arena.games import PolicyStrategy, nash_conv, open_game
from arena.protocols import load_protocol
from arena.protocols.errors import SourceError
from arena.tasks import open_tasks
from arena.training.league import League, Member
from arena.training.probe_games import NashConvProbe, OffUniformProbe
from arena.training.probes import PROBES, Moment
from arena.training.recipe import Recipe, load_recipe
from arena.training.world import World, build_world


def world(name: str) -> World:
    return build_world(load_recipe(name), 0, lambda event: None)


def moment(here: World, policies: dict[str, Policy], members: Sequence[Member] = ()) -> Moment:
    protocol = load_protocol(here.recipe.protocol, here.recipe.params)
    sides = [frozenset([seat]) for seat in protocol.speakers]
    league = League(here.recipe.self_play.league, sides, [])
    league.members = list(members)
    return Moment(here, protocol, policies, league, 0)


def player(seed: int, words: str) -> Policy:
    return Policy("player", tiny(words, hidden=16, layers=1, heads=2, initializer_range=0.8, seed=seed))


def test_nash_conv_is_that_of_the_policy() -> None:
    here, policy = world("kuhn"), player(0, "hold J Q K : pass bet ?")
    probe = NashConvProbe()
    found = probe.measure(moment(here, {"player": policy}))
    game = open_game(load_protocol("kuhn-words"), open_tasks("kuhn").train)
    assert found["nash_conv"] == pytest.approx(nash_conv(game, PolicyStrategy(policy.agent())), abs=1e-6)
    assert found["value/first"] == pytest.approx(-found["value/second"], abs=1e-12)
    for parameter in policy.model.network.parameters():
        parameter.data.mul_(0.5)
    policy.publish()
    assert probe.measure(moment(here, {"player": policy})).keys() == found.keys()
    assert probe.measure(moment(here, {"player": policy})) != found


def test_off_uniform_is_the_largest_difference() -> None:
    here, policy = world("rps"), player(1, "play ? rock paper scissors")
    found = OffUniformProbe().measure(moment(here, {"player": policy}))
    row = [found[f"left/{hand}"] for hand in ("rock", "paper", "scissors")]
    assert row == [found[f"right/{hand}"] for hand in ("rock", "paper", "scissors")]
    assert sum(row) == pytest.approx(1.0)
    assert found["off"] == pytest.approx(np.abs(np.array(row) - 1 / 3).max())


def test_a_league_is_its_average() -> None:
    here, words = world("rps"), "play ? rock paper scissors"
    members = [player(seed, words) for seed in range(3)]
    league = [
        Member(f"m{n}", dict.fromkeys(("left", "right"), member.agent(name=f"m{n}")))
        for n, member in enumerate(members)
    ]
    probe = OffUniformProbe(of="league")
    found = probe.measure(moment(here, {"player": player(9, words)}, league))
    single = [OffUniformProbe().measure(moment(here, {"player": member})) for member in members]
    for hand in ("rock", "paper", "scissors"):
        assert found[f"left/{hand}"] == pytest.approx(np.mean([one[f"left/{hand}"] for one in single]))


CHANGES: list[tuple[str, dict[str, Any], str]] = [
    ("kuhn", {"roles.second": "random"}, "'second' is no policy in training"),
    ("kuhn", {"self_play.probes": {"average": {"kind": "off_uniform", "of": "league"}}}, "snapshot_every: 20"),
    ("facts", {"self_play.probes": {"exact": {"kind": "nash_conv"}}}, "is no game that can be worked out"),
    ("kuhn", {"self_play.probes": {"exact": {"kind": "nash_conv", "of": "nobody"}}}, "nobody"),
]


@pytest.mark.parametrize(("recipe", "changes", "reason"), CHANGES)
def test_what_cannot_be_measured_is_refused_before_training(recipe: str, changes: dict[str, Any], reason: str) -> None:
    if recipe == "kuhn":
        changes = {**changes, "variants": {}, "metrics": {}}
    with pytest.raises(SourceError, match=reason):
        load_recipe(recipe, changes)


@pytest.mark.parametrize("name", ["kuhn", "rps"])
def test_the_recipes_of_games_are_sound_and_sampled(name: str, tmp_path: Path) -> None:
    from arena.training.selfplay import SelfPlay

    recipe: Recipe = load_recipe(name, {"self_play.steps": 2, "variants": {}, "metrics": {}})
    play = SelfPlay(build_world(recipe, 0, lambda event: None), tmp_path, lambda event: None)
    assert play.sampler is not None
    assert set(recipe.self_play.probes) <= set(play.probes)
    assert {probe.kind for probe in recipe.self_play.probes.values()} <= set(PROBES.names())
