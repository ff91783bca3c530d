"""Recipes that train a judge: what it begins as, what it learns from, who labels that, and how it learns.

    recipe: judge-sft
    trains: judge
    judge: {kind: llm, args: {model: {kind: tiny, words: ...}, prompt: ...}}
    data: {kind: quotes, tasks: facts}
    labels: {by: truth}
    train: {kind: sft, steps: 300, batch: 64, learner: {lr: 5.0e-3}}

``trains: judge`` tells such a file from a self-play recipe. Sources of data are `arena.training.judge_data.DATA`, ways
to learn `arena.training.judge_methods.METHODS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from arena.agents import AGENTS
from arena.agents.models import check_model
from arena.judges import JUDGES
from arena.judges.prompts import JudgePrompt
from arena.judges.reward_text import RewardPrompt
from arena.protocols import load_protocol
from arena.protocols.documents import Document, KeyPath, find_faults, validate_model
from arena.protocols.errors import ConfigError, Fault, SourceError, UnknownNameError, UserError, suggest
from arena.protocols.registry import Spec, parse_spec
from arena.tasks import TASKS
from arena.training.judge_data import DATA
from arena.training.judge_methods import METHODS, JudgeMethod
from arena.training.recipe import Recipe, SpecLike, _Config, load_recipe, open_recipe
from arena.training.recipe_places import argument_place

__all__ = ["JudgeStart", "JudgeTraining", "Labels", "judge_recipe_schema", "load_any_recipe", "load_judge_recipe"]

SELF, TRUTH = "self", "truth"


class JudgeStart(_Config):
    """The judge before it is trained."""

    kind: str
    """A judge kind; see ``arena ls judges``."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the kind; ``path`` goes on with a judge that was saved."""

    @property
    def spec(self) -> Spec:
        """As the registry of judges takes it."""
        return Spec(self.kind, self.args)


class Labels(_Config):
    """Who says which answer is right, for what is learned from; what is measured on has the labels of the data."""

    by: SpecLike = TRUTH
    """``truth``: the labels of the data; ``self``: a frozen copy of the judge (self-rewarding, arXiv 2401.10020); else
    the judge that labels (RLAIF, arXiv 2212.08073). Its ties and undecidable verdicts are left out and counted."""
    soft: bool = False
    """Draw each label with the probability that the labeller gives it, instead of taking its choice: what learns from
    that becomes as sure as the labeller is, and no surer (the soft labels of arXiv 2309.00267, one draw an example)."""
    rounds: int = Field(1, ge=1, le=10**9)
    """For ``self``: how often the copy is taken anew, with ``train.steps`` optimizer steps after each."""

    @property
    def teacher(self) -> SpecLike | None:
        """The judge that labels; None where the data or the judge itself does."""
        return None if self.by in (SELF, TRUTH) else self.by


class JudgeTraining(_Config):
    """A training run of a judge."""

    recipe: str
    """Its name."""
    summary: str = ""
    """One line for people."""
    trains: Literal["judge"]
    """What this recipe trains; one without this key trains policies by self-play."""
    judge: JudgeStart
    """What the judge begins as."""
    data: SpecLike
    """Where labelled debates come from, with a part that is held out to measure on."""
    labels: Labels = Labels()
    """Who labels what is learned from."""
    train: dict[str, Any]
    """How the judge learns: ``kind`` and its settings."""
    max_undecidable: float = Field(0.2, ge=0, le=1)
    """Training stops when a larger share of the verdicts that are measured, or that label, cannot be used, of at least
    20; 1 allows everything."""
    threads: int = Field(1, ge=1, le=1024)
    """CPU threads of torch. Another number gives other (equally good) weights."""

    @property
    def method(self) -> JudgeMethod:
        """The ``train`` block, checked.

        Raises:
            UserError: no such method, or a setting that it does not have.
        """
        kind: Any = METHODS.factory(str(self.train.get("kind")))
        found: JudgeMethod = kind.model_validate_json(json.dumps(self.train), strict=True)
        return found


def load_any_recipe(
    name_or_path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()
) -> Recipe | JudgeTraining:
    """Read a recipe of either kind; see `load_recipe` and `load_judge_recipe`."""
    data = open_recipe(name_or_path, overrides).data
    trains_judge = isinstance(data, dict) and "trains" in data
    return (load_judge_recipe if trains_judge else load_recipe)(name_or_path, overrides)


def load_judge_recipe(name_or_path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> JudgeTraining:
    """Read a recipe that trains a judge: a shipped name or a file; ``overrides`` are dotted ``key=value``.

    Raises:
        SourceError: the file has faults, or what it names does not exist or fit together; all of them are told.
        ConfigError: an override is not of that form, or there is no such recipe.
    """
    document = open_recipe(name_or_path, overrides)
    recipe = validate_model(document, JudgeTraining)
    checker = _Checker(recipe, document)
    checker.check()
    if checker.faults:
        raise SourceError(sorted(dict.fromkeys(checker.faults), key=lambda fault: (fault.line, fault.column)))
    return recipe


def judge_recipe_schema() -> dict[str, Any]:
    """JSON Schema of recipes that train a judge, with the settings of every method."""
    schema = JudgeTraining.model_json_schema()
    methods: list[Any] = [METHODS.factory(name) for name in METHODS.names()]
    found = [method.model_json_schema(ref_template="#/$defs/{model}") for method in methods]
    for each in found:
        schema["$defs"] |= each.pop("$defs", {})
        each["required"] = ["kind", *each.get("required", [])]
    schema["properties"]["train"] |= {"type": "object", "oneOf": found}
    schema["properties"]["train"].pop("additionalProperties", None)
    return schema


class _Checker:
    """Collects what would else come out in the middle of a training."""

    def __init__(self, recipe: JudgeTraining, document: Document) -> None:
        self.recipe = recipe
        self.document = document
        self.faults: list[Fault] = []

    def check(self) -> None:
        self.start()
        self.data()
        self.labels()
        self.method()

    def add(self, path: KeyPath, what: str, *, key: bool = False) -> None:
        self.faults.append(self.document.fault(path, what, key=key))

    def start(self) -> None:
        judge = self.recipe.judge
        if judge.kind not in JUDGES:
            self.add(("judge", "kind"), f"'{judge.kind}' is not a known judge.{suggest(judge.kind, JUDGES.names())}")
            return
        model, prompt = judge.args.get("model"), judge.args.get("prompt")
        if (model is None) == ("path" not in judge.args):
            what = "a judge that is trained begins with either model (a base model) or path (a saved judge)"
            self.add(("judge", "args"), what)
        try:
            if judge.kind in _trainable():
                JUDGES.check(judge.spec, ("seed",))
        except ConfigError as error:
            place, key = argument_place(("judge", "args"), judge.args, error)
            self.add(place, str(error), key=key)
        saved = judge.args.get("path")
        if isinstance(saved, str) and not (Path(saved) / "judge.json").is_file():
            self.add(("judge", "args", "path"), f"'{saved}' holds no judge: give the folder of a saved one")
        try:
            if model is not None:
                check_model(model)
        except ConfigError as error:
            self.add(("judge", "args", "model"), str(error))
        try:
            if isinstance(prompt, str):
                (RewardPrompt if judge.kind in ("reward-model", "process-reward") else JudgePrompt)(prompt)
        except ConfigError as error:
            self.add(("judge", "args", "prompt"), str(error))

    def data(self) -> None:
        try:
            DATA.check(self.recipe.data, ("seed",))
        except (ConfigError, UnknownNameError) as error:
            place, key = argument_place(("data",), self.recipe.data, error)
            self.add(place, str(error), key=key)
            return
        args = parse_spec(self.recipe.data).args
        if "tasks" in args:
            self.tried("tasks", lambda: TASKS.check(_tasks(args["tasks"]), ("seed",)))
        if "protocol" in args:
            self.tried("protocol", lambda: load_protocol(args["protocol"], args.get("params") or {}))
        if "agents" in args:
            agents = args["agents"]
            many = isinstance(agents, dict) and "kind" not in agents
            for agent in agents.values() if many else [agents]:
                self.tried("agents", lambda agent=agent: AGENTS.check(agent, ("judge", "seed", "tasks")))

    def tried(self, name: str, check: Any) -> None:
        path: KeyPath = ("data", name) if isinstance(self.recipe.data, dict) else ("data",)
        try:
            check()
        except SourceError as error:
            for fault in error.faults:
                self.faults.append(fault) if fault.line else self.add(path, f"'{fault.file}': {fault.what}")
        except UserError as error:
            self.add(path, str(error))

    def labels(self) -> None:
        labels = self.recipe.labels
        if labels.by != SELF and "rounds" in labels.model_fields_set:
            self.add(
                ("labels", "rounds"), "'rounds' has no effect unless the judge labels itself: write by: self", key=True
            )
        if labels.by == TRUTH and "soft" in labels.model_fields_set:
            self.add(("labels", "soft"), "'soft' has no effect on labels of the data: remove it", key=True)
        try:
            if labels.teacher is not None:
                JUDGES.check(labels.teacher, ("seed",))
        except UnknownNameError:
            kind = parse_spec(labels.teacher or "").kind
            what = f"'{kind}' is neither {TRUTH} nor {SELF} nor a known judge."
            self.add(("labels", "by"), what + suggest(kind, [TRUTH, SELF, *JUDGES.names()]))
        except ConfigError as error:
            place, key = argument_place(("labels", "by"), labels.by, error)
            self.add(place, str(error), key=key)

    def method(self) -> None:
        kind = self.recipe.train.get("kind")
        if not isinstance(kind, str) or kind not in METHODS:
            known = ", ".join(METHODS.names())
            self.add(
                ("train", "kind"),
                f"{kind!r} is no way to train a judge (there is: {known}).{suggest(str(kind), METHODS.names())}",
            )
            return
        config: Any = METHODS.factory(kind)
        method, faults = find_faults(self.document, config, ("train",))
        self.faults += faults
        if method is None:
            return
        for path, what in method.faults():
            self.add(("train", *path), what, key=True)
        if self.recipe.judge.kind in JUDGES and self.recipe.judge.kind not in method.judges:
            what = f"'{kind}' trains {' and '.join(method.judges)}, not a judge '{self.recipe.judge.kind}'"
            self.add(("train", "kind"), what)
        if not method.needs_labels and self.recipe.labels.by != TRUTH:
            self.add(("labels",), f"'{kind}' pays for nothing that a label says here: remove labels", key=True)


def _trainable() -> set[str]:
    methods: list[Any] = [METHODS.factory(name) for name in METHODS.names()]
    return {kind for method in methods for kind in method.judges}


def _tasks(spec: Any) -> Any:
    return {"kind": "jsonl", "path": spec} if isinstance(spec, str) and spec.endswith(".jsonl") else spec
