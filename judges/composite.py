"""Several judges as one: what an answer is worth is the weighted mean of what it is worth to each of them.

    judge:
      kind: composite
      parts:
        - {judge: "verifier:check='math:field=label'", weight: 3}
        - {judge: "rubric:model=smollm2", weight: 1, name: style, optional: true}

A part's score of an answer is its own, if it scores answers, else the probability that it gives to the answer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import PydanticCustomError

from arena.judges import JUDGES
from arena.judges.asking import ask_judge, is_async
from arena.judges.fingerprint import fingerprint
from arena.judges.members import AnyMember, build_members, seen_by
from arena.judges.types import AnyJudge, JudgeView
from arena.judges.verdicts import MOST_WEIGHT, abstain, scored
from arena.protocols.errors import ConfigError, UserError
from arena.protocols.records import Verdict
from arena.protocols.registry import parse_spec

__all__ = ["AsyncCompositeJudge", "CompositeJudge", "Part", "composite"]


@dataclass(frozen=True, slots=True)
class Part:
    """One of the judges."""

    name: str
    judge: AnyJudge
    weight: float
    """Positive; the weights of all parts are divided by their sum."""
    optional: bool = False
    """Where it is undecided, the others decide, with their weights divided by the sum of these."""


class _Composite:
    """What both kinds of composites share; see `composite`."""

    def __init__(self, parts: Sequence[Part], scale: float = 1.0) -> None:
        self.parts = tuple(parts)
        self.members = tuple(part.judge for part in parts)
        """Whose costs are this judge's."""
        self.scale = scale
        self.sees_label = any(part.judge.sees_label for part in parts)
        self.interactive = any(getattr(part.judge, "interactive", False) for part in parts)
        config = {"kind": "composite", "scale": scale}
        told = [[part.name, part.judge.name, part.weight, part.optional] for part in parts]
        self.name = f"composite@{fingerprint({**config, 'parts': told})}"

    def _combine(self, view: JudgeView, verdicts: Sequence[Verdict]) -> Verdict:
        told = []
        counted: list[tuple[float, Sequence[float]]] = []
        for part, verdict in zip(self.parts, verdicts, strict=True):
            scores = _scores(verdict)
            told.append(_told(part, verdict, scores))
            if verdict.decidable:
                counted.append((part.weight, scores))
            elif not part.optional:
                reason = f"part '{part.name}' is undecided: {verdict.evidence.get('reason', verdict.status.value)}"
                return abstain(self.name, reason, verdict.status, evidence={"parts": told})
        if not counted:
            reason = f"all {len(self.parts)} parts are undecided"
            return abstain(self.name, reason, verdicts[-1].status, evidence={"parts": told})
        whole = math.fsum(weight for weight, _ in counted)
        of_answers = zip(*(scores for _, scores in counted), strict=True)
        weights = [weight for weight, _ in counted]
        sums = [math.fsum(map(math.prod, zip(weights, scores, strict=True))) / whole for scores in of_answers]
        return scored(self.name, sums, {"parts": told}, answers=view.compared, scale=self.scale)


def _scores(verdict: Verdict) -> Sequence[float]:
    return verdict.scores or [math.exp(logp) for logp in verdict.logps]


def _told(part: Part, verdict: Verdict, scores: Sequence[float]) -> dict[str, Any]:
    return {
        "name": part.name,
        "judge": verdict.judge,
        "weight": part.weight,
        "status": verdict.status.value,
        "scores": list(scores),
        "evidence": verdict.evidence,
    }


class CompositeJudge(_Composite):
    """Judges that all answer at once."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view, in order; every part is asked about all views in one call."""
        by_part = [ask_judge(part.judge, [seen_by(part.judge, view) for view in views]) for part in self.parts]
        return list(map(self._combine, views, zip(*by_part, strict=True)))


class AsyncCompositeJudge(_Composite):
    """Judges of which some answer from afar, while other episodes go on."""

    def __init__(self, parts: Sequence[Part], scale: float = 1.0) -> None:
        super().__init__(parts, scale)
        self._asked = [AnyMember(part.judge) for part in parts]

    async def verdict(self, view: JudgeView) -> Verdict:
        """The verdict on one view; all parts are asked at once."""
        return self._combine(view, await asyncio.gather(*(member.verdict(view) for member in self._asked)))


class PartSpec(BaseModel):
    """A part as a file writes it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    judge: str | dict[str, Any] | None = None
    """Spec of a judge."""
    check: str | dict[str, Any] | None = None
    """Spec of a check, in place of a judge: the same as ``{kind: verifier, check: ...}``."""
    weight: Annotated[float, Field(gt=0, le=MOST_WEIGHT)] = 1.0
    name: str = ""
    """What it is called in reasons and evidence; the kind of the judge or check if empty."""
    optional: bool = False


_PARTS: TypeAdapter[list[PartSpec]] = TypeAdapter(list[PartSpec])


def _check_parts(parts: Any) -> Any:
    try:
        for number, part in enumerate(_read_parts(parts), start=1):
            spec = _judge_spec(part, number)
            try:
                JUDGES.check(spec, ("seed",))
            except UserError as error:
                raise ConfigError(f"part {number}: {error}") from None
    except ConfigError as error:
        raise PydanticCustomError("parts", "parts that can be built ({fault})", {"fault": str(error)}) from error
    return parts


Parts: TypeAlias = Annotated[
    list[str | dict[str, Any]] | dict[str, Annotated[float, Field(gt=0, le=MOST_WEIGHT)]], AfterValidator(_check_parts)
]
"""Argument that names the parts of a composite."""


def composite(
    *,
    parts: Parts,
    scale: Annotated[float, Field(gt=0, le=MOST_WEIGHT)] = 1.0,
    seed: int = 0,
) -> CompositeJudge | AsyncCompositeJudge:
    """The weighted mean of what answers are worth to several judges.

    Args:
        parts: ``{SPEC: WEIGHT, ...}``, or a list of specs and of ``{judge: SPEC or check: SPEC, weight, name,
            optional}``. A part that is undecided makes the whole undecided, unless it is optional.
        scale: nats that one unit of the mean is worth where answers are compared.
        seed: for the parts.

    Raises:
        ConfigError: there are no parts, a part is none, or two have one name.
    """
    read = _read_parts(parts)
    specs = [_judge_spec(part, number) for number, part in enumerate(read, start=1)]
    if not specs:
        raise ConfigError("a composite needs parts=[...]: give it a judge at least")
    judges = build_members(specs, "composite", seed=seed)
    names = _names(read)
    made = [
        Part(name, judge, part.weight, part.optional) for name, judge, part in zip(names, judges, read, strict=True)
    ]
    return (AsyncCompositeJudge if any(map(is_async, judges)) else CompositeJudge)(made, scale)


def _read_parts(parts: list[str | dict[str, Any]] | dict[str, float]) -> list[PartSpec]:
    """The parts as values.

    Raises:
        ConfigError: one of them is none.
    """
    listed = [{"judge": spec, "weight": weight} for spec, weight in parts.items()] if isinstance(parts, dict) else parts
    try:
        return _PARTS.validate_python([{"judge": part} if not _is_part(part) else part for part in listed])
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place = ".".join(map(str, fault["loc"][1:]))
        where = f"part {int(fault['loc'][0]) + 1}" + (f", '{place}'" if place else "")
        raise ConfigError(f"{where} of judge 'composite': {fault['msg']}") from None


def _is_part(part: str | Mapping[str, Any]) -> bool:
    return isinstance(part, Mapping) and "kind" not in part


def _judge_spec(part: PartSpec, number: int) -> str | dict[str, Any]:
    if (part.judge is None) == (part.check is None):
        raise ConfigError(f"part {number} of judge 'composite' needs either judge: SPEC or check: SPEC")
    return part.judge if part.judge is not None else {"kind": "verifier", "check": part.check}


def _names(parts: Sequence[PartSpec]) -> list[str]:
    names = [part.name or parse_spec(part.judge or part.check or "").kind for part in parts]
    for number, name in enumerate(names):
        if parts[number].name and names.count(name) > 1:
            raise ConfigError(f"two parts of judge 'composite' are called '{name}': give each a name of its own")
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names, start=1)]
