"""How self-play goes, as values: the league of opponents, the reference policy, credit, and the gate to promotion.

Frozen, checked once, and free of torch, so that recipes can be read without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from arena.training.learner_config import LearnerConfig
from arena.training.objective_config import ObjectiveName, with_objective

__all__ = [
    "MIXES",
    "AlarmConfig",
    "CreditConfig",
    "CreditRule",
    "GateConfig",
    "LeagueConfig",
    "ProbeRecipe",
    "ReferenceConfig",
    "SelfPlayRecipe",
    "inert_self_play",
]

Share: TypeAlias = Annotated[float, Field(ge=0, le=1e6)]

Mix: TypeAlias = Literal["mirror", "latest", "history", "pfsp", "anchors"]
MIXES: tuple[Mix, ...] = ("mirror", "latest", "history", "pfsp", "anchors")
"""Ways to find an opponent."""

Key: TypeAlias = Literal["task", "role", "node", "visit", "attempt", "answer", "prompt"]


def _mirror() -> dict[Mix, float]:
    return {"mirror": 1.0}


def _move() -> list[Key]:
    return ["task", "role", "node", "visit", "attempt"]


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LeagueConfig(_Config):
    """Who the policies in training play against, and which of their former selves are kept for it."""

    mix: dict[Mix, Share] = Field(default_factory=_mirror)
    """Shares of the games. ``mirror``: all roles by the policies in training. Else one side is theirs and the others
    are frozen: ``latest`` member of the league, ``history`` (any, equally likely), ``pfsp`` (those that they lose to
    more often; AlphaStar's prioritized fictitious self-play, Vinyals et al. 2019), or ``anchors``."""
    snapshot_every: int | None = Field(None, ge=1, le=10**9)
    """Steps from one new member to the next; absent: one at the end of each generation. Generation 0 is the first."""
    size: int = Field(64, ge=1, le=10**6)
    """Most members; beyond it the oldest one goes, but never generation 0."""
    anchors: list[str | dict[str, Any]] = Field(default_factory=list)
    """Agents that are never trained, for ``anchors``."""
    pfsp_power: float = Field(1.0, gt=0, le=100)
    """A member is drawn in proportion to (1 - own win rate against it) ** pfsp_power."""
    sides: list[list[str]] = Field(default_factory=list)
    """Roles that play together, such as [[planner, executor], [opponent]]; absent: each trained role is a side."""
    alternate: bool = False
    """Train one side a generation while the others stay as they were at its beginning (iterated best response)."""

    @model_validator(mode="after")
    def _fits(self) -> LeagueConfig:
        if not sum(self.mix.values()) > 0:
            raise ValueError("mix gives no share to anybody: write for example {mirror: 0.8, history: 0.2}")
        if bool(self.anchors) != (self.mix.get("anchors", 0) > 0):
            raise ValueError("anchors are agents and a share of mix: give both or neither")
        if self.alternate and self.mix.get("mirror"):
            raise ValueError("alternate trains one side against frozen others: give mirror no share of mix")
        repeated = [role for side in self.sides for role in side]
        if len(set(repeated)) < len(repeated):
            raise ValueError("a role stands in two sides")
        return self


class ReferenceConfig(_Config):
    """The policy that the KL is measured to."""

    at: Literal["start", "generation", "steps", "base"] = "start"
    """``start``: as self-play began. ``generation``: as the generation began. ``steps``: as it was at the last multiple
    of ``every`` (the moving magnet of magnetic mirror descent, Sokota et al. 2023). ``base``: the adapter off."""
    every: int | None = Field(None, ge=1, le=10**9)
    """For ``steps``: optimizer steps from one reference to the next."""

    @model_validator(mode="after")
    def _fits(self) -> ReferenceConfig:
        if (self.at == "steps") != (self.every is not None):
            raise ValueError("every belongs to at: steps, which needs it: give both or neither")
        return self


class CreditRule(_Config):
    """From the rewards of turns to their advantages."""

    key: list[Key] = Field(default_factory=_move)
    """Turns that agree in all of these are compared with each other: the ``task`` (one group of rollouts), ``role``,
    ``node``, ``visit`` and ``attempt`` of the move, the ``answer`` argued, the ``prompt`` (every token before it)."""
    estimator: Literal["group", "leave_one_out", "grpo", "rae", "none", "gae"] = "group"
    """What is subtracted: the mean of those with the same key; of the others among them (RLOO); the mean, divided by
    their deviation (GRPO); a running mean (role-conditioned advantage estimation of SPIRAL); nothing (REINFORCE); what
    a learned critic expects, token by token (GAE, see `arena.training.streams`), whatever the key."""
    decay: float = Field(0.95, ge=0, lt=1)
    """For ``rae``: how much of the running mean is kept at each step."""
    returns: Literal["own", "to_go"] = "own"
    """A turn is worth its own reward, or that and those of its role's later turns in the episode. For ``gae``, whose
    streams go on through all turns of a role unless told ``own``, the default is ``to_go``, and a value that is paid at
    the end counts once."""
    discount: float = Field(1.0, ge=0, le=1)
    """For ``to_go``: what a reward counts one own turn earlier. For ``gae``: one own token earlier."""
    lam: float = Field(0.95, ge=0, le=1)
    """For ``gae``: 1 compares with what really came later, 0 with what the critic expects at the next own token."""
    scale: Literal["batch", "none"] = "batch"
    """Divide by the standard deviation of all advantages of the step under this rule, or by nothing."""
    weight: float = Field(1.0, ge=0, le=1e6)
    """Multiplies the advantages at the end."""

    @model_validator(mode="before")
    @classmethod
    def _by_estimator(cls, data: Any) -> Any:
        """A critic looks ahead over a whole stream."""
        learned = isinstance(data, Mapping) and data.get("estimator") == "gae"
        return {"returns": "to_go", **data} if learned else data

    @model_validator(mode="after")
    def _fits(self) -> CreditRule:
        if not self.key or len(set(self.key)) < len(self.key):
            raise ValueError("key names what turns are compared by, each once, such as [task, role, node]")
        if self.estimator == "rae" and {"task", "prompt"} & set(self.key):
            raise ValueError("rae keeps a mean from step to step, and no task or prompt lasts: write key: [role, node]")
        return self


class CreditConfig(CreditRule):
    """Credit of all trained roles, and where some have another."""

    roles: dict[str, CreditRule] = Field(default_factory=dict)
    """Rules of single roles (or counted ones); they replace the one above as a whole."""

    def rule_of(self, role: str, group: str) -> CreditRule:
        """The rule of a role, which is counted as one of a group."""
        return self.roles.get(role) or self.roles.get(group) or self


class GateConfig(_Config):
    """Whether a generation is better than the champion, by a sequential test of paired games (Wald 1945)."""

    tasks: int = Field(200, ge=10, le=10**9)
    """Training tasks that are kept from training; the test plays both seats of each, in an order of its own."""
    elo0: float = Field(0.0, ge=-2000, le=2000)
    """Null hypothesis: the new generation is this much stronger, in Elo points."""
    elo1: float = Field(20.0, ge=-2000, le=2000)
    """Alternative hypothesis."""
    alpha: float = Field(0.05, gt=0, lt=0.5)
    """Chance to promote where elo0 is true."""
    beta: float = Field(0.05, gt=0, lt=0.5)
    """Chance not to promote where elo1 is true."""
    batch: int = Field(25, ge=1, le=10**6)
    """Pairs of games between two looks at the test."""
    fail: Literal["keep", "revert"] = "keep"
    """A generation that is not promoted trains on all the same, or training goes back to the champion."""

    @model_validator(mode="after")
    def _fits(self) -> GateConfig:
        if not self.elo0 < self.elo1:
            raise ValueError(f"elo0 {self.elo0:g} must lie below elo1 {self.elo1:g}")
        return self


class ProbeRecipe(BaseModel):
    """Something that is measured while policies train: see `arena.training.probes`. Other keys are the probe's own."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    kind: str
    """A probe; see ``arena ls probes``."""
    every: int | None = Field(None, ge=1, le=10**9)
    """Steps between two looks; absent: at the start and at the end only, where it always looks."""

    @property
    def spec(self) -> dict[str, Any]:
        """What builds it."""
        return {"kind": self.kind, **(self.model_extra or {})}


class AlarmConfig(_Config):
    """Signs of a training that goes wrong while its rewards look fine; see `arena.training.alarms`."""

    window: int = Field(20, ge=2, le=10**6)
    """Steps that are averaged; the first as many are what later ones are compared with."""
    significance: float = Field(4.0, gt=0, le=100)
    """Standard errors by which an average must have moved."""
    reward: float = Field(0.05, ge=0, le=1e6)
    """Judge hacking: what the judge pays or believes has risen by more than this while the truth has fallen ..."""
    truth: float = Field(0.05, ge=0, le=1)
    """... by more than this."""
    length: float = Field(2.0, gt=1, le=1e6)
    """Turns have become this many times as long, or as short."""
    entropy: float = Field(0.1, ge=0, lt=1)
    """Entropy has fallen below this share of what it was."""
    kl: float | None = Field(None, gt=0, le=1e6)
    """KL budget in nats a turn to the reference; absent: none."""
    anchors: float = Field(0.1, gt=0, le=1)
    """The win rate against an anchor of the league has fallen by more than this below its best."""
    stop: list[Literal["hacking", "length", "entropy", "kl", "anchors"]] = Field(default_factory=list)
    """Alarms that end the training with an error, checkpoint kept; the others are told and written down."""


class SelfPlayRecipe(_Config):
    """KL-constrained policy gradients on self-played episodes."""

    objective: ObjectiveName = "ppo"
    """One name for the loss, its clips and averages (``learner.objective``) and the advantages that belong to it
    (``credit``); what is written under these keys comes first. See ``arena ls objectives``."""
    generations: int = Field(5, ge=1, le=10_000)
    """How many snapshots are made after generation 0."""
    steps: int = Field(60, ge=1, le=10**9)
    """Optimizer steps per generation."""
    tasks: int = Field(32, ge=1, le=10**9)
    """Tasks a step."""
    group: int = Field(8, ge=1, le=10**6)
    """Episodes a task; they share seats and answers. Where credit compares inside of a task, one is none."""
    league: LeagueConfig = LeagueConfig()
    """Opponents."""
    reference: ReferenceConfig = ReferenceConfig()
    """What the KL is measured to."""
    credit: CreditConfig = CreditConfig()
    """From rewards to advantages."""
    gate: GateConfig | None = None
    """A test that each generation has to pass to become the champion, whom ``last`` then means; absent: all pass."""
    probes: dict[str, ProbeRecipe] = Field(default_factory=dict)
    """What is measured on the way, by name."""
    alarms: AlarmConfig = AlarmConfig()
    """What to warn of."""
    kl_every: int = Field(10, ge=1, le=10**9)
    """Steps between two measurements of how far the policies are from their start and from the last generation."""
    checkpoint_every: int | None = Field(None, ge=1, le=10**9)
    """Steps between checkpoints beside that at the end of each generation."""
    shuffle_advantages: bool = False
    """Control: permute the advantages inside each batch, so that nothing can be learned but noise. A critic still
    learns what really came, and moves the policy's hidden states unless ``learner.value.detach``."""
    learner: LearnerConfig
    """Objective, KL control, optimizer and schedule."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, data: Any) -> Any:
        return with_objective(data)

    @model_validator(mode="after")
    def _fits(self) -> SelfPlayRecipe:
        if self.learner.objective.mixed_only and any(rule.estimator == "gae" for rule in _rules(self.credit)):
            raise ValueError(
                "mixed_only leaves turns out, and a critic needs all that a stream is paid: write learner.objective."
                "mixed_only: false (objective dapo sets it), or choose another estimator than gae"
            )
        if self.group == 1 and self.compares_in_groups():
            raise ValueError(
                "one episode a task has nothing to be compared with inside of it: group: 2 or more, or a credit key "
                "without 'task'"
            )
        return self

    def compares_in_groups(self) -> bool:
        """Whether some turns are compared with those of their own task alone."""
        if self.learner.objective.mixed_only:
            return True
        return any("task" in rule.key and rule.estimator not in ("none", "gae") for rule in _rules(self.credit))


def inert_self_play(config: SelfPlayRecipe, *, responds: bool = False) -> list[tuple[tuple[str, ...], str]]:
    """Keys that were given and change nothing, each as (its path inside the configuration, why and the way out).

    ``responds``: a best response will be trained, which plays one side.
    """
    found: list[tuple[tuple[str, ...], str]] = []
    league = config.league
    if "pfsp_power" in league.model_fields_set and not league.mix.get("pfsp"):
        found.append((("league", "pfsp_power"), "it has no effect: give pfsp a share of mix, or remove it"))
    former = any(league.mix.get(kind) for kind in ("latest", "history", "pfsp"))
    if "size" in league.model_fields_set and not former and league.snapshot_every is None:
        found.append((("league", "size"), "it has no effect: nobody meets former selves, so none are kept"))
    alone = not any(share for kind, share in league.mix.items() if kind != "mirror")
    if "sides" in league.model_fields_set and alone and not responds:
        found.append((("league", "sides"), "it has no effect: in mirror games nobody sits on another side"))
    if "anchors" in config.alarms.model_fields_set and alone:
        found.append((("alarms", "anchors"), "it has no effect: nobody plays against anchors or generation 0"))
    if config.reference.at == "generation" and config.generations == 1:
        found.append((("reference", "at"), "it has no effect: with one generation that is start"))
    if config.reference.at != "start" and config.learner.kl.beta == 0:
        what = "it has no effect: the reference pulls with learner.kl.beta, which is 0"
        found.append((("reference", "at"), what))
    if "value" in config.learner.model_fields_set and not any(
        rule.estimator == "gae" for rule in _rules(config.credit)
    ):
        found.append((("learner", "value"), "it has no effect: no credit asks a critic (estimator: gae)"))
    rules = [((), config.credit), *((("roles", name), rule) for name, rule in config.credit.roles.items())]
    for path, rule in rules:
        given = rule.model_fields_set
        if "decay" in given and rule.estimator != "rae":
            found.append((("credit", *path, "decay"), "it has no effect: it belongs to estimator: rae"))
        learned = rule.estimator == "gae"
        if "discount" in given and rule.returns != "to_go" and not learned:
            found.append((("credit", *path, "discount"), "it has no effect: it belongs to returns: to_go"))
        if "lam" in given and not learned:
            found.append((("credit", *path, "lam"), "it has no effect: it belongs to estimator: gae"))
        if "key" in given and learned:
            what = "it has no effect: estimator gae compares with the critic, and with no other turns"
            found.append((("credit", *path, "key"), what))
        if "scale" in given and rule.estimator == "grpo":
            what = "it has no effect: estimator grpo divides by the deviation of the key"
            found.append((("credit", *path, "scale"), what))
    return found


def _rules(credit: CreditConfig) -> list[CreditRule]:
    return [credit, *credit.roles.values()]
