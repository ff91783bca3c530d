"""Two adapters on one base with a league, a moving reference and a gate; killed and resumed bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from arena.protocols.errors import AlarmError, ConfigError, SourceError
from arena.training.league import Matchup
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.study import metrics_rows
from arena.training.world import World, build_world

pytestmark = pytest.mark.slow

MODEL = {"kind": "tiny", "words": "claims A B evidence ann bob {ann,bob}+{1..9}", "hidden": 16, "layers": 1, "heads": 2}
SMALL: dict[str, Any] = {
    "judge.train.steps": 30,
    "evaluation.judge": None,
    "evaluation.same_judge": True,
    "policies": {"one": {"model": MODEL, "binding": "adapter"}, "two": {"model": MODEL, "binding": "adapter"}},
    "roles": {"first": "one", "second": "two"},
    "warm_start": None,
    "self_play.generations": 3,
    "self_play.steps": 4,
    "self_play.tasks": 6,
    "self_play.group": 4,
    "self_play.learner.total_steps": 12,
    "self_play.learner.lr": 0.02,
    "self_play.league": {
        "mix": {"mirror": 0.3, "history": 0.2, "pfsp": 0.2, "latest": 0.15, "anchors": 0.15},
        "snapshot_every": 3,
        "size": 3,
        "anchors": ["random-quotes"],
    },
    "self_play.reference": {"at": "steps", "every": 3},
    "self_play.credit": {"estimator": "rae", "key": ["role", "node"], "decay": 0.9},
    "self_play.gate": {"tasks": 20, "batch": 5, "fail": "revert"},
    "self_play.checkpoint_every": 3,
    "self_play.probes": {"held": {"kind": "play", "tasks": 5, "every": 3}},
    "self_play.kl_every": 2,
}


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


@pytest.fixture(scope="module")
def world() -> World:
    return build_world(load_recipe("facts", SMALL), 5, ignore)


@pytest.fixture(scope="module")
def finished(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[SelfPlay, Path]:
    out = tmp_path_factory.mktemp("whole")
    player = SelfPlay(world, out, ignore)
    player.run()
    return player, out


def tensors(value: Any, prefix: str = "") -> dict[str, torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return {prefix: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {k: t for key, part in pairs for k, t in tensors(part, f"{prefix}/{key}").items()}


def test_one_base_holds_all_adapters_and_is_never_changed(world: World, finished: tuple[SelfPlay, Path]) -> None:
    player, _ = finished
    first, second = player.policies["one"], player.policies["two"]
    assert first.model.network is second.model.network
    fresh = dict(SelfPlay(world, Path("unused"), ignore).policies["one"].model.network.named_parameters())
    base = {n: p for n, p in first.model.network.named_parameters() if ".lora_" not in n}
    assert base
    assert all(torch.equal(p, fresh[n]) for n, p in base.items())
    resident = set(first.model.network.peft_config)
    members = {copy.adapter for copies in player._members.values() for copy in copies.values()}
    assert resident == {"one", "two"} | members, "who left the league left the network as well"
    assert len(player.league.members) == 3
    assert player.league.members[0].name == "gen0"


def test_only_the_side_in_training_is_trained(world: World, tmp_path: Path) -> None:
    player = SelfPlay(world, tmp_path, ignore)
    player._join("gen0")
    played = player._play(0, [Matchup("latest", frozenset(["first"]), player.league.members[0])] * 6)
    speakers = {turn.tokens.policy for e in played.episodes for turn in e.turns_of("second") if turn.tokens}
    assert speakers == {"two@v0"}
    assert all(episode.lineup["second"] == "two@gen0" for episode in played.episodes)
    assert set(played.sides()) == {frozenset(["first"])}


class StopError(Exception):
    """Pulls the plug."""


@pytest.mark.parametrize("at", [2, 8])
def test_a_killed_run_goes_on_bit_for_bit(
    world: World, finished: tuple[SelfPlay, Path], tmp_path: Path, at: int
) -> None:
    def pull(event: dict[str, Any]) -> None:
        if event.get("phase") == "self-play" and (event["generation"] - 1) * 4 + event["step"] == at:
            raise StopError

    with pytest.raises(StopError):
        SelfPlay(world, tmp_path, pull).run()
    again = SelfPlay(world, tmp_path, ignore)
    again.run(resume=True)
    _, whole = finished
    states = [torch.load(out / "checkpoint.pt", weights_only=True) for out in (whole, tmp_path)]
    first, second = map(tensors, states)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    for name in ("step", "versions", "champion", "league", "members", "credit", "alarms", "kl", "window", "undecided"):
        assert states[0][name] == states[1][name], name
    timed = ("play_seconds", "update_seconds", "tokens_per_second", "seconds_per_step", "peak_memory_mb")
    rows = [
        [{k: v for k, v in row.items() if k not in timed} for row in metrics_rows(out / "metrics.jsonl")]
        for out in (whole, tmp_path)
    ]
    assert rows[0] == rows[1]


def test_metrics_tell_drift_win_rates_gates_and_probes(finished: tuple[SelfPlay, Path]) -> None:
    _, out = finished
    rows = metrics_rows(out / "metrics.jsonl")
    steps = [row for row in rows if row["phase"] == "self-play"]
    assert len(steps) == 12
    assert steps[0]["one/kl_to_start/first"] == pytest.approx(0, abs=1e-6)
    assert steps[-1]["one/kl_to_start/first"] > 0
    assert any(name.startswith("win_rate/random-quotes") for name in steps[-1])
    assert [row["generation"] for row in rows if row["phase"] == "gate"] == [1, 2, 3]
    probes = [row["at"] for row in rows if row["phase"] == "probe"]
    assert probes == [0, 3, 6, 9, 12]


def test_a_generation_that_does_not_pass_is_taken_back(world: World, tmp_path: Path) -> None:
    gate = {"tasks": 20, "batch": 10, "fail": "revert", "elo0": 1500.0, "elo1": 2000.0}  # nobody is that much better
    recipe = load_recipe("facts", {**SMALL, "self_play.gate": gate, "self_play.generations": 1})
    player = SelfPlay(replace(world, recipe=recipe), tmp_path, ignore)
    begun = {n: p.clone() for n, p in player._learners()["one"].parameters.items()}
    trained = player.run()
    assert trained.champion == 0
    after = player._learners()["one"].parameters
    assert all(torch.equal(after[name], tensor) for name, tensor in begun.items())
    assert player.policies["one"].version > 1, "versions are never used twice"


def test_an_alarm_that_must_stop_keeps_a_checkpoint_to_go_on_from(world: World, tmp_path: Path) -> None:
    alarms = {"window": 2, "kl": 1e-9, "stop": ["kl"]}
    recipe = load_recipe("facts", {**SMALL, "self_play.gate": None, "self_play.alarms": alarms})
    stopped = replace(world, recipe=recipe)
    with pytest.raises(AlarmError, match=r"alarm kl: .* above the budget of 1e-09 .* go on all the same by --resume"):
        SelfPlay(stopped, tmp_path, ignore).run()
    rung = [row for row in metrics_rows(tmp_path / "metrics.jsonl") if row["phase"] == "alarm"]
    trained = SelfPlay(stopped, tmp_path, ignore).run(resume=True)
    assert len(trained.generations) == 4
    assert trained.alarms[: len(rung)] == [{k: row[k] for k in ("alarm", "at", "why")} for row in rung] != []


def test_no_question_of_the_gate_is_trained_on(world: World, tmp_path: Path) -> None:
    train = [replace(task, group=str(number // 7)) for number, task in enumerate(world.tasks.train)]
    grouped = replace(world, tasks=replace(world.tasks, train=train))
    player = SelfPlay(grouped, tmp_path, ignore)
    assert player.gate is not None
    held = {task.cluster for task in player.gate.tasks}
    assert len(player.gate.tasks) == 20
    assert [task for task in train if task.cluster not in held] == player.tasks
    assert len(player.tasks) < len(train) - 20, "a question of the gate has tasks before the last twenty"


def test_members_that_share_a_copy_lose_it_with_the_last_of_them(world: World, tmp_path: Path) -> None:
    player = SelfPlay(world, tmp_path, ignore)
    network: Any = player.policies["one"].model.network
    player._join("gen0")
    player.policies["one"].publish()
    for name in ("step3", "step6", "step9"):  # `one` stands still, and there is room for three
        player.policies["two"].publish()
        player._join(name)
    assert [member.name for member in player.league.members] == ["gen0", "step6", "step9"]
    assert "one@v1" in network.peft_config
    assert "two@v1" not in network.peft_config


def test_a_base_is_a_reference_for_adapters_only() -> None:
    base = {**SMALL, "self_play.reference": {"at": "base"}}
    load_recipe("facts", base)
    with pytest.raises(SourceError, match="'one' trains all of its weights, so there is no base under it"):
        load_recipe("facts", {**base, "policies.one.binding": "full"})


def test_a_gate_needs_tasks_and_a_league_opponents(world: World, tmp_path: Path) -> None:
    recipe = load_recipe("facts", {**SMALL, "self_play.gate.tasks": 10**6})
    with pytest.raises(ConfigError, match=r"keeps 1000000 of the \d+ training tasks from training"):
        SelfPlay(replace(world, recipe=recipe), tmp_path, ignore)
    with pytest.raises(SourceError, match="one side only"):
        load_recipe("facts", {**SMALL, "self_play.league.sides": [["first", "second"]]})
    with pytest.raises(SourceError, match="'third' is not trained"):
        load_recipe("facts", {**SMALL, "self_play.credit.roles": {"third": {}}})
