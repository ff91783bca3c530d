"""The league: who meets whom, and what is remembered of it."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from arena.protocols.errors import ConfigError
from arena.training.league import League, Member, sides_of
from arena.training.selfplay_config import LeagueConfig, SelfPlayRecipe, inert_self_play

SIDES = [frozenset(["first"]), frozenset(["second"])]


def league(members: int = 3, **config: object) -> League:
    made = League(LeagueConfig.model_validate(config), SIDES, [])
    for number in range(members):
        made.add(Member(f"gen{number}", {}))
    return made


def drawn(made: League, steps: int, groups: int = 10, generation: int = 1) -> list[tuple[str, str, str]]:
    return [
        (matchup.kind, "+".join(sorted(matchup.side)), matchup.member.name if matchup.member else "")
        for step in range(steps)
        for matchup in made.matchups(groups, np.random.default_rng(step), generation)
    ]


def test_mirror_games_have_everybody_in_training_and_nobody_else() -> None:
    assert set(drawn(league(), 5)) == {("mirror", "first+second", "")}


def test_every_step_has_its_share_of_each_kind_up_to_one_game() -> None:
    made = league(mix={"mirror": 0.5, "latest": 0.3, "history": 0.2})
    for step in range(50):
        kinds = [matchup.kind for matchup in made.matchups(10, np.random.default_rng(step), 1)]
        for kind, due in (("mirror", 5), ("latest", 3), ("history", 2)):
            assert abs(kinds.count(kind) - due) <= 1


def test_both_sides_are_played_equally_often_against_members() -> None:
    sides = [side for _, side, _ in drawn(league(mix={"latest": 1}), 40)]
    assert sides.count("first") == sides.count("second") == 200


def test_latest_is_the_newest_and_history_is_uniform() -> None:
    assert {name for _, _, name in drawn(league(4, mix={"latest": 1}), 3)} == {"gen3"}
    names = [name for _, _, name in drawn(league(4, mix={"history": 1}), 300)]
    # 3,000 draws of 4: standard deviation of a share is .0079.
    assert all(abs(names.count(f"gen{n}") / 3000 - 0.25) < 0.03 for n in range(4))


def test_pfsp_meets_those_whom_it_loses_to() -> None:
    made = league(2, mix={"pfsp": 1}, pfsp_power=1)
    strong, weak = made.members
    strong.games, strong.won = 99, 24.5  # with the tie before: 25 of 100
    weak.games, weak.won = 99, 74.5
    names = [name for _, _, name in drawn(made, 300)]
    assert abs(names.count("gen0") / 3000 - 0.75) < 0.03
    weak.won = strong.won = 99
    assert {name for _, _, name in drawn(made, 20)} == {"gen0", "gen1"}, "whoever never wins is met all the same"


def test_alternation_trains_one_side_a_generation() -> None:
    made = league(mix={"latest": 1}, alternate=True)
    assert {side for _, side, _ in drawn(made, 3, generation=1)} == {"first"}
    assert {side for _, side, _ in drawn(made, 3, generation=2)} == {"second"}
    assert {side for _, side, _ in drawn(made, 3, generation=3)} == {"first"}


def test_the_oldest_goes_but_never_the_first() -> None:
    made = league(3, size=3, mix={"history": 1})
    assert [gone.name for gone in made.add(Member("gen3", {}))] == ["gen1"]
    assert [member.name for member in made.members] == ["gen0", "gen2", "gen3"]


def test_results_survive_a_resume() -> None:
    made = league(2, mix={"pfsp": 1})
    matchup = made.matchups(1, np.random.default_rng(0), 1)[0]
    for score in (1.0, 0.5, 0.0):
        made.record(matchup, score)
    assert matchup.member is not None
    assert made.win_rates() == {matchup.member.name: 0.5}
    other = league(0, mix={"pfsp": 1})
    other.load_state_dict(made.state_dict(), {name: Member(name, {}) for name in ("gen0", "gen1")})
    assert other.win_rates() == made.win_rates() == {}, "told once"
    assert [(m.games, m.won) for m in other.members] == [(m.games, m.won) for m in made.members]
    assert [m.name for m in other.members] == ["gen0", "gen1"]


@pytest.mark.parametrize(
    ("config", "told"),
    [
        ({"mix": {"mirror": 0}}, "no share to anybody"),
        ({"mix": {"anchors": 1}}, "give both or neither"),
        ({"anchors": ["silent"]}, "give both or neither"),
        ({"mix": {"mirror": 1, "latest": 1}, "alternate": True}, "give mirror no share"),
        ({"sides": [["a"], ["a", "b"]]}, "stands in two sides"),
        ({"mix": {"lastest": 1}}, "Input should be"),
    ],
)
def test_a_league_that_cannot_be_is_refused(config: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        LeagueConfig.model_validate(config)


def test_sides_name_every_trained_role_once() -> None:
    assert sides_of(LeagueConfig(), ["a", "b"]) == [frozenset("a"), frozenset("b")]
    both = LeagueConfig(sides=[["a", "b"]])
    assert sides_of(both, ["a", "b"]) == [frozenset("ab")]
    with pytest.raises(ConfigError, match=r"every trained role once \(a, b, c\): see c"):
        sides_of(both, ["a", "b", "c"])
    with pytest.raises(ConfigError, match="one side only"):
        League(LeagueConfig(mix={"latest": 1}), [frozenset("ab")], [])


def test_keys_without_effect_are_told() -> None:
    def told(**config: object) -> list[str]:
        recipe = SelfPlayRecipe.model_validate({"learner": {}, **config})
        return [".".join(path) for path, _ in inert_self_play(recipe)]

    assert told() == []
    assert told(league={"pfsp_power": 2.0}) == ["league.pfsp_power"]
    assert told(league={"pfsp_power": 2.0, "mix": {"pfsp": 1}}) == []
    assert told(league={"size": 3}) == ["league.size"]
    assert told(league={"size": 3, "snapshot_every": 5}) == []
    assert told(reference={"at": "generation"}, learner={"kl": {"beta": 0}}) == ["reference.at"]
    assert told(credit={"decay": 0.5}) == ["credit.decay"]
    assert told(credit={"roles": {"x": {"discount": 0.5}}}) == ["credit.roles.x.discount"]
    assert told(credit={"estimator": "grpo", "scale": "none"}) == ["credit.scale"]
