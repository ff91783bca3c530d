"""The tournament file: a frozen value, of which `arena.tournament.checks` says whether it can work.

tournament: cup
protocol: debate                     # or protocols: {NAME: {protocol: ..., params: ...}}
tasks: questions.jsonl
n: 40
agents: {careful: SPEC, bold: SPEC, generations: runs/digits}
judge: "llm:model=smollm2"
schedule: {kind: swiss, rounds: 5}   # round_robin, gauntlet, cross_table, ladder, adaptive
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from arena.arms import Arm
from arena.undecided import MOST_UNDECIDED

__all__ = ["GENERATIONS", "Limits", "PlayedProtocol", "SprtConfig", "TournamentArm", "TournamentConfig"]

GENERATIONS = "generations"
"""Key of ``agents`` that stands for what trainings made."""

SpecLike = str | dict[str, Any]
"""``name``, ``name:key=value`` or ``{kind: name, key: value}``."""


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class PlayedProtocol(_Config):
    """One of several protocols."""

    protocol: str
    """Protocol with two arguing seats: a library name, or a path beside the file."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""


class SprtConfig(_Config):
    """Sequential test whether the second agent of a pairing is better than the first (Wald 1945), which stops the
    pairing as soon as it is decided. The second one is the later of the file, in a gauntlet the newcomer."""

    elo0: float = 0.0
    """H0: it is better by no more than so many Elo points."""
    elo1: float = 50.0
    """H1: it is better by at least so many Elo points; more than ``elo0``."""
    alpha: float = Field(0.05, gt=0, lt=0.5)
    """Largest probability to take H1 though H0 holds."""
    beta: float = Field(0.05, gt=0, lt=0.5)
    """Largest probability to take H0 though H1 holds."""
    block: int = Field(8, ge=1)
    """Tasks that a pairing plays between two looks. A look is taken after a complete block alone, so that it depends on
    nothing but results."""


class Limits(_Config):
    """Where a tournament stops though its schedule goes on; it can be resumed with more."""

    games: int | None = Field(None, ge=2)
    """No pairing begins that would make more games than these, arms not counted."""
    tokens: int | None = Field(None, ge=1)
    """Sampled tokens, hidden thinking included, arms not counted; games in flight are dropped when they are spent."""
    cost: float | None = Field(None, gt=0)
    """US dollars for models that are paid for, by their price tables, arms and judges counted; games in flight are
    dropped when it is spent. What a killed process had in flight is not known afterwards."""


class TournamentArm(Arm):
    """A way to help the judge, measured on the same tasks where these have labels: a row of the table of accuracies."""

    lineup: SpecLike | None = None
    """Who fills all speaking roles: an agent of this file by its name, ``agents`` for each of them in turn (a row
    each), or an agent spec."""
    equal_tokens: str | None = None
    """Name of an arm above. The protocol's parameter ``tokens`` becomes the mean of what that arm sampled on a
    question, so that both spend the same."""


class TournamentConfig(_Config):
    """A tournament file."""

    tournament: str
    """Its name."""
    protocol: str | None = None
    """Protocol with two arguing seats: a library name, or a path beside the file."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the protocol."""
    protocols: dict[str, PlayedProtocol] = Field(default_factory=dict)
    """Several protocols in place of one: every pairing is played in each of them, and ratings are of all together."""
    tasks: SpecLike
    """Task spec, or a path to a JSONL file beside the tournament file."""
    n: int = Field(20, ge=1)
    """Most tasks for each pairing; each is played twice, with the agents exchanging seats. The schedule ``adaptive``
    plays a share of a round robin on so many, in which close pairs may have up to five times as many."""
    agents: dict[str, SpecLike]
    """Name -> agent spec. Ratings are by name, so two names may stand for the same model. The key ``generations`` holds
    the run directory of a training, beside the file, whose generations take part as ``gen0``, ``gen1``, ...; or
    PREFIX -> directory, for ``PREFIX-gen0``, ..."""
    judge: SpecLike
    """Judge spec: the one that decides the games."""
    judges: dict[str, SpecLike] = Field(default_factory=dict)
    """Further judges by name, who judge the same transcripts afterwards; ratings are given by each of them."""
    schedule: SpecLike = "round_robin"
    """Who meets whom: a schedule's name, or ``{kind: NAME, ...arguments}``."""
    sprt: SprtConfig | None = None
    """Stop a pairing early; for schedules whose pairings do not depend on results."""
    arms: dict[str, TournamentArm] = Field(default_factory=dict)
    """What the deciding judge makes of the tasks under other protocols, by name. ``blind`` and ``oracle`` are the ends
    between which the performance gap recovered is measured."""
    intervals: Literal["bootstrap", "profile"] = "bootstrap"
    """How 95 % intervals of ratings are found, both clustered by task: by resampling whole tasks, or from the profile
    likelihood (`arena.ratings.intervals`)."""
    bootstrap: int = Field(1000, ge=2, le=1_000_000)
    """Replicates of the bootstrap; with profile intervals, draws for the intervals of ranks."""
    ties: Literal["davidson", "half"] = "davidson"
    """What a tie is: an outcome of its own (Davidson 1970), or half a win for each."""
    covariates: list[str] = Field(default_factory=list)
    """What else may decide a game, besides strength, and is taken out of the ratings: ``length``, ``order``,
    ``quotes``, ``truth``."""
    correction: Literal["holm", "bh"] = "holm"
    """How p-values of all pairs are corrected: for any false difference (Holm 1979), or for their share among those
    found (Benjamini and Hochberg 1995)."""
    online: list[Literal["elo", "openskill"]] = ["elo"]
    """Ratings that are also followed game by game, in the order of the schedule."""
    seed: int = 0
    """Root of all random streams."""
    anchor: str | None = None
    """Agent whose rating is 0; absent: the mean is 0."""
    max_undecidable: float = Field(MOST_UNDECIDED, ge=0, le=1)
    """The tournament stops when a larger share of its verdicts cannot be used; 1 allows everything."""
    budget: Limits = Limits()
    """Where it stops though the schedule goes on."""

    def played(self) -> dict[str, PlayedProtocol]:
        """The protocols by name; the only one has the name ``""``."""
        if self.protocol is not None:
            return {"": PlayedProtocol(protocol=self.protocol, params=self.params)}
        return self.protocols
