"""From a recipe that trains a judge to everything it makes.

OUT/config.json     recipe as resolved, seed
OUT/judge/          the trained judge: ``KIND:path=OUT/judge``
OUT/metrics.jsonl   one row a logged step
OUT/checkpoint.pt   state at the last save; a stopped run goes on from there bit for bit
OUT/run.sqlite      configuration, the labels of each round, results
OUT/results.json    what ``arena train --json`` prints
OUT/report.html     the same for people
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from arena.judges import JUDGES
from arena.judges.reward_model import RewardModelJudge
from arena.judges.types import AnyJudge
from arena.protocols.errors import ConfigError, UndecidedError
from arena.protocols.records import Verdict
from arena.records_json import finite
from arena.seeds import derive_seed
from arena.statistics import Interval
from arena.store import RunHandle, Store
from arena.training.calibration import Calibrated, calibrate
from arena.training.checkpoints import load_checkpoint, save_checkpoint
from arena.training.judge_data import DATA, Example, LabelledViews
from arena.training.judge_measures import JudgeMeasures, gain, measure, verdicts_on
from arena.training.judge_methods import JudgeTrainer, SavedJudge
from arena.training.judge_recipes import SELF, TRUTH, JudgeTraining
from arena.training.judge_reporting import write_judge_report
from arena.training.launch import one_setting
from arena.training.reward_config import RewardMethod
from arena.undecided import FIRST_LOOK, Undecided, UndecidedLimit

__all__ = ["JudgeOutcome", "LabelReport", "launch_judge"]

Listener = Callable[[dict[str, Any]], None]

_NO_RESULT = {"max_undecidable"}
"""Keys of a recipe that decide when to stop and nothing of what comes out; a resumed run may change them."""
_LOGGED = 20
_SAVED = 100
"""Steps between two rows of the log, and between two checkpoints: a multiple, so that each row has all of its steps."""


@dataclass(frozen=True, slots=True)
class LabelReport:
    """Who labelled what is learned from, and how well."""

    by: str
    """Name of the instrument; ``truth`` for the labels of the data."""
    used: int
    left_out: Mapping[str, int]
    """Status of the verdict (``no label`` for the data's own) -> examples that nothing is learned from."""
    right: float | None
    """Share of the labels that agree with those of the data, where these are known."""


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What calibrating changed; both figures are on the held-out views."""

    fitted: Calibrated
    ece_before: Interval
    ece_after: Interval
    log_loss_before: Interval
    log_loss_after: Interval

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        names = ("ece_before", "ece_after", "log_loss_before", "log_loss_after")
        return {**self.fitted.plain(), **{name: _interval(getattr(self, name)) for name in names}}


@dataclass(frozen=True, slots=True)
class JudgeOutcome:
    """A finished training of a judge."""

    recipe: JudgeTraining
    seed: int
    out: Path
    before: JudgeMeasures
    after: JudgeMeasures
    gain: Interval
    """Rise of accuracy on the views that the judge decided before and after, paired."""
    teacher: JudgeMeasures | None
    """The judge that labelled, on the same held-out views."""
    labels: Sequence[LabelReport]
    """One for each round."""
    calibration: CalibrationReport | None
    """What was fitted to the probabilities; None where the recipe does not ask for it."""
    data: LabelledViews
    seconds: float

    def plain(self) -> dict[str, Any]:
        """What ``--json`` prints for this run."""
        return {
            "trains": "judge",
            "before": self.before.plain(),
            "after": self.after.plain(),
            "gain": _interval(self.gain),
            "teacher": None if self.teacher is None else self.teacher.plain(),
            "labels": [
                {"by": r.by, "used": r.used, "left_out": dict(r.left_out), "right": r.right} for r in self.labels
            ],
            "calibration": None if self.calibration is None else self.calibration.plain(),
            "max_undecidable": self.recipe.max_undecidable,
            "data": {"train": len(self.data.train), "held_out": len(self.data.held_out), **self.data.notes},
            "judge": f"{self.recipe.judge.kind}:path={self.out / 'judge'}",
            "seconds": self.seconds,
        }


def _interval(interval: Interval) -> dict[str, Any]:
    return {name: getattr(interval, name) for name in ("value", "low", "high", "n")}


def launch_judge(
    recipe: JudgeTraining, out: Path, *, seed: int, created: str, on_event: Listener, resume: bool = False
) -> JudgeOutcome:
    """Train a judge as the recipe says, measure it before and after on what is held out, and keep it.

    Args:
        recipe: what to do.
        out: run directory.
        seed: root of all random streams.
        created: time stamp to store with the run.
        on_event: receives progress.
        resume: go on with the run that is in ``out``.

    Raises:
        ResumeError: ``out`` holds another run.
        UserError: the data cannot be had, or the judge cannot learn from it.
        UndecidedError: too many verdicts of the judge, or of the one that labels, cannot be used.
    """
    started = time.perf_counter()
    with Store.open(out) as store, one_setting(recipe.threads):
        data = DATA.build(recipe.data, seed=derive_seed(seed, "data") % 2**31)
        data.check()
        identity = {
            "recipe": recipe.model_dump(mode="json", exclude=_NO_RESULT),
            "seed": seed,
            "data": _fingerprint(data),
        }
        run = store.begin("train-judge", identity, created=created, resume=resume)
        (out / "config.json").write_text(json.dumps(identity, indent=2) + "\n")
        outcome = _Training(recipe, seed, out, run, data, on_event).run(started)
        plain = finite({"recipe": recipe.recipe, "seed": seed, **outcome.plain()})
        (out / "results.json").write_text(json.dumps(plain, indent=2, allow_nan=False) + "\n")
        run.record("results", 0, plain)
        run.finish("done")
    write_judge_report(out / "report.html", [out], title=f"{recipe.recipe}, seed {seed}", created=created)
    return outcome


class _Training:
    """One run of a recipe."""

    def __init__(
        self, recipe: JudgeTraining, seed: int, out: Path, run: RunHandle, data: LabelledViews, on_event: Listener
    ) -> None:
        self.recipe, self.seed, self.out, self.handle = recipe, seed, out, run
        self.data, self.on_event = data, on_event
        self.method = recipe.method
        self.trainer: JudgeTrainer = self.method.build(recipe.judge.spec, seed=derive_seed(seed, "judge") % 2**31)
        teacher = recipe.labels.teacher
        self.teacher: AnyJudge | None = None if teacher is None else JUDGES.build(teacher, seed=seed)
        self.step = 0
        self.apart = self._apart()
        self.kept_back: list[Example] = []
        """Labelled examples of ``apart``."""

    def _apart(self) -> frozenset[str]:
        """Clusters that are not learned from, since probabilities are fitted on them."""
        config = self.method.calibration if isinstance(self.method, RewardMethod) else None
        if config is None:
            return frozenset()
        clusters = sorted({example.cluster for example in self.data.train})
        if len(clusters) < 2:
            raise ConfigError("train.calibration keeps questions back, and the data has one only: remove it")
        count = min(max(round(config.share * len(clusters)), 1), len(clusters) - 1)
        rng = np.random.default_rng(derive_seed(self.seed, "calibration"))
        return frozenset(clusters[place] for place in rng.permutation(len(clusters))[:count].tolist())

    def run(self, started: float) -> JudgeOutcome:
        untrained = self.trainer.judge()
        before = self.measured(untrained, "before")
        self.restore()
        reports = [self.round(number) for number in range(self.recipe.labels.rounds)]
        judge, calibration = self.calibrated(self.trainer.judge())
        judge.save(self.out / "judge")
        after = self.measured(judge, "after")
        teacher = None if self.teacher is None else self.measured(self.teacher, "teacher")
        rise = gain(before, after, self.data.held_out, seed=self.seed)
        seconds = time.perf_counter() - started
        report = None
        if calibration is not None:
            raw, fitted = calibration
            report = CalibrationReport(fitted, raw.ece, after.ece, raw.log_loss, after.log_loss)
        return JudgeOutcome(
            self.recipe, self.seed, self.out, before, after, rise, teacher, reports, report, self.data, seconds
        )

    def calibrated(self, judge: SavedJudge) -> tuple[SavedJudge, tuple[JudgeMeasures, Calibrated] | None]:
        """The judge with fitted probabilities, and how it was before; as it is where the recipe asks for nothing."""
        if not self.apart:
            return judge, None
        assert isinstance(self.method, RewardMethod)
        assert self.method.calibration is not None
        assert isinstance(judge, RewardModelJudge)
        raw = self.measured(judge, "uncalibrated")
        found, fitted = calibrate(judge, self.kept_back, self.method.calibration)
        return found, (raw, fitted)

    def measured(self, judge: AnyJudge, part: str) -> JudgeMeasures:
        self.on_event({"event": "phase", "phase": "measuring", "part": part, "games": len(self.data.held_out)})
        found = measure(judge, self.data.held_out, seed=self.seed)
        self.limited(found.undecided, f"{found.judge}, measured {part if part != 'teacher' else 'as teacher'}")
        return found

    def limited(self, found: Undecided, who: str) -> None:
        """Stop where too many verdicts cannot be used.

        Raises:
            UndecidedError: there are.
        """
        limit = self.recipe.max_undecidable
        if found.verdicts >= FIRST_LOOK and found.share > limit:
            raise UndecidedError(
                f"{who}: too many verdicts cannot be used (max_undecidable is {limit:g}): {found}. Take another judge, "
                "or mend what it is asked; or raise the limit (max_undecidable=...), and go on by --resume"
            )

    def round(self, number: int) -> LabelReport:
        """Label the examples and learn from them for as many steps as the recipe says."""
        labelled, report = self.labelled(number)
        examples = [example for example in labelled if example.cluster not in self.apart]
        self.kept_back = [example for example in labelled if example.cluster in self.apart]
        _need(examples, report.by)
        report = replace(report, used=len(examples))
        steps = self.method.steps
        if self.step >= (number + 1) * steps:
            return report
        self.trainer.begin(examples)
        rows: list[dict[str, float]] = []
        while self.step < (number + 1) * steps:
            rows.append(self.trainer.step(self.step))
            self.step += 1
            last = self.step == (number + 1) * steps
            if self.step % _LOGGED == 0 or last:
                self.log(number + 1, rows)
                rows = []
            if self.step % _SAVED == 0 or last:
                self.save()
        return report

    def labelled(self, number: int) -> tuple[list[Example], LabelReport]:
        """The examples of a round as its labeller labels them."""
        examples = self.data.train
        if self.recipe.labels.by == TRUTH:
            used = [e for e in examples if e.label is not None] if self.method.needs_labels else list(examples)
            lost = len(examples) - len(used)
            _need(used, "the data")
            return used, LabelReport(TRUTH, len(used), {"no label": lost} if lost else {}, None)
        said = self.handle.series("labels").get(number)
        if said is None:
            said = self.asked(number)
        self.limited(Undecided(**said["undecided"]), f"{said['by']}, which labels")
        kept = [replace(e, label=label) for e, label in zip(examples, said["labels"], strict=True) if label is not None]
        known = [
            label == example.label
            for example, label in zip(examples, said["labels"], strict=True)
            if label is not None and example.label is not None
        ]
        _need(kept, said["by"])
        right = sum(known) / len(known) if known else None
        return kept, LabelReport(said["by"], len(kept), said["left_out"], right)

    def asked(self, number: int) -> dict[str, Any]:
        """What the labeller says now; a judge that labels itself is a copy that later steps do not change."""
        labeller = self.trainer.judge() if self.recipe.labels.by == SELF else self.teacher
        assert labeller is not None
        self.on_event(
            {"event": "phase", "phase": "labelling", "part": f"round {number + 1}", "games": len(self.data.train)}
        )
        verdicts = verdicts_on(labeller, self.data.train)
        rng = np.random.default_rng(derive_seed(self.seed, "labels", number)) if self.recipe.labels.soft else None
        labels = [_label(verdict, rng) for verdict in verdicts]
        left_out = Counter(v.status.value for v, label in zip(verdicts, labels, strict=True) if label is None)
        limit = UndecidedLimit(1.0)
        limit.add(verdicts)
        said = {"by": labeller.name, "labels": labels, "left_out": dict(sorted(left_out.items()))}
        said["undecided"] = asdict(limit.found)
        self.handle.record("labels", number, said)
        return said

    # -- what is kept

    @property
    def checkpoint(self) -> Path:
        return self.out / "checkpoint.pt"

    def save(self) -> None:
        state = {
            "step": self.step,
            "trainer": self.trainer.state_dict(),
            "metrics_bytes": (self.out / "metrics.jsonl").stat().st_size,
        }
        save_checkpoint(self.checkpoint, state)

    def restore(self) -> None:
        """Go on from the checkpoint, if there is one; the store has made sure that it is of this run."""
        if not self.checkpoint.is_file():
            (self.out / "metrics.jsonl").write_text("")
            return
        state = load_checkpoint(self.checkpoint)
        self.trainer.load_state_dict(state["trainer"])
        self.step = state["step"]
        with (self.out / "metrics.jsonl").open("r+b") as stream:
            stream.truncate(state["metrics_bytes"])

    def log(self, number: int, rows: Sequence[Mapping[str, float]]) -> None:
        """A row of the log: means over the steps since the last one."""
        names = dict.fromkeys(name for row in rows for name in row)
        found = {name: [row[name] for row in rows if name in row] for name in names}
        means = {name: sum(values) / len(values) for name, values in found.items()}
        of = self.method.steps * self.recipe.labels.rounds
        row = {"phase": "training", "round": number, "step": self.step, "of": of, **means}
        with (self.out / "metrics.jsonl").open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        self.on_event({"event": "phase", **row})


def _label(verdict: Verdict, rng: np.random.Generator | None) -> int | None:
    """What a verdict labels: its choice, or an answer drawn from its distribution."""
    if rng is None or not verdict.decidable or not verdict.logps:
        return verdict.choice
    probs = np.exp(verdict.logps)
    return int(rng.choice(len(probs), p=probs / probs.sum()))


def _need(examples: Sequence[Example], labeller: str) -> None:
    if not examples:
        raise ConfigError(f"nothing to learn from: {labeller} labels none of the examples")


def _fingerprint(data: LabelledViews) -> str:
    """Of the examples, labels included: a resumed run must have the same."""
    digest = blake2b(digest_size=8)
    for part in (data.train, data.held_out):
        for each in part:
            digest.update(
                repr((each.view, each.label, each.cluster, each.margin, each.steps)).encode("utf-8", "replace")
            )
    return digest.hexdigest()
