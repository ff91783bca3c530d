"""Self-play with a critic, on Kuhn poker cut down to a few steps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from bits import same_bits

from arena.protocols.errors import SourceError
from arena.rewards import Payoff
from arena.training.crediting import paid_turns
from arena.training.recipe import load_recipe
from arena.training.selfplay import Played, SelfPlay, _paid
from arena.training.sequences import TrainingSequence
from arena.training.world import Listener, World, build_world

SMALL: dict[str, Any] = {
    "self_play.objective": "ppo_gae", "self_play.credit": {"estimator": "gae", "scale": "none"}, "self_play.steps": 4,
    "self_play.learner.total_steps": 4, "self_play.learner.warmup": 0, "self_play.learner.epochs": 2,
    "self_play.learner.minibatches": 2, "self_play.group": 8, "self_play.checkpoint_every": 1,
}  # fmt: skip


def ignore(event: dict[str, Any]) -> None:
    """Nobody listens."""


def world(**changes: Any) -> World:
    return build_world(load_recipe("kuhn", {**SMALL, **changes}), 0, ignore)


def kept(out: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The learner's state, and the rows of metrics without times."""
    state = torch.load(out / "checkpoint.pt", weights_only=True)["learners"]["player"]
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    timed = ("second", "memory")
    return state, [{k: v for k, v in row.items() if not any(word in k for word in timed)} for row in rows]


class StopError(Exception):
    """Pulls the plug."""


def test_an_interrupted_run_with_a_critic_resumes_bit_for_bit(tmp_path: Path) -> None:
    def pull(event: dict[str, Any]) -> None:
        if event.get("step") == 3:
            raise StopError

    def player(name: str, on_event: Listener) -> SelfPlay:
        return SelfPlay(world(), tmp_path / name, on_event)

    player("whole", ignore).run()
    with pytest.raises(StopError):
        player("run", pull).run()
    player("run", ignore).run(resume=True)
    (state, rows), (again, rows_again) = kept(tmp_path / "whole"), kept(tmp_path / "run")
    assert same_bits(state, again)
    assert rows == rows_again
    steps = [row for row in rows if row["phase"] == "self-play"]
    assert len(steps) == 4
    assert all(row["value_loss"] > 0 and row["value_grad_norm"] > 0 for row in steps)
    assert steps[0]["explained_variance"] == 0.0
    assert float(state["critic"]["weight"].abs().max()) > 0


def played(player: SelfPlay, payoffs: list[Payoff], step: Played) -> list[TrainingSequence]:
    turns = paid_turns(step.episodes, payoffs, step.groups, step.sides(), player.protocol.seats)
    return player._credited(step, turns, player._learners(), {})["player"]


def test_a_role_that_moves_twice_earns_the_chips_once_and_what_is_undecided_trains_nothing(tmp_path: Path) -> None:
    player = SelfPlay(world(**{"self_play.credit.lam": 1.0}), tmp_path, ignore)
    step = player.rollouts(0)
    assert player.sampler is not None
    payoffs = player.sampler.pay(step.episodes)
    chips = {
        (e.key, turn.role): r
        for e, p in zip(step.episodes, payoffs, strict=True)
        for turn, r in zip(e.turns, p.rewards, strict=True)
    }
    found = played(player, payoffs, step)
    twice = [sequence for sequence in found if len(set(sequence.turns)) == 2]
    assert twice, "somebody checked and was raised"
    for sequence in found:  # the head begins at 0, so that advantages are what came
        assert sequence.advantages == [chips[sequence.episode, sequence.role]] * len(sequence.positions)
    undecided = [Payoff([None] * len(p.rewards), None) if n % 2 else p for n, p in enumerate(payoffs)]
    left = played(player, undecided, step)
    assert {s.episode for s in left} == {episode.key for episode in step.episodes[::2]}
    assert [s.advantages for s in left] == [s.advantages for s in found if s.episode in {x.episode for x in left}]


def test_shuffled_advantages_are_those_of_the_step_in_another_order(tmp_path: Path) -> None:
    plain, shuffled = (
        SelfPlay(world(**{"self_play.shuffle_advantages": shuffle}), tmp_path, ignore) for shuffle in (False, True)
    )
    found = []
    for player in (plain, shuffled):
        step = player.rollouts(0)
        assert player.sampler is not None
        found.append([a for s in played(player, player.sampler.pay(step.episodes), step) for a in s.advantages])
    assert found[0] != found[1]
    assert sorted(found[0]) == sorted(found[1])


def test_what_a_token_was_drawn_from_goes_with_it_when_turns_are_left_out() -> None:
    made = TrainingSequence([1, 2, 3, 4], [1, 2, 3], [-1.0] * 3, [0, 1, 2], "a", "e", 1, allowed={0: (2, 9), 2: (4, 8)})
    left = _paid(made, {("e", "a", 1), ("e", "a", 2)})
    assert (left.positions, left.turns, left.allowed) == ([2, 3], [1, 2], {1: (4, 8)})


def test_a_recipe_that_compares_by_key_and_asks_a_critic_is_told_so() -> None:
    with pytest.raises(SourceError, match="estimator gae compares with the critic"):
        load_recipe("kuhn", {"self_play.credit.estimator": "gae"})
    with pytest.raises(SourceError, match=r"no credit asks a critic \(estimator: gae\)"):
        load_recipe("kuhn", {"self_play.learner.value": {"coef": 1.0}})


def test_a_metric_that_is_no_number_is_kept_as_none(tmp_path: Path) -> None:
    kept: list[Any] = []
    player = SelfPlay(world(), tmp_path, ignore, keep=lambda rows: kept.extend(rows.items()))
    (tmp_path / "metrics.jsonl").write_text('{"ratio_max": Infinity}\n{"loss": 1.0}\n')
    player._keep()
    with (tmp_path / "metrics.jsonl").open("a") as stream:
        stream.write('{"loss": 0.5}\n')
    player._keep()
    assert kept == [(0, {"ratio_max": None}), (1, {"loss": 1.0}), (2, {"loss": 0.5})]
