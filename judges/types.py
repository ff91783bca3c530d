"""Who scores: the contract between the engine, the trainer and the judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from arena.protocols.records import Quote, Verdict

__all__ = ["AnyJudge", "AsyncJudge", "Judge", "JudgeView", "Statement"]


@dataclass(frozen=True, slots=True)
class Statement:
    """A turn as the judge may read it."""

    role: str
    answer: int | None
    """Index (task order) of the answer that the speaker argues."""
    text: str
    """Rendered by the engine, quotes marked; empty when the judge hears quotes only."""
    quotes: tuple[Quote, ...] = ()
    said: str = field(default="", compare=False)
    """The words themselves, for programs that run or parse them: hostile, never to be shown. Empty when the judge hears
    quotes only."""
    family: str = field(default="", compare=False)
    """Family of the model that wrote it, where an audit of self-preference knows it; no prompt shows it."""


@dataclass(slots=True)
class JudgeView:
    """All that a judge may know of an episode. The engine fills it from what the protocol lets the judge's role see."""

    key: str
    """Episode key, for error messages and random streams."""
    question: str
    answers: tuple[str, ...]
    """In task order; a judge that reads them in another order maps its verdict back."""
    statements: Sequence[Statement] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)
    """The other task fields that the judge's role may see."""
    label: int | None = None
    """The right answer, only for a judge with ``sees_label``; None otherwise."""
    answers_argued: tuple[int, ...] = ()
    """The answers (task order) in the order of the seats that argue them."""

    @property
    def compared(self) -> int:
        """How many answers there are to compare; 0 where what was said last is judged by itself."""
        return len(self.answers_argued) or len(self.answers)

    def quotes(self) -> list[str]:
        """Texts of all good quotes, in order."""
        return [quote.text for said in self.statements for quote in said.quotes if quote.good]


class Judge(Protocol):
    """Turns views into verdicts. A verdict must not depend on which other views are in the batch."""

    name: str
    """Name and fingerprint of the instrument; changes whenever prompt, parser or weights change."""
    sees_label: bool
    """True only for verifiers: the engine then fills `JudgeView.label`."""

    def judge(self, views: Sequence[JudgeView]) -> Sequence[Verdict]:
        """One verdict a view, in order. What cannot be decided gets a status and a reason, never a guess."""
        ...


class AsyncJudge(Protocol):
    """Judges from afar (a server, a person): many views wait at once, each for itself.

    A judge is asynchronous if it has ``verdict``; that is then called and not ``judge``.
    """

    name: str
    """See `Judge.name`."""
    sees_label: bool
    """See `Judge.sees_label`."""

    async def verdict(self, view: JudgeView) -> Verdict:
        """See `Judge.judge`, for one view. It runs in an event loop of the caller's own."""
        ...


AnyJudge: TypeAlias = Judge | AsyncJudge
"""A judge of either kind."""
