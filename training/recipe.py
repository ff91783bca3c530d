"""Recipes: what to train, on what, against which judge, and how to measure it; one YAML file.

A recipe names things that exist elsewhere (a protocol, tasks, a judge, a model) and says how long to train. Nothing in
the trainer knows the two demonstration games: they are recipes like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from arena.arms import Arm as AnyArm
from arena.protocols.documents import Document, read_document, read_value, validate_model
from arena.protocols.errors import ConfigError, SourceError, suggest
from arena.training.learner_config import OptimizerConfig
from arena.training.selfplay_config import SelfPlayRecipe

__all__ = [
    "Arm",
    "BestResponseRecipe",
    "DemonstrationSource",
    "Distractors",
    "Evaluation",
    "JudgeRecipe",
    "PolicyRecipe",
    "Recipe",
    "SelfPlayRecipe",
    "WarmStart",
    "load_recipe",
    "open_recipe",
    "recipes",
]

LIBRARY = Path(__file__).parent / "recipes"

_FILES = {"protocol": (".yaml", ".yml"), "tasks": (".jsonl",), "path": (".jsonl",)}
"""Keys of a recipe whose values may be files, and how the names of those end."""

SpecLike = str | dict[str, Any]
"""``name``, ``name:key=value`` or ``{kind: name, key: value}``."""


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Distractors(_Config):
    """Replace the wrong answer of each task by one that the judge finds credible."""

    train: int = Field(3, ge=1, le=10**9)
    """Draw the wrong answer of a training task from this many most credible ones."""
    test: int = Field(1, ge=1, le=10**9)
    """The same for held-out tasks; 1 takes the hardest."""


class JudgeRecipe(_Config):
    """A judge, and how it is trained before anything else."""

    kind: str
    """A judge kind; see ``arena ls judges``."""
    train: dict[str, Any] | None = None
    """Arguments of the kind's training on random evidence; absent: the judge is used as it is."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the kind."""
    max_undecidable: float = Field(0.2, ge=0, le=1)
    """Training stops when a larger share of its verdicts cannot be used, in one step or as many as make 20; so does the
    evaluation where it judges, in one of its stages."""


class PolicyRecipe(_Config):
    """A set of weights that is trained."""

    model: SpecLike
    """The base model: ``tiny``, ``smollm2``, a hub name or a folder."""
    binding: Literal["full", "adapter"] = "full"
    """``full`` trains all weights; ``adapter`` trains a LoRA on the frozen base."""
    lora: dict[str, Any] = Field(default_factory=dict)
    """For ``adapter``: ``r``, ``alpha``, ``targets``."""
    temperature: float = Field(1.0, gt=0, le=1e6)
    """Sampling temperature in training and evaluation."""
    max_tokens: int = Field(64, ge=1, le=10**9)
    """Longest turn where the protocol sets no limit."""
    train_thinking: bool = False
    """Train hidden thinking as well; else it is context of what is said."""
    sampler: str | dict[str, Any] = "hf"
    """Which backend draws its tokens: ``hf`` in this process, ``vllm`` or ``vllm-server:url=...``."""


class DemonstrationSource(_Config):
    """One source of demonstrations."""

    protocol: str
    """Protocol that is played."""
    agent: SpecLike
    """Who plays all speaking roles."""
    share: float = Field(1.0, gt=0, le=1e6)
    """Part of each batch, relative to the other sources."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
    roles: dict[str, SpecLike] = Field(default_factory=dict)
    """Who plays single roles (or counted ones) instead."""

    def agent_of(self, role: str) -> SpecLike:
        """Who plays a role."""
        return self.roles.get(role, self.roles.get(role.rpartition("-")[0], self.agent))


class WarmStart(_Config):
    """Supervised fine-tuning on played demonstrations before self-play."""

    steps: int = Field(ge=0, le=10**9)
    """Optimizer steps."""
    tasks: int = Field(32, ge=1, le=10**9)
    """Tasks a step, divided among the sources by their shares."""
    group: int = Field(2, ge=1, le=10**9)
    """Demonstrations of each task; they share the computation of its prompt."""
    fresh: int | None = Field(None, ge=1, le=10**9)
    """Steps with new demonstrations; later steps see the same ones again, in the same order. None: all are new."""
    weights: dict[str, Annotated[float, Field(gt=0, le=1e6)]] = Field(default_factory=dict)
    """How much a token of a role (or counted one) counts; 1 if it is not named."""
    learner: OptimizerConfig
    """Optimizer and schedule."""
    demonstrations: list[DemonstrationSource] = Field(min_length=1)
    """Where demonstrations come from."""


class Arm(AnyArm):
    """One row of the table of judge accuracies."""

    lineup: SpecLike | None = None
    """``last``: the trained policies in their roles; ``generations``: every generation; else an agent for all roles."""


class BestResponseRecipe(_Config):
    """What could be won against the champion, by a response that is trained: see `arena.training.best_response`."""

    steps: int = Field(ge=1, le=10**9)
    """Optimizer steps from the champion on, with the ``tasks``, ``group``, credit and objective of self-play."""
    kl: float = Field(0.0, ge=0.0, le=1e6)
    """Pull to the champion. Without it the response may go anywhere."""
    held_out: int = Field(200, ge=1, le=10**9)
    """Most held-out tasks to measure on, in both orders of the first two answers."""
    samples: int = Field(1, ge=1, le=10**6)
    """Games of each."""


class Evaluation(_Config):
    """Held-out measurement."""

    judge: JudgeRecipe | None = None
    """The judge that measures: another instrument than the one that rewards. If it is trained it has its own seed, so
    that the same text makes a twin that no policy was trained against."""
    same_judge: bool = False
    """Let the judge that rewards measure as well, which cannot show that policies learned to please that one judge."""
    tasks: int = Field(600, ge=1, le=10**9)
    """Most held-out tasks."""
    arms: dict[str, Arm] = Field(default_factory=dict)
    """Rows of the accuracy table."""
    tournament: int = Field(300, ge=0, le=10**9)
    """Tasks for each pairing of generations, both seat orders; 0: no tournament."""
    exploiter: SpecLike | None = None
    """Agent that plays against each generation; its score minus one half is the exploitability."""
    exploiter_tasks: int = Field(200, ge=1, le=10**9)
    """Tasks for each exploiter pairing, both seat orders."""
    best_response: BestResponseRecipe | None = None
    """Train a response to the champion, and tell what it wins; absent: none is trained."""
    transcripts: int = Field(4, ge=0, le=10**9)
    """Transcripts shown in the report."""


class Recipe(_Config):
    """A training run."""

    recipe: str
    """Its name."""
    summary: str = ""
    """One line for people."""
    tasks: SpecLike
    """Where questions come from."""
    protocol: str
    """The protocol that is trained on: a library name or a path beside this file."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
    judge: JudgeRecipe | None = None
    """Who rewards; `evaluation.judge` measures. Absent where nobody judges in the protocols."""
    distractors: Distractors | None = None
    """How wrong answers are chosen; absent: as the tasks have them."""
    policies: dict[str, PolicyRecipe] = Field(min_length=1)
    """Weights that are trained, by name."""
    roles: dict[str, SpecLike] = Field(min_length=1)
    """Who fills each speaking role, also of the arms' protocols: a policy by name, or an agent that is not trained. The
    name of a role with ``count`` means all of its seats; one of them, such as ``debater-2``, may have its own."""
    warm_start: WarmStart | None = None
    """Supervised start; absent: from the base weights."""
    self_play: SelfPlayRecipe
    """The training itself."""
    evaluation: Evaluation = Evaluation()
    """What is measured at the end."""
    threads: int = Field(1, ge=1, le=1024)
    """CPU threads of torch. Another number gives other (equally good) weights."""
    seeds: list[Annotated[int, Field(ge=0, lt=2**63)]] = Field(default_factory=lambda: [0], min_length=1)
    """Seeds that `arena train` runs it with, unless told others."""
    variants: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """The same recipe with other values, trained beside it for comparison: name -> {dotted.key: value}."""
    metrics: dict[str, str] = Field(default_factory=dict)
    """The numbers that it is about: name -> ``[VARIANT:] SOURCE.MEASURE.STATISTIC``, see `arena.training.study`."""

    @model_validator(mode="after")
    def _some_role_is_trained(self) -> Recipe:
        if not any(isinstance(filler, str) and filler in self.policies for filler in self.roles.values()):
            raise ValueError(f"no role plays a trained policy: give one of roles the name {min(self.policies)!r}")
        return self

    @model_validator(mode="after")
    def _one_of_each(self) -> Recipe:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: one of them stands there twice")
        if "main" in self.variants:
            raise ValueError("variants: 'main' is the recipe as it stands: name the variant otherwise")
        return self

    def params_of(self, part: Arm | DemonstrationSource) -> dict[str, Any]:
        """Parameters of an arm's or demonstration's protocol: its own, over the recipe's where they play the same."""
        return {**(self.params if part.protocol == self.protocol else {}), **part.params}

    def policy_of(self, role: str) -> str | None:
        """Name of the trained policy in a role; None where the role is filled by an agent.

        Raises:
            ConfigError: nobody fills the role.
        """
        filler = self.filler_of(role)
        return filler if isinstance(filler, str) and filler in self.policies else None

    def filler_of(self, role: str) -> SpecLike:
        """Who fills a role: a policy's name, or an agent.

        Raises:
            ConfigError: nobody does.
        """
        key = self.key_of(role)
        if key is None:
            raise ConfigError(f"recipe '{self.recipe}' does not say who plays '{role}'.{suggest(role, self.roles)}")
        return self.roles[key]

    def key_of(self, role: str) -> str | None:
        """The entry of ``roles`` that fills a role: its own, or that of its group (``debater`` for ``debater-2``)."""
        group, _, number = role.rpartition("-")
        return role if role in self.roles else group if number.isdecimal() and group in self.roles else None


def recipes() -> dict[str, str]:
    """Shipped recipes: name -> summary."""
    found = {}
    for path in sorted(LIBRARY.glob("*.yaml")):
        data = read_document(path).data
        found[path.stem] = str(data.get("summary", "")) if isinstance(data, dict) else ""
    return found


def load_recipe(name_or_path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Recipe:
    """Read a recipe: a shipped name or a file. ``overrides`` are dotted ``key=value``, such as ``self_play.steps=20``.

    Values of overrides are read by `arena.protocols.documents.read_value`, lists and mappings in brackets too.

    Raises:
        SourceError: the file has faults, or what it names does not exist or fit together; all of them are told.
        ConfigError: an override is not of that form.
    """
    from arena.training.recipe_checks import check_recipe

    document = open_recipe(name_or_path, overrides)
    if isinstance(document.data, dict) and "trains" in document.data:
        what = (
            "this recipe trains a judge and not policies: give it to `arena train`, or load it with load_judge_recipe"
        )
        raise SourceError([document.fault(("trains",), what, key=True)])
    recipe = validate_model(document, Recipe)
    check_recipe(recipe, document)
    return recipe


def open_recipe(name_or_path: str | Path, overrides: Sequence[str] | Mapping[str, Any] = ()) -> Document:
    """The document of a recipe of any kind, with files that it names counted from its folder and overrides in place.

    Raises:
        SourceError: the file is no YAML mapping.
        ConfigError: there is no such recipe, or an override is not of its form.
    """
    path = Path(name_or_path)
    if path.suffix not in (".yaml", ".yml"):
        shipped = LIBRARY / f"{name_or_path}.yaml"
        if not shipped.is_file():
            known = [file.stem for file in LIBRARY.glob("*.yaml")]
            raise ConfigError(
                f"'{name_or_path}' is neither a shipped recipe nor a YAML file.{suggest(str(name_or_path), known)}"
            )
        path = shipped
    document = read_document(path)
    _resolve(document.data, path.parent)
    pairs = overrides.items() if isinstance(overrides, Mapping) else [_pair(text) for text in overrides]
    for key, value in pairs:
        document.change(tuple(key.split(".")), value)
    return document


def _resolve(data: Any, folder: Path) -> None:
    """Let files that a recipe names (protocols, JSONL tasks) count from its own folder."""
    if isinstance(data, dict):
        for key, value in data.items():
            named = isinstance(value, str) and value.endswith(_FILES.get(key, ()))
            if named and key in _FILES and not Path(value).is_absolute():
                data[key] = str(folder / value)
            else:
                _resolve(value, folder)
    elif isinstance(data, list):
        for item in data:
            _resolve(item, folder)


def _pair(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"'{text}' is not key=value: write for example self_play.steps=20")
    return key, read_value(value, nested=True)
