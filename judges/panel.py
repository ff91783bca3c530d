"""A panel: several judges on the same case, and one verdict of theirs.

    rule       distribution over the answers                                          decided where
    mean       mean of the members' probabilities (linear opinion pool)               members of the quorum decide
    median     median of the members' probabilities, normalised                       members of the quorum decide
    majority   share of the members that chose it; most choices win, equals tie       members of the quorum decide
    quorum     share of the members that chose it                                     the quorum chose the same answer

Probabilities are averaged and not log-probs: a verifier that is certain (`arena.judges.verdicts.FLOOR`) would overrule
everybody in a mean of log-probs, however many there are. A member without a usable verdict leaves; nothing stands in
for it. A member that finds a tie shares its choice out among the answers that lead, and is not one of those that a
quorum needs to choose an answer.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from arena.judges import JUDGES
from arena.judges.asking import ask_judge, is_async
from arena.judges.fingerprint import fingerprint
from arena.judges.members import AnyMember, SpecLike, build_members, seen_by
from arena.judges.types import AnyJudge, JudgeView
from arena.judges.verdicts import FLOOR, abstain, decide, normalise
from arena.protocols.errors import ConfigError
from arena.protocols.records import Verdict, VerdictStatus
from arena.protocols.registry import Spec, parse_spec

__all__ = ["AsyncPanel", "Panel", "PanelRule", "panel"]

PanelRule = Literal["mean", "median", "majority", "quorum"]

_EVEN = 1e-9
"""Probabilities that differ by less lead together."""


class _PanelBase:
    """Members and the rule that makes one verdict of theirs.

    Args:
        members: at least two instruments.
        rule: see above.
        quorum: least number of members that must decide, for rule ``quorum`` choose the same answer; None: more than
            half of them.

    Raises:
        ConfigError: fewer than two members, the same instrument twice, or a quorum that cannot be.
    """

    def __init__(self, members: Sequence[AnyJudge], rule: PanelRule = "mean", quorum: int | None = None) -> None:
        self.members = tuple(members)
        self.rule = rule
        self.quorum = len(members) // 2 + 1 if quorum is None else quorum
        self._check()
        self.sees_label = any(member.sees_label for member in members)
        self.interactive = any(getattr(member, "interactive", False) for member in members)
        config = {"kind": "panel", "version": 1, "rule": rule, "quorum": self.quorum}
        self.name = f"panel@{fingerprint({**config, 'members': [member.name for member in members]})}"

    def _check(self) -> None:
        count = len(self.members)
        if count < 2:
            raise ConfigError(f"a panel has at least two members, not {count}")
        (name, times), *_ = Counter(member.name for member in self.members).most_common(1)
        if times > 1:
            raise ConfigError(
                f"{times} members of a panel are the same instrument, {name}: their verdicts would be copies. Name "
                "each once; an ensemble of one judge needs something that its seed decides, such as temperature=1"
            )
        if not 1 <= self.quorum <= count:
            raise ConfigError(f"quorum={self.quorum} of {count} members: write a number from 1 to {count}")
        if self.rule == "quorum" and 2 * self.quorum <= count:
            raise ConfigError(
                f"quorum={self.quorum} of {count} members: two answers could both reach it with rule=quorum; write at "
                f"least {count // 2 + 1}"
            )

    def combine(self, view: JudgeView, verdicts: Sequence[Verdict]) -> Verdict:
        """One verdict of the members', which are kept in its evidence."""
        decided = [verdict for verdict in verdicts if verdict.decidable]
        evidence = {"rule": self.rule, "quorum": self.quorum, "members": [_kept(verdict) for verdict in verdicts]}
        if len(decided) < self.quorum:
            combined = self._undecided(verdicts)
        elif not view.compared:
            combined = self._rate(decided)
        else:
            combined = self._choose(decided, view.compared)
        combined.evidence = {**evidence, **combined.evidence}
        return combined

    def _undecided(self, verdicts: Sequence[Verdict]) -> Verdict:
        """Too few members decided; the status is theirs if they agree on it."""
        statuses = Counter(verdict.status for verdict in verdicts if not verdict.decidable)
        count = len(verdicts) - statuses.total()
        why = ", ".join(f"{number} {status}" for status, number in statuses.items())
        reason = f"{count} of {len(verdicts)} members decided, the quorum is {self.quorum} ({why})"
        return abstain(self.name, reason, next(iter(statuses)) if len(statuses) == 1 else VerdictStatus.ABSTAIN)

    def _rate(self, decided: Sequence[Verdict]) -> Verdict:
        """What the members say that the only thing there is is worth."""
        if scores := self._pooled_scores(decided):
            return Verdict(VerdictStatus.SCORED, self.name, scores=scores)
        return abstain(self.name, f"there are no answers to choose between, so rule={self.rule} has nothing to count")

    def _choose(self, decided: Sequence[Verdict], count: int) -> Verdict:
        choices = [_choices(verdict.logps) for verdict in decided]
        if self.rule == "quorum":
            outright = Counter(chosen[0] for chosen in choices if len(chosen) == 1)
            if max(outright.values(), default=0) < self.quorum:
                return abstain(self.name, f"no answer was chosen by {self.quorum} of {len(self.members)} members")
        if self.rule in ("mean", "median"):
            columns = zip(*([math.exp(logp) for logp in verdict.logps] for verdict in decided), strict=True)
            pooled = [_pool(self.rule, column) for column in columns]
        else:
            pooled = [sum((answer in chosen) / len(chosen) for chosen in choices) for answer in range(count)]
        verdict = decide(self.name, _logps(pooled), {})
        verdict.scores = self._pooled_scores(decided)
        return verdict

    def _pooled_scores(self, decided: Sequence[Verdict]) -> tuple[float, ...]:
        """Mean or median of what each answer is worth; nothing where a member does not say, or choices are counted."""
        scores = [verdict.scores for verdict in decided]
        if self.rule not in ("mean", "median") or not all(scores):
            return ()
        return tuple(_pool(self.rule, column) for column in zip(*scores, strict=True))


class Panel(_PanelBase):
    """A panel of judges that all answer at once; see `arena.judges.types.Judge`."""

    def judge(self, views: Sequence[JudgeView]) -> list[Verdict]:
        """One verdict a view; each member is asked about all views in one call."""
        by_member = [ask_judge(member, [seen_by(member, view) for view in views]) for member in self.members]
        by_view = zip(*by_member, strict=True)
        return [self.combine(view, verdicts) for view, verdicts in zip(views, by_view, strict=True)]


class AsyncPanel(_PanelBase):
    """A panel with a member that answers from afar; see `arena.judges.types.AsyncJudge`."""

    def __init__(self, members: Sequence[AnyJudge], rule: PanelRule = "mean", quorum: int | None = None) -> None:
        super().__init__(members, rule, quorum)
        self._asked = [AnyMember(member) for member in members]

    async def verdict(self, view: JudgeView) -> Verdict:
        """The verdict on a view; all members are asked at once."""
        return self.combine(view, await asyncio.gather(*(member.verdict(view) for member in self._asked)))


def _kept(verdict: Verdict) -> dict[str, Any]:
    """A member's verdict as evidence."""
    kept = {"judge": verdict.judge, "status": str(verdict.status), "logps": list(verdict.logps)}
    return {**kept, "stated": verdict.stated, "scores": list(verdict.scores), "evidence": dict(verdict.evidence)}


def _choices(logps: Sequence[float]) -> list[int]:
    """The best answer, or all that lead together."""
    best = max(logps)
    return [answer for answer, logp in enumerate(logps) if logp == best]


def _pool(rule: PanelRule, values: Sequence[float]) -> float:
    return statistics.fmean(values) if rule == "mean" else statistics.median(values)


def _logps(pooled: Sequence[float]) -> tuple[float, ...]:
    """Log-probs in the proportions that are given; what is as good as equal to the best is equal to it."""
    best, total = max(pooled), sum(pooled)
    even = [best if best - share < _EVEN * best else share for share in pooled]
    return normalise([max(math.log(share / total), FLOOR) if share > 0 else FLOOR for share in even])


def panel(
    *,
    judges: Annotated[list[SpecLike], Field(min_length=2)] | None = None,
    judge: SpecLike | None = None,
    n: Annotated[int, Field(ge=2, le=10**9)] | None = None,
    rule: PanelRule = "mean",
    quorum: Annotated[int, Field(ge=1, le=10**9)] | None = None,
    seed: int = 0,
) -> Panel | AsyncPanel:
    """The panel that a spec names: ``panel:judges=[exact, "llm:model=smollm2"],rule=majority``, or an ensemble of one
    judge with ``n`` seeds, ``panel:judge="llm:model=smollm2,rationale=64",n=5``.

    Raises:
        ConfigError: neither or both are given, a member that cannot be built or is there twice, or no such quorum.
    """
    if (judges is None) == (judge is None) or (judge is None) != (n is None):
        raise ConfigError('a panel needs either judges=[SPEC, "SPEC", ...], or judge="SPEC" and n=N seeds of it')
    specs: Sequence[SpecLike | Spec] = judges or []
    if judge is not None and n is not None:
        specs = _seeded(judge, n, seed)
    members = build_members(specs, "panel", seed=seed)
    return (AsyncPanel if any(map(is_async, members)) else Panel)(members, rule, quorum)


def _seeded(judge: SpecLike, n: int, seed: int) -> list[Spec]:
    """``n`` specs of a judge with seeds that follow each other.

    Raises:
        ConfigError: its kind takes no seed.
    """
    spec = parse_spec(judge)
    if "seed" not in inspect.signature(JUDGES.factory(spec.kind)).parameters:
        raise ConfigError(f"judge '{spec.kind}' takes no seed, so {n} of it would be one; name different judges=[...]")
    first = spec.args.get("seed", seed)
    if isinstance(first, bool) or not isinstance(first, int):
        raise ConfigError(f"seed={first!r} of judge '{spec.kind}' is not a whole number, so {n} cannot follow it")
    return [Spec(spec.kind, {**spec.args, "seed": first + number}) for number in range(n)]
