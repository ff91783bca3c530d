"""Every key of the self-play part of a recipe changes what a training does, or is refused by its name.

Each row of `ROWS` is a key, another value for it, and the context in which the key matters. A training of a few steps
is run with and without the change. The table must be complete: a key without a row fails, and so does a word that a key
may take and no row gives it.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import torch
from pydantic import BaseModel

from arena.judges import JudgeView
from arena.judges.verdicts import decide, normalise
from arena.protocols import load_protocol
from arena.protocols.errors import AlarmError, UserError
from arena.protocols.records import Verdict
from arena.training.alarms import Alarms
from arena.training.gate import Gate
from arena.training.recipe import load_recipe
from arena.training.selfplay import SelfPlay
from arena.training.selfplay_config import AlarmConfig, GateConfig, ProbeRecipe, SelfPlayRecipe
from arena.training.study import metrics_rows
from arena.training.world import World, build_agent, build_world

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Row:
    """A key, what it is changed to, and where that must show."""

    key: str
    value: Any
    context: Mapping[str, Any] = field(default_factory=dict)
    shows: Literal["weights", "metrics", "work", "gate", "alarms"] = "weights"


# -- contexts in which a key matters

LONG = {"steps": 3}
AGAIN = {"learner.epochs": 4, "learner.lr": 0.05}
"""Later passes over the same sequences have other ratios than 1."""
FALLING = {"steps": 3, "learner.schedule": "linear", "learner.total_steps": 3}
ADAPTIVE = {"steps": 4, "learner.kl": {"beta": 0.05, "target": 1e-6, "gain": 1.0}}
"""The KL is 0 before the first step and above the target after it."""
UNEQUAL = {"learner.objective.mixed_only": True, "tasks": 5}
"""Turns that all earned alike are left out, so that sequences differ in length."""
CONSTANT = {"learner.objective": {"aggregate": "seq_mean_token_sum_norm", "norm_const": 2.0}}
WEIGHTED = {"steps": 3, "learner.importance": {"cap": 2.0}}
LENGTHS = {"learner.objective.overlong": {"max_len": 2, "cache": 1}, "credit.estimator": "none"}
RUNNING = {"steps": 3, "credit": {"estimator": "rae", "key": ["role", "node"]}}
CRITIC = {**AGAIN, "credit": {"estimator": "gae"}}
FORMER = {"steps": 4, "league": {"mix": {"history": 1.0}, "snapshot_every": 1}}
OUTSIDERS = {"league": {"mix": {"mirror": 0.5, "anchors": 0.5}, "anchors": ["random-quotes"]}}
GATED = {"gate": {"tasks": 10, "batch": 5, "elo0": 1500.0, "elo1": 2000.0}, "generations": 2, "steps": 1}
"""Nobody is that much stronger, so that no generation passes."""
WATCHED = {"steps": 3, "probes": {"held": {"kind": "play", "tasks": 2}}}
ADAPTER = {
    "/policies.debater.binding": "adapter",
    "/warm_start": {
        "steps": 2, "tasks": 2, "group": 1, "learner": {"lr": 0.05},
        "demonstrations": [{"protocol": "evidence-debate", "agent": "random-quotes"}],
    },
}  # fmt: skip
GAME = {
    "/recipe": "rps", "/variants": {}, "/metrics": {}, "/warm_start": None, "/policies.player.model.hidden": 8,
    "group": 8, "probes": {"held": {"kind": "nash_conv"}},
}  # fmt: skip

ROWS = [
    # What is played, and how often.
    *(Row("objective", name) for name in ("reinforce", "spiral", "rloo", "grpo", "dapo", "gspo", "reinforce_pp")),
    Row("objective", "dr_grpo", CONSTANT),
    Row("generations", 2),
    Row("steps", 3),
    Row("tasks", 4),
    Row("group", 4),
    Row("kl_every", 1, LONG, "metrics"),
    Row("checkpoint_every", 1, LONG, "work"),
    Row("shuffle_advantages", True),
    # Against whom.
    *(Row("league.mix", {kind: 1.0}, FORMER) for kind in ("mirror", "latest", "pfsp")),
    Row("league.snapshot_every", 1, {"steps": 3, "league.mix": {"latest": 1.0}}),
    Row("league.size", 2, FORMER),
    Row("league.anchors", ["greedy-quotes"], OUTSIDERS),
    Row("league.pfsp_power", 100.0, {**FORMER, "tasks": 9, "league.mix": {"pfsp": 1.0}}),
    Row("league.sides", [["second"], ["first"]], FORMER),
    Row("league.alternate", True, {"generations": 2, "league.mix": {"latest": 1.0}}),
    # Held near what.
    Row("reference.at", "generation", {"generations": 2}),
    Row("reference.at", "base", ADAPTER),
    Row("reference.every", 1, {"steps": 4, "reference": {"at": "steps", "every": 2}}),
    # Credit.
    Row("credit.key", ["role"]),
    *(Row("credit.estimator", name) for name in ("grpo", "none")),
    Row("credit.estimator", "leave_one_out", {"credit.scale": "none"}),  # with equal groups nothing but another scale
    Row("credit.estimator", "none", RUNNING),
    Row("credit.decay", 0.1, RUNNING),
    Row("credit.returns", "to_go"),
    Row("credit.discount", 0.5, {"credit.returns": "to_go"}),
    Row("credit.scale", "none"),
    Row("credit.weight", 0.5),
    Row("credit.roles", {"first": {"weight": 0.0}}),
    # The critic.
    Row("objective", "ppo_gae"),
    Row("credit.estimator", "gae"),
    Row("credit.lam", 0.1, CRITIC),
    Row("learner.value.coef", 5.0, CRITIC),
    Row("learner.value.clip", 1e-6, CRITIC),
    Row("learner.value.lr", 0.1, CRITIC),
    Row("learner.value.detach", True, CRITIC),
    # The gate.
    Row("gate", {"tasks": 10, "batch": 5}),
    Row("gate.tasks", 20, GATED),
    Row("gate.fail", "revert", GATED),
    Row("gate.elo0", -20.0, shows="gate"),
    Row("gate.elo1", 200.0, shows="gate"),
    Row("gate.alpha", 1e-6, shows="gate"),
    Row("gate.beta", 1e-6, {"gate": {"elo0": 1000.0, "elo1": 1100.0}}, "gate"),
    Row("gate.batch", 1, shows="gate"),
    # What is measured, and what to warn of.
    Row("probes", {"held": {"kind": "play", "tasks": 2}}, shows="metrics"),
    Row("probes.*.kind", "off_uniform", GAME, "metrics"),
    Row("probes.*.every", 2, WATCHED, "metrics"),
    Row("alarms.window", 4, shows="alarms"),
    Row("alarms.significance", 100.0, shows="alarms"),
    Row("alarms.reward", 0.9, shows="alarms"),
    Row("alarms.truth", 0.9, shows="alarms"),
    Row("alarms.length", 9.0, shows="alarms"),
    Row("alarms.entropy", 0.0, shows="alarms"),
    Row("alarms.kl", 0.5, shows="alarms"),
    Row("alarms.anchors", 0.9, shows="alarms"),
    Row("alarms.stop", ["kl"], {"steps": 3, "alarms": {"window": 2, "kl": 1e-9}}),
    # How weights move.
    Row("learner.lr", 0.01),
    Row("learner.warmup", 2),
    Row("learner.schedule", "cosine", FALLING),
    Row("learner.schedule", "linear", {**FALLING, "learner.schedule": "cosine"}),
    Row("learner.final", 0.9, FALLING),
    Row("learner.total_steps", 8, FALLING),
    Row("learner.betas", [0.5, 0.9], LONG),
    Row("learner.weight_decay", 1.0),
    Row("learner.clip_norm", 1e-6),
    Row("learner.optimizer", "adamw_8bit"),
    Row("learner.checkpointing", True, shows="work"),
    Row("learner.micro_batch", 1, shows="work"),
    Row("learner.epochs", 2),
    Row("learner.minibatches", 2),
    Row("learner.max_kl", 1e-9, LONG),
    # The loss.
    Row("learner.objective.surrogate", "score", AGAIN),
    Row("learner.objective.clip_low", 0.01, AGAIN),
    Row("learner.objective.clip_high", 0.01, AGAIN),
    Row("learner.objective.dual_clip", 1.01, AGAIN),
    *(Row("learner.objective.level", name, AGAIN) for name in ("sequence", "sequence_sum")),
    *(
        Row("learner.objective.aggregate", name, UNEQUAL)
        for name in ("group_token_mean", "seq_mean_token_mean", "seq_mean_token_sum", "token_sum")
    ),
    Row("learner.objective.norm_const", 9.0, CONSTANT),
    Row("learner.objective.mixed_only", True),
    Row("learner.objective.overlong", {"max_len": 1, "cache": 1}, {"credit.estimator": "none"}),
    Row("learner.objective.overlong.max_len", 1, LENGTHS),
    Row("learner.objective.overlong.cache", 2, LENGTHS),
    # The pull to the reference.
    Row("learner.kl.place", "reward", LONG),
    Row("learner.kl.estimator", "k1", LONG),  # refused: it belongs to the reward
    *(Row("learner.kl.estimator", name, LONG) for name in ("k2", "k3")),
    Row("learner.kl.beta", 0.5, LONG),
    Row("learner.kl.target", 1e-6, LONG),
    Row("learner.kl.form", "multiplicative", ADAPTIVE),
    Row("learner.kl.gain", 0.5, ADAPTIVE),
    Row("learner.kl.floor", 0.05, ADAPTIVE),
    Row("learner.kl.ceiling", 0.05, ADAPTIVE),
    # Another sampler than the trainer.
    Row("learner.importance", {"cap": 0.5}, LONG),
    Row("learner.importance.cap", 0.5, WEIGHTED),
    Row("learner.importance.level", "sequence", WEIGHTED),
    Row("learner.importance.mode", "mask", {**WEIGHTED, "learner.importance": {"cap": 0.5}}),
    Row("learner.importance.floor", 1.5, {**WEIGHTED, "learner.importance": {"mode": "mask"}}),
]

TINY: dict[str, Any] = {
    "generations": 1, "steps": 2, "tasks": 3, "group": 3, "learner": {"lr": 0.02},
    "/judge": {"kind": "exact"}, "/evaluation.judge": None, "/evaluation.same_judge": True, "/warm_start": None,
    "/evaluation.arms": {}, "/evaluation.tournament": 0, "/evaluation.exploiter": None,
    "/policies.debater.model": {
        "kind": "tiny", "words": "claims A B evidence ann bob {ann,bob}+{1..9}", "hidden": 8, "layers": 2, "heads": 2,
    },
}  # fmt: skip


# -- what there is


def inside(annotation: Any) -> tuple[Any, ...]:
    """What a value may be."""
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def leaves(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(dotted key, annotation, default) of each key of a configuration and of those in it."""
    for name, known in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = [one for one in inside(known.annotation) if isinstance(one, type) and issubclass(one, BaseModel)]
        if not inner or known.default is None:
            yield key, known.annotation, known.default
        for one in [*inner, *([ProbeRecipe] if name == "probes" else [])]:
            yield from leaves(one, f"{key}.*." if name == "probes" else f"{key}.")


LEAVES = list(leaves(SelfPlayRecipe))
WORDS = [
    (key, set(get_args(one)), default)
    for key, annotation, default in LEAVES
    for one in inside(annotation)
    if get_origin(one) is Literal
]


def test_the_table_has_every_key_and_no_other() -> None:
    assert {row.key for row in ROWS} == {key for key, _, _ in LEAVES}


@pytest.mark.parametrize(("key", "words", "default"), WORDS, ids=[key for key, _, _ in WORDS])
def test_the_table_has_every_word_that_a_key_takes(key: str, words: set[str], default: str) -> None:
    of_contexts = {found for row in ROWS if isinstance(found := at(tree(row.context), key), str)}
    assert words == {default, *(row.value for row in ROWS if row.key == key)} | of_contexts


# -- what a training is


def tree(context: Mapping[str, Any]) -> dict[str, Any]:
    """The ``self_play`` part with a context, and what it changes elsewhere: the keys that begin with a slash."""
    base = TINY
    if "/recipe" in context:
        base = {key: value for key, value in TINY.items() if not key.startswith("/")}
    found: dict[str, Any] = {}
    for key, value in {**base, **context}.items():
        put(found, key, value)
    return found


def put(into: dict[str, Any], key: str, value: Any) -> None:
    """Change a value, and no dictionary that others hold."""
    *path, last = [key] if key.startswith("/") else key.replace("*", "held").split(".")
    for name in path:
        into[name] = dict(into.get(name) or {})
        into = into[name]
    into[last] = value


def at(found: Any, key: str) -> Any:
    """What there is under a key, or None."""
    for name in key.replace("*", "held").split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


class Gains:
    """Believes whoever has quoted more."""

    name, sees_label = "gains", False

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        return [self._one(view) for view in views]

    def _one(self, view: JudgeView) -> Verdict:
        quoted = [quote.split("+") for quote in view.quotes()]
        sums = [sum(float(gain) for name, gain in quoted if name == answer) for answer in view.answers]
        return decide(self.name, normalise([total / 8 for total in sums]), {})


IDLE = {"play_seconds", "update_seconds", "tokens_per_second", "seconds_per_step", "peak_memory_mb", "lr", "beta", "of"}
"""Clocks, and what a key says of itself without any effect."""


class Trainings:
    """Runs trainings, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[str, dict[str, Any]] = {}
        self.worlds: dict[str, World] = {}

    def __call__(self, settings: Mapping[str, Any], shows: str) -> dict[str, Any]:
        run = {"gate": self.gate, "alarms": alarms}.get(shows, self.train)
        key = f"{run.__name__} {json.dumps(settings, sort_keys=True)}"
        if key not in self.known:
            self.known[key] = run(dict(settings))
        return self.known[key]

    def world(self, settings: dict[str, Any]) -> World:
        elsewhere = {key[1:]: value for key, value in settings.items() if key.startswith("/") and key != "/recipe"}
        own = {f"self_play.{key}": value for key, value in settings.items() if not key.startswith("/")}
        name = settings.get("/recipe", "facts")
        recipe = load_recipe(name, {**elsewhere, **own})
        if name not in self.worlds:
            self.worlds[name] = build_world(recipe, 0, lambda event: None)
        return replace(self.worlds[name], recipe=recipe, judge=Gains(), measures=Gains())

    def train(self, settings: dict[str, Any]) -> dict[str, Any]:
        out = self.folder / str(len(self.known))
        player = SelfPlay(self.world(settings), out, lambda event: None)
        saves, calls = counted(player)
        alarm = ""
        try:
            player.run()
        except AlarmError as rung:
            alarm = str(rung)
        (learner,) = torch.load(out / "checkpoint.pt", weights_only=True)["learners"].values()
        rows = [{k: v for k, v in row.items() if k not in IDLE} for row in metrics_rows(out / "metrics.jsonl")]
        weights = torch.cat([weight.reshape(-1).double() for weight in learner["weights"].values()])
        return {"weights": (weights.tolist(), alarm), "metrics": rows, "work": (len(saves), len(calls))}

    def gate(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Between those who quote at random and those who quote what helps most."""
        world = self.world({key: value for key, value in settings.items() if key.startswith("/")})
        config = GateConfig.model_validate({"batch": 5, **settings.get("gate", {})})
        gate = Gate(config, load_protocol(world.recipe.protocol), world, world.tasks.test[:60])
        names = ("random-quotes", "greedy-quotes")
        seats = {name: dict.fromkeys(("first", "second"), build_agent(name, world)) for name in names}
        return {"gate": gate.test(*names, seats).row()}


def counted(player: SelfPlay) -> tuple[list[int], list[int]]:
    """Receive an entry for each checkpoint that is written, and for each pass through a network's first layer."""
    saves: list[int] = []
    calls: list[int] = []
    save = player._save

    def keep(*arguments: Any) -> None:
        saves.append(1)
        save(*arguments)

    player._save = keep  # type: ignore[method-assign]
    (policy,) = player.policies.values()
    network: Any = policy.model.network
    layers = (module for module in network.modules() if type(module).__name__ == "LlamaDecoderLayer")
    next(layers).register_forward_hook(lambda *_: calls.append(1))
    return saves, calls


def alarms(settings: dict[str, Any]) -> dict[str, Any]:
    """What rings in six steps that go wrong in every way."""
    config = AlarmConfig.model_validate({"window": 2, "significance": 1.0, **settings.get("alarms", {})})
    watch = Alarms(config, ["gen0"])
    for step, good in enumerate([1.0, 0.99, 0.8, 0.5, 0.01, 0.01]):
        row = {"reward": 1 - good, "accuracy": good, "tokens_per_turn": 1 / good**0.3, "entropy": good}
        watch.look(step, {**row, "kl_per_turn": 1 - good, "win_rate/gen0": good * 0.8})
    return {"alarms": watch.told}


@pytest.fixture(scope="module")
def trainings(tmp_path_factory: pytest.TempPathFactory) -> Trainings:
    return Trainings(tmp_path_factory.mktemp("trainings"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.key}={row.value}")
def test_a_key_changes_what_is_trained_or_is_refused_by_its_name(row: Row, trainings: Trainings) -> None:
    base, changed = tree(row.context), tree(row.context)
    put(changed, row.key, row.value)
    before, after = trainings(base, row.shows), None
    refused = ""
    try:
        after = trainings(changed, row.shows)
    except UserError as error:
        refused = str(error)
    if after is None:
        assert row.key.rpartition(".")[2] in refused
        return
    assert before[row.shows] != after[row.shows]
    if row.shows == "metrics":
        assert before["weights"] == after["weights"], "what is measured changed what is trained"
