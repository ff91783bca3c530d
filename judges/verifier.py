"""Checks as judges: what was said is compared with what the task knows.

    verifier:check='numeric:field=result'           a task field that the judge's role sees
    verifier:check='multiple_choice:field=label'    the right answer itself, which no role sees
    verifier:check='math:field=label',tag=answer    only what stands in the last <answer>...</answer>

Every check of ``arena ls checks`` will do. Its score, 0 to 1, is what an answer is worth. A false answer scores 0; what
could not be checked is undecided, with a reason.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from arena.agents.tools import CHECKS, Call, Check, run_check
from arena.judges.fingerprint import fingerprint
from arena.judges.reward_text import Of
from arena.judges.types import JudgeView, Statement
from arena.judges.verdicts import FLOOR, abstain, scored
from arena.protocols.errors import ConfigError, UserError
from arena.protocols.outputs import OutputRule, read_output
from arena.protocols.programs import Outcome
from arena.protocols.records import TurnStatus, Verdict, VerdictStatus
from arena.protocols.registry import parse_spec

__all__ = ["AsyncVerifierJudge", "VerifierJudge", "verifier"]

LABEL = "label"
"""What a check calls the text of the right answer; no task field has this name."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What came of one text."""

    score: float | None
    fields: Mapping[str, Any]
    status: VerdictStatus = VerdictStatus.SCORED
    reason: str = ""


class _Verifier:
    """What both kinds of verifiers share; see `verifier`."""

    def __init__(
        self, check: Check, config: Mapping[str, Any], of: Of, tag: str, unread: Literal["undecided", "wrong"]
    ) -> None:
        self.check = check
        self.of = of
        self.tag = tag
        self.unread = unread
        self._reads: tuple[str, ...] = tuple(getattr(check, "reads", ()))
        self.sees_label = LABEL in self._reads
        self.name = f"verifier@{fingerprint(config)}"

    def _decide(self, view: JudgeView) -> Verdict:
        texts, reason = _speeches(view, self.of)
        if reason:
            return abstain(self.name, reason)
        task = self._task(view)
        if isinstance(task, str):
            return abstain(self.name, task)
        found = [
            [self._examine(view, said, task, f"{place}.{number}") for number, said in enumerate(spoken)]
            for place, spoken in enumerate(texts)
        ]
        checks = [[dict(each.fields) for each in of_one] for of_one in found]
        scores = []
        for place, of_one in enumerate(found):
            for each in of_one:
                if each.score is None:
                    about = f"answer {place}: " if view.compared else ""
                    return abstain(self.name, f"{about}{each.reason}", each.status, evidence={"checks": checks})
            scores.append(sum(each.score for each in of_one if each.score is not None) / len(of_one))
        return scored(self.name, scores, {"checks": checks}, answers=view.compared, scale=-FLOOR)

    def _task(self, view: JudgeView) -> dict[str, Any] | str:
        """What the check may know of the task, or why it cannot be made."""
        task: dict[str, Any] = {**view.fields}
        task |= {"question": view.question} if view.question else {}
        task |= {"answers": view.answers} if view.answers else {}
        if self.sees_label:
            if view.label is None:
                return "the task has no label"
            if not 0 <= view.label < len(view.answers):
                return "the judge's role does not see the answers, of which one is right: add 'answers' to its 'sees'"
            task[LABEL] = view.answers[view.label]
        for name in self._reads:
            if name not in task:
                return f"the check reads '{name}', which the task does not have or the judge's role does not see"
        return task

    def _examine(self, view: JudgeView, spoken: str | Statement, task: Mapping[str, Any], place: str) -> _Found:
        said = spoken if isinstance(spoken, str) else spoken.said or spoken.text
        if isinstance(spoken, Statement) and spoken.quotes and not said:
            return _Found(None, {}, VerdictStatus.ABSTAIN, "the judge hears quotes alone, and checks read texts")
        if self.tag:
            inside = read_output(OutputRule("regex", pattern="(?s)(?P<said>.*)", tag=self.tag), said)[0]["said"]
            if inside is None:
                return self._unreadable({}, f"there is no <{self.tag}>...</{self.tag}> in what was said")
            said = inside
        seed = int.from_bytes(hashlib.blake2b(f"{view.key} {place}".encode(), digest_size=8).digest())
        outcome = run_check(self.check, Call(said, task=task, seed=seed, key=f"{view.key} {self.name}"))
        return self._found(outcome)

    def _found(self, outcome: Outcome) -> _Found:
        if outcome.unread:
            return self._unreadable(outcome.fields, outcome.unread)
        score = outcome.fields.get("score")
        if outcome.status is not TurnStatus.OK or not isinstance(score, int | float):
            return _Found(None, outcome.fields, VerdictStatus.ABSTAIN, outcome.error or "the check gave no score")
        return _Found(float(score), outcome.fields)

    def _unreadable(self, fields: Mapping[str, Any], reason: str) -> _Found:
        fields = {**fields, "unread": reason}
        if self.unread == "wrong":
            return _Found(0.0, fields)
        return _Found(None, fields, VerdictStatus.PARSE_ERROR, reason)


def _speeches(view: JudgeView, of: Of) -> tuple[list[Sequence[Statement | str]], str]:
    """What speaks for each answer, in task order, or alone the last statement; else why something cannot be checked."""
    count = view.compared
    if of == "answer":
        if not count or len(view.answers) < count:
            return [], "the judge's role does not see the answers, which are what is to be checked"
        return [[answer] for answer in view.answers], ""
    if not count:
        return ([view.statements[-1:]], "") if view.statements else ([], "nothing was said")
    spoken: list[Sequence[Statement | str]] = []
    for index in range(count):
        statements = [said for said in view.statements if said.answer == index]
        if not statements:
            return [], f"nobody argued for answer {index}"
        spoken.append(statements if of == "all" else statements[-1:])
    return spoken, ""


class VerifierJudge(_Verifier):
    """Checks at once."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order."""
        return [self._decide(view) for view in views]


class AsyncVerifierJudge(_Verifier):
    """Checks that wait for a process: in threads, while other episodes go on."""

    async def verdict(self, view: JudgeView) -> Verdict:
        """The verdict on one view."""
        return await asyncio.to_thread(self._decide, view)


def _check_spec(spec: Any) -> Any:
    try:
        CHECKS.check(spec)
    except UserError as error:
        raise PydanticCustomError("check", "a check ({fault})", {"fault": str(error)}) from error
    return spec


CheckSpec: TypeAlias = Annotated[str | dict[str, Any], AfterValidator(_check_spec)]
"""Argument that names a check."""


def verifier(
    *,
    check: CheckSpec,
    of: Of = "last",
    tag: Annotated[str, Field(pattern="^[A-Za-z]*$")] = "",
    unread: Literal["undecided", "wrong"] = "undecided",
) -> VerifierJudge | AsyncVerifierJudge:
    """A judge that scores by a check.

    An answer is worth the score of what those said who argue it; where nobody argues, the last statement is scored. The
    answer with the larger score wins with all the probability that a certain judge gives.

    Args:
        check: which, with its arguments; the field ``label`` is the text of the right answer.
        of: ``last``, the last statement that argues an answer; ``all``, the mean over all of them; ``answer``, the
            text of the answer itself.
        tag: only what stands in the last ``<TAG>...</TAG>`` is checked.
        unread: what becomes of a text that the check cannot read: the verdict is ``parse_error``, or it scores 0.

    Raises:
        ConfigError: the check reads a value of a turn's output, which no judge sees.
        MissingExtraError: something that the check needs is not installed.
    """
    spec = parse_spec(check)
    if spec.args.get("of"):
        raise ConfigError(
            f"check '{spec.kind}' of a verifier has 'of', but judges read texts: remove it, and give the judge a 'tag'"
        )
    built = CHECKS.build(spec)
    config = {
        "kind": "verifier",
        "check": {**spec.args, "kind": spec.kind},
        "version": getattr(built, "version", ""),
        "of": of,
        "tag": tag,
        "unread": unread,
    }
    make = AsyncVerifierJudge if built.slow else VerifierJudge
    return make(built, config, of, tag, unread)
