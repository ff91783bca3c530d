"""Runs an audit: shows a judge its cases, stores every verdict as it comes, and works the measures out."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from arena.agents import AGENTS
from arena.agents.prices import used_by
from arena.audit.design import Shown, presentations, view_of
from arena.audit.material import Case, Material, from_episodes, from_tasks, pairs, written
from arena.audit.measures import Seen, measure
from arena.engine import AnyAgent
from arena.judges import JUDGES
from arena.judges.asking import ask_judge
from arena.judges.types import AnyJudge
from arena.protocols.errors import BackendError, ConfigError
from arena.protocols.records import Task, Verdict
from arena.records_json import read_verdict, verdict_fields
from arena.running import fingerprint_tasks, played_games, record_tasks, stored_protocol, stored_tasks
from arena.store import RunHandle, Store
from arena.tasks import open_tasks

__all__ = ["AuditConfig", "run_audit"]

_BLOCK = 8
"""Cases whose verdicts are stored together."""


@dataclass(frozen=True, slots=True)
class AuditConfig:
    """All that determines an audit."""

    judge: str
    """Spec of the judge."""
    tasks: str | None = None
    """Task spec; needed unless there are transcripts."""
    transcripts: str | None = None
    """Run directory whose debates are shown in place of statements made for the audit."""
    node: str | None = None
    """Judge node of the transcripts; None takes the last."""
    n: int | None = None
    """Most tasks (or transcripts); None takes all."""
    seed: int = 0
    split: str = "test"
    """Which part of the tasks."""
    sees: tuple[str, ...] = ()
    """Task fields that the judge sees beside question and answers."""
    own: str | None = None
    """Agent that writes the statements, of the judge's own family; None takes templates."""
    other: str | None = None
    """Agent of another family that writes them too, to measure self-preference."""
    beside: tuple[str, ...] = ()
    """Specs of judges to compare with."""


def run_audit(
    config: AuditConfig,
    out: Path,
    *,
    created: str,
    resume: bool = False,
    on_start: Callable[[int, int], None] | None = None,
    on_batch: Callable[[Sequence[Verdict]], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Any]:
    """Audit a judge and store its verdicts and the result in ``out``.

    Args:
        config: what to audit; a resumed audit must have the same.
        out: run directory.
        created: time stamp to store.
        resume: go on with an audit that is there.
        on_start: called with (verdicts to come in all, verdicts stored already).
        on_batch: called with verdicts of the judge that was audited as they come.
        clock: seconds, for what a verdict costs.

    Returns:
        The document of ``arena audit --json``.

    Raises:
        UserError: a mistake in judge, tasks or transcripts; nothing was asked.
        ResumeError: the directory holds another run.
    """
    _check(config)
    judge = JUDGES.build(config.judge, seed=config.seed)
    others = {spec: JUDGES.build(spec, seed=config.seed) for spec in config.beside}
    source = _from_transcripts(config, judge) if config.transcripts else _from_tasks(config)
    identity = {
        **asdict(config),
        "judge": JUDGES.identity(config.judge),
        "beside": [JUDGES.identity(spec) for spec in config.beside],
        "own": config.own and AGENTS.identity(config.own),
        "other": config.other and AGENTS.identity(config.other),
        "judge_fingerprint": [each.name for each in (judge, *others.values())],
        "material_fingerprint": source.fingerprint,
    }
    with Store.open(out) as store:
        run = store.begin("audit", identity, created, resume)
        record_tasks(run, source.tasks)
        material = source.material or _write(run, config, source, judge)
        # Templates have no family; only a judge that reads `Statement.family` can then prefer its own.
        family = getattr(judge, "family", "")
        shown = presentations(material.cases, families=bool(family or config.other), seed=config.seed)
        audit = _Audit(run, judge, others, material.cases, shown, family, clock)
        seen, beside = audit.go(on_start, on_batch)
        result = {
            "judge": judge.name,
            "spec": config.judge,
            "tasks": config.tasks or config.transcripts,
            "seed": config.seed,
            "material": material.what,
            "cases": len(material.cases),
            "questions": len({case.cluster for case in material.cases}),
            "left_out": dict(material.left_out),
            "cost": audit.cost(),
            **measure(seen, beside),
        }
        run.record("audit", 0, result)
        run.finish("done")
    return result


def _check(config: AuditConfig) -> None:
    if config.split not in ("train", "test"):
        raise ConfigError(f"split={config.split!r} is neither 'train' nor 'test'")
    if (config.tasks is None) == (config.transcripts is None):
        raise ConfigError("an audit needs either --tasks SPEC, to make statements for, or --transcripts DIR of a run")
    if config.transcripts and (config.own or config.other or config.sees):
        raise ConfigError(
            "--transcripts brings statements and what the judge sees: leave out --own, --other and --sees"
        )
    if config.node and not config.transcripts:
        raise ConfigError("--node names a judge node of --transcripts")
    if config.other and not config.own:
        raise ConfigError("--other needs --own SPEC, an agent of the judge's own family to compare it with")
    if twice := [spec for spec, count in Counter((config.judge, *config.beside)).items() if count > 1]:
        raise ConfigError(f"'{twice[0]}' would be compared with itself: give --with another judge")


@dataclass(frozen=True, slots=True)
class _Source:
    """What an audit is made from, looked through before anything is stored."""

    fingerprint: str
    tasks: Sequence[Task] = ()
    left_out: Counter[str] = field(default_factory=Counter)
    material: Material | None = None
    """None if agents are still to write it."""
    writers: Sequence[AnyAgent] = ()


def _from_transcripts(config: AuditConfig, judge: AnyJudge) -> _Source:
    assert config.transcripts is not None
    with Store.open(config.transcripts, create=False) as store:
        run = store.run()
        episodes = played_games(run)[: config.n]
        cases, left_out = from_episodes(stored_protocol(run), episodes, stored_tasks(run), judge, config.node)
    if not cases:
        raise ConfigError(f"{config.transcripts} holds no transcript for an audit: {_counts(left_out)}")
    what = f"transcripts of {config.transcripts}; the order of turns stays, that of the answers changes"
    return _Source(f"{run.fingerprint} {len(cases)}", material=Material(cases, what, left_out))


def _from_tasks(config: AuditConfig) -> _Source:
    assert config.tasks is not None
    taskset = open_tasks(config.tasks, seed=config.seed)
    tasks, left_out = pairs(taskset.test if config.split == "test" else taskset.train, config.seed)
    tasks = tasks[: config.n]
    cases = from_tasks(tasks, config.sees)
    writers = [AGENTS.build(spec, tasks=taskset, seed=config.seed) for spec in (config.own, config.other) if spec]
    what = "statements by template: they say which answer they are for, and nothing else"
    material = None if writers else Material(cases, what, left_out)
    return _Source(fingerprint_tasks(tasks), tasks, left_out, material, writers)


def _write(run: RunHandle, config: AuditConfig, source: _Source, judge: AnyJudge) -> Material:
    cases, gone = written(source.tasks, source.writers, judge, config.sees, run, config.seed)
    if not cases:
        raise BackendError(f"no statements were written for any task: {_counts(gone)}")
    what = f"statements by {config.own}" + (f" (own family) and {config.other}" if config.other else "")
    return Material(cases, what, source.left_out + gone)


def _counts(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "it is empty"


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the judges said of a block of cases."""

    judge: Sequence[Verdict]
    beside: Mapping[str, Sequence[Verdict]]
    """Spec of another judge -> its verdicts on the presentations without a probe."""
    seconds: float
    """That the judge took."""

    def fields(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "judge": [verdict_fields(verdict) for verdict in self.judge],
            "beside": {spec: [verdict_fields(v) for v in verdicts] for spec, verdicts in self.beside.items()},
            "seconds": self.seconds,
        }

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> _Answers:
        """What `fields` wrote."""
        beside = {spec: [read_verdict(each) for each in verdicts] for spec, verdicts in row["beside"].items()}
        return cls([read_verdict(each) for each in row["judge"]], beside, row["seconds"])


class _Audit:
    """The questions put to the judges, block by block."""

    def __init__(
        self,
        run: RunHandle,
        judge: AnyJudge,
        others: Mapping[str, AnyJudge],
        cases: Sequence[Case],
        shown: Sequence[Sequence[Shown]],
        family: str,
        clock: Callable[[], float],
    ) -> None:
        self._run = run
        self._judge = judge
        self._others = others
        self._cases = cases
        self._shown = shown
        self._family = family
        self._clock = clock
        # What a person said before leaving is kept case by case.
        self._size = 1 if getattr(judge, "interactive", False) else _BLOCK
        self._seconds = 0.0
        self._asked = 0

    def go(
        self, on_start: Callable[[int, int], None] | None, on_batch: Callable[[Sequence[Verdict]], None] | None
    ) -> tuple[list[Seen], dict[str, list[Verdict]]]:
        """Ask what is not stored yet; everything, in the order of the cases."""
        stored = self._run.series("verdicts")
        if on_start is not None:
            on_start(sum(map(len, self._shown)), sum(len(row["judge"]) for row in stored.values()))
        seen: list[Seen] = []
        beside: dict[str, list[Verdict]] = {spec: [] for spec in self._others}
        for start in range(0, len(self._cases), self._size):
            each = [(case, shown) for case, several in self._block(start) for shown in several]
            answers = _Answers.read(stored[start]) if start in stored else self._ask(start, each)
            seen += [Seen(case, shown, verdict) for (case, shown), verdict in zip(each, answers.judge, strict=True)]
            for spec in beside:
                beside[spec] += answers.beside[spec]
            self._seconds += answers.seconds
            self._asked += len(answers.judge)
            if on_batch is not None and start not in stored:
                on_batch(answers.judge)
        return seen, beside

    def _block(self, start: int) -> zip[tuple[Case, Sequence[Shown]]]:
        end = start + self._size
        return zip(self._cases[start:end], self._shown[start:end], strict=True)

    def _ask(self, start: int, each: Sequence[tuple[Case, Shown]]) -> _Answers:
        before = self._clock()
        verdicts = self._verdicts(self._judge, each)
        seconds = self._clock() - before
        plain = [(case, shown) for case, shown in each if shown.plain]
        beside = {spec: self._verdicts(other, plain) for spec, other in self._others.items()}
        answers = _Answers(verdicts, beside, seconds)
        self._run.record("verdicts", start, answers.fields())
        return answers

    def _verdicts(self, judge: AnyJudge, each: Sequence[tuple[Case, Shown]]) -> Sequence[Verdict]:
        family = getattr(judge, "family", "") or self._family
        views = [view_of(case, shown, sees_label=judge.sees_label, family=family) for case, shown in each]
        return ask_judge(judge, views)

    def cost(self) -> dict[str, Any]:
        """What a verdict costs: seconds, and tokens and US dollars where the judge counts them (this process only)."""
        usage = used_by([self._judge])
        calls = sum(each.calls for each in usage)
        bills = [each.cost for each in usage]
        known = calls > 0 and None not in bills
        return {
            "seconds_per_verdict": self._seconds / max(1, self._asked),
            "tokens_per_call": sum(each.prompt_tokens + each.completion_tokens for each in usage) / calls
            if calls
            else None,
            "calls": calls,
            "usd": sum(bill or 0.0 for bill in bills) if known else None,
        }
