"""The value types that everybody shares: what is asked, what was said, what was decided.

They are plain slotted dataclasses because the engine makes hundreds of thousands of them a minute. Nothing here knows
how a text was produced or what a verdict is used for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "Episode",
    "Quote",
    "Sampling",
    "Task",
    "TokenSpan",
    "Turn",
    "TurnStatus",
    "Verdict",
    "VerdictStatus",
]


class TurnStatus(StrEnum):
    """How a turn ended. A bad turn is data: it is recorded, never replaced."""

    OK = "ok"
    TRUNCATED = "truncated"
    """The model was cut off by the token limit before it ended its turn."""
    OVER_LIMIT = "over_limit"
    """The text exceeded the protocol's word limit and was cut."""
    REFUSED = "refused"
    PARSE_ERROR = "parse_error"
    TOOL_ERROR = "tool_error"
    TRANSPORT = "transport"
    """The model or its server failed; the text is empty."""
    CANCELLED = "cancelled"


class VerdictStatus(StrEnum):
    """How a judgement ended. Only ``scored`` and ``tie`` carry a distribution that may be used."""

    SCORED = "scored"
    TIE = "tie"
    ABSTAIN = "abstain"
    PARSE_ERROR = "parse_error"
    TRUNCATED = "truncated"
    TRANSPORT = "transport"
    CONTRADICTORY = "contradictory"


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One question. ``fields`` is all that a protocol may show; ``label`` is shown to no role."""

    id: str
    fields: Mapping[str, Any]
    """Named inputs: ``question``, ``answers`` and whatever else the data has (``passage``, ``evidence``, ...)."""
    label: int | None = None
    """Index into ``answers`` of the right one; None where nobody knows."""
    group: str = ""
    """Unit for clustered statistics (two tasks about the same image share it); the id when empty."""

    @property
    def question(self) -> str:
        """The question, or an empty text."""
        return str(self.fields.get("question", ""))

    @property
    def answers(self) -> tuple[str, ...]:
        """The answers in the order of the task; verdicts and labels count in this order."""
        return tuple(self.fields.get("answers", ()))

    @property
    def cluster(self) -> str:
        """Key for clustered statistics."""
        return self.group or self.id


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn."""

    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    top_k: int = 0
    """0 keeps all tokens."""


@dataclass(slots=True)
class TokenSpan:
    """The token ledger of one turn.

    The sequence that a role saw and wrote in an episode is the concatenation, turn by turn, of ``prompt`` and ``ids``;
    it is never rebuilt from text. ``fresh`` marks a turn whose sequence starts anew.
    """

    prompt: tuple[int, ...]
    """Ids added to the role's context since its previous turn (not trained)."""
    ids: tuple[int, ...]
    """Ids sampled in this turn."""
    logps: tuple[float, ...] | None
    """Log-probability in nats of each id under the distribution it was drawn from; None if nothing was sampled."""
    policy: str
    """Name and version that sampled: ``debater@v17``."""
    sampling: Sampling
    fresh: bool = False
    """The context does not extend the previous turn's; a new training sequence begins with ``prompt``."""
    side: bool = False
    """A side branch (a candidate that was not picked, an ephemeral turn): ``prompt`` is the whole context, and later
    spans of the role go on from what was before it."""
    thinking: int = 0
    """How many of ``ids``, from the first, are hidden thinking."""
    allowed: tuple[tuple[int, ...], ...] | None = None
    """Which ids each of ``ids`` was drawn from, where the turn had to be one of some texts; None: from all."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A passage that a speaker claims to quote from a task field."""

    text: str
    verified: bool
    """The field really holds it."""
    repeated: bool = False
    """It was quoted before in this episode, where the protocol asks for new quotes."""

    @property
    def good(self) -> bool:
        """Verified and new."""
        return self.verified and not self.repeated


@dataclass(slots=True)
class Turn:
    """One move of one role."""

    index: int
    """Place in the transcript; inside a superstep, the order of the nodes in the protocol."""
    superstep: int
    node: str
    role: str
    visit: int
    """How often this node had run before in the episode."""
    agent: str
    answer: int | None
    """Index (task order) of the answer that the role argues, if any."""
    text: str
    status: TurnStatus = TurnStatus.OK
    quotes: tuple[Quote, ...] = ()
    audience: tuple[str, ...] | None = None
    """Roles that may read it; None: everybody."""
    tokens: TokenSpan | None = None
    error: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What was read from the turn (``output:``), drawn for it (``draw:``) or found by a program: plain JSON values."""
    about: tuple[int, ...] = ()
    """Indices of the turns that it criticises, revises, runs, checks, counts or picks from."""
    replaces: int | None = None
    """Index of the draft that this revision stands for: who has not read the draft yet reads only the revision."""
    attempt: int = 0
    """How often the move had been tried before, because what was said could not be read."""
    sample: int = 0
    """Which of the candidates of a best-of-n move it is, from 0."""
    kept: bool = True
    """False: a candidate that was not picked, or an attempt that was made again. No other role reads it."""
    thinking: str = ""
    """Hidden thinking, which nobody reads."""
    visible_tokens: int | None = None
    """Tokens of the visible text as the agent counted them; None where it did not."""
    thinking_tokens: int = 0


@dataclass(slots=True)
class Verdict:
    """What a judge decided: a distribution over the answers, in task order, with its evidence."""

    status: VerdictStatus
    judge: str
    """Name and fingerprint of the instrument."""
    logps: tuple[float, ...] = ()
    """Log-probability in nats of each answer, normalised over the answers; empty unless scored or tied."""
    stated: int | None = None
    """The answer that the judge stated in words, kept apart from the distribution."""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    """What the numbers come from: log-probs per presentation order, raw text, reason of failure."""
    scores: tuple[float, ...] = ()
    """What each answer is worth by itself, before they are compared (reward models, rubrics, verifiers); where there
    are no answers, one number: what the last statement is worth. Empty if the judge compares only."""

    @property
    def decidable(self) -> bool:
        """Whether the distribution may be used."""
        return self.status in (VerdictStatus.SCORED, VerdictStatus.TIE)

    @property
    def choice(self) -> int | None:
        """Index of the winning answer; None for a tie or an undecidable verdict."""
        if self.status is not VerdictStatus.SCORED or not self.logps:
            return None
        return max(range(len(self.logps)), key=self.logps.__getitem__)

    def score(self, answer: int) -> float:
        """1 if the answer won, 0 if another did, 0.5 for a tie.

        Raises:
            ValueError: the verdict is not decidable, or there were no answers.
        """
        self._check_compares("score")
        choice = self.choice
        return 0.5 if choice is None else float(choice == answer)

    def margin(self, answer: int) -> float:
        """log p(answer) - log p(best other), in nats.

        Raises:
            ValueError: the verdict is not decidable, or there were no answers.
        """
        self._check_compares("margin")
        others = [logp for index, logp in enumerate(self.logps) if index != answer]
        return self.logps[answer] - max(others)

    def worth(self, answer: int | None) -> float | None:
        """What an answer is worth by itself, or the only thing that was scored; None where the judge does not say."""
        if len(self.scores) == 1 and not self.logps:
            return self.scores[0]
        return self.scores[answer] if answer is not None and self.scores else None

    def _check_compares(self, what: str) -> None:
        if not self.decidable:
            raise ValueError(f"a verdict with status {self.status} has no {what}")
        if not self.logps:
            raise ValueError(f"a verdict without answers has no {what}")


@dataclass(slots=True)
class Episode:
    """One finished run of a protocol on a task with a lineup and a seed: the transcript and what came of it."""

    key: str
    """Unique in its run; the random streams of the episode derive from (run seed, key)."""
    protocol: str
    task: str
    """Task id."""
    lineup: Mapping[str, str]
    """Role -> agent name."""
    sides: tuple[int, ...]
    """Which answer (task order) each arguing seat argues: seat k argues ``answers[sides[k]]``."""
    turns: list[Turn] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """Judge node -> verdict (the last, if the node ran more than once), in the order in which they were given."""
    stop: str = "end"
    """Why it stopped: ``end``, the ``stop:`` of the edge that ended it, ``error``, ``cancelled``, or ``turns budget``,
    ``tokens budget``, ``seconds budget``."""
    error: str | None = None

    inner_verdicts: dict[str, Verdict] = field(default_factory=dict)
    """Verdicts of nested protocols on answers of their own, which say nothing about the task's answers."""
    judged: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Judge node -> how many turns there were each time it ran, asked or passed over: what it judges is the
    transcript up to there."""
    rated: dict[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """Node whose candidates a judge rates (``best_of``, ``select``) -> its verdicts on them, in the order of the
    candidates that could be read, one visit after the other."""

    @property
    def verdict(self) -> Verdict | None:
        """The last verdict that was given: the one that counts in accuracies and ratings."""
        return next(reversed(self.verdicts.values()), None)

    def turns_of(self, role: str) -> Sequence[Turn]:
        """The turns of one role, in order."""
        return [turn for turn in self.turns if turn.role == role]
