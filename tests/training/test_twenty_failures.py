"""Failures that trainers are known for, as far as no other test shows that ours has none; docs/failures.md lists all.

Numbers in the names are those of that list. Learners are compared on a Llama of two layers in float64 (`two_ranks`).
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import two_ranks as two

from arena.cli import workers
from arena.cli.workers import Job, run_jobs
from arena.judges import JudgeView
from arena.judges.verdicts import abstain, decide, normalise
from arena.protocols.errors import BackendError
from arena.protocols.records import Episode, Sampling, TokenSpan, Turn, Verdict
from arena.rewards import Payoff
from arena.training import KLConfig, Learner, LearnerConfig, ObjectiveConfig, TrainingSequence
from arena.training.advantages import assign_advantages
from arena.training.crediting import Crediting, paid_turns
from arena.training.kl_control import KLController
from arena.training.launch import launch
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.selfplay_config import CreditConfig
from arena.training.sequences import sequences_of
from arena.training.study import metrics_rows
from arena.training.world import build_world

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
RANKS = Path(str(two.__file__))


def ignore(event: dict[str, Any]) -> None:
    """Nobody watches."""


# -- 8: normalisation


def test_8_two_ranks_find_the_gradient_of_one_process(tmp_path: Path) -> None:
    """Each has half of the packs of a step, under the weights of the whole step; gradients are added over gloo."""
    command = [sys.executable, str(RANKS)]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
    ranks = [subprocess.Popen([*command, str(rank), str(tmp_path)], env=environment) for rank in range(two.RANKS)]
    assert [rank.wait(300) for rank in ranks] == [0, 0]
    found = [torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in range(two.RANKS)]
    for number, objective in enumerate(two.STEPS):
        want, loss = two.step(two.learner(objective=ObjectiveConfig(**objective)), two.sequences())
        for rank in found:
            assert rank[number].pop("loss").item() == pytest.approx(loss, abs=1e-12)
            assert rank[number].keys() == want.keys()
            for name, gradient in want.items():
                torch.testing.assert_close(rank[number][name], gradient, rtol=0, atol=1e-10)
    # The mean of what each rank would make of its own sequences alone, as data parallelism is often done.
    halves = [two.step(two.learner(), two.sequences()[rank :: two.RANKS])[0] for rank in range(two.RANKS)]
    want, _ = two.step(two.learner(), two.sequences())
    assert max((sum(half[name] for half in halves) / 2 - want[name]).abs().max() for name in want) > 1e-3


# -- 12: KL


@pytest.mark.parametrize("estimator", ["exact", "k2", "k3"])
@pytest.mark.parametrize(("scale", "nats"), [(1.05, 0.1), (8.0, 5.0), (40.0, 50.0)])
def test_12_the_pull_to_the_reference_lives_at_any_distance(estimator: Any, scale: float, nats: float) -> None:
    """Where there is nothing to earn, a small step lowers the KL to a reference that is near or very far."""
    net = two.network()
    config = LearnerConfig(lr=1e-5, clip_norm=None, kl=KLConfig(beta=0.3, estimator=estimator))
    made = Learner(SimpleNamespace(network=net), config, seed=0)
    made.set_reference()
    with torch.no_grad():
        net.lm_head.weight.mul_(scale)
    given = [replace(one, advantages=[0.0] * len(one.positions)) for one in two.sequences()]
    scores = made.score(given)
    assert scores.ref_logps is not None
    assert np.abs(scores.logps - scores.ref_logps).max() > nats
    first, second = made.update(given), made.update(given)
    assert all(map(math.isfinite, first.values()))
    assert second["kl_per_token"] < first["kl_per_token"]


# -- 13: the KL controller


@pytest.mark.parametrize(("form", "gain"), [("additive", 0.1), ("additive", 20.0), ("multiplicative", 30.0)])
def test_13_a_coefficient_that_was_not_needed_for_long_can_grow_again(form: Any, gain: float) -> None:
    control = KLController(0.05, target=0.1, form=form, gain=gain)
    for _ in range(40_000):
        assert control.update(0.0) > 0.0
    low = control.beta
    assert [control.update(9.0) for _ in range(3)][-1] > low


def test_13_each_policy_has_a_controller_of_its_own() -> None:
    one, other = (two.learner(kl=KLConfig(beta=0.1, target=1e-9, gain=1.0)) for _ in range(2))
    one.update(two.sequences())
    assert (one.kl_control.beta, other.kl_control.beta) == (pytest.approx(0.12), 0.1)


# -- 14: the reference

TINY = {"kind": "tiny", "words": "claims A B evidence ann bob {ann,bob}+{1..9}", "hidden": 8, "layers": 2, "heads": 2}
DEBATE: dict[str, Any] = {
    "judge": {"kind": "exact"}, "evaluation.judge": None, "evaluation.same_judge": True, "evaluation.arms": {},
    "evaluation.tournament": 0, "evaluation.exploiter": None, "warm_start": None, "policies.debater.model": TINY,
    "self_play": {"generations": 1, "steps": 3, "tasks": 4, "group": 4, "learner": {"lr": 0.02}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("reference", "zero"),
    [({"at": "start"}, {0}), ({"at": "generation"}, {0, 3, 6}), ({"at": "steps", "every": 2}, {0, 2, 4, 6, 8})],
)
def test_14_the_kl_is_0_where_the_reference_is_taken_and_nowhere_else(
    tmp_path: Path, reference: dict[str, Any], zero: set[int]
) -> None:
    """From an adapter that a warm start has moved, which must not be compared with the base below it."""
    shown = [{"protocol": "evidence-debate", "agent": "random-quotes"}]
    warm = {"steps": 3, "tasks": 2, "group": 1, "learner": {"lr": 0.05}, "demonstrations": shown}
    changes = {"policies.debater.binding": "adapter", "warm_start": warm}
    self_play = {**DEBATE["self_play"], "generations": 3, "reference": reference, "kl_every": 1}
    recipe = load_recipe("facts", {**DEBATE, **changes, "self_play": self_play})
    player = SelfPlay(build_world(recipe, 0, ignore), tmp_path, ignore)
    player.run()
    adapter = [
        weight for name, weight in player.policies["debater"].model.network.named_parameters() if "lora_B" in name
    ]
    assert all(weight.abs().max() > 0 for weight in adapter)
    rows = [row for row in metrics_rows(tmp_path / "metrics.jsonl") if row["phase"] == "self-play"]
    kls = [row["kl_per_turn"] for row in rows]
    assert {step for step, kl in enumerate(kls) if kl < 1e-9} == zero
    assert {step for step, row in enumerate(rows) if row["kl_to_generation/first"] < 1e-9} == {0, 3, 6}


# -- 18: lost samples and lengths


class EverySecond:
    """Believes who has quoted more, and cannot decide every second episode."""

    name, sees_label = "every second", False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        if int(view.key[-1]) % 2:
            return abstain(self.name, "looked away")
        quoted = [quote.split("+") for quote in view.quotes()]
        sums = [sum(float(gain) for name, gain in quoted if name == answer) for answer in view.answers]
        return decide(self.name, normalise([total / 8 for total in sums]), {})


def test_18_what_was_sampled_was_trained_or_is_counted_as_unpaid(tmp_path: Path) -> None:
    recipe = load_recipe("facts", {**DEBATE, "judge.max_undecidable": 1.0})
    judge = EverySecond()
    world = replace(build_world(recipe, 0, ignore), judge=judge, measures=judge)
    SelfPlay(world, tmp_path, ignore).run()
    rows = [row for row in metrics_rows(tmp_path / "metrics.jsonl") if row["phase"] == "self-play"]
    for row in rows:
        assert row["sampled_tokens"] == 16 * 4  # sixteen episodes of four turns of one token
        assert row["unpaid_turns"] == 8 * 4
        assert row["tokens"] + row["unpaid_turns"] == row["sampled_tokens"]


def lengths(aggregate: Any) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Expected gradients, by enumeration, of replies that are right or wrong by their first word and then go on.

    Behind each token of a reply the end or another one is drawn; the longest replies are cut after three more.

    Returns:
        Of all trained tokens; and of the first words alone.
    """
    words, end, more = (2, 3, 4, 5, 6, 7), 0, 9
    replies = [[word, *[more] * count, *[end] * (count < 3)] for word in words for count in range(4)]
    whole = []
    for number, reply in enumerate(replies):
        count = len(reply)
        drawn_from = {0: words, **dict.fromkeys(range(1, count), (end, more))}
        places = list(range(2, 2 + count))
        one = TrainingSequence([1, 8, *reply], places, None, [0] * count, "a", f"e{number}", 2, allowed=drawn_from)
        whole.append(one)
    made = two.learner(kl=KLConfig(beta=0.0), objective=ObjectiveConfig(aggregate=aggregate))
    logps = iter(made.score(whole).logps.tolist())
    for one in whole:
        one.logps = [next(logps) for _ in one.positions]
        # Each reply once, with its probability as a weight: the sum is the expectation.
        one.advantages = [math.exp(sum(one.logps)) * ((one.ids[2] < 4) - 0.3)] * len(one.positions)
    assert sum(math.exp(sum(one.logps or ())) for one in whole) == pytest.approx(1.0, abs=1e-12)
    first = {"positions": [2], "turns": [0], "allowed": {0: words}}
    alone = [replace(one, logps=(one.logps or [])[:1], advantages=one.advantages[:1], **first) for one in whole]
    return two.step(made, whole)[0], two.step(made, alone)[0]


def test_18_length_is_not_trained_where_it_does_not_matter() -> None:
    """Replies cut at the limit are trained as well; decisions to go on then add nothing to the expected gradient."""
    whole, alone = lengths("token_sum")
    for name, gradient in alone.items():
        torch.testing.assert_close(whole[name], gradient, rtol=0, atol=1e-12)
    assert max(gradient.abs().max() for gradient in alone.values()) > 1e-3
    # An average inside of each sequence, as GRPO takes it, makes wrong replies longer (Liu et al. 2025, 2503.20783).
    whole, alone = lengths("seq_mean_token_mean")
    assert max((whole[name] - alone[name]).abs().max() for name in alone) > 1e-4


# -- 19: kill -9

KILLED = """
recipe: killed
tasks: kuhn
protocol: kuhn-words
roles: {first: one, second: two}
policies:
  one: {binding: adapter, model: &net {kind: tiny, words: "hold J Q K : pass bet ?", hidden: 8, layers: 2, heads: 2}}
  two: {binding: adapter, model: *net}
self_play:
  generations: 2
  steps: 5
  tasks: 6
  group: 6
  league: {mix: {mirror: 0.4, history: 0.3, pfsp: 0.3}, snapshot_every: 2, size: 3}
  reference: {at: steps, every: 4}
  credit: {estimator: rae, key: [role, node], scale: none}
  checkpoint_every: 3
  learner:
    {lr: 0.02, epochs: 2, minibatches: 2, warmup: 2, schedule: cosine, total_steps: 60, kl: {beta: 0.1, target: 0.05}}
evaluation: {tournament: 0}
"""

KILLER = """
import os
import signal

from arena.training.trackers import TRACKERS


@TRACKERS.register("killer", summary="kill -9 of its own process")
class Killer:
    def __init__(self, *, folder, name=""):
        pass

    def log(self, step, values):
        if step == 8 and any(name.startswith("self-play/") for name in values):
            os.kill(os.getpid(), signal.SIGKILL)

    def close(self):
        pass
"""

CLOCKS = {"play_seconds", "update_seconds", "tokens_per_second", "seconds_per_step", "peak_memory_mb"}


def plain(value: Any) -> Any:
    """With tensors as lists, to be compared bit for bit."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key not in {"seconds", "metrics_bytes", *CLOCKS}}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else value


def test_19_a_training_that_was_killed_goes_on_bit_for_bit(tmp_path: Path) -> None:
    """kill -9 after the eighth of ten steps, two behind the last checkpoint; all that a step depends on moves."""
    (tmp_path / "killed.yaml").write_text(KILLED)
    (tmp_path / "killer.py").write_text(KILLER)
    recipe = load_recipe(str(tmp_path / "killed.yaml"))
    command = [
        sys.executable,
        "-m",
        "arena",
        "--plugin",
        str(tmp_path / "killer.py"),
        "train",
        str(tmp_path / "killed.yaml"),
    ]
    options = ["--seed", "3", "--out", str(tmp_path / "killed"), "--track", "killer", "--events"]
    killed = subprocess.run([*command, *options], capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    begun = torch.load(tmp_path / "killed" / "checkpoint.pt", weights_only=True)
    assert (begun["step"], len(metrics_rows(tmp_path / "killed" / "metrics.jsonl")) > 8) == (6, True)
    ended = []
    for name, resume in (("killed", True), ("whole", False)):
        out = tmp_path / name
        launch(recipe, out, seed=3, created="2026-01-31", on_event=ignore, resume=resume)
        ended.append((torch.load(out / "checkpoint.pt", weights_only=True), metrics_rows(out / "metrics.jsonl")))
    assert plain(list(ended[0])) == plain(list(ended[1]))
    state = ended[0][0]
    for name in ("one", "two"):
        before, after = begun["learners"][name], state["learners"][name]
        assert after["step"] > before["step"]
        for part in ("weights", "optimizer", "kl_control", "reference", "random"):
            assert plain(before[part]) != plain(after[part]), f"{part} did not move, so that nothing was shown of it"
    for part in ("credit", "league", "members"):
        assert plain(begun[part]) != plain(state[part]), f"{part} did not move"


# -- 20: zero sums and roles


def test_20_rewards_of_a_zero_sum_game_add_up_to_nothing(tmp_path: Path) -> None:
    recipe = load_recipe("kuhn", {"variants": {}, "metrics": {}, "self_play.group": 20})
    player = SelfPlay(build_world(recipe, 0, ignore), tmp_path, ignore)
    assert player.sampler is not None
    played = player.rollouts(0)
    turns = 0
    for episode, payoff in zip(played.episodes, player.sampler.pay(played.episodes), strict=True):
        by_role = {t.role: r for t, r in zip(episode.turns, payoff.rewards, strict=True) if r is not None}
        assert sum(by_role.values()) == 0.0
        assert set(by_role) == {"first", "second"}
        turns += 1
    assert turns == 6 * 20


@pytest.mark.parametrize(("estimator", "biased"), [("rae", False), ("group", False), ("none", True)])
def test_20_a_seat_that_wins_more_has_no_higher_advantage(estimator: str, biased: bool) -> None:
    """Rewards of a zero-sum game in which the first seat earns .3 more: what a baseline of each role takes off."""
    rule = {"estimator": estimator, "key": ["role", "node"], "scale": "none"}
    crediting = Crediting(CreditConfig.model_validate(rule), {"a": "a", "b": "b"})
    rng = np.random.default_rng(0)
    means = []
    for step in range(200):
        won = np.clip(rng.normal(0.3, 0.5, 16), -1, 1).tolist()
        episodes = [Episode(f"{step}/{n}", "p", "t", {}, (), [said(0, "a"), said(1, "b")]) for n in range(16)]
        payoffs = [Payoff([value, -value], None) for value in won]
        turns = paid_turns(episodes, payoffs, [0] * 16, [frozenset("ab")] * 16, [])
        found = crediting(turns, [])
        means.append([np.mean([value for place, value in found.items() if place[1] == role]) for role in "ab"])
    late = np.mean(means[100:], axis=0)
    # The mean of 1,600 draws has a standard error of .012.
    assert abs(late).max() > 0.2 if biased else abs(late).max() < 0.05


def test_20_a_pool_of_rock_paper_scissors_averages_to_nash(tmp_path: Path) -> None:
    """The latest policy runs in circles; the average over its former selves plays each hand a third of the time."""
    changes = {
        "variants": {}, "metrics": {}, "warm_start.steps": 20, "self_play.steps": 400, "self_play.group": 64,
        "self_play.learner.lr": 2e-3, "self_play.league": {"snapshot_every": 5, "size": 128},
        "self_play.probes": {
            "latest": {"kind": "off_uniform", "every": 10}, "average": {"kind": "off_uniform", "of": "league"}
        },
        "policies.player.model": {
            "kind": "tiny", "words": "play ? rock paper scissors", "hidden": 8, "intermediate": 8, "layers": 1,
            "heads": 2,
        },
    }  # fmt: skip
    SelfPlay(build_world(load_recipe("rps", changes), 0, ignore), tmp_path, ignore).run()
    rows = metrics_rows(tmp_path / "metrics.jsonl")
    off = {name: [row["off"] for row in rows if row.get("probe") == name] for name in ("latest", "average")}
    assert max(off["latest"][-25:]) > 0.25
    assert off["average"][-1] < 0.08


# -- and also


def said(index: int, role: str, **more: Any) -> Turn:
    return Turn(index, index, "say", role, 0, role, None, "", **more)


def test_a_score_of_zero_is_paid_compared_and_trained(tmp_path: Path) -> None:
    """None is no reward; 0.0 is one, and the one that all others are compared with."""
    episodes = [Episode(f"e{n}", "p", "t", {}, (), [said(0, "a")]) for n in range(4)]
    payoffs = [Payoff([value], None) for value in (0.0, 1.0, None, 0.0)]
    turns = paid_turns(episodes, payoffs, [0] * 4, [frozenset("a")] * 4, [])
    assert [(turn.place[0], turn.reward) for turn in turns] == [("e0", 0.0), ("e1", 1.0), ("e3", 0.0)]
    rule = CreditConfig.model_validate({"scale": "none"})
    found = Crediting(rule, {"a": "a"})(turns, [])
    assert list(found.values()) == pytest.approx([-1 / 3, 2 / 3, -1 / 3])


def test_a_reward_at_the_end_reaches_what_was_said_before_a_tool_answered() -> None:
    """Across the observation, which is context of the same sequence and trained by nothing."""

    def span(prompt: list[int], ids: list[int]) -> TokenSpan:
        return TokenSpan(tuple(prompt), tuple(ids), (-1.0,) * len(ids), "p@v0", Sampling())

    call, answer = said(0, "a", tokens=span([1, 2], [3, 4])), said(2, "a", tokens=span([5, 6, 7], [8, 0]))
    tool = said(1, "tool")
    episodes = [Episode(name, "p", "t", {}, (), [call, tool, answer]) for name in ("won", "lost")]
    payoffs = [Payoff([0.0, None, won], None) for won in (1.0, 0.0)]
    turns = paid_turns(episodes, payoffs, [0, 0], [frozenset("a")] * 2, [])
    rule = {"key": ["task", "role", "node"], "returns": "to_go", "scale": "none", "estimator": "none"}
    advantages = Crediting(CreditConfig.model_validate(rule), {"a": "a"})(turns, [])
    (sequence,) = sequences_of(episodes[0], {"a"})
    assign_advantages([sequence], advantages)
    assert dict(zip(sequence.positions, sequence.advantages, strict=True)) == {2: 1.0, 3: 1.0, 7: 1.0, 8: 1.0}
    made = two.learner(kl=KLConfig(beta=0.0))
    assert made.gradient_reach(sequence) == [2, 3, 7, 8]


def test_a_worker_that_raises_ends_the_run_at_once_with_its_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training beside it would never have ended; what a library prints is no progress and stops nobody."""
    scripts = {
        "broken": "print('loading'); print('[1]', flush=True); raise RuntimeError('the cable is cut')",
        "endless": "import threading; threading.Event().wait()",
    }
    started: dict[str, subprocess.Popen[str]] = {}

    def start(job: Job, globals_: Sequence[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", scripts[job.name]]
        with job.log.open("w") as errors:
            started[job.name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        return started[job.name]

    monkeypatch.setattr(workers, "_start", start)
    jobs = [Job(name, [], tmp_path / name) for name in ("endless", "broken")]
    with pytest.raises(BackendError, match=r"training 'broken' failed:(.|\n)*the cable is cut"):
        run_jobs(jobs, at_once=2, on_event=lambda name, event: None)
    assert started["endless"].returncode == -signal.SIGTERM


# -- the list itself


def listed() -> list[tuple[str, str]]:
    """(file, test) of every test that docs/failures.md names."""
    text = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    return re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)


def test_every_test_that_the_list_names_is_there() -> None:
    assert listed()
    for file, test in listed():
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"


def test_the_list_has_all_twenty_and_each_names_a_test() -> None:
    text = (ROOT / "docs" / "failures.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ") and "what goes wrong" not in line]
    numbers = [int(found[1]) for row in rows if (found := re.match(r"\| (\d+) \|", row))]
    assert numbers == list(range(1, 21))
    assert all("::test_" in row for row in rows)
