"""Whether what a recipe names exists and fits together: everything that would else come out hours into a training.

Nothing is built and torch is not loaded, so of models no more is checked than is known without.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from arena.agents import AGENTS
from arena.agents.models import check_lora, check_model
from arena.arms import arm_faults
from arena.judges import JUDGES
from arena.judges.prompts import JudgePrompt
from arena.protocols import Protocol, load_protocol
from arena.protocols.composer import spell
from arena.protocols.documents import Document, KeyPath, validate_model
from arena.protocols.errors import ConfigError, Fault, SourceError, UnknownNameError, suggest
from arena.protocols.registry import Spec, parse_spec
from arena.tasks import TASKS
from arena.tournament import check_pairing
from arena.training.league import sides_of
from arena.training.learner_config import OptimizerConfig, inert_keys
from arena.training.probes import PROBES
from arena.training.recipe import Arm, JudgeRecipe, PolicyRecipe, Recipe, SpecLike
from arena.training.recipe_places import argument_place
from arena.training.selfplay_config import ProbeRecipe, inert_self_play
from arena.training.study import check_metrics
from arena.training.trainers import TRAINERS, trainer_arguments

__all__ = ["check_recipe"]

GENERATIONS = ("last", "generations")
"""Lineups of an arm that are made of the trained policies."""

_WITHOUT_CLASSES = ("exact", "llm", "match")
"""Judges of ours that cannot say how credible a class is, as `distractors` ask."""


def check_recipe(recipe: Recipe, document: Document | None = None) -> None:
    """Refuse a recipe that names what does not exist, whose parts do not fit together, or with keys without effect.

    Args:
        recipe: of the right shape.
        document: the file that it was read from, for the places of faults.

    Raises:
        SourceError: all faults, those of protocol files that the recipe names included.
    """
    checker = _Checker(recipe, document)
    checker.check()
    if checker.faults:
        raise SourceError(sorted(dict.fromkeys(checker.faults), key=checker.order))


class _Checker:
    """Collects faults."""

    def __init__(self, recipe: Recipe, document: Document | None) -> None:
        self.recipe = recipe
        self.document = document
        self.faults: list[Fault] = []
        self.protocols: dict[tuple[str, str], Protocol | None] = {}
        """By name and parameters; None for one that does not load."""
        self.needed: dict[str, str] = {}
        """Speaking role that `roles` must fill -> protocol that has it."""

    def check(self) -> None:
        recipe = self.recipe
        self.tasks()
        if recipe.judge is not None:
            self.judge(("judge",), recipe.judge)
            self.evaluation_judge(recipe.judge)
        main = self.protocol(("protocol",), recipe.protocol, recipe.params, ("params",))
        if main is not None:
            self.trained_protocol(main)
        for name, arm in recipe.evaluation.arms.items():
            self.arm(("evaluation", "arms", name), arm)
        self.exploiter()
        shown = self.demonstrations()
        self.roles()
        if main is not None:
            self.self_play(main)
        for name, policy in recipe.policies.items():
            self.policy(name, policy, main, shown)
        self.inert(("self_play", "learner"), recipe.self_play.learner)
        self.clips()
        for path, what in inert_self_play(recipe.self_play, responds=recipe.evaluation.best_response is not None):
            self.add(("self_play", *path), what, key=True)
        self.study()
        if recipe.warm_start is not None:
            self.inert(("warm_start", "learner"), recipe.warm_start.learner)

    # -- faults

    def add(self, path: KeyPath, what: str, *, key: bool = False) -> None:
        if self.document is None:
            self.faults.append(Fault(f"recipe '{self.recipe.recipe}'", 0, 0, spell(path), what))
        else:
            self.faults.append(self.document.fault(path, what, key=key))

    def order(self, fault: Fault) -> tuple[bool, str, int, int]:
        """The recipe's own faults first, in the order of the file."""
        own = self.document is None or fault.file == self.document.file
        return not own, fault.file, fault.line, fault.column

    # -- what is named

    def tasks(self) -> None:
        spec = self.recipe.tasks
        if isinstance(spec, str) and spec.endswith(".jsonl") and not spec.startswith("jsonl:"):
            spec = {"kind": "jsonl", "path": spec}
        try:
            TASKS.check(spec, ("seed",))
        except (ConfigError, UnknownNameError) as error:
            self.add(("tasks",), str(error))
            return
        asked = parse_spec(spec)
        if asked.kind == "jsonl" and not Path(str(asked.args["path"])).is_file():
            self.add(("tasks",), f"there is no file '{asked.args['path']}'")

    def judge(self, path: KeyPath, judge: JudgeRecipe) -> None:
        if judge.kind not in JUDGES:
            self.add((*path, "kind"), f"'{judge.kind}' is not a known judge.{suggest(judge.kind, JUDGES.names())}")
            return
        if judge.train is not None and judge.kind not in TRAINERS:
            known = ", ".join(TRAINERS.names())
            self.add((*path, "train"), f"judge '{judge.kind}' cannot be trained: remove it ({known} can)", key=True)
        else:
            self.judge_arguments(path, judge)
        if "model" in judge.args and judge.kind == "llm":
            self.model((*path, "args", "model"), judge.args["model"])
        if isinstance(judge.args.get("prompt"), str) and judge.kind == "llm":
            try:
                JudgePrompt(judge.args["prompt"])
            except ConfigError as error:
                self.add((*path, "args", "prompt"), str(error))
        if self.recipe.distractors is not None and judge.kind in _WITHOUT_CLASSES:
            what = f"judge '{judge.kind}' does not tell which classes are credible: use a classifier, or remove this"
            self.add(("distractors",), what, key=True)

    def judge_arguments(self, path: KeyPath, judge: JudgeRecipe) -> None:
        """Arguments of a judge that is used as it is, or of its training."""
        try:
            if judge.train is None:
                JUDGES.check(Spec(judge.kind, judge.args), ("seed",))
            else:
                trainer_arguments(judge.kind, judge.args, judge.train)
        except (ConfigError, UnknownNameError) as error:
            parts: list[tuple[KeyPath, Any]] = [((*path, "train"), judge.train), ((*path, "args"), judge.args)]
            found = [(argument_place(where, given, error), where) for where, given in parts]
            place, key = next((at for at, where in found if at[0] != where), ((*path, "args"), False))
            there = self.document is None or self.document.has(place)
            self.add(place if there else (*path, "kind"), str(error), key=key)

    def evaluation_judge(self, rewards: JudgeRecipe) -> None:
        """The judge that rewards training never reports the result, unless the recipe says that it may."""
        config = self.recipe.evaluation
        if config.judge is None:
            if not config.same_judge:
                what = (
                    "the judge that rewards must not report the result: name another one in evaluation.judge (the same "
                    "text makes a twin with its own seed if it is trained), or write evaluation.same_judge: true"
                )
                self.add(("evaluation",) if self.has_evaluation() else (), what, key=True)
            return
        path: KeyPath = ("evaluation", "judge")
        if config.same_judge:
            self.add(("evaluation", "same_judge"), "it contradicts evaluation.judge: remove one of the two", key=True)
        self.judge(path, config.judge)
        if config.judge.train is None and rewards.train is None and _same(config.judge, rewards):
            what = (
                f"this is the judge '{rewards.kind}' that rewards training: name another instrument, or remove it and "
                "write same_judge: true"
            )
            self.add(path, what, key=True)

    def has_evaluation(self) -> bool:
        return self.document is None or self.document.has(("evaluation",))

    def agent(self, path: KeyPath, spec: SpecLike, others: Iterable[str] = (), sort: str = "") -> None:
        """``others`` are words of a ``sort`` that may stand in the agent's place."""
        try:
            AGENTS.check(spec, ("judge", "seed", "tasks"))
        except UnknownNameError:
            name = parse_spec(spec).kind
            what = f"'{name}' is neither {sort} nor a known agent." if sort else f"'{name}' is not a known agent."
            self.add(path, what + suggest(name, [*others, *AGENTS.names()]))
        except ConfigError as error:
            meant = suggest(str(spec), others)
            self.add(path, str(error) + (meant if "Did you mean" in meant else ""))

    def drawn_anew(self, path: KeyPath, spec: SpecLike, others: Iterable[str] = (), sort: str = "") -> None:
        """An `agent` that takes part in rollouts: what it says must not be what it said in an earlier run."""
        self.agent(path, spec, others, sort)
        with contextlib.suppress(ConfigError):  # told by now
            if "cache" in parse_spec(spec).args:
                self.add(path, "training draws every turn anew, and none comes from a cache: remove 'cache'")

    def model(self, path: KeyPath, spec: Any) -> None:
        try:
            if not isinstance(spec, str | dict):
                raise ConfigError(f"{spec!r} is no model: write a kind, a folder or a hub name")
            check_model(spec)
        except ConfigError as error:
            self.add(path, str(error))

    def protocol(
        self, path: KeyPath, name: str, params: Mapping[str, Any], own: KeyPath, shared: Mapping[str, Any] | None = None
    ) -> Protocol | None:
        """A protocol with ``params`` from ``own`` and the ``shared`` ones of the recipe; None after a fault."""
        merged = {**(shared or {}), **params}
        key = (name, json.dumps(merged, sort_keys=True, default=str))
        if key not in self.protocols:
            self.protocols[key] = None
            try:
                self.protocols[key] = load_protocol(name, merged)
            except SourceError as error:
                for fault in error.faults:
                    if fault.line:
                        self.faults.append(fault)
                    else:
                        self.add(path, f"'{fault.file}': {fault.what}")
            except UnknownNameError as error:
                self.add(path, str(error))
            except ConfigError as error:
                blamed = next((param for param in merged if f"'{param}'" in str(error)), None)
                place = own if blamed is None or blamed in params else ("params",)
                self.add(place if blamed is None else (*place, blamed), str(error))
        return self.protocols[key]

    def other_protocol(self, path: KeyPath, name: str, params: Mapping[str, Any]) -> Protocol | None:
        """A protocol beside the trained one, which it may be again."""
        shared = self.recipe.params if name == self.recipe.protocol else {}
        return self.protocol((*path, "protocol"), name, params, (*path, "params"), shared)

    # -- how it fits together

    def need(self, protocol: Protocol) -> None:
        for role in protocol.speakers:
            self.needed.setdefault(role, protocol.name)

    def trained_protocol(self, protocol: Protocol) -> None:
        self.need(protocol)
        if not protocol.rewards:
            self.add(("protocol",), f"protocol '{protocol.name}' has no 'rewards:', so nothing can be trained on it")
        config = self.recipe.evaluation
        seats, given = protocol.seats, config.model_fields_set
        if len(seats) != 2:
            for name in ("tournament", "exploiter"):
                if name in given and getattr(config, name):
                    what = f"it needs two roles that argue; protocol '{protocol.name}' has {len(seats)}: remove it"
                    self.add(("evaluation", name), what, key=True)
        elif (others := [role for role in protocol.speakers if role not in seats]) and (
            config.tournament or config.exploiter is not None
        ):
            what = (
                f"'{others[0]}' of protocol '{protocol.name}' speaks without arguing, which pairings do not know: "
                "set tournament to 0 and remove exploiter"
            )
            self.add(("evaluation", "tournament"), what)

    def self_play(self, protocol: Protocol) -> None:
        """League, credit, gate and probes of the trained protocol."""
        config, recipe = self.recipe.self_play, self.recipe
        trained = [r for r in protocol.speakers if recipe.key_of(r) is not None and recipe.policy_of(r) is not None]
        if not trained:
            return
        try:
            sides = sides_of(config.league, trained)
        except ConfigError as error:
            self.add(("self_play", "league", "sides"), str(error))
            sides = []
        if len(sides) == 1 and any(share for kind, share in config.league.mix.items() if kind != "mirror"):
            what = "an opponent needs a side of its own, and there is one side only: write {mirror: 1}"
            self.add(("self_play", "league", "mix"), what)
        if len(sides) == 1 and recipe.evaluation.best_response is not None:
            what = "one side only is trained, and nobody is there to respond to: remove it"
            self.add(("evaluation", "best_response"), what, key=True)
        for index, spec in enumerate(config.league.anchors):
            self.drawn_anew(("self_play", "league", "anchors", index), spec)
        known = {*trained, *(protocol.roles[role].group for role in trained)}
        for role in config.credit.roles:
            if role not in known:
                what = f"'{role}' is not trained in protocol '{protocol.name}'.{suggest(role, known)}"
                self.add(("self_play", "credit", "roles", role), what, key=True)
        whole = [name for name, policy in recipe.policies.items() if policy.binding == "full"]
        if config.reference.at == "base" and whole:
            what = f"policy '{whole[0]}' trains all of its weights, so there is no base under it: write start"
            self.add(("self_play", "reference", "at"), what)
        if config.gate is not None:
            try:
                check_pairing(protocol)
            except ConfigError as error:
                self.add(("self_play", "gate"), f"a gate lets two policies play: {error}", key=True)
        if protocol.judging_seats and recipe.judge is None:
            self.add(("protocol",), f"somebody judges in protocol '{protocol.name}': give the recipe a 'judge'")
        for name, probe in config.probes.items():
            self.probe(("self_play", "probes", name), probe, protocol)

    def study(self) -> None:
        """Variants that are recipes, metrics that speak of what there is."""
        recipe = self.recipe
        for name, what in check_metrics(recipe.metrics, recipe.variants, recipe.self_play.probes):
            self.add(("metrics", name), what)
        if self.document is None:
            return
        for name, changes in recipe.variants.items():
            for key in changes:
                if key.partition(".")[0] in ("recipe", "seeds", "variants", "metrics"):
                    self.add(("variants", name, key), "a variant cannot change what the study is", key=True)
            try:
                self.varied(changes)
            except SourceError as error:
                told = "; ".join(dict.fromkeys(f"{fault.where}: {fault.what}" for fault in error.faults))
                self.add(("variants", name), f"as a recipe of its own it is wrong: {told}")

    def varied(self, changes: Mapping[str, Any]) -> None:
        """The recipe with other values.

        Raises:
            SourceError: it has faults.
        """
        assert self.document is not None
        other = copy.deepcopy(self.document)
        for key, value in {**changes, "variants": {}, "metrics": {}}.items():
            other.change(tuple(key.split(".")), value)
        check_recipe(validate_model(other, Recipe), other)

    def probe(self, path: KeyPath, probe: ProbeRecipe, protocol: Protocol) -> None:
        if probe.kind not in PROBES:
            self.add((*path, "kind"), f"'{probe.kind}' is not a known probe.{suggest(probe.kind, PROBES.names())}")
            return
        try:
            PROBES.check(probe.spec, ("seed",))
            PROBES.build(probe.spec, seed=0).check(self.recipe, protocol)
        except SourceError as error:
            self.faults += error.faults
        except ConfigError as error:
            self.add(path, str(error))

    def arm(self, path: KeyPath, arm: Arm) -> None:
        protocol = self.other_protocol(path, arm.protocol, arm.params)
        policies = arm.lineup in GENERATIONS if isinstance(arm.lineup, str) else False
        if arm.lineup is not None and not policies:
            self.agent((*path, "lineup"), arm.lineup, GENERATIONS, "'last' nor 'generations'")
        if protocol is None:
            return
        for key, what in arm_faults(arm, protocol, "last, generations or an agent"):
            self.add((*path, *key), what, key=key != ("protocol",))
        if policies:
            self.need(protocol)

    def exploiter(self) -> None:
        config = self.recipe.evaluation
        if config.exploiter is not None:
            self.agent(("evaluation", "exploiter"), config.exploiter)
        elif "exploiter_tasks" in config.model_fields_set:
            what = "there is no exploiter: name one or remove exploiter_tasks"
            self.add(("evaluation", "exploiter_tasks"), what, key=True)

    def demonstrations(self) -> set[str] | None:
        """Roles that are demonstrated; None where there is no warm start or a protocol does not load."""
        config = self.recipe.warm_start
        found: set[str] = set()
        complete = config is not None and config.steps > 0
        for index, mix in enumerate(config.demonstrations if config is not None else ()):
            path: KeyPath = ("warm_start", "demonstrations", index)
            self.drawn_anew((*path, "agent"), mix.agent)
            protocol = self.other_protocol(path, mix.protocol, mix.params)
            if protocol is None:
                complete = False
                continue
            if not protocol.speakers:
                self.add((*path, "protocol"), f"nobody speaks in protocol '{protocol.name}': it shows nothing")
                complete = False
            self.need(protocol)
            found |= set(protocol.speakers)
        if config is not None and complete:
            self.weights(config.weights, found)
        return found if complete else None

    def weights(self, weights: Iterable[str], shown: set[str]) -> None:
        """Roles whose tokens count more or less in a warm start are demonstrated to a policy."""
        learns = {name for role in shown if self.trains(role) for name in (role, role.rpartition("-")[0]) if name}
        for role in weights:
            if role not in learns:
                what = f"'{role}' is no role that a policy plays in a demonstration.{suggest(role, learns)}"
                self.add(("warm_start", "weights", role), what, key=True)

    def trains(self, role: str) -> bool:
        """Whether a policy plays the role."""
        key = self.recipe.key_of(role)
        filler = None if key is None else self.recipe.roles[key]
        return isinstance(filler, str) and filler in self.recipe.policies

    def roles(self) -> None:
        roles = self.recipe.roles
        for role, protocol in self.needed.items():
            if self.recipe.key_of(role) is None:
                self.add(("roles",), f"nobody plays '{role}', who speaks in protocol '{protocol}'", key=True)
        whole = None not in self.protocols.values()
        filling = {self.recipe.key_of(role) for role in self.needed}
        for role, filler in roles.items():
            if whole and role not in filling:
                self.add(("roles", role), self.unneeded(role), key=True)
            if not (isinstance(filler, str) and filler in self.recipe.policies):
                self.drawn_anew(("roles", role), filler, self.recipe.policies, "a policy of this recipe")

    def unneeded(self, role: str) -> str:
        """Why nobody has to play a role."""
        loaded = [protocol for protocol in self.protocols.values() if protocol is not None]
        if any(role in protocol.speakers for protocol in loaded):
            return f"'{role}' is played by the lineup of its arm: remove it"
        if any(role in protocol.roles for protocol in loaded):
            return f"'{role}' does not speak, so that nobody can play it: remove it"
        return f"'{role}' is a role of no protocol here.{suggest(role, self.needed)}"

    def policy(self, name: str, policy: PolicyRecipe, main: Protocol | None, shown: set[str] | None) -> None:
        path: KeyPath = ("policies", name)
        plays = {role for role, filler in self.recipe.roles.items() if filler == name}
        paid = {self.recipe.key_of(seat) for reward in main.rewards for seat in reward.values} if main else set()
        if not plays:
            self.add(path, f"no role plays '{name}': name it in roles, or remove it", key=True)
        elif paid and not plays & paid:
            what = f"protocol '{main.name}' pays no role of '{name}', so no reward trains it" if main else ""
            self.add(path, what, key=True)
        if plays and shown is not None and not plays & {self.recipe.key_of(seat) for seat in shown}:
            what = f"no demonstration shows a role of policy '{name}', so its warm start has nothing to learn from"
            self.add(("warm_start", "demonstrations"), what, key=True)
        self.model((*path, "model"), policy.model)
        if policy.binding == "full" and "lora" in policy.model_fields_set:
            self.add((*path, "lora"), "'lora' has no effect with binding 'full': write binding: adapter", key=True)
        try:
            check_lora(policy.lora)
        except ConfigError as error:
            self.add((*path, "lora"), str(error))

    def clips(self) -> None:
        """Clips that a recipe sets itself, of a ratio that is always 1: each sequence is seen once, by its sampler."""
        recipe, learner = self.recipe, self.recipe.self_play.learner
        own = learner.importance is not None or all(policy.sampler == "hf" for policy in recipe.policies.values())
        if learner.epochs > 1 or learner.minibatches > 1 or not own or self.document is None:
            return
        for name in ("clip_low", "clip_high", "dual_clip"):
            path: KeyPath = ("self_play", "learner", "objective", name)
            if self.document.has(path):
                what = "it has no effect: one optimizer step a rollout has ratio 1; set epochs or minibatches above 1"
                self.add(path, what, key=True)

    def inert(self, path: KeyPath, config: OptimizerConfig) -> None:
        for inside, what in inert_keys(config):
            self.add((*path, *inside), what, key=True)


def _same(one: JudgeRecipe, other: JudgeRecipe) -> bool:
    return (one.kind, one.args) == (other.kind, other.args)
